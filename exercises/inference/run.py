"""Runs the learner's functions for the chapter "Anatomy of LLM inference" and records what they did."""

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What is imported when a card is first used."""
