"""What a kernel's name can tell: the record, and the few tools that read C++ names.

A name is text that someone's compiler wrote. Everything here reads at most the first
`READ_LIMIT` characters of it in one pass, so a hostile or enormous name costs nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WORK_KINDS = (
    "matmul",
    "attention",
    "softmax",
    "elementwise",
    "reduce",
    "copy",
    "fill",
    "mask",
    "communication",
    "other",
)
LABEL_WIDTH = 40
# What decides (function, functor, element types) stands at the start; a name goes on for
# thousands of characters because it repeats that start as its argument list.
READ_LIMIT = 8_000

DTYPES = {
    "c10::BFloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "cutlass::bfloat16_t": "bf16",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "c10::Half": "fp16",
    "__half": "fp16",
    "half": "fp16",
    "cutlass::half_t": "fp16",
    "f16": "fp16",
    "fp16": "fp16",
    "float": "fp32",
    "f32": "fp32",
    "fp32": "fp32",
    "tf32": "tf32",
    "cutlass::tfloat32_t": "tf32",
    "double": "fp64",
    "f64": "fp64",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "f8e4m3": "fp8",
    "f8e5m2": "fp8",
    "cutlass::float_e4m3_t": "fp8",
    "cutlass::float_e5m2_t": "fp8",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "bool": "bool",
    "signed char": "int8",
    "i8": "int8",
    "int8": "int8",
    "unsigned char": "uint8",
    "u8": "uint8",
    "short": "int16",
    "int": "int32",
    "i32": "int32",
    "u32": "uint32",
    "long": "int64",
    "i64": "int64",
    "u64": "uint64",
}
_LAMBDA = re.compile(r"lambda\(([^()]+)\)")
_HEAD = re.compile(r"[^<(\[{ ]*")
_OPEN, _CLOSE = "<([{", ">)]}"


@dataclass(frozen=True)
class KernelDescription:
    """What the name of one GPU activity tells. None stands for "the name does not tell".

    name: the full name as given.
    work: one of `WORK_KINDS`; "other" when the name does not tell.
    label: short and true, at most 40 characters.
    library: whose code it is, such as "cuBLAS" or "PyTorch (ATen)".
    operation: what it computes, in words.
    dtype: element type of what it reads ("bf16", "fp16", "fp32", "tf32", ...). Of a matrix
        product: of its operands as the multiplier sees them.
    tile: what one block works on: "MxNxK" of a matrix product, "queries x keys" ("128x64") of
        attention.
    architecture: what the code was written for ("sm_90", or "Ampere" where the name has only
        that word). A newer GPU may run it: cuBLAS uses sm_80 kernels on an H200.
    tensor_cores: whether its matrix products run on tensor cores. None for kernels without
        matrix products (elementwise, softmax, copies) and where the name is silent.
    """

    name: str
    work: str
    label: str
    library: str | None = None
    operation: str | None = None
    dtype: str | None = None
    tile: str | None = None
    architecture: str | None = None
    tensor_cores: bool | None = None


@dataclass(frozen=True)
class ReadName:
    """A name made ready for reading.

    text: the start of the name in the profiler's spelling, return type and anonymous namespaces
        removed; head: the function with its namespaces; leaf: the function alone; mangled: the
        text was put together from a compiler's symbol, so template arguments other than
        identifiers are missing.
    """

    full: str
    text: str
    head: str
    leaf: str
    mangled: bool = False


def read_name(full: str, text: str | None = None) -> ReadName:
    """Split a name into the function and the rest. `text` replaces a mangled name's text."""
    mangled = text is not None
    text = full[:READ_LIMIT] if text is None else text
    # Nsight Systems spells the same symbols differently: (int)4, (bool)1, <unnamed>::.
    for spelled, plain in (
        ("(anonymous namespace)::", ""),
        ("<unnamed>::", ""),
        ("(int)", ""),
        ("(unsigned long)", ""),
        ("(bool)1", "true"),
        ("(bool)0", "false"),
    ):
        text = text.replace(spelled, plain)
    text = text.strip().removeprefix("void ")
    if text.startswith("std::enable_if<"):
        # A template function returns its enable_if type: what follows "::type " is the function.
        text = text.partition(">::type ")[2] or text
    head = _HEAD.match(text).group()
    return ReadName(full, text, head, head.rsplit("::", 1)[-1], mangled)


def template_arguments(text: str) -> list[str]:
    """Top-level template arguments of the first `<...>` in a demangled name; [] without one."""
    start = text.find("<")
    if start < 0:
        return []
    arguments: list[str] = []
    depth, begin = 1, start + 1
    for place in range(start + 1, len(text)):
        character = text[place]
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
            if depth == 0:
                arguments.append(text[begin:place].strip())
                return arguments
        elif character == "," and depth == 1:
            arguments.append(text[begin:place].strip())
            begin = place + 1
    arguments.append(text[begin:].strip())
    return arguments


def dtype_of(type_name: str) -> str | None:
    """The short name of a C++ element type, None if it is none of `DTYPES`."""
    return DTYPES.get(type_name.strip().removesuffix(" const").removeprefix("const ").strip())


def lambda_dtype(text: str) -> str | None:
    """Element type of the first lambda with arguments: the functor's own in ATen's names.

    A condition comes as bool beside the data (masked fill, where), so bool counts last.
    """
    match = _LAMBDA.search(text)
    if match is None:
        return None
    kinds = [kind for kind in map(dtype_of, match.group(1).split(",")) if kind]
    data = [kind for kind in kinds if kind != "bool"]
    return (data or kinds or [None])[0]


def shorten_middle(text: str, width: int) -> str:
    """`text` on one line in at most `width` characters; what is cut is cut from the middle."""
    shown = text if len(text) <= width else _cut(text, width)
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in shown
    )


def _cut(text: str, width: int) -> str:
    if width < 3:
        return text[:width]
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[-end:]}"
