"""Names of PyTorch's own kernels (ATen): elementwise, reduce, softmax, normalisation, copies.

An elementwise kernel's function says only how it walks the tensor; what it computes is its
functor, the first identifier of its template arguments that is not part of the machinery.
"""

from __future__ import annotations

import re

from .description import (
    KernelDescription,
    ReadName,
    dtype_of,
    lambda_dtype,
    shorten_middle,
    template_arguments,
)

LIBRARY = "PyTorch (ATen)"
_IDENTIFIER = re.compile(r"(?<!\w)[A-Za-z_]\w*")
# fmt: off
_MACHINERY = frozenset((
    "at", "native", "std", "cuda", "c10", "templates", "detail", "binary_internal", "memory",
    "void", "operator", "const", "unsigned", "signed", "char", "bool", "short", "int", "long",
    "float", "double", "BFloat16", "Half", "complex", "OpaqueType", "true", "false",
    "gpu_kernel", "gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel",
    "opmath_gpu_kernel_with_scalars", "opmath_symmetric_gpu_kernel_with_scalars",
    "AUnaryFunctor", "BUnaryFunctor", "BinaryFunctor", "ReduceOp", "func_wrapper_t",
))
# fmt: on
# functor -> (what it does, kind of work). Where PyTorch's name for the functor says it already
# ("exp_kernel_cuda", "AbsFunctor") no entry is needed.
_FUNCTORS = {
    "MulFunctor": ("multiply", "elementwise"),
    "DivFunctor": ("divide", "elementwise"),
    # a - b runs the same kernel as a + b, with a factor of -1 that the name does not show.
    "CUDAFunctor_add": ("add or subtract", "elementwise"),
    "CUDAFunctorOnSelf_add": ("add or subtract a number", "elementwise"),
    "CUDAFunctorOnOther_add": ("add or subtract a number", "elementwise"),
    "CompareEqFunctor": ("compare: equal", "elementwise"),
    "CompareFunctor": ("compare", "elementwise"),
    "pow_tensor_scalar_kernel_impl": ("power", "elementwise"),
    "launch_clamp_scalar": ("clamp", "elementwise"),
    "masked_fill_kernel": ("masked fill", "mask"),
    "masked_fill_kernel_quantized": ("masked fill", "mask"),
    "where_kernel_impl": ("where (choose by mask)", "mask"),
    "FillFunctor": ("fill with a number", "fill"),
    "arange_cuda_out": ("fill with a range", "fill"),
    "direct_copy_kernel_cuda": ("copy", "copy"),
    "bfloat16_copy_kernel_cuda": ("convert to bf16", "copy"),
    "float16_copy_kernel_cuda": ("convert to fp16", "copy"),
    "bfloat16tofloat32_copy_kernel_cuda": ("convert bf16 to fp32", "copy"),
    "float16tofloat32_copy_kernel_cuda": ("convert fp16 to fp32", "copy"),
    "index_kernel_impl": ("pick by index", "copy"),
    "index_put_kernel_impl": ("write by index", "copy"),
    "sum_functor": ("sum", "reduce"),
    "MeanOps": ("mean", "reduce"),
    "MaxNanFunctor": ("maximum", "reduce"),
    "MinNanFunctor": ("minimum", "reduce"),
    "MaxOps": ("maximum with its place", "reduce"),
    "MinOps": ("minimum with its place", "reduce"),
    "ArgMaxOps": ("place of the maximum", "reduce"),
    "ArgMinOps": ("place of the minimum", "reduce"),
    "NormTwoOps": ("norm (root of squares)", "reduce"),
    "WelfordOps": ("variance or standard deviation", "reduce"),
    "and_kernel_cuda": ("all true?", "reduce"),
    "or_kernel_cuda": ("any true?", "reduce"),
}
_SYMMETRIC = frozenset({"multiply", "compare: equal"})
# Beginning of a function's name -> (what it does, kind of work); the first that fits counts.
_FUNCTIONS = (
    ("CatArrayBatchedCopy", "concatenate", "copy"),
    ("vectorized_layer_norm_kernel", "layer norm", "reduce"),
    ("LayerNormForward", "layer norm", "reduce"),
    ("RowwiseMoments", "layer norm: mean and variance", "reduce"),
    ("layer_norm_grad_input", "layer norm bwd: input", "reduce"),
    ("GammaBetaBackward", "layer norm bwd: weight and bias", "reduce"),
    ("rms_norm", "rms norm", "reduce"),
    ("vectorized_gather_kernel", "gather", "copy"),
    ("indexSelect", "select by index", "copy"),
    ("_scatter_gather_elementwise", "gather or scatter", "copy"),
    ("indexing_backward", "add up by index", "reduce"),
    ("embedding_backward", "embedding bwd", "reduce"),
    ("fused_dropout", "dropout", "elementwise"),
    ("nll_loss_forward", "negative log likelihood", "reduce"),
    ("nll_loss_backward", "negative log likelihood bwd", "elementwise"),
)
_WALKERS = ("elementwise_kernel", "unrolled_elementwise_kernel", "vectorized_elementwise_kernel")
_PAIR = re.compile(r"(?:AUnaryFunctor|BUnaryFunctor|BinaryFunctor)<([^<>,]+), ([^<>,]+),")
_ONE = re.compile(r"(?:Functor|CUDAFunctor|CUDAFunctorOn(?:Self|Other))\w*<([^<>,]+)[,>]")
_ENDINGS = ("_kernel_cuda", "_kernel_impl", "_cuda_kernel", "_cuda_out", "_kernel", "_cuda",
            "_impl", "CUDAKernelImpl", "KernelImpl", "CUDAKernel", "Kernel", "Functor", "_functor",
            "Ops")  # fmt: skip


def describe_aten(read: ReadName) -> KernelDescription | None:
    """Describe a kernel of ATen, or None if the name is not one."""
    softmax = _softmax(read)
    if softmax is not None:
        return softmax
    if not read.head.startswith("at::native::") or not read.leaf:
        return None
    if "triu_tril" in read.leaf:
        return _triangle(read)
    if "elementwise_kernel_manual_unroll" in read.leaf or read.leaf.startswith(_WALKERS):
        return _elementwise(read)
    if read.leaf == "index_elementwise_kernel":
        return _by_functor(read, None, "elementwise")
    if read.leaf == "reduce_kernel":
        return _reduce(read)
    if read.leaf.startswith("distribution_elementwise"):
        return _random(read)
    if read.leaf == "multi_tensor_apply_kernel":
        arguments = template_arguments(read.text)
        inner = _words(_functor(arguments[1]) or "") if len(arguments) > 1 else ""
        return _description(read, f"foreach {inner}".strip(), "elementwise", None)
    for start, operation, work in _FUNCTIONS:
        if read.leaf.startswith(start):
            return _description(read, operation, work, _first_type(read))
    return _description(read, _words(read.leaf), "other", None)


def _description(
    read: ReadName, operation: str, work: str, dtype: str | None, label: str | None = None
) -> KernelDescription:
    return KernelDescription(
        read.full,
        work,
        shorten_middle(label or operation or read.leaf, 40),
        LIBRARY,
        operation or None,
        # A symbol that was not demangled keeps its types in a code that is not read here.
        None if read.mangled else dtype,
    )


def _functor(text: str) -> str | None:
    """First identifier that is not machinery: the functor of an elementwise or reduce kernel."""
    return next((word for word in _IDENTIFIER.findall(text) if word not in _MACHINERY), None)


def _words(identifier: str) -> str:
    """`GeluBackwardCUDAKernelImpl` -> "gelu backward", `exp_kernel_cuda` -> "exp"."""
    identifier = identifier.removeprefix("launch_").removeprefix("CUDAFunctor_")
    for ending in _ENDINGS:
        if identifier.endswith(ending) and len(identifier) > len(ending):
            identifier = identifier.removesuffix(ending)
            break
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", identifier.replace("_", " "))
    return spaced.lower().strip()


def _after_function(read: ReadName) -> str:
    return read.text[len(read.head) :]


def _elementwise(read: ReadName) -> KernelDescription:
    inside = _after_function(read)
    pair, one = _PAIR.search(inside), _ONE.search(inside)
    if pair:
        kinds = {dtype_of(pair.group(1)), dtype_of(pair.group(2))}
        dtype = kinds.pop() if len(kinds) == 1 else None
    else:
        dtype = lambda_dtype(inside) or (dtype_of(one.group(1)) if one else None)
    return _by_functor(read, dtype, "elementwise")


def _by_functor(read: ReadName, dtype: str | None, work: str) -> KernelDescription:
    inside = _after_function(read)
    functor = _functor(inside) or ""
    operation, work = _FUNCTORS.get(functor, (_words(functor), work))
    if "UnaryFunctor<" in inside or "UnaryFunctor," in inside:
        # Binary arithmetic of which one side is a single number: AUnary the first, BUnary the
        # second.
        if operation == "multiply":
            operation = "multiply by a number"
        elif operation in _SYMMETRIC or "BUnaryFunctor" in inside:
            operation = f"{operation} (with a number)"
        else:
            operation = f"{operation} (a number first)"
    if functor == "direct_copy_kernel_cuda":
        # The functor has the element type of the destination; a cast on loading brings the
        # source to it.
        if "LoadWithCast" in inside:
            return _description(read, f"convert to {dtype}" if dtype else "convert", work, None)
        return _description(read, "copy", work, dtype, f"copy {dtype}" if dtype else "copy")
    if operation.startswith("convert"):
        dtype = None
    if not functor:
        operation = ""
    return _description(read, operation, work, dtype)


def _reduce(read: ReadName) -> KernelDescription:
    inside = _after_function(read)
    match = re.search(r"ReduceOp<([^<>,]+),", inside)
    return _by_functor(read, dtype_of(match.group(1)) if match else None, "reduce")


def _softmax(read: ReadName) -> KernelDescription | None:
    leaf = read.leaf
    warp = re.match(r"softmax_warp_(forward|backward)$", leaf)
    block = re.match(r"cunn_(?:Spatial)?SoftMax(Forward|Backward)", leaf)
    if not warp and not block:
        return None
    backward = (warp.group(1) if warp else block.group(1)).lower() == "backward"
    arguments = [] if read.mangled else template_arguments(read.text)
    logarithm: bool | None = None
    if warp and len(arguments) > 4:
        # <input, output, accumulator, log2 of the row length, is it log-softmax, is it masked>
        logarithm = arguments[4] == "true"
    elif block and "Epilogue" in read.text:
        # <elements a load (not in every variant), input, accumulator, output, epilogue>
        logarithm = "LogSoftMax" in read.text
    operation = {True: "log-softmax", False: "softmax", None: "softmax or log-softmax"}[logarithm]
    dtype = next((kind for kind in map(dtype_of, arguments) if kind), None)
    return _description(read, operation + (" bwd" if backward else ""), "softmax", dtype)


def _triangle(read: ReadName) -> KernelDescription:
    # <element, index, upper, elements a thread, in place>
    arguments = [] if read.mangled else template_arguments(read.text)
    flags = [argument for argument in arguments if argument in ("true", "false")]
    name = {"true": "triu", "false": "tril"}.get(flags[0] if flags else "", "triu or tril")
    operation = f"keep a triangle ({name})"
    return _description(read, operation, "mask", _first_type(read))


def _random(read: ReadName) -> KernelDescription:
    inside = _after_function(read)
    match = re.search(r"templates::cuda::(\w+?)(?:_and_transform|_kernel)\b", inside)
    kind = f" ({match.group(1)})" if match else ""
    return _description(read, f"fill with random numbers{kind}", "fill", None)


def _first_type(read: ReadName) -> str | None:
    arguments = template_arguments(read.text)
    return dtype_of(arguments[0]) if arguments else None
