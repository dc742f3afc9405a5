"""Chapter "Capstone: fix a slow, unstable job": its exercises, in order."""

from autograder.verdicts.capstone.design_review import design_review as design_review
from autograder.verdicts.capstone.triage import triage as triage
