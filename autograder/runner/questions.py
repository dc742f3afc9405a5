"""Questions to one function, asked one after the other: its answers, and what it left of what it was given."""

import pickle
from collections.abc import Callable, Iterable

from autograder.runner.library_calls import library_calls
from autograder.runner.outcome import outcome
from autograder.runner.plain import plain


def answered(function: Callable, questions: Iterable[tuple], *libraries: str) -> dict:
    """``answers``, in order, and which of ``libraries`` the function ``called``.

    An answer is what the call returned or raised; ``kept``: whether the arguments are as they were.
    """
    with library_calls(*libraries) as called:
        answers = [_asked(function, arguments) for arguments in questions]
    return {"answers": answers, "called": sorted(called)}


def _asked(function: Callable, arguments: tuple) -> dict:
    given = pickle.loads(pickle.dumps(arguments))
    return {**outcome(lambda: plain(function(*given))), "kept": given == arguments}
