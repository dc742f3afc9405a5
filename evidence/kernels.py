"""Each reference kernel: is it right, how near the roof is it, how does it compare with the library."""

from collections.abc import Callable

import torch

import gpulab.cuda
from evidence.contests import JOBS, Contest, Job
from evidence.timing import interleaved_us, repeats
from gpulab.cards.cards import CARDS


def measured(name: str, card: str | None) -> dict:
    """One job's record. Times are in microseconds; ``why`` says what kept the kernel from running.

    ratio_to: the other's time over the kernel's: above 1 the kernel is the faster. share_of_roof:
    of a copy of as many bytes, timed in the same rounds; for a product of the card's dense peak.
    """
    job = JOBS[name]
    real = gpulab.cuda.current() == "real"
    size = job.size if real else job.small
    record = {
        "name": name,
        "source": job.source,
        "language": job.language,
        "dtype": job.dtype,
        "size": list(size),
        "right": False,
        "error": None,
        "tolerance": job.tolerance,
        "why": None,
    }
    try:
        contest = job.prepare(*size)
        record["error"] = _error(contest)
    except Exception as why:  # whatever it is, the other kernels are measured
        return record | {"why": _said(why)}
    record["right"] = record["error"] <= job.tolerance
    return record | _timed(job, contest, card)


def _error(contest: Contest) -> float:
    """The largest error of the kernel's result, over the largest element of the exact one."""
    found, exact = contest.kernel().double(), contest.exact()
    if found.shape != exact.shape:
        raise ValueError(f"the result has shape {tuple(found.shape)}; expected {tuple(exact.shape)}")
    # A NaN is no maximum to every max(): let it be the error.
    error = (found - exact).abs()
    return float("inf") if bool(error.isnan().any()) else (error.max() / exact.abs().max()).item()


def _timed(job: Job, contest: Contest, card: str | None) -> dict:
    plain, arguments = contest.plain
    calls = {"kernel": contest.kernel, "library": lambda: plain(*arguments), **contest.more}
    calls["copy"] = _copy_of(contest.bytes)
    compiled, why = _compiled(plain, arguments)
    if compiled is not None:
        calls["torch.compile"] = compiled
    us = interleaved_us(calls)
    median = {call: times["median"] for call, times in us.items()}
    return {
        "bytes": contest.bytes,
        "flops": contest.flops,
        "rounds": repeats(),
        "us": us,
        "no_compile": why,
        "ratio_to": {call: median[call] / median["kernel"] for call in median if call not in ("kernel", "copy")},
    } | _roof(job, contest, median, card)


def _copy_of(nbytes: int) -> Callable[[], object]:
    """A copy within the device that moves as many bytes, those read and those written."""
    source = torch.zeros(nbytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _compiled(plain: Callable, arguments: tuple) -> tuple[Callable | None, str | None]:
    """The job through ``torch.compile``, or the reason why not."""
    try:
        function = torch.compile(plain, fullgraph=True, dynamic=False)
        torch.compiler.reset()  # what was compiled before counts towards a limit
        function(*arguments)
        return lambda: function(*arguments), None
    except Exception as why:
        return None, _said(why)


def _roof(job: Job, contest: Contest, median: dict[str, float], card: str | None) -> dict:
    if not contest.flops:
        return {"roof": "a copy of as many bytes", "share_of_roof": median["copy"] / median["kernel"]}
    roof = f"dense peak of {job.dtype} in the card's table"
    peak = None if card is None else CARDS[card].flops_per_s[job.dtype]
    rate = contest.flops / (median["kernel"] / 1e6)
    return {"roof": roof, "share_of_roof": None if peak is None else rate / peak}


def _said(why: Exception) -> str:
    return f"{type(why).__name__}: {(str(why).splitlines() or [''])[0]}"
