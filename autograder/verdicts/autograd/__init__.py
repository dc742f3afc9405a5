"""Chapter "Autograd as a memory system": its exercises, in order."""

from autograder.verdicts.autograd.evaluate import evaluate as evaluate
from autograder.verdicts.autograd.inplace_legal import inplace_legal as inplace_legal
from autograder.verdicts.autograd.saved_bytes import saved_bytes as saved_bytes
from autograder.verdicts.autograd.train_step import train_step as train_step
