"""What is wrong with a run: each fault overrides the one thing that it breaks."""

import numpy as np
import torch
from torch import Tensor, nn

from gpulab.model.world import BINS, WORDS


class Fault:
    """Nothing is wrong."""

    times = 1.0
    """The peak learning rate, as a multiple of the right one."""

    def gain(self, step: int) -> float:
        """How many times too large the numbers inside the MLPs are at a step."""
        return 1.0

    def position(self, step: int) -> int:
        """Where the sampler stands at a step."""
        return step

    def spoil(self, step: int, shard: int, batch: list[Tensor]) -> list[Tensor]:
        """What is read in place of a batch: images, word ids, action tokens."""
        return batch

    def strike(self, step: int, policy: nn.Module) -> None:
        """What happens to the policy before a step."""


class BadBatch(Fault):
    """The frames of one batch were decoded to noise, and their actions belong to other frames."""

    at = 180

    def spoil(self, step, shard, batch):
        if step != self.at:
            return batch
        image, text, actions = batch
        noise = np.random.default_rng(step).integers(0, 256, image.shape, dtype=np.uint8)
        return [torch.from_numpy(noise), text, actions.roll(1, 0)]


class LearningRate(Fault):
    """The peak rate is twenty times too high."""

    times = 20.0


class Overflow(Fault):
    """The numbers inside the MLPs double every 150 steps, as bf16 would let them; fp16 ends at 65,504."""

    def gain(self, step):
        return 2.0 ** (12 + step / 150)


class PoisonedShard(Fault):
    """In one shard of the data set every third action has the wrong sign."""

    shard = 4

    def spoil(self, step, shard, batch):
        if shard != self.shard:
            return batch
        image, text, actions = batch
        actions = actions.clone()
        actions[::3] = 2 * len(WORDS) + BINS - 1 - actions[::3]
        return [image, text, actions]


class StaleSampler(Fault):
    """The job is restarted every 40 steps, and its checkpoint does not say where the sampler stood."""

    every = 40

    def position(self, step):
        return step % self.every


class FlippedBit(Fault):
    """The highest exponent bit of one weight, in the bias of the patch embedding, flips."""

    at, bit, channel = 150, 30, 7

    def strike(self, step, policy):
        if step == self.at:
            bits = policy.patch_embed.bias.data.view(torch.int32)
            bits[self.channel] ^= 1 << self.bit


FAULTS: dict[str, Fault] = {
    "healthy": Fault(),
    "bad batch": BadBatch(),
    "learning rate": LearningRate(),
    "overflow": Overflow(),
    "poisoned shard": PoisonedShard(),
    "stale sampler": StaleSampler(),
    "flipped bit": FlippedBit(),
}
