"""The kernels for Hopper on a CPU: their own source, with PyTorch and threads in place of Gluon.

Every group of warps is a thread, every barrier a condition with a phase, as the PTX ISA describes
`mbarrier`; a tile that the copy engine fetches is a copy. So the order of the work, who waits for
whom, and the numbers can be tested without a GPU; layouts, registers and speed cannot.
"""

import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from attnlab_helpers.kernels import flash_hopper_launch

FILES = ("flash_hopper_blocks", "flash_hopper", "flash_hopper_dq")
PATIENCE = 60  # seconds after which a thread that still waits has met a deadlock


class Stuck(Exception):
    """A thread has waited for too long, or another one has failed."""


class Barrier:
    """An mbarrier: a phase ends when all have arrived and all expected bytes are there."""

    def __init__(self, world: "World") -> None:
        self.world, self.phase, self.bytes = world, 0, 0

    def init(self, count: int) -> None:
        self.count = self.missing = count

    def change(self, arrivals: int, expected: int) -> None:
        with self.world.changed:
            self.missing -= arrivals
            self.bytes += expected
            assert self.missing >= 0, "more have arrived than belong to this phase"
            if self.missing == 0 and self.bytes == 0:
                self.phase, self.missing = self.phase + 1, self.count
            self.world.changed.notify_all()

    def wait(self, parity: int) -> None:
        """Until the phase of this parity is over; the one before the first counts as over."""
        with self.world.changed:
            over = self.world.changed.wait_for(
                lambda: self.phase & 1 != parity or self.world.failed, PATIENCE
            )
        if not over or self.world.failed:
            raise Stuck


class Tile:
    """A tile in shared memory."""

    def __init__(self, rows: int, columns: int, dtype: torch.dtype) -> None:
        self.dtype = dtype
        # Whoever reads what was never fetched gets NaN.
        self.numbers = torch.full((rows, columns), float("nan"), dtype=dtype)

    def reshape(self, shape) -> "Tile":
        assert list(shape) == list(self.numbers.shape)
        return self

    @property
    def shape(self):
        return self.numbers.shape

    def permute(self, order) -> torch.Tensor:
        return self.numbers.permute(order)

    def store(self, numbers: torch.Tensor) -> None:
        self.numbers = numbers


class Descriptor:
    """What the copy engine knows of a (batch, heads, length, head_dim) tensor."""

    def __init__(self, tensor: torch.Tensor, rows: int, columns: int) -> None:
        self.tensor, self.dtype, self.layout = tensor, tensor.dtype, None
        self.rows, self.columns = rows, columns
        nbytes = rows * columns * tensor.element_size()
        self.block_type = SimpleNamespace(shape=[1, 1, rows, columns], nbytes=nbytes)

    def inside(self, place: list[int]) -> torch.Tensor:
        batch, head, row, _ = place
        return self.tensor[batch, head, row : row + self.rows, : self.columns]


class Pointer:
    """An address into a tensor of one number a query."""

    def __init__(self, numbers: torch.Tensor, offset: Any = 0) -> None:
        self.numbers, self.offset = numbers, offset

    def __add__(self, offset: Any) -> "Pointer":
        return Pointer(self.numbers, self.offset + offset)


def fetch_tile(source: Descriptor, place: list[int], ready: Barrier, tile: Tile) -> None:
    found = source.inside(place)
    numbers = torch.zeros(source.rows, source.columns, dtype=source.dtype)  # zero behind the end
    numbers[: found.shape[0], : found.shape[1]] = found
    tile.numbers = numbers
    ready.change(0, -source.block_type.nbytes)


def send_tile(target: Descriptor, place: list[int], tile: Tile) -> None:
    part = target.inside(place)
    part.copy_(tile.numbers[: part.shape[0], : part.shape[1]])


def product(a, b, acc, *, use_acc=True, is_async=False) -> torch.Tensor:
    a, b = (x.numbers if isinstance(x, Tile) else x for x in (a, b))
    found = a.float() @ b.float()
    return acc + found if use_acc else found


def store(where: Pointer, numbers: torch.Tensor, mask: torch.Tensor) -> None:
    where.numbers.view(-1)[where.offset[mask]] = numbers[mask]


def either(for_tensors, for_numbers):
    """One function for tensors and for Python's numbers."""

    def chosen(*x):
        if any(isinstance(one, torch.Tensor) for one in x):
            return for_tensors(*(torch.as_tensor(one) for one in x))
        return for_numbers(*x)

    return chosen


class World:
    """The kernels as functions of one program's number, and what its threads share."""

    def __init__(self) -> None:
        self.changed, self.failed = threading.Condition(), []
        self.program, self.programs = 0, 1
        self.names: dict[str, Any] = self.language()
        folder = Path(flash_hopper_launch.__file__).parent
        for file in FILES:
            text = (folder / f"{file}.py").read_text(encoding="utf-8")
            text = re.sub(r"^from [^(\n]*\([^)]*\)\n|^(from|import) .*\n", "", text, flags=re.M)
            text = re.sub(r"^(fetch|send)_tile = .*\n", "", text, flags=re.M)
            text = re.sub(r"\.to\(gl\.int64\)", "", text)  # Python's numbers are long enough
            text = re.sub(r"\w+\.type\.layout", "None", text)
            scope = dict(self.names)
            exec(compile(text, file, "exec"), scope)
            self.names |= {
                name: x for name, x in scope.items() if file == FILES[0] or name.endswith("_kernel")
            }

    def language(self) -> dict[str, Any]:
        layouts = {
            name: (lambda *_, **__: None)
            for name in ("NVMMADistributedLayout", "SliceLayout", "DotOperandLayout")
        }
        gl = SimpleNamespace(
            constexpr=int, static_range=range, float32=torch.float32, int32=torch.int64, int64=None,
            arange=lambda start, end, layout: torch.arange(start, end),
            zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype),
            full=lambda shape, value, dtype, layout: torch.full(shape, value, dtype=dtype),
            convert_layout=lambda x, layout: x,
            where=either(torch.where, lambda c, a, b: a if c else b),
            minimum=either(torch.minimum, min), maximum=either(torch.maximum, max),
            max=lambda x, axis: x.amax(axis), sum=lambda x, axis: x.sum(axis),
            exp2=torch.exp2, log2=torch.log2, store=store,
            load=lambda where: where.numbers.view(-1)[where.offset],
            program_id=lambda axis: self.program, num_programs=lambda axis: self.programs,
            allocate_shared_memory=self.allocate, warp_specialize=self.start, **layouts,
        )  # fmt: skip

        def wait(barrier, parity, pred=True):
            if pred:
                barrier.wait(parity)

        def arrive(barrier, count=1, pred=True):
            if pred:
                barrier.change(count, 0)

        mbarrier = SimpleNamespace(
            MBarrierLayout=lambda: "barriers",
            init=lambda barrier, count: barrier.init(count),
            expect=lambda barrier, nbytes: barrier.change(1, nbytes),
            wait=wait, arrive=arrive,
        )  # fmt: skip
        jit = SimpleNamespace(
            jit=lambda function=None, **_: function if function else lambda found: found
        )
        return {
            "gl": gl, "gluon": jit, "mbarrier": mbarrier, "SIZES": (),
            "tma": SimpleNamespace(store_wait=lambda pendings: None),
            "fence_async_shared": lambda: None, "fetch_tile": fetch_tile, "send_tile": send_tile,
            "warpgroup_mma": product,
            "warpgroup_mma_wait": lambda pendings, deps: deps[0] if len(deps) == 1 else deps,
        }  # fmt: skip

    def allocate(self, dtype, shape, layout) -> SimpleNamespace:
        if layout == "barriers":
            found: list[Any] = [Barrier(self) for _ in range(shape[0])]
        else:
            found = [Tile(*shape[-2:], dtype) for _ in range(shape[0])]
        return SimpleNamespace(index=lambda i: found[i], dtype=dtype)

    def start(self, functions, warps, registers) -> None:
        def one(function, arguments):
            try:
                function(*arguments)
            except BaseException as error:
                with self.changed:
                    self.failed.append(error)
                    self.changed.notify_all()

        threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
        reasons = [error for error in self.failed if not isinstance(error, Stuck)]
        if self.failed:
            raise (reasons or self.failed)[0]

    def launch(self, kernel: str, programs: int, *arguments: Any, **constants: Any) -> None:
        """Run every program of a kernel, one after the other."""
        self.programs = programs
        for self.program in range(programs):
            self.names[f"{kernel}_kernel"](*arguments, **constants)
