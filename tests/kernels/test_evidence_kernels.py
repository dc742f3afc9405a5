"""``make evidence``, its kernels and counters: counts worked out by hand, ncu's answers read, refusals in words."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
import types
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import gpulab.cuda
from evidence import counters, kernels
from evidence.contests import JOBS, TILES, Contest, Job
from evidence.counters import COUNTERS, NotCounted
from evidence.probes import PROBES
from evidence.solutions import solutions
from evidence.timing import interleaved_us

# In the form of ncu's raw CSV page, written by hand: no card counted it, and one probe is made to differ.
NCU = (Path(__file__).parent / "data" / "ncu.csv").read_text()
THREE = {name: PROBES[name] for name in ("neighbours", "shared memory, stride 2", "row_softmax")}


# ---- the reference kernels


def test_the_reference_kernels_are_the_exercises_own():
    kernel = solutions("hierarchy").multiply_tiles.py_func
    path = Path(kernel.__code__.co_filename)
    assert path.parts[-3:] == ("exercises", "hierarchy", "notebook.py")
    assert path.read_text().splitlines()[kernel.__code__.co_firstlineno] == "def multiply_tiles(a, b, c):"


def test_loading_an_exercise_runs_none_of_its_cells():
    loaded = vars(solutions("hierarchy"))
    assert loaded["TILE"] == 16 and "runtime" not in loaded and gpulab.cuda.current() == "off"


@pytest.mark.parametrize("name", list(JOBS))
def test_a_dry_run_measures_every_reference_kernel(name):
    with gpulab.cuda.use("virtual:H100", quiet=True):
        row = kernels.measured(name, "H100")
    assert row["right"] and row["why"] is None and 0 < row["error"] < row["tolerance"]
    assert {"kernel", "library", "copy"} <= set(row["us"]) and 0 < row["share_of_roof"] <= 1.001
    assert row["ratio_to"]["library"] == row["us"]["library"]["median"] / row["us"]["kernel"]["median"]
    assert "not modelled" in row["no_compile"] and "torch.compile" not in row["us"]
    assert (Path(kernels.__file__).parents[1] / row["source"]).exists()


def test_the_kernels_that_the_issue_names_are_there_in_both_languages():
    assert {"add_vectors", "shade", "row_sums", "tiled_matmul", "row_softmax", "fused_gate", "linear_silu"} <= set(JOBS)
    assert {job.language for job in JOBS.values()} == {"numba", "triton"}


@pytest.mark.parametrize("job, least", [("add_vectors", 3 * 4 << 26), ("row_softmax", 2 * 4 * 16384 * 4096)])
def test_at_full_size_the_bytes_fill_no_cache(job, least):
    """256 MiB and more: several times the L2 cache of any card in the table."""
    assert least >= 256 << 20 and math.prod(JOBS[job].size) * 4 * (3 if job == "add_vectors" else 2) == least


def a_job(monkeypatch, kernel):
    """A job whose kernel is ``kernel`` and whose answer is a vector of ones."""
    ones = torch.ones(64, device="cuda")
    contest = Contest(kernel, (torch.clone, (ones,)), lambda: ones.double(), 512)
    monkeypatch.setitem(JOBS, "planted", Job("execution", "numba", "fp32", 1e-6, lambda: contest, (), ()))
    return kernels.measured("planted", "H100")


REFERENCES = {
    "gate_kernel": ("*fp32 *fp32 *fp32 *fp32 i32 i32", {"BLOCK": 1024}),
    "softmax_kernel": ("*fp32 *fp32 i32 i32", {"BLOCK": 4096}),
    "linear_silu_kernel": ("*fp16 *fp16 *fp16 *fp16 i32 i32 i32", {"BM": 32, "BN": 32, "BK": 32}),
}


@pytest.mark.parametrize(
    "capability", sorted({10 * c.capability[0] + c.capability[1] for c in gpulab.cuda.CARDS.values()})
)
@pytest.mark.parametrize("name", REFERENCES)
def test_every_triton_reference_kernel_becomes_machine_code_for_every_card(name, capability, tmp_path, monkeypatch):
    """Triton brings ptxas along, and needs no GPU to run it."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    types, constants = REFERENCES[name]
    kernel = getattr(solutions("kernels"), name)
    signature = dict(zip(kernel.arg_names, types.split())) | dict.fromkeys(constants, "constexpr")
    made = triton.compile(ASTSource(kernel, signature, constants), GPUTarget("cuda", capability, 32))
    assert made.asm["cubin"].startswith(b"\x7fELF") and f"sm_{capability}" in made.asm["ptx"]


@pytest.mark.parametrize("tile, warps, stages", TILES)
def test_the_layer_with_larger_tiles_uses_what_an_h100_has(tile, warps, stages, tmp_path, monkeypatch):
    """Triton's compiler needs no GPU: warp-group matrix instructions, and tiles that fit in 227 KiB."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    types = dict.fromkeys(("x_ptr", "weight_ptr", "bias_ptr", "out_ptr"), "*fp16") | dict.fromkeys("MNK", "i32")
    sixteen = {(number,): [["tt.divisibility", 16]] for number in range(len(types))}
    signature = types | dict.fromkeys(("BM", "BN", "BK"), "constexpr")
    kernel = solutions("kernels").linear_silu_kernel
    source = ASTSource(kernel, signature, dict(zip(("BM", "BN", "BK"), tile)), sixteen)
    made = triton.compile(source, GPUTarget("cuda", 90, 32), {"num_warps": warps, "num_stages": stages})
    assert "wgmma.mma_async" in made.asm["ptx"] and "cp.async" in made.asm["ptx"]
    assert made.metadata.shared <= 227 * 1024


@pytest.fixture
def h100():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


def test_a_wrong_kernel_is_not_right_however_fast(h100, monkeypatch):
    row = a_job(monkeypatch, lambda: torch.full((64,), 1.01, device="cuda"))
    assert not row["right"] and row["error"] == pytest.approx(0.01, rel=1e-3)


def test_a_kernel_that_gives_nan_is_not_right(h100, monkeypatch):
    row = a_job(monkeypatch, lambda: torch.full((64,), torch.nan, device="cuda"))
    assert not row["right"] and row["error"] == math.inf


def test_a_kernel_that_does_not_run_has_a_reason_and_no_time(h100, monkeypatch):
    def kernel():
        raise RuntimeError("no compiler\nand more")

    row = a_job(monkeypatch, kernel)
    assert row["why"] == "RuntimeError: no compiler" and not row["right"] and "us" not in row


def test_a_result_of_another_shape_has_a_reason(h100, monkeypatch):
    assert "(3,); expected (64,)" in a_job(monkeypatch, lambda: torch.ones(3, device="cuda"))["why"]


def test_calls_are_timed_alone_whatever_runs_between_them(h100):
    x, y = torch.ones(1 << 20, device="cuda"), torch.ones(1 << 22, device="cuda")
    alone = interleaved_us({"x": lambda: x.add_(1)})["x"]["median"]
    both = interleaved_us({"x": lambda: x.add_(1), "y": lambda: y.add_(1)})
    assert both["x"]["median"] == pytest.approx(alone) and both["y"]["median"] > 2 * alone


# ---- the probes: what a card's counters should say


BY_HAND = {  # global requests, sectors read, sectors written: of 8 warps unless the probe says otherwise
    "neighbours": (16, 8 * 4, 8 * 4),
    "neighbours, 1 element late": (16, 8 * 5, 8 * 4),
    "neighbours, 8 elements late": (16, 8 * 4, 8 * 4),
    "neighbours of 8 bytes": (16, 8 * 8, 8 * 8),
    "neighbours of 1 byte": (16, 8 * 1, 8 * 1),
    "neighbours, permuted": (16, 8 * 4, 8 * 4),
    "every 2nd element read": (16, 8 * 8, 8 * 4),
    "every 8th element read": (16, 8 * 32, 8 * 4),
    "every 32nd element read": (16, 8 * 32, 8 * 4),
    "every 4th element written": (16, 8 * 4, 8 * 16),
    "one word for all": (16, 8 * 1, 8 * 4),
    "a third of the lanes": (16, 8 * 4, 8 * 4),
    "blocks of 33 threads": (2 * 6, (4 + 1) + (5 + 1) + (5 + 1), (4 + 1) + (5 + 1) + (5 + 1)),
    "array of structures": (8 * 4, 8 * 3 * 12, 8 * 4),
    "a row a thread": (2 * 9, 2 * 8 * 32, 2 * 4),
    "naive transpose": (2 * 128, 128 * 4, 128 * 32),
    "branch by lane": (8 * 2, 0, 8 * 2 * 4),
    "branch by warp": (8, 0, 8 * 4),
    "chains of 1 to 4 steps": (2 * (4 + 1), 2 * 4 * 4, 2 * 4),
}
PASSES = {"stride 1": 1, "stride 2": 2, "stride 8": 8, "stride 32": 32, "stride 33": 1, "one word for all": 1}


@pytest.mark.parametrize("name", list(BY_HAND))
def test_requests_and_sectors_are_those_worked_out_by_hand(name):
    found = counters.predictions(PROBES[name])
    assert tuple(found[count] for count in ("global requests", "sectors read", "sectors written")) == BY_HAND[name]
    assert found["shared requests"] == 0


@pytest.mark.parametrize("stride", list(PASSES))
def test_passes_over_shared_memory_are_those_worked_out_by_hand(stride):
    """One warp stores, and one loads."""
    found = counters.predictions(PROBES[f"shared memory, {stride}"])
    reads = PASSES[stride]
    assert (found["shared requests"], found["shared passes"], found["bank conflicts"]) == (2, 2 * reads, 2 * reads - 2)


@pytest.mark.parametrize("name, ways", [("transposed tile", 32), ("transposed tile, padded", 1)])
def test_a_column_of_a_tile_conflicts_unless_it_is_padded(name, ways):
    found = counters.predictions(PROBES[name])
    assert found["bank conflicts"] == 32 * (ways - 1) and found["shared requests"] == 64


def test_a_triton_program_predicts_no_count_of_warps():
    assert set(counters.predictions(PROBES["row_softmax"])) == {"sectors read", "sectors written"}


# ---- the record


@pytest.fixture
def dry_run(tmp_path, monkeypatch):
    """``python -m evidence --runtime virtual`` of what has this text in its name, without the constants."""
    from evidence import __main__ as command

    def run(text):
        for fit in ("of_copies", "of_kernels"):
            monkeypatch.setattr(command, fit, dict)
        words = ["evidence", "--runtime", "virtual", "--no-tests", "--only", text, "--out", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", words)
        command.main()
        (path,) = tmp_path.iterdir()
        return json.loads(path.read_text())

    return run


def test_a_dry_run_writes_kernels_and_counters(dry_run, capsys):
    record = dry_run("row_s")
    assert [row["name"] for row in record["kernels"]] == ["row_sums", "row_softmax"]
    assert [row["name"] for row in record["counters"]["kernels"]] == ["row_sums", "row_softmax"]
    said = capsys.readouterr().out
    assert "Counters of 2 kernels are predicted, none is read: a dry run" in said
    assert "nothing in it was measured" in said


def test_a_wrong_kernel_fails_the_command_and_the_record_is_written(dry_run, monkeypatch, capsys):
    ones = torch.ones(64)
    wrong = Contest(lambda: 0 * ones.cuda(), (torch.clone, (ones,)), lambda: ones.double().cuda(), 512)
    monkeypatch.setitem(JOBS, "planted", Job("execution", "numba", "fp32", 1e-6, lambda: wrong, (), ()))
    with pytest.raises(SystemExit, match="1 reference kernels do not give the right result"):
        dry_run("planted")
    said = capsys.readouterr().out
    assert "wrong: error 1" in said and "Written:" in said


def test_a_part_that_ends_in_an_error_fails_the_command_and_every_other_is_kept(dry_run, monkeypatch, tmp_path):
    monkeypatch.setattr(counters, "compared", Mock(side_effect=RuntimeError("no such counter")))
    with pytest.raises(SystemExit, match=r"1 parts ended in an error \(counters\)"):
        dry_run("row_s")
    record = json.loads(next(tmp_path.iterdir()).read_text())
    assert record["broken"] == {"counters": "RuntimeError: no such counter"} and len(record["kernels"]) == 2


# ---- ncu


def test_a_dry_run_predicts_every_probe_and_counts_none():
    found = counters.compared(real=False)
    assert found["tool"] is None and found["why"] == counters.DRY_RUN
    assert len(found["kernels"]) == len(PROBES) >= 12
    for row in found["kernels"]:
        assert row["counted"] is None and row["differs"] is None and set(row["compared"]) <= set(row["predicted"])


def test_without_ncu_the_record_says_so_and_holds_no_count(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = counters.compared(real=True, only="neighbours")
    assert "ncu" in found["why"] and "no counter was read" in found["why"]
    assert {row["counted"] for row in found["kernels"]} == {None}


def test_where_no_probe_is_asked_for_none_agrees():
    found = counters.compared(real=True, only="no such probe")
    assert found["kernels"] == [] and "no probe" in found["why"]


def ncu(monkeypatch, stdout, returncode=0):
    """In ncu's place, what it would print; the commands that it was given."""
    given = []

    def run(command, **options):
        given.append(command)
        said = "Nsight Compute\nVersion 2025.3.1.0" if command[1:] == ["--version"] else stdout
        return types.SimpleNamespace(stdout=said, stderr="", returncode=returncode)

    monkeypatch.setattr(shutil, "which", lambda name: "/opt/ncu")
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(counters, "PROBES", THREE)
    return given


def test_counts_of_ncu_stand_beside_those_predicted(monkeypatch):
    given = ncu(monkeypatch, NCU)
    found = counters.compared(real=True)
    assert found["why"] is None and found["tool"] == "Version 2025.3.1.0"
    rows = {row["name"]: row for row in found["kernels"]}
    assert rows["neighbours"]["counted"]["sectors read"] == rows["neighbours"]["predicted"]["sectors read"] == 32
    assert rows["neighbours"]["differs"] == [] and rows["row_softmax"]["differs"] == []
    assert rows["shared memory, stride 2"]["differs"] == ["shared passes", "bank conflicts"]
    assert rows["shared memory, stride 2"]["counted"]["shared passes"] == 2 + 3
    assert rows["row_softmax"]["counted"]["lanes an instruction"] == 31.94
    (metrics,) = [given[1][at + 1] for at, word in enumerate(given[1]) if word == "--metrics"]
    assert set(metrics.split(",")) == {metric for several in COUNTERS.values() for metric in several}


def test_a_number_with_thousands_separators_is_read():
    assert counters.matched(THREE, counters.parsed(NCU))["row_softmax"]["sectors read"] == 2048


def test_launches_are_taken_in_the_order_of_their_ids():
    head, units, *rows = [line for line in NCU.splitlines() if line.startswith('"')]
    turned = "\n".join([head, units, *reversed(rows)])
    assert [row["ID"] for row in counters.parsed(turned)] == ["0", "1", "2"]


FORBIDDEN = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"


@pytest.mark.parametrize(
    "said, returncode, why",
    [
        (f"==PROF== Connected to process 1\n{FORBIDDEN} on device 0\n", 1, "ERR_NVGPUCTRPERM"),
        (FORBIDDEN, 0, "ERR_NVGPUCTRPERM"),
        ("", 9, "ended with 9"),
        ("==WARNING== No kernels were profiled.\n", 0, "No kernels were profiled"),
        (NCU.rsplit('"2"', 1)[0], 0, "2 launches; expected 3"),
        (NCU.replace("read_from", "elementwise_kernel"), 0, "expected read_from"),
        (NCU.replace('"2,048"', '"n/a"'), 0, "'n/a' for l1tex__t_sectors"),
        (NCU.replace("smsp__inst_executed.sum", "another"), 0, "'nothing' for smsp__inst_executed.sum"),
    ],
)
def test_what_ncu_does_not_give_is_said_and_never_a_number(monkeypatch, said, returncode, why):
    ncu(monkeypatch, said, returncode)
    found = counters.compared(real=True)
    assert why in found["why"] and {row["counted"] for row in found["kernels"]} == {None}


def test_a_kernel_that_leaves_its_array_is_no_probe():
    short = dataclasses.replace(PROBES["neighbours"], make=lambda: (torch.zeros(9), torch.zeros(256)))
    with pytest.raises(ValueError, match="no probe"):
        short.predicted()


def test_no_table_is_an_error():
    with pytest.raises(NotCounted, match="no table"):
        counters.parsed("==PROF== Connected")
