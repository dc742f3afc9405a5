"""E19.2's rules: which criterion a call loses, by what it gave and by the tables that are shown after it."""

from dataclasses import dataclass, field
from typing import Any

from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from exercises.engines.block_allocator.books import Asked, Script

Fault = tuple[str, str]
"""A criterion, and why it is lost."""

_METHODS = {"append": "room", "fork": "fork", "release": "free", "table": "room", "length": "room"}
"""The criterion that an exception loses which has no place anywhere."""
_DUE = {
    "KeyError": "There is no such sequence, or no longer.",
    "ValueError": "`append` of fewer tokens than one is refused, and `fork` under the name of a sequence that is there already.",
    "MemoryError": "Fewer blocks are free than the tokens need, the target of a copy counted too.",
}


@dataclass
class Served:
    """``finished``: nothing that was shown differs from what is due, up to the releases at the end."""

    faults: list[Fault] = field(default_factory=list)
    finished: bool = False

    @property
    def leaks(self) -> bool:
        """Whether `free` is wrong: then blocks run short too early or too late, or are copied in vain, by the same fault."""
        return any(criterion == "free" for criterion, _ in self.faults)


def served(script: Script, played: dict) -> Served:
    """What went wrong in a trace, up to the first call after which something else is shown than is due."""
    found = Served()
    if problem := _made_fault(script, played):
        found.faults.append(problem)
        return found
    if min(map(min, script.made)) < 1:
        found.finished = True
        return found
    if problem := count_problem(played["steps"], len(script.asked)):
        found.faults.append(("room", problem))
        return found
    blocks: list[dict[int, int]] = [{} for _ in script.made]
    free = [total for total, _ in script.made]
    for number, (step, asked) in enumerate(zip(played["steps"], script.asked)):
        found.finished |= number == script.needed
        call = _call_fault(step, asked)
        if _listed(step["looked"]):
            found.faults.append(("apart", "`table` returned a tuple; expected a list, which the caller may change."))
        before = dict(blocks[asked.of])
        shown = _shown_fault(step, asked, script.made[asked.of][0], free[asked.of], blocks[asked.of])
        if asked.what == "append" and not (asked.raises or call or shown):
            call = _copies_fault(step["returned"], asked, before, blocks[asked.of])
        fault = call or shown
        if fault and not (found.leaks and fault[0] in ("memory", "in_place")):
            found.faults.append(fault)
        if shown:
            return found
        free[asked.of] = step["looked"]["free"]
        if not found.leaks and (problem := _free_fault(free[asked.of], asked)):
            found.faults.append(problem)
    found.faults += _kept_fault(script, played)
    return found


def _made_fault(script: Script, played: dict) -> Fault | None:
    if problem := count_problem(played["made"], len(script.made)):
        return "room", problem
    for sizes, error in zip(script.made, played["made"]):
        problem = (
            _error_problem({"error": error} if error else {"returned": None}, "ValueError") if min(sizes) < 1 else None
        )
        if min(sizes) < 1 and (not error or problem):
            told = f"raised {error['type']}" if error else "returned"
            return "errors", f"The function {told}; expected ValueError, since `total` or `size` is less than 1."
        if min(sizes) >= 1 and error:
            return "room", raised_problem(error)
    return None


def _error_problem(step: dict, expected: str) -> str | None:
    """Also where one class is several of the exceptions: it does not say which is due."""
    if problem := error_problem(step, expected):
        return problem.replace("The function", "A call", 1)
    others = {"KeyError", "ValueError", "MemoryError"} - {expected}
    if others & set(step["error"]["kinds"]):
        return (
            f"The exception is {expected} and {min(others & set(step['error']['kinds']))} at once; expected {expected}."
        )
    return None


def _call_fault(step: dict, asked: Asked) -> Fault | None:
    """What a call raised and should not have, or should have."""
    if asked.raises:
        if problem := _error_problem(step, asked.raises):
            problem = problem.replace("A call", f"`{asked.what}`", 1)
            return "memory" if asked.raises == "MemoryError" else "errors", f"{problem} {_DUE[asked.raises]}"
        return None
    if "error" not in step:
        return None
    if "MemoryError" in step["error"]["kinds"]:
        if asked.what == "fork":
            return "fork", "`fork` raised MemoryError: it takes no block, so it needs none that is free."
        return "memory", (
            f"`{asked.what}` raised MemoryError where the free blocks suffice. The empty places of the last block cost nothing, "
            "nor does writing in place, and only a copy that is due adds one block."
        )
    return _METHODS[asked.what], _sentence(raised_problem(step["error"]))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _shown_fault(step: dict, asked: Asked, total: int, free: int, blocks: dict[int, int]) -> Fault | None:
    """Whether the allocator stands as is due. ``blocks``: which block each serial number is, brought up to date; ``free``: as it was shown before."""
    looked = step["looked"]
    refused = "memory" if asked.raises == "MemoryError" else "errors"
    if step["blind"] is not None or not isinstance(looked, dict):
        what = f"After `{asked.what}`, `free`, `length` or `table` raised what is not due: "
        return (refused if asked.raises else _METHODS[asked.what]), _sentence(what + raised_problem(step["blind"]))
    if problem := count_problem(looked["sequences"], len(asked.after.sequences)):
        return "room", problem
    if fault := _kind_fault(looked, total):
        return fault
    shown = dict(zip(asked.after.sequences, looked["sequences"]))
    if not asked.raises:
        return _table_fault(asked, shown, blocks)
    if looked["free"] != free or _differ(asked, shown, blocks):
        return refused, "A call that is refused changed what is free, a length or a table."
    return None


def _free_fault(free: int, asked: Asked) -> Fault | None:
    if free == asked.after.free:
        return None
    what = (
        "`free` is too {}, where the tables are right: it is the number of blocks that stand in no table. A block {}."
    )
    if free < asked.after.free:
        return "free", what.format(
            "small", "in several tables is taken once, and is free when the last of them has gone"
        )
    return "free", what.format("large", "is not free while a table names it")


def _kind_fault(looked: dict, total: int) -> Fault | None:
    if type(looked["free"]) is not int:
        return "free", f"`free` is {type_name(looked['free'])}; expected a property that is an integer."
    for length, table in looked["sequences"]:
        if type(length) is not int:
            return "room", f"`length` returned {type_name(length)}; expected an integer."
        if not isinstance(table, list):
            return "room", f"`table` returned {_kind(table)}; expected a list."
        if not all(type(block) is int and 0 <= block < total for block in table):
            return "room", "A table names something that is no block: integers from 0 to total - 1 are due."
    return None


def _listed(looked: Any) -> bool:
    """Whether tables are tuples; they are lists afterwards, so that it costs one criterion."""
    found = False
    for one in looked["sequences"] if isinstance(looked, dict) else ():
        if isinstance(one[1], dict) and "tuple" in one[1]:
            one[1], found = one[1]["tuple"], True
    return found


def _kind(value: Any) -> str:
    return "a tuple" if isinstance(value, dict) and "tuple" in value else type_name(value)


def _differ(asked: Asked, shown: dict, blocks: dict[int, int], but: Any = object()) -> bool:
    """Whether a sequence other than ``but`` shows another length or table than is due."""
    return any(
        length != asked.after.sequences[name][0]
        or table != [blocks.get(serial) for serial in asked.after.sequences[name][1]]
        for name, (length, table) in shown.items()
        if name != but
    )


def _table_fault(asked: Asked, shown: dict, blocks: dict[int, int]) -> Fault | None:
    if asked.what == "append" and (fault := _append_fault(asked, *shown[asked.by[0]], blocks)):
        return fault
    used = {serial for _, table in asked.after.sequences.values() for serial in table}
    for serial in blocks.keys() - used:
        del blocks[serial]
    if asked.what == "fork":
        length, table = shown[asked.by[1]]
        if length != asked.after.sequences[asked.by[1]][0]:
            return "fork", "`length` of a child is not that of its parent after the fork."
        if table != [blocks[serial] for serial in asked.after.sequences[asked.by[1]][1]]:
            return (
                "fork",
                "The child's table does not name the blocks of its parent's, in their order: a fork shares all and takes none.",
            )
    if _differ(asked, shown, blocks):
        return "apart", f"`{asked.what}` changed the table or the length of a sequence that it is not about."
    return None


def _append_fault(asked: Asked, length: int, table: list[int], blocks: dict[int, int]) -> Fault | None:
    expected, own = asked.after.sequences[asked.by[0]]
    if length != expected:
        return (
            "room",
            "`length` is not the number of tokens that were appended, those of the parent counted where it was forked.",
        )
    if len(table) != len(own):
        few = "fewer" if len(table) < len(own) else "more"
        return "room", f"After `append` a sequence has {few} blocks in its table than `ceil(length / size)`."
    _, old = asked.before.sequences.get(asked.by[0], (0, ()))
    taken = set(blocks.values())
    for at, (serial, block) in enumerate(zip(own, table)):
        if at < len(old) and serial == old[at]:
            if block != blocks[serial]:
                return "in_place", (
                    "A block of the sequence was replaced that stays: only a last block that is partly filled and stands in another "
                    "table too is replaced by a copy."
                )
            continue
        if at < len(old) and block == blocks[old[at]]:
            return "shared", (
                "`append` writes into a block that stands in another table too. It has to put a free block in its place first, "
                "whether a parent or a child writes, and also where the other reads other places of it."
            )
        if block in taken:
            return "free", "`append` took a block that is not free: it stands in a table already."
        blocks[serial] = block
        taken.add(block)
    return None


def _copies_fault(returned: Any, asked: Asked, before: dict[int, int], blocks: dict[int, int]) -> Fault | None:
    """What `append` returned, where the tables are right."""
    if not isinstance(returned, list):
        return "copies", f"`append` returned {_kind(returned)}; expected a list, an empty one where no copy is due."
    old, new = (stand.sequences.get(asked.by[0], (0, ()))[1] for stand in (asked.before, asked.after))
    due = [[before[was], blocks[now]] for was, now in zip(old, new) if was != now]
    told = [pair["tuple"] if isinstance(pair, dict) and "tuple" in pair else pair for pair in returned]
    if told == due:
        return None
    if not due:
        return "copies", "`append` returned something where no copy is due: the list is empty then."
    if not told:
        return (
            "copies",
            "`append` replaced a shared block by a free one, and the list that it returned does not name the copy.",
        )
    return "copies", (
        "`append` returned another list than the one copy that is due, `(source, target)`: from the block that was the last to "
        "the one that takes its place."
    )


def _kept_fault(script: Script, played: dict) -> list[Fault]:
    if script.lists != "keeps":
        return []
    then = [
        value
        for step in played["steps"]
        for value in (step.get("returned"), *(table for _, table in step["looked"]["sequences"]))
    ]
    if played["kept"] == [value for value in then if isinstance(value, list)]:
        return []
    return [("apart", "A list that was returned has changed since: each call returns a new one.")]
