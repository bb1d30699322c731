"""FlashAttention's kernels as compiled for cards that are not here: tensor cores, room, atomics.

Needs no GPU. Addresses stand in for tensor descriptors, which need more registers, not more room.
"""

import pytest
import torch

from attnlab_helpers import compiler
from attnlab_helpers.kernels.flash_backward import flash_dkdv_kernel
from attnlab_helpers.kernels.flash_configurations import configurations
from attnlab_helpers.kernels.flash_dq import flash_dq_kernel
from attnlab_helpers.kernels.flash_forward import flash_forward_kernel

pytest.importorskip("triton")
HEADS, LENGTH = 4, 1000
# What one block may use: CUDA C++ Programming Guide, technical specifications by capability.
ROOM = {"8.6": 99 * 1024, "9.0": 227 * 1024}


def compiled(kernel, head_dim, target):
    """The kernel as this card would get it first, for causal bfloat16 attention."""
    configuration = configurations(
        kernel,
        head_dim=head_dim,
        length=LENGTH,
        precision="half",
        capability=tuple(map(int, target.split("."))),
        shared_bytes=ROOM[target],
    )[0]
    x = torch.empty(2, HEADS, LENGTH, head_dim, dtype=torch.bfloat16, device="meta")
    row = torch.empty(2 * HEADS, 1024, device="meta")
    sizes = (HEADS, 2 * HEADS, 1, HEADS, LENGTH, LENGTH, 8)
    constants = {
        "CAUSAL": True,
        "DESCRIPTORS": False,
        "PRECISION": "ieee",
        "HEAD_DIM": head_dim,
        "BLOCK_Q": configuration.block_q,
        "BLOCK_K": configuration.block_k,
        "BLOCK_D": head_dim,
        "num_warps": configuration.num_warps,
        "num_stages": configuration.num_stages,
        "target": target,
    }
    strides = x.stride()
    if kernel == "forward":
        arguments = (x, x, x, x, row, *strides * 4, *sizes, 0.1, 0)
        constants["OVERLAP"] = configuration.overlap
        return compiler.compile_triton(flash_forward_kernel, *arguments, **constants)
    if kernel == "dq":
        arguments = (x, x, x, x, x, row, row, *strides * 5, *sizes, 1024, 0.1, 0.1, 0)
        return compiler.compile_triton(flash_dq_kernel, *arguments, **constants)
    constants["ROW_DESCRIPTORS"] = False
    arguments = (x, x, x, x, x, x, row, row, *strides * 6, *sizes, 1024, 0.1, 0.1, 0)
    return compiler.compile_triton(flash_dkdv_kernel, *arguments, **constants)


@pytest.mark.parametrize(
    ("kernel", "target"), [("forward", "9.0"), ("dkdv", "9.0"), ("dq", "9.0"), ("dkdv", "8.6")]
)
def test_each_kernel_fits_its_card_and_multiplies_on_tensor_cores(kernel, target) -> None:
    found = compiled(kernel, 128, target)
    assert found.shared_bytes <= ROOM[target]
    assert found.counts["wgmma" if target == "9.0" else "mma.sync"] > 0
    # Two runs give the same bits: no program adds to a place of another one.
    assert found.counts["global_atomics"] == 0
