"""Names of fused attention: CUTLASS fmha (xFormers), FlashAttention 2 and 3, cuDNN."""

from __future__ import annotations

import re

from .description import (
    DTYPES,
    KernelDescription,
    ReadName,
    dtype_of,
    shorten_middle,
)

_FMHA = re.compile(r"fmha_cutlass([FB])_(bf16|f16|f32)_(?:not)?aligned_(\d+x\d+)\w*?_sm(\d+)")
_FLASH_HELPERS = {
    "flash_fwd_splitkv_combine_kernel": "flash attention: combine split keys",
    "flash_bwd_dot_do_o_kernel": "flash attention bwd: row sums of dO*O",
    "flash_bwd_clear_dkvaccum_kernel": "flash attention bwd: clear dK, dV",
    "flash_bwd_convert_dq_kernel": "flash attention bwd: convert dQ",
    "flash_bwd_convert_dkv_kernel": "flash attention bwd: convert dK, dV",
}
_TRAITS = re.compile(r"Flash_(?:fwd|bwd)_kernel_traits<(\d+), (\d+), (\d+)")
_CUTLASS_TYPE = re.compile(r"cutlass::(?:bfloat16_t|half_t|float_e4m3_t|float_e5m2_t)")
# Cluster shape, then tile shape (queries, keys, head dim).
_FLASH3 = re.compile(
    r"CollectiveMainloop(?:Fwd|Bwd)Sm(\d+)<\d+, cute::tuple<[^<>]*(?:<\d+>[^<>]*)*>, "
    r"cute::tuple<cute::C<(\d+)>, cute::C<(\d+)>, cute::C<(\d+)>"
)
_CUDNN = re.compile(r"cudnn_generated_\w*?sdpa_sm(\d+)_flash_(fprop|bprop)")
_CUDNN_TILE = re.compile(r"_(\d+x\d+x\d+)(?=_|$)")


def describe_attention(read: ReadName) -> KernelDescription | None:
    """Describe a fused attention kernel or one of its helpers, or None if the name is neither."""
    if read.leaf.startswith("fmha_cutlass"):
        return _fmha(read)
    if re.match(r"flash_(fwd|bwd)_", read.leaf):
        return _flash2(read)
    if read.head.startswith("cutlass::device_kernel") and "FlashAttn" in read.text[:400]:
        return _flash3(read)
    if read.leaf.startswith("cudnn_generated") and "sdpa" in read.leaf:
        return _cudnn(read)
    if read.head.startswith("cudnn::") and ("dot_do_o" in read.leaf or "convert_dq" in read.leaf):
        what = "row sums of dO*O" if "dot_do_o" in read.leaf else "convert dQ"
        return _helper(read, f"cuDNN attention bwd: {what}", "cuDNN")
    return None


def _helper(read: ReadName, text: str, library: str) -> KernelDescription:
    return KernelDescription(read.full, "attention", text, library, text)


def _fmha(read: ReadName) -> KernelDescription:
    in_pytorch = "PyTorchMemEffAttention" in read.text
    library = "CUTLASS (xFormers) in PyTorch" if in_pytorch else "CUTLASS (xFormers)"
    match = _FMHA.match(read.leaf)
    if match is None:
        return KernelDescription(
            read.full, "attention", "efficient attention", library, "attention"
        )
    direction = "forward" if match.group(1) == "F" else "backward"
    dtype, tile, number = DTYPES[match.group(2)], match.group(3), int(match.group(4))
    # The family's own table (DefaultGemmType in mem_eff_attention/gemm_kernel_utils.h): 16-bit
    # operands use tensor cores from sm_75 (half from sm_70), fp32 from sm_80; else plain FMA.
    first = {"fp16": 70, "bf16": 75, "fp32": 80}[dtype]
    return KernelDescription(
        read.full,
        "attention",
        f"efficient attention {'fwd' if direction == 'forward' else 'bwd'} {dtype} {tile}",
        library,
        f"attention {direction}",
        dtype,
        tile,
        f"sm_{number}",
        number >= first,
    )


def _flash2(read: ReadName) -> KernelDescription:
    in_pytorch = read.head.startswith("pytorch_flash::") or "pytorch_flash::" in read.text
    library = "FlashAttention in PyTorch" if in_pytorch else "FlashAttention"
    if read.leaf in _FLASH_HELPERS:
        return _helper(read, _FLASH_HELPERS[read.leaf], library)
    direction = "forward" if read.leaf.startswith("flash_fwd") else "backward"
    split = ", split keys" if "splitkv" in read.leaf else ""
    traits, kind = _TRAITS.search(read.text), _CUTLASS_TYPE.search(read.text)
    dtype = dtype_of(kind.group()) if kind else None
    head_dim = f", head dim {traits.group(1)}" if traits else ""
    words = f"flash attention {'fwd' if direction == 'forward' else 'bwd'}"
    label = " ".join(part for part in (words, dtype) if part) + (split or head_dim)
    return KernelDescription(
        read.full,
        "attention",
        shorten_middle(label, 40),
        library,
        f"attention {direction}{split}",
        dtype,
        f"{traits.group(2)}x{traits.group(3)}" if traits else None,
        None,
        # Written for tensor cores alone: every instance multiplies 16-bit tiles with mma.
        True,
    )


def _flash3(read: ReadName) -> KernelDescription:
    direction = "backward" if "FlashAttnBwd" in read.text[:400] else "forward"
    short = "bwd" if direction == "backward" else "fwd"
    number = re.search(r"FlashAttn\w*?Sm(\d+)", read.text)
    architecture = f"sm_{number.group(1)}" if number else None
    if number is None:
        # Combine, preprocess and postprocess kernels carry no architecture in their name.
        stage = re.search(r"FlashAttn(\w*)", read.text).group(1)
        return _helper(read, shorten_middle(f"flash attention 3: {stage}", 40), "FlashAttention-3")
    match, kind = _FLASH3.search(read.text), _CUTLASS_TYPE.search(read.text)
    dtype = dtype_of(kind.group()) if kind else None
    head_dim = f", head dim {match.group(4)}" if match else ""
    words = " ".join(part for part in (f"flash attention 3 {short}", dtype) if part)
    return KernelDescription(
        read.full,
        "attention",
        shorten_middle(words + head_dim, 40),
        "FlashAttention-3",
        f"attention {direction}",
        dtype,
        f"{match.group(2)}x{match.group(3)}" if match else None,
        architecture,
        True,
    )


def _cudnn(read: ReadName) -> KernelDescription:
    match = _CUDNN.match(read.leaf)
    direction = {"fprop": "forward", "bprop": "backward"}[match.group(2)] if match else None
    tile = _CUDNN_TILE.search(read.leaf)
    size = tile.group(1) if tile else None
    short = {"forward": "fwd", "backward": "bwd", None: None}[direction]
    number = match.group(1) if match else None
    words = ("cuDNN attention", short, size, f"(sm_{number})" if number else None)
    return KernelDescription(
        read.full,
        "attention",
        shorten_middle(" ".join(word for word in words if word), 40),
        "cuDNN",
        f"attention {direction}" if direction else "attention",
        # "f16" in these names stands for both 16-bit types: bf16 problems run kernels of this
        # very name. So the dtype stays open.
        None,
        size,
        f"sm_{number}" if number else None,
        # wmma and wgmma are tensor-core instructions.
        True if re.search(r"_w?g?mma_|_wmma_|_umma_|_tcgen05", read.leaf) else None,
    )
