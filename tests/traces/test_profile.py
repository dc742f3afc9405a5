"""gpulab.profile in one line: on the host, and on the virtual card."""

import json
import time

import pytest
import torch
from torch import nn

import gpulab
import gpulab.cuda
from gpulab.traces import read


class Slow:
    """Three batches at a time, each long in coming."""

    def __iter__(self):
        for _ in range(3):
            time.sleep(0.05)
            yield torch.ones(4, 4)


def test_a_loader_that_is_slow_is_named_and_begins_anew():
    given = []
    report = gpulab.profile(given.append, Slow(), steps=3, warmup=2)
    assert len(given) == 5 and report.verdict.kind == "input" and report.verdict.shares["input"] > 0.5
    assert report.rows()[0][0] == "input" and "measured on the host's processor" in report.table()


def test_exactly_the_steps_after_the_warm_up_are_in_the_trace(tmp_path):
    calls = []
    report = gpulab.profile(lambda: calls.append(torch.ones(8, 8) @ torch.ones(8, 8)), steps=2, warmup=3)
    assert len(calls) == 5 and len(report.trace.steps) == 2
    assert sum(event.name == "aten::mm" for event in report.trace.events) == 2
    report.save(tmp_path / "trace.json")
    assert (
        read(tmp_path / "trace.json") == report.trace
        and json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    )


def test_products_small_kernels_and_a_wait_in_each_step_look_different_in_the_model():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        large, small = (torch.ones(n, n, device="cuda") for n in (2048, 8))

        def waiting():
            for _ in range(8):
                small + small
                torch.cuda.synchronize()

        found = {
            "compute": gpulab.profile(lambda: large @ large, steps=2),
            "memory": gpulab.profile(lambda: [large + large for _ in range(4)], steps=2),
            "launch": gpulab.profile(lambda: [small + small for _ in range(20)], steps=2),
            "waiting": gpulab.profile(waiting, steps=2),
        }
    waiting = found.pop("waiting").verdict
    assert {kind: report.verdict.kind for kind, report in found.items()} == {kind: kind for kind in found}
    assert waiting.shares["sync"] > 0.2 and found["launch"].verdict.shares["sync"] < 0.05
    assert all("modelled (NVIDIA H100 80GB HBM3)" in report.table() for report in found.values())


def test_a_profile_shows_itself_as_a_figure_with_words_and_a_table():
    html = gpulab.profile(lambda: nn.functional.gelu(torch.ones(64, 64)), steps=1, warmup=1)._repr_html_()
    assert "A step&#x27;s time: " in html and "<pre>1 steps" in html


@pytest.mark.parametrize(
    ("how", "sentence"), [({"steps": 0}, "1 at least"), ({"warmup": 0}, "1 at least"), ({"inputs": []}, "empty")]
)
def test_no_steps_no_warm_up_and_no_inputs_are_refused(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        gpulab.profile(lambda *batch: None, **how)
