"""Chapter "Host and device: moving bytes": the exercises E5.1 to E5.3, in order."""

from autograder.verdicts.transfers.links import transfer_time
from autograder.verdicts.transfers.moves import move_to
from autograder.verdicts.transfers.overlap import overlapped

__all__ = ["overlapped", "transfer_time", "move_to"]
