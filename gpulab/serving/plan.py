"""The interface of a scheduler: what it is asked in every step, and the plan that it returns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpulab.serving.blocks.blocks import Blocks
from gpulab.serving.requests import Live


@dataclass(frozen=True)
class Budget:
    """What one step may take: tokens computed, prompts' and outputs' together, and requests that run.

    The defaults are those of vLLM 0.33.0's API server on an H100: ``max_num_batched_tokens`` and ``max_num_seqs``
    (``vllm/engine/arg_utils.py``, ``get_batch_defaults``). On an A100 it takes 2,048 tokens and 256 requests.
    """

    tokens: int = 8192
    requests: int = 1024

    def __post_init__(self) -> None:
        if min(self.tokens, self.requests) < 1:
            raise ValueError(f"a step takes a token and a request at least, not {self.tokens} and {self.requests}")


@dataclass
class Plan:
    """One step. tokens: how many of whose tokens are computed, 1 to ``live.left`` of each.
    preempt: running requests that give back their blocks and wait again; all their tokens will be computed anew."""

    tokens: dict[Live, int] = field(default_factory=dict)
    preempt: list[Live] = field(default_factory=list)


class Scheduler(Protocol):
    """Decides who goes on."""

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Plan:
        """The next step.

        waiting: first come first, the preempted before all others. running: in the order in which they were let in. Both
        are copies. A request is let in by being given tokens. For every request in the plan there has to be room:
        ``blocks.reserve(live, tokens)``. The blocks of one in ``preempt`` may be released here, to be given to another
        in the same step; the engine releases them in any case.
        """
        ...
