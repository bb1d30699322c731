"""One SDPA call with everything its dispatch depends on, and how to make and run it.

An `AttentionProblem` holds shapes, dtype and causal; a cell adds the kind of mask, the layout
in memory and the direction, which decide as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch

from ..attention import IMPLEMENTATIONS
from ..problem import DTYPES, AttentionProblem

Mask = Literal["none", "boolean", "bias"]
Layout = Literal["contiguous", "strided", "last dim strided"]
Direction = Literal["forward", "training"]
# From here on a length no longer fits into an axis of CUDA's grid (y and z end at 65,535).
LONG = 65_536


@dataclass(frozen=True)
class Cell:
    """A call to ask SDPA about.

    mask: "none"; "boolean", (batch, 1, q_len, kv_len) with True = take part, as a padded batch
    has it; or "bias", (1, heads, q_len, kv_len) in the problem's dtype, as relative positions
    have it. layout: "contiguous"; "strided", q, k, v as views of (batch, length, heads,
    head_dim), which is what a projection leaves behind; or "last dim strided". direction:
    "forward" needs no gradients, "training" adds the backward pass. Raises ValueError for a
    value that is none of these.
    """

    problem: AttentionProblem
    mask: Mask = "none"
    layout: Layout = "contiguous"
    direction: Direction = "forward"

    def __post_init__(self) -> None:
        for name, kinds in (("mask", Mask), ("layout", Layout), ("direction", Direction)):
            value = getattr(self, name)
            if value not in get_args(kinds):
                known = ", ".join(map(repr, get_args(kinds)))
                raise ValueError(f"{name}={value!r} is not one of {known}.")

    @property
    def label(self) -> str:
        """Short and readable, e.g. ``(2, 16, 1024, 64) bfloat16, causal, bias; training``."""
        parts = [self.problem.label]
        if self.mask != "none":
            parts.append({"boolean": "boolean mask", "bias": "float bias"}[self.mask])
        if self.layout != "contiguous":
            parts.append(self.layout)
        return f"{', '.join(parts)}; {self.direction}"

    @property
    def kind_of_mask(self) -> str:
        """What PyTorch is asked for in the end: "none", "causal", "boolean" or "bias".

        A mask together with causal becomes one mask, and so does the lower-right alignment,
        unless it is the same as PyTorch's own or hides nothing (see `attention.sdpa.translate`).
        """
        if self.mask != "none":
            return self.mask
        q_len, kv_len, causal = self.problem.q_len, self.problem.kv_len, self.problem.causal
        if causal == "lower_right" and q_len != kv_len:
            return "none" if q_len == 1 else "boolean"
        return "causal" if causal else "none"

    @property
    def kind_of_lengths(self) -> str:
        """The atlas's axis: "equal", "decode", "unequal", "long queries" or "long keys"."""
        q_len, kv_len = self.problem.q_len, self.problem.kv_len
        if q_len >= LONG and kv_len < LONG:
            return "long queries"
        if kv_len >= LONG and q_len < LONG:
            return "long keys"
        if q_len == kv_len:
            return "equal"
        return "decode" if q_len == 1 else "unequal"

    @property
    def grouped(self) -> bool:
        """Whether several query heads share one key/value head."""
        return self.problem.kv_heads != self.problem.heads

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cell:
        return cls(**(data | {"problem": AttentionProblem(**data["problem"])}))

    def tensors(self, device: str, seed: int = 0) -> tuple[torch.Tensor, ...]:
        """q, k, v and the mask (or None), made on `device`; every query sees at least one key."""
        problem = self.problem
        generator = torch.Generator(device).manual_seed(seed)

        def normal(heads: int, length: int) -> torch.Tensor:
            order = {
                "contiguous": (0, 1, 2, 3),
                "strided": (0, 2, 1, 3),
                "last dim strided": (0, 1, 3, 2),
            }[self.layout]
            shape = (problem.batch, heads, length, problem.head_dim)
            stored = [shape[axis] for axis in order]
            tensor = torch.randn(stored, generator=generator, device=device)
            tensor = tensor.to(DTYPES[problem.dtype]).permute(order)  # each order undoes itself
            return tensor.requires_grad_(self.direction == "training")

        q = normal(problem.heads, problem.q_len)
        k, v = (normal(problem.kv_heads, problem.kv_len) for _ in range(2))
        mask = None
        if self.mask == "boolean":
            shape = (problem.batch, 1, problem.q_len, problem.kv_len)
            mask = torch.rand(shape, generator=generator, device=device) > 0.2
            mask[..., 0] = True
        elif self.mask == "bias":
            shape = (1, problem.heads, problem.q_len, problem.kv_len)
            mask = torch.randn(shape, generator=generator, device=device).to(q.dtype)
        return q, k, v, mask

    def gradient(self, device: str) -> torch.Tensor:
        """A gradient of the output to start backward with; the same numbers every time."""
        problem = self.problem
        shape = (problem.batch, problem.heads, problem.q_len, problem.head_dim)
        generator = torch.Generator(device).manual_seed(1)
        return torch.randn(shape, generator=generator, device=device).to(DTYPES[problem.dtype])


def prepare(
    cell: Cell, function: Any, tensors: tuple[torch.Tensor, ...], gradient: torch.Tensor | None
) -> Callable[[], list[torch.Tensor]]:
    """A call without arguments that returns the output, and in training the three gradients.

    function: a name such as "sdpa_auto", or a callable like those. What can be made once, such
    as a mask, is made here. Raises what the implementation raises, UnsupportedProblem above all.
    """
    *qkv, mask = tensors
    function = IMPLEMENTATIONS[function] if isinstance(function, str) else function
    options = {"causal": cell.problem.causal, "scale": cell.problem.scale, "mask": mask}
    if hasattr(function, "prepare"):
        forward = function.prepare(*qkv, **options)
    else:
        forward = lambda: function(*qkv, **options)  # noqa: E731
    if cell.direction == "forward":

        def without_gradients() -> list[torch.Tensor]:
            with torch.no_grad():
                return [forward()]

        return without_gradients

    def with_gradients() -> list[torch.Tensor]:
        out = forward()
        return [out.detach(), *torch.autograd.grad(out, qkv, gradient)]

    return with_gradients
