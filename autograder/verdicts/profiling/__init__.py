"""Chapter "Profiling: finding the bottleneck": its exercises, in order."""

from autograder.verdicts.profiling.diagnose import diagnose as diagnose
from autograder.verdicts.profiling.mfu import mfu as mfu
from autograder.verdicts.profiling.profile_steps import profile_steps as profile_steps
from autograder.verdicts.profiling.self_times import self_times as self_times
