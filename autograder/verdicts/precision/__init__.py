"""Chapter "Precision": its exercises, in order."""

from autograder.verdicts.precision.amp_step import amp_step as amp_step
from autograder.verdicts.precision.dynamic_scaler import dynamic_scaler as dynamic_scaler
from autograder.verdicts.precision.round_to import round_to as round_to
from autograder.verdicts.precision.training_drift import training_drift as training_drift
