"""Runs in the grader: draws cases, checks evidence against a reference. Never inside the sandbox."""
