"""What the server counts, in Prometheus' format. Names are vLLM's (``vllm/v1/metrics/loggers.py``) with ``gpulab`` before them."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gpulab.serving.http.worker import Standing

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)


class Metrics:
    """standing: asked when somebody reads."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self.registry = CollectorRegistry()
        self._gauges(standing)
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts that were let in.")
        self.generation_tokens = self._counter("generation_tokens", "Tokens that were told.")
        self.ended = self._counter("request_success", "Requests that ended, by how.", "finished_reason")
        self.rejections = self._counter("admission_rejections", "Requests that were refused, the queue being full.")
        self.ttft = self._histogram("time_to_first_token_seconds", "From a request's arrival to its first token.")
        self.gap = self._histogram("inter_token_latency_seconds", "From one token of a request to the next.")
        self.whole = self._histogram("e2e_request_latency_seconds", "From a request's arrival to its last token.")

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _gauges(self, standing: Callable[[], Standing]) -> None:
        for name, help_, value in (
            ("num_requests_waiting", "Requests that wait.", lambda: standing().waiting),
            ("num_requests_running", "Requests that run.", lambda: standing().running),
            ("kv_cache_usage_perc", "Blocks in use, 1 is all.", lambda: standing().blocks_used / standing().blocks),
            ("num_preemptions", "Preemptions so far.", lambda: standing().preemptions),
            ("num_steps", "Steps of the engine so far.", lambda: standing().steps),
        ):
            Gauge(f"gpulab_{name}", help_, registry=self.registry).set_function(value)

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(f"gpulab_{name}", help_, labels, registry=self.registry)

    def _histogram(self, name: str, help_: str) -> Histogram:
        return Histogram(f"gpulab_{name}", help_, registry=self.registry, buckets=SECONDS)
