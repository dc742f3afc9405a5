"""Runs the learner's functions for the chapter "Serving engines" and records what they did."""

PRELOAD = ("gpulab.cuda.device.install", "gpulab.kernels.tiles.facade")
"""What paged_attention's scenario and its cell of the notebook import on first use."""
