"""Runs the learner's functions for the chapter "Trading and debugging memory" and records what they did."""

PRELOAD = ("torch._dynamo",)
"""What ``torch.utils.checkpoint`` imports when it is first used."""
