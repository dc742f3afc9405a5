"""A job that trains a TinyVLA and then serves it, in parts that can be wrong."""

from gpulab.capstone.catalogue import catalogue, repair_of
from gpulab.capstone.job import Job
from gpulab.capstone.preflight import Check, preflight
from gpulab.capstone.registry import FAULTS, OPTIONS, Fault, Option
from gpulab.capstone.report import FIGURES, Report
from gpulab.capstone.target import healthy, same_losses, targets
from gpulab.capstone.ticket import OutOfRuns, Ticket

__all__ = [
    "FAULTS", "FIGURES", "OPTIONS", "Check", "Fault", "Job", "Option", "OutOfRuns", "Report", "Ticket", "catalogue", "healthy",
    "preflight", "repair_of", "same_losses", "targets",
]  # fmt: skip
