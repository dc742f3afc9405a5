"""The clock's arithmetic, term by term, and what it refuses."""

import pytest

from gpulab.cards import constants
from gpulab.cards.cards import card_named
from gpulab.memory import SHAPES
from gpulab.serving import Roofline
from gpulab.serving.clocks.roofline import LAYER_KERNELS

CLOCK, CARD = Roofline("A100", "Llama 2 7B"), card_named("A100")
MATRICES = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11_008) + 32_000 * 4096


def test_one_token_takes_as_long_as_reading_the_weights():
    parts = CLOCK.parts_us([(1, 0)])
    assert parts["linear"] == pytest.approx(1e6 * 2 * MATRICES / (2.039e12 * constants.HBM_SHARE))
    assert parts["kernels"] == 32 * len(LAYER_KERNELS) * constants.KERNEL_FLOOR_US and parts["all-reduce"] == 0
    assert CLOCK.step_us([(1, 0)]) == sum(parts.values())


def test_weights_are_read_once_for_all():
    assert CLOCK.parts_us([(1, 0)])["linear"] == CLOCK.parts_us([(1, 0)] * 64)["linear"]


def test_a_long_prompt_takes_as_long_as_its_products():
    products = 2 * (MATRICES - 32_000 * 4096) * 2048 + 2 * 32_000 * 4096
    assert CLOCK.parts_us([(2048, 0)])["linear"] == pytest.approx(
        1e6 * products / (312e12 * constants.USUAL_MATRIX_SHARE)
    )


def test_a_decode_reads_its_keys_and_values():
    read = (1001 * 2 * 2 * 4096 * 32) / CARD.sustained_bytes_per_s
    assert CLOCK.parts_us([(1, 1000)])["attention"] == pytest.approx(1e6 * read)
    assert CLOCK.parts_us([(1, 1000)] * 7)["attention"] == pytest.approx(7e6 * read)


def test_a_prompt_in_two_chunks_has_the_attention_of_one():
    whole = CLOCK.parts_us([(4096, 0)])["attention"]
    halves = sum(CLOCK.parts_us([part])["attention"] for part in ((2048, 0), (2048, 2048)))
    assert halves == pytest.approx(whole)
    scores = 4096 * 4097 / 2
    assert whole == pytest.approx(1e6 * 2 * 2 * 32 * 4096 * scores / CARD.matrix_flops_per_s("fp16"))


def test_what_passes_between_kernels_is_written_and_read():
    """Norms and their sums 8 widths, rotary and the cache's writes 2 x (queries + keys) and 4 x keys, the gate 3 x hidden."""
    moved = 2 * 32 * (8 * 4096 + 2 * 8192 + 4 * 4096 + 3 * 11_008)
    assert CLOCK.parts_us([(100, 5), (28, 0)])["elementwise"] == pytest.approx(
        1e6 * 128 * moved / CARD.sustained_bytes_per_s
    )


def test_the_cache_of_a_token_and_how_many_fit():
    """Kwon et al., SOSP 2023: a token of OPT-13B, which has the width and layers of Llama 2 13B, is 800 KB."""
    assert Roofline("A100", "Llama 2 13B").kv_bytes == 2 * 5120 * 40 * 2 == 800 * 1024
    weights = 2 * SHAPES["Llama 2 7B"].parameters
    assert CLOCK.slots == int((0.92 * CARD.memory_bytes - weights) // CLOCK.kv_bytes)
    assert Roofline("A100", "Llama 2 70B", cards=4).kv_bytes == 2 * 1024 * 80 * 2


def test_several_cards_share_the_work_and_pay_for_their_sums():
    two, four = (Roofline("A100", "Llama 2 70B", cards=cards).parts_us([(1, 1000)]) for cards in (2, 4))
    assert two["linear"] == pytest.approx(2 * four["linear"]) and two["attention"] == pytest.approx(
        2 * four["attention"]
    )
    assert two["all-reduce"] > 0 and two["kernels"] == four["kernels"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("A100", "Llama 9"), "no model is called 'Llama 9'"),
        (("Z80", "Llama 2 7B"), "no card"),
        (("A100", "Llama 2 7B", "fp8"), "formats are fp16, bf16"),
        (("L40S", "Llama 2 7B", "fp16", 2), "several only A100, H100, H200"),
        (("H100", "Llama 2 70B"), "138 GB of weights leave no room on 1 H100"),
    ],
)
def test_what_there_is_not(given, says):
    with pytest.raises(ValueError, match=says):
        Roofline(*given)
