"""The wire: what crosses comes back the same; what is malformed is refused and nothing else happens."""

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.protocol import wire
from autograder.protocol.wire import Opaque, WireError, decode, encode
from gpulab import shares_storage, storage_bytes

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip


def traffic(value):
    return decode(encode(value))


def bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().flatten().clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().tobytes()


@st.composite
def strided_tensors(sampler) -> torch.Tensor:
    """Any dtype, up to three dimensions (0 and 1 among them), permuted, cropped, stepped, expanded."""
    dtype = sampler(st.sampled_from(DTYPES))
    shape = sampler(st.lists(st.integers(0, 4), max_size=3))
    raw = sampler(st.integers(0, 2**31))
    base = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(raw)).to(dtype)
    for dim in range(base.ndim):
        base = base.narrow(dim, 0, sampler(st.integers(0, base.shape[dim])))
        if base.shape[dim] > 1 and sampler(st.booleans()):
            base = base.unfold(dim, 1, 2).squeeze(-1)
    base = base.permute(sampler(st.permutations(range(base.ndim))))
    return base.expand(2, *base.shape) if sampler(st.booleans()) else base


@given(strided_tensors())
@settings(max_examples=150, deadline=None)
def test_a_tensor_keeps_bits_dtype_layout_and_storage_size(tensor):
    again = traffic(tensor)
    assert again.dtype == tensor.dtype and again.shape == tensor.shape
    assert again.stride() == tensor.stride() and again.storage_offset() == tensor.storage_offset()
    assert storage_bytes(again) == storage_bytes(tensor)
    assert bits(again) == bits(tensor)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(plain)
@settings(max_examples=100, deadline=None)
def test_plain_data_crosses_unchanged(value):
    assert traffic(value) == value


def test_nan_and_its_payload_cross():
    tensor = torch.tensor([0x7FC00123, 0x3F800000], dtype=torch.int32).view(torch.float32)
    assert bits(traffic(tensor)) == bits(tensor)


def test_views_of_one_storage_stay_views_of_one_storage():
    base = torch.arange(12)
    a, b, c = traffic([base[2:5], base.view(3, 4).t(), base.clone()])
    assert shares_storage(a, b) and not shares_storage(a, c)
    a[0] = 77
    assert b[2, 0] == 77


def test_a_slice_takes_its_whole_storage_along():
    assert storage_bytes(traffic(torch.zeros(100)[:1])) == 400


def test_requires_grad_crosses_and_the_graph_does_not():
    leaf = torch.ones(3, requires_grad=True)
    again = traffic(leaf * 2)
    assert again.requires_grad and again.is_leaf


def test_a_parameter_crosses_as_a_tensor():
    again = traffic(torch.nn.Parameter(torch.ones(2)))
    assert type(again) is torch.Tensor and again.requires_grad


def test_a_lazy_conjugate_crosses_with_its_values():
    tensor = torch.tensor([1 + 2j, 3 - 1j])
    assert traffic(tensor.conj()).tolist() == [1 - 2j, 3 + 1j]


def test_tuples_and_sizes_cross_as_lists():
    assert traffic({"a": (1, 2), "b": torch.Size([3, 4])}) == {"a": [1, 2], "b": [3, 4]}


class Liar(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("stranger", "name"),
    [
        (torch.zeros(2).as_subclass(Liar), "test_wire.Liar"),
        (lambda: 1, "function"),
        ({1, 2}, "set"),
        (2**70, "int"),
        (iter([1]), "list_iterator"),
        (torch.zeros(2, device="meta"), "meta torch.strided float32 tensor"),
        (torch.zeros(2, 2).to_sparse(), "cpu torch.sparse_coo float32 tensor"),
        (type("Str", (str,), {})("x"), "test_wire.Str"),
    ],
)
def test_a_stranger_crosses_as_its_types_name_alone(stranger, name):
    again = traffic([stranger])[0]
    assert isinstance(again, Opaque) and again.type_name.endswith(name)


def test_nothing_nested_deeper_than_the_limit_is_sent():
    value: list = []
    for _ in range(wire.MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(WireError, match="deeper"):
        encode(value)


def test_nothing_nested_deeper_than_the_limit_is_taken():
    body: list = []
    for _ in range(wire.MAX_DEPTH + 1):
        body = [body]
    with pytest.raises(WireError, match="deeper"):
        decode(message(body))


def test_nesting_that_would_exhaust_the_stack_is_refused():
    with pytest.raises(WireError):
        decode(b"\x82\xa8storages\x90\xa4body" + b"\x91" * 100_000 + b"\xc0")


def test_more_bytes_than_the_limit_are_not_sent(monkeypatch):
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 1000)
    with pytest.raises(WireError, match="may not cross"):
        encode(torch.zeros(1001, dtype=torch.uint8))
    with pytest.raises(WireError, match="may cross"):
        encode("x" * 1001)


def test_more_bytes_than_the_limit_are_not_taken(monkeypatch):
    data = encode("x" * 1001)
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 1000)
    with pytest.raises(WireError, match="may cross"):
        decode(data)


def test_a_storage_shared_by_many_tensors_is_sent_once():
    base = torch.zeros(1000)
    assert len(encode([base[i:] for i in range(10)])) < 2 * len(encode(base))


def message(body, storages=()) -> bytes:
    return msgspec.msgpack.encode({"storages": list(storages), "body": body})


def tensor_header(**changes) -> msgspec.msgpack.Ext:
    header = {"storage": 0, "dtype": "int32", "shape": [2], "stride": [1], "offset": 0, "requires_grad": False}
    return msgspec.msgpack.Ext(1, msgspec.msgpack.encode(header | changes))


def test_the_header_of_these_tests_is_taken_when_it_is_right():
    assert decode(message(tensor_header(), [bytes(8)])).tolist() == [0, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [3]},
        {"stride": [2]},
        {"offset": 1},
        {"shape": [2**62, 4], "stride": [0, 1]},
        {"shape": [2, 2], "stride": [2**62, 2**62]},
        {"shape": [2**63], "stride": [0]},
        {"shape": [-1]},
        {"stride": [-1]},
        {"offset": -1},
        {"shape": [2, 1]},
        {"shape": [1] * 65, "stride": [1] * 65},
        {"storage": 1},
        {"storage": -1},
        {"dtype": "float99"},
        {"dtype": "__class__"},
        {"shape": ["2"]},
        {"shape": None},
        {"extra": 1},
    ],
)
def test_a_header_that_does_not_fit_its_storage_is_refused(changes):
    with pytest.raises(WireError):
        decode(message(tensor_header(**changes), [bytes(8)]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        message(1)[:-1],
        msgspec.msgpack.encode([1, 2]),
        msgspec.msgpack.encode({"storages": [], "body": 1, "more": 2}),
        msgspec.msgpack.encode({"storages": ["text"], "body": 1}),
        message(msgspec.msgpack.Ext(9, b"")),
        message(msgspec.msgpack.Ext(1, b"\xc1")),
        message({1: 2}),
        message(b"raw bytes"),
    ],
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(WireError):
        decode(data)


@pytest.mark.parametrize("changes", [{"offset": 2**62}, {"shape": [0, 2**62], "stride": [2**62, 2**62]}])
def test_a_tensor_of_no_elements_reaches_no_byte_wherever_it_begins(changes):
    again = decode(message(tensor_header(**{"shape": [0]} | changes), [bytes(8)]))
    assert again.numel() == 0 and again.sum() == 0


def survives(data: bytes) -> None:
    """Decoding either gives a tree that can be looked at to the end, or raises WireError."""
    try:
        value = decode(data)
    except WireError:
        return
    for leaf in torch.utils._pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and leaf.numel() < 10_000:
            leaf.sum()


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_random_bytes_are_refused_or_harmless(data):
    survives(data)


SAMPLE = encode({"a": torch.arange(6).view(2, 3).t(), "b": [torch.ones(2, dtype=torch.bfloat16), {1, 2}], "c": "text"})


@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=1000, deadline=None)
def test_a_message_with_bytes_changed_is_refused_or_harmless(changes):
    data = bytearray(SAMPLE)
    for position, value in changes:
        data[position] = value
    survives(bytes(data))


@given(st.integers(0, len(SAMPLE) - 1))
@settings(max_examples=50, deadline=None)
def test_a_message_cut_short_is_refused(length):
    with pytest.raises(WireError):
        decode(SAMPLE[:length])
