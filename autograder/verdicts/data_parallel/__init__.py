"""Chapter "Data parallelism in depth": its exercises, in order."""

from autograder.verdicts.data_parallel.best_bucket import best_bucket as best_bucket
from autograder.verdicts.data_parallel.epoch_indices import epoch_indices as epoch_indices
from autograder.verdicts.data_parallel.find_desync import find_desync as find_desync
from autograder.verdicts.data_parallel.mini_ddp import mini_ddp as mini_ddp
from autograder.verdicts.data_parallel.reduce_metrics import reduce_metrics as reduce_metrics
