"""A learner's notebook, read, restored and run beside the referee: no part of it needs nbgrader."""
