"""The float formats: the browser reads, rounds and counts as PyTorch and ml_dtypes do."""

import ml_dtypes
import numpy as np
import pytest
import torch

from gpulab.formats import BLOCK_FORMATS, FORMATS
from gpulab.widgets import FloatFormats
from gpulab.widgets.float_formats import SHOWN, mx_scaled, nv_scaled, scalings
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

ML = {"fp6 e3m2": ml_dtypes.float6_e3m2fn, "fp6 e2m3": ml_dtypes.float6_e2m3fn, "fp4 e2m1": ml_dtypes.float4_e2m1fn}


def gradients(seed=0):
    """Of every size that a format meets, with zeros, exact powers of two and the edges of each format among them."""
    torch.manual_seed(seed)
    wide = torch.ldexp(torch.randn(512, 96), torch.randint(-70, 18, (512, 96)).float())
    wide[::7, ::5] = 0
    wide[0, :64] = torch.ldexp(torch.ones(64), torch.arange(-44, 20).float())
    edges = [FORMATS[name].largest for name in SHOWN if name not in ("fp32", "tf32", "bf16")]
    wide[1, : 3 * len(edges)] = torch.tensor([e * by for e in edges for by in (1, 1 + 2**-12, 1.08)]).float()
    wide[2, :7] = torch.tensor([65519.0, 65520.0, 464.0, 465.0, 61440.0, 7.0, 30.0])
    return {"weights": [wide, torch.randn(33)], "activations": [torch.randn(4, 8, 32) * 1e-7]}


def widget(**options):
    return FloatFormats(gradients(), **options)


javascript = functions_of("float_formats/model.js")


def cast(x, name):
    """float32 rounded to a format by PyTorch, ml_dtypes or, for tf32, integers: float32 again."""
    if name in ML:
        return torch.from_numpy(x.numpy().astype(ML[name]).astype(np.float32))
    if name == "tf32":
        bits = x.view(torch.int32).long()
        kept = ((bits + 0xFFF + ((bits >> 13) & 1)) >> 13) << 13
        return torch.where(x.isfinite(), kept.to(torch.int32).view(torch.float32), x)
    return x.to(FORMATS[name].dtype).float()


def same(found, right):
    found = torch.tensor([float(one) for one in found], dtype=torch.float64)
    return torch.equal(found.isnan(), right.isnan()) and torch.equal(
        found.nan_to_num(nan=-1), right.double().nan_to_num(nan=-1)
    )


@pytest.mark.parametrize("name", SHOWN)
def test_the_browser_reads_every_pattern_as_python_does(javascript, name):
    fmt = FORMATS[name]
    count = 2 ** (fmt.bits - 1)
    patterns = torch.arange(count) if count <= 2**15 else torch.randint(count, (20_000,))
    patterns = torch.cat((patterns, torch.tensor([0, fmt.last_pattern, count - 1])))
    found = javascript(
        "given[1].map((p) => String(m.decode(given[0], p)))", [widget().formats[name], patterns.tolist()]
    )
    assert same([one.replace("Infinity", "inf") for one in found], fmt.decode(patterns))


@pytest.mark.parametrize("name", SHOWN)
def test_the_browser_rounds_as_pytorch_and_ml_dtypes_do(javascript, name):
    torch.manual_seed(3)
    exponents = torch.cat((torch.randint(-149, 128, (6000,)), torch.randint(-30, 20, (6000,)))).float()
    x = torch.ldexp(torch.rand(12_000) + 1, exponents)
    x = torch.cat((x, ties(name), torch.tensor([65519.0, 65520.0, 464.0, 480.0, 61440.0])))
    right = cast(x, name)
    found = javascript(
        "given[1].map((x) => String(m.decode(given[0], m.encode(given[0], x))))",
        [widget().formats[name], x.double().tolist()],
    )
    assert same([one.replace("Infinity", "inf") for one in found], right)


def ties(name):
    """The middle between numbers of the format that follow each other: ties, where float32 holds them."""
    fmt = FORMATS[name]
    patterns = torch.randint(0, fmt.last_pattern, (4000,))
    return ((fmt.decode(patterns) + fmt.decode(patterns + 1)) / 2).float()


def test_the_browser_knows_what_is_not_a_number(javascript):
    for name in SHOWN:
        found = javascript("m.encode(given, NaN)", widget().formats[name])
        assert (found is None) == (FORMATS[name].reserved == "none")
        if found is not None:
            assert FORMATS[name].decode(torch.tensor(found)).isnan()


@pytest.mark.parametrize("name", SHOWN)
def test_the_gap_between_numbers_is_the_next_patterns(javascript, name):
    fmt = FORMATS[name]
    patterns = torch.randint(0, fmt.last_pattern, (500,))
    found = javascript(
        "given[1].map((x) => m.spacing(given[0], x))", [widget().formats[name], fmt.decode(patterns).tolist()]
    )
    assert [float(gap) for gap in found] == (fmt.decode(patterns + 1) - fmt.decode(patterns)).tolist()


def right_fates(values, name):
    """What becomes of magnitudes (float32) by casts, not by bins."""
    fmt, kept = FORMATS[name], cast(values, name)
    above = values.double() > fmt.largest
    step = fmt.decode(torch.tensor(fmt.last_pattern)) - fmt.decode(torch.tensor(fmt.last_pattern - 1))
    edge = fmt.largest + step / 2
    over = above & ((values.double() >= edge) if fmt.last_pattern % 2 else (values.double() > edge))
    zero, below = kept == 0, values.double() < fmt.least_normal
    if fmt.reserved == "ieee":
        assert torch.equal(over, kept.isinf())
    return {
        "zero": int(zero.sum()),
        "subnormal": int((below & ~zero).sum()),
        "over": int(over.sum()),
        "normal": int((~below & ~zero & ~over).sum()),
    }


@pytest.mark.parametrize("name", SHOWN)
def test_the_histogram_counts_exactly_what_a_cast_makes_of_every_gradient(javascript, name):
    shown = widget()
    for data, tensors in gradients().items():
        for loss_scale in (0, 7, 16, 29):
            flat = torch.cat([t.flatten() for t in tensors]).abs()
            flat = torch.ldexp(flat[flat != 0], torch.tensor(float(loss_scale)))
            given = [shown.formats[name], shown.counts[data]["none"], shown.edges, loss_scale]
            assert javascript("m.fates(...given)", given) == right_fates(flat, name), (data, loss_scale)


@pytest.mark.parametrize("name", [name for name in SHOWN if "mx" in scalings(name)])
def test_blocks_with_a_power_of_two_are_counted_as_their_scaled_numbers_are(javascript, name):
    shown, fmt = widget(), FORMATS[name]
    top = int(np.floor(np.log2(fmt.largest)))
    for data, tensors in gradients().items():
        scaled = torch.cat([torch.ldexp(mx_scaled(t), torch.tensor(float(top))).flatten() for t in tensors]).abs()
        given = [shown.formats[name], shown.counts[data]["mx"], shown.edges]
        found = javascript("m.fates(given[0], given[1], given[2], m.shift(given[0], 'mx', 9))", given)
        assert found == right_fates(scaled[scaled != 0], name), data


def test_blocks_with_an_fp8_scale_are_counted_as_their_scaled_numbers_are(javascript):
    shown = widget()
    for data, tensors in gradients().items():
        scaled = torch.cat([nv_scaled(t).flatten() for t in tensors]).abs()
        given = [shown.formats["fp4 e2m1"], shown.counts[data]["nv"], shown.edges]
        found = javascript("m.fates(given[0], given[1], given[2], m.shift(given[0], 'nv', 9))", given)
        assert found == right_fates(scaled[scaled != 0], "fp4 e2m1"), data


def test_scaled_blocks_decode_to_what_they_were():
    torch.manual_seed(4)
    x = torch.randn(8, 64) * 1e-6
    elements = cast(torch.ldexp(mx_scaled(x), torch.tensor(8.0)), "fp8 e4m3").to(torch.float8_e4m3fn).view(torch.uint8)
    scales = (torch.frexp(x.unflatten(-1, (-1, 32)).abs().amax(-1)).exponent - 1 - 8 + 127).to(torch.uint8)
    read = BLOCK_FORMATS["MXFP8 e4m3"].decode(elements.flatten(1), scales)
    kept = x.abs() > 1e-8
    assert ((read - x) / x)[kept].abs().max() < 0.14  # clipped at most from 2 ** 9 to 448


def verdicts(page):
    return page.locator(".verdict").all_inner_texts()


def test_a_typed_number_shows_its_bits_and_what_is_kept(mount):
    page = mount(widget(fmt="fp16"))
    box = page.get_by_label("number", exact=True)
    box.fill("70000")
    box.press("Enter")
    assert verdicts(page)[0] == "In fp16, 70000 is too large: infinity."
    page.get_by_label("format", exact=True).select_option("bf16")
    assert verdicts(page)[0] == "In bf16, 70000 becomes 70144, off by 0.21 %."
    box.fill("-0.15625")
    box.press("Enter")
    assert verdicts(page)[0] == "In bf16, -0.15625 is kept exactly."
    bits = "".join(page.locator(".bits button").all_inner_texts())
    assert bits == format(torch.tensor([-0.15625], dtype=torch.bfloat16).view(torch.uint16).item(), "016b")


def test_a_bit_is_turned_by_keyboard_and_keeps_the_focus(mount):
    page = mount(widget(fmt="fp8 e4m3", number="1"))
    page.get_by_role("button", name="exponent bit worth 2 to the 3").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("model.get('number')") == "256"  # from an exponent field of 7 to one of 15
    assert "exponent bit worth 2 to the 3" in page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.get_by_role("button", name="sign bit").click()
    assert page.evaluate("model.get('number')").startswith("-")


def test_the_slider_goes_from_number_to_number(mount):
    page = mount(widget(fmt="fp16", number="1"))
    page.get_by_role("slider", name="number").focus()
    page.keyboard.press("ArrowRight")
    assert float(page.evaluate("model.get('number')")) == 1 + 2**-10
    page.keyboard.press("End")
    assert page.evaluate("model.get('number')") == "Infinity"


def test_the_loss_scale_moves_gradients_out_of_zero(mount):
    page = mount(widget())
    page.get_by_label("gradients of").select_option("activations")
    before = verdicts(page)[1]
    page.get_by_role("slider", name="loss scale").focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('loss_scale')") == 12
    assert "0.0 % become zero" not in before and "0.0 % become zero" in verdicts(page)[1]


def test_blocks_are_offered_where_the_format_has_them(mount):
    page = mount(widget(fmt="fp4 e2m1", scaling="nv"))
    assert page.get_by_role("slider", name="loss scale").is_disabled()
    page.get_by_label("format", exact=True).select_option("fp8 e5m2")
    assert page.evaluate("model.get('scaling')") == "none"
    options = page.get_by_label("blocks").locator("option")
    assert [options.nth(i).is_disabled() for i in range(3)] == [False, False, True]


def test_what_is_no_number_is_said(mount):
    page = mount(widget(number="five"))
    assert verdicts(page)[0] == "In fp16, five is not a number."


def test_a_change_from_python_is_drawn(mount):
    page = mount(widget())
    page.evaluate("model.set('fmt', 'fp32')")
    assert page.locator(".bits button").count() == 32


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    page = mount(widget(fmt="fp32"), width=width, scheme=scheme)
    assert_accessible(page, width)


def test_what_it_cannot_show_is_refused():
    with pytest.raises(ValueError, match="a scaling that it has"):
        widget(fmt="fp16", scaling="mx")
    with pytest.raises(ValueError, match="choose one of"):
        widget(fmt="int8")
    with pytest.raises(ValueError, match="power of two"):
        widget(loss_scale=40)
    with pytest.raises(ValueError, match="no gradient"):
        FloatFormats({"none": [torch.zeros(4)]})
