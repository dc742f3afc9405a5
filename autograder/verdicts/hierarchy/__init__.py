"""Chapter "The memory hierarchy": the exercises E4.1 to E4.5, in order."""

from autograder.verdicts.hierarchy.counting import work
from autograder.verdicts.hierarchy.requests import sectors
from autograder.verdicts.hierarchy.roofs import roofline
from autograder.verdicts.hierarchy.sums import row_sums
from autograder.verdicts.hierarchy.tiles import tiled_matmul

__all__ = ["sectors", "row_sums", "tiled_matmul", "work", "roofline"]
