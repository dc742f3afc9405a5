"""Chapter "Data parallelism in depth": what the learner's functions did."""

from autograder.proctor import Learner
from autograder.scenarios.outcome import outcome
from autograder.scenarios.told import hand_over, observe, place


def mini_ddp(learner: Learner, case: dict) -> dict:
    """WRITE(mini_ddp): what is played, in a line."""
    given = case["x"].detach()  # WRITE(mini_ddp): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.mini_ddp(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def best_bucket(learner: Learner, case: dict) -> dict:
    """Ask every question, and look whether lists and dictionaries are as they were. Layers that are alike are one object."""
    answers = []
    for question in case["questions"]:
        alike: dict = {}
        layers = [alike.setdefault(str(layer), dict(layer)) for layer in question["layers"]]
        link, buckets = dict(question["link"]), list(question["buckets"])
        answer = outcome(lambda given=(layers, link, buckets): _by_size(learner.best_bucket(*given)))
        kept = (layers, link, buckets) == (question["layers"], question["link"], question["buckets"])
        answers.append({**answer, "kept": kept})
    return {"answers": answers}


def _by_size(value: object) -> object:
    """As it is now, its dictionaries as lists of pairs: a key that is a number does not cross as one."""
    if not isinstance(value, dict):
        return value
    return {key: _pairs(entry) if isinstance(entry, dict) else entry for key, entry in value.items()}


def _pairs(entry: dict) -> list:
    return [[size, _plain(us)] for size, us in entry.items()]


def _plain(number: object) -> object:
    """NumPy's float64 is a float too."""
    return float(number) if isinstance(number, float) else number


def epoch_indices(learner: Learner, case: dict) -> dict:
    """WRITE(epoch_indices): what is played, in a line."""
    given = case["x"].detach()  # WRITE(epoch_indices): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.epoch_indices(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def reduce_metrics(learner: Learner, case: dict) -> dict:
    """WRITE(reduce_metrics): what is played, in a line."""
    given = case["x"].detach()  # WRITE(reduce_metrics): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.reduce_metrics(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def find_desync(learner: Learner, case: dict) -> dict:
    """WRITE(find_desync): what is played, in a line."""
    given = case["x"].detach()  # WRITE(find_desync): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.find_desync(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}
