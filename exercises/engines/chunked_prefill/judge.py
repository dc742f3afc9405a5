"""E19.3 chunked_prefill: cases and judge."""

from collections import Counter
from collections.abc import Callable, Iterator

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem
from exercises.engines.chunked_prefill import traffic
from exercises.engines.chunked_prefill.step import Step
from exercises.engines.replay import Replayed, replayed

_MOST_CALLS = 40


def _cases(sampler: Sampler) -> Iterator[Case]:
    """A case for each criterion; its plays take turns, a step each. The first of a criterion's makes its scheduler last."""
    for criteria in sampler.shuffled(*_PLAYS):
        last, *others = [made for make in _PLAYS[criteria] for made in make(sampler)]
        yield Case((criteria,), {"plays": [*sampler.permutation(others), last]})


def _all(*makes: Callable[[Sampler], dict]) -> Callable[[Sampler], Iterator[dict]]:
    return lambda sampler: (make(sampler) for make in makes)


_PLAYS = {
    "gap": [
        _all(traffic.in_tiles, traffic.context_counts, traffic.never_beside, traffic.hang_up, traffic.stuck),
        lambda sampler: (traffic.at_the_edge(sampler, beyond) for beyond in (0, 1)),
        lambda sampler: (traffic.crowded(sampler, over) for over in (-0.5, 0, 9)),
    ],
    "decodes": [_all(traffic.tight_budget, traffic.context_counts, traffic.few_places, traffic.never_beside)],
    "chunks": [
        _all(traffic.nobody_decodes, traffic.context_counts, traffic.in_tiles, traffic.just_reached, traffic.one_left),
        _all(traffic.tight_budget, traffic.few_places, traffic.hang_up, traffic.told_before),
        lambda sampler: (traffic.at_the_edge(sampler, beyond) for beyond in (0, 1)),
    ],
    "order": [_all(traffic.short_after_long, traffic.long_waits_for_room, traffic.few_places, traffic.hang_up)],
    "room": [
        _all(traffic.crunch, traffic.no_room_beside),
        lambda sampler: (traffic.short_of_room(sampler, size) for size in (1, 4)),
    ],
    "whole": [_all(traffic.images, traffic.images_again, traffic.images_in_time)],
    "calls": [_all(traffic.huge_budget, traffic.many_at_once)],
}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    if problem := count_problem(evidence["records"], len(case.inputs["plays"])):
        yield Failure(criteria, problem)
        return
    calls = _calls(evidence["notes"])
    for number, (play, record) in enumerate(zip(case.inputs["plays"], evidence["records"], strict=True)):
        if problem := _problem(criteria, play, record, calls.get(str(number), Counter())):
            yield Failure(criteria, problem)
            return


def _calls(notes: list[str]) -> dict[str, Counter]:
    """By run: calls of step_us while so many steps had begun. Each was told at the time, as run, steps and its own number."""
    calls: dict[str, Counter] = {}
    for run, begun, _ in (call.split() for call in set(notes)):
        calls.setdefault(run, Counter())[max(1, int(begun))] += 1
    return calls


def _problem(criteria: str, play: dict, record: dict, calls: Counter) -> str | None:
    """What the play shows, step by step; then whether it came to its end."""
    again = replayed(play, record)
    wrong = _WRONG.get(criteria)
    for decision in again.decisions if wrong else ():
        if problem := wrong(Step(decision, play)):
            return problem
    return again.problem or (_calls_problem(play, again, calls) if criteria == "calls" else None)


def _gap(step: Step) -> str | None:
    if step.too_long:
        return (
            "Somebody who decodes waited longer than the gap for a prompt's chunk: ask step_us about the whole step, every "
            "decode and every chunk behind its own context, and give prompts nothing where the decodes alone take that long."
        )
    return None


def _decodes(step: Step) -> str | None:
    if any(step.part(one) != 1 for one in step.decodes):
        return "A request that decodes got no token in a step: decodes come before prompts."
    return None


def _chunks(step: Step) -> str | None:
    if step.shorter:
        return (
            "The step had time, tokens, places and room for a prompt's token more: a chunk is as long as they allow, the next "
            "prompt shares the step, and without a decode there is no gap to keep."
        )
    return None


def _order(step: Step) -> str | None:
    if step.overtaken:
        return "A prompt got tokens while one that came before it was not finished: first come, first served."
    return None


def _room(step: Step) -> str | None:
    if step.preempted != step.gone:
        return (
            "Others were preempted than had to be, or in another order: the one that came last goes first, and no more than "
            "the decodes need room for."
        )
    if step.gone and step.let_in:
        return "A request was let in by a step that preempted another: its room belongs to those who were there before."
    for _, more in step.odd_room():
        if more:
            return "More room was reserved than the tokens take that are there so far: a cache full of hopes lets nobody in."
        return "A prompt runs without room for all of it: the decodes beside it take what it will need."
    if step.in_no_hurry and step.shorter and not any(map(step.part, step.line)):
        return "Nobody was let in, though the next in line had room for all its tokens so far."
    return None


def _whole(step: Step) -> str | None:
    if not any(map(step.whole, step.line)):
        return None
    if step.too_long and any(step.whole(one) and step.part(one) for one in step.line):
        return "A whole prompt made somebody who decodes wait longer than the gap: it has to wait until it fits."
    if (first := step.overtaken) and step.whole(first):
        return (
            "A whole prompt that did not fit was overtaken: whoever comes behind it waits too, or it may wait for ever."
        )
    if any(step.whole(one) for one in step.next_ones()) and step.shorter:
        return "A whole prompt waited though all of it fitted, or what it was told before a preemption was taken for prompt."
    return None


_WRONG = {"gap": _gap, "decodes": _decodes, "chunks": _chunks, "order": _order, "room": _room, "whole": _whole}


def _calls_problem(play: dict, again: Replayed, calls: Counter) -> str | None:
    if max(calls.values(), default=0) > _MOST_CALLS:
        return (
            "step_us was asked too often in a step: halve the range of all prompts' tokens together, and neither try them one by "
            "one nor search for each prompt anew."
        )
    if any(
        Step(decision, play).cut_by_the_gap and not calls[begun] for begun, decision in enumerate(again.decisions, 1)
    ):
        return "A chunk ends where the gap does, and step_us was not asked in that step: nothing else says how long it takes."
    return None


exercise = Exercise(
    criteria=(
        Criterion("gap", 2, "no step in which somebody decodes lasts longer than the gap, unless the decodes alone do"),
        Criterion("decodes", 1, "everybody who decodes gets a token in every step"),
        Criterion("chunks", 2, "prompts get as many tokens as gap, budget and room allow"),
        Criterion("order", 1, "prompts are computed in the order in which they came, one after the other"),
        Criterion("room", 1, "who is let in has room for its prompt, and who came last is preempted"),
        Criterion("whole", 1, "whole prompts are not cut, wait until they fit and are not overtaken"),
        Criterion("calls", 1, "step_us is called 40 times in a step at most", ("gap", "chunks")),
    ),
    cases=_cases,
    judge=_judge,
)
