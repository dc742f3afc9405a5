"""Memory by ZeRO stage: the browser's bytes are gpulab.memory.plan's, and at the ZeRO paper's example the paper's."""

import random

import pytest

from gpulab.cards.cards import CARDS
from gpulab.memory import OPTIMIZERS, SHAPES, Job, plan
from gpulab.widgets import ShardingMemory
from gpulab.widgets.sharding_memory import BILLIONS, RECIPES, STAGES
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

DRAWN = 300
CHOSEN = ("billions", "precision", "optimizer", "known")


javascript = functions_of("sharding_memory/model.js")


def random_widget(seed):
    rng = random.Random(seed)
    recipe = rng.choice(RECIPES), rng.choice(OPTIMIZERS)
    return ShardingMemory(rng.choice(BILLIONS), 2 ** rng.randint(0, 10), *recipe, rng.choice(list(CARDS)))


def job(widget):
    return {name: getattr(widget, name) for name in CHOSEN}


def test_the_browser_counts_what_python_counts_byte_for_byte(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    given = [[job(widget), widget.ranks] for widget in widgets]
    held = javascript("given.map(([job, n]) => m.STAGES.map((stage) => m.held(job, stage, n)))", given)
    sent = javascript("given.map(([job, n]) => m.STAGES.map((stage) => m.sent(job, stage, n)))", given)
    for widget, stages, crossed in zip(widgets, held, sent, strict=True):
        assert stages == [widget.held(stage) for stage in STAGES], (widget.ranks, job(widget))
        assert crossed == [pytest.approx(widget.sent(stage), rel=1e-12) for stage in STAGES]


def test_what_is_counted_of_bare_parameters_is_what_the_plan_of_a_whole_model_counts():
    for seed in range(60):
        widget, rng = random_widget(seed), random.Random(seed)
        shape, stage = rng.choice(list(SHAPES.values())), rng.choice(list(STAGES))
        whole = Job(shape, precision=widget.precision, optimizer=widget.optimizer, stage=stage, world=widget.ranks)
        expected = plan(whole, widget.card).moments["in the embedding's backward pass"]
        widget.billions = shape.parameters / 1e9
        assert widget.held(stage) == {name: expected[name] for name in widget.held(stage)}


def test_the_zero_papers_example_comes_out():
    """Figure 1 of Rajbhandari et al., 2020: 7.5 billion parameters, 64 ranks; in GB."""
    paper = ShardingMemory(7.5, 64)
    assert [round(sum(paper.held(stage).values()) / 1e9, 1) for stage in STAGES] == [120.0, 31.4, 16.6, 1.9]
    in_models = [paper.sent(stage) / (2 * 7.5e9) * 64 / 63 for stage in STAGES]
    assert in_models == pytest.approx([2, 2, 2, 3])


def test_alone_nothing_is_saved_and_nothing_sent():
    alone = ShardingMemory(ranks=1)
    assert len({sum(alone.held(stage).values()) for stage in STAGES}) == 1
    assert [alone.sent(stage) for stage in STAGES] == [0] * 4


def row(page, name):
    line = page.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return line.locator("td").all_inner_texts()


def test_each_stage_is_told_with_its_memory_and_its_messages(mount):
    page = mount(ShardingMemory(7.5, 64))
    assert row(page, "0: DDP") == ["112", "120", "no", "29.5"]
    assert row(page, "3: FSDP") == ["1.7", "1.9", "yes", "44.3"]
    assert page.locator(".verdict").inner_text().startswith("Stages 1, 2 and 3 fit; stage 1 leaves 49.9 GiB")
    assert "stage 3, two all-gathers and one reduce-scatter, 3ψ" in page.locator(".note").first.inner_text()


def test_more_ranks_let_stage_3_fit_and_never_stage_0(mount):
    page = mount(ShardingMemory(175, 8))
    assert page.locator(".verdict").inner_text() == "No stage fits. Stage 3 does from 64 ranks on."
    page.get_by_role("slider", name="ranks").press("End")
    assert [row(page, name)[2] for name in ("0: DDP", "1", "2", "3: FSDP")] == ["no", "no", "no", "yes"]
    page.get_by_role("slider", name="parameters").press("Home")
    assert "Every stage fits" in page.locator(".verdict").inner_text()


def test_the_largest_model_fits_the_smallest_card_on_all_ranks(javascript):
    widget = ShardingMemory(BILLIONS[-1], card="T4")
    assert javascript("m.enough(given[0], given[1])", [job(widget), CARDS["T4"].memory_bytes]) == 1024


def test_a_recipe_without_a_master_copy_has_three_terms(mount):
    page = mount(ShardingMemory(1, 4, "fp32"))
    assert page.locator("rect.t2").count() == 0 and page.locator("rect.term").count() == 4 * 3
    page.get_by_label("recipe").select_option("bf16 with master weights")
    assert page.locator("rect.t2").count() == 4


def test_a_bar_that_is_cut_off_shows_it_and_says_how_long_it_is(mount):
    page = mount(ShardingMemory(175, 64), width=390)
    assert page.locator(".torn").count() == 3 and page.locator(".amount").first.text_content() == "2608 GiB"
    assert "what fits is stage 3" in page.get_by_role("img").get_attribute("aria-label")


def test_jupyterlab_leaves_the_keys_to_the_widget_and_a_change_from_python_is_drawn(mount):
    page = mount(ShardingMemory())
    assert page.locator("#widget :is(input, select)[data-lm-suppress-shortcuts=true]").count() == 5
    page.evaluate("model.set('card', 'T4')")
    assert page.get_by_label("card").input_value() == "T4" and row(page, "1")[2] == "no"


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(ShardingMemory(175, 64), width=width, scheme=scheme), width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"billions": 8.03}, {"precision": "mixed bf16"}, {"optimizer": "lion"}):
        with pytest.raises(ValueError, match="is one of"):
            ShardingMemory(**wrong)
    for ranks in (0, 3, 2048):
        with pytest.raises(ValueError, match="power of two from 1 to 1024"):
            ShardingMemory(ranks=ranks)
    with pytest.raises(ValueError, match="no card"):
        ShardingMemory(card="H99")
