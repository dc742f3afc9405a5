"""``make audit``: all that is too slow for every change. ``python -m tests.audit --help``

It is made of units, each a process of its own: an exercise with every attempt, thirty seeds and its mutants; a room's or a
chapter's tests with those marked ``audit``; rooms that rest on PyTorch's internals with the newest PyTorch, too; every
operation of PyTorch's own table. It may be interrupted and goes on.
"""
