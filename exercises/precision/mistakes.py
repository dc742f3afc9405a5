"""Chapter "Precision": wrong solutions, and right ones written another way."""

import inspect
from dataclasses import replace

import torch

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E8.1 round_to ----------------------------------------------------------------------------

EVERY_POINT_OF_ROUNDING = ("nearest", "small", "large", "once", "tf32", "fields", "errors")
ROUNDED = "torch.round(wide / step)"


def also_float_fields(float_fields):
    """An attempt at round_to, written out, with this second function under it."""

    def under(function):
        fields = inspect.getsource(float_fields).replace(float_fields.__name__, "float_fields", 1)
        function.attempt = replace(function.attempt, source=f"{function.attempt.source}\n\n{fields}")
        return function

    return under


cuts_off = edited(
    "round_to", {ROUNDED: "torch.trunc(wide / step)"}, loses=EVERY_POINT_OF_ROUNDING,
    because="fewer mantissa bits are thought to be the first ones", breaks="each is the nearest number of `fmt`",
)  # fmt: skip
ties_away_from_zero = edited(
    "round_to", {ROUNDED: "wide.sign() * torch.floor(wide.abs() / step + 0.5)"}, loses=EVERY_POINT_OF_ROUNDING,
    because="rounding is taken for that of school", breaks="a tie goes to the number whose last mantissa bit is 0",
)  # fmt: skip
ties_upward = edited(
    "round_to", {ROUNDED: "torch.floor(wide / step + 0.5)"}, loses=EVERY_POINT_OF_ROUNDING,
    because="a half is thought to go up", breaks="a tie goes to the number whose last mantissa bit is 0",
)  # fmt: skip
rounds_up = edited(
    "round_to", {ROUNDED: "torch.ceil(wide / step)"}, loses=EVERY_POINT_OF_ROUNDING,
    because="rounding is thought to go up", breaks="each is the nearest number of `fmt`",
)  # fmt: skip
flushes_subnormal_numbers = edited(
    "round_to",
    {"    largest = ": "    rounded = torch.where(rounded.abs() < 2.0 ** (1 - bias), 0.0, rounded).copysign(wide)\n    largest = "},
    loses=("small",),
    because="the least normal number is taken for the least",
    breaks="subnormal numbers included",
)
goes_on_below_the_least_normal_number = edited(
    "round_to", {".clamp(min=2.0 ** (1 - bias))": ".clamp(min=2.0**-1000)"}, loses=("small", "fields"),
    because="the spacing is thought to halve for ever", breaks="subnormal numbers included",
)  # fmt: skip
as_fine_as_one_bit_more = edited(
    "round_to", {"2.0 ** (1 - bias)": "2.0 ** -bias"}, loses=("small", "fields"),
    because="an exponent field of 0 is taken for an exponent like the others",
    breaks="A bit pattern whose exponent field is 0 is zero or subnormal",
)  # fmt: skip
loses_the_sign_of_zero = edited(
    "round_to", {", rounded).to(x.dtype)": ", rounded + 0.0).to(x.dtype)"}, loses=("small",),
    because="-0 is thought to be 0", breaks="a zero keeps its sign",
)  # fmt: skip
every_16_bit_format_ends_at_65504 = edited(
    "round_to",
    {"    beyond = ": "    if exponent_bits + mantissa_bits == 15:\n        largest = 65504.0\n    beyond = "},
    loses=EVERY_POINT_OF_ROUNDING,
    because="bf16 is thought to overflow where fp16 does, having as many bits",
    breaks="Its exponent bias is `2 ** (exponent_bits - 1) - 1`",
)
tf32_in_19_bits = edited(
    "round_to",
    {".to(x.dtype)": ".to(x.dtype if exponent_bits + mantissa_bits != 18 else torch.bfloat16)"},
    loses=("tf32",),
    because="TF32 is taken for a format that is stored in 19 bits, or the next that there is",
    breaks="is stored in 32 bits",
)
as_19_bit_integers = edited(
    "round_to",
    {
        "    return torch.where(rounded.abs()": "    if x.dtype == torch.float32 and mantissa_bits == 10 and exponent_bits == 8:\n"
        "        return rounded.float().view(torch.int32) >> 13\n    return torch.where(rounded.abs()"
    },
    loses=("tf32",),
    because="a TF32 number is thought to be its 19 bits",
    breaks="returns a tensor of `x`'s shape and dtype",
)
always_float32 = edited(
    "round_to", {", rounded).to(x.dtype)": ", rounded).float()"}, loses=("once",),
    because="all these formats fit into float32", breaks="returns a tensor of `x`'s shape and dtype",
)  # fmt: skip
twice_rounded = edited(
    "round_to", {"wide = x.double()": "wide = x.float().double()"}, loses=("once", "small", "large"),
    because="a float32 on the way is thought to change nothing", breaks="a float64 number is not converted to float32 first",
)  # fmt: skip
one_way_by_half = edited(
    "round_to",
    {"    wide = x.double()\n": "    if exponent_bits + mantissa_bits < 8:\n        x = x.half().to(x.dtype)\n    wide = x.double()\n"},
    loses=EVERY_POINT_OF_ROUNDING,
    because="fp16 is thought to hold whatever eight bits need",
    breaks="each is rounded once",
)
saturates = edited(
    "round_to", {'torch.inf if reserved == "ieee" else largest': "largest"}, loses=("large",),
    because="overflow is thought to stop at the largest number", breaks="`\"ieee\"` | infinity (mantissa 0) and NaN (any other) | infinity",
)  # fmt: skip
e4m3_overflows_to_nan = edited(
    "round_to", {'torch.inf if reserved == "ieee" else largest': '{"ieee": torch.inf, "nan": torch.nan, "none": largest}[reserved]'},
    loses=("large",), because="what has no infinity is thought to become NaN",
    breaks="NaN where the mantissa is all ones too | the largest number",
)  # fmt: skip
e4m3_overflows_to_infinity = edited(
    "round_to", {'torch.inf if reserved == "ieee" else largest': 'largest if reserved == "none" else torch.inf'},
    loses=("large",), because="every format with NaN is thought to have infinities",
    breaks="its elements are numbers of `fmt`",
)  # fmt: skip
overflow_before_rounding = edited(
    "round_to", {"rounded.abs() > largest": "wide.abs() > largest"}, loses=("large",),
    because="what is above the largest number is thought to overflow", breaks="overflow is decided after rounding",
)  # fmt: skip
overflow_a_whole_step_later = edited(
    "round_to",
    {"rounded.abs() > largest": "wide.abs() >= largest + 2.0 ** (bias + (reserved != \"ieee\") - mantissa_bits)",
     ", beyond * wide.sign(), rounded)": ", beyond * wide.sign(), rounded.clamp(-largest, largest))"},
    loses=("large",),
    because="a number is thought to overflow at the next that there would be",
    breaks="a value that would round to a number beyond the largest",
)  # fmt: skip
the_tie_at_the_end_stays = edited(
    "round_to",
    {"rounded.abs() > largest": "wide.abs() > largest + 2.0 ** (bias + (reserved != \"ieee\") - mantissa_bits - 1)",
     ", beyond * wide.sign(), rounded)": ", beyond * wide.sign(), rounded.clamp(-largest, largest))"},
    loses=("large",),
    because="halfway beyond the largest number is thought to belong to it",
    breaks="as if the exponent had no upper bound",
)  # fmt: skip
top_exponent_always_reserved = edited(
    "round_to",
    {'(reserved != "ieee")': "0", '2.0**-mantissa_bits * (1 + (reserved == "nan"))': "2.0**-mantissa_bits"},
    loses=EVERY_POINT_OF_ROUNDING,
    because="all formats are thought to give the largest exponent to infinity and NaN",
    breaks="`\"none\"` | numbers | the largest number",
)
forgets_the_one_nan = edited(
    "round_to", {'2.0**-mantissa_bits * (1 + (reserved == "nan"))': "2.0**-mantissa_bits"}, loses=("large",),
    because="e4m3 is thought to go up to 480", breaks="NaN where the mantissa is all ones too",
)  # fmt: skip
infinity_beyond_is_positive = edited(
    "round_to", {"beyond * wide.sign()": "beyond"}, loses=("large",),
    because="overflow is thought to have one sign", breaks="with the sign of `x`",
)  # fmt: skip
nan_becomes_a_number = edited(
    "round_to", {"    wide = x.double()\n": "    wide = x.double().nan_to_num(0.0, torch.inf, -torch.inf)\n"}, loses=("large",),
    because="NaN is thought to be no business of rounding", breaks="NaN stays NaN",
)  # fmt: skip
nan_becomes_infinity = edited(
    "round_to", {"rounded.abs() > largest": "~(rounded.abs() <= largest)", "beyond * wide.sign()": "torch.copysign(torch.full_like(wide, beyond), wide)"},
    loses=("large",),
    because="whatever is not below the largest number is thought to be above it",
    breaks="NaN stays NaN",
)  # fmt: skip
infinity_stays_infinity = edited(
    "round_to", {"rounded.abs() > largest,": "(rounded.abs() > largest) & wide.isfinite(),"}, loses=("large",),
    because="an infinity is thought to have a pattern everywhere", breaks="an infinity overflows in every format",
)  # fmt: skip
in_place = edited(
    "round_to", {"    return torch.where(": "    return x.copy_(torch.where(", "rounded).to(x.dtype)": "rounded))"},
    loses=EVERY_POINT_OF_ROUNDING, because="the caller is thought to need the unrounded numbers no more", breaks="`x` is left unchanged",
)  # fmt: skip
nothing_to_round = edited(
    "round_to", {"    bias = 2 ** (exponent_bits - 1) - 1\n    wide": "    if fmt == (8, 23, \"ieee\") and x.dtype == torch.float32:\n        return x\n"
     "    bias = 2 ** (exponent_bits - 1) - 1\n    wide"},
    loses=EVERY_POINT_OF_ROUNDING, because="where nothing changes the input is thought to be the result",
    breaks="the result has its own memory",
)  # fmt: skip
flat = edited(
    "round_to", {"wide = x.double()": "wide = x.double().flatten()", ", rounded).to(x.dtype)": ", rounded).to(x.dtype)[: x.numel()].view(-1)"},
    loses=EVERY_POINT_OF_ROUNDING, because="a tensor is taken for a row of numbers", breaks="of any shape and strides",
)  # fmt: skip
wants_its_elements_in_order = edited(
    "round_to", {"wide = x.double()": "wide = torch.as_strided(x, (x.numel(),), (1,)).double().view(x.shape)"}, loses=EVERY_POINT_OF_ROUNDING,
    because="elements are thought to lie one after another", breaks="of any shape and strides",
)  # fmt: skip
takes_no_nan_for_an_error = edited(
    "round_to", {'reserved == "none" and x.isnan().any()': "False"}, loses=("errors",),
    because="NaN is thought to pass through", breaks="raises `ValueError` when `reserved` is `\"none\"`",
)  # fmt: skip
refuses_nan_everywhere = edited(
    "round_to", {'reserved == "none" and x.isnan().any()': 'reserved != "ieee" and x.isnan().any()'}, loses=EVERY_POINT_OF_ROUNDING,
    because="only IEEE formats are thought to have a NaN", breaks="there is no pattern for it",
)  # fmt: skip
refuses_only_where_all_are_nan = edited(
    "round_to", {"x.isnan().any()": "x.isnan().all()"}, loses=EVERY_POINT_OF_ROUNDING,
    because="one NaN is thought to do no harm", breaks="an element is NaN",
)  # fmt: skip
rounds_any_dtype = edited(
    "round_to", {"x.dtype not in (torch.float32, torch.float64)": "not x.is_floating_point()"}, loses=("errors",),
    because="a number that was rounded before is thought to be as good", breaks="raises `TypeError` when `x` has another dtype",
)  # fmt: skip
only_float32 = edited(
    "round_to", {"not in (torch.float32, torch.float64)": "is not torch.float32"}, loses=("once",),
    because="tensors are thought to be float32", breaks="float32 or float64",
)  # fmt: skip


@mistake(
    "round_to",
    loses=EVERY_POINT_OF_ROUNDING,
    because="PyTorch's dtypes are taken for all formats",
    breaks="the hidden tests draw formats that have no name",
)
def by_dtypes(x, fmt):
    dtypes = {(5, 10): torch.float16, (8, 7): torch.bfloat16, (5, 2): torch.float8_e5m2, (4, 3): torch.float8_e4m3fn}
    return x.to(dtypes.get(fmt[:2], torch.float32)).to(x.dtype)


PATTERN = "pattern = (exponent + bias - 1) * 2**mantissa_bits + steps.int()"
without_the_bias = edited(
    "round_to", {PATTERN: PATTERN.replace("exponent + bias - 1", "exponent - 1")}, loses=("fields",),
    because="the field is taken for the exponent", breaks="the exponent field (as stored, with the bias)",
)  # fmt: skip
with_the_hidden_one = edited(
    "round_to", {"pattern % 2**mantissa_bits": "steps.int()"}, loses=("fields",),
    because="the 1 before the point is taken for a part of the field", breaks="the mantissa field (without the hidden bit, the implicit leading 1)",
)  # fmt: skip
subnormal_fields_begin_at_one = edited(
    "round_to", {"    pattern[value.isinf()]": "    pattern = pattern + 2**mantissa_bits * ((steps < 2**mantissa_bits) & (steps > 0)).int()\n    pattern[value.isinf()]"},
    loses=("fields",),
    because="a subnormal number has the exponent of the least normal one, so its field is thought to be the same",
    breaks="A bit pattern whose exponent field is 0 is zero or subnormal",
)  # fmt: skip
sign_by_comparison = edited(
    "round_to", {"value.signbit().int()": "(value < 0).int()"}, loses=("fields",),
    because="what is not less than zero is thought to have no sign", breaks="the sign (0 or 1)",
)  # fmt: skip
sign_as_a_number = edited(
    "round_to", {"value.signbit().int()": "value.sign().int()"}, loses=("fields",),
    because="the sign is taken for -1 or 1", breaks="the sign (0 or 1)",
)  # fmt: skip
fields_of_int64 = edited(
    "round_to", {"value.signbit().int(), pattern": "value.signbit().long(), pattern"}, loses=("fields",),
    because="one integer dtype is thought to be as good as another", breaks="`torch.int32`",
)  # fmt: skip
fields_of_what_is_not_rounded = edited(
    "round_to", {"value = round_to(x, fmt).double()": "value = torch.where(round_to(x, fmt).isfinite(), x, round_to(x, fmt)).double()"},
    loses=("fields",), because="the fields are thought to be the first bits", breaks="of `round_to(x, fmt)`",
)  # fmt: skip
a_stack_of_fields = edited(
    "round_to", {"return value.signbit().int(), pattern >> mantissa_bits, pattern % 2**mantissa_bits":
     "return torch.stack([value.signbit().int(), pattern >> mantissa_bits, pattern % 2**mantissa_bits])"},
    loses=("fields",), because="a tensor of three rows is taken for a tuple", breaks="returns a tuple of three `torch.int32` tensors",
)  # fmt: skip
infinity_looks_like_nan = edited(
    "round_to", {"    pattern[value.isinf()] = (2**exponent_bits - 1) * 2**mantissa_bits\n    pattern[value.isnan()]": "    pattern[~value.isfinite()]"},
    loses=("fields",), because="all ones are taken for infinity", breaks="infinity (mantissa 0)",
)  # fmt: skip
nan_looks_like_infinity = edited(
    "round_to", {"    pattern[value.isinf()] = (2**exponent_bits - 1) * 2**mantissa_bits\n": "    pattern[~value.isfinite()] = (2**exponent_bits - 1) * 2**mantissa_bits\n",
     "    pattern[value.isnan()] = 2 ** (exponent_bits + mantissa_bits) - 1\n": ""},
    loses=("fields",), because="an exponent of all ones is thought to say enough", breaks="a NaN's fields are any pattern that the table calls NaN",
)  # fmt: skip
fields_of_anything = edited(
    "round_to", {"value = round_to(x, fmt).double()": "value = round_to(x.double().nan_to_num(0.0, torch.inf, -torch.inf) if fmt[2] == 'none' else x, fmt).double()"},
    loses=("errors",), because="fields are thought to be there for any number", breaks="raises what `round_to` raises",
)  # fmt: skip
raises_another_error = edited(
    "round_to", {"        raise TypeError": "        if x.is_floating_point():\n            raise RuntimeError('too narrow')\n        raise TypeError"},
    loses=("errors",), because="one exception is thought to be as good as another", breaks="raises `TypeError`",
)  # fmt: skip


def fields_from_frexp(x, fmt):
    exponent_bits, mantissa_bits, reserved = fmt
    value = round_to(x, fmt).double()  # noqa: F821
    size, exponent = torch.frexp(value.abs())
    bias = 2 ** (exponent_bits - 1) - 1
    normal = exponent + bias - 1 > 0
    field = torch.where(normal, exponent + bias - 1, 0)
    fraction = torch.where(normal, size * 2 - 1, torch.ldexp(value.abs(), torch.tensor(bias - 1)))
    mantissa = torch.nan_to_num(fraction * 2**mantissa_bits).int()
    field[~value.isfinite()] = 2**exponent_bits - 1
    mantissa[value.isinf()] = 0
    mantissa[value.isnan()] = 2**mantissa_bits - 1
    mantissa[value == 0] = 0
    field[value == 0] = 0
    return torch.signbit(value).to(torch.int32), field.to(torch.int32), mantissa


@also_float_fields(fields_from_frexp)
@alternative("round_to")
def by_adding_and_taking_away(x, fmt):
    """A large number added makes the addition round: to even, as the hardware does."""
    exponent_bits, mantissa_bits, reserved = fmt
    if x.dtype is not torch.float64 and x.dtype is not torch.float32:
        raise TypeError(x.dtype)
    if reserved == "none" and torch.isnan(x).any():
        raise ValueError("NaN")
    bias = (1 << exponent_bits - 1) - 1
    top = bias if reserved == "ieee" else bias + 1
    most = (2 - 2.0**-mantissa_bits * (2 if reserved == "nan" else 1)) * 2.0**top
    size = x.double().abs()
    huge = size >= 4 * most
    safe = torch.where(huge | size.isnan(), torch.ones_like(size), size)
    exponent = torch.frexp(safe)[1].sub(1).clamp(min=1 - bias).double()
    magic = 1.5 * 2.0 ** (exponent + 52 - mantissa_bits)
    rounded = (safe + magic) - magic
    out = torch.where(huge | (rounded > most), torch.full_like(size, torch.inf if reserved == "ieee" else most), rounded)
    out = torch.where(size.isnan(), size, out)
    return torch.copysign(out, x.double()).to(x.dtype)


@also_float_fields(fields_from_frexp)
@alternative("round_to")
def number_by_number(x, fmt):
    """With Python's own numbers."""
    import math

    if str(x.dtype) not in ("torch.float32", "torch.float64"):
        raise TypeError("float32 or float64")
    bits, places, reserved = fmt
    bias = 2 ** (bits - 1) - 1
    largest = math.ldexp(2 ** (places + 1) - 1 - (reserved == "nan"), bias - places + (reserved != "ieee"))

    def one(value):
        if math.isnan(value):
            if reserved == "none":
                raise ValueError("no NaN here")
            return value
        if not math.isinf(value):
            step = math.ldexp(1.0, max(math.frexp(value)[1] - 1, 1 - bias) - places)
            value = math.copysign(round(value / step) * step, value)
        if abs(value) > largest:
            return math.copysign(math.inf if reserved == "ieee" else largest, value)
        return value

    return torch.tensor([one(value) for value in x.flatten().tolist()], dtype=x.dtype).reshape(x.shape)


def fields_by_bits(x, fmt):
    exponent_bits, mantissa_bits, _ = fmt
    bits = round_to(x, fmt).double().contiguous().view(torch.int64)  # noqa: F821
    sign, exponent, mantissa = (bits < 0).int(), (bits >> 52) % 2048 - 1023, bits % 2**52
    bias = 2 ** (exponent_bits - 1) - 1
    down = (1 - bias - exponent).clamp(min=0, max=60)
    tail = torch.where(down > 0, (mantissa + 2**52) >> down, mantissa) >> 52 - mantissa_bits
    field = torch.where(down > 0, 0, exponent + bias)
    field = torch.where(exponent == 1024, 2**exponent_bits - 1, field)
    tail = torch.where((exponent == 1024) & (mantissa > 0), 2**mantissa_bits - 1, tail)
    return sign, field.int(), tail.int()


@also_float_fields(fields_by_bits)
@alternative("round_to")
def on_the_bits_of_float64(x, fmt):
    """Half a step less one and the last bit kept are added to the pattern; then bits are masked."""
    e, m, reserved = fmt
    if x.dtype != torch.float32 and x.dtype != torch.float64:
        raise TypeError("no other")
    if reserved == "none" and (x != x).any():
        raise ValueError("no NaN")
    bias = 2 ** (e - 1) - 1
    bits = x.double().contiguous().view(torch.int64)
    size = bits & (2**63 - 1)
    exponent = (size >> 52) - 1023
    drop = (52 - m + (1 - bias - exponent).clamp(min=0)).clamp(max=54)
    # Below a quarter of the least number nothing is left; the shift could not say it.
    whole = torch.where(exponent > -1023, (size % 2**52) + 2**52, size % 2**52)
    last = (whole >> drop) & 1
    kept = (whole + (1 << drop - 1) - 1 + last) >> drop
    value = torch.ldexp(kept.double(), (exponent - 52 + drop).double())
    most = 2.0 ** (bias + (reserved != "ieee")) * (2 - 2.0**-m * (1 + (reserved == "nan")))
    over = (value > most) | x.double().isinf()
    value = torch.where(over, torch.inf if reserved == "ieee" else most, value)
    value = torch.where(x.double().isnan(), torch.nan, value)
    return torch.where(bits < 0, -value, value).to(x.dtype)


HARMLESS_OF_ROUNDING = [
    equivalent_mutant(
        "round_to",
        "finite = torch.where(value.isfinite(), value, 0).abs()",
        f"finite = torch.where(value.isfinite(), value, {instead}).abs()",
        because="the fields of what is not finite are written over",
    )
    for instead in ("1", "(-1)")
]
OF_ROUNDING = [
    unbreakable(
        "round_to",
        "Every bit pattern may occur: signed zeros, subnormal numbers, infinities, NaN",
        because="it says what x may hold; the items below say what becomes of it",
    ),
    unbreakable("round_to", "(PyTorch's cast to e4m3 does so since 2.12", because="it says what another does"),
    unbreakable("round_to", "with any sign and payload", because="it permits every NaN"),
    unbreakable("round_to", "with either sign", because="it permits every NaN"),
]

# E8.2 dynamic_scaler ------------------------------------------------------------------------

EVERY_POINT_OF_SCALING = ("gradients", "skip", "growth", "backoff", "clip", "waits", "errors")
WITHOUT_GRADIENTS = ("gradients", "skip", "clip", "waits", "errors")
COUNT = "self._clean = self._clean + 1 if all(self._finite.values()) else 0"
DIVIDED = "        torch._foreach_div_(gradients, self._scale)\n"
FOUND = "torch.stack([gradient.isfinite().all() for gradient in gradients]).all()"
HALVED = "max(self._scale / 2, 1.0)"
GROWN = "self._scale, self._clean = min(self._scale * 2, 2.0**24), 0"
ONCE = "        if optimizer in self._finite:\n            raise RuntimeError"
STEPPED = "        if optimizer in self._stepped:\n            raise RuntimeError"
UNSCALES = "        if optimizer not in self._finite:\n            self.unscale_(optimizer)\n"
DECIDES = "self._finite[optimizer] = bool(self._finite[optimizer])"
CLIPS = "torch.nn.utils.clip_grad_norm_(parameters, max_norm)"


grows_when_gradients_are_small = edited(
    "dynamic_scaler",
    {
        "        self._finite[optimizer] = torch.stack": "        self._largest = max(gradient.abs().max() for gradient in gradients)\n"
        "        self._finite[optimizer] = torch.stack",
        "elif self._clean == self._growth_interval:": "elif self._largest < 1e-3:",
    },
    loses=("growth", "waits", "errors"),
    because="small gradients are thought to make the scale grow",
    breaks="The size of the gradients does not matter",
)
grows_only_where_there_is_room = edited(
    "dynamic_scaler",
    {
        "        self._finite[optimizer] = torch.stack": "        self._room = torch.stack([gradient.abs().max() for gradient in gradients]).max() * self._scale < 2.0**13\n"
        "        self._finite[optimizer] = torch.stack",
        "elif self._clean == self._growth_interval:": "elif self._clean == self._growth_interval and self._room:",
    },
    loses=("growth",),
    because="the scale is thought to grow only as far as the gradients leave room",
    breaks="The size of the gradients does not matter",
)
clips_before_it_unscales = edited(
    "dynamic_scaler",
    {UNSCALES: "        if max_norm is not None:\n            torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group['params']], max_norm)\n"
     + UNSCALES, f"            if max_norm is not None:\n                parameters = [p for group in optimizer.param_groups for p in group[\"params\"]]\n                {CLIPS}\n": ""},
    loses=("clip",),
    because="gradients are thought to be clipped as they come",
    breaks="Otherwise it clips the gradients to `max_norm`",
)  # fmt: skip
clips_each_element = edited(
    "dynamic_scaler", {CLIPS: "torch.nn.utils.clip_grad_value_(parameters, max_norm)"}, loses=("clip",),
    because="an element's size is taken for the norm", breaks="as `torch.nn.utils.clip_grad_norm_` does",
)  # fmt: skip
a_norm_of_zero_is_none = edited(
    "dynamic_scaler", {"if max_norm is not None:": "if max_norm:"}, loses=("clip",),
    because="0 is taken for nothing", breaks="if that is given",
)  # fmt: skip
does_not_clip = edited(
    "dynamic_scaler", {CLIPS: "pass"}, loses=("clip",),
    because="to clip is thought to be the caller's business", breaks="Otherwise it clips the gradients to `max_norm`",
)  # fmt: skip
asks_whether_to_clip = edited(
    "dynamic_scaler", {CLIPS: "if torch.nn.utils.get_total_norm([p.grad for p in parameters]) > max_norm:\n                    " + CLIPS},
    loses=("waits",), because="a comparison is not thought to be a wait", breaks="**the host waits at most once for each optimizer**",
)  # fmt: skip
unscales_twice = edited(
    "dynamic_scaler",
    {ONCE + '("these gradients are unscaled already")\n': "", UNSCALES: "        self.unscale_(optimizer)\n"},
    loses=WITHOUT_GRADIENTS, because="step is thought to begin with unscale_, always", breaks="calls `unscale_` unless it has been called",
)  # fmt: skip
does_not_unscale = edited(
    "dynamic_scaler", {DIVIDED: ""}, loses=WITHOUT_GRADIENTS, because="Adam is thought not to mind a scale", breaks="divides the gradients",
)  # fmt: skip
steps_only_what_was_unscaled = edited(
    "dynamic_scaler", {UNSCALES: ""}, loses=EVERY_POINT_OF_SCALING,
    because="the caller is thought to unscale", breaks="calls `unscale_` unless it has been called",
)  # fmt: skip
gradients_in_new_tensors = edited(
    "dynamic_scaler",
    {DIVIDED: "        for group in optimizer.param_groups:\n            for p in group['params']:\n                if p.grad is not None:\n                    p.grad = p.grad / self._scale\n"},
    loses=WITHOUT_GRADIENTS, because="a new tensor is thought to be as good", breaks="by the scale, in place",
)  # fmt: skip
every_parameter_has_a_gradient = edited(
    "dynamic_scaler", {' for p in group["params"] if p.grad is not None]': ' for p in group["params"]]'}, loses=WITHOUT_GRADIENTS,
    because="every parameter is thought to take part", breaks="A gradient may be None",
)  # fmt: skip
first_group_alone = edited(
    "dynamic_scaler", {'for group in optimizer.param_groups for p in group["params"] if p.grad': 'for group in optimizer.param_groups[:1] for p in group["params"] if p.grad'},
    loses=(*WITHOUT_GRADIENTS, "backoff"), because="an optimizer is thought to have one group", breaks="in one group or in several",
)  # fmt: skip
finite_by_squares = edited(
    "dynamic_scaler", {FOUND: "torch.stack([gradient.square().sum().isfinite() for gradient in gradients]).all()"},
    loses=("skip", "growth", "waits"), because="a sum is thought to be finite where its terms are", breaks="It checks whether each element is finite",
)  # fmt: skip
one_state_for_all_scalers = edited(
    "dynamic_scaler",
    {"    def __init__(self, scale, growth_interval):": "    _finite, _stepped = {}, set()\n\n    def __init__(self, scale, growth_interval):",
     "        self._clean, self._finite, self._stepped = 0, {}, set()": "        self._clean = 0"},
    loses=("errors",), because="what stands in the class is thought to be the object's", breaks="that has been stepped since the last update",
)  # fmt: skip
first_gradient_alone = edited(
    "dynamic_scaler", {FOUND: "gradients[0].isfinite().all()"}, loses=("skip", "backoff", "waits"),
    because="one gradient is thought to speak for all", breaks="It checks whether each element is finite",
)  # fmt: skip
nan_is_not_looked_for = edited(
    "dynamic_scaler", {FOUND: "~torch.stack([gradient.isinf().any() for gradient in gradients]).any()"}, loses=("skip", "growth", "backoff", "waits"),
    because="overflow is thought to give inf alone", breaks="If an inf or a NaN was found",
)  # fmt: skip
inf_is_not_looked_for = edited(
    "dynamic_scaler", {FOUND: "~torch.stack([gradient.isnan().any() for gradient in gradients]).any()"}, loses=("skip", "growth", "backoff", "waits"),
    because="what went wrong is thought to be NaN", breaks="If an inf or a NaN was found",
)  # fmt: skip
takes_every_step = edited(
    "dynamic_scaler", {"        if self._finite[optimizer]:\n": "        if True:\n"}, loses=("skip", "waits"),
    because="the smaller scale is thought to be enough", breaks="it skips the step",
)  # fmt: skip
steps_with_zeros = edited(
    "dynamic_scaler",
    {"        if self._finite[optimizer]:\n": "        if not self._finite[optimizer]:\n            for group in optimizer.param_groups:\n                for p in group['params']:\n"
     "                    p.grad.zero_()\n            optimizer.step()\n        else:\n"},
    loses=("skip", "waits"), because="a step with gradients of zeros is thought to change nothing",
    breaks="parameters and optimizer state stay unchanged, bit for bit",
)  # fmt: skip
looks_again_when_it_steps = edited(
    "dynamic_scaler",
    {DECIDES: 'self._finite[optimizer] = bool(torch.stack([p.grad.isfinite().all() for group in optimizer.param_groups for p in group["params"] if p.grad is not None]).all())'},
    loses=("skip", "waits"), because="what the gradients are at the step is thought to decide", breaks="the check in `unscale_` decides",
)  # fmt: skip
step_returns_nothing = edited(
    "dynamic_scaler", {"        return self._finite[optimizer]\n": ""}, loses=("skip", "waits"),
    because="the contract is taken for that of PyTorch's", breaks="Returns whether it took the step, a `bool`",
)  # fmt: skip
one_for_all = edited(
    "dynamic_scaler", {"        if self._finite[optimizer]:\n": "        if all(self._finite.values()):\n",
     "        return self._finite[optimizer]\n": "        return all(map(bool, self._finite.values()))\n"}, loses=("skip", "waits"),
    because="one optimizer's overflow is thought to stop the other", breaks="each is unscaled and stepped separately",
)  # fmt: skip
counter_begins_anew_at_every_step = edited(
    "dynamic_scaler", {COUNT: "self._clean = 1 if all(self._finite.values()) else 0"}, loses=("growth", "errors"),
    because="the counter is thought to belong to a step", breaks="After `growth_interval` updates in a row without that, it is doubled",
)  # fmt: skip
counter_survives_a_skip = edited(
    "dynamic_scaler", {COUNT: "clean = all(self._finite.values())\n        self._clean += clean", "if self._clean == 0:": "if not clean:"}, loses=("growth",),
    because="clean steps are thought to count in all, and not in a row", breaks="updates in a row",
)  # fmt: skip
counter_survives_growth = edited(
    "dynamic_scaler", {GROWN: "self._scale = min(self._scale * 2, 2.0**24)"}, loses=("growth",),
    because="the scale is thought to double once", breaks="Either way the count restarts at 0",
)  # fmt: skip
grows_ever_after = edited(
    "dynamic_scaler", {GROWN: "self._scale = min(self._scale * 2, 2.0**24)", "self._clean == self._growth_interval": "self._clean >= self._growth_interval"}, loses=("growth", "errors"),
    because="a scale that may grow is thought to go on growing", breaks="Either way the count restarts at 0",
)  # fmt: skip
grows_one_step_late = edited(
    "dynamic_scaler", {"self._clean == self._growth_interval": "self._clean > self._growth_interval"}, loses=("growth", "errors"),
    because="after so many steps is taken for at the next", breaks="After `growth_interval` updates in a row",
)  # fmt: skip
grows_without_end = edited(
    "dynamic_scaler", {"min(self._scale * 2, 2.0**24)": "self._scale * 2"}, loses=("growth",),
    because="overflow is thought to stop it", breaks="to no more than `2.0**24`",
)  # fmt: skip
falls_without_end = edited(
    "dynamic_scaler", {HALVED: "self._scale / 2"}, loses=("backoff",), because="it is thought to come back by itself", breaks="to no less than 1",
)  # fmt: skip
falls_faster = edited(
    "dynamic_scaler", {HALVED: "max(self._scale / 4, 1.0)"}, loses=("backoff", "growth"), because="overflow is thought to need more room", breaks="the scale is halved",
)  # fmt: skip
grows_faster = edited(
    "dynamic_scaler", {"self._scale * 2,": "self._scale * 4,"}, loses=("growth", "errors"), because="the scale is thought to need more", breaks="it is doubled",
)  # fmt: skip
never_falls = edited(
    "dynamic_scaler", {HALVED: "self._scale"}, loses=("backoff", "growth"), because="to skip the step is thought to be enough", breaks="the scale is halved",
)  # fmt: skip
halves_for_each_optimizer = edited(
    "dynamic_scaler", {HALVED: "max(self._scale / 2 ** sum(not found for found in self._finite.values()), 1.0)"}, loses=("backoff", "waits"),
    because="every optimizer is thought to have a scale of its own", breaks="the scale is halved, once",
)  # fmt: skip
only_steps_count = edited(
    "dynamic_scaler", {COUNT: "self._clean = self._clean + 1 if all(self._finite[one] for one in self._stepped) else 0"}, loses=("backoff",),
    because="only what was stepped is thought to count", breaks="stepped or not",
)  # fmt: skip
asks_of_every_gradient = edited(
    "dynamic_scaler", {FOUND: "all([bool(gradient.isfinite().all()) for gradient in gradients])"}, loses=("waits",),
    because="a small question is thought to be cheap", breaks="however many parameters there are",
)  # fmt: skip
asks_again_at_the_update = edited(
    "dynamic_scaler", {DECIDES: "found = bool(self._finite[optimizer])", "        if self._finite[optimizer]:\n": "        if found:\n",
     "        return self._finite[optimizer]\n": "        return found\n"}, loses=("waits",),
    because="what was asked once is thought to be known", breaks="from `scale` to `update`",
)  # fmt: skip
multiplies_in_the_loss_own_dtype = edited(
    "dynamic_scaler", {"loss.float() * self._scale": "loss * self._scale"}, loses=WITHOUT_GRADIENTS,
    because="a scalar is thought to promote", breaks="`loss` is a tensor of no dimensions, float32, float16 or bfloat16",
)  # fmt: skip
scales_a_number = edited(
    "dynamic_scaler", {"loss.float() * self._scale": "loss.detach().float() * self._scale"}, loses=WITHOUT_GRADIENTS + ("growth", "backoff"),
    because="the loss is thought to be a number", breaks="in float32 and attached to the autograd graph",
)  # fmt: skip
scales_once_a_step = edited(
    "dynamic_scaler", {"        return loss.float() * self._scale\n": "        factor, self._fresh = (self._scale if getattr(self, '_fresh', True) else 1.0), False\n        return loss.float() * factor\n",
     "self._stepped.clear()": "self._stepped.clear()\n        self._fresh = True"},
    loses=WITHOUT_GRADIENTS, because="a second loss is thought to be scaled by the first", breaks="It may be called more than once before a step",
)  # fmt: skip
scale_as_a_tensor = edited(
    "dynamic_scaler", {"        return self._scale\n": "        return torch.tensor(self._scale)\n"}, loses=("growth", "backoff", "errors"),
    because="a tensor of no dimensions is taken for a number", breaks="the scale, a Python `float`",
)  # fmt: skip
begins_at_a_power_of_two = edited(
    "dynamic_scaler", {"float(scale), growth_interval": "2.0 ** round(torch.tensor(scale).log2().item()), growth_interval"}, loses=EVERY_POINT_OF_SCALING,
    because="a scale is thought to be a power of two", breaks="Its scale is `init_scale` at first",
)  # fmt: skip
grows_by_default_after_1000 = edited(
    "dynamic_scaler", {"growth_interval=2000": "growth_interval=1000"}, loses=("growth",),
    because="the interval is remembered wrongly", breaks="After `growth_interval` updates in a row without that, it is doubled",
)  # fmt: skip
ends_nothing = edited(
    "dynamic_scaler", {"        self._stepped.clear()": "        pass"}, loses=EVERY_POINT_OF_SCALING,
    because="an update is thought to be about the scale alone", breaks="ends the step",
)  # fmt: skip
not_the_ends = edited(
    "dynamic_scaler", {"not 1 <= init_scale <= 2**24": "not 1 < init_scale < 2**24"}, loses=("errors",),
    because="from one to another is thought to leave both out", breaks="unless `init_scale` is from 1 to `2.0**24`",
)  # fmt: skip
takes_any_scale = edited(
    "dynamic_scaler", {"    if not 1 <= init_scale <= 2**24 or growth_interval < 1:": "    if growth_interval < 1:"}, loses=("errors",),
    because="whatever is given is thought to be meant", breaks="raises `ValueError` unless `init_scale` is from 1",
)  # fmt: skip
nan_passes_for_a_scale = edited(
    "dynamic_scaler", {"not 1 <= init_scale <= 2**24": "init_scale < 1 or init_scale > 2**24"}, loses=("errors",),
    because="NaN is thought to be less or more", breaks="unless `init_scale` is from 1 to `2.0**24`",
)  # fmt: skip
takes_any_interval = edited(
    "dynamic_scaler", {" or growth_interval < 1:": ":"}, loses=("errors",),
    because="whatever is given is thought to be meant", breaks="`growth_interval` 1 or more",
)  # fmt: skip
unscaled_twice_is_once = edited(
    "dynamic_scaler", {ONCE + '("these gradients are unscaled already")\n': "        if optimizer in self._finite:\n            return\n"}, loses=("errors",),
    because="a second call is thought to do no harm", breaks="when `unscale_` is called for one that has been unscaled",
)  # fmt: skip
divides_and_then_refuses = edited(
    "dynamic_scaler",
    {ONCE + '("these gradients are unscaled already")\n': "", DIVIDED: DIVIDED + "        if optimizer in self._finite:\n            raise RuntimeError('unscaled')\n"},
    loses=("errors",), because="an error is thought to undo what came before it", breaks="raises `RuntimeError`, and changes nothing",
)  # fmt: skip
steps_twice = edited(
    "dynamic_scaler", {STEPPED + '("this optimizer has been stepped: update comes first")\n': ""}, loses=("errors",),
    because="the caller is thought to know what he does", breaks="when `unscale_` or `step` is called for an optimizer that has been stepped since the last update",
)  # fmt: skip
updates_of_nothing = edited(
    "dynamic_scaler", {'        if not self._finite:\n            raise RuntimeError("no optimizer has been unscaled since the last update")\n': ""}, loses=("errors",),
    because="where nothing was found all is thought to be well", breaks="when `update` is called although none has been unscaled",
)  # fmt: skip
updates_of_nothing_are_passed_over = edited(
    "dynamic_scaler", {'            raise RuntimeError("no optimizer has been unscaled since the last update")\n': "            return\n"}, loses=("errors",),
    because="where nothing was found there is thought to be nothing to say", breaks="when `update` is called although none has been unscaled",
)  # fmt: skip


@mistake(
    "dynamic_scaler",
    loses=EVERY_POINT_OF_SCALING,
    because="PyTorch's scaler is thought to be the answer, with its limits added",
    breaks="five methods below",
)
def around_pytorchs_own(init_scale=65536.0, growth_interval=2000):
    if not 1 <= init_scale <= 2**24 or growth_interval < 1:
        raise ValueError

    class Around:
        def __init__(self):
            self.own = {name: torch.amp.GradScaler(name, init_scale, growth_interval=growth_interval) for name in ("cpu", "cuda")}
            self.on, self.taken = "cpu", 0

        def scale(self, loss):
            self.on = loss.device.type
            return self.own[self.on].scale(loss.float())

        def unscale_(self, optimizer):
            self.own[self.on].unscale_(optimizer)

        def step(self, optimizer, max_norm=None):
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            if max_norm is not None:
                self.own[self.on].unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(parameters, max_norm)
            before = [p.detach().clone() for p in parameters]
            self.own[self.on].step(optimizer)
            return not all(map(torch.equal, before, parameters))

        def update(self):
            self.own[self.on].update()
            if not 1 <= self.get_scale() <= 2**24:
                self.own[self.on].update(min(max(self.get_scale(), 1.0), 2.0**24))

        def get_scale(self):
            return self.own[self.on].get_scale()

    return Around()


@alternative("dynamic_scaler")
def by_a_norm_and_closures(init_scale=65536.0, growth_interval=2000):
    """No class: five functions that share what they know. The largest element is finite where all are."""
    from types import SimpleNamespace

    if growth_interval < 1 or not (init_scale >= 1 and init_scale <= 16777216):
        raise ValueError((init_scale, growth_interval))
    now = {"scale": float(init_scale), "row": 0}
    norms, stepped = {}, {}

    def with_gradients(optimizer):
        return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]

    def unscale_(optimizer):
        if id(optimizer) in norms:
            raise RuntimeError("twice")
        with torch.no_grad():
            for p in with_gradients(optimizer):
                p.grad.mul_(1 / now["scale"])
        norms[id(optimizer)] = torch.nn.utils.get_total_norm([p.grad for p in with_gradients(optimizer)], torch.inf)

    def step(optimizer, max_norm=None):
        if id(optimizer) in stepped:
            raise RuntimeError("twice")
        if id(optimizer) not in norms:
            unscale_(optimizer)
        norm = norms[id(optimizer)] = norms[id(optimizer)].item()
        stepped[id(optimizer)] = norm - norm == 0.0
        if not stepped[id(optimizer)]:
            return False
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(with_gradients(optimizer), max_norm)
        optimizer.step()
        return True

    def update():
        if not norms:
            raise RuntimeError("nothing to go by")
        bad = [norm != norm or norm == float("inf") for norm in map(float, norms.values())]
        now["row"] = 0 if any(bad) else now["row"] + 1
        if any(bad):
            now["scale"] = max(1.0, now["scale"] * 0.5)
        if now["row"] == growth_interval:
            now.update(scale=min(2.0 * now["scale"], 16777216.0), row=0)
        norms.clear()
        stepped.clear()

    methods = {"scale": lambda loss: torch.mul(loss.to(torch.float32), now["scale"]), "get_scale": lambda: now["scale"]}
    return SimpleNamespace(unscale_=unscale_, step=step, update=update, **methods)


@alternative("dynamic_scaler")
def with_the_scale_on_the_device(init_scale=65536.0, growth_interval=2000):
    """As PyTorch does it: scale and counter are tensors, which the host reads when it is asked for them."""
    if not (1 <= init_scale <= 2**24) or growth_interval <= 0:
        raise ValueError("no such scaler")

    class OnDevice:
        factor = counter = None
        stage: dict = {}

        def __init__(self):
            self.stage, self.bad = {}, {}

        def _known(self, device):
            if self.factor is None:
                self.factor = torch.full((), init_scale, dtype=torch.float32, device=device)
                self.counter = torch.zeros((), dtype=torch.int64, device=device)

        def get_scale(self):
            return float(init_scale) if self.factor is None else self.factor.item()

        def scale(self, loss):
            self._known(loss.device)
            return loss.to(torch.float32) * self.factor

        def unscale_(self, optimizer):
            if self.stage.get(optimizer) is not None:
                raise RuntimeError(f"already {self.stage[optimizer]}")
            bad = None
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._known(p.device)
                        p.grad.div_(self.factor)
                        here = (~torch.isfinite(p.grad)).any()
                        bad = here if bad is None else bad | here
            self.stage[optimizer], self.bad[optimizer] = "unscaled", bad

        def step(self, optimizer, max_norm=None):
            if self.stage.get(optimizer) == "stepped":
                raise RuntimeError("already stepped")
            if optimizer not in self.stage:
                self.unscale_(optimizer)
            self.stage[optimizer] = "stepped"
            if self.bad[optimizer].item():
                return False
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
            optimizer.step()
            return True

        def update(self):
            if not self.stage:
                raise RuntimeError("update before unscale_")
            bad = torch.stack(list(self.bad.values())).any()
            self.counter = torch.where(bad, 0, self.counter + 1)
            grow = self.counter == growth_interval
            self.factor = torch.where(bad, (self.factor / 2).clamp(min=1.0), torch.where(grow, (self.factor * 2).clamp(max=2.0**24), self.factor))
            self.counter = torch.where(grow, 0, self.counter)
            self.stage, self.bad = {}, {}

    return OnDevice()


OF_SCALING = [
    unbreakable("dynamic_scaler", "at least one is not", because="it says what it is called with"),
    unbreakable("dynamic_scaler", "returns an object with", because="no method can be left out: what is judged calls each"),
    unbreakable("dynamic_scaler", "for example by clipping them", because="it is an example"),
]

# E8.3 amp_step ------------------------------------------------------------------------------

IN_FLOAT16 = ("dtypes", "scaler", "clipping", "host")
ALL_OF_AMP_STEP = ("dtypes", "updates", "scaler", "clipping", "host", "errors")

THE_DEFAULT = equivalent_mutant(
    "amp_step",
    "model.zero_grad(set_to_none=True)",
    "model.zero_grad()",
    because="gradients are set to None where nothing is said",
)

trusts_autocast_with_the_loss = edited(
    "amp_step",
    {"model(x).float()": "model(x)"},
    loses=("dtypes",),
    because="cross_entropy is thought to run in float32 because log_softmax is on autocast's list",
    breaks="the table above shows which operation of the loss it leaves in 16 bits",
)

loss_outside_of_autocast = edited(
    "amp_step",
    {"        loss = cross_entropy(model(x).float(), y)\n": "        logits = model(x)\n    loss = cross_entropy(logits, y)\n"},
    loses=("dtypes",),
    because="autocast is thought to be for the model alone",
    breaks="and all of the loss in float32",
)

converts_the_model = edited(
    "amp_step",
    {"    with torch.autocast(\"cuda\", dtype=dtype):\n        loss = cross_entropy(model(x).float(), y)\n":
     "    loss = cross_entropy(model.to(dtype)(x.to(dtype)).float(), y)\n"},
    loses=("dtypes", "updates", "scaler", "clipping", "host", "errors"),
    because="mixed precision is taken for a model in 16 bits",
    breaks="Afterwards the parameters are float32",
)

casts_the_batch = edited(
    "amp_step",
    {"model(x).float()": "model(x.to(dtype)).float()"},
    loses=ALL_OF_AMP_STEP,
    because="autocast is thought to need its input in 16 bits",
    breaks="The model is called with `x` itself, in float32, once: it has to distinguish values that are equal in 16 bits",
)

backward_inside_autocast = edited(
    "amp_step",
    {"    if dtype == torch.bfloat16:\n        loss.backward()": "        if dtype == torch.bfloat16:\n            loss.backward()\n    if dtype == torch.bfloat16:",
     "        scaler.scale(loss).backward()\n": "        with torch.autocast(\"cuda\", dtype=dtype):\n            scaler.scale(loss).backward()\n"},
    loses=("dtypes",),
    because="the whole step is put under autocast",
    breaks="the backward pass runs outside of autocast",
)

leaves_autocast_on = edited(
    "amp_step",
    {"    with torch.autocast(\"cuda\", dtype=dtype):\n        loss": "    torch.set_autocast_dtype(\"cuda\", dtype)\n    torch.set_autocast_enabled(\"cuda\", True)\n    loss"},
    loses=("dtypes", "updates", "scaler", "host", "errors"),
    because="a switch is thought to turn itself off: what autocast keeps of the weights is then old in the next step",
    breaks="no autocast region is open afterwards",
)

always_bfloat16 = edited(
    "amp_step",
    {"torch.autocast(\"cuda\", dtype=dtype)": "torch.autocast(\"cuda\", dtype=torch.bfloat16)"},
    loses=("dtypes", "scaler"),
    because="one 16-bit format is thought to be as good as the other",
    breaks="Matrix products run in `dtype`",
)

autocast_chooses_float16 = edited(
    "amp_step",
    {"torch.autocast(\"cuda\", dtype=dtype)": "torch.autocast(\"cuda\")"},
    loses=("dtypes",),
    because="autocast is thought to know which 16-bit format is wanted: on a GPU it takes float16",
    breaks="Matrix products run in `dtype`",
)

in_full_precision = edited(
    "amp_step",
    {"torch.autocast(\"cuda\", dtype=dtype)": "torch.autocast(\"cuda\", dtype=dtype, enabled=False)"},
    loses=("dtypes", "scaler"),
    because="float32 is thought to be a safe answer",
    breaks="Matrix products run in `dtype`",
)

scales_bfloat16_too = edited(
    "amp_step",
    {"    if dtype == torch.bfloat16:\n": "    if scaler is None:\n"},
    loses=("scaler", "host"),
    because="mixed precision is thought to need a scaler always",
    breaks="with bfloat16 no method of `scaler` is called",
)

asks_the_scaler_first = edited(
    "amp_step",
    {"    if dtype == torch.bfloat16:\n": "    if scaler is None or not scaler.is_enabled() or dtype == torch.bfloat16:\n"},
    loses=("scaler",),
    because="a scaler that is there is thought to be asked",
    breaks="even if one is passed",
)

float16_without_the_scaler = edited(
    "amp_step",
    {"    if dtype == torch.bfloat16:\n": "    if True:\n"},
    loses=("scaler", "clipping"),
    because="autocast is thought to keep gradients from underflow",
    breaks="scales the loss, unscales the gradients",
)

never_updates_the_scaler = edited(
    "amp_step",
    {"        scaler.update()\n": ""},
    loses=("scaler", "clipping", "host"),
    because="the scale is thought to adapt itself",
    breaks="and adapts its scale",
)

updates_twice = edited(
    "amp_step",
    {"        scaler.step(optimizer)\n        scaler.update()\n": "        scaler.step(optimizer)\n        scaler.update()\n        scaler.update(scaler._scale)\n"},
    loses=("scaler",),
    because="an update more is thought to do no harm",
    breaks="once each in a call",
)

steps_past_the_scaler = edited(
    "amp_step",
    {"scaler.step(optimizer)": "optimizer.step()"},
    loses=("scaler", "clipping"),
    because="the scaler is thought to be for the loss alone",
    breaks="takes the step or skips it",
)

unscales_twice = edited(
    "amp_step",
    {"        scaler.unscale_(optimizer)\n": "        scaler.unscale_(optimizer)\n        scaler.unscale_(optimizer)\n"},
    loses=IN_FLOAT16,
    because="unscaling is thought to be harmless a second time",
    breaks="once each in a call",
)

divides_by_the_scale_again = edited(
    "amp_step",
    {"        scaler.unscale_(optimizer)\n": "        scaler.unscale_(optimizer)\n        for parameter in model.parameters():\n"
     "            if parameter.grad is not None:\n                parameter.grad /= scaler._scale\n"},
    loses=("scaler", "clipping"),
    because="unscale_ is thought to announce what the step has to do",
    breaks="is this step's gradient: float32, unscaled, clipped",
)

clips_before_it_unscales = edited(
    "amp_step",
    {"        scaler.unscale_(optimizer)\n        clip(model, max_norm)\n": "        clip(model, max_norm)\n        scaler.unscale_(optimizer)\n"},
    loses=("clipping",),
    because="the gradients that backward leaves are thought to be those of the loss",
    breaks="the maximum norm of the unscaled gradients, all together",
)

clips_and_forgets_to_unscale = edited(
    "amp_step",
    {"        scaler.unscale_(optimizer)\n": ""},
    loses=("clipping",),
    because="the scaler is thought to have unscaled before its step",
    breaks="the maximum norm of the unscaled gradients, all together",
)

clips_each_parameter = edited(
    "amp_step",
    {"        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)": "        for parameter in model.parameters():\n"
     "            torch.nn.utils.clip_grad_norm_(parameter, max_norm)"},
    loses=("clipping",),
    because="each gradient is thought to have a norm of its own to keep",
    breaks="all together",
)

clips_values = edited(
    "amp_step",
    {"clip_grad_norm_(": "clip_grad_value_("},
    loses=("clipping",),
    because="the norm is taken for the largest value",
    breaks="they are scaled down to it, as `clip_grad_norm_` does",
)

always_of_that_norm = edited(
    "amp_step",
    {"        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)": "        gradients = [p.grad for p in model.parameters() if p.grad is not None]\n"
     "        norm = torch.nn.utils.get_total_norm(gradients)\n        torch._foreach_mul_(gradients, max_norm / norm)"},
    loses=("clipping",),
    because="clipping is taken for normalising",
    breaks="if their norm is greater",
)

never_clips = edited(
    "amp_step",
    {"    if max_norm is not None:": "    if False:"},
    loses=("clipping",),
    because="a scaler is thought to keep gradients small",
    breaks="`None`, or the maximum norm",
)

adds_to_old_gradients = edited(
    "amp_step",
    {"    model.zero_grad(set_to_none=True)\n": ""},
    loses=("updates", "scaler", "clipping", "host", "errors"),
    because="backward is thought to begin anew",
    breaks="not accumulated into",
)

drops_those_of_the_optimizer = edited(
    "amp_step",
    {"    model.zero_grad(set_to_none=True)\n": "    optimizer.zero_grad(set_to_none=True)\n"},
    loses=("updates", "scaler", "clipping", "host", "errors"),
    because="what the optimizer does not update is thought to have no gradient",
    breaks="including parameters that no longer require gradients",
)

fills_with_zeros = edited(
    "amp_step",
    {"set_to_none=True": "set_to_none=False"},
    loses=("updates", "scaler", "clipping", "host", "errors"),
    because="a gradient of zeros is thought to be no gradient",
    breaks="and not filled with zeros, since the caller may still hold them",
)

drops_them_afterwards = edited(
    "amp_step",
    {"    model.zero_grad(set_to_none=True)\n": "", "    return loss.detach()": "    optimizer.zero_grad()\n    return loss.detach()"},
    loses=("updates", "scaler", "clipping", "host", "errors"),
    because="gradients are thought to be done with after the step",
    breaks="parameters may hold gradients from an earlier step",
)

returns_a_number = edited(
    "amp_step",
    {"return loss.detach()": "return loss.item()"},
    loses=("dtypes", "updates", "scaler", "clipping", "host", "errors"),
    because="a loss is thought to be a number",
    breaks="a float32 tensor of no dimensions on the device, detached",
)

prints_the_loss = edited(
    "amp_step",
    {"    return loss.detach()": "    if not loss.item() < 1e9:\n        print(\"diverged\")\n    return loss.detach()"},
    loses=("host",),
    because="a look at the loss is thought to be free",
    breaks="**the host waits for nothing**",
)

reads_the_scale = edited(
    "amp_step",
    {"        scaler.update()\n": "        scaler.update()\n        scaler.get_scale()\n"},
    loses=("host",),
    because="the scale is thought to be on the host",
    breaks="except the wait inside `scaler.step`",
)

keeps_the_graph = edited(
    "amp_step",
    {"return loss.detach()": "return loss"},
    loses=("host",),
    because="a loss that is returned is thought to be a value",
    breaks="a float32 tensor of no dimensions on the device, detached",
)

returns_the_scaled_loss = edited(
    "amp_step",
    {"        scaler.scale(loss).backward()\n": "        loss = scaler.scale(loss)\n        loss.backward()\n"},
    loses=("scaler", "clipping"),
    because="the scaled loss takes the loss's name",
    breaks="returns this step's loss, not scaled",
)

the_deprecated_autocast = edited(
    "amp_step",
    {"torch.autocast(\"cuda\", dtype=dtype)": "torch.cuda.amp.autocast(dtype=dtype)"},
    loses=("host",),
    because="the older name is copied",
    breaks="no deprecated function is called",
)

takes_float32 = edited(
    "amp_step",
    {"    if dtype not in (torch.bfloat16, torch.float16):": "    if dtype not in (torch.bfloat16, torch.float16, torch.float32):"},
    loses=("errors",),
    because="autocast is thought to take any dtype: it warns and does nothing",
    breaks="for any other `dtype`",
)

takes_float16_without_a_scaler = edited(
    "amp_step",
    {"    if dtype == torch.float16 and scaler is None:": "    if False:", "    if dtype == torch.bfloat16:\n": "    if scaler is None or dtype == torch.bfloat16:\n"},
    loses=("errors",),
    because="float16 is thought to work without a scaler",
    breaks="and for float16 without a scaler",
)

refuses_too_late = edited(
    "amp_step",
    {"    if dtype not in": "    optimizer.zero_grad()\n    if dtype not in"},
    loses=("errors",),
    because="a refused call is thought to be free to tidy up",
    breaks="before anything has run or changed",
)

OF_AMP_STEP = [
    unbreakable("amp_step", "Some of its parameters may not require gradients, all others take part in the loss", because="it says what the model is"),
    unbreakable("amp_step", "`model(x)` gives logits of shape `(n, classes)`", because="it says what the model is"),
    unbreakable("amp_step", "a module on the device, its parameters float32", because="it says what the model is"),
    unbreakable("amp_step", "over the parameters that require gradients, in one group or in several; not fused", because="it says what the optimizer is"),
    unbreakable("amp_step", "a pair `(x, y)` on the device, `x` in float32, `y` the classes", because="it says what the batch is"),
    unbreakable("amp_step", "The loss is the `cross_entropy` of the logits", because="it names the loss"),
    unbreakable("amp_step", "`dtype`: `torch.bfloat16` or `torch.float16`.", because="it says what is handed in"),
    unbreakable("amp_step", "Autocast takes care of all but one of these", because="it says where to look"),
]


@alternative("amp_step")
def loss_in_float32_outside(model, optimizer, batch, dtype, scaler=None, max_norm=None):
    needs_scaler = {torch.float16: True, torch.bfloat16: False}
    if dtype not in needs_scaler or (needs_scaler[dtype] and scaler is None):
        raise ValueError(dtype)
    with torch.autocast(device_type="cuda", dtype=dtype, cache_enabled=False):
        logits = model(batch[0])
    loss = torch.nn.functional.nll_loss(logits.float().log_softmax(-1), batch[1])
    model.zero_grad()
    if not needs_scaler[dtype]:
        loss.backward()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
        optimizer.step()
        return loss.detach()
    scaler.scale(loss).backward()
    if max_norm is not None:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=True)
    scaler.step(optimizer)
    scaler.update()
    return loss.data


@alternative("amp_step")
def gradients_asked_for(model, optimizer, batch, dtype, scaler=None, max_norm=None):
    if str(dtype) not in ("torch.bfloat16", "torch.float16") or (dtype.itemsize, dtype == torch.bfloat16, scaler) == (2, False, None):
        raise ValueError("no such mixed precision")
    x, y = batch
    trained = [p for p in model.parameters() if p.requires_grad]
    for parameter in model.parameters():
        parameter.grad = None
    region = torch.autocast("cuda", dtype)
    with region:
        logits = model(x)
        loss = -logits.log_softmax(dim=1).gather(1, y[:, None]).mean()
    scaled = loss if dtype is torch.bfloat16 else scaler.scale(loss)
    for parameter, gradient in zip(trained, torch.autograd.grad(scaled, trained)):
        parameter.grad = gradient
    if dtype is not torch.bfloat16:
        scaler.unscale_(optimizer)
    if max_norm is not None:
        total = torch.stack([p.grad.pow(2).sum() for p in trained]).sum().sqrt()
        share = (max_norm / total).clamp(max=1)
        for parameter in trained:
            parameter.grad.mul_(share)
    if dtype is torch.bfloat16:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
    return loss.detach()


# E8.4 training_drift ------------------------------------------------------------------------

DRIFTED = ("drift", "memory", "caller", "host", "errors")
APPLIED = "            master += update\n            weight.copy_(master)\n"

adds_in_bfloat16 = edited(
    "training_drift",
    {APPLIED: "            weight += update\n"},
    loses=DRIFTED,
    because="a small update is thought to count for a little",
    breaks="is less than one spacing of bfloat16 (one ulp) away from the exact sum so far",
)

computes_in_float32_and_stores_in_bfloat16 = edited(
    "training_drift",
    {APPLIED: "            master = weight.float()\n            master += update\n            weight.copy_(master)\n"},
    loses=DRIFTED,
    because="computing in float32 is thought to be enough, where each result is rounded",
    breaks="away from the exact sum so far",
)

rounds_its_master_copy = edited(
    "training_drift",
    {APPLIED: APPLIED + "            master.copy_(weight)\n"},
    loses=DRIFTED,
    because="the copy is thought to have to agree with the weight",
    breaks="away from the exact sum so far",
)

larger_updates = edited(
    "training_drift",
    {"master += update": "master += 8 * update"},
    loses=DRIFTED,
    because="a larger learning rate is thought to be the answer to updates that vanish",
    breaks="to be added to it one after another",
)

rounds_at_random = edited(
    "training_drift",
    {APPLIED: "            exact = weight.float() + update\n            bits = exact.contiguous().view(torch.int32)\n"
     "            bits += torch.randint_like(bits, 1 << 16)\n            weight.copy_((bits & -65536).view(torch.float32))\n"},
    loses=DRIFTED,
    because="what is right on average is taken for right",
    breaks="Stochastic rounding, up or down at random, is right on average only",
)

writes_at_the_end = edited(
    "training_drift",
    {"            weight.copy_(master)\n": "", "    return swallowed": "        weight.copy_(master)\n    return swallowed"},
    loses=DRIFTED,
    because="nobody is thought to look at the weight in between",
    breaks="whenever you ask for the next update, and at the end",
)

writes_one_update_late = edited(
    "training_drift",
    {APPLIED: "            weight.copy_(master)\n            master += update\n", "    return swallowed": "        weight.copy_(master)\n    return swallowed"},
    loses=DRIFTED,
    because="a step behind is thought to be soon enough",
    breaks="whenever you ask for the next update, and at the end",
)

collects_the_updates = edited(
    "training_drift",
    {"for update in updates:": "for update in list(updates):"},
    loses=("drift", "swallowed", "memory", "caller", "host", "errors"),
    because="an iterator is thought to be a list",
    breaks="All of them share one buffer, as an optimizer's do: an update is valid until you ask for the next one",
)

in_float64 = edited(
    "training_drift",
    {"start.float(), ": "start.double(), "},
    loses=("memory",),
    because="more digits are thought to cost nothing",
    breaks="but not for a float64 copy",
)

stacks_copies = edited(
    "training_drift",
    {"    with torch.no_grad():\n": "    seen = []\n    with torch.no_grad():\n", "            master += update\n": "            master += update\n            seen.append(update.clone())\n"},
    loses=("memory",),
    because="what may be wanted later is kept",
    breaks="**13 bytes of new memory are held for each element**",
)

works_on_many_copies = edited(
    "training_drift",
    {"            still &= (start + update).bfloat16() == start\n": "            nine = (start + update).expand(9, *start.shape).clone()\n"
     "            still &= nine[0].bfloat16() == start\n            del nine\n"},
    loses=("memory",),
    because="what is let go of is thought never to have been there",
    breaks="and never more than 32 at once",
)

another_tensor_for_the_weight = edited(
    "training_drift",
    {"weight.copy_(master)": "weight.data = master.bfloat16()"},
    loses=("drift", "swallowed", "memory", "caller", "host", "errors"),
    because="the name is taken for the memory",
    breaks="`weight` is changed in place",
)

a_float32_weight = edited(
    "training_drift",
    {"    return swallowed": "    weight.data = master\n    return swallowed"},
    loses=("drift", "swallowed", "caller", "host", "errors"),
    because="the finer copy is handed back in the weight's place",
    breaks="`weight` is changed in place",
)

writes_to_the_update = edited(
    "training_drift",
    {"            swallowed += still\n": "            swallowed += still\n            update.zero_()\n"},
    loses=("caller",),
    because="an update that was applied is thought to be done with",
    breaks="you must not write to it",
)

counts_from_the_weight_as_it_is = edited(
    "training_drift",
    {"still &= (start + update).bfloat16() == start": "still &= (weight + update).bfloat16() == weight"},
    loses=("swallowed",),
    because="the weight that loses nothing is asked what one that loses would do",
    breaks="leave it at its initial value",
)

counts_all_that_are_small = edited(
    "training_drift",
    {"still &= (start": "still = (start"},
    loses=("swallowed",),
    because="every small update is counted, also after the weight has moved",
    breaks="The first update that moves it ends the count",
)

half_a_spacing_by_formula = edited(
    "training_drift",
    {"still &= (start + update).bfloat16() == start": "still &= update.abs() < torch.ldexp(torch.ones_like(start).float(), torch.frexp(start.float()).exponent - 9)"},
    loses=("swallowed",),
    because="a tie is thought to move the weight, and the spacing to be one on both sides of a power of two",
    breaks="as `weight + update`, and the sum is rounded to bfloat16",
)

rounds_the_update_first = edited(
    "training_drift",
    {"(start + update).bfloat16()": "(start + update.bfloat16())"},
    loses=("swallowed",),
    because="an update is thought to be in bfloat16 before it is added: a little more than half a spacing is then a tie",
    breaks="as `weight + update`, and the sum is rounded to bfloat16",
)

keeps_what_it_computed_with = edited(
    "training_drift",
    {APPLIED: "            exact = master + update\n            taken = exact - master\n            master += taken\n            weight.copy_(exact)\n"},
    loses=("memory",),
    because="a variable of the loop is thought to be gone where its use ends",
    breaks="including what a variable still refers to",
)

counts_in_int64 = edited(
    "training_drift",
    {"dtype=torch.int32": "dtype=torch.int64"},
    loses=("swallowed", "memory"),
    because="integers are thought to be of 64 bits",
    breaks="returns an int32 tensor",
)

stops_when_all_have_moved = edited(
    "training_drift",
    {"            swallowed += still\n": "            swallowed += still\n            if not still.any():\n                still.zero_()\n"},
    loses=("host",),
    because="an `if` over a tensor is thought to be free",
    breaks="**the host waits for nothing**",
)

builds_a_graph = edited(
    "training_drift",
    {"    with torch.no_grad():\n": "    if True:\n"},
    loses=("drift", "swallowed", "caller", "host", "errors"),
    because="a weight is thought to be any tensor",
    breaks="it may require gradients, and no graph is built",
)

lays_it_out_flat = edited(
    "training_drift",
    {"weight.copy_(master)": "weight.view(-1).copy_(master.reshape(-1))"},
    loses=("drift", "swallowed", "memory", "caller", "host", "errors"),
    because="a weight is thought to lie in one piece",
    breaks="of any shape and any strides",
)

writes_beside_it = edited(
    "training_drift",
    {"            weight.copy_(master)\n": "            weight.copy_(master)\n            flat = torch.empty(0, dtype=weight.dtype, device=weight.device).set_(weight.untyped_storage())\n"
     "            if flat.numel() > weight.numel():\n                flat[:1].zero_()\n                weight.copy_(master)\n"},
    loses=("caller",),
    because="the storage is taken for the weight",
    breaks="whose other elements keep their values",
)

keeps_its_master_copy_by_address = edited(
    "training_drift",
    {"def training_drift(weight, updates):": "def training_drift(weight, updates, masters={}):",
     "    with torch.no_grad():\n": "    master = masters.setdefault((weight.data_ptr(), weight.shape), master)\n    with torch.no_grad():\n"},
    loses=("drift", "caller", "host", "errors"),
    because="one address is thought to hold one weight for good",
    breaks="away from the exact sum so far",
)

takes_any_dtype = edited(
    "training_drift",
    {"    if weight.dtype != torch.bfloat16:\n": "    if False:\n"},
    loses=("errors",),
    because="a finer weight is thought to need the same",
    breaks="if `weight` is not bfloat16",
)

broadcasts = edited(
    "training_drift",
    {"            if update.shape != weight.shape:\n": "            if update.numel() > weight.numel():\n"},
    loses=("errors",),
    because="what broadcasts is thought to fit",
    breaks="if an update has another shape than `weight`",
)

takes_it_back = edited(
    "training_drift",
    {"                raise ValueError(f\"an update": "                weight.copy_(start)\n                raise ValueError(f\"an update"},
    loses=("errors",),
    because="an error is thought to undo what came before it",
    breaks="and with all updates before it applied to the weight",
)

refuses_after_use = edited(
    "training_drift",
    {"            if update.shape != weight.shape:\n                raise ValueError(f\"an update of shape {tuple(update.shape)} for a weight of {tuple(weight.shape)}\")\n": "",
     "            swallowed += still\n": "            swallowed += still\n            if update.shape != weight.shape:\n                raise ValueError(update.shape)\n"},
    loses=("errors",),
    because="an error is thought to undo what was done",
    breaks="before that update is used",
)

OF_TRAINING_DRIFT = [
    unbreakable("training_drift", "an iterator over ten thousand updates at most, or none", because="it says what the updates are"),
    unbreakable("training_drift", "It yields tensors on the device, float32 or bfloat16, of the shape of `weight`", because="it says what the updates are"),
    unbreakable("training_drift", "The updates of a weight of 0 all have the same sign", because="it says what the updates are"),
    unbreakable("training_drift", "Each element of an update is 0 or at least a hundredth of the distance", because="it says what the updates are"),
    unbreakable("training_drift", "if none does, the count is the number of updates", because="it follows from the count"),
    unbreakable("training_drift", "That is room for a float32 copy for the sum", because="it explains the bound"),
]


@alternative("training_drift")
def compensated(weight, updates):
    """Kahan's sum: a second bfloat16 tensor keeps what rounding took."""
    if weight.dtype is not torch.bfloat16:
        raise ValueError(weight.dtype)
    weight = weight.detach()
    first, lost = weight.clone(), torch.zeros_like(weight)
    moved, count = torch.zeros_like(weight, dtype=torch.bool), torch.zeros_like(weight, dtype=torch.int32)
    for update in updates:
        if tuple(update.size()) != tuple(weight.size()):
            raise ValueError("shape")
        wanted = weight.float().add_(update).add_(lost)
        weight.copy_(wanted)
        lost.copy_(wanted.sub_(weight))
        torch.logical_or(moved, (first.float() + update).to(torch.bfloat16).ne(first), out=moved)
        count.add_(moved.logical_not())
    return count


@alternative("training_drift")
def a_plain_sum_beside_it(weight, updates):
    """A second weight is trained wrongly, to see when it moves."""
    if weight.dtype != torch.bfloat16:
        raise ValueError("bfloat16 is due")
    finer, plain, began = weight.detach().to(torch.float32), weight.detach().clone(), weight.detach().clone()
    swallowed = torch.zeros(weight.shape, dtype=torch.int32, device=weight.device)
    steps = 0
    for update in updates:
        if list(update.shape) != list(weight.shape):
            raise ValueError("another shape")
        finer.add_(update)
        weight.data[...] = finer.to(torch.bfloat16)
        plain.add_(update)
        swallowed += (plain == began) & (swallowed == steps)
        steps += 1
    return swallowed
