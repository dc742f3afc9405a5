"""What a collective takes, message by message, and what is drawn to ask about it."""

from typing import Any

from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name

CHUNKED, WHOLE = ("all_reduce", "reduce_scatter", "all_gather"), ("broadcast", "reduce")
TREES = ("all_reduce", "broadcast", "reduce")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
BYTES_PER_S = {"GB/s": 1e9, "GB/s both ways": 0.5e9, "Gb/s": 0.125e9}


def job(sampler: Sampler, kind: str, nbytes: int, n: int, alpha: tuple = (), beta: tuple = ()) -> dict:
    """A question, in plain units where none are given. ``algorithm``: what follows the five arguments."""
    alpha = alpha or (sampler.integer(1, 400) / 8, "us")
    beta = beta or (sampler.integer(8, 7200) / 8, "GB/s")
    return {"kind": kind, "nbytes": nbytes, "n": n, "alpha": alpha, "beta": beta, "algorithm": []}


def whole_chunks(sampler: Sampler, n: int) -> int:
    """Bytes that n ranks share without a rest."""
    return n * sampler.choice((sampler.integer(1, 9), sampler.integer(10**3, 10**5), sampler.integer(10**7, 10**9)))


def ragged(sampler: Sampler, kind: str, n: int) -> dict:
    """A rest of one byte, of all but one, or fewer bytes than ranks, over a link whose latency hides nothing."""
    nbytes = sampler.choice((n * sampler.integer(1, 20) + 1, n * sampler.integer(2, 20) - 1, sampler.integer(1, n - 1)))
    return job(
        sampler, kind, nbytes, n, alpha=(sampler.integer(1, 9) / 1024, "us"), beta=(sampler.integer(1, 40) / 8, "GB/s")
    )


def seconds(question: dict, algorithm: str) -> float:
    """By taking the steps one after another."""
    n, nbytes, kind = question["n"], question["nbytes"], question["kind"]
    largest = (
        max(len(range(rank, nbytes, n)) for rank in range(n)) if algorithm == "ring" and kind in CHUNKED else nbytes
    )
    lap = n - 1 if algorithm == "ring" else sum(1 for reach in range(20) if 2**reach < n)
    steps = 2 * lap if kind == "all_reduce" else lap
    alpha, beta = question["alpha"], question["beta"]
    return steps * (alpha[0] * SECONDS[alpha[1]] + largest / (beta[0] * BYTES_PER_S[beta[1]]))


def able(kind: str) -> tuple[str, ...]:
    return ("ring", "tree") if kind in TREES else ("ring",)


def traits(question: dict) -> dict[str, str]:
    """What may decide whether a question is answered rightly, in a learner's words."""
    n = question["n"]
    return {
        "the kind": f"`{question['kind']}`",
        "`n`": f"{n}" if n < 3 else "a power of two from 4 on" if n.bit_count() == 1 else "no power of two",
        "`nbytes`": "greater than 0" if question["nbytes"] else "0",
        "the unit of `alpha`": f"`{question['alpha'][1]}`",
        "the unit of `beta`": f"`{question['beta'][1]}`",
    }


def number_problem(value: Any, expected: float, message: str) -> str | None:
    """Why a value is not this number of seconds, or None."""
    if type(value) not in (int, float):
        return f"The seconds are {type_name(value)}; expected a number."
    return None if abs(value - expected) <= 1e-9 * expected else message
