"""What operations of torch.nn.functional save, asked in three ways: they name the same tensors, to the byte."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks

from gpulab import observe

_X = torch.linspace(-2, 2, 24)
_CLASSES = torch.tensor([0, 2, 5, 1])


def rows():
    """(4, 6), float32: the result of an operation, and no leaf."""
    return _X.view(4, 6).requires_grad_().clone()


def images():
    return torch.linspace(-1, 1, 2 * 4 * 6 * 6).view(2, 4, 6, 6).requires_grad_().clone()


def weight(*shape):
    return torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape).clone().requires_grad_()


def heads():
    return weight(1, 2, 8, 16)


OPERATIONS = {
    "relu": lambda: F.relu(rows()),
    "relu_": lambda: F.relu_(rows()),
    "leaky_relu": lambda: F.leaky_relu(rows()),
    "elu": lambda: F.elu(rows()),
    "celu": lambda: F.celu(rows()),
    "selu": lambda: F.selu(rows()),
    "gelu": lambda: F.gelu(rows()),
    "gelu, tanh": lambda: F.gelu(rows(), approximate="tanh"),
    "silu": lambda: F.silu(rows()),
    "mish": lambda: F.mish(rows()),
    "softplus": lambda: F.softplus(rows()),
    "softsign": lambda: F.softsign(rows()),
    "tanhshrink": lambda: F.tanhshrink(rows()),
    "hardtanh": lambda: F.hardtanh(rows()),
    "hardswish": lambda: F.hardswish(rows()),
    "hardsigmoid": lambda: F.hardsigmoid(rows()),
    "logsigmoid": lambda: F.logsigmoid(rows()),
    "sigmoid": lambda: F.sigmoid(rows()),
    "tanh": lambda: F.tanh(rows()),
    "prelu": lambda: F.prelu(rows(), weight(1)),
    "glu": lambda: F.glu(rows()),
    "softmax": lambda: F.softmax(rows(), 1),
    "log_softmax": lambda: F.log_softmax(rows(), 1),
    "dropout": lambda: F.dropout(rows()),
    "linear": lambda: F.linear(rows(), weight(3, 6), weight(3)),
    "bilinear": lambda: F.bilinear(rows(), rows(), weight(2, 6, 6)),
    "embedding": lambda: F.embedding(_CLASSES, weight(6, 3)),
    "conv1d": lambda: F.conv1d(rows(), weight(3, 4, 2)),
    "conv2d": lambda: F.conv2d(images(), weight(3, 4, 3, 3), weight(3)),
    "conv_transpose2d": lambda: F.conv_transpose2d(images(), weight(4, 3, 2, 2)),
    "max_pool2d": lambda: F.max_pool2d(images(), 2),
    "avg_pool2d": lambda: F.avg_pool2d(images(), 2),
    "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(images(), 2),
    "interpolate": lambda: F.interpolate(images(), scale_factor=2, mode="bilinear"),
    "pad": lambda: F.pad(rows(), (1, 1)),
    "unfold": lambda: F.unfold(images(), 3),
    "pixel_shuffle": lambda: F.pixel_shuffle(images(), 2),
    "grid_sample": lambda: F.grid_sample(images(), torch.zeros(2, 3, 3, 2), align_corners=False),
    "layer_norm": lambda: F.layer_norm(rows(), (6,), weight(6), weight(6)),
    "rms_norm": lambda: F.rms_norm(rows(), (6,), weight(6)),
    "group_norm": lambda: F.group_norm(images(), 2),
    "batch_norm": lambda: F.batch_norm(images(), None, None, weight(4), weight(4), training=True),
    "normalize": lambda: F.normalize(rows()),
    "cosine_similarity": lambda: F.cosine_similarity(rows(), rows()),
    "cross_entropy": lambda: F.cross_entropy(rows(), _CLASSES),
    "nll_loss": lambda: F.nll_loss(rows(), _CLASSES),
    "mse_loss": lambda: F.mse_loss(rows(), torch.zeros(4, 6)),
    "l1_loss": lambda: F.l1_loss(rows(), torch.zeros(4, 6)),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(rows(), torch.zeros(4, 6)),
    "huber_loss": lambda: F.huber_loss(rows(), torch.zeros(4, 6)),
    "binary_cross_entropy_with_logits": lambda: F.binary_cross_entropy_with_logits(rows(), torch.ones(4, 6)),
    "kl_div": lambda: F.kl_div(rows(), torch.ones(4, 6), reduction="sum"),
    "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(heads(), heads(), heads(), is_causal=True),
}


def described(tensors):
    """Each tensor's shape and dtype, sorted, and the bytes of their storages, each once."""
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
    return sorted((tuple(t.shape), str(t.dtype)[6:]) for t in tensors), sum(storages.values())


def by_observe(run):
    with observe(saved=True) as seen:
        result = run()
    assert result is not None and all(saved.op and saved.kept for saved in seen.saved)
    return sorted((saved.shape, saved.dtype) for saved in seen.saved), seen.saved_bytes


def by_hooks(run):
    found = []
    with saved_tensors_hooks(lambda tensor: found.append(tensor.detach()) or tensor.detach(), lambda tensor: tensor):
        result = run()
    assert result is not None
    return described(found)


def by_attributes(run):
    """The graph's own: every ``_saved_`` attribute of every node, and of what hangs in lists of tensors."""
    result = run()
    return described([tensor for node in nodes(result.grad_fn) for tensor in saved_by(node)])


def nodes(root):
    found, left = [], [root]
    while left:
        node = left.pop()
        if node is not None and node not in found:
            found.append(node)
            left += [following for following, _ in node.next_functions]
    return found


def saved_by(node):
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            saved = getattr(node, name.removeprefix("_raw"))
            yield from [t for t in (saved if isinstance(saved, (list, tuple)) else [saved]) if t is not None]


@pytest.mark.parametrize("name", OPERATIONS)
def test_three_ways_of_asking_agree(name):
    run = OPERATIONS[name]
    assert by_observe(run) == by_hooks(run) == by_attributes(run)


def test_there_are_forty_operations_and_they_save_something():
    saving = {name for name, run in OPERATIONS.items() if by_observe(run)[1] > 0}
    assert len(saving) >= 40
    assert OPERATIONS.keys() - saving == {"interpolate", "pad", "unfold", "pixel_shuffle"}


def test_a_number_of_pythons_is_in_the_graph_and_hooks_are_not_shown_it():
    def run():
        return rows() / 4

    assert by_observe(run) == by_hooks(run) == ([], 0)
    assert by_attributes(run) == ([((), "int64")], 8)
