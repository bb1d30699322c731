"""Names of the remaining families: copies and fills of the CUDA runtime, NCCL, Triton, others."""

from __future__ import annotations

import re

from .description import (
    DTYPES,
    KernelDescription,
    ReadName,
    shorten_middle,
)

RUNTIME = "CUDA runtime"
_SIDES = {"H": "host", "D": "device", "P": "peer", "A": "array"}
_MEMCPY = re.compile(r"Memcpy ([HDPA])to([HDPA])(?: \((\w+) -> (\w+)\))?")
_NSYS_MEMCPY = re.compile(r"\[CUDA memcpy ([\w-]+)\]")
_INDUCTOR = re.compile(r"triton_(poi|red|per|tem|for|spl|mm|unk)_fused_?(.*)", re.DOTALL)
_INDUCTOR_KINDS = {
    "poi": ("fused", "elementwise"),
    "for": ("fused foreach", "elementwise"),
    "red": ("fused reduction", "reduce"),
    "per": ("fused reduction", "reduce"),
    "spl": ("fused scan", "reduce"),
    "tem": ("fused template", "other"),
    "mm": ("fused matmul", "matmul"),
    "unk": ("fused", "other"),
}
_COLLECTIVES = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "SendRecv": "send and receive",
}
_REDUCTIONS = frozenset(["Sum", "Prod", "Max", "Min", "MinMax", "PreMulSum", "SumPostDiv", "Avg"])
# Triton before version 3 wrote behind the name which arguments are divisible (d) or constant (c),
# counted from 0.
_OLD_TRITON = re.compile(r"(\w+?)_(0\d*(?:de?|c)(?:\d+(?:de?|c|e))+\d*)")
# A word of an author's own name, taken at its word.
_WORDS = {
    "attn": "attention",
    "attention": "attention",
    "flash": "attention",
    "fmha": "attention",
    "sdpa": "attention",
    "softmax": "softmax",
    "matmul": "matmul",
    "gemm": "matmul",
    "sgemm": "matmul",
    "bmm": "matmul",
    "addmm": "matmul",
    "layernorm": "reduce",
    "rmsnorm": "reduce",
    "norm": "reduce",
    "add": "elementwise",
    "mul": "elementwise",
    "gelu": "elementwise",
    "relu": "elementwise",
    "silu": "elementwise",
    "geglu": "elementwise",
    "swiglu": "elementwise",
    "copy": "copy",
    "fill": "fill",
}
_PLAIN = re.compile(r"[A-Za-z_]\w*")


def describe_runtime(read: ReadName) -> KernelDescription | None:
    """Describe a memcpy or memset activity."""
    if match := _MEMCPY.match(read.text):
        start, end = _SIDES[match.group(1)], _SIDES[match.group(2)]
        kinds = {match.group(3), match.group(4)} & {"Pageable", "Pinned"}
        kind = f" ({kinds.pop().lower()})" if len(kinds) == 1 else ""
        operation = f"copy {start} to {end}"
        return KernelDescription(read.full, "copy", operation + kind, RUNTIME, operation)
    if match := _NSYS_MEMCPY.match(read.text):
        operation = f"copy {match.group(1).replace('-', ' ').lower()}"
        return KernelDescription(
            read.full, "copy", shorten_middle(operation, 40), RUNTIME, operation
        )
    if read.text.startswith("Memcpy"):
        return KernelDescription(read.full, "copy", "copy (Memcpy)", RUNTIME, "copy")
    if read.text.startswith(("Memset", "[CUDA memset]")):
        return KernelDescription(
            read.full, "fill", "set memory (Memset)", RUNTIME, "set memory to a value"
        )
    return None


def describe_communication(read: ReadName) -> KernelDescription | None:
    """Describe a kernel of NCCL: `ncclDevKernel_<collective>_<reduction>_<type>_<algorithm>...`."""
    match = re.match(r"nccl\w*?Kernel_(\w+)", read.leaf)
    if match is None:
        return None
    words = match.group(1).split("_")
    collective = _COLLECTIVES.get(words[0], words[0])
    reduction = dtype = None
    if words[0] in ("AllReduce", "ReduceScatter", "Reduce"):
        # Older names carry a placeholder "Sum_int8" behind collectives that only move bytes.
        reduction = next((word.lower() for word in words if word in _REDUCTIONS), None)
        dtype = next((DTYPES[word] for word in words if word in DTYPES), None)
    operation = " ".join(word for word in (collective, reduction) if word)
    label = " ".join(word for word in (operation, dtype, "(NCCL)") if word)
    return KernelDescription(
        read.full, "communication", shorten_middle(label, 40), "NCCL", operation, dtype
    )


def describe_inductor(read: ReadName) -> KernelDescription | None:
    """Describe a kernel that torch.compile generated: `triton_<kind>_fused_<operations>_<n>`."""
    match = _INDUCTOR.match(read.leaf)
    if match is None:
        return None
    words, work = _INDUCTOR_KINDS[match.group(1)]
    # Operations are joined by the character that they contain, so they are shown as they stand.
    operations = re.sub(r"(?:^|_)\d+$", "", match.group(2))
    if match.group(1) in ("red", "per") and "softmax" in operations:
        work = "softmax"
    elif match.group(1) == "tem" and "attention" in operations:
        work = "attention"
    elif match.group(1) == "tem" and re.search(
        r"(?:^|_)(?:mm|addmm|bmm|baddbmm)(?:_|$)", operations
    ):
        work = "matmul"
    label = f"{words}: {operations}" if operations else words
    return KernelDescription(
        read.full,
        work,
        shorten_middle(label, 40),
        "Inductor (Triton)",
        operations or None,
    )


def describe_plain(read: ReadName) -> KernelDescription | None:
    """Describe a bare identifier: a Triton kernel or a CUDA kernel with a C name.

    Which of the two does not show in the name, so the library stays open; only Triton's old
    suffix gives it away. The author's own name is the best label.
    """
    given = read.text if read.mangled else read.full
    if not _PLAIN.fullmatch(given):
        return None
    old = _OLD_TRITON.fullmatch(given)
    name = old.group(1) if old else given
    work = next((_WORDS[word] for word in name.lower().split("_") if word in _WORDS), "other")
    return KernelDescription(
        read.full,
        work,
        shorten_middle(name, 40),
        "Triton" if old else None,
    )
