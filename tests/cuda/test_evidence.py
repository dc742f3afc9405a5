"""``make evidence``, which measures a GPU: a dry run on the virtual card takes every step, fits recover the constants that
the simulator was given, and the book reads its figures from the newest record that holds them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gpulab.cuda
import gpulab.evidence
from evidence import cells, constants
from evidence.studies import Study, answered
from evidence.workloads import WORKLOADS
from gpulab.cards import constants as assumed
from gpulab.traces import read

ROOT = Path(gpulab.cuda.__file__).parents[2]


def command(*options, **more):
    line = [sys.executable, "-m", "evidence", *options]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=300, **more)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is at hand")
def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path):
    done = command("--out", str(tmp_path))
    assert done.returncode == 1 and "no GPU" in done.stderr and list(tmp_path.iterdir()) == []


def test_a_dry_run_takes_every_step_and_says_that_it_measured_nothing(tmp_path):
    done = command("--runtime", "virtual", "--no-tests", "--only", "add, 1 Mi", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "nothing in it was measured" in done.stdout
    (path,) = tmp_path.iterdir()
    record = json.loads(path.read_text())
    assert re.fullmatch(r"H100-\d{4}-\d\d-\d\d\.json", path.name)
    assert record["card"] == "H100" and record["runtime"] == "virtual"
    assert {"torch", "triton", "numba-cuda", "python"} <= set(record["versions"])
    assert [row["name"] for row in record["workloads"]] == ["add, 1 Mi float32"]
    for row in record["workloads"]:
        assert row["error_us"] == pytest.approx(0, abs=0.02) and row["error_peak_bytes"] == 0
    assert gpulab.evidence.latest("H100", tmp_path) is None


@pytest.mark.audit
def test_there_are_more_than_twenty_workloads_and_the_simulator_runs_each():
    assert len(WORKLOADS) >= 20
    with gpulab.cuda.use("ghost:A100", quiet=True):
        for name, prepare in WORKLOADS.items():
            if "autocast" not in name:  # autocast reads values, and a ghost card has shapes alone
                prepare()()


def _reached(card, fmt):
    return card.matrix_flops_per_s(fmt)


def test_the_fit_of_kernels_finds_the_models_constants():
    with gpulab.cuda.use("ghost:A100", quiet=True) as runtime:
        found = constants.of_kernels()
    for constant in found.values():
        if constant["assumed"] is not None:
            assert constant["value"] == pytest.approx(constant["assumed"], rel=0.02)
    assert found["device memory"]["value"] == pytest.approx(runtime.card.sustained_bytes_per_s, rel=0.02)
    for name in ("fp32", "tf32", "fp16", "bf16"):
        assert found[f"matmul, {name}"]["value"] == pytest.approx(_reached(runtime.card, name), rel=0.02)


def test_the_fit_of_copies_finds_the_models_constants():
    with gpulab.cuda.use("virtual:A100", quiet=True) as runtime:
        found = constants.of_copies()
    pinned = runtime.card.link_bytes_per_s * assumed.LINK_EFFICIENCY
    for kind in ("HtoD", "DtoH"):
        assert found[f"{kind} pinned, rate"]["value"] == pytest.approx(pinned, rel=0.02)
        assert found[f"{kind} pinned, latency"]["value"] == pytest.approx(assumed.COPY_LATENCY_US, rel=0.02)
        rate = found[f"{kind} pageable, rate"]
        assert rate["value"] == pytest.approx(rate["assumed"], rel=0.02)


def record(card, date, runtime="real"):
    versions = {"cuda": "13.0", "torch": "2.13.0"}
    return {"card": card, "date": date, "runtime": runtime, "device": card, "driver": "580", "versions": versions}


def test_the_book_reads_the_newest_record_of_a_card(tmp_path):
    for number, (card, date) in enumerate([("H100", "2026-02-01"), ("H100", "2026-03-01"), ("T4", "2026-04-01")]):
        (tmp_path / f"{number}.json").write_text(json.dumps(record(card, date)))
    (tmp_path / "dry.json").write_text(json.dumps(record("H100", "2026-09-01", runtime="virtual")))
    assert gpulab.evidence.latest("H100", tmp_path)["date"] == "2026-03-01"
    said = gpulab.evidence.provenance("H100", tmp_path)
    assert said == "Measured on H100, driver 580, CUDA 13.0, PyTorch 2.13.0, 2026-03-01."


def test_a_record_without_the_part_that_is_asked_for_is_passed_over(tmp_path):
    for number, (date, counters) in enumerate([("2026-02-01", {"kernels": []}), ("2026-03-01", None)]):
        (tmp_path / f"{number}.json").write_text(json.dumps(record("H100", date) | {"counters": counters}))
    assert gpulab.evidence.latest("H100", tmp_path, holding="counters")["date"] == "2026-02-01"


def test_without_a_record_the_book_says_modelled(tmp_path):
    said = gpulab.evidence.provenance("A100", tmp_path)
    assert said == "Modelled: no measurement of NVIDIA A100-SXM4-80GB is recorded."


def test_a_device_is_known_by_its_name():
    assert gpulab.evidence.card_of("NVIDIA H100 80GB HBM3") == "H100"
    assert gpulab.evidence.card_of("Tesla T4 (virtual)") == "T4" and gpulab.evidence.card_of("NVIDIA B200") is None


def test_every_record_in_the_repository_names_device_driver_versions_and_date():
    for found in gpulab.evidence.records():
        assert found["device"] and found["driver"] and found["versions"]["torch"] and found["date"]


def test_a_row_that_fails_says_why_and_ends_no_other():
    def rows():
        yield "fails", lambda: torch.empty(-1)
        yield "holds", lambda: {"us": 1.0}

    with gpulab.cuda.use("ghost:H100", quiet=True):
        found = answered(Study(rows, "", ()))
    assert found["fails"]["why"].startswith("RuntimeError") and found["holds"] == {"us": 1.0}


def test_cells_keep_their_lines_and_their_names_and_hidden_tests_are_left_out():
    path = ROOT / "exercises/streams/notebook.py"
    lines, found = path.read_text().splitlines(), cells.cells_of(path)
    assert "honest_time_seen" in {cell.name for cell in found} and not any(
        "HIDDEN TESTS" in cell.source for cell in found
    )
    for cell in [*found, *cells.cells_of(page := ROOT / "chapters/device/streams.md")]:
        text = lines if cell in found else page.read_text().splitlines()
        first = next(i for i, line in enumerate(cell.source.splitlines()) if line.strip())
        assert text[cell.line - 1 + first] == cell.source.splitlines()[first]


def test_a_cell_that_raises_ends_no_other_and_what_a_page_prints_of_a_card_is_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    page = tmp_path / "page.md"
    page.write_text("```{code-cell} ipython3\n1 / 0\n```\n\n```{code-cell} ipython3\n:tags: [x]\nprint('cuda')\n```\n")
    found = cells.ran(page, real=False)
    assert [bad["error"] for bad in found["raised"]] == ["ZeroDivisionError: division by zero"]
    assert [cell["printed"] for cell in found["printed"]] == ["cuda\n"] and found["cells"] == 2


def test_a_rank_keeps_its_virtual_card_where_cells_run_on_the_gpu(monkeypatch):
    asked = []
    monkeypatch.setattr(gpulab.cuda, "use", lambda which="auto", **how: asked.append(which))
    cells._the_gpu_for_virtual()
    monkeypatch.setattr(cells.os, "getpid", lambda: -1)
    gpulab.cuda.use("virtual:H100")
    assert asked == ["virtual:H100"]


def test_a_study_is_read_from_the_newest_record_that_holds_it(tmp_path):
    for number, (date, studies) in enumerate([("2026-02-01", {"x": {"measured": {"row": {}}}}), ("2026-03-01", {})]):
        (tmp_path / f"{number}.json").write_text(json.dumps(record("H100", date) | {"studies": studies}))
    assert gpulab.evidence.study("x", folder=tmp_path) == {"row": {}}
    assert gpulab.evidence.where("x", folder=tmp_path) == "measured on an H100, 2026-02-01"
    with pytest.raises(KeyError, match="no record of H100 holds 'y'"):
        gpulab.evidence.study("y", folder=tmp_path)


def test_what_a_page_shows_as_printed_on_a_card_was_printed_by_a_cell_that_it_still_has():
    shown = re.compile(r'evidence\.printed\("(chapters/[^"]+)", "([^"]+)"\)')
    asked = {found for page in (ROOT / "chapters").rglob("*.md") for found in shown.findall(page.read_text())}
    assert asked
    for page, text in asked:
        kept = gpulab.evidence.latest("H100", holding="cells")["cells"][page]["printed"]
        (source,) = {cell["source"] for cell in kept if text in cell["source"]}
        assert source in {cell.source.strip() for cell in cells.cells_of(ROOT / page)}, (
            f"{page}: measure its cells anew"
        )


def test_the_recorded_trace_is_of_a_gpu_and_the_reader_opens_it():
    trace = read(gpulab.evidence.trace())
    assert not trace.modelled and trace.name == "NVIDIA H100 80GB HBM3"
    assert gpulab.evidence.trace().stat().st_size < 300_000
