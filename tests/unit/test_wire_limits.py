"""A message cannot be larger once it is decoded than a grader can hold."""

import pytest
import torch

from autograder import wire
from autograder.wire import MAX_BODY_BYTES, MAX_STORAGES, WireError


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
