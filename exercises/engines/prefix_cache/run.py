"""E19.5, prefix_cache: what it did."""

import time
from typing import Any

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from gpulab.serving import Live
from gpulab.serving.requests import change


def run(learner: Learner, case: dict) -> dict:
    """Play events on caches, each trace on some of its own; or time calls of small and large ones."""
    if "timed" in case:
        return {"timed": [_timed(learner, timed) for timed in case["timed"]]}
    return {"played": [Caches(learner, trace).play() for trace in case["traces"]]}


def live_of(number: int, fields: dict) -> Live:
    """A request that waits. fields: as of Live, ``ids`` a list."""
    ids = tuple(fields["ids"])
    return Live(
        **{
            "name": f"r{number}",
            "arrival_us": float(number),
            "most": 99,
            "prompt_tokens": len(ids),
            **fields,
            "ids": ids,
        }
    )


class Caches:
    """The caches of one trace, and its requests. ``look``: after each call, or only when copies are asked for."""

    def __init__(self, learner: Learner, trace: dict) -> None:
        self._trace = trace
        self._made = [outcome(lambda sizes=sizes: learner.prefix_cache(*sizes)) for sizes in trace["caches"]]
        self._lives = [live_of(number, fields) for number, fields in enumerate(trace["requests"])]
        self._of = trace["of"]

    def play(self) -> dict:
        """What making each cache, and each event, gave or raised, and how the event's cache stood afterwards."""
        made = [entry if "error" in entry else {"returned": _said(entry["returned"])} for entry in self._made]
        steps = []
        for of, what, request, *by in self._trace["events"]:
            if "error" in self._made[of]:
                break
            cache, live = self._made[of]["returned"], None if request is None else self._lives[request]
            step = outcome(lambda cache=cache, live=live, what=what, by=by: getattr(self, f"_{what}")(cache, live, *by))
            if what == "copies" or (self._trace["look"] and what in ("found", "reserve", "release")):
                step |= self._looked(cache, of)
            steps.append(step)
        return {"made": made, "steps": steps}

    def _found(self, cache: Any, live: Live) -> Any:
        """As the engine asks: what is found counts as computed."""
        tokens = cache.found(live)
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
        return _spoilt(cache.copies())

    def _compute(self, cache: Any, live: Live, tokens: int) -> None:
        change(live, computed=live.computed + tokens)

    def _tell(self, cache: Any, live: Live, *ids: int) -> None:
        """Output tokens; none of an id where tokens are only counted."""
        change(live, told=live.told + len(ids), ids=(*live.ids, *ids) if live.ids else ())

    def _waits(self, cache: Any, live: Live) -> None:
        """It was preempted, and waits again."""
        change(live, state="waiting", computed=0, preemptions=live.preemptions + 1)

    def _looked(self, cache: Any, of: int) -> dict:
        mine = [number for number, its in enumerate(self._of) if its == of]
        asked = outcome(
            lambda: {"free": cache.free, "tables": [_spoilt(cache.table(self._lives[number])) for number in mine]}
        )
        return {"looked": asked.get("returned"), "blind": asked.get("error")}


def _said(cache: Any) -> Any:
    return outcome(lambda: [cache.shares, cache.total, cache.size]).get("returned")


def _spoilt(lent: Any) -> Any:
    """What was given, which is the caller's: what he does to it afterwards is nobody else's concern."""
    kept = (
        [list(item) if isinstance(item, (list, tuple)) else item for item in lent]
        if isinstance(lent, (list, tuple))
        else lent
    )
    if isinstance(lent, list):
        lent[:] = [(0, 0)]
    return kept


def _timed(learner: Learner, timed: dict) -> dict:
    """The least nanoseconds that a round of calls took on each of two caches, the rounds of both taking turns."""
    return outcome(lambda: _least_ns([_filled(learner, blocks, timed) for blocks in timed["blocks"]], timed))


def _filled(learner: Learner, blocks: int, timed: dict) -> Any:
    """A cache whose blocks were computed and, but for the holders', released."""
    cache = learner.prefix_cache(blocks, 1)
    for first in range(0, blocks if timed["kept"] else 0, 10):
        live = live_of(first, {"ids": range(first, min(first + 10, blocks))})
        cache.reserve(live, live.tokens)
        change(live, computed=live.tokens)
        cache.release(live)
    return cache


def _least_ns(caches: list, timed: dict) -> list[int]:
    least = [2**62 for _ in caches]
    for number in range(timed["rounds"]):
        for which, cache in enumerate(caches):
            live = live_of(number, {"ids": [10**9 + number]})
            began = time.thread_time_ns()
            cache.found(live)
            cache.reserve(live, 1)
            change(live, computed=1)
            cache.release(live)
            least[which] = min(least[which], time.thread_time_ns() - began)
    return least
