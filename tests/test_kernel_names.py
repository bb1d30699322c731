"""Kernel names: what is read from them, what is left open, and labels that stay apart.

The names are the profiler's own spelling, as PyTorch on NVIDIA GPUs writes them.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab_helpers.profiling.kernel_names import (
    WORK_KINDS,
    KernelDescription,
    describe_kernel,
    label_kernels,
)

MASKED_FILL = (
    "at::native::(anonymous namespace)::masked_fill_kernel(at::TensorIterator&, c10::Scalar "
    "const&)::{lambda()#1}::operator()() const::{lambda()#11}::operator()() const::"
    "{lambda(c10::Half, bool)#1}"
)
DIRECT_COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
    "const::{lambda()#7}::operator()() const::{lambda(float)#1}"
)
FLASH3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::"
    "CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<"
    "cute::C<192>, cute::C<128>, cute::C<64> >, 64, cutlass::bfloat16_t, float, cutlass::arch::"
    "Sm90, true, false, false, true>, flash::CollectiveEpilogueFwd<cute::tuple<cute::C<192>, "
    "cute::C<64>, cute::C<128> >, cutlass::bfloat16_t> > > >(int)"
)


def vectorized(functor: str, arrays: int = 2) -> str:
    """The name of an elementwise kernel over contiguous tensors, functor repeated as in life."""
    tail = f"std::array<char*, {arrays}ul>"
    kernel = f"at::native::vectorized_elementwise_kernel<4, {functor}, {tail} >"
    return f"void {kernel}(int, {functor}, {tail})"


def strided(functor: str) -> str:
    """The name of an elementwise kernel over strided tensors."""
    inner = f"at::native::gpu_kernel_impl_nocast<{functor}>"
    signature = f"(at::TensorIteratorBase&, {functor} const&)::{{lambda(int)#1}}"
    whole = inner + signature
    return f"void at::native::elementwise_kernel<128, 4, {whole}>(int, {whole})"


# name, library, dtype, tile, architecture, tensor cores
GEMMS = [
    ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTN",
     "cuBLAS", "bf16", "256x128x64", "sm_90", True),
    ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "cuBLAS", "bf16", "192x192x64", None, True),
    ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NTT", "cuBLAS", "fp16", "256x128x64", None, True),
    ("nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", "cuBLAS", "fp8", "128x256x128", None, True),
    ("nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN",
     "cuBLAS", "bf16", "64x64x128", "sm_120", True),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_"
     "alignc4_execute_kernel__5x_cublas", "cuBLAS", "fp32", "64x64x8", "sm_80", False),
    ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_warpsize2x2x1_"
     "tensor16x8x16_kernel", "cuBLAS", "fp16", "96x128x32", "sm_80", True),
    ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize32x32x64_stage3_warpsize2x2x1_"
     "tensor16x8x8_kernel", "cuBLAS", "tf32", "32x32x64", "sm_80", True),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
     "segment_k_off_kernel__5x_cublas", "cuBLAS", "bf16", "128x128x64", "sm_90", True),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x16_stage3_warpsize2x2x1_ff_main_v1",
     "cuBLAS", "fp32", "32x32x16", "sm_80", None),
    ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn",
     "cuBLAS", "bf16", "128x128x32", "Ampere", True),
    ("ampere_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn",
     "cuBLAS", "fp16", "64x64x64", "Ampere", True),
    ("ampere_sgemm_32x32_sliced1x4_tn", "cuBLAS", "fp32", "32x32", "Ampere", False),
    ("ampere_h16816gemm_128x128_ldg8_stages_32x5_tn",
     "cuBLAS", "fp16", "128x128x32", "Ampere", True),
    ("volta_sgemm_128x64_tn", "cuBLAS", "fp32", "128x64", "Volta", False),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "cuBLAS", "fp16", "128x128", "Volta", True),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
     "cuBLAS", "fp16", "128x128", "Turing", True),
    ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>"
     "(cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4::Params)",
     "CUTLASS", "tf32", "64x64x16", "sm_80", True),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x5_tn_align8>"
     "(T1::Params)", "CUTLASS", "bf16", "128x128x32", "sm_80", True),
    ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8>"
     "(T1::Params)", "CUTLASS", "bf16", "32x32x32", "sm_80", True),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)",
     "CUTLASS", "fp32", "256x128x8", "sm_80", False),
    ("cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x128x16_1x1x1_3_tnn_align1_bias_f32_relu",
     "CUTLASS", "fp32", "128x128x16", "sm_100", False),
    ("_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE",
     "CUTLASS", "fp32", "256x128x8", "sm_80", False),
    ("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10"
     "collective13CollectiveMmaINS1_35MainloopSm100TmaUmmaWarpSpecializedILi13ELi2ELi4ENS5_IJNS4_",
     "CUTLASS", None, None, "sm_100", True),
    ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, "
     "float, false, true, true, false, 7, false, cublasGemvParamsEx<int, float> >"
     "(cublasGemvParamsEx<int, float>)", "cuBLAS", "fp32", None, None, None),
    ("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, "
     "16, 4, 4, false, false, cublasGemvParamsEx<int> >(cublasGemvParamsEx<int>)",
     "cuBLAS", "bf16", None, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "library", "dtype", "tile", "architecture", "cores"), GEMMS)
def test_matrix_products(name, library, dtype, tile, architecture, cores):
    kernel = describe_kernel(name)
    assert kernel.work == "matmul"
    assert (kernel.library, kernel.dtype, kernel.tile) == (library, dtype, tile)
    assert (kernel.architecture, kernel.tensor_cores) == (architecture, cores)


def test_a_matmul_label_says_what_a_reader_looks_for():
    label = describe_kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTN").label
    assert label == "matmul bf16 256x128 (nvjet)"
    with_bias = describe_kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT")
    assert with_bias.label == "matmul + bias bf16 256x128 (nvjet)" and with_bias.work == "matmul"


def test_split_k_is_the_sum_that_follows_a_product():
    name = (
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, "
        "__nv_bfloat16, false>(cublasLt::cublasSplitKParams<float>, float const*)"
    )
    kernel = describe_kernel(name)
    assert (kernel.work, kernel.library, kernel.tensor_cores) == ("reduce", "cuBLAS", None)
    assert "split-K" in kernel.label


# name, label, work, dtype
ATEN = [
    (vectorized("at::native::AUnaryFunctor<c10::Half, c10::Half, c10::Half, "
                "at::native::binary_internal::MulFunctor<float> >"),
     "multiply by a number", "elementwise", "fp16"),
    (strided("at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
             "at::native::binary_internal::MulFunctor<float> >"),
     "multiply", "elementwise", "bf16"),
    (strided("at::native::BinaryFunctor<float, float, float, "
             "at::native::binary_internal::DivFunctor<float> >"),
     "divide", "elementwise", "fp32"),
    (vectorized("at::native::CUDAFunctor_add<c10::Half>", 3),
     "add or subtract", "elementwise", "fp16"),
    (vectorized("at::native::CUDAFunctorOnSelf_add<float>"),
     "add or subtract a number", "elementwise", "fp32"),
    (vectorized("at::native::AUnaryFunctor<c10::Half, c10::Half, bool, at::native::(anonymous "
                "namespace)::CompareEqFunctor<c10::Half> >"),
     "compare: equal (with a number)", "elementwise", "fp16"),
    (vectorized("at::native::exp_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()()"
                " const::{lambda()#2}::operator()() const::{lambda(float)#1}"),
     "exp", "elementwise", "fp32"),
    (vectorized("at::native::logical_not_kernel_cuda(at::TensorIteratorBase&)::{lambda()#1}::"
                "operator()() const::{lambda()#8}::operator()() const::{lambda(bool)#1}"),
     "logical not", "elementwise", "bool"),
    (vectorized("at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::"
                "{lambda()#2}::operator()() const::{lambda()#4}::operator()() const::"
                "{lambda(c10::BFloat16)#1}"),
     "gelu", "elementwise", "bf16"),
    (vectorized("at::native::(anonymous namespace)::pow_tensor_scalar_kernel_impl<float, float>"
                "(at::TensorIteratorBase&, float)::{lambda(float)#1}"),
     "power", "elementwise", "fp32"),
    (vectorized(MASKED_FILL, 3), "masked fill", "mask", "fp16"),
    (strided(MASKED_FILL), "masked fill", "mask", "fp16"),
    (vectorized("at::native::(anonymous namespace)::where_kernel_impl(at::TensorIterator&)::"
                "{lambda()#1}::operator()() const::{lambda()#11}::operator()() const::"
                "{lambda(bool, float, float)#1}", 4),
     "where (choose by mask)", "mask", "fp32"),
    ("void at::native::triu_tril_kernel<float, int, false, 2, false>(at::cuda::detail::TensorInfo<"
     "float, int>, at::cuda::detail::TensorInfo<float const, int>, long, long, int)",
     "keep a triangle (tril)", "mask", "fp32"),
    ("void at::native::triu_tril_kernel<c10::Half, int, true, 4, false>(at::cuda::detail::"
     "TensorInfo<c10::Half, int>)", "keep a triangle (triu)", "mask", "fp16"),
    (vectorized("at::native::FillFunctor<c10::BFloat16>", 1), "fill with a number", "fill", "bf16"),
    (vectorized("at::native::FillFunctor<unsigned char>", 1),
     "fill with a number", "fill", "uint8"),
    (strided(DIRECT_COPY), "copy fp32", "copy", "fp32"),
    (vectorized("at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}"),
     "convert to bf16", "copy", None),
    ("void at::native::unrolled_elementwise_kernel<" + DIRECT_COPY + ", std::array<char*, 2ul>, 4, "
     "TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, "
     "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int)",
     "convert to fp32", "copy", None),
    ("void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<at::native::(anonymous"
     " namespace)::OpaqueType<4u>, unsigned int, 3, 128, 1, 16, 4>(char*)",
     "concatenate", "copy", None),
    ("void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::Half, long, unsigned int,"
     " 2, 2, -2, true>(at::cuda::detail::TensorInfo<c10::Half, unsigned int>)",
     "select by index", "copy", "fp16"),
    ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, "
     "long, long, bool)", "gather", "copy", None),
    ("void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::"
     "func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()"
     "(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4> >(int)",
     "sum", "reduce", "fp32"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float,"
     " float>, unsigned int, float, 4> >(int)", "mean", "reduce", "fp32"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<bool, at::native::func_wrapper_t"
     "<bool, at::native::and_kernel_cuda(at::TensorIterator&)::{lambda()#1}::operator()() const::"
     "{lambda()#8}::operator()() const::{lambda(bool, bool)#1}>, unsigned int, bool, 4, 4> >(int)",
     "all true?", "reduce", "bool"),
    ("void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, "
     "false, false>(c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)",
     "softmax", "softmax", "bf16"),
    ("void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>"
     "(float*, float const*, float const*, int, int, int, bool const*)",
     "log-softmax bwd", "softmax", "fp32"),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::Half, float, c10::Half, "
     "at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(c10::Half*, c10::Half const*, "
     "int)", "softmax", "softmax", "fp16"),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxForwardSmem<4, float, float, float, "
     "at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, long)",
     "softmax", "softmax", "fp32"),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, c10::Half, float, c10::Half,"
     " at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>(c10::Half*, long)",
     "log-softmax bwd", "softmax", "fp16"),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half, float>(int, "
     "float, c10::Half const*)", "layer norm", "reduce", "fp16"),
    ("void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, "
     "4, at::native::templates::cuda::normal_and_transform<float, float, at::CUDAGeneratorImpl*, "
     "at::native::templates::cuda::normal_kernel<at::CUDAGeneratorImpl*>(at::TensorBase const&, "
     "double, double)> >(long)", "fill with random numbers (normal)", "fill", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "label", "work", "dtype"), ATEN)
def test_pytorchs_own_kernels(name, label, work, dtype):
    kernel = describe_kernel(name)
    assert (kernel.label, kernel.work, kernel.dtype) == (label, work, dtype)
    assert kernel.library == "PyTorch (ATen)"
    assert kernel.tensor_cores is None, "no matrix product, so the question does not arise"


def test_nsight_systems_spelling_reads_the_same():
    name = (
        "void <unnamed>::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, (int)9, "
        "(bool)1, (bool)0>(T2 *, const T1 *, int, int, int, const bool *, int, bool)"
    )
    kernel = describe_kernel(name)
    assert (kernel.label, kernel.dtype) == ("log-softmax", "bf16")


# name, library, direction, dtype, tile, architecture, tensor cores
ATTENTION = [
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::"
     "bfloat16_t, cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)",
     "CUTLASS (xFormers) in PyTorch", "attention forward", "bf16", "64x64", "sm_80", True),
    ("fmha_cutlassB_f32_aligned_64x64_k32_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<"
     "cutlass::arch::Sm80, float, true, false, false, 64, 64, 32, false>::Params)",
     "CUTLASS (xFormers) in PyTorch", "attention backward", "fp32", "64x64", "sm_80", True),
    ("fmha_cutlassF_f32_notaligned_64x64_rf_sm70",
     "CUTLASS (xFormers)", "attention forward", "fp32", "64x64", "sm_70", False),
    ("_Z41fmha_cutlassB_f32_aligned_64x64_k128_sm80N22PyTorchMemEffAttention23AttentionBackward",
     "CUTLASS (xFormers) in PyTorch", "attention backward", "fp32", "64x64", "sm_80", True),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
     "cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, "
     "false, false, false, false, true, false, false>(pytorch_flash::Flash_fwd_params)",
     "FlashAttention in PyTorch", "attention forward", "bf16", "128x128", None, True),
    ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
     "cutlass::half_t>, false, true, false, false, true, false>(flash::Flash_fwd_params)",
     "FlashAttention", "attention forward, split keys", "fp16", "128x64", None, True),
    ("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<96, "
     "64, 128, 8, 2, 4, 4, true, false, cutlass::half_t> >(pytorch_flash::Flash_bwd_params)",
     "FlashAttention in PyTorch", "attention backward", "fp16", "64x128", None, True),
    (FLASH3, "FlashAttention-3", "attention forward", "bf16", "192x128", "sm_90", True),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_"
     "kernel0_0", "cuDNN", "attention forward", None, "64x128x128", "sm_90", True),
    ("cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x128_4x1x1_kernel0_0",
     "cuDNN", "attention forward", None, "64x64x128", "sm_80", True),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x",
     "cuDNN", "attention backward", None, "64x64x128", "sm_90", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "library", "operation", "dtype", "tile", "architecture", "cores"), ATTENTION
)
def test_fused_attention(name, library, operation, dtype, tile, architecture, cores):
    kernel = describe_kernel(name)
    assert kernel.work == "attention"
    assert (kernel.library, kernel.operation, kernel.dtype) == (library, operation, dtype)
    assert (kernel.tile, kernel.architecture, kernel.tensor_cores) == (tile, architecture, cores)


def test_helpers_of_attention_claim_no_matrix_product():
    kernel = describe_kernel(
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 128, 128,"
        " 8, 4, 4, 4, false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_bwd_params)"
    )
    assert (kernel.work, kernel.tensor_cores) == ("attention", None)
    assert kernel.label == "flash attention bwd: row sums of dO*O"


# name, work, label, library, dtype
OTHERS = [
    ("Memcpy DtoD (Device -> Device)", "copy", "copy device to device", "CUDA runtime", None),
    ("Memcpy HtoD (Pageable -> Device)",
     "copy", "copy host to device (pageable)", "CUDA runtime", None),
    ("Memcpy DtoH (Device -> Pinned)",
     "copy", "copy device to host (pinned)", "CUDA runtime", None),
    ("[CUDA memcpy Host-to-Device]", "copy", "copy host to device", "CUDA runtime", None),
    ("Memset (Device)", "fill", "set memory (Memset)", "CUDA runtime", None),
    ("triton_poi_fused_gelu_mul_0", "elementwise", "fused: gelu_mul", "Inductor (Triton)", None),
    ("triton_per_fused__softmax_1",
     "softmax", "fused reduction: _softmax", "Inductor (Triton)", None),
    ("triton_red_fused_mean_pow_3",
     "reduce", "fused reduction: mean_pow", "Inductor (Triton)", None),
    ("triton_tem_fused_flex_attention_0",
     "attention", "fused template: flex_attention", "Inductor (Triton)", None),
    ("triton_tem_fused_addmm_t_view",
     "matmul", "fused template: addmm_t_view", "Inductor (Triton)", None),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
     "communication", "all-reduce sum bf16 (NCCL)", "NCCL", "bf16"),
    ("ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
     "communication", "all-reduce sum fp16 (NCCL)", "NCCL", "fp16"),
    ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
     "communication", "all-gather (NCCL)", "NCCL", None),
    ("_attn_fwd", "attention", "_attn_fwd", None, None),
    ("add_kernel", "elementwise", "add_kernel", None, None),
    ("_geglu_tanh_forward_kernel", "elementwise", "_geglu_tanh_forward_kernel", None, None),
    ("add_kernel_0d1d2d3d", "elementwise", "add_kernel", "Triton", None),
    ("triton__0d1d2d3d", "other", "triton_", "Triton", None),
    ("my_conv_2d", "other", "my_conv_2d", None, None),
    ("_Z11some_kernelPfS_i", "other", "some_kernel", None, None),
    ("_ZN12_GLOBAL__N_16kernelEPf", "other", "kernel", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "work", "label", "library", "dtype"), OTHERS)
def test_copies_triton_and_the_rest(name, work, label, library, dtype):
    kernel = describe_kernel(name)
    assert (kernel.work, kernel.label, kernel.library) == (work, label, library)
    assert kernel.dtype == dtype


SYMBOLS = [
    ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIN3c104HalfES4_S4_NS0_"
     "15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EEEEviT0_T1_", "multiply by a number"),
    ("_ZN2at6native43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6319cunn_SoftMaxForwardILi8EN3c104"
     "HalfEfS4_NS1_22SoftMaxForwardEpilogueEEEvPT2_PKT0_i", "softmax"),
    ("_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_18GeluCUDAKernelImplERNS_18"
     "TensorIteratorBaseENS0_8GeluTypeEENKUlvE0_clEvENKUlvE2_clEvEUlN3c108BFloat16EE_NS_6detail5"
     "ArrayIPcLi2EEEEEviT0_T1_", "gelu"),
    ("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_22CUDAFunctorOnOther"
     "_addIbEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_", "add or subtract a number"),
]  # fmt: skip


@pytest.mark.parametrize(("symbol", "label"), SYMBOLS)
def test_symbols_that_were_not_demangled(symbol, label):
    kernel = describe_kernel(symbol)
    assert kernel.label == label
    assert kernel.name == symbol
    assert kernel.dtype is None, "types stand in a code that is not read"


def test_a_symbol_without_its_flags_does_not_choose_between_two_operations():
    symbol = "_ZN12_GLOBAL__N_120softmax_warp_forwardIfffLi10ELb1ELb0EEEvPT0_PKT_iiiPKbib"
    assert describe_kernel(symbol).operation == "softmax or log-softmax"


def test_an_unknown_name_is_shown_as_it_is_and_shortened_in_the_middle():
    short = "void mine::kernel<4>(int)"
    assert describe_kernel(short) == KernelDescription(short, "other", short)
    long = "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, c10::BFloat16 const*, float)"
    label = describe_kernel(long).label
    start, end = label.split("…")
    assert len(label) == 40
    assert start
    assert end
    assert long.startswith(start)
    assert long.endswith(end)


# Names cut off, with the words of a family but not its form, or of the wrong shape.
BROKEN = [
    "", "\n", "void ", "<", "::", "_Z", "_ZN", "_ZN99999at", "_ZN2at6native18elementw", "Memcpy",
    "Memcpy XtoY", "nvjet_", "nvjet_sm90_", "sm80_xmma_gemm_", "ampere_gemm", "cutlass::", "nccl",
    "ncclDevKernel_", "triton_poi_fused_", "fmha_cutlassF_", "flash_fwd_kernel", "at::native::",
    "at::native::vectorized_elementwise_kernel<4, at...", "at::native::reduce_kernel<",
    "cudnn_generated_fort_native_sdpa_", "cutlass::device_kernel<flash::FlashAttn",
    "at::native::multi_tensor_apply_kernel<", "at::native::triu_tril_kernel", "a\x00b", "ядро",
]  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_names_are_described_too(name):
    check(describe_kernel(name), name)


def check(kernel: KernelDescription, name: str) -> None:
    assert kernel.name == name
    assert kernel.work in WORK_KINDS
    assert 0 < len(kernel.label) <= 40
    assert kernel.label.isprintable()


ALL_NAMES = [row[0] for rows in (GEMMS, ATEN, ATTENTION, OTHERS, SYMBOLS) for row in rows]
PIECES = st.sampled_from([*BROKEN, *ALL_NAMES, "<", ">", "(", ")", ", ", "::", "_", "1", "lambda("])


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=6).map("".join)))
def test_no_text_makes_it_fail(name):
    check(describe_kernel(name), name)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_known_name_cut_anywhere_is_still_described(data):
    name = data.draw(st.sampled_from(ALL_NAMES))
    cut = name[: data.draw(st.integers(0, len(name)))]
    check(describe_kernel(cut), cut)


@pytest.mark.parametrize(
    "piece",
    ["a", "_", "9", "<", "(", "1x", "_1d", "at::native::", "_ZN", "nvjet_", "x" * 99 + "::",
     "cute::C<1>, ", "flash_fwd_kernel<Flash_fwd_kernel_traits<", "lambda(", "ReduceOp<", "S0_"],
)  # fmt: skip
@pytest.mark.parametrize("start", ["", "_ZN", "void at::native::reduce_kernel<", FLASH3])
def test_time_is_linear_in_the_length(piece, start):
    name = start + piece * (200_000 // len(piece))
    begin = time.perf_counter()
    describe_kernel(name)
    assert time.perf_counter() - begin < 0.5


def test_labels_of_everything_are_distinct_short_and_independent_of_order():
    labels = label_kernels(ALL_NAMES)
    assert set(labels) == set(ALL_NAMES)
    assert len(set(labels.values())) == len(set(ALL_NAMES))
    assert max(map(len, labels.values())) <= 40
    assert labels == label_kernels(reversed(ALL_NAMES))


def test_long_names_alike_at_both_ends_get_different_labels():
    start, end = "void lab::" + "a" * 50, "z" * 55 + ">(int)"
    names = [start + f"{n:04d}".center(1_880, "m") + end for n in range(300)]
    assert len(names[0]) > 1_990
    for width in (12, 40):
        labels = label_kernels(names, width)
        assert len(set(labels.values())) == 300
        assert max(map(len, labels.values())) <= width


def test_kernels_that_differ_in_dtype_or_layout_say_so():
    bf16 = vectorized("at::native::FillFunctor<c10::BFloat16>", 1)
    fp32 = vectorized("at::native::FillFunctor<float>", 1)
    layouts = [f"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_{end}" for end in ("NTN", "NNT")]
    labels = label_kernels([bf16, fp32, *layouts])
    assert labels[bf16] == "fill with a number bf16"
    assert labels[fp32] == "fill with a number fp32"
    assert [labels[name][-3:] for name in layouts] == ["NTN", "NNT"]


def test_a_kernel_named_like_a_label_does_not_steal_it():
    copies = [f"void at::native::CatArrayBatchedCopy<{n}>(int)" for n in range(2)]
    names = [*copies, "concatenate #1", "concatenate #2", "concatenate"]
    labels = label_kernels(names)
    assert len(set(labels.values())) == len(names)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=80), PIECES), max_size=30), st.integers(12, 60))
def test_labels_are_distinct_for_any_names(names, width):
    labels = label_kernels(names, width)
    assert set(labels) == set(names)
    assert len(set(labels.values())) == len(set(names))
    assert all(len(label) <= width for label in labels.values())


def test_a_width_without_room_for_differences_is_refused():
    with pytest.raises(ValueError, match="12 or more"):
        label_kernels(["a"], width=5)


@pytest.mark.parametrize(
    ("name", "label", "work", "dtype", "cores"),
    [
        (
            "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float,"
            " false, true, (cudnnKernelDataType_t)0>(cudnn::engines_precompiled::"
            "nchw2nhwc_params_t<float>, __nv_bfloat16 const*, __nv_bfloat16*)",
            "reorder nchw to nhwc (cuDNN)",
            "copy",
            "bf16",
            None,
        ),
        (
            "void cudnn::engines_precompiled::nhwcToNchwKernel<__half, __half, float, true, false, "
            "(cudnnKernelDataType_t)0>(cudnn::engines_precompiled::nhwc2nchw_params_t<float>)",
            "reorder nhwc to nchw (cuDNN)",
            "copy",
            "fp16",
            None,
        ),
        (
            "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_"
            "128x128_32x5_nhwc_align8>(cutlass_tensorop_bf16_s16816fprop_optimized_bf16_128x128_"
            "32x5_nhwc_align8::Params)",
            "convolution bf16 128x128 (cuDNN)",
            "matmul",
            "bf16",
            True,
        ),
    ],
)
def test_convolutions_and_the_reordering_around_them(name, label, work, dtype, cores):
    found = describe_kernel(name)
    assert (found.label, found.work, found.dtype) == (label, work, dtype)
    assert found.tensor_cores is cores and found.library == "cuDNN"
