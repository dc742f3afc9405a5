"""Tests that settle the claims of the chapter "Platforms: serverless, tenancy, compliance", one per claim."""

import pytest

from gpulab.platforms import (
    Endpoint,
    Graph,
    Load,
    Policies,
    Statement,
    Work,
    audit,
    bandwidths,
    fixed,
    replay,
    timeline,
)

WAY = ("network, 100 Gb/s", "NVMe, PCIe 4", "PCIe 4 x16")


def started(weights, needed=10e9):
    return timeline(
        [
            Load("image", 10e9, WAY[:1], chunk=1e8, needed=needed),
            Work("runtime", 5, ("image",)),
            Load("weights", weights, WAY, chunk=1e9),
            Work("graphs", 10, ("runtime", "weights")),
        ],
        bandwidths(*WAY),
    )


def test_a_lazy_image_saves_nothing_where_weights_are_waited_for():
    assert started(140e9, needed=1e9).ready == started(140e9).ready and started(140e9).critical == ("weights", "graphs")
    assert started(1e9, needed=1e9).ready < started(1e9).ready and started(1e9).critical[0] == "image"


def test_an_endpoint_without_a_policy_of_its_own_leaks():
    anything = Policies(
        {"role": [Statement("Allow", ("s3:PutObject",))]}, ["s3:PutObject"], {"ours": True, "theirs": False}
    )
    routes, workloads = {"app": ["door"], "door": ["internet"]}, {"app": "role"}
    found = audit(Graph(routes, workloads, {"door": Endpoint()}), anything)
    assert found["internet"] == set() and found["leaks"] == {("app", "theirs")}
    fenced = Endpoint((Statement("Allow", ("*",), ("ours",)),))
    assert audit(Graph(routes, workloads, {"door": fenced}), anything)["leaks"] == set()


@pytest.mark.parametrize("ratio", [1.5, 2, 4])
def test_serverless_is_cheaper_below_one_over_the_ratio_of_prices(ratio):
    """One request at a time: what is paid of an instance that exists for requests alone, against one that is always there."""
    cold, service, seconds = 20, 10, 6000
    for every in (31, 45, 60, 90, 120, 300):
        one = replay(fixed(0), [int(second % every == 0) for second in range(seconds)], cold, service)
        paid = one.unused + service * len(one.waits)
        assert (ratio * paid < seconds) == (paid / seconds < 1 / ratio)
        assert paid == pytest.approx(seconds * (cold + service + 1) / every, rel=0.05)
