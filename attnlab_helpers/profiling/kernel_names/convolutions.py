"""Names of convolutions inside cuDNN: the reordering of axes around them, and CUTLASS's product.

The rules come from the names themselves; CUTLASS documents its own in
`python/cutlass_library/library.py` (fprop is forward, dgrad and wgrad are its two gradients).
"""

from __future__ import annotations

import re

from .description import DTYPES, KernelDescription, ReadName

_REORDER = re.compile(r"(nchw|nhwc)To(Nchw|Nhwc)Kernel")
_TYPES = (("__nv_bfloat16", "bf16"), ("__half", "fp16"), ("float", "fp32"), ("double", "fp64"))
_CUTLASS = re.compile(
    r"cutlass_(tensorop|simt)_(?:(bf16|f16|tf32|f32)_)?[sdh](\d*)(fprop|dgrad|wgrad)_"
)
_TILE = re.compile(r"_(\d+x\d+)_(\d+)x\d+_")
_DIRECTIONS = {"fprop": "convolution", "dgrad": "convolution dgrad", "wgrad": "convolution wgrad"}


def describe_convolution(read: ReadName) -> KernelDescription | None:
    """Describe a kernel of a convolution, or None if the name is none."""
    if read.head.startswith("cudnn::") and (match := _REORDER.search(read.head)):
        operation = f"reorder {match.group(1)} to {match.group(2).lower()}"
        first = read.text.partition("<")[2].partition(",")[0].strip()
        dtype = next((kind for name, kind in _TYPES if first == name), None)
        return KernelDescription(
            read.full, "copy", f"{operation} (cuDNN)", "cuDNN", operation, dtype
        )
    match = _CUTLASS.search(read.text)
    if match is None:
        return None
    unit, named, _, direction = match.groups()
    tile = _TILE.search(read.text, match.end())
    dtype = DTYPES.get(named or "", None)
    library = "cuDNN" if "cudnn" in read.text else "CUTLASS"
    words = [_DIRECTIONS[direction], dtype, tile.group(1) if tile else None, f"({library})"]
    return KernelDescription(
        read.full,
        "matmul",
        " ".join(word for word in words if word),
        library,
        _DIRECTIONS[direction],
        dtype,
        f"{tile.group(1)}x{tile.group(2)}" if tile else None,
        None,
        unit == "tensorop",
    )
