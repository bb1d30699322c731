"""Arguments as Triton's launcher sees them: type, divisible by 16 or not, the value 1."""

from __future__ import annotations

import operator
import re
from numbers import Integral, Real
from types import FunctionType
from typing import Any

# Names of element types in Triton's signatures, by torch's.
_TYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "i1",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
}
_TEXT = re.compile(rf"(\*?)({'|'.join([*_TYPES.values(), 'u1'])})(:16)?")


def function_under(value: Any) -> FunctionType | None:
    """The function under @triton.jit, @triton.autotune and the like; None for other things."""
    for _ in range(8):
        if isinstance(value, FunctionType):
            return value
        value = getattr(value, "fn", None)
    return None


def argument(value: Any, name: str) -> dict[str, Any]:
    """What the compiler is told of a launch argument: its type and what is known of its value.

    A tensor counts with its dtype and with whether its address is a multiple of 16 bytes (on the
    "meta" device: whether its storage offset is). Integers: whether 16 divides them, and whether
    they are 1. A text is taken as a type: "*fp32:16" is a pointer to fp32 of which 16 divides the
    address, "i32" a whole number. Raises TypeError, and ValueError for a number beyond 64 bits.
    """
    if value is None:
        return {"name": name, "constant": {"plain": None}}
    if isinstance(value, str):
        return _from_text(value, name)
    if isinstance(value, bool):
        return {"name": name, "type": "u1", "divisible": False, "one": False}
    if isinstance(value, float):
        return {"name": name, "type": "fp32", "divisible": False, "one": False}
    if hasattr(value, "dtype") and hasattr(value, "data_ptr"):
        return _from_tensor(value, name)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"the argument {name} is a {type(value).__name__}. A kernel takes tensors, numbers, "
            "and here also the name of a type, such as '*bf16:16' or 'i32'. A value known at "
            "compile time needs a parameter annotated tl.constexpr."
        ) from None
    if not -(2**63) <= number < 2**64:
        raise ValueError(
            f"the argument {name} is {number}, which has no room in 64 bits: a kernel takes whole "
            f"numbers from -2**63 to 2**64 - 1."
        )
    kind = "i32" if -(2**31) <= number < 2**31 else "i64" if number < 2**63 else "u64"
    return {"name": name, "type": kind, "divisible": number % 16 == 0, "one": number == 1}


def constant(value: Any, name: str) -> dict[str, Any]:
    """A value known at compile time, as plain data that another process can build it from.

    Raises TypeError for what is no number, text, tuple, dtype of Triton's or function of the
    kernel's own.
    """
    return {"name": name, "constant": encode(value, name)}


def encode(value: Any, name: str) -> dict[str, Any]:
    """Plain data for a constant; `worker.decode` builds the value again. Raises TypeError."""
    kind = type(value)
    if value is None or isinstance(value, bool | int | str):
        return {"plain": value}
    if kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"):
        return {"plain": bool(value)}
    if isinstance(value, Integral):  # numpy's
        return {"plain": int(value)}
    if isinstance(value, Real):
        return {"float": repr(float(value))}  # JSON has no infinity
    if isinstance(value, tuple | list):
        return {"tuple": [encode(item, name) for item in value]}
    if kind.__name__ == "constexpr":
        return {"constexpr": encode(value.value, name)}
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        return {"dtype": value.name}
    stand_in = re.fullmatch(r"<tl\.(\w+), .*>", repr(value))  # tl.float16 where triton is missing
    if stand_in and stand_in[1] in _TYPES:
        return {"dtype": _TYPES[stand_in[1]]}
    original = function_under(value)
    if original is not None:
        return {"function": original.__name__}
    raise TypeError(
        f"{name} is a {kind.__name__}, which cannot be a constant in a kernel: possible are "
        "numbers, texts, tuples of them, tl.float16 and the like, and @triton.jit functions."
    )


def shown(data: dict[str, Any]) -> str:
    """How an argument or constant is written in a label: "1024", "fp16", "*fp32:16"."""
    if "type" in data:
        return "1" if data["one"] else data["type"] + (":16" if data["divisible"] else "")
    ((kind, content),) = data["constant"].items()
    if kind == "tuple":
        return f"({', '.join(shown({'constant': item}) for item in content)})"
    return shown({"constant": content}) if kind == "constexpr" else str(content)


def _from_text(text: str, name: str) -> dict[str, Any]:
    found = _TEXT.fullmatch(text.replace(" ", ""))
    if not found:
        raise TypeError(
            f"{text!r} for the argument {name} is no type. A pointer is '*fp32', with ':16' behind "
            f"it when its address is a multiple of 16; element types: {', '.join(_TYPES.values())}."
        )
    pointer, kind, divisible = found.groups()
    return {
        "name": name,
        "type": pointer + kind,
        "divisible": bool(divisible),
        "one": False,
    }


def _from_tensor(tensor: Any, name: str) -> dict[str, Any]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _TYPES:
        raise TypeError(
            f"Triton takes no tensor of {dtype} ({name}); it takes {', '.join(_TYPES)}."
        )
    offset = tensor.data_ptr()
    if tensor.device.type == "meta":
        offset = tensor.storage_offset() * tensor.element_size()
    return {"name": name, "type": f"*{_TYPES[dtype]}", "divisible": offset % 16 == 0, "one": False}
