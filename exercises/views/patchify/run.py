"""E1.2 patchify: what runs beside the learner's function."""

from autograder.runner.observed import observe, record_inputs, storage_address
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Cut the images, watched; ``turned_first``: when the same memory has been cut before, read the other way."""
    images, patch = case["images"], case["patch"]
    if case["turned_first"]:
        learner.patchify(images.transpose(2, 3), patch)
    given = images.detach()
    record_inputs(given)
    with observe() as seen:
        patches = learner.patchify(images, patch)
    return {
        "images": images,
        "given": given,
        "patches": patches,
        "result_addresses": [storage_address(patches)],
        "seen": seen.to_dict(),
    }
