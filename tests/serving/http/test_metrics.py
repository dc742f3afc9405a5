"""What Prometheus reads."""

import httpx
from prometheus_client.parser import text_string_to_metric_families as families


def test_prometheus_can_read_it(served):
    served.client.completions.create(model="tinyvla", prompt="go to", max_tokens=2)
    served.wait_until_nobody_is_there()
    answer = httpx.get(f"{served.url}/metrics")
    found = {family.name: family for family in families(answer.text)}
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    kinds = {
        name: found[f"gpulab_{name}"].type
        for name in ("num_requests_running", "kv_cache_usage_perc", "generation_tokens")
    }
    assert kinds == {"num_requests_running": "gauge", "kv_cache_usage_perc": "gauge", "generation_tokens": "counter"}
    ended = {
        sample.labels["finished_reason"]: sample.value
        for sample in found["gpulab_request_success"].samples
        if "_total" in sample.name
    }
    assert ended["finished"] >= 1 and found["gpulab_time_to_first_token_seconds"].type == "histogram"


def test_the_server_says_that_it_is_there(served):
    assert httpx.get(f"{served.url}/health").status_code == 200
