"""The graph in steps: what the browser says is alive, visited and refused is what PyTorch did, on programs drawn at random."""

import random

import pytest
import torch

from gpulab import observe
from gpulab.widgets import GraphStepper
from gpulab.widgets.graph_stepper import NETWORKS
from gpulab.widgets.graph_stepper.recording import record
from tests.widgets.looks import assert_accessible, functions_of, in_every_look

UNARY = (
    "torch.relu({})",
    "{}.exp()",
    "{}.sin()",
    "{}.sigmoid()",
    "{}.tanh()",
    "{} * 2",
    "{} + 1",
    "-{}",
    "F.gelu({})",
    "{}.square()",
    "F.silu({})",
)
BINARY = ("{} + {}", "{} * {}", "{} @ {}", "{} - {}")
WRITES = ("{}.add_(1)", "{}.mul_(2)", "{}.relu_()", "{}.exp_()", "{}.sigmoid_()", "{}.zero_()")


javascript = functions_of("graph_stepper/model.js")


def leaves():
    return {name: torch.full((4, 4), 0.1, requires_grad=name.isupper()) for name in ("x", "W", "V")}


def drawn(seed):
    """Statements over names of shape (4, 4), with writes in place among them."""
    rng = random.Random(seed)
    names, lines = ["x", "W", "V"], []
    for number in range(rng.randint(3, 9)):
        if len(names) > 3 and rng.random() < 0.35:
            lines.append(rng.choice(WRITES).format(rng.choice(names[3:] if rng.random() < 0.75 else names)))
            continue
        form = rng.choice(UNARY + BINARY)
        args = [rng.choice(names[-4:]) for _ in range(form.count("{}"))]
        lines.append(f"t{number} = {form.format(*args)}")
        names.append(f"t{number}")
    return [*lines, f"loss = ({names[-1]} * W).sum()"]


def test_what_is_alive_visited_and_refused_is_what_pytorch_did(javascript):
    outcomes = {"raised": 0, "refused": 0, "legal": 0}
    for seed in range(150):
        lines = drawn(seed)
        recording = record(lines, leaves())
        found = javascript(
            "({ order: m.backward(given).visits, refuses: m.backward(given).refuses, "
            "alive: [...Array(m.steps(given) + 1).keys()].map((n) => m.state(given, n).alive) })",
            recording.plain(),
        )
        assert found["order"] == recording.order, lines
        assert found["refuses"] is bool(recording.refused), lines
        after = _after_each_step(recording)
        assert found["alive"][1 : 1 + len(after)] == after and len(after) >= len(recording.statements) - 1, lines
        outcomes["raised" if recording.raised else "refused" if recording.refused else "legal"] += 1
    assert min(outcomes.values()) >= 5, outcomes


def _after_each_step(recording):
    """What PyTorch had after each step: a look before a node of backward is one after the node before it."""
    ran = len(recording.statements) - bool(recording.raised)
    return recording.alive[:ran] + recording.alive[ran + 1 :]


def test_the_recorder_saves_what_observe_sees():
    for seed in range(40):
        lines = [line for line in drawn(seed) if "_(" not in line]
        recording, names = record(lines, leaves()), leaves()
        with observe(saved=True) as seen:
            for line in lines:
                exec(line, {"torch": torch, "F": torch.nn.functional}, names)
        reached = _reached(recording)
        nodes = [node for number, node in enumerate(recording.nodes) if number in reached]
        assert sum(len(node["saved"]) for node in nodes) <= len(seen.saved)
        stored = {saved["storage"] for node in nodes for saved in node["saved"]}
        assert sum(recording.storages[number]["bytes"] for number in stored) <= sum(saved.bytes for saved in seen.saved)
        everything = {saved["storage"] for node in recording.nodes for saved in node["saved"]}
        assert sum(recording.storages[number]["bytes"] for number in everything) == sum(
            saved.bytes for saved in seen.saved
        )


def _reached(recording):
    found, left = set(), [recording.statements[-1]["node"]]
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += recording.nodes[node]["next"]
    return found


def test_the_networks_of_the_page_agree_too(javascript):
    for network in NETWORKS.values():
        for recording in network.recordings().values():
            found = javascript("m.backward(given)", recording.plain())
            assert found == {"visits": recording.order, "refuses": bool(recording.refused)}


def test_the_same_run_is_recorded_the_same_twice():
    first, second = GraphStepper(), GraphStepper()
    assert first.recordings == second.recordings


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_next_walks_through_both_passes(mount):
    page = mount(GraphStepper())
    told = page.locator(".status")
    assert told.inner_text() == "Nothing has run. 11 steps."
    for step in range(1, 12):
        page.get_by_role("button", name="Next").click()
        assert told.inner_text().startswith(f"Step {step} of 11: ")
        if step == 4:
            assert shown(page, "saved for backward") == "100 KiB"
    assert told.inner_text().endswith("Backward is done: nothing is saved any more.")
    assert shown(page, "saved for backward") == "0 B" and shown(page, "gradients") == "144 KiB"


def test_a_refused_write_stops_backward_and_says_which_versions(mount):
    page = mount(GraphStepper(write="a.mul_(2) after line 3"))
    for _ in range(8):
        page.get_by_role("button", name="Next").click()
    assert "refuses" in page.locator(".status.bad").inner_text()
    assert page.locator("li.refuses .holds").inner_text() == "refuses: a was saved at v0 and is at v1"
    assert page.evaluate("model.get('step')") == 5 + 3


def test_a_write_to_a_parameter_raises_at_once(mount):
    page = mount(GraphStepper(write="V.add_(1) after line 3", step=4))
    assert "a leaf Variable that requires grad" in page.locator(".status").inner_text()
    assert page.get_by_role("button", name="Next").get_attribute("aria-disabled") == "true"


def test_another_network_begins_again_with_its_own_writes(mount):
    page = mount(GraphStepper(step=6))
    page.get_by_label("network").select_option("a residual and a norm")
    assert [page.evaluate(f"model.get('{name}')") for name in ("step", "write")] == [0, "nothing"]
    options = page.get_by_label("written in place").locator("option").all_inner_texts()
    assert options == list(NETWORKS["a residual and a norm"].recordings())


def test_the_keyboard_alone_steps(mount):
    page = mount(GraphStepper())
    page.get_by_role("button", name="Next").focus()
    for key in ("Enter", "Space", "Enter"):
        page.keyboard.press(key)
    assert page.evaluate("model.get('step')") == 3
    page.get_by_role("button", name="Play").press("Enter")
    page.wait_for_function("model.get('step') > 3")


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    for options in (
        {"step": 6},
        {"write": "a.mul_(2) after line 3", "step": 99},
        {"network": "a residual and a norm", "step": 3},
    ):
        assert_accessible(mount(GraphStepper(**options), width=width, scheme=scheme), width)


def test_what_there_is_not_is_refused():
    for options in ({"network": "a transformer"}, {"write": "x.add_(1)"}):
        with pytest.raises(ValueError, match="is one of"):
            GraphStepper(**options)
    with pytest.raises(ValueError, match="0 or more"):
        GraphStepper(step=-1)
