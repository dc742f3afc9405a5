"""What the server counts, in Prometheus' format. Names are vLLM's (``vllm/v1/metrics/loggers.py``), ``gpulab_`` for ``vllm:``;
``num_steps`` is ours."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpulab.serving.http.worker import Standing

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)


class Metrics:
    """standing: called at each scrape."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_OfEngine(standing))
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts that were let in.")
        self.generation_tokens = self._counter("generation_tokens", "Tokens that were generated.")
        self.ended = self._counter("request_success", "Requests that ended, by how.", "finished_reason")
        self.rejections = self._counter("admission_rejections", "Requests that were refused, the queue being full.")
        self.ttft = self._histogram("time_to_first_token_seconds", "From a request's arrival to its first token.")
        self.gap = self._histogram("inter_token_latency_seconds", "From one token of a request to the next.")
        self.whole = self._histogram("e2e_request_latency_seconds", "From a request's arrival to its last token.")

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(f"gpulab_{name}", help_, labels, registry=self.registry)

    def _histogram(self, name: str, help_: str) -> Histogram:
        return Histogram(f"gpulab_{name}", help_, registry=self.registry, buckets=SECONDS)


class _OfEngine(Collector):
    """The engine between two steps: all of one scrape at the same moment."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        now = self._standing()
        gauge = lambda name, says, value: GaugeMetricFamily(f"gpulab_{name}", says, value)
        counter = lambda name, says, value: CounterMetricFamily(f"gpulab_{name}", says, value)
        yield gauge("num_requests_waiting", "Requests that wait.", now.waiting)
        yield gauge("num_requests_running", "Requests that run.", now.running)
        yield gauge("kv_cache_usage_perc", "Blocks in use, 1 is all.", now.blocks_used / now.blocks)
        yield counter("num_preemptions", "Preemptions so far.", now.preemptions)
        yield counter("num_steps", "Steps of the engine so far.", now.steps)
