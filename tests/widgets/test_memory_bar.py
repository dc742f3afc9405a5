"""The memory bar: its terms are gpulab.memory.plan's, byte for byte, and it says what binds."""

import random

import pytest

from gpulab.cuda import CARDS
from gpulab.memory import OPTIMIZERS, PRECISIONS
from gpulab.widgets import MemoryBar
from gpulab.widgets._source import module
from gpulab.widgets.memory_bar import ADAPTED, MODELS
from tests.sampling import in_seeds
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

EXACT = 2**53
"""The largest whole number up to which JavaScript counts each."""
CHOSEN = (
    "model", "card", "mode", "batch", "sequence", "precision", "optimizer", "lora", "adapted", "weight_bits",
    "checkpointing", "attention", "stage", "world",
)  # fmt: skip


javascript = functions_of("memory_bar/model.js")


def random_bar(seed):
    """Every model, precision, optimizer and kind of sharding comes up in 600 of them; prompts of any length."""
    rng = random.Random(seed)
    lora, mode = rng.choice([0, 0, 4, 32, 128]), rng.choice(["train", "train", "serve"])
    return MemoryBar(
        rng.choice(list(MODELS)),
        rng.choice(list(CARDS)),
        mode,
        rng.choice([1, rng.randint(1, 300)]),
        rng.choice([0, rng.randint(1, 140_000)]),
        rng.choice(list(PRECISIONS)),
        rng.choice(OPTIMIZERS),
        lora,
        rng.choice(list(ADAPTED)),
        rng.choice([4, 8, 16] if lora or mode == "serve" else [16]),
        rng.choice(["none", "every layer", "selective"]),
        rng.choice(["fused", "written out"]),
        rng.randint(0, 3),
        rng.choice([1, 2, 3, 8, 1000]),
    )


def chosen(bar):
    return {name: getattr(bar, name) for name in CHOSEN}


@in_seeds(now=100, all=600)
def test_the_browser_plans_what_python_plans_byte_for_byte(javascript, seeds):
    bars = [random_bar(seed) for seed in seeds]
    given = {"known": bars[0].known, "bars": [chosen(bar) for bar in bars]}
    plans = javascript("given.bars.map((bar) => m.plan(m.jobOf(given.known, bar)))", given)
    bindings, fits = set(), set()
    for bar, found in zip(bars, plans, strict=True):
        expected = bar.planned()
        moments = {
            name: {term: count for term, count in terms.items() if term != "reserve"}
            for name, terms in expected.moments.items()
        }
        if expected.peak > EXACT:
            assert found["peak"] == pytest.approx(expected.peak, rel=1e-12)
            continue
        assert found["moments"] == moments, chosen(bar)
        assert (found["moment"], found["terms"], found["binding"]) == (
            expected.moment,
            expected.terms,
            expected.binding,
        ), chosen(bar)
        assert (found["peak"], found["capacity"], found["fits"]) == (expected.peak, expected.capacity, expected.fits)
        bindings.add(expected.binding)
        fits.add(expected.fits)
    assert fits == {True, False} and {"parameters", "optimizer", "activations", "cache"} <= bindings


def test_every_term_has_its_own_shade_and_every_binding_its_advice():
    text = module("memory_bar")
    for term in {
        term for seed in range(200) for terms in random_bar(seed).planned().moments.values() for term in terms
    }:
        assert term == "reserve" or f'"{term}"' in text.split("ORDER = ")[1].split("]")[0], term
        assert term in ("reserve", "context") or term in text.split("ADVICE = ")[1].split("};")[0], term


def row(page, name):
    line = page.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name))
    return line.locator("td").all_inner_texts()


def test_full_fine_tuning_misses_a_24_gb_card_and_lora_on_four_bits_fits_it(mount):
    page = mount(MemoryBar("TinyVLA 7B", "RTX4090"))
    assert "does not fit" in page.locator(".verdict").inner_text()
    assert page.get_by_role("rowheader", name="optimizer, binding").is_visible()
    page.get_by_label("LoRA rank").select_option("32")
    page.get_by_label("weight bits").select_option("4")
    assert "It fits" in page.locator(".verdict").inner_text()


def test_gib_and_gb_stand_side_by_side(mount):
    page = mount(MemoryBar("TinyVLA 7B", "A10"))
    gib, gb, _ = row(page, "the card")
    assert (float(gib), float(gb)) == (
        pytest.approx(22599 / 1024, abs=0.01),
        pytest.approx(22599 * 2**20 / 1e9, abs=0.01),
    )


def test_quantised_weights_without_lora_are_refused_in_words(mount):
    page = mount(MemoryBar())
    page.get_by_label("weight bits").select_option("4")
    assert "choose a rank for LoRA" in page.locator(".verdict").inner_text()
    assert page.get_by_role("img").count() == 0
    with pytest.raises(ValueError, match="asks for lora"):
        MemoryBar(weight_bits=4)


def test_serving_has_a_cache_and_no_optimizer(mount):
    page = mount(MemoryBar("Llama 3.1 8B", "H100", mode="serve", precision="bf16", batch=16, sequence=8192))
    assert page.get_by_label("optimizer").is_hidden()
    assert float(row(page, "cache")[0]) == 16 * 8192 * 2 * 32 * 8 * 128 * 2 / 2**30


def test_a_choice_is_made_by_keyboard_and_a_change_from_python_is_drawn(mount):
    page = mount(MemoryBar())
    page.get_by_label("card", exact=True).focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate("model.get('card')") == "L40S"
    page.evaluate("model.set('batch', 64)")
    assert page.get_by_label("sequences").input_value() == "64"


def test_the_picture_says_in_words_what_it_shows(mount):
    page = mount(MemoryBar("TinyVLA 7B", "RTX4090"))
    assert "does not fit" in page.get_by_role("img").get_attribute("aria-label")


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(MemoryBar(lora=32), width=width, scheme=scheme)
    assert_accessible(page, width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in (
        {"model": "Llama 9"},
        {"card": "H99"},
        {"adapted": "heads"},
        {"checkpointing": "some"},
        {"precision": "fp4"},
    ):
        with pytest.raises(ValueError):
            MemoryBar(**wrong)
