"""E8.1 round_to and float_fields: cases and judge."""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import error_problem, raised_problem, tensor_problem, type_name
from gpulab.formats import Format

_ALL = ("nearest", "small", "large", "fields")
"""The first of what a case is about is lost by numbers of the format's normal range, and by results of another kind."""
_NAMED = (
    (5, 10, "ieee"),
    (8, 7, "ieee"),
    (5, 2, "ieee"),
    (4, 3, "nan"),
    (3, 2, "none"),
    (2, 3, "none"),
    (2, 1, "none"),
)
_OF_TORCH = dict(
    zip(_NAMED, ((torch.float16, 16), (torch.bfloat16, 16), (torch.float8_e5m2, 8), (torch.float8_e4m3fn, 8)))
)
"""PyTorch's dtypes and their bits: every pattern of these is tried."""
_TF32 = (8, 10, "ieee")
_FP32 = (8, 23, "ieee")
_SHAPES = ((), (0,), (3, 0, 2))


def _cases(sampler: Sampler) -> Iterator[Case]:
    for fmt in sampler.shuffled(*_NAMED, *_unnamed(sampler)):
        yield _case(
            _ALL, sampler.choice([x for _, x in sampler.layouts(_in_rows(_strata(sampler, fmt, torch.float32)))]), fmt
        )
    for fmt, (dtype, bits) in sampler.shuffled(*_OF_TORCH.items()):
        patterns = (_order(sampler, 2**bits) - 2 ** (bits - 1)).to(torch.int16 if bits == 16 else torch.int8)
        yield _case(_ALL, patterns.view(dtype).float(), fmt)
    for _, x in sampler.layouts(_in_rows(_strata(sampler, _NAMED[0], torch.float32))[:, :6]):
        yield _case(_ALL, x, _NAMED[0])
    for shape, fmt in sampler.shuffled(*itertools.product(_SHAPES, (_NAMED[0], _NAMED[-1]))):
        yield _case(_ALL, sampler.tensor(*shape), fmt)
    yield _case(_ALL, _strata(sampler, _FP32, torch.float32), _FP32)
    yield _case(("tf32", *_ALL[1:]), _strata(sampler, _TF32, torch.float32), _TF32)
    for fmt in sampler.shuffled(*_NAMED, _FP32):
        yield _case(("once", *_ALL[1:]), _strata(sampler, fmt, torch.float64), fmt)
    yield from _refused(sampler)


def _unnamed(sampler: Sampler) -> Iterator[tuple[int, int, str]]:
    """Formats that PyTorch has no dtype for, of every number of exponent bits and every meaning of ``reserved``."""
    for exponent_bits in range(2, 8):
        for reserved in ("ieee", "nan", "none"):
            mantissa_bits = sampler.integer(1, 9)
            if (exponent_bits, mantissa_bits, reserved) not in _NAMED:
                yield exponent_bits, mantissa_bits, reserved
    yield 8, sampler.choice([1, 2, 3, 4, 5, 6, 8, 9]), "ieee"
    yield 4, 3, "ieee"
    yield sampler.integer(3, 6), 1, "ieee"
    yield sampler.integer(3, 6), 1, "nan"


def _refused(sampler: Sampler) -> Iterator[Case]:
    for fmt in sampler.shuffled(
        *(fmt for fmt in _NAMED if fmt[2] == "none"), (sampler.integer(4, 7), sampler.integer(1, 9), "none")
    ):
        x = sampler.tensor(3, sampler.integer(2, 5))
        x[sampler.integer(0, 2), sampler.integer(0, 1)] = torch.nan
        yield _case(("errors",), x, fmt, raises="ValueError", because=f"{fmt} has no pattern for the NaN in x")
    because = f"{_NAMED[-1]} has no pattern for the NaN that x is"
    yield _case(("errors",), torch.tensor(torch.nan), _NAMED[-1], raises="ValueError", because=because)
    for dtype in sampler.shuffled(torch.float16, torch.bfloat16, torch.int32, torch.int64):
        x, because = sampler.tensor(sampler.integer(2, 5)).to(dtype), f"x is {dtype}"
        yield _case(("errors",), x, sampler.choice(_NAMED), raises="TypeError", because=because)


def _case(criteria: tuple[str, ...], x: Tensor, fmt: tuple[int, int, str], raises="", because="") -> Case:
    return Case(criteria, {"x": x, "fmt": list(fmt)}, raises, because)


def _in_rows(x: Tensor) -> Tensor:
    return x[: len(x) // 4 * 4].view(4, -1)


def _strata(sampler: Sampler, fmt: tuple[int, int, str], dtype: torch.dtype) -> Tensor:
    """Numbers of ``fmt``, halfway between two, a little to both sides of both; beyond the largest; special ones.

    Of every exponent, of the subnormal numbers and around each end. Of both signs, in random order.
    """
    known = Format("", *fmt)
    last, half = known.last_pattern, 2 ** fmt[1]
    ends = [0, 1, 2, 3, half - 2, half - 1, half, half + 1, last - 3, last - 2, last - 1, last]
    fields = range(2 ** fmt[0]) if fmt[0] < 5 else [sampler.integer(0, 2 ** fmt[0] - 1) for _ in range(24)]
    within = [(field * half + sampler.integer(0, half - 1)) for field in fields for _ in range(2)]
    patterns = torch.tensor([pattern for pattern in (*ends, *within) if 0 <= pattern <= last])
    here, above = known.decode(patterns), _grid(fmt, patterns + 1)
    exact = torch.cat([here, (here + above) / 2, here * 0.75 + above * 0.25, here * 0.25 + above * 0.75, above])
    beyond = [known.largest * factor for factor in (1.5, 2.0, 3.0, 1e4)] if fmt[0] < 8 else []
    tiny = [known.least * factor for factor in (0.5, 0.25, 0.1, 1e-3)]
    exact = torch.cat([exact, torch.tensor([*beyond, *tiny, 1e-40, 1e-45, 1e38, 1.0], dtype=torch.float64)])
    x = torch.cat([near for value in (exact.to(dtype),) for near in _beside(value, dtype)])
    x = torch.cat([x, torch.tensor([0.0, torch.inf], dtype=dtype), *([] if fmt[2] == "none" else [_nans(dtype)])])
    if dtype == torch.float64:
        # Just off a tie by less than float32 can say, and outside of float32's range.
        x = torch.cat(
            [
                x,
                *((here + above) / 2 * factor for factor in (1 + 2**-40, 1 - 2**-40)),
                torch.tensor([1e300, 1e-300], dtype=torch.float64),
            ]
        )
    x = torch.cat([x, -x])
    return x[_order(sampler, len(x))]


def _nans(dtype: torch.dtype) -> Tensor:
    """The NaN of both ends of the patterns, of the middle, and PyTorch's; rounding a pattern as a number carries some into others."""
    top, integer = (0x7FF << 52, torch.int64) if dtype == torch.float64 else (0xFF << 23, torch.int32)
    ones = (1 << (52 if dtype == torch.float64 else 23)) - 1
    return torch.tensor([top + 1, top + ones, top + (ones >> 1), top + (ones >> 1) + 1], dtype=integer).view(dtype)


def _order(sampler: Sampler, count: int) -> Tensor:
    """The numbers from 0 to ``count``, that left out, shuffled."""
    return sampler.tensor(count, dtype=torch.int64) - 1


def _beside(x: Tensor, dtype: torch.dtype) -> Iterator[Tensor]:
    for towards in (-torch.inf, torch.inf):
        yield torch.nextafter(x, torch.tensor(towards, dtype=dtype))
    yield x


def _grid(fmt: tuple[int, int, str], patterns: Tensor) -> Tensor:
    """As if no pattern were reserved and exponents went on: float64, exact."""
    mantissa, exponent = patterns % 2 ** fmt[1], patterns >> fmt[1]
    steps = mantissa + 2 ** fmt[1] * (exponent > 0)
    return torch.ldexp(steps.double(), exponent.clamp(min=1) - (2 ** (fmt[0] - 1) - 1) - fmt[1])


def _nearest(x: Tensor, fmt: tuple[int, int, str]) -> Tensor:
    """The patterns of the numbers nearest to ``x``, the sign aside; the last + 1 for what is beyond. Wrong for NaN.

    By looking each up among all numbers of the format, which may have 2**19.
    """
    if fmt == _FP32:
        return x.to(torch.float32).abs().view(torch.int32).long()
    last = Format("", *fmt).last_pattern
    grid = _grid(fmt, torch.arange(last + 2))
    size = x.double().abs().nan_to_num(0.0, torch.inf).contiguous()
    above = torch.searchsorted(grid, size).clamp(max=last + 1)
    below = (above - 1).clamp(min=0)
    down, up = size - grid[below], grid[above] - size
    lower = (down < up) | ((down == up) & (below % 2 == 0))
    return torch.where(lower & (size < grid[-1]), below, above)


def _expected(x: Tensor, fmt: tuple[int, int, str]) -> tuple[Tensor, Tensor]:
    """What ``x`` is to become, and its pattern with the sign bit aside; any NaN for NaN."""
    known, nearest = Format("", *fmt), _nearest(x, fmt)
    last, top = known.last_pattern, (2 ** fmt[0] - 1) << fmt[1]
    beyond, size = (top, torch.inf) if fmt[2] == "ieee" else (last, known.largest)
    value = torch.where(nearest > last, size, _grid(fmt, nearest)).copysign(x.double())
    value[x.isnan()] = torch.nan
    return value.to(x.dtype), torch.where(nearest > last, beyond, nearest)


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    x, fmt = case.inputs["x"], tuple(case.inputs["fmt"])
    if case.raises:
        for name in ("round_to", "float_fields"):
            if problem := error_problem(evidence[name], case.raises, case.because):
                yield Failure("errors", f"{name}: {problem}")
        return
    expected, pattern = _expected(x, fmt)
    first = case.criteria[0]
    if problem := _kind_problem(evidence["round_to"], expected, fmt) or _kept_problem(evidence, x):
        yield Failure(first, problem)
        return
    values = evidence["round_to"]["returned"]
    wrong = ~_same(values, expected)
    if x.dtype == torch.float64 and wrong.any() and _same(values, _expected(x.float(), fmt)[0].double()).all():
        yield Failure(
            first,
            "A float64 number was rounded to float32 before it was rounded to the format: that is rounding twice.",
        )
        return
    for criterion, problem in _value_problems(wrong, x, values, fmt):
        yield Failure(first if criterion == "nearest" else criterion, problem)
    if problem := _fields_problem(evidence["float_fields"], expected, pattern, wrong, fmt):
        yield Failure("fields", problem)


def _kind_problem(outcome: dict, expected: Tensor, fmt: tuple[int, int, str]) -> str | None:
    if "error" in outcome:
        return raised_problem(outcome["error"])
    problem = tensor_problem(outcome["returned"], expected)
    if problem and fmt == _TF32:
        return f"{problem} TF32 says how many bits of a number count; in memory it is a 32-bit number."
    return problem


def _kept_problem(evidence: dict, x: Tensor) -> str | None:
    if tensor_problem(evidence["x"], x) or not _same(evidence["x"], x).all():
        return "The function changed x."
    if evidence["apart"] is not True:
        return "The result lies in x's own memory: whoever writes to one changes the other."
    return None


def _same(found: Tensor, expected: Tensor) -> Tensor:
    """Where two tensors hold the same number, signs of zeros included, or both NaN."""
    equal = (found == expected) & (found.signbit() == expected.signbit())
    return equal | (found.isnan() & expected.isnan())


def _value_problems(wrong: Tensor, x: Tensor, found: Tensor, fmt: tuple[int, int, str]) -> Iterator[tuple[str, str]]:
    known, size = Format("", *fmt), x.abs()
    small, large = size < known.least_normal, ~(size <= known.largest)
    for criterion, where, say in (
        ("nearest", ~small & ~large, _nearest_problem),
        ("small", small, _small_problem),
        ("large", large, _large_problem),
    ):
        if (at := wrong & where).any():
            yield criterion, say(x[at].double(), found[at].double(), fmt)


def _nearest_problem(x: Tensor, found: Tensor, fmt: tuple[int, int, str]) -> str:
    if not found.isfinite().all():
        return "A number that the format holds overflowed: the exponent bits say where its range ends, not the size in memory."
    grid = _grid(fmt, _nearest(found, fmt)).copysign(found)
    if not torch.equal(grid, found):
        return "A result is not representable in the format: it has too many mantissa bits."
    spacing = (_grid(fmt, _nearest(x, fmt) + 1) - _grid(fmt, _nearest(x, fmt))).abs()
    if (((found - x).abs() * 2) <= spacing).all():
        return (
            "A tie went the wrong way: round half to even, the neighbour whose last mantissa bit is 0. Or x "
            "was rounded twice."
        )
    if (found.abs() <= x.abs()).all():
        return "Mantissa bits are truncated: the nearest number may lie above."
    return "A result is not the nearest number of the format."


def _small_problem(x: Tensor, found: Tensor, fmt: tuple[int, int, str]) -> str:
    if (found == 0).all() and not (found.signbit() == x.signbit()).all():
        return "A zero lost its sign: a negative number that becomes zero becomes -0."
    if (found == 0).all():
        return "A number below the least normal one became zero: subnormal numbers go on below it, evenly spaced."
    if ((found - x).abs() * 2 == Format("", *fmt).least).all():
        return "A tie between two subnormal numbers went the wrong way: round half to even, as above them."
    return "A number below the least normal one is not the nearest: there the spacing no longer halves."


def _large_problem(x: Tensor, found: Tensor, fmt: tuple[int, int, str]) -> str:
    if x.isnan().any():
        return "A NaN did not stay NaN."
    if not x.isinf().all():
        return (
            "Beyond the largest number: what still rounds to it becomes it, halfway decided by the last mantissa bit; what rounds "
            "further becomes what `reserved` says, infinity or the largest number."
        )
    return "An infinity did not become what `reserved` says: infinity or the largest number."


def _fields_problem(
    outcome: dict, expected: Tensor, pattern: Tensor, wrong: Tensor, fmt: tuple[int, int, str]
) -> str | None:
    """Only where the number itself is right: another criterion speaks of the rest."""
    if "error" in outcome:
        return raised_problem(outcome["error"])
    fields = outcome["returned"]
    if not isinstance(fields, list) or len(fields) != 3:
        what = fields if fields == "a list" else type_name(fields)
        return f"float_fields returned {what}; expected a tuple of three tensors."
    whole = expected.to(torch.int32) if expected.isfinite().all() else torch.zeros_like(expected, dtype=torch.int32)
    if problem := next(filter(None, (tensor_problem(field, whole) for field in fields)), None):
        return f"float_fields: {problem}"
    sign, exponent, mantissa = fields
    nan = expected.isnan()
    if ((sign != expected.signbit()) & ~nan & ~wrong).any():
        return "A sign field is wrong: it is 1 for what is negative, -0 and negative infinity included."
    if ((exponent != pattern >> fmt[1]) & ~nan & ~wrong).any():
        return "An exponent field is wrong: it is the exponent with the bias added, 0 for zeros and subnormal numbers, all ones for infinity."
    if ((mantissa != pattern % 2 ** fmt[1]) & ~nan & ~wrong).any():
        return "A mantissa field is wrong: it is what stands behind the point, without the hidden 1, in steps of the last bit."
    if (nan & ~wrong & ~_means_nan(sign, exponent, mantissa, fmt)).any():
        return "The fields of a NaN are those of a number or of an infinity."
    return None


def _means_nan(sign: Tensor, exponent: Tensor, mantissa: Tensor, fmt: tuple[int, int, str]) -> Tensor:
    ones = 2 ** fmt[1] - 1
    named = (mantissa == ones) if fmt[2] == "nan" else (mantissa > 0) & (mantissa <= ones)
    return (exponent == 2 ** fmt[0] - 1) & named & ((sign == 0) | (sign == 1))


exercise = Exercise(
    criteria=(
        Criterion("nearest", 2, "numbers in the format's normal range are rounded to the nearest, ties to even"),
        Criterion("small", 1, "subnormal numbers are rounded and zeros keep their sign", ("nearest",)),
        Criterion("large", 2, "numbers beyond the largest, and NaN, become what `reserved` defines", ("nearest",)),
        Criterion("once", 1, "a float64 number is rounded once", ("nearest",)),
        Criterion("tf32", 1, "a TF32 number is rounded to 10 mantissa bits and stored in 32 bits", ("nearest",)),
        Criterion(
            "fields",
            2,
            "sign, exponent and mantissa fields are those of the rounded number's bit pattern",
            ("nearest",),
        ),
        Criterion("errors", 1, "invalid inputs are refused with an error", ("nearest",)),
    ),
    cases=_cases,
    judge=_judge,
)
