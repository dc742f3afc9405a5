"""Runs the learner's functions for the chapter "Staying alive: stability, schedules, checkpoints" and records what they did."""

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""
