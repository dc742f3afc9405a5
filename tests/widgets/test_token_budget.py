"""The token budget: the browser's tokens and bytes are gpulab.serving's, to the last one, and what is said is true."""

import random
import re

import pytest

from gpulab.cards.cards import CARDS
from gpulab.memory.shapes import LLAMAS, SHAPES
from gpulab.widgets import TokenBudget
from gpulab.widgets.token_budget import CACHES, VALUES
from tests.sampling import sampled
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DRAWN = 400


javascript = functions_of("token_budget/model.js")


def random_widget(seed):
    rng = random.Random(seed)
    moved = {name: rng.choice([values[0], values[-1], *values]) for name, values in VALUES.items()}
    return TokenBudget(rng.choice(list(LLAMAS)), rng.choice(list(CARDS)), rng.choice(list(CACHES)), **moved)


def given(widget):
    """The job, and the card, as the widget's own code has them."""
    known = widget.known
    job = {"shape": known["models"][widget.model], "element_bytes": known["caches"][widget.cache]}
    return {"job": job | {name: getattr(widget, name) for name in VALUES}, "card": known["cards"][widget.card]}


def test_the_browser_counts_what_python_counts(javascript):
    widgets = [random_widget(seed) for seed in range(DRAWN)]
    counted = "given.map(({ job, card }) => [m.tokens(job), m.frames(job), m.budget(job, card)])"
    found = javascript(counted, [given(widget) for widget in widgets])
    for widget, (tokens, frames, budget) in zip(widgets, found, strict=True):
        assert (tokens, frames) == (widget.request.tokens, widget.request.frames), widget.request
        expected = {"cached": widget.cached(), "left": widget.left(), "fitting": widget.fitting()}
        assert budget == expected, (widget.request, widget.card)
    fitting = [widget.fitting() for widget in widgets]
    assert {0, 1} < set(fitting) and any(widget.left() < 0 for widget in widgets)


def test_nothing_asked_for_holds_nothing(javascript):
    empty = TokenBudget(text=0, images=0, seconds=0)
    assert javascript("m.budget(given.job, given.card).fitting", given(empty)) is None is empty.fitting()


def test_a_tokens_bytes_are_of_the_key_value_heads(javascript):
    for name in LLAMAS:
        widget, shape = TokenBudget(name), SHAPES[name]
        own, each = javascript(
            "[m.tokenBytes(given.job), m.tokenBytes(given.job, given.job.shape.heads)]", given(widget)
        )
        assert (
            own == shape.cached * 2
            and each == 2 * shape.layers * shape.queries * 2 == own * shape.heads // shape.kv_heads
        )


def cells(page, name):
    line = page.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return line.locator("td").all_inner_texts()


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_the_first_request_is_told_by_kind(mount):
    page = mount(TokenBudget())
    assert cells(page, "text") == ["64", "2 %", "32 MiB"] and cells(page, "images") == ["512", "16 %", "256 MiB"]
    assert cells(page, "video") == ["2560", "82 %", "1.25 GiB"] and cells(page, "in all") == [
        "3136",
        "100 %",
        "1.53 GiB",
    ]
    assert (shown(page, "an image or frame"), shown(page, "frames")) == ("256 tokens", "10")
    assert (shown(page, "left by the weights"), shown(page, "one request of that")) == ("11 GiB of 23.5 GiB", "14 %")
    assert shown(page, "requests that fit") == "7"
    assert (
        page.locator(".verdict")
        .inner_text()
        .startswith("7 such requests have room at once. Video is 82 % of the tokens")
    )


def test_merging_four_patches_makes_a_quarter_of_the_tokens_by_keyboard(mount):
    page = mount(TokenBudget())
    merge = page.get_by_role("slider", name="merge")
    merge.press("ArrowRight")
    assert page.evaluate("model.get('merge')") == 2 and merge.get_attribute("aria-valuetext") == "2 × 2"
    assert shown(page, "an image or frame") == "64 tokens" and cells(page, "video")[0] == "640"
    page.get_by_role("slider", name="merge").press("ArrowRight")
    assert shown(page, "an image or frame") == "36 tokens", (
        "16 patches a side are five squares of three and a begun one"
    )


def test_heads_are_seen_against_key_value_heads(mount):
    page = mount(TokenBudget("Llama 2 70B", "H200"))
    assert shown(page, "key-value heads") == "8 for 64 query heads"
    assert shown(page, "a token holds") == "320 KiB; 2.50 MiB if each head had its own"
    page.get_by_label("cache", exact=True).select_option("8 bits")
    assert shown(page, "a token holds") == "160 KiB; 1.25 MiB if each head had its own"


def test_weights_that_do_not_fit_leave_nothing(mount):
    page = mount(TokenBudget("Llama 2 70B", "H100"))
    assert page.locator(".verdict").inner_text().startswith("The weights alone need 49.3 GiB more than the card has")
    assert (shown(page, "left by the weights"), shown(page, "requests that fit")) == ("nothing", "0")
    page.get_by_label("card", exact=True).select_option("H200")
    assert shown(page, "requests that fit") == "11"


def test_a_request_too_large_is_drawn_beyond_the_cards_edge(mount):
    page = mount(TokenBudget("Llama 2 7B", "RTX4090", seconds=120))
    edge = page.locator("line.capacity").bounding_box()["x"]
    one = page.locator("rect.one").bounding_box()
    assert page.locator(".verdict").inner_text().startswith("Not one such request has room.")
    assert one["x"] < edge < one["x"] + one["width"]
    assert page.locator("rect.more").count() == page.locator(".torn").count() == 0
    page.get_by_role("slider", name="seconds").press("End")
    assert page.locator(".torn").count() == 1


def test_bars_are_as_long_as_their_shares(mount):
    widget = TokenBudget()
    page, tokens = mount(widget), widget.request.tokens
    width = {
        kind: float(page.locator(f"rect.{kind}").get_attribute("width")) for kind in (*tokens, "weights", "one", "more")
    }
    for kind in tokens:
        assert width[kind] / sum(width[one] for one in tokens) == pytest.approx(tokens[kind] / sum(tokens.values()))
    assert width["one"] / width["weights"] == pytest.approx(widget.cached() / (2 * SHAPES[widget.model].parameters))
    assert width["more"] / width["one"] == pytest.approx(widget.fitting() - 1)
    assert page.locator("line.between").count() == widget.fitting()


def test_a_request_without_a_token(mount):
    page = mount(TokenBudget(text=0, images=0, seconds=0))
    assert page.locator(".verdict").inner_text() == "A request without a token holds nothing."
    assert shown(page, "requests that fit") == "any number" and cells(page, "in all") == ["0", "0 %", "0 B"]
    page.get_by_role("slider", name="text tokens").press("ArrowRight")
    assert "Text is 100 % of the tokens." in page.locator(".verdict").inner_text()


def test_the_picture_says_in_words_what_it_shows(mount):
    page = mount(TokenBudget())
    assert page.get_by_role("img").get_attribute("aria-label") == (
        "3136 tokens: text 2 %, images 16 % and video 82 %. "
        "7 such requests have room beside 12.6 GiB of weights on a card with 23.5 GiB."
    )


def test_the_keyboard_reaches_everything_in_order(mount):
    page = mount(TokenBudget())
    assert page.locator("#widget :is(input, select)[data-lm-suppress-shortcuts=true]").count() == 11
    reached = []
    for _ in range(11):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.value"))
    sliders = ["text tokens", "images", "height", "width", "patch", "merge", "video", "seconds"]
    assert reached == ["Llama 2 7B", "RTX4090", "16 bits", *sliders]


def test_a_change_from_python_is_drawn(mount):
    page = mount(TokenBudget())
    page.evaluate("model.set('images', 64)")
    assert cells(page, "images")[0] == str(64 * 256) and page.get_by_role("slider", name="images").input_value() == "12"
    assert "Images are" in page.locator(".verdict").inner_text()


@pytest.mark.parametrize("width", sampled([390, 560, 720, 1280], now=(390, 1280)))
def test_moving_a_slider_moves_nothing_else(mount, width):
    page = mount(TokenBudget("Llama 2 70B", "H200", images=12), width=width)
    places = set()
    for name in ("text tokens", "images", "height", "patch", "merge", "video", "seconds"):
        for key in ("Home", "ArrowRight", "End"):
            page.get_by_role("slider", name=name).press(key)
            below = (page.locator(where).bounding_box() for where in ("svg[role=img]", "table", "dl", ".note"))
            places.add(tuple(box["y"] for box in below))
    assert len(places) == 1, places


def test_without_a_script_question_picture_and_every_models_answer_stand_in_the_page():
    html, without = still_of(TokenBudget(card="H100")).split("<noscript>")
    assert (
        "Of what is this request made" in html and 'viewBox="0 0 640 148"' in html and "such requests have room" in html
    )
    rows = re.findall(r"<tr><th scope=\"row\"[^>]*>(.*?)</th>.*?<td>([^<]*)</td></tr>", without)
    assert rows == [(name, str(TokenBudget(name, "H100").fitting())) for name in LLAMAS]


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    large = TokenBudget("Llama 2 70B", "H100", height=2160, width=3840, frames_per_s=30, seconds=3600)
    page = mount(large, width=width, scheme=scheme)
    assert_accessible(page, width)
    page.get_by_label("card", exact=True).select_option("H200")
    page.get_by_role("slider", name="seconds").press("Home")
    assert_accessible(page, width)


def test_what_is_not_among_the_choices_is_refused():
    for wrong in ({"model": "GPT-2"}, {"cache": "4 bits"}, *({name: -1} for name in VALUES)):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} is one of"):
            TokenBudget(**wrong)
    with pytest.raises(ValueError, match="no card"):
        TokenBudget(card="H99")
