"""E19.5 prefix_cache: after each call what was answered, and how the cache stands, is compared with a model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from exercises.engines.prefix_cache.model import Script
from exercises.engines.prefix_cache.sequences import SEQUENCES

_MORE_WORK = 4
"""As many times as long may calls take on the large cache."""


@dataclass(frozen=True)
class Sequences(Case):
    """``scripts``: what is due; a script with a control is preceded by it."""

    scripts: tuple[Script, ...] = ()


@dataclass(frozen=True)
class Problem:
    """``criterion``: which is lost by it."""

    criterion: str
    says: str


def _cases(sampler: Sampler) -> Iterator[Case]:
    for criterion in sampler.permutation([*SEQUENCES]):
        pairs = [(script.control, script) for script in sampler.permutation([*SEQUENCES[criterion](sampler)])]
        scripts = tuple(script for pair in pairs for script in pair if script)
        inputs = {"sequences": [script.inputs() for script in scripts], "spoil": criterion == "tables"}
        yield Sequences((criterion,), inputs, scripts=scripts)
    sizes = ((sampler.integer(3000, 5000), True), (sampler.integer(40_000, 70_000), False))
    yield Case(
        ("work",),
        {
            "timed": [
                {
                    "blocks": [sampler.integer(50, 70), blocks],
                    "kept": kept,
                    "rounds": 40,
                    "first": sampler.integer(10**9, 10**10),
                }
                for blocks, kept in sampler.permutation(sizes)
            ]
        },
    )


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.criteria == ("work",):
        problem = count_problem(evidence["timed"], len(case.inputs["timed"])) or _work_problem(case, evidence["timed"])
        if problem:
            yield Failure("work", problem)
    elif problem := count_problem(evidence["played"], len(case.scripts)):
        yield Failure(case.criteria[0], problem)
    else:
        yield from _failures(case, evidence["played"])


def _failures(case: Sequences, played: list[dict]) -> Iterator[Failure]:
    """What another criterion is lost by is judged by that one's cases; but what shows nowhere is not earned."""
    (own,), others = case.criteria, []
    problems = {id(script): _problem(own, script, found) for script, found in zip(case.scripts, played)}
    controls = {id(script.control) for script in case.scripts}
    scripts = [script for script in case.scripts if id(script) not in controls]
    shares = [script for script in scripts if any(due["returned"] and due.get("found") for due in script.expected)]
    for script in scripts:
        if problem := problems[id(script)]:
            before = script.control and problems[id(script.control)]
            about = script.control.about if before else script.about
            says = f"Where {about}: {(before or problem).says}"
            if (before or problem).criterion == own or (script.control and not before):
                yield Failure(own, says)
                return
            others.append(says)
    if shares and all(problems[id(script)] for script in shares):
        yield Failure(own, f"Another fault comes first wherever this could show. {others[0]}")


def _work_problem(case: Case, timed: list[dict]) -> str | None:
    for asked, found in zip(case.inputs["timed"], timed):
        if "error" in found:
            return raised_problem(found["error"])
        rounds, (ns, said) = asked["rounds"], (found["returned"]["ns"], found["returned"]["said"])
        due = [[[0, True, 1], [1, True, 2]]] * 2
        if count_problem(ns, rounds) or said != [due] * rounds:
            return (
                "A new request, and then the same with one token more, are not served rightly on blocks of one token: "
                "what `found`, `reserve` and `table` say is looked at while calls are timed."
            )
        small, large = (sum(sorted(times)[: rounds * 4 // 5]) for times in zip(*ns))
        if not 0 < large <= _MORE_WORK * small:
            return (
                "`found`, `reserve`, `copies`, `table`, `free` and `release` together take several times as long on a large "
                "cache: something goes through all blocks, or all that is kept."
            )
    return None


def _problem(own: str, script: Script, found: dict) -> Problem | None:
    for sizes, made in zip(script.caches, found["made"], strict=True):
        if min(sizes) < 1:
            if "error" not in made:
                return Problem(
                    "no_room", "prefix_cache returns an object for a `total` or `size` less than 1; ValueError is due."
                )
            if problem := error_problem(made, "ValueError"):
                return Problem("no_room", f"{problem} `total` or `size` is less than 1.")
        elif "error" in made:
            return Problem(own, raised_problem(made["error"]))
        elif made["returned"] != [True, *sizes]:
            return Problem(own, "`shares` is to be True, `total` and `size` what was asked for.")
    return Read(own, script).problem(found["steps"])


class Read:
    """One sequence. While a block is held, or can be found, one block of the learner's is the same one of the model's."""

    def __init__(self, own: str, script: Script) -> None:
        self._own, self._script = own, script
        self._number_of: dict[int, int] = {}
        self._block_at: list[dict[int, int]] = [{} for _ in script.caches]

    def problem(self, steps: list[dict]) -> Problem | None:
        if problem := count_problem(steps, len(self._script.events)):
            return Problem(self._own, problem)
        for event, step, expected in zip(self._script.events, steps, self._script.expected):
            if problem := self._event_problem(event, step, expected):
                return Problem(self._own, problem.says) if self._script.own == "all" else problem
        return None

    def _event_problem(self, event: list, step: dict, expected: dict) -> Problem | None:
        of, what, _, *_ = event
        refused = what == "reserve" and expected["returned"] is False
        if "error" in step:
            criterion = {"found": self._of_found(expected), "reserve": "no_room" if refused else "tables"}.get(what)
            return Problem(criterion or {"release": "free"}.get(what, what), raised_problem(step["error"]))
        said, due = step["returned"], expected["returned"]
        if what == "found" and said != due:
            return Problem(self._of_found(expected), _found_says(said, due))
        if what == "reserve" and said is not due:
            return Problem("no_room", _reserve_says(said, due))
        if what == "copies" and said != (pairs := [[self._number_of[uid] for uid in pair] for pair in due]):
            return Problem("copies", _copies_says(said, pairs))
        if "tables" not in expected:
            return None
        problem = self._tables_problem(of, step["looked"], expected)
        if problem and expected["hit"]:
            return Problem(
                "copies", f"after a `reserve` that is to write a found block's last token anew, {problem.says}"
            )
        if problem and refused:
            return Problem("no_room", f"after a `reserve` that was refused, {problem.says}")
        return problem

    def _of_found(self, expected: dict) -> str:
        """The criterion that a wrong answer of ``found`` loses."""
        return self._own if self._script.own or (self._own == "copies" and expected.get("hits")) else "found"

    def _tables_problem(self, of: int, looked: dict, expected: dict) -> Problem | None:
        if "error" in looked:
            return Problem("tables", raised_problem(looked["error"]))
        looked, total = looked["returned"], self._script.caches[of][0]
        block_at = {number: uid for number, uid in self._block_at[of].items() if uid in expected["alive"]}
        self._block_at[of] = block_at
        number_of = {uid: number for number, uid in block_at.items()}
        held = {uid for table in expected["tables"].values() for uid in table}
        tables, due = dict(looked["tables"]), expected["tables"]
        for request in {**tables, **due}:
            table, uids = tables.get(request), due.get(request, [])
            if not isinstance(table, list) or any(type(block) is not int or not 0 <= block < total for block in table):
                return Problem("tables", "`table` is not a list of numbers from 0 to total - 1.")
            if len(table) != len(uids):
                return Problem("tables" if uids else "free", _length_says(len(table), len(uids)))
            for number, uid in zip(table, uids):
                there = block_at.get(number)
                if uid in number_of and number != number_of[uid]:
                    return Problem(
                        "tables", "a table shows another block than the one that the request has, or was to share."
                    )
                if uid not in number_of and there is not None:
                    return _taken_problem(there in held)
                block_at[number] = uid
                number_of[uid] = self._number_of[uid] = number
        if self._own == "free" and looked["free"] != expected["free"]:
            says = f"`free` is {_told(looked['free'])} where {expected['free']} blocks are in nobody's table."
            return Problem("free", f"{says} A block in several tables counts once, and one that can be found is free.")
        return None


def _taken_problem(held: bool) -> Problem:
    if held:
        return Problem(
            "tables", "a block that is in another's table, and was not found, stands in a request's table too."
        )
    return Problem(
        "kept",
        "a new block is one that was still to be kept. First go those that cannot be found, then the one that became free "
        "longest ago, of a single release the one further back in the table; a question of `found` changes nothing.",
    )


def _found_says(said: Any, due: int) -> str:
    if type(said) is not int:
        return f"found returned {type_name(said)}; expected an integer."
    return f"found says {said} tokens; {due} are due."


def _reserve_says(said: Any, due: bool) -> str:
    if type(said) is not bool:
        return f"reserve returned {type_name(said)}; expected True or False."
    if due:
        return "reserve refuses room that is there: blocks in no table are free, and a hit needs no new block."
    return "reserve returns True where blocks are lacking, or where what was found has gone."


def _copies_says(said: Any, due: list) -> str:
    if not isinstance(said, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in said):
        return "copies does not return pairs (source, target)."
    if len(said) != len(due):
        return f"copies tells {len(said)} of the {len(due)} that became due since it was last asked."
    return "copies does not tell the pairs (source, target) that are due, or not in their order."


def _length_says(there: int, due: int) -> str:
    return (
        f"a table has {there} blocks; {due} are due."
        if due
        else "a request that holds nothing has blocks in its table."
    )


def _told(said: Any) -> str:
    return str(said) if type(said) is int else type_name(said)


exercise = Exercise(
    criteria=(
        Criterion("found", 1, "full blocks are found as soon as they are computed, and not before"),
        Criterion("apart", 1, "what is not the same is not taken for it, and what is the same is"),
        Criterion("tables", 1, "requests share what they found, and have all else to themselves"),
        Criterion("no_room", 1, "room that is lacking, or what has gone, is refused, and nothing changes"),
        Criterion("free", 1, "every block that nobody holds is free, once"),
        Criterion("kept", 1, "free blocks are found until their room is needed, and go in order"),
        Criterion("copies", 1, "a found block is copied before it is written into, if another holds it"),
        Criterion("twins", 1, "of equal beginnings the first is found, and the others never"),
        Criterion("work", 1, "calls take as long on a large cache as on a small one", ("free",)),
    ),
    cases=_cases,
    judge=_judge,
)
