"""The metrics of a run: TTFT, inter-token latency, throughput, goodput, waste of the KV cache."""

from functools import cached_property

import numpy as np

from gpulab.serving.plan import Budget
from gpulab.serving.record import Outcome, Step
from gpulab.serving.table import compare


class Report:
    """outcomes: every request's, in the order in which they were submitted. steps: one after the other. budget: of a step.
    modelled: whether a clock said how long the steps took, or a model was timed.

    Arrays are float64, one entry for each request that a token came of; percentiles are numpy's, interpolated.
    The metrics are those that vLLM exports (``vllm/v1/metrics/loggers.py``: ``time_to_first_token_seconds``,
    ``inter_token_latency_seconds``, ``request_time_per_output_token_seconds``, ``e2e_request_latency_seconds``,
    ``num_preemptions``), in microseconds.
    """

    def __init__(self, outcomes: list[Outcome], steps: list[Step], budget: Budget, modelled: bool) -> None:
        self.outcomes, self.steps, self.budget, self.modelled = outcomes, steps, budget, modelled

    @staticmethod
    def percentiles(values: np.ndarray, *percents: float) -> tuple[float, ...]:
        """Of ``values``, nan where there are none."""
        return tuple(float(np.percentile(values, percent)) if len(values) else float("nan") for percent in percents)

    @cached_property
    def _answered(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.told]

    @cached_property
    def ttft_us(self) -> np.ndarray:
        """Time to first token, from arrival."""
        return np.array([outcome.ttft_us for outcome in self._answered])

    @cached_property
    def tpot_us(self) -> np.ndarray:
        """Time per output token after the first, of requests that were told two or more."""
        return np.array([outcome.tpot_us for outcome in self._answered if outcome.told > 1])

    @cached_property
    def gaps_us(self) -> np.ndarray:
        """Inter-token latency: every gap between two tokens of one request, of all requests. One entry a gap."""
        gaps = [np.diff(outcome.token_us) for outcome in self._answered]
        return np.concatenate(gaps) if gaps else np.array([])

    @cached_property
    def total_us(self) -> np.ndarray:
        """From arrival to last token, of the finished."""
        return np.array([outcome.total_us for outcome in self.outcomes if outcome.state == "finished"])

    @cached_property
    def queue_us(self) -> np.ndarray:
        """From arrival to the first step that computed something of it, one entry for each that was ever let in."""
        return np.array([o.first_us - o.arrival_us for o in self.outcomes if o.first_us is not None])

    @property
    def finished(self) -> int:
        return self._count("finished")

    @property
    def aborted(self) -> int:
        return self._count("aborted")

    @property
    def refused(self) -> int:
        return self._count("refused")

    @property
    def preemptions(self) -> int:
        return sum(outcome.preemptions for outcome in self.outcomes)

    @property
    def busy_us(self) -> float:
        """Time in steps."""
        return sum(step.us for step in self.steps)

    @property
    def makespan_us(self) -> float:
        """From the first arrival to the end of the last step."""
        begin = min((outcome.arrival_us for outcome in self.outcomes), default=0.0)
        return self.steps[-1].begin_us + self.steps[-1].us - begin if self.steps else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Throughput: output tokens, whoever was told them."""
        return self._per_s(sum(outcome.told for outcome in self.outcomes))

    @property
    def requests_per_s(self) -> float:
        """Requests finished."""
        return self._per_s(self.finished)

    def goodput(self, ttft_us: float = np.inf, tpot_us: float = np.inf) -> float:
        """Requests a second that were finished by their own deadline, with a first token and a time per token within these."""
        good = [o for o in self.outcomes if o.in_time and o.ttft_us <= ttft_us and o.tpot_us <= tpot_us]
        return self._per_s(len(good))

    @property
    def late(self) -> int:
        """Requests with a deadline that did not meet it, for whatever reason."""
        return sum(outcome.deadline_us is not None and not outcome.in_time for outcome in self.outcomes)

    @property
    def found_share(self) -> float:
        """Of the prompts that were let in, the share of tokens that an allocator found in the cache. vLLM counts
        ``prefix_cache_hits`` and ``prefix_cache_queries``."""
        begun = [outcome for outcome in self.outcomes if outcome.first_us is not None]
        return sum(o.found for o in begun) / sum(o.prompt_tokens for o in begun) if begun else 0.0

    @property
    def kv_waste(self) -> float:
        """Of the cache that running requests reserved, the share without a token in it, over the time of the steps."""
        reserved, stored = self._over_time("reserved"), self._over_time("stored")
        return 1 - stored / reserved if reserved else 0.0

    @property
    def idle_slots(self) -> float:
        """Of the places that a step has (``budget.requests``), the share in which nothing was computed, over the time of
        the steps, whether or not someone waited."""
        return self._idle(self.steps)

    @property
    def idle_while_waiting(self) -> float:
        """The same over the steps that left somebody waiting: places that a scheduler could have filled. 0 if nobody waited."""
        return self._idle([step for step in self.steps if step.waiting])

    def table(self) -> str:
        """Every metric in a line, within 80 columns."""
        return compare({"": self})

    def _count(self, state: str) -> int:
        return sum(outcome.state == state for outcome in self.outcomes)

    def _per_s(self, count: float) -> float:
        return count / self.makespan_us * 1e6 if self.makespan_us else 0.0

    def _idle(self, steps: list[Step]) -> float:
        us = sum(step.us for step in steps)
        return 1 - sum(step.requests * step.us for step in steps) / (self.budget.requests * us) if steps else 0.0

    def _over_time(self, name: str) -> float:
        return sum(getattr(step, name) * step.us for step in self.steps)
