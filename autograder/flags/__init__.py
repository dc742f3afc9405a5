"""What no honest answer needs, found by reading a learner's code before it runs: a reason for a person to look, never a verdict.

``allowed.py`` says what an answer may use, ``modules.py`` what is a module, ``names.py`` what a name stands for, ``magics.py``
what IPython makes of a line; ``rules`` are what is looked for, ``reader.py`` reads a syntax tree by them, ``submission.py`` a
submission, and ``noticed.py`` finds the cell of what a kernel told while it ran.
"""
