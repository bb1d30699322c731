"""flash_triton's launches on a machine without a GPU: Triton's own binder, and nothing compiled.

A driver that is none stands in for CUDA's, and compiling gives a stub which knows for which
specialisation it was asked (types, what is 1, what 16 divides, constants) and notes what it is
launched with. So a launch that is asked for again can be compared with the first one. Run in a
process of its own, `python launches_without_a_gpu.py SEED CALLS`: it says to all of Python that
there is an H200. Prints how many launches were compared, and ends with 1 where two differ.
"""

import contextlib
import random
import sys

import torch

torch.cuda.is_available = lambda: True  # before Triton is chosen

import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler.compiler import CompiledKernel  # noqa: E402
from triton.runtime import driver, jit  # noqa: E402

from attnlab_helpers.attention import flash_autograd, flash_triton  # noqa: E402
from attnlab_helpers.kernels import (  # noqa: E402
    card,
    flash_hopper_check,
    flash_hopper_launch,
    flash_launch,
    launching,
)

H200 = card.Card((9, 0), 132, 50 << 20, 227 << 10)
NOTED: list[tuple] = []
ASKED: list[tuple[torch.Tensor, ...]] = []  # the tensors of the launches that are under way


class Driver:
    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self):
        return torch.device("cpu")


class Stub:
    """As Triton's CompiledKernel: asked for again by the same method as the real one."""

    packed_metadata = function = None
    __getitem__ = CompiledKernel.__getitem__

    def __init__(self, kernel, key) -> None:
        self.kernel, self.key = kernel, key

    def _init_handles(self) -> None:
        pass

    def launch_metadata(self, grid, stream, *arguments):
        return None

    def run(self, x, y, z, stream, function, packed, metadata, enter, leave, *arguments) -> None:
        plain = tuple(map(described, arguments))
        NOTED.append((self.kernel.fn.__name__, self.key, (x, y, z), plain))


def described(argument):
    """An argument without its address: for tensors, which of the launches' they are."""
    if isinstance(argument, torch.Tensor):
        return "tensor", which(argument), argument.dtype, argument.shape, argument.stride()
    if not hasattr(argument, "base"):
        return type(argument).__name__, argument
    argument.__post_init__()  # the descriptor's own check, which asking again leaves out
    rest = {name: str(value) for name, value in vars(argument).items() if name != "base"}
    return type(argument), described(argument.base), tuple(sorted(rest.items()))


def which(tensor: torch.Tensor) -> tuple[int, ...]:
    """Its places among the tensors; q and k may be one."""
    return tuple(i for i, each in enumerate(ASKED[-1]) if each.data_ptr() == tensor.data_ptr())


def compile_nothing(self, key, signature, device, *_) -> Stub:
    return self.device_caches[device][0].setdefault(key, Stub(self, key))


def noted_launches_of(name, tensors, *options):
    ASKED.append(tensors)
    return launching.launches_of(name, tensors, *options)


def pretend() -> None:
    driver.set_active(Driver())
    jit.JITFunction._do_compile = compile_nothing
    for module in (flash_hopper_launch, flash_launch, flash_autograd, card):
        module.card_of = lambda tensor: H200
    flash_hopper_check.agrees = lambda *_: True
    flash_autograd.launches_of = noted_launches_of
    flash_autograd.where_it_runs = lambda tensor: contextlib.nullcontext()
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.Tensor.is_cuda = True  # type: ignore[assignment]


def view(kind, shape, dtype):
    b, h, n, d = shape
    if kind == "swapped":
        return torch.empty(b, n, h, d, dtype=dtype).transpose(1, 2)
    if kind == "transposed":
        return torch.empty(b, h, d, n, dtype=dtype).transpose(2, 3)
    if kind == "expanded":
        return torch.empty(b, 1, n, d, dtype=dtype).expand(b, h, n, d)
    if kind == "first columns":
        return torch.empty(b, h, n, 2 * d, dtype=dtype)[..., :d]
    if kind == "every other column":
        return torch.empty(b, h, n, 2 * d, dtype=dtype)[..., ::2]
    shift = kind if isinstance(kind, int) else 0
    return torch.empty(b * h * n * d + shift, dtype=dtype)[shift:].view(shape)


CHOICES = {
    "kinds": [0, 0, 0, 0, 8, "swapped", "transposed", "expanded", "first columns",
              "every other column", 1, 2, 4],
    "length": [1, 16, 17, 600, 601, 1024],
    "heads": [(1, 1), (4, 2), (4, 4), (40, 10), (40, 40)],
    "head_dim": [16, 40, 59, 64, 80, 128, 128, 256],
    "dtype": [torch.bfloat16, torch.bfloat16, torch.float16, torch.float32],
    "causal": [False, True, "lower_right"],
    "scale": [None, 1.0, 0.5, -0.5],
    "precision": ["ieee", "tf32"],
    "wanted": [(1, 1, 1), (1, 0, 0), (0, 1, 1), (0, 0, 1)],
}  # fmt: skip


def other(form, chance):
    """The form with one thing changed."""
    name = chance.choice(["kinds", "kinds", "kinds", *CHOICES])
    if name == "kinds":
        kinds = list(form["kinds"])
        kinds[chance.randrange(4)] = chance.choice(CHOICES["kinds"])
        return form | {"kinds": kinds}
    name = chance.choice(["q_len", "kv_len"]) if name == "length" else name
    return form | {name: chance.choice(CHOICES["length" if name[-3:] == "len" else name])}


def launches(form) -> list[tuple]:
    (heads, kv_heads), d = form["heads"], form["head_dim"]
    sizes = [(heads, form["q_len"]), *[(kv_heads, form["kv_len"])] * 2, (heads, form["q_len"])]
    *tensors, do = (
        view(kind, (2, h, n, d), form["dtype"])
        for kind, (h, n) in zip(form["kinds"], sizes, strict=True)
    )
    for tensor, asked in zip(tensors, form["wanted"], strict=True):
        tensor.requires_grad_(bool(asked))
    NOTED.clear()
    options = {name: form[name] for name in ("causal", "scale", "precision")}
    out = flash_triton.flash_triton(*tensors, **options)
    torch.autograd.grad(out, [tensor for tensor in tensors if tensor.requires_grad], do)
    return list(NOTED)


def main(seed: int, calls: int) -> int:
    pretend()
    chance, compared, names = random.Random(seed), 0, set()
    form = {name: chance.choice(values) for name, values in CHOICES.items() if name != "length"}
    form |= {"kinds": [0, 0, 0, 0], "q_len": 600, "kv_len": 600}
    kept = launching._launches_of
    print(f"Triton {triton.__version__}")
    for _ in range(calls):
        form = other(form, chance)
        again = launches(form)  # by what earlier forms have left, which share most with this one
        launching._launches_of = lambda *_: launching.Launches()
        first = launches(form)
        launching._launches_of = kept
        if again != first:
            print(f"differs: {form}")
            return 1
        compared, names = compared + len(first), names | {each[0] for each in first}
    hits = kept.cache_info().hits
    print(f"{compared} launches of {len(names)} kernels compared, {hits} forms met again")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
