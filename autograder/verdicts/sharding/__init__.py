"""Chapter "Sharded data parallelism: ZeRO and FSDP": its exercises, in order."""

from autograder.verdicts.sharding.comm_volume import comm_volume as comm_volume
from autograder.verdicts.sharding.mini_fsdp import mini_fsdp as mini_fsdp
from autograder.verdicts.sharding.zero_adam import zero_adam as zero_adam
