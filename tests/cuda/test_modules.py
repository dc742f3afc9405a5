"""Every module of torch.nn and every optimizer of torch.optim, by name: the host's values."""

import copy

import pytest
import torch
from torch import nn

from gpulab.cuda import coverage

pytestmark = pytest.mark.usefixtures("cuda", "no_tf32")

image, signal, row = (2, 4, 8, 8), (2, 4, 8), (2, 8)
volume, tokens = (2, 4, 6, 6, 6), (3, 2, 8)
MODULES = {
    "Linear": (lambda: nn.Linear(8, 3), row), "Bilinear": (lambda: nn.Bilinear(8, 8, 3), (row, row)),
    "Identity": (nn.Identity, row), "Flatten": (nn.Flatten, image), "Unflatten": (lambda: nn.Unflatten(1, (2, 4)), row),
    "Conv1d": (lambda: nn.Conv1d(4, 3, 3), signal), "Conv2d": (lambda: nn.Conv2d(4, 3, 3), image),
    "Conv3d": (lambda: nn.Conv3d(4, 3, 3), volume), "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 3, 3), signal),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 3), image),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 3, 3), volume),
    "Unfold": (lambda: nn.Unfold(3), image), "Fold": (lambda: nn.Fold((4, 4), 2), (2, 8, 9)),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), signal), "MaxPool2d": (lambda: nn.MaxPool2d(2), image),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), volume), "AvgPool1d": (lambda: nn.AvgPool1d(2), signal),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), image), "AvgPool3d": (lambda: nn.AvgPool3d(2), volume),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), image),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(3), signal),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(3), image),
    "AdaptiveMaxPool3d": (lambda: nn.AdaptiveMaxPool3d(3), volume),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(3), signal),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(3), image),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(3), volume),
    "ReflectionPad1d": (lambda: nn.ReflectionPad1d(1), signal), "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), image),
    "ReplicationPad1d": (lambda: nn.ReplicationPad1d(1), signal), "ReplicationPad2d": (lambda: nn.ReplicationPad2d(1), image),
    "ZeroPad2d": (lambda: nn.ZeroPad2d(1), image), "ConstantPad1d": (lambda: nn.ConstantPad1d(1, 2.0), signal),
    "CircularPad2d": (lambda: nn.CircularPad2d(1), image),
    **{name: (getattr(nn, name), row) for name in (
        "ELU", "Hardshrink", "Hardsigmoid", "Hardtanh", "Hardswish", "LeakyReLU", "LogSigmoid", "PReLU", "ReLU",
        "ReLU6", "SELU", "CELU", "GELU", "Sigmoid", "SiLU", "Mish", "Softplus", "Softshrink", "Softsign", "Tanh",
        "Tanhshrink", "GLU",
    )},
    "Softmin": (lambda: nn.Softmin(-1), row), "Softmax": (lambda: nn.Softmax(-1), row),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), row), "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), (row, row)),
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), row), "Softmax2d": (nn.Softmax2d, image),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), signal), "BatchNorm2d": (lambda: nn.BatchNorm2d(4), image),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(4), volume), "SyncBatchNorm": (lambda: nn.SyncBatchNorm(4), image), "GroupNorm": (lambda: nn.GroupNorm(2, 4), image),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4), signal), "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4), image),
    "LayerNorm": (lambda: nn.LayerNorm(8), row), "RMSNorm": (lambda: nn.RMSNorm(8), row),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), image),
    "RNN": (lambda: nn.RNN(8, 5), tokens), "LSTM": (lambda: nn.LSTM(8, 5, 2), tokens), "GRU": (lambda: nn.GRU(8, 5), tokens),
    "RNNCell": (lambda: nn.RNNCell(8, 5), row), "LSTMCell": (lambda: nn.LSTMCell(8, 5), row), "GRUCell": (lambda: nn.GRUCell(8, 5), row),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2), (tokens, tokens, tokens)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), tokens),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 1), tokens
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 1), (tokens, tokens)
    ),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), (tokens, tokens)),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16, dropout=0.0), (tokens, tokens)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), image), "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), image),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), image), "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), image),
    "CosineSimilarity": (nn.CosineSimilarity, (row, row)), "PairwiseDistance": (nn.PairwiseDistance, (row, row)),
    **{name: (getattr(nn, name), (row, row)) for name in (
        "L1Loss", "MSELoss", "BCEWithLogitsLoss", "SmoothL1Loss", "HuberLoss",
        "PoissonNLLLoss", "HingeEmbeddingLoss", "MultiLabelSoftMarginLoss",
    )},
    "GaussianNLLLoss": (nn.GaussianNLLLoss, (row, row, row)), "TripletMarginLoss": (nn.TripletMarginLoss, (row, row, row)),
    "Dropout": (lambda: nn.Dropout(0.0), row), "Dropout2d": (lambda: nn.Dropout2d(0.0), image), "AlphaDropout": (lambda: nn.AlphaDropout(0.0), row),
}  # fmt: skip


MODULES |= {
    **{name: (lambda name=name: getattr(nn, name)(1), signal) for name in ("CircularPad1d", "ZeroPad1d")},
    **{name: (lambda name=name: getattr(nn, name)(1), volume) for name in (
        "CircularPad3d", "ReflectionPad3d", "ReplicationPad3d", "ZeroPad3d",
    )},
    "ConstantPad2d": (lambda: nn.ConstantPad2d(1, 2.0), image), "ConstantPad3d": (lambda: nn.ConstantPad3d(1, 2.0), volume),
    "LPPool1d": (lambda: nn.LPPool1d(2, 2), signal), "LPPool3d": (lambda: nn.LPPool3d(2, 2), volume),
    "InstanceNorm3d": (lambda: nn.InstanceNorm3d(4), volume), "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(2), image),
    "Dropout1d": (lambda: nn.Dropout1d(0.0), signal), "Dropout3d": (lambda: nn.Dropout3d(0.0), volume),
    "FeatureAlphaDropout": (lambda: nn.FeatureAlphaDropout(0.0), image), "RReLU": (lambda: nn.RReLU().eval(), row),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), image),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), image),
    "TripletMarginWithDistanceLoss": (nn.TripletMarginWithDistanceLoss, (row, row, row)),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, 3, _random_samples=torch.full((2, 4, 2), 0.5)), image),
    "FractionalMaxPool3d": (lambda: nn.FractionalMaxPool3d(2, 3, _random_samples=torch.full((2, 4, 3), 0.5)), volume),
}  # fmt: skip


def inputs(shapes):
    shapes = shapes if isinstance(shapes[0], tuple) else (shapes,)
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(s, generator=generator) + 0.1).requires_grad_() for s in shapes]


def run(module, tensors):
    out = module(*tensors)
    while isinstance(out, tuple):
        out = out[0]
    out.float().square().mean().backward()
    grads = [t.grad for t in tensors] + [p.grad for p in module.parameters()]
    return [out, *(g for g in grads if g is not None)]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", MODULES)
def test_a_module_gives_the_hosts_values_and_gradients(name):
    make, shapes = MODULES[name]
    torch.manual_seed(0)
    host = make()
    card = copy.deepcopy(host).cuda()
    expected = run(host, inputs(shapes))
    got = run(card, [t.detach().cuda().requires_grad_() for t in inputs(shapes)])
    assert all(t.is_cuda for t in got)
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(b.cpu(), a, atol=1e-5, rtol=1e-3)


LABELLED = {
    "CrossEntropyLoss": nn.CrossEntropyLoss,
    "NLLLoss": nn.NLLLoss,
    "MultiMarginLoss": nn.MultiMarginLoss,
    "CrossEntropyLoss, smoothed": lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
}


PAIRED = {
    "BCELoss": (nn.BCELoss, lambda: (torch.rand(4), torch.tensor([0.0, 1, 1, 0]))),
    "SoftMarginLoss": (nn.SoftMarginLoss, lambda: (torch.randn(4), torch.tensor([1.0, -1, 1, 1]))),
    "CosineEmbeddingLoss": (
        nn.CosineEmbeddingLoss,
        lambda: (torch.randn(2, 4), torch.randn(2, 4), torch.tensor([1.0, -1])),
    ),
    "MarginRankingLoss": (nn.MarginRankingLoss, lambda: (torch.randn(2), torch.randn(2), torch.tensor([1.0, -1]))),
    "MultiLabelMarginLoss": (nn.MultiLabelMarginLoss, lambda: (torch.randn(1, 4), torch.tensor([[3, 0, -1, 1]]))),
    "MaxUnpool1d": (lambda: nn.MaxUnpool1d(2), lambda: (torch.rand(1, 1, 2), torch.tensor([[[1, 2]]]))),
    "MaxUnpool2d": (lambda: nn.MaxUnpool2d(2), lambda: (torch.rand(1, 1, 1, 2), torch.tensor([[[[1, 6]]]]))),
    "MaxUnpool3d": (lambda: nn.MaxUnpool3d(2), lambda: (torch.rand(1, 1, 1, 1, 2), torch.tensor([[[[[1, 6]]]]]))),
}


@pytest.mark.parametrize("name", PAIRED)
def test_a_module_of_several_arguments_gives_the_hosts_value(name):
    make, arguments = PAIRED[name]
    module, given = make(), arguments()
    torch.testing.assert_close(module(*(t.cuda() for t in given)).cpu(), module(*given))


LAZY = {
    name: n
    for n in (1, 2, 3)
    for name in (
        f"LazyConv{n}d",
        f"LazyConvTranspose{n}d",
        f"LazyBatchNorm{n}d",
        f"LazyInstanceNorm{n}d",
    )
}


@pytest.mark.parametrize("name", [*LAZY, "LazyLinear"])
def test_a_lazy_module_that_has_its_shape_gives_the_hosts_values(name):
    options = (3, 3) if "Conv" in name else (3,) if name == "LazyLinear" else ()
    host, x = getattr(nn, name)(*options), torch.rand(2, 4, *(6,) * LAZY.get(name, 1))
    host(x)
    card = copy.deepcopy(host).cuda()
    torch.testing.assert_close(card.eval()(x.cuda()).cpu(), host.eval()(x), atol=1e-5, rtol=1e-3)


def test_an_adaptive_softmax_gives_the_hosts_loss():
    torch.manual_seed(0)
    host, x, labels = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]), torch.randn(6, 8), torch.arange(0, 18, 3)
    card = copy.deepcopy(host).cuda()
    torch.testing.assert_close(card(x.cuda(), labels.cuda()).loss.cpu(), host(x, labels).loss)


@pytest.mark.skipif(not hasattr(nn, "LinearCrossEntropyLoss"), reason="newer than this PyTorch")
def test_a_linear_layer_with_its_loss_gives_the_hosts_loss():
    torch.manual_seed(0)
    host = nn.LinearCrossEntropyLoss(8, 5)
    card, x, labels = copy.deepcopy(host).cuda(), torch.randn(6, 8), torch.tensor([0, 4, 2, 1, 3, 0])
    torch.testing.assert_close(card(x.cuda(), labels.cuda()).cpu(), host(x, labels))


# Each has a test of its own.
ELSEWHERE = {
    "AdaptiveLogSoftmaxWithLoss",
    "CTCLoss",
    "Embedding",
    "EmbeddingBag",
    "LazyLinear",
    "LinearCrossEntropyLoss",
    "Sequential",
}


def test_every_module_is_tried_or_named_as_not():
    tried = {name.split(",")[0] for name in (*MODULES, *LABELLED, *PAIRED, *LAZY)} | ELSEWHERE
    assert set(coverage.modules()) <= tried


@pytest.mark.parametrize("name", LABELLED)
def test_a_loss_with_labels_gives_the_hosts_value(name):
    scores, labels = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    loss = LABELLED[name]()
    torch.testing.assert_close(loss(scores.cuda(), labels.cuda()).cpu(), loss(scores, labels))


@pytest.mark.parametrize("name", ["Embedding", "EmbeddingBag"])
def test_an_embedding_gives_the_hosts_values(name):
    host = getattr(nn, name)(10, 4)
    card, indices = copy.deepcopy(host).cuda(), torch.tensor([[1, 2], [3, 9]])
    host(indices).sum().backward()
    card(indices.cuda()).sum().backward()
    torch.testing.assert_close(card.weight.grad.cpu(), host.weight.grad)


def test_a_packed_sequence_runs_with_lengths_on_the_host():
    host, x = nn.LSTM(4, 3), torch.randn(5, 2, 4)
    card = copy.deepcopy(host).cuda()
    pack, unpack = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
    expected, _ = unpack(host(pack(x, torch.tensor([5, 3])))[0])
    got, _ = unpack(card(pack(x.cuda(), torch.tensor([5, 3])))[0])
    torch.testing.assert_close(got.cpu(), expected, atol=1e-5, rtol=1e-3)


def test_ctc_loss_gives_the_hosts_value():
    scores, labels = torch.randn(12, 2, 5).log_softmax(2), torch.randint(1, 5, (2, 4))
    lengths, sizes = torch.tensor([12, 10]), torch.tensor([4, 3])
    loss = nn.CTCLoss()
    value = loss(scores.cuda(), labels.cuda(), lengths, sizes)
    torch.testing.assert_close(value.cpu(), loss(scores, labels, lengths, sizes))


OPTIMIZERS = {
    "SGD": dict(lr=0.1, momentum=0.9), "Adam": {}, "AdamW": {}, "Adamax": {}, "NAdam": {}, "RAdam": {},
    "Adadelta": {}, "Adagrad": {}, "Adafactor": {}, "ASGD": {}, "RMSprop": {}, "Rprop": {},
    "Muon": {}, "LBFGS": dict(max_iter=2),
}  # fmt: skip


def trained(model, x, name, **options):
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return [p.detach().cpu() for p in model.parameters()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_takes_the_hosts_steps(name):
    torch.manual_seed(0)
    host, x = nn.Linear(6, 3, bias=name != "Muon"), torch.randn(4, 6)
    card = copy.deepcopy(host).cuda()
    for a, b in zip(trained(host, x, name, **OPTIMIZERS[name]), trained(card, x.cuda(), name, **OPTIMIZERS[name])):
        torch.testing.assert_close(b, a, atol=1e-5, rtol=1e-3)


def test_every_optimizer_is_tried_or_named_as_not():
    assert set(coverage.optimizers()) <= set(OPTIMIZERS)


@pytest.mark.parametrize("options", [dict(foreach=True), dict(foreach=False), dict(fused=True), dict(capturable=True)])
def test_every_form_of_adamw_takes_the_hosts_steps(options):
    torch.manual_seed(0)
    host, x = nn.Linear(6, 3), torch.randn(4, 6)
    card = copy.deepcopy(host).cuda()
    for a, b in zip(trained(host, x, "AdamW"), trained(card, x.cuda(), "AdamW", **options)):
        torch.testing.assert_close(b, a, atol=1e-5, rtol=1e-3)


def test_a_module_moves_in_place_and_keeps_its_parameters_identity():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = [id(p) for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("cuda")
    assert [id(p) for p in model.parameters()] == before
    assert all(p.is_cuda and isinstance(p, nn.Parameter) for p in optimizer.param_groups[0]["params"])
    assert all(b.is_cuda for b in model.buffers())


def test_a_module_comes_back():
    model = nn.Linear(2, 2).cuda().cpu()
    assert not model.weight.is_cuda and model(torch.ones(1, 2)).shape == (1, 2)


def test_a_module_may_be_made_on_the_device():
    assert nn.Linear(2, 2, device="cuda").weight.is_cuda


def test_a_state_dict_loads_from_the_host():
    host, card = nn.Linear(2, 2), nn.Linear(2, 2).cuda()
    card.load_state_dict(host.state_dict())
    assert card.weight.is_cuda and card.weight.tolist() == host.weight.tolist()


def test_an_optimizers_state_loads():
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    again = torch.optim.AdamW(model.parameters())
    again.load_state_dict(optimizer.state_dict())
    assert all(s["exp_avg"].is_cuda for s in again.state.values())


def test_checkpointing_recomputes_with_the_same_dropout():
    from torch.utils.checkpoint import checkpoint

    model, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).cuda(), torch.randn(4, 8, device="cuda")
    torch.manual_seed(1)
    model(x).sum().backward()
    expected = model[0].weight.grad.clone()
    model.zero_grad()
    torch.manual_seed(1)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    assert torch.equal(model[0].weight.grad, expected)


def test_clipping_gives_the_hosts_norm():
    model = nn.Linear(4, 4).cuda()
    model(torch.ones(1, 4, device="cuda")).sum().backward()
    host = torch.nn.utils.get_total_norm([p.grad.cpu() for p in model.parameters()])
    torch.testing.assert_close(nn.utils.clip_grad_norm_(model.parameters(), 1.0).cpu(), host)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("backend", ["MATH", "FLASH_ATTENTION"])
def test_attention_gives_the_hosts_values(backend, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 6, 8)
    attend = nn.functional.scaled_dot_product_attention
    with sdpa_kernel([getattr(SDPBackend, backend), SDPBackend.MATH]):
        torch.testing.assert_close(
            attend(*[q.cuda()] * 3, is_causal=causal).cpu(), attend(q, q, q, is_causal=causal), atol=1e-5, rtol=1e-3
        )


def test_clipping_and_stepping_wait_for_nothing(cuda):
    from gpulab import observe

    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    with observe() as seen:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert not seen.waits


@pytest.mark.parametrize("options", [{"fused": True}, {"capturable": True, "foreach": True}], ids=str)
def test_a_learning_rate_on_the_device_is_used(cuda, options):
    weight = torch.ones(2, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=torch.tensor(0.1, device="cuda"), **options)
    for _ in range(3):
        optimizer.zero_grad()
        (weight * 3).sum().backward()
        optimizer.step()
    torch.testing.assert_close(weight.detach().cpu(), torch.full((2,), 0.7))


def test_clipping_goes_over_both_devices(cuda):
    weights = [torch.ones(2, device="cuda", requires_grad=True), torch.ones(2, requires_grad=True)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    norm = torch.nn.utils.clip_grad_norm_(weights, 1.0)
    assert norm.item() == pytest.approx(2.0)
    assert all(weight.grad.tolist() == pytest.approx([0.5, 0.5], rel=1e-4) for weight in weights)


def test_state_that_stayed_behind_is_refused(cuda):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    model.cuda()
    model(torch.ones(1, 2, device="cuda")).sum().backward()
    with pytest.raises(RuntimeError, match="same device"):
        optimizer.step()


def test_a_module_moves_while_a_graph_still_holds_its_parameters(cuda):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    x = torch.ones(1, 2)
    out = model(x)
    assert torch.allclose(model.cuda()(x.cuda()).cpu(), out)
    assert out.grad_fn is not None and all(p.is_cuda for p in model.parameters())


def test_apply_may_return_one_tensor_for_a_gradient_that_two_modules_share(cuda):
    layer, holder, moved = torch.nn.Linear(2, 2, bias=False), torch.nn.Module(), {}
    layer.weight.grad = torch.ones(2, 2)
    holder.layer, holder.tied = layer, layer.weight

    def once(tensor):
        return moved.setdefault(id(tensor), (tensor, tensor.to("cuda")))[1]

    holder._apply(once)
    assert holder.tied is layer.weight and layer.weight.is_cuda
    assert layer.weight.grad.cpu().tolist() == [[1, 1], [1, 1]]


def test_a_module_without_memory_cannot_move(cuda):
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        torch.nn.Linear(2, 2, device="meta").cuda()
    with pytest.raises(NotImplementedError, match="torch.nn.Module.to_empty"):
        torch.nn.Linear(2, 2, device="meta").to("cuda")
    assert torch.nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.is_cuda


def test_data_parallel_over_one_card_is_the_module(cuda):
    model = torch.nn.Linear(2, 2).cuda()
    x = torch.ones(3, 2, device="cuda")
    torch.testing.assert_close(torch.nn.DataParallel(model, device_ids=[0])(x), model(x))
