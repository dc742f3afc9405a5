"""Pictures of split sequences and routed tokens say what they show."""

import pytest

from gpulab.plots.splits import ring_blocks, tokens_sent, work_of


def test_a_causal_mask_leaves_blocks_before_whole_and_their_own_half():
    assert work_of([3], [0, 1, 2, 3, 4]) == 3.5 and work_of([0, 7], [3, 4]) == 2


def test_mirrored_blocks_balance_a_ring_in_every_turn_and_blocks_in_order_do_not():
    mirrored = ring_blocks([(r, 7 - r) for r in range(4)]).alt
    assert mirrored.count("computes 2, 2, 2, 2") == 4
    assert (
        "rank 0 computes 2, 0, 0, 0; rank 1 computes 2, 4, 0, 0"
        in ring_blocks([(2 * r, 2 * r + 1) for r in range(4)]).alt
    )


def test_ranks_with_different_numbers_of_blocks_are_refused():
    with pytest.raises(ValueError, match="as many blocks"):
        ring_blocks([(0, 1), (2,)])


def test_tokens_are_named_by_receiver():
    assert tokens_sent([[1, 2], [3, 4]]).alt == "Tokens from rank to rank. By receiver: 4, 6."
