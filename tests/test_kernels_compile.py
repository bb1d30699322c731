"""The package's Triton kernels compile for every generation, and fit its small cards."""

import pytest
import torch

from attnlab_helpers import compiler
from attnlab_helpers.kernels import language
from attnlab_helpers.kernels.tiled_attention import (
    NUM_STAGES,
    NUM_WARPS,
    default_block,
    tiled_attention_kernel,
)

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
# Shared memory that a block may have, in KiB: CUDA C++ Programming Guide, "Technical
# Specifications per Compute Capability". 8.6 and 8.9 have less than 8.0.
SHARED_KIB = {"7.5": 64, "8.0": 163, "8.6": 99, "9.0": 227, "10.0": 227}
TENSOR_CORES = {"8.0": "mma.sync", "8.6": "mma.sync", "9.0": "wgmma", "10.0": "tcgen05.mma"}


@pytest.mark.skipif(language.mode() == "missing", reason="triton is not installed here")
@pytest.mark.parametrize(
    ("target", "dtype", "head_dim"),
    [
        ("7.5", "fp16", 64),
        ("7.5", "fp32", 128),
        ("8.0", "bf16", 64),
        ("8.0", "fp16", 128),
        ("8.6", "bf16", 256),
        ("9.0", "bf16", 64),
        ("9.0", "fp16", 128),
        ("10.0", "bf16", 128),
    ],
)
def test_tiled_attention_compiles_with_its_default_tiles(target, dtype, head_dim) -> None:
    block = default_block(head_dim, DTYPES[dtype])
    strides = (16 * 1024 * head_dim, 1024 * head_dim, head_dim, 1)
    compiled = compiler.compile_triton(
        tiled_attention_kernel, *[f"*{dtype}:16"] * 4, "*fp32:16", *strides * 4,
        16, 1, 1024, 1024, 1024 // block, head_dim**-0.5, 0,
        target=target, num_warps=NUM_WARPS, num_stages=NUM_STAGES,
        CAUSAL=True, STORE_LSE=True, HEAD_DIM=head_dim,
        BLOCK_Q=block, BLOCK_K=block, BLOCK_D=head_dim,
    )  # fmt: skip
    assert 0 < compiled.shared_bytes <= SHARED_KIB[target] * 1024
    if dtype != "fp32" and target in TENSOR_CORES:
        assert compiled.counts[TENSOR_CORES[target]] > 0
    if dtype == "fp32":  # IEEE: no tensor core, which would round to TF32
        assert not any(compiled.counts[name] for name in TENSOR_CORES.values())
