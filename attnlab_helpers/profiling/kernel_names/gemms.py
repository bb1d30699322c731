"""Names of matrix products: cuBLAS (nvjet, xmma, ampere_..., gemv, split-K) and CUTLASS.

The rules come from the names themselves and from what the libraries publish: CUTLASS documents
its naming in `python/cutlass_library/library.py`; for nvjet the fields are tile, K x stages,
cluster, rasterisation and transposes, as profiles of known shapes show.
"""

from __future__ import annotations

import re

from .description import (
    DTYPES,
    KernelDescription,
    ReadName,
    dtype_of,
    shorten_middle,
    template_arguments,
)

_NVJET = re.compile(r"nvjet_(?:sm(\d+)_)?([a-z0-9]+)_(?:mma_)?(\d+x\d+)(?:x(\d+)|_(\d+)x\d+)?")
# Operand letters of nvjet: t = bfloat16, h = half, qq = two 8-bit floats. Others are not read.
_NVJET_OPERANDS = (("qq", "fp8"), ("t", "bf16"), ("h", "fp16"))
_TYPE = r"(?:tf32|bf16|f16|f32|f64|e4m3|e5m2|i8)"
# sm80_xmma_gemm_<A><B>_<multiplied as><accumulated as>_<C>_...
_XMMA = re.compile(rf"(?:cutlass_)?sm(\d+)_xmma_(\w*?gemm\w*?)_{_TYPE}{_TYPE}_({_TYPE}){_TYPE}_")
_XMMA_TILE = re.compile(r"_tilesize(\d+x\d+x\d+)")
_GENERATION = re.compile(
    r"(?:trt_)?(maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)_"
    r"(?:(bf16|fp16|tf32|fp32|f16|f32)_)?([sdhcz])(\d{3,6})?(tf32|bf16|fp16)?gemm(?![a-z])"
)
_GENERATION_TYPE = re.compile(r"gemm_(bf16|fp16|tf32|fp32|f16|f32)_")
_PLAIN_TILE = re.compile(r"_(\d+x\d+)(?=_|$)")
_STAGES = re.compile(r"_stages_(\d+)x\d+")
_CUTLASS = re.compile(
    r"cutlass(?:3x)?_(?:sm)?(?:(\d+)_)?(wmma_tensorop|tensorop|simt)_"
    r"(?:(bf16|f16|tf32|f32|f64)_)?([sdhcz])[\dx]*(tf32|bf16|f16)?gemm(?![a-z])"
)
_CUTLASS_TILE = re.compile(r"_(\d+x\d+)_(\d+)x\d+(?=_|$)")
_CUTLASS3_TYPES = re.compile(rf"gemm_({_TYPE})_{_TYPE}_")
_CUTLASS3_TILE = re.compile(r"_(\d+x\d+x\d+)(?=_|$)")
_MAINLOOP = re.compile(r"MainloopSm(\d+)\w*?(Gmma|Umma)?(?:WarpSpecialized|\W|$)")
_LETTER_TYPES = {"s": "fp32", "d": "fp64", "h": "fp16"}


def describe_gemm(read: ReadName) -> KernelDescription | None:
    """Describe a matrix product, or None if the name is none of these families."""
    leaf = read.leaf
    if leaf.startswith("nvjet_"):
        return _nvjet(read)
    if "xmma_" in leaf:
        return _xmma(read)
    if match := _GENERATION.match(leaf):
        return _generation(read, match)
    if read.head.startswith("cutlass::") or leaf.startswith("cutlass"):
        return _cutlass(read)
    if "gemv" in read.head.lower():
        arguments = template_arguments(read.text)
        dtype = next((kind for kind in map(_floating, arguments) if kind), None)
        return _product(read, "gemv", "cuBLAS", dtype, operation="matrix times vector")
    if leaf == "splitKreduce_kernel":
        return KernelDescription(
            read.full,
            "reduce",
            "sum of split-K parts (cuBLAS)",
            library="cuBLAS",
            operation="sum of split-K parts",
        )
    return None


def _product(
    read: ReadName,
    family: str,
    library: str | None,
    dtype: str | None,
    tile: str | None = None,
    architecture: str | None = None,
    tensor_cores: bool | None = None,
    operation: str = "matmul",
) -> KernelDescription:
    tile_mn = "x".join(tile.split("x")[:2]) if tile else None
    words = [operation, dtype, tile_mn, f"({family})"]
    return KernelDescription(
        read.full,
        "matmul",
        shorten_middle(" ".join(word for word in words if word), 40),
        library,
        operation,
        dtype,
        tile,
        architecture,
        tensor_cores,
    )


def _nvjet(read: ReadName) -> KernelDescription:
    match = _NVJET.match(read.leaf)
    if match is None:
        return _product(read, "nvjet", "cuBLAS", None)
    number, operands, tile, depth_mma, depth = match.groups()
    dtype = next((kind for start, kind in _NVJET_OPERANDS if operands.startswith(start)), None)
    depth = depth_mma or depth
    return _product(
        read,
        "nvjet",
        "cuBLAS",
        dtype,
        f"{tile}x{depth}" if depth else tile,
        f"sm_{number}" if number else None,
        # nvjet multiplies 8- and 16-bit operands with the matrix instructions of Hopper and
        # later; for other operands (fp32 through TF32 or not) the name leaves it open.
        True if dtype else None,
        # The kernel that adds a bias before it writes its result says so in its name.
        operation="matmul + bias" if "_bias_" in read.leaf else "matmul",
    )


def _xmma(read: ReadName) -> KernelDescription | None:
    match = _XMMA.match(read.leaf)
    if match is None:
        return None
    number, product, multiplied = match.groups()
    tile = _XMMA_TILE.search(read.leaf)
    if "_ffma" in read.leaf:
        tensor_cores: bool | None = False
    elif "_tensor" in read.leaf or "_warpgroupsize" in read.leaf:
        tensor_cores = True
    else:
        tensor_cores = None
    convolution = any(word in product for word in ("fprop", "dgrad", "wgrad"))
    library = "cuDNN" if "cudnn" in read.leaf or convolution else "cuBLAS"
    return _product(
        read,
        "xmma",
        library,
        DTYPES[multiplied],
        tile.group(1) if tile else None,
        f"sm_{number}",
        tensor_cores,
        "convolution" if convolution else "matmul",
    )


def _generation(read: ReadName, match: re.Match[str]) -> KernelDescription:
    generation, first, letter, shape, inner = match.groups()
    later = _GENERATION_TYPE.search(read.leaf)
    named = inner or first or (later.group(1) if later else None)
    if named is None and (letter == "h" or not shape):
        named = _LETTER_TYPES.get(letter)
    tile = _PLAIN_TILE.search(read.leaf)
    depth = _STAGES.search(read.leaf)
    size = tile.group(1) if tile else None
    library = "TensorRT" if read.leaf.startswith("trt_") else "cuBLAS"
    return _product(
        read,
        library,
        library,
        DTYPES.get(named or "", named),
        f"{size}x{depth.group(1)}" if size and depth else size,
        generation.capitalize(),
        # The digits are the shape of a tensor-core instruction (16816 = 16 x 8 x 16).
        bool(shape),
    )


def _cutlass(read: ReadName) -> KernelDescription | None:
    match = _CUTLASS.search(read.text)
    if match is None:
        return _cutlass_template(read)
    number, unit, first, letter, inner = match.groups()
    kernel = re.match(r"\w*", read.text[match.start() :]).group()
    types = _CUTLASS3_TYPES.search(kernel)
    named = inner or first or (types.group(1) if types else None)
    if named is None:
        # Operands without a prefix have the accumulator's type. In fp32 the tensor cores offer
        # TF32 only, so s1688gemm on them multiplies TF32.
        named = _LETTER_TYPES.get(letter)
        if named == "fp32" and unit != "simt":
            named = "tf32"
    tile = _CUTLASS_TILE.search(kernel)
    tile3 = _CUTLASS3_TILE.search(kernel)
    size = f"{tile.group(1)}x{tile.group(2)}" if tile else tile3.group(1) if tile3 else None
    return _product(
        read,
        "CUTLASS",
        "CUTLASS",
        DTYPES.get(named or "", named),
        size,
        f"sm_{number}" if number else None,
        unit != "simt",
    )


def _cutlass_template(read: ReadName) -> KernelDescription | None:
    """A kernel that CUTLASS 3 built from templates: `device_kernel<...GemmUniversal...>`."""
    if "GemmUniversal" not in read.text:
        return None
    mainloop = _MAINLOOP.search(read.text)
    return _product(
        read,
        "CUTLASS",
        "CUTLASS",
        None,
        architecture=f"sm_{mainloop.group(1)}" if mainloop else None,
        # GMMA and UMMA are CUTLASS's names for the matrix instructions of Hopper and Blackwell.
        tensor_cores=True if mainloop and mainloop.group(2) else None,
    )


def _floating(type_name: str) -> str | None:
    kind = dtype_of(type_name)
    return kind if kind in ("fp64", "fp32", "fp16", "bf16", "fp8") else None
