"""E8.1 round_to: what runs beside the learner's function."""

from autograder.runner.observed import storage_address
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Round, and ask for the fields; either may raise."""
    x, fmt = case["x"], tuple(case["fmt"])
    given, lies_at = x.detach().clone(), storage_address(x)
    values = outcome(lambda: learner.round_to(x, fmt))
    fields = outcome(lambda: learner.float_fields(given, fmt))
    apart = not x.numel() or storage_address(values.get("returned")) != lies_at
    return {"round_to": values, "float_fields": _tuple_of(fields), "x": x, "apart": apart}


def _tuple_of(answer: dict) -> dict:
    """A list is no tuple; across the wire both would be lists."""
    if isinstance(answer.get("returned"), list):
        return {"returned": "a list"}
    return answer
