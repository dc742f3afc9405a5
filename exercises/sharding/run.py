"""Runs the learner's functions for the chapter "Sharded data parallelism: ZeRO and FSDP" and records what they did."""

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""
