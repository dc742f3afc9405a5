"""Chapter "Feeding the device": its exercises, in order."""

from autograder.verdicts.feeding.make_loader import make_loader as make_loader
from autograder.verdicts.feeding.pick_workers import pick_workers as pick_workers
from autograder.verdicts.feeding.pipeline_throughput import pipeline_throughput as pipeline_throughput
from autograder.verdicts.feeding.tar_shards import tar_shards as tar_shards
