"""The commands of ``python -m autograder``."""
