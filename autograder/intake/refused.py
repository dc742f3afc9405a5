"""Why nothing can be made of what was handed in."""


class NotGradable(Exception):
    """Says in one sentence, for the learner and the instructor, why and what to do."""
