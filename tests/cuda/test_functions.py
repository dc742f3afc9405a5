"""Functions of many kinds give the host's values on the device."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("cuda")
F = torch.nn.functional


def offloaded(x):
    weight = torch.full((5, 2), 0.5, device=x.device, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        loss = (x @ weight).exp().sum()
    loss.backward()
    return weight.grad


def written(x):
    x = x.clone()
    x[0, 1], x[:, 2] = 9.0, x[:, 0]
    x[x > 0.9] = 0.0
    return x


FUNCTIONS = {
    "fft": lambda x: torch.fft.fft(x).abs(),
    "inverse": lambda x: torch.linalg.inv(x[:, :4] + 4 * torch.eye(4, device=x.device)),
    "singular values": lambda x: torch.linalg.svdvals(x),
    "solve": lambda x: torch.linalg.solve(x[:, :4] + 4 * torch.eye(4, device=x.device), x),
    "sort": lambda x: x.sort(dim=1).values,
    "topk": lambda x: x.topk(2).values,
    "unique": lambda x: x.round(decimals=1).unique(),
    "bincount": lambda x: (x * 9).long().flatten().bincount(),
    "searchsorted": lambda x: torch.searchsorted(torch.linspace(0, 1, 7, device=x.device), x),
    "histogram": lambda x: torch.histc(x, 4, 0, 1),
    "cumulative maximum": lambda x: x.cummax(1).values,
    "median": lambda x: x.median(1).values,
    "quantile": lambda x: x.quantile(0.3),
    "covariance": lambda x: torch.cov(x),
    "block_diag": lambda x: torch.block_diag(x, x),
    "gather": lambda x: x.gather(1, (x > 0.5).long()),
    "scatter_reduce": lambda x: x.scatter_reduce(1, (x > 0.5).long(), x, "sum"),
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 0], device=x.device), x[:2]),
    "assignments": written,
    "where": lambda x: torch.where(x > 0.5, x, -1.0),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0],
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "roll and flip": lambda x: x.roll(1, 0).flip(1),
    "triangle": lambda x: x.tril() + x.triu(1),
    "spectrogram": lambda x: torch.stft(
        x.flatten().repeat(4), 16, window=torch.hann_window(16, device=x.device), return_complex=True
    ).abs(),
    "resize": lambda x: F.interpolate(x[None, None], size=(7, 3), mode="bicubic", antialias=True),
    "grid_sample": lambda x: F.grid_sample(x[None, None], x[None, :, :4].view(1, 4, 2, 2), align_corners=False),
    "pad": lambda x: F.pad(x, (1, 2), mode="constant", value=3.0),
    "per-sample gradients": lambda x: torch.func.vmap(torch.func.grad(lambda row: row.exp().sum()))(x),
    "forward mode": lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    "functional_call": lambda x: torch.func.functional_call(
        torch.nn.Linear(5, 1), {"weight": x[:1], "bias": x[0, :1]}, x
    ),
    "inference mode": torch.inference_mode()(lambda x: (x * 2).softmax(-1)),
    "activations kept on the host": offloaded,
    "second derivative": lambda x: torch.autograd.functional.hessian(lambda v: v.exp().sum(), x[0]),
    "float8": lambda x: x.to(torch.float8_e4m3fn).float(),
    "complex": lambda x: torch.view_as_real(torch.complex(x, -x).conj().resolve_conj()),
    "expand and fold": lambda x: x.unfold(1, 2, 1).contiguous().view(-1, 2),
    "distribution": lambda x: torch.distributions.Normal(x, 1.0).log_prob(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_the_hosts_values(name):
    x = torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
    expected, got = FUNCTIONS[name](x), FUNCTIONS[name](x.cuda())
    assert got.is_cuda and got.dtype == expected.dtype
    torch.testing.assert_close(got.cpu(), expected, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_padded_sequences_stay_on_the_device(dtype):
    parts = [torch.arange(n, device="cuda", dtype=dtype) for n in (3, 1)]
    padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=7)
    assert padded.is_cuda and padded.tolist() == [[0, 1, 2], [0, 7, 7]]


def test_padding_passes_gradients_and_waits_for_nothing(virtual):
    from gpulab import observe

    x = torch.ones(3, 2, device="cuda", requires_grad=True)
    with observe() as seen:
        torch.nn.utils.rnn.pad_sequence([x, x[:1]]).sum().backward()
    assert x.grad[:, 0].tolist() == [2, 1, 1] and not seen.waits


def test_an_unpacked_sequence_is_on_the_device_and_its_lengths_on_the_host():
    x = torch.arange(12.0, device="cuda").view(2, 3, 2)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
    again, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    assert again.is_cuda and torch.equal(again[1, :2], x[1, :2]) and lengths.tolist() == [3, 2]
    assert lengths.device.type == "cpu"


def test_a_vandermonde_matrix_is_on_the_device():
    x = torch.tensor([1.0, 2.0, 3.0], device="cuda")
    assert torch.vander(x).is_cuda and torch.equal(torch.vander(x).cpu(), torch.vander(x.cpu()))


def test_a_rank_is_found_on_the_card_and_written_where_it_is_asked_for(cuda):
    a = torch.diag(torch.tensor([1.0, 1.0, 0.0], device="cuda"))
    for options in ({}, {"atol": 0.1}, {"hermitian": True}):
        assert torch.linalg.matrix_rank(a, **options).is_cuda
        out = torch.empty((), dtype=torch.int64, device="cuda")
        assert torch.linalg.matrix_rank(a, **options, out=out) is out
        assert out.item() == 2
    assert torch.linalg.matrix_rank(a[:0]).is_cuda


def test_the_inverse_of_a_complex_matrix_is_the_hosts(cuda):
    torch.manual_seed(0)
    a = torch.randn(5, 5, dtype=torch.complex64)
    torch.testing.assert_close(torch.linalg.pinv(a.cuda()).cpu(), torch.linalg.pinv(a))
