"""Runs beside the learner's code and records what it did. Knows no expected answer."""
