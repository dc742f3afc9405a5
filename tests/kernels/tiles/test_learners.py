"""Kernels as learners write them: PyTorch's values, nothing found, and loads and stores counted by hand."""

import pytest
import torch
import torch.nn.functional as F

from gpulab import observe
from tests.kernels.tiles import learners


def launched(kernel, grid, *args, **options):
    """The record of a launch in which nothing was found."""
    with observe() as seen:
        kernel[grid](*args, **options)
    (launch,) = seen.launches
    assert launch.faults == () and launch.races == ()
    return launch


def loads_and_stores(launch) -> tuple[int, int]:
    return launch.total("loads"), launch.total("stores")


def test_layer_norm():
    x, w, b = torch.randn(5, 50), torch.randn(50), torch.randn(50)
    out = torch.empty_like(x)
    launch = launched(learners.layer_norm, (5,), x, w, b, out, 50, 50, 1e-5, BLOCK=64)
    torch.testing.assert_close(out, F.layer_norm(x, (50,), w, b))
    assert loads_and_stores(launch) == (3 * 250, 250) and launch.total("masked") == 4 * 5 * 14


def test_online_softmax():
    x = 10 * torch.randn(3, 100)
    out = torch.empty_like(x)
    launch = launched(learners.online_softmax, (3,), x, out, 100, BLOCK=32)
    torch.testing.assert_close(out, x.softmax(-1))
    assert loads_and_stores(launch) == (600, 300)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16], ids=str)
def test_causal_attention(kind):
    q, k, v = (torch.randn(2, 40, 16).to(kind) for _ in range(3))
    out = torch.empty(2, 40, 16)
    launch = launched(learners.attention, (3, 2), q, k, v, out, 40, 0.25, D=16, BM=16, BN=16)
    expected = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    torch.testing.assert_close(out, expected, rtol=2e-3, atol=2e-3)
    # Query tiles of 16, 16 and 8 rows read once; keys and values below the diagonal by each.
    assert loads_and_stores(launch) == (2 * 16 * (40 + 2 * (16 + 32 + 40)), 2 * 640)
    assert launch.total("flops") > 2 * 6 * 2 * 2 * 16**3


def philox(seed: int, counter: int) -> int:
    """The first of the four words of Philox-4x32-10: Salmon and others, Parallel Random Numbers, 2011."""
    words, keys = [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            (second >> 32) ^ words[1] ^ keys[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ words[3] ^ keys[1],
            first & 0xFFFFFFFF,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0]


def test_dropout_draws_philoxs_numbers():
    x, out = torch.ones(100), torch.zeros(100)
    launched(learners.dropout, (2,), x, out, 100, 0.25, 123, BLOCK=64)
    for i, found in enumerate(out.tolist()):
        word = philox(123, i)
        signed = word - 2**32 if word >= 2**31 else word
        uniform = (-signed - 1 if signed < 0 else signed) * 4.6566127342e-10
        assert found == pytest.approx(4 / 3 if uniform > 0.25 else 0.0, rel=1e-6), i


def test_histograms():
    x = torch.randint(0, 16, (1000,), dtype=torch.int32)
    expected = torch.bincount(x, minlength=16).int()
    out = torch.zeros(16, dtype=torch.int32)
    assert launched(learners.histogram, (4,), x, out, 1000, BLOCK=256).total("atomics") == 1000
    assert torch.equal(out, expected)
    out.zero_()
    assert launched(learners.histogram_in_tiles, (4,), x, out, 1000, BINS=16, BLOCK=256).total("atomics") == 64
    assert torch.equal(out, expected)


def test_scans_and_reductions_with_a_combination_of_ones_own():
    x, fresh, out = torch.randn(40), (torch.arange(40) % 7 == 0).int(), torch.zeros(40)
    launched(learners.segmented_sum, (1,), x, fresh, out, 40, BLOCK=64)
    torch.testing.assert_close(out, torch.cat([part.cumsum(0) for part in x.split(7)]))
    rows, out = torch.randn(3, 50), torch.zeros(3)
    launched(learners.variance, (3,), rows, out, 50, BLOCK=64)
    torch.testing.assert_close(out, rows.var(-1, correction=0))


def test_matmul_in_groups_of_tiles():
    a, b, c = torch.randn(70, 50).half(), torch.randn(50, 90).half(), torch.empty(70, 90).half()
    launch = launched(learners.matmul, (5 * 6,), a, b, c, 70, 90, 50, BM=16, BN=16, BK=16, GROUP=2)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-3, atol=2e-2)
    assert loads_and_stores(launch) == (30 * 2 * 16 * 50, 70 * 90)
    assert launch.total("flops") == 30 * 4 * 2 * 16**3


def test_split_k_adds_up_with_atomics():
    a, b, c = torch.randn(32, 64), torch.randn(64, 32), torch.zeros(32, 32)
    launch = launched(learners.split_k, (2, 2, 2), a, b, c, 32, 64, BLOCK=16, SPLIT=2)
    torch.testing.assert_close(c, a @ b, rtol=1e-5, atol=1e-4)
    assert launch.total("atomics") == 2 * 32 * 32


def test_quantised_weights():
    a, w, scale = torch.randn(16, 64).half(), torch.randint(-128, 128, (64, 32), dtype=torch.int8), torch.rand(32)
    c = torch.empty(16, 32)
    launch = launched(learners.dequantised, (2,), a, w, scale, c, 64, 32, BLOCK=16)
    torch.testing.assert_close(c, a.float() @ w.float() * scale, rtol=1e-4, atol=1e-2)
    assert launch.array("w_ptr").read_bytes == 64 * 32 and launch.array("a_ptr").read_bytes == 2 * a.nbytes
    packed, out = torch.randint(-128, 128, (32,), dtype=torch.int8), torch.zeros(64, dtype=torch.int8)
    launched(learners.unpack_int4, (1,), packed, out, BLOCK=32)
    low = packed.bitwise_and(15).int()
    assert torch.equal(out.int(), torch.stack([torch.where(low > 7, low - 16, low), (packed >> 4).int()], -1).flatten())


def test_convolution_and_pooling():
    x, w, out = torch.randn(100), torch.randn(5), torch.empty(100)
    launch = launched(learners.conv1d, (2,), x, w, out, 100, TAPS=5, BLOCK=64)
    torch.testing.assert_close(out, F.conv1d(x[None, None], w[None, None], padding=2)[0, 0], rtol=1e-5, atol=1e-5)
    # Lanes 0 to 127 reach 100 elements to the left and in place, 99 and 98 to the right.
    assert loads_and_stores(launch) == (3 * 100 + 99 + 98 + 2 * 5, 100)
    image, out = torch.randn(6, 10), torch.empty(3, 5)
    launched(learners.max_pool, (3,), image, out, 10, BLOCK=8)
    assert torch.equal(out, F.max_pool2d(image[None], 2)[0])


def test_losses_tables_and_activations():
    x, labels, out = torch.randn(4, 30), torch.tensor([0, 29, 5, 5]), torch.empty(4)
    launched(learners.cross_entropy, (4,), x, labels, out, 30, BLOCK=32)
    torch.testing.assert_close(out, F.cross_entropy(x, labels, reduction="none"))
    index, table, rows = torch.randint(0, 20, (10,)), torch.randn(20, 16), torch.empty(10, 16)
    launch = launched(learners.embedding, (2,), index, table, rows, 10, D=16, BLOCK=8)
    assert torch.equal(rows, table[index]) and launch.array("table_ptr").read_bytes == rows.nbytes
    x, out = torch.randn(100), torch.empty(100)
    launched(learners.gelu, (2,), x, out, 100, BLOCK=64)
    torch.testing.assert_close(out, F.gelu(x, approximate="tanh"))


def test_moving_picking_and_sorting():
    x, out = torch.randn(20, 30), torch.empty(30, 20)
    launched(learners.transpose, (2, 2), x, out, 20, 30, BLOCK=16)
    assert torch.equal(out, x.T)
    best = torch.empty(20, 2)
    launched(learners.best_of_row, (20,), x, best, 30, BLOCK=32)
    assert torch.equal(best, torch.stack([x.max(-1).values, x.argmax(-1).float()], -1))
    x, out = torch.randn(2, 32), torch.empty(2, 32)
    launched(learners.sorted_rows, (2,), x, out, N=32)
    assert torch.equal(out, x.sort(descending=True).values)


def test_sums_over_programs():
    x, out, count = torch.randn(1000), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    for _ in range(2):
        launched(learners.last_block_sum, (4,), x, torch.empty(4), count, out, 1000, BLOCK=256, PROGRAMS=8)
        torch.testing.assert_close(out[0], x.sum(), rtol=1e-4, atol=1e-4)
    out.zero_()
    launch = launched(learners.persistent_sum, (3,), x, out, 1000, BLOCK=64)
    torch.testing.assert_close(out[0], x.sum(), rtol=1e-4, atol=1e-4)
    assert launch.total("loads") == 1000 + 3


def test_a_tensor_descriptor_leaves_out_what_is_outside():
    x, out = torch.randn(20, 32), torch.zeros(20, 32)
    launch = launched(learners.through_a_descriptor, (2, 2), x, out, 20, 32, BLOCK=16)
    assert torch.equal(out, 2 * x) and loads_and_stores(launch) == (640, 640)
