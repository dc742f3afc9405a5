"""E19.5, prefix_cache: what it did."""

import operator
from time import thread_time_ns
from typing import Any

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from gpulab.serving import Live
from gpulab.serving.requests import change


def run(learner: Learner, case: dict) -> dict:
    """Play calls on caches, each sequence on some of its own; or time calls of small and large ones."""
    if "timed" in case:
        return {"timed": [outcome(lambda timed=timed: _timed(learner, timed)) for timed in case["timed"]]}
    return {"played": [Caches(learner, sequence, case["spoil"]).play() for sequence in case["sequences"]]}


def live_of(number: int, fields: dict) -> Live:
    """A request that waits. fields: as of Live, ``ids`` a list."""
    ids = tuple(fields["ids"])
    usual = {"name": f"r{number}", "arrival_us": float(number), "most": 99, "prompt_tokens": len(ids)}
    return Live(**{**usual, **fields, "ids": ids, "prefix": tuple(fields.get("prefix", ()))})


class Caches:
    """The caches of one sequence, and its requests."""

    def __init__(self, learner: Learner, sequence: dict, spoil: bool) -> None:
        self._events, self._of, self._spoil = sequence["events"], sequence["of"], spoil
        self._made = [outcome(lambda sizes=sizes: learner.prefix_cache(*sizes)) for sizes in sequence["caches"]]
        self._lives = [live_of(number, fields) for number, fields in enumerate(sequence["requests"])]
        self._asked: list[int] = []

    def play(self) -> dict:
        """What making each cache, and each event, gave or raised, and how the event's cache stood afterwards."""
        made = [entry if "error" in entry else {"returned": _said(entry["returned"])} for entry in self._made]
        steps = []
        for of, what, number, *by in self._events:
            if "error" in self._made[of]:
                break
            cache, live = self._made[of]["returned"], None if number is None else self._lives[number]
            step = outcome(lambda cache=cache, live=live, what=what, by=by: getattr(self, f"_{what}")(cache, live, *by))
            if what == "reserve" and number not in self._asked:
                self._asked.append(number)
            if what in ("found", "reserve", "release"):
                step["looked"] = outcome(lambda cache=cache, of=of: self._looked(cache, of))
            steps.append(step)
        return {"made": made, "steps": steps}

    def _found(self, cache: Any, live: Live) -> Any:
        """As the engine asks: what is found counts as computed."""
        tokens = _number(cache.found(live))
        if type(tokens) is int and 0 <= tokens < live.tokens:
            change(live, computed=tokens)
        return tokens

    def _reserve(self, cache: Any, live: Live, tokens: int) -> Any:
        done = cache.reserve(live, tokens)
        if done is True:
            change(live, state="running")
        return done

    def _release(self, cache: Any, live: Live) -> None:
        cache.release(live)

    def _copies(self, cache: Any, live: None) -> Any:
        return _numbers(cache.copies())

    def _compute(self, cache: Any, live: Live, tokens: int) -> None:
        change(live, computed=live.computed + tokens)

    def _tell(self, cache: Any, live: Live, *ids: int) -> None:
        """An output token; none of an id where tokens are only counted."""
        change(live, told=live.told + 1, ids=(*live.ids, *ids))

    def _waits(self, cache: Any, live: Live) -> None:
        change(live, state="waiting", computed=0, preemptions=live.preemptions + 1)

    def _looked(self, cache: Any, of: int) -> dict:
        mine = [number for number in self._asked if self._of[number] == of]
        return {
            "free": _number(cache.free),
            "tables": [[n, _taken(cache.table(self._lives[n]), self._spoil)] for n in mine],
        }


def _said(cache: Any) -> Any:
    asked = outcome(lambda: [cache.shares, _number(cache.total), _number(cache.size)])
    return asked.get("returned")


def _number(said: Any) -> Any:
    """An integer of whatever type as Python's."""
    try:
        return operator.index(said)
    except TypeError:
        return said


def _numbers(lent: Any) -> Any:
    return [_numbers(item) for item in lent] if isinstance(lent, list | tuple) else _number(lent)


def _taken(lent: Any, spoil: bool) -> Any:
    """A table, which is the caller's: ``spoil``: he changes it afterwards."""
    kept = _numbers(lent)
    if spoil and isinstance(lent, list):
        lent[:] = [0, 0]
    return kept


def _timed(learner: Learner, timed: dict) -> dict:
    """Nanoseconds of each round on each of two caches, the rounds of both taking turns, and what was answered in them."""
    caches = [_filled(learner, blocks, timed["kept"]) for blocks in timed["blocks"]]
    rounds = [[_round(cache, number, timed) for cache in caches] for number in range(timed["rounds"])]
    return {"ns": [[ns for ns, _ in one] for one in rounds], "said": [[said for _, said in one] for one in rounds]}


def _filled(learner: Learner, blocks: int, kept: bool) -> Any:
    """A cache whose blocks were computed and released, if ``kept``."""
    cache = learner.prefix_cache(blocks, 1)
    for first in range(0, blocks if kept else 0, 10):
        _serve(cache, live_of(first, {"ids": range(first, min(first + 10, blocks))}))
    return cache


def _serve(cache: Any, live: Live) -> list:
    found = _number(cache.found(live))
    change(live, computed=found)
    done = cache.reserve(live, live.tokens - found)
    cache.copies()
    table, _ = len(cache.table(live)), cache.free
    change(live, computed=live.tokens)
    cache.release(live)
    return [found, done, table]


def _round(cache: Any, number: int, timed: dict) -> tuple[int, list]:
    """A prompt that is new, and the same with one token more."""
    ids = [timed["first"] + 2 * number, timed["first"] + 2 * number + 1]
    lives = [live_of(number, {"ids": ids[:1]}), live_of(number, {"ids": ids})]
    began = thread_time_ns()
    said = [_serve(cache, live) for live in lives]
    return thread_time_ns() - began, said
