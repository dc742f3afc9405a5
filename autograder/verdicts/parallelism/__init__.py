"""Chapter "Tensor, pipeline and 3D parallelism": its exercises, in order."""

from autograder.verdicts.parallelism.mesh_plan import mesh_plan as mesh_plan
from autograder.verdicts.parallelism.schedule_1f1b import schedule_1f1b as schedule_1f1b
from autograder.verdicts.parallelism.tensor_parallel_mlp import tensor_parallel_mlp as tensor_parallel_mlp
from autograder.verdicts.parallelism.validate_schedule import validate_schedule as validate_schedule
