"""Pipelines as tables: schedules, what is wrong with one, what it costs; and the rank groups of a mesh.

>>> from gpulab.parallel import INTERVIEW_NOTES, one_f_one_b, violations
>>> [str(one) for one in violations(INTERVIEW_NOTES)][0]
'3B3 never runs'
>>> violations(one_f_one_b(4, 8))
[]

A table has one row for each GPU and one cell for each slot, ``None`` or an action such as ``"2F0"``:
:mod:`gpulab.parallel.actions`. Nothing is run here: all of it is counted. :mod:`gpulab.plots.schedule` draws it.
"""

from gpulab.parallel.actions import KINDS, Action, Place, Table, needs, places
from gpulab.parallel.checks import Violation, violations
from gpulab.parallel.measures import idle_share, in_flight, most_in_flight, slots
from gpulab.parallel.mesh import mesh_groups
from gpulab.parallel.placing import Span, orders, placed, timed
from gpulab.parallel.pytorch import NAMES, of_torch, orders_of_torch
from gpulab.parallel.schedules import INTERVIEW_NOTES, gpipe, one_f_one_b, zero_bubble

__all__ = [
    "INTERVIEW_NOTES", "KINDS", "NAMES", "Action", "Place", "Span", "Table", "Violation", "gpipe", "idle_share", "in_flight",
    "mesh_groups", "most_in_flight", "needs", "of_torch", "one_f_one_b", "orders", "orders_of_torch", "placed", "places", "slots",
    "timed", "violations", "zero_bubble",
]  # fmt: skip
