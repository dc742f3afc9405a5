"""Runs the learner's functions for the chapter "Capstone: fix a slow, unstable job" and records what they did."""

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
