"""Compile a kernel for Hopper on any machine and print what came out, as JSON.

A program of its own: with Triton's interpreter switched on nothing can be compiled.
"""

import importlib
import json
import re
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language import NVMMASharedLayout

REGISTERS = re.compile(r"setmaxnreg\.(inc|dec)\S*\s+(\d+)")


def compiled(kernel, block_k, block_d, stages, causal):
    """The kernel for bfloat16, with as many heads of keys as of queries."""
    constants = {
        "CAUSAL": causal, "BLOCK_K": block_k, "BLOCK_D": block_d, "STAGES": stages,
        "AHEAD": 2 if block_d == 64 else 1, "heads_per_kv_head": 1,
    }  # fmt: skip
    constants = {name: x for name, x in constants.items() if name in kernel.arg_names}
    layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=4)
    types = dict.fromkeys(("lse", "shift", "delta"), "*fp32")
    types |= dict.fromkeys(("scale", "scale_log2"), "fp32") | dict.fromkeys(constants, "constexpr")
    for name in ("q_source", "do_source", "out", "dq", "k_source", "v_source"):
        rows = block_k if name in ("k_source", "v_source") else 64
        types[name] = f"tensordesc<bf16[1, 1, {rows}, {block_d}],{layout!r}>"
    source = GluonASTSource(
        fn=kernel,
        signature={name: types.get(name, "i32") for name in kernel.arg_names},
        constexprs={(kernel.arg_names.index(name),): value for name, value in constants.items()},
        attrs={},
    )
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    file = sys.argv[1]
    block_k, block_d, stages, causal = map(int, sys.argv[2:])
    module = importlib.import_module(f"attnlab_helpers.kernels.{file}")
    found = compiled(getattr(module, f"{file}_kernel"), block_k, block_d, stages, bool(causal))
    ptx = found.asm["ptx"]
    print(json.dumps({
        "shared": found.metadata.shared,
        "products": ptx.count("wgmma.mma_async"),
        "registers": [(way, int(number)) for way, number in REGISTERS.findall(ptx)],
        "local": ".local" in ptx,
        "atomics": ptx.count("atom.global") + ptx.count("red.global"),
    }))  # fmt: skip
