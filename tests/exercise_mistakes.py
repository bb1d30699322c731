"""Mistakes that a reader could make: notebook -> exercise -> what stands in the cell instead.

Each must be told "not yet". Beside plainly wrong answers there are the well-known ones: right for
a square only, for equal lengths only, for small numbers only, or in shape only.
"""

from __future__ import annotations

WRONG: dict[str, dict[int, list[str]]] = {
    "00": {
        1: [
            "answer_1 = 3",
            "answer_1 = run('naive', AttentionProblem(2, 3, 100, 32, dtype='float32', causal=True),"
            " device='cpu')",
            "answer_1 = run('in_place', AttentionProblem(2, 3, 100, 32, dtype='float32'),"
            " device='cpu')",
            "answer_1 = run('in_place', PROFILING_POST)",
        ],
        2: [
            "answer_2 = None",
            "answer_2 = ('softmax', 'half')",
            "k = attention.kernels.sort_values('mean_ns').iloc[0]\n"
            "answer_2 = (k['label'], k['mean_ns'] / attention.gpu_time_ns)",
            "k = attention.kernels.sort_values('mean_ns').iloc[-1]\n"
            "answer_2 = (k['label'], 100 * k['mean_ns'] / attention.gpu_time_ns)",
        ],
    },
    "01": {
        1: [
            "def put_together(patches, rows, columns, patch):\n"
            "    return patches.reshape(3, rows * patch, columns * patch)",
            "def put_together(patches, rows, columns, patch):\n"
            "    tiles = patches.reshape(rows, columns, 3, patch, patch)\n"
            "    return tiles.permute(2, 1, 3, 0, 4).reshape(3, columns * patch, rows * patch)",
            "def put_together(patches, rows, columns, patch):\n"
            "    tiles = patches.reshape(rows, columns, 3, patch, patch)\n"
            "    return tiles.permute(2, 0, 4, 1, 3).reshape(3, rows * patch, columns * patch)",
            "def put_together(patches, rows, columns, patch):\n"
            "    return patches.reshape(rows, columns)",
        ],
        2: [
            "answer_2 = (16 * 197, 12 * (16 * 197) ** 2 * 2)",
            "answer_2 = (3136, 12 * 16 * 196**2 * 2)",
            "answer_2 = (3136, 3136**2 * 2)",
            "answer_2 = 3136",
        ],
        3: [
            "answer_3 = (0, 0)",
            "answer_3 = (7, 7)",
            "answer_3 = (13, 13)",
            "answer_3 = 1",
            "table = sine_positions(14, 14, 768)\nanswer_3 = (13, 0)",
        ],
        4: [
            "answer_4 = 0",
            "answer_4 = 577 * 768",
            "answer_4 = 577**2 - 197**2",
            "answer_4 = 'the same'",
        ],
    },
    "02": {
        1: [
            "def my_attention(q, k, v):\n    return torch.softmax(q @ k.T, dim=-1) @ v",
            "def my_attention(q, k, v):\n"
            "    powers = (q @ k.T / q.shape[1] ** 0.5).exp()\n"
            "    return powers / powers.sum(dim=-1, keepdim=True) @ v",
            "def my_attention(q, k, v):\n"
            "    return torch.softmax(q @ k.T / q.shape[1] ** 0.5, dim=0) @ v",
            "def my_attention(q, k, v):\n    return torch.softmax(q @ k / 4, dim=-1) @ v",
            "def my_attention(q, k, v):\n    return v",
            "def my_attention(q, k, v):\n    return torch.softmax(q @ k.T / 4, dim=-1) @ v",
        ],
        2: [
            "def divisor(d, of_q, of_k):\n    return d * of_q * of_k",
            "def divisor(d, of_q, of_k):\n    return (d * (of_q + of_k) / 2) ** 0.5",
            "def divisor(d, of_q, of_k):\n    return d**0.5 * of_q * of_k",
            "def divisor(d, of_q, of_k):\n    pass",
        ],
        3: [
            "def window_mask(length, width):\n"
            "    return ~torch.ones(length, length, dtype=torch.bool).tril()",
            "def window_mask(length, width):\n"
            "    ones = torch.ones(length, length, dtype=torch.bool)\n"
            "    return ones.tril() & ones.triu(diagonal=-width)",
            "def window_mask(length, width):\n"
            "    ones = torch.ones(length, length, dtype=torch.bool)\n"
            "    return ones.triu() & ones.tril(diagonal=width - 1)",
            "def window_mask(length, width):\n    return torch.ones(length, length).tril()",
        ],
        4: ["answer_4 = (0, 1)", "answer_4 = (9, 9)", "answer_4 = 6"],
    },
    "03": {
        1: [
            "answer_1 = ['aten::mm', 'aten::_softmax']",
            "answer_1 = ['aten::softmax', 'aten::matmul']",
            "answer_1 = ['aten::matmul', 'aten::mm', 'aten::softmax', 'aten::_softmax']",
            "answer_1 = ['aten::matmul']",
            "answer_1 = 2",
        ],
        2: [
            "def self_time(operators):\n"
            "    called = operators.groupby('parent')['duration_ns'].max()\n"
            "    return operators['duration_ns'] - called.reindex(operators.index, fill_value=0)",
            "def self_time(operators):\n"
            "    called = operators.groupby('parent')['duration_ns'].sum()\n"
            "    return operators['duration_ns'] - called",
            "def self_time(operators):\n    return operators['duration_ns'].diff().fillna(0)",
            "def self_time(operators):\n    return operators['self_ns']",
            "def self_time(operators):\n    return []",
        ],
        3: [
            "def time_of(gpu, work):\n"
            "    gpu.launch(work)\n"
            "    start = gpu.clock()\n"
            "    gpu.launch(work)\n"
            "    return gpu.clock() - start",
            "def time_of(gpu, work):\n"
            "    gpu.launch(work)\n"
            "    start = gpu.clock()\n"
            "    gpu.launch(work)\n"
            "    gpu.synchronize()\n"
            "    return gpu.clock() - start",
            "def time_of(gpu, work):\n"
            "    gpu.synchronize()\n"
            "    start = gpu.clock()\n"
            "    gpu.launch(work)\n"
            "    gpu.synchronize()\n"
            "    return gpu.clock() - start",
            "def time_of(gpu, work):\n    return work",
            "def time_of(gpu, work):\n    return gpu.launch()",
        ],
        4: ["answer_4 = (8, 3)", "answer_4 = (6, 4)", "answer_4 = (9, 4)", "answer_4 = 8"],
    },
    "04": {
        1: [
            "answer_1 = ['matmul', 'elementwise', 'mask', 'softmax', 'matmul']",
            "answer_1 = ['matmul', 'softmax', 'elementwise', 'matmul']",
            "answer_1 = ['matmul', 'copy', 'softmax', 'matmul']",
            "answer_1 = 4",
            "answer_1 = naive.kernels['work']",
        ],
        2: [
            # In place where softmax has saved its result.
            "def fewer_tensors(q, k, v, future):\n"
            "    scores = (q @ k.transpose(-2, -1)).mul_(q.shape[-1] ** -0.5)\n"
            "    weights = torch.softmax(scores, dim=-1).masked_fill_(future, 0.0)\n"
            "    return weights @ v",
            # One of the two only.
            "def fewer_tensors(q, k, v, future):\n"
            "    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5\n"
            "    scores.masked_fill_(future, float('-inf'))\n"
            "    return torch.softmax(scores, dim=-1) @ v",
            # Writes into the caller's leaf.
            "def fewer_tensors(q, k, v, future):\n"
            "    scores = q.mul_(q.shape[-1] ** -0.5) @ k.transpose(-2, -1)\n"
            "    scores.masked_fill_(future, float('-inf'))\n"
            "    return torch.softmax(scores, dim=-1) @ v",
            # Cut off from the gradients.
            "def fewer_tensors(q, k, v, future):\n"
            "    with torch.no_grad():\n"
            "        scores = (q @ k.transpose(-2, -1)).mul_(q.shape[-1] ** -0.5)\n"
            "        scores.masked_fill_(future, float('-inf'))\n"
            "    return torch.softmax(scores, dim=-1) @ v",
            "def fewer_tensors(q, k, v, future):\n    return v",
        ],
        3: [
            "def by_heads(q, k, v):\n"
            "    heads = [slice(h, h + 1) for h in range(q.shape[1])]\n"
            "    attend = IMPLEMENTATIONS['naive']\n"
            "    return torch.cat([attend(q[:, h], k[:, h], v[:, h]) for h in heads], 1)",
            "def by_heads(q, k, v):\n"
            "    heads = [slice(h, h + 1) for h in range(q.shape[1])]\n"
            "    attend = IMPLEMENTATIONS['naive']\n"
            "    return torch.cat("
            "[attend(q[:, h], k[:, h], v[:, h], causal=True) for h in heads], 0)",
            "def by_heads(q, k, v):\n"
            "    half = q.shape[1] // 2\n"
            "    parts = [slice(0, half), slice(half, None)]\n"
            "    attend = IMPLEMENTATIONS['in_place']\n"
            "    return torch.cat("
            "[attend(q[:, h], k[:, h], v[:, h], causal=True) for h in parts], 1)",
            "def by_heads(q, k, v):\n    return None",
        ],
        4: [
            "answer_4 = dict.fromkeys(answer_4, True)",
            "answer_4 = dict.fromkeys(answer_4, False)",
            "answer_4 = {'(x @ w).exp_()': True}",
            "answer_4 = [True, False, False, True]",
        ],
    },
    "05": {
        1: [
            "def padded(attend, q, k, v, mask):\n"
            "    d = q.shape[-1]\n"
            "    q, k, v = (F.pad(one, (0, -d % 8)) for one in (q, k, v))\n"
            "    return attend(q, k, v, mask=mask)[..., :d]",
            "def padded(attend, q, k, v, mask):\n"
            "    d = q.shape[-1]\n"
            "    q, k, v = (F.pad(one, (0, 8 - d % 8)) for one in (q, k, v))\n"
            "    return attend(q, k, v, mask=mask, scale=d**-0.5)[..., :d]",
            "def padded(attend, q, k, v, mask):\n"
            "    d = q.shape[-1]\n"
            "    q, k, v = (F.pad(one, (0, -d % 8)) for one in (q, k, v))\n"
            "    return attend(q, k, v, mask=mask, scale=d**-0.5)",
            "def padded(attend, q, k, v, mask):\n"
            "    d = q.shape[-1]\n"
            "    q, k, v = (F.pad(one, (0, -d % 8)) for one in (q, k, v))\n"
            "    return attend(q, k, v, scale=d**-0.5)[..., :d]",
            "def padded(attend, q, k, v, mask):\n    return q",
        ],
        2: [
            "def expand_heads(k, heads):\n    return k.repeat(1, heads // k.shape[1], 1, 1)",
            "def expand_heads(k, heads):\n    return k.repeat_interleave(heads, dim=1)",
            "def expand_heads(k, heads):\n    return k[:, :1].expand(-1, heads, -1, -1)",
            "def expand_heads(k, heads):\n    return k.no_such_method()",
        ],
        3: [
            "answer_3 = sdpa.load_atlas().cells['slowdown'].idxmax()",
            "answer_3 = sdpa.load_atlas().cells['fastest_ns'].idxmax()",
            "answer_3 = -1",
            "answer_3 = 'the first'",
            "answer_3 = [1, 2]",
        ],
        4: [
            "answer_4 = sdpa.load_atlas().cells['head_dim'].unique()",
            "answer_4 = 36",
            "answer_4 = set(sdpa.load_atlas().cells['head_dim'])",
            "answer_4 = {36}",
            "answer_4 = {'36'} | {64}",
            "answer_4 = [None]",
        ],
    },
    "06": {
        2: [
            "answer_2 = (8, 128)",
            "answer_2 = (1, 128)",
            "answer_2 = (1, [32, 64])",
            "answer_2 = (4, 32)",
            "answer_2 = 1",
        ],
        3: [
            # No mask at the store.
            "@triton.jit\n"
            "def leaky_kernel(x, z, n, slope, BLOCK: tl.constexpr):\n"
            "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    v = tl.load(x + i, mask=i < n)\n"
            "    tl.store(z + i, tl.where(v > 0, v, slope * v))",
            # The plain ReLU.
            "@triton.jit\n"
            "def leaky_kernel(x, z, n, slope, BLOCK: tl.constexpr):\n"
            "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    v = tl.load(x + i, mask=i < n)\n"
            "    tl.store(z + i, tl.maximum(v, 0.0), mask=i < n)",
            # Only the first block.
            "@triton.jit\n"
            "def leaky_kernel(x, z, n, slope, BLOCK: tl.constexpr):\n"
            "    i = tl.arange(0, BLOCK)\n"
            "    v = tl.load(x + i, mask=i < n)\n"
            "    tl.store(z + i, tl.where(v > 0, v, slope * v), mask=i < n)",
            "@triton.jit\n"
            "def leaky_kernel(x, z, n, slope, BLOCK: tl.constexpr):\n"
            "    tl.store(z, missing_name)",
        ],
        4: [
            "def sectors(n, stride, first):\n    return n * 4 * stride // 32",
            "def sectors(n, stride, first):\n    return min(n, -(-4 * n * stride // 32))",
            "def sectors(n, stride, first):\n"
            "    return (first + 4 * stride * (n - 1)) // 32 - first // 32 + 1",
            "def sectors(n, stride, first):\n    return n / 0",
        ],
    },
    "07": {
        1: [
            "answer_1 = ([1000.0], [1.0])",
            "answer_1 = ([-1000.0], [1000.0])",
            "answer_1 = ([float('inf')], [float('-inf')])",
            "answer_1 = ([], [])",
            "answer_1 = 1000.0",
        ],
        2: [
            # Without the maximum.
            "def log_sum_exp(tiles):\n    return sum(tile.exp().sum(1) for tile in tiles).log()",
            # Without the rescaling.
            "def log_sum_exp(tiles):\n"
            "    m = torch.full((len(tiles[0]),), float('-inf'))\n"
            "    l = torch.zeros(len(tiles[0]))\n"
            "    for scores in tiles:\n"
            "        m = torch.maximum(m, scores.amax(1))\n"
            "        l = l + (scores - m[:, None]).exp().sum(1)\n"
            "    return m + l.log()",
            # NaN where a row has seen nothing yet.
            "def log_sum_exp(tiles):\n"
            "    m = torch.full((len(tiles[0]),), float('-inf'))\n"
            "    l = torch.zeros(len(tiles[0]))\n"
            "    for scores in tiles:\n"
            "        new = torch.maximum(m, scores.amax(1))\n"
            "        l = l * (m - new).exp() + (scores - new[:, None]).exp().sum(1)\n"
            "        m = new\n"
            "    return m + l.log()",
            "def log_sum_exp(tiles):\n    return torch.cat(tiles, 1).amax(1)",
            "def log_sum_exp(tiles):\n    return tiles.nothing",
        ],
        3: [
            # Divided before they are merged, and then by the wrong weights.
            "def merge_parts(a, b):\n"
            "    (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b\n"
            "    m = torch.maximum(m_a, m_b)\n"
            "    acc = (acc_a / l_a[:, None] + acc_b / l_b[:, None]) / 2\n"
            "    return m, torch.ones_like(m), acc",
            # Right as long as nothing overflows.
            "def merge_parts(a, b):\n"
            "    (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b\n"
            "    p, q = m_a.exp(), m_b.exp()\n"
            "    acc = p[:, None] * acc_a + q[:, None] * acc_b\n"
            "    return torch.zeros_like(p), p * l_a + q * l_b, acc",
            # The sum is rescaled, the accumulator is not.
            "def merge_parts(a, b):\n"
            "    (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b\n"
            "    m = torch.maximum(m_a, m_b)\n"
            "    return m, (m_a - m).exp() * l_a + (m_b - m).exp() * l_b, acc_a + acc_b",
            # The right attention, but a wrong maximum beside it.
            "def merge_parts(a, b):\n"
            "    (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b\n"
            "    m = torch.maximum(m_a, m_b)\n"
            "    p, q = (m_a - m).exp(), (m_b - m).exp()\n"
            "    return m_a, p * l_a + q * l_b, p[:, None] * acc_a + q[:, None] * acc_b",
            "def merge_parts(a, b):\n    return a",
            "def merge_parts(a, b):\n    return None",
        ],
        4: ["answer_4 = 128", "answer_4 = 512", "answer_4 = 100", "answer_4 = [256]"],
    },
    "09": {
        1: [
            "def softmax_backward(p, dp):\n    return p * (dp - dp.sum(-1, keepdim=True))",
            "def softmax_backward(p, dp):\n    return p * (dp - (p * dp).sum(0, keepdim=True))",
            "def softmax_backward(p, dp):\n    return p * (dp - (p * dp).sum())",
            "def softmax_backward(p, dp):\n    return dp - dp.mean(-1, keepdim=True)",
            "def softmax_backward(p, dp):\n    return p @ dp",
            "def softmax_backward(p, dp):\n    return None",
        ],
        2: [
            "def kept_bytes(heads, tokens, head_dim, element_bytes):\n"
            "    return (4 * heads * tokens * head_dim + heads * tokens) * element_bytes",
            "def kept_bytes(heads, tokens, head_dim, element_bytes):\n"
            "    return 3 * heads * tokens * head_dim * element_bytes + 4 * heads * tokens",
            "def kept_bytes(heads, tokens, head_dim, element_bytes):\n"
            "    return 4 * heads * tokens * head_dim * element_bytes + 4 * tokens",
            "def kept_bytes(heads, tokens, head_dim, element_bytes):\n"
            "    return heads * tokens**2 * element_bytes",
            "def kept_bytes(heads, tokens, head_dim, element_bytes):\n    return 'many'",
        ],
        3: [
            "def first_query(first_key, block_q):\n    return first_key",
            "def first_query(first_key, block_q):\n    return -(-first_key // block_q) * block_q",
            "def first_query(first_key, block_q):\n    return first_key // block_q",
            "def first_query(first_key, block_q):\n    return first_key / 0",
        ],
        4: [
            "def scale_gradient(q, k, ds, scale):\n    return scale * (ds * (q @ k.T)).sum()",
            "def scale_gradient(q, k, ds, scale):\n    return (ds @ (q @ k.T)).sum()",
            "def scale_gradient(q, k, ds, scale):\n    return ds * (q @ k.T)",
            "def scale_gradient(q, k, ds, scale):\n    return ds.sum()",
        ],
        5: [
            "def delta_with_lse(o, do, dlse):\n    return (do * o).sum(-1) + dlse",
            "def delta_with_lse(o, do, dlse):\n    return (do * o).sum(-1) * dlse",
            "def delta_with_lse(o, do, dlse):\n    return -dlse",
            "def delta_with_lse(o, do, dlse):\n    return do * o - dlse[:, None]",
            "def delta_with_lse(o, do, dlse):\n    return None",
        ],
    },
}
