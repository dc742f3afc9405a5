"""What instructors run: hidden tests, the referee, the pipeline. Never shipped to learners."""

from autograder.hidden import grade

__all__ = ["grade"]
