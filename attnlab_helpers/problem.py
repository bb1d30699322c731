"""What is computed: the shapes, dtype and masking of one attention call, and what it must cost.

`AttentionProblem` describes attention; `TensorProblem` describes the inputs of any other
function. Both make their own tensors, so that a name and a seed are enough to repeat a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Protocol

import torch

from .options import Causal, check_scale, keywords, plain_causal

DTYPES: dict[str, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}
Direction = Literal["forward", "backward", "training"]

# Backward does five matrix products of the size of forward's two (FlashAttention-2,
# arXiv 2307.08691, section 4.1); training is one of each.
FLOPS_FACTOR: dict[str, float] = {"forward": 1.0, "backward": 2.5, "training": 3.5}


class Problem(Protocol):
    """What `study.run` needs: something that makes tensors and calls a function on them."""

    @property
    def key(self) -> str: ...

    @property
    def label(self) -> str: ...

    def tensors(self, device: str | torch.device, seed: int = 0) -> tuple[torch.Tensor, ...]: ...

    def bind(
        self, function: Callable[..., Any], tensors: tuple[torch.Tensor, ...]
    ) -> Callable[[], Any]: ...


def visible_keys(row: int, q_len: int, kv_len: int, causal: Causal) -> int:
    """How many keys query `row` may see: all, or those up to its own position.

    Upper-left (PyTorch's `is_causal`): query i sees keys 0..i. Lower-right: the last query
    sees every key, as in decoding with a cache.
    """
    if causal is False:
        return kv_len
    offset = kv_len - q_len if causal == "lower_right" else 0
    return min(max(row + 1 + offset, 0), kv_len)


@dataclass(frozen=True)
class AttentionProblem:
    """One attention call.

    batch, heads, q_len, head_dim: the shape of the queries, (batch, heads, q_len, head_dim).
    kv_len: length of keys and values (default: q_len).
    kv_heads: heads of keys and values (default: heads); fewer is grouped-query attention, and
    must divide heads.
    dtype: "bfloat16", "float16", "float32" or "float64".
    causal: False; True or "upper_left" (PyTorch's alignment); or "lower_right".
    scale: factor on the scores (default: 1/sqrt(head_dim)).

    Raises ValueError for a shape or value that describes no attention.
    """

    batch: int
    heads: int
    q_len: int
    head_dim: int
    _: KW_ONLY
    kv_len: int | None = None
    kv_heads: int | None = None
    dtype: str = "bfloat16"
    causal: Causal = False
    scale: float | None = None

    def __post_init__(self) -> None:
        # Frozen, so that a problem can be a key; the defaults are filled in once, here.
        if self.kv_len is None:
            object.__setattr__(self, "kv_len", self.q_len)
        if self.kv_heads is None:
            object.__setattr__(self, "kv_heads", self.heads)
        object.__setattr__(self, "dtype", str(self.dtype).removeprefix("torch."))
        for name in ("batch", "heads", "q_len", "head_dim", "kv_len", "kv_heads"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be a whole number of 0 or more, not {value!r}.")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {', '.join(DTYPES)}.")
        object.__setattr__(self, "causal", plain_causal(self.causal))
        check_scale(self.scale)
        if self.heads != self.kv_heads and (self.kv_heads == 0 or self.heads % self.kv_heads):
            raise ValueError(
                f"heads={self.heads} cannot be shared out over kv_heads={self.kv_heads}: "
                "every key/value head serves the same number of query heads, so kv_heads must "
                "divide heads."
            )

    @property
    def label(self) -> str:
        """Short and readable, e.g. ``(8, 16, 1024, 64) bfloat16, causal``."""
        parts = [f"({self.batch}, {self.heads}, {self.q_len}, {self.head_dim}) {self.dtype}"]
        if self.kv_len != self.q_len:
            parts.append(f"kv_len {self.kv_len}")
        if self.kv_heads != self.heads:
            parts.append(f"kv_heads {self.kv_heads}")
        if self.causal:
            parts.append("causal" if self.causal is True else "causal, lower right")
        if self.scale is not None:
            parts.append(f"scale {self.scale:g}")
        return ", ".join(parts)

    @property
    def key(self) -> str:
        """A name for files: the same problem always has the same key."""
        causal = {False: "full", True: "causal", "lower_right": "lowerright"}[self.causal]
        heads = (
            f"h{self.heads}" if self.kv_heads == self.heads else f"h{self.heads}.{self.kv_heads}"
        )
        length = f"n{self.q_len}" if self.kv_len == self.q_len else f"n{self.q_len}.{self.kv_len}"
        scale = "" if self.scale is None else f"-s{self.scale!r}"
        return f"attn-b{self.batch}-{heads}-{length}-d{self.head_dim}-{self.dtype}-{causal}{scale}"

    def tensors(
        self, device: str | torch.device, seed: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q (batch, heads, q_len, head_dim) and k, v (batch, kv_heads, kv_len, head_dim).

        Standard normal numbers, drawn on the CPU in float32 and then rounded to the dtype, so
        that one seed gives the same numbers on every device.
        """
        q_shape = (self.batch, self.heads, self.q_len, self.head_dim)
        kv_shape = (self.batch, self.kv_heads, self.kv_len, self.head_dim)
        q, k, v = _normal([q_shape, kv_shape, kv_shape], self.dtype, device, seed)
        return q, k, v

    def bind(
        self, function: Callable[..., Any], tensors: tuple[torch.Tensor, ...]
    ) -> Callable[[], Any]:
        """A call without arguments. What can be made once, such as a mask, is made here.

        The function is called as f(q, k, v, causal=..., scale=...). One without `causal` or
        `scale` is called without, as long as the problem asks for neither; else TypeError.
        """
        options: dict[str, Any] = {"causal": self.causal, "scale": self.scale}
        prepare = getattr(function, "prepare", None)
        if prepare is not None:
            return prepare(*tensors, **options)
        known = keywords(function)
        for word in () if known is None else ("causal", "scale"):
            if word in known:
                continue
            if options[word] not in (None, False):
                name = getattr(function, "__name__", type(function).__name__)
                raise TypeError(
                    f"{name} takes no {word}, but this problem has {word}={options[word]!r}. "
                    f"Write it as f(q, k, v, *, causal=False, scale=None)."
                )
            del options[word]
        return lambda: function(*tensors, **options)

    def visible_pairs(self) -> int:
        """How many (query, key) pairs one head computes; causal counts only what is seen.

        Equal lengths use the convention of the FlashAttention papers, half of the square
        (arXiv 2307.08691, section 4.1); unequal ones are counted exactly.
        """
        if self.causal and self.q_len == self.kv_len:
            return self.q_len * self.kv_len // 2
        return sum(
            visible_keys(row, self.q_len, self.kv_len, self.causal) for row in range(self.q_len)
        )

    def flops(self, direction: Direction = "forward") -> float:
        """Floating-point operations of the matrix products.

        Forward: 4 x batch x heads x pairs x head_dim (two products, a multiplication and an
        addition each); backward 2.5 times that (arXiv 2307.08691, section 4.1). Softmax is not
        counted, as in the papers. FlopCounterMode does not halve causal attention: this does.
        """
        if direction not in FLOPS_FACTOR:
            raise ValueError(f"direction {direction!r} is not one of {', '.join(FLOPS_FACTOR)}.")
        pairs = self.batch * self.heads * self.visible_pairs()
        return 4.0 * pairs * self.head_dim * FLOPS_FACTOR[direction]

    @property
    def element_bytes(self) -> int:
        """Bytes of one number of the dtype."""
        return DTYPES[self.dtype].itemsize

    def min_bytes(self, direction: Direction = "forward") -> int:
        """The fewest bytes that can cross the memory bus: every input once, every output once.

        Forward reads q, k, v and writes the output. Backward reads q, k, v, the output, its
        gradient and one float32 statistic a row, and writes three gradients. Training is both
        (and writes that statistic).
        """
        queries = self.batch * self.heads * self.q_len * self.head_dim * self.element_bytes
        keys = self.batch * self.kv_heads * self.kv_len * self.head_dim * self.element_bytes
        statistics = self.batch * self.heads * self.q_len * 4
        forward = 2 * queries + 2 * keys
        backward = 4 * queries + 4 * keys + statistics
        totals = {
            "forward": forward,
            "backward": backward,
            "training": forward + statistics + backward,
        }
        if direction not in totals:
            raise ValueError(f"direction {direction!r} is not one of {', '.join(totals)}.")
        return totals[direction]

    def score_bytes(self) -> int:
        """Bytes of one score matrix of all heads, (batch, heads, q_len, kv_len), in the dtype."""
        return self.batch * self.heads * self.q_len * self.kv_len * self.element_bytes


@dataclass(frozen=True)
class TensorProblem:
    """The inputs of a function that is not attention: standard normal tensors of these shapes.

    ``TensorProblem((64, 64), (64, 64))`` calls the function with two 64 x 64 tensors. `dtype`
    as in AttentionProblem. A shape is a tuple of whole numbers; ValueError otherwise.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "bfloat16"

    def __init__(self, *shapes: tuple[int, ...], dtype: str = "bfloat16") -> None:
        for shape in shapes:
            if not isinstance(shape, tuple) or not all(
                isinstance(n, int) and n >= 0 for n in shape
            ):
                raise ValueError(
                    f"a shape is a tuple of whole numbers, such as (64, 64), not {shape!r}."
                )
        dtype = str(dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise ValueError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}.")
        object.__setattr__(self, "shapes", tuple(shapes))
        object.__setattr__(self, "dtype", dtype)

    @property
    def label(self) -> str:
        """Short and readable, e.g. ``64x64, 64x64 bfloat16``."""
        return f"{', '.join('x'.join(map(str, shape)) for shape in self.shapes)} {self.dtype}"

    @property
    def key(self) -> str:
        """A name for files: the same problem always has the same key."""
        return (
            f"tensors-{'-'.join('x'.join(map(str, shape)) for shape in self.shapes)}-{self.dtype}"
        )

    def tensors(self, device: str | torch.device, seed: int = 0) -> tuple[torch.Tensor, ...]:
        """One tensor a shape; one seed gives the same numbers on every device."""
        return tuple(_normal(list(self.shapes), self.dtype, device, seed))

    def bind(
        self, function: Callable[..., Any], tensors: tuple[torch.Tensor, ...]
    ) -> Callable[[], Any]:
        """A call without arguments: the function on the tensors."""
        return lambda: function(*tensors)


def _normal(
    shapes: list[tuple[int, ...]], dtype: str, device: str | torch.device, seed: int
) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)  # leaves the global generator alone
    return [
        torch.randn(shape, generator=generator).to(DTYPES[dtype]).to(device) for shape in shapes
    ]


# The setting of "Profiling in PyTorch", Part 3 (Hugging Face, 2026).
PROFILING_POST = AttentionProblem(8, 16, 1024, 64, dtype="bfloat16", causal=True)
# One attention call of ViT-B/16 at 224 pixels: 196 patches and a class token (arXiv 2010.11929).
VIT_B16 = AttentionProblem(8, 12, 197, 64, dtype="bfloat16")
# One layer of GPT-2 medium, the case of the FlashAttention paper's memory table (arXiv 2205.14135).
GPT2_MEDIUM = AttentionProblem(64, 16, 1024, 64, dtype="float16", causal=True)
