"""A GPU's own counters, read with Nsight Compute, beside what the interpreter predicts."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

from evidence.probes import PROBES, Probe
from gpulab.observe import Launch

ROOT = Path(__file__).parents[1]

COUNTERS: dict[str, tuple[str, ...]] = {
    "global requests": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    ),
    "sectors read": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "sectors written": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "shared requests": ("smsp__inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_shared_st.sum"),
    "shared passes": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    ),
    "bank conflicts": (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    ),
    "instructions": ("smsp__inst_executed.sum",),
    "lanes an instruction": ("smsp__thread_inst_executed_per_inst_executed.ratio",),
}
"""Nsight Compute's metrics for each count; of two, the sum. The last two are never compared: the
interpreter counts operations of the source, the card instructions of its machine code."""

NO_TOOL = "Nsight Compute (ncu) is not on the PATH: no counter was read"
_LONGEST_S = 200
DRY_RUN = "a dry run: no counter was read"


class NotCounted(Exception):
    """Why the card's counters could not be read, in words."""


def compared(real: bool, only: str = "") -> dict:
    """Every probe whose name holds ``only``: counts predicted and, on a GPU, counted.

    ``why`` says in words what kept the counters from being read; ``counted`` is None then.
    ``differs`` names the compared counts that are not equal.
    """
    probes = {name: probe for name, probe in PROBES.items() if only in name}
    predicted = {name: predictions(probe) for name, probe in probes.items()}
    record = {"tool": None, "why": None, "metrics": {name: list(of) for name, of in COUNTERS.items()}}
    counted: dict[str, dict] = {}
    try:
        if not probes:
            raise NotCounted(f"no probe has {only!r} in its name")
        record["tool"], counted = _counted(real, probes)
    except NotCounted as why:
        record["why"] = str(why)
    record["kernels"] = [_beside(name, probes[name], predicted[name], counted.get(name)) for name in probes]
    return record


def predictions(probe: Probe) -> dict[str, float]:
    """The counts that a probe's launch should show, by the names of COUNTERS.

    Of a Triton program, which is no warp, only those that the probe compares.
    """
    launch = probe.predicted()
    total, requests, issued = launch.total, launch.total("shared_requests"), launch.total("instructions")
    if launch.language == "triton":
        return {name: count for name, count in _memory(launch).items() if name in probe.counters}
    return _memory(launch) | {
        "shared requests": requests,
        "shared passes": requests + total("bank_conflicts"),
        "bank conflicts": total("bank_conflicts"),
        "instructions": issued,
        "lanes an instruction": total("active_lanes") / issued,
    }


def _memory(launch: Launch) -> dict[str, int]:
    names = {"global requests": "requests", "sectors read": "read_sectors", "sectors written": "written_sectors"}
    return {name: launch.total(count) for name, count in names.items()}


def _beside(name: str, probe: Probe, predicted: dict, counted: dict | None) -> dict:
    row = {"name": name, "kernel": probe.kernel, "compared": list(probe.counters), "predicted": predicted}
    differs = None if counted is None else [c for c in probe.counters if counted[c] != predicted[c]]
    return row | {"counted": counted, "differs": differs}


def _counted(real: bool, probes: dict[str, Probe]) -> tuple[str, dict[str, dict]]:
    """The tool's version, and each probe's counts. Raises NotCounted."""
    if not real:
        raise NotCounted(DRY_RUN)
    tool = shutil.which("ncu")
    if tool is None:
        raise NotCounted(NO_TOOL)
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60).stdout
    launches = parsed(_profiled(tool, list(probes)))
    return _last_line(version), matched(probes, launches)


def _profiled(tool: str, names: list[str]) -> str:
    """What ncu printed while it profiled these probes."""
    metrics = ",".join(metric for several in COUNTERS.values() for metric in several)
    command = [
        tool, "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off",
        "--clock-control", "none", "--metrics", metrics, sys.executable, "-m", "evidence.probes", *names,
    ]  # fmt: skip
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        raise NotCounted(f"ncu took longer than {_LONGEST_S} s and was ended") from None
    said = done.stdout.splitlines() + done.stderr.splitlines()
    errors = [line for line in said if line.startswith("==ERROR==")]
    if errors or done.returncode:
        why = errors[0] if errors else f"ncu ended with {done.returncode}"
        raise NotCounted(f"{why} {_last_line(done.stderr)}")
    return done.stdout


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def parsed(output: str) -> list[dict[str, str]]:
    """The profiled launches in ncu's raw CSV page, in order: column to cell.

    Its first row names the columns and its second, which has no ID, their units. Raises NotCounted.
    """
    lines = output.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise NotCounted(f"ncu printed no table: {_last_line(output)}")
    rows = csv.DictReader(line for line in lines[start:] if line.startswith('"'))
    return sorted((row for row in rows if row["ID"]), key=lambda row: int(row["ID"]))


def matched(probes: dict[str, Probe], launches: list[dict[str, str]]) -> dict[str, dict]:
    """Each probe's counts, its launch known by order and by name. Raises NotCounted."""
    if len(launches) != len(probes):
        raise NotCounted(f"ncu saw {len(launches)} launches; expected {len(probes)}")
    for (name, probe), row in zip(probes.items(), launches):
        if probe.kernel not in row["Kernel Name"]:
            raise NotCounted(f"{name}: ncu saw {row['Kernel Name']}; expected {probe.kernel}")
    return {name: _counts(row) for name, row in zip(probes, launches)}


def _counts(row: dict[str, str]) -> dict[str, float]:
    return {name: sum(_number(row, metric) for metric in metrics) for name, metrics in COUNTERS.items()}


def _number(row: dict[str, str], metric: str) -> float:
    cell = row.get(metric) or "nothing"
    try:
        number = float(cell.replace(",", ""))
    except ValueError:
        raise NotCounted(f"ncu gave {cell!r} for {metric} of {row['Kernel Name']}") from None
    return int(number) if number.is_integer() else number
