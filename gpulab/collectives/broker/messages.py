"""Error messages about collectives: one paragraph, each rank with its line, and what to do."""

import os
from collections.abc import Collection, Iterable

from gpulab.collectives.broker.calls import Call
from gpulab.observe.records import SourceLine


def at(line: SourceLine | None) -> str:
    """``at train.py:12 `dist.all_reduce(x)` ``, with a space before it; nothing without a line."""
    if line is None:
        return ""
    code = f" `{line.text}`" if line.text else ""
    return f" at {_file(line.file)}:{line.number}{code}"


def _file(path: str) -> str:
    # A notebook's cell is a file of a name that nobody chose.
    folder, name = os.path.split(path)
    return "the cell" if "ipykernel" in folder or name.startswith("<") else name


def what(call: Call) -> str:
    """``all_reduce``, ``recv from rank 1``."""
    if call.is_message:
        return f"{call.operation} {'to' if call.operation == 'send' else 'from'} rank {call.peer}"
    return call.operation


def asked(call: Call) -> str:
    """What, of what and where: ``all_reduce SUM of 4 x 4 float32 at ...``."""
    of = f" of {call.shape} {call.dtype}" if call.dtype else ""
    how = f" {call.reduces}" if call.reduces else ""
    root = f" with root {call.root}" if call.root >= 0 and not call.is_message else ""
    return f"{what(call)}{how}{of}{root}{at(call.line)}"


_PLURAL = {"waits": "wait", "asks for": "ask for", "is": "are"}


def by_rank(verb: str, said: Iterable[tuple[int, str]]) -> str:
    """``rank 0 waits in ...; ranks 1, 2 and 3 wait in ...``: those that say the same together."""
    together: dict[str, set[int]] = {}
    for rank, text in said:
        together.setdefault(text, set()).add(rank)
    return "; ".join(
        f"{ranks_in_words(ranks)} {verb if len(ranks) == 1 else _PLURAL[verb]} {text}"
        for text, ranks in together.items()
    )


def ranks_in_words(ranks: Collection[int]) -> str:
    """``rank 3``, ``ranks 0 and 1``, ``ranks 0 to 7``, ``ranks 0, 2 and 5``."""
    ranks = sorted(ranks)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
