"""Chapter "Collectives and interconnects": what its exercises share beside the learner's functions."""

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""


def job(question: dict) -> tuple:
    return question["kind"], question["nbytes"], question["n"], tuple(question["alpha"]), tuple(question["beta"])
