"""Bytes: new, alive, at the peak; and where a storage came from."""

import torch

from gpulab import observe, shares_storage, storage_bytes

KIB = 1024


def block() -> torch.Tensor:
    return torch.empty(KIB, dtype=torch.uint8)


def test_new_bytes_add_up_and_the_peak_is_what_lived_at_once():
    with observe() as seen:
        for _ in range(5):
            block()
    assert seen.new_bytes == 5 * KIB and seen.peak_bytes == KIB


def test_storages_kept_alive_raise_the_peak():
    with observe() as seen:
        kept = [block() for _ in range(5)]
    assert seen.new_bytes == seen.peak_bytes == 5 * KIB
    assert len(kept) == 5


def test_a_view_keeps_its_whole_storage_alive():
    with observe() as seen:
        kept = block()[:1]
        other = block()
    assert seen.peak_bytes == 2 * KIB
    assert storage_bytes(kept) == KIB and kept.nbytes == 1 and not shares_storage(kept, other)


def test_inputs_are_not_new_bytes():
    x = block()
    with observe() as seen:
        x.view(32, 32).t()
    assert seen.new_bytes == seen.peak_bytes == 0


def test_in_place_arithmetic_allocates_nothing():
    x = block()
    with observe() as seen:
        x.add_(1)
        x[3:].mul_(2)
    assert seen.new_bytes == 0 and [op.op for op in seen.ops if op.op.endswith("_")] == ["aten.add_", "aten.mul_"]


def test_out_writes_into_what_it_is_given():
    x, out = torch.ones(KIB), torch.empty(KIB)
    with observe() as seen:
        torch.add(x, x, out=out)
    assert seen.new_bytes == 0 and seen.ops[-1].op == "aten.add"


def test_live_bytes_fall_when_a_storage_is_freed():
    with observe() as seen:
        a = block()
        b = block()
        del a
        c = block()
    assert [op.live_bytes for op in seen.ops] == [KIB, 2 * KIB, 2 * KIB]
    assert b.nbytes + c.nbytes == 2 * KIB


def test_an_input_freed_inside_the_block_is_not_confused_with_what_comes_after():
    with observe() as seen:
        for _ in range(50):
            x = torch.from_numpy(torch.empty(KIB, dtype=torch.uint8).numpy().copy())
            x.add_(1)
            del x
    assert seen.peak_bytes <= 2 * KIB


def test_origin_tells_new_from_input_from_unseen():
    given, untouched = block(), block()
    with observe() as seen:
        view = given[1:]
        made = given.clone()
    assert (seen.origin(view), seen.origin(made), seen.origin(untouched)) == ("input", "new", "unseen")


def test_a_literal_tensor_is_new():
    with observe() as seen:
        made = torch.tensor([1, 2, 3])
    assert seen.origin(made) == "new" and seen.new_bytes == 24


def test_shares_storage_sees_views_and_not_equal_values():
    x = block()
    assert shares_storage(x, x[5:].view(-1)) and not shares_storage(x, x.clone())


def test_tensors_of_no_bytes_share_nothing_by_accident():
    assert not shares_storage(torch.empty(0), torch.empty(0))
