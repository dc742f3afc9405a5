"""A message cannot be larger once it is decoded than a grader can hold."""

import msgspec
import pytest
import torch

from autograder.protocol import wire
from autograder.protocol.wire import MAX_BODY_BYTES, MAX_SHOWN_BYTES, MAX_STORAGES, WireError


def test_plain_data_beyond_its_limit_does_not_leave():
    with pytest.raises(WireError, match="no tensor's"):
        wire.encode({"text": "x" * (MAX_BODY_BYTES + 1)})


def test_a_large_tensor_may_cross_beside_small_plain_data():
    tensor = torch.zeros(2 * MAX_BODY_BYTES // 4)
    assert wire.decode(wire.encode({"tensor": tensor}))["tensor"].numel() == tensor.numel()


def test_millions_of_empty_lists_are_refused_before_they_are_built():
    count = 10_000_000
    data = b"\x82\xa8storages\x90\xa4body\xdd" + count.to_bytes(4, "big") + b"\x90" * count
    with pytest.raises(WireError, match="no tensor's"):
        wire.decode(data)


def test_more_storages_than_may_cross_are_refused():
    count = MAX_STORAGES + 1
    data = b"\x82\xa4body\xc0\xa8storages\xdd" + count.to_bytes(4, "big") + b"\xc4\x00" * count
    with pytest.raises(WireError):
        wire.decode(data)
    with pytest.raises(WireError, match="storages"):
        wire.encode([torch.zeros(1) for _ in range(count)])


def expanded(bytes_shown: int) -> torch.Tensor:
    return torch.zeros(1, dtype=torch.uint8).expand(bytes_shown)


def test_a_tensor_that_shows_more_than_may_cross_does_not_leave():
    with pytest.raises(WireError, match="show more than"):
        wire.encode({"x": expanded(MAX_SHOWN_BYTES + 1)})


def test_views_that_show_more_together_do_not_leave():
    with pytest.raises(WireError, match="show more than"):
        wire.encode([expanded(MAX_SHOWN_BYTES // 2 + 1)] * 2)


def test_one_element_expanded_a_little_may_cross():
    assert wire.decode(wire.encode(expanded(1000))).shape == (1000,)


@pytest.mark.parametrize("shape", [[2**40], [2**20, 2**20], [2**62, 2**62]])
def test_a_forged_tensor_that_shows_more_than_may_cross_is_refused(shape):
    header = dict(storage=0, dtype="float32", shape=shape, stride=[0] * len(shape), offset=0, requires_grad=False)
    tensor = msgspec.msgpack.Ext(1, msgspec.msgpack.encode(header))
    message = {"storages": [b"abcd"], "body": msgspec.Raw(msgspec.msgpack.encode(tensor))}
    with pytest.raises(WireError, match="show more than"):
        wire.decode(msgspec.msgpack.encode(message))
