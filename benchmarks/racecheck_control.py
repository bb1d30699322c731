"""What racecheck says of kernels in which nothing can race: a control for sanitize.py's output.

    compute-sanitizer --tool racecheck python benchmarks/racecheck_control.py

Three groups of warps with a task of their own, as in the kernels for Hopper, but the tasks are
empty: each group writes its number to its own place in global memory. The only shared memory is
what Triton needs itself, for telling the groups what to run; the four kernels differ in whether
they also use mbarriers, and where. A report about one of them is about Triton's way of starting
groups of warps, or racecheck's way of seeing it, and not about a tile of ours.
"""

from __future__ import annotations

import sys

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def write(out, group: gl.constexpr, warps: gl.constexpr):
    """The group's number plus one, once a thread."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [warps], [0])
    threads = gl.arange(0, 32 * warps, layout)
    place = (gl.program_id(0) * 3 + group) * 128 + threads
    gl.store(out + place, gl.full([32 * warps], group + 1, gl.float32, layout))


@gluon.jit
def take_turns(out, turns, group: gl.constexpr, warps: gl.constexpr):
    """Eight times: wait for one's turn, write, and give the turn to the next group."""
    for i in range(8):
        mbarrier.wait(turns.index(group), i & 1)
        write(out, group, warps)
        mbarrier.arrive(turns.index((group + 1) % 3), count=1)


@gluon.jit
def new_turns():
    turns = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(3):
        mbarrier.init(turns.index(i), count=1)
    return turns


@gluon.jit
def without_mbarriers(out):
    gl.warp_specialize([(write, (out, 0, 4)), (write, (out, 1, 4)), (write, (out, 2, 1))],
                       [4, 1], [240, 24])  # fmt: skip


@gluon.jit
def mbarriers_made_before(out):
    new_turns()
    gl.warp_specialize([(write, (out, 0, 4)), (write, (out, 1, 4)), (write, (out, 2, 1))],
                       [4, 1], [240, 24])  # fmt: skip


@gluon.jit
def arrival_just_before(out):
    turns = new_turns()
    mbarrier.arrive(turns.index(0), count=1)
    gl.warp_specialize([(write, (out, 0, 4)), (write, (out, 1, 4)), (write, (out, 2, 1))],
                       [4, 1], [240, 24])  # fmt: skip


@gluon.jit
def arrivals_within(out):
    turns = new_turns()
    mbarrier.arrive(turns.index(0), count=1)
    gl.warp_specialize(
        [
            (take_turns, (out, turns, 0, 4)),
            (take_turns, (out, turns, 1, 4)),
            (take_turns, (out, turns, 2, 1)),
        ],
        [4, 1],
        [240, 24],
    )


def main(programs: int = 2000) -> int:
    """2 where these kernels cannot run."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("These kernels are for a GPU of compute capability 9.0.")
        return 2
    for kernel in (
        without_mbarriers, mbarriers_made_before, arrival_just_before, arrivals_within,
    ):  # fmt: skip
        out = torch.zeros(programs, 3, 128, device="cuda")
        kernel[(programs,)](out, num_warps=4)
        right = all((out[:, group, :count] == group + 1).all()
                    for group, count in enumerate((128, 128, 32)))  # fmt: skip
        print(f"{kernel.__name__}: {'right' if right else 'WRONG'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
