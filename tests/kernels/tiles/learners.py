"""Triton kernels of the kinds that learners write, found right and free of findings by test_learners."""

from triton.language.extra import libdevice

from gpulab.kernels import tl, triton


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / N + eps)
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    tl.store(out_ptr + row * stride + cols, centred * rstd * w + b, mask=mask)


@triton.jit
def online_softmax(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    high = -float("inf")
    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
        higher = tl.maximum(high, tl.max(x, axis=0))
        total = total * tl.exp(high - higher) + tl.sum(tl.exp(x - higher), axis=0)
        high = higher
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N)
        tl.store(out_ptr + row * N + cols, tl.exp(x - high) / total, mask=cols < N)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, T, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start, head = tl.program_id(0) * BM, tl.program_id(1) * T * D
    rows, d = start + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < T, other=0.0)
    high = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for first in range(0, tl.minimum(start + BM, T), BN):
        cols = first + tl.arange(0, BN)
        k = tl.load(k_ptr + head + cols[None, :] * D + d[:, None], mask=cols[None, :] < T, other=0.0)
        s = tl.where(rows[:, None] >= cols[None, :], tl.dot(q, k) * scale, -float("inf"))
        higher = tl.maximum(high, tl.max(s, axis=1))
        p = tl.exp(s - higher[:, None])
        alpha = tl.exp(high - higher)
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < T, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        high = higher
    tl.store(out_ptr + head + rows[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < T)


@triton.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.where(keep, x / (1 - p), 0.0), mask=i < n)


@triton.jit
def histogram(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + tl.load(x_ptr + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def histogram_in_tiles(x_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x_ptr + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts)


@triton.jit
def add_pair(a_total, a_fresh, b_total, b_fresh):
    return tl.where(b_fresh != 0, b_total, a_total + b_total), tl.maximum(a_fresh, b_fresh)


@triton.jit
def segmented_sum(x_ptr, fresh_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    fresh = tl.load(fresh_ptr + i, mask=i < n, other=0)
    total, _ = tl.associative_scan((x, fresh), 0, add_pair)
    tl.store(out_ptr + i, total, mask=i < n)


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    share = tl.where(n == 0, 0.0, n_b / n)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def variance(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    mask = i < N
    x = tl.load(x_ptr + row * N + i, mask=mask, other=0.0)
    mean, m2, n = tl.reduce((x, tl.zeros((BLOCK,), tl.float32), mask.to(tl.float32)), 0, welford)
    tl.store(out_ptr + row, m2 / n)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    first = (pid // in_group) * GROUP
    size = min(tiles_m - first, GROUP)
    pid_m, pid_n = first + (pid % in_group) % size, (pid % in_group) // size
    rows = (pid_m * BM + tl.arange(0, BM)) % M
    cols = (pid_n * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    a_ptrs, b_ptrs = a_ptr + rows[:, None] * K + inner[None, :], b_ptr + inner[:, None] * N + cols[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    out_rows, out_cols = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN)
    inside = (out_rows[:, None] < M) & (out_cols[None, :] < N)
    tl.store(c_ptr + out_rows[:, None] * N + out_cols[None, :], acc.to(tl.float16), mask=inside)


@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(tl.program_id(2) * BLOCK, K, BLOCK * SPLIT):
        at = tl.program_id(0) * BLOCK + i
        a = tl.load(a_ptr + at[:, None] * K + k + i[None, :])
        b = tl.load(b_ptr + (k + i[:, None]) * N + tl.program_id(1) * BLOCK + i[None, :])
        acc += tl.dot(a, b, input_precision="ieee")
    row, col = tl.program_id(0) * BLOCK + i, tl.program_id(1) * BLOCK + i
    tl.atomic_add(c_ptr + row[:, None] * N + col[None, :], acc)


@triton.jit
def dequantised(a_ptr, w_ptr, scale_ptr, c_ptr, K, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    col = tl.program_id(0) * BLOCK + i
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + k + i[None, :])
        w = tl.load(w_ptr + (k + i[:, None]) * N + col[None, :]).to(tl.float16)
        acc += tl.dot(a, w)
    tl.store(c_ptr + i[:, None] * N + col[None, :], acc * tl.load(scale_ptr + col)[None, :])


@triton.jit
def unpack_int4(packed_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    packed = tl.load(packed_ptr + i)
    low, high = (packed << 4).to(tl.int8) >> 4, packed >> 4
    tl.store(out_ptr + tl.arange(0, 2 * BLOCK), tl.interleave(low, high))


@triton.jit
def conv1d(x_ptr, w_ptr, out_ptr, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for t in tl.static_range(TAPS):
        at = i + t - TAPS // 2
        acc += tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=0.0) * tl.load(w_ptr + t)
    tl.store(out_ptr + i, acc, mask=i < n)


@triton.jit
def cross_entropy(x_ptr, label_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=-float("inf"))
    high = tl.max(x, axis=0)
    log_sum = high + tl.log(tl.sum(tl.exp(x - high), axis=0))
    label = tl.load(label_ptr + row)
    tl.store(out_ptr + row, tl.sum(tl.where(i == label, log_sum - x, 0.0), axis=0))


@triton.jit
def embedding(index_ptr, table_ptr, out_ptr, tokens, D: tl.constexpr, BLOCK: tl.constexpr):
    t, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    inside = t < tokens
    index = tl.load(index_ptr + t, mask=inside)
    rows = tl.load(table_ptr + index[:, None] * D + d[None, :], mask=inside[:, None])
    tl.store(out_ptr + t[:, None] * D + d[None, :], rows, mask=inside[:, None])


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + i, 0.5 * x * (1 + libdevice.tanh(inner)), mask=i < n)


@triton.jit
def transpose(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    row, col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (row[:, None] < M) & (col[None, :] < N)
    x = tl.load(x_ptr + row[:, None] * N + col[None, :], mask=inside)
    tl.store(out_ptr + col[:, None] * M + row[None, :], x.T, mask=inside.T)


@triton.jit
def best_of_row(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(out_ptr + 2 * row, value)
    tl.store(out_ptr + 2 * row + 1, index.to(tl.float32))


@triton.jit
def sorted_rows(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i), descending=True))


@triton.jit
def max_pool(x_ptr, out_ptr, W, BLOCK: tl.constexpr):
    row, col = tl.program_id(0), tl.arange(0, BLOCK)
    high = tl.full((BLOCK,), -float("inf"), tl.float32)
    for dy in range(2):
        for dx in range(2):
            at = (2 * row + dy) * W + 2 * col + dx
            high = tl.maximum(high, tl.load(x_ptr + at, mask=2 * col + dx < W, other=-float("inf")))
    tl.store(out_ptr + row * (W // 2) + col, high, mask=col < W // 2)


@triton.jit
def last_block_sum(x_ptr, partial_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    pid, i = tl.program_id(0), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), axis=0))
    tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1:
        j = tl.arange(0, PROGRAMS)
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + j, mask=j < tl.num_programs(0), other=0.0), axis=0))
        tl.store(count_ptr, 0)


@triton.jit
def persistent_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=2):
        i = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(acc, axis=0), sem="relaxed")


@triton.jit
def through_a_descriptor(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    row, col = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out.store([row, col], x.load([row, col]) * 2)
