"""Chapter "The CUDA execution model": the exercises E3.1 to E3.5, in order."""

from autograder.verdicts.execution.divergence_cost import divergence_cost
from autograder.verdicts.execution.grouping import regroup
from autograder.verdicts.execution.pictures import shade
from autograder.verdicts.execution.residence import occupancy
from autograder.verdicts.execution.vectors import add_vectors

__all__ = ["add_vectors", "shade", "divergence_cost", "regroup", "occupancy"]
