"""Chapter "Tensors are views": what the learner's functions did."""

from autograder.proctor import Learner
from autograder.scenarios.outcome import outcome
from gpulab import observe


def patchify(learner: Learner, case: dict) -> dict:
    """Cut the images, watched."""
    images, patch = case["images"], case["patch"]
    if case["refused"]:
        return outcome(lambda: learner.patchify(images, patch))
    with observe() as seen:
        patches = learner.patchify(images, patch)
    return {"images": images, "patches": patches, "seen": seen.to_dict()}
