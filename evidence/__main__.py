"""``python -m evidence``: measure the GPU, compare with the model, write the record.

Needs PyTorch, Triton, numba-cuda and pytest, no network and no installation: run it in the checkout.

    python -m evidence                      the GPU; without one, an error
    python -m evidence --runtime virtual    every step on the virtual card, into a temporary folder
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch

import gpulab.cuda
from evidence import counters, kernels, tables
from evidence.constants import of_copies, of_kernels
from evidence.contests import JOBS
from evidence.timing import behind_a_busy_device_us, device_us, peak_bytes
from evidence.workloads import FIGURES, WORKLOADS
from gpulab.cuda.errors import NotModelled
from gpulab.evidence import FOLDER, card_of

ROOT = Path(__file__).parents[1]
_PYTEST = [sys.executable, "-m", "pytest", "-q", "--confcutdir", "tests/cuda", "-p", "no:cacheprovider"]
_AHEAD = 5  # calls queued behind a busy device: few, or the queue of launches is full
NO_GPU = "There is no GPU here that PyTorch sees: nothing was measured and nothing was written."


def main() -> None:
    options = _options()
    if options.runtime == "real" and not torch.cuda.is_available():
        sys.exit(NO_GPU)
    if missing := [package for package in ("triton", "numba", "pytest") if find_spec(package) is None]:
        sys.exit(f"Not installed: {', '.join(missing)}. Nothing was measured and nothing was written.")
    folder = Path(options.out or (FOLDER if options.runtime == "real" else tempfile.mkdtemp(prefix="evidence-")))
    record = measured(options)
    path = folder / f"{record['card'] or 'GPU'}-{record['date']}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    _summarise(record)
    print(f"Written: {path}" + ("" if options.runtime == "real" else " (a dry run: nothing in it was measured)"))
    if wrong := _wrong(record):
        sys.exit(f"{', '.join(wrong)}: see the record")


def _wrong(record: dict) -> list[str]:
    """What must not be: kernels without the right result, facts that do not hold."""
    kernels_wrong = sum(not row["right"] for row in record["kernels"])
    facts = len(record["conformance"]["failed"]) if record["conformance"] else 0
    said = [(kernels_wrong, "reference kernels do not give the right result"), (facts, "facts do not hold here")]
    return [f"{count} {words}" for count, words in said if count]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runtime", choices=["real", "virtual"], default="real")
    parser.add_argument("--out", help="folder for the record")
    parser.add_argument("--no-tests", action="store_true", help="leave the conformance suite out")
    parser.add_argument("--only", default="", help="only workloads, kernels and probes whose name has this text")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> dict:
    """The record: what ran on what and when, constants, workloads, kernels, counters, the suites."""
    real = options.runtime == "real"
    with gpulab.cuda.use("real" if real else "virtual:H100"):
        _say("Fitting the constants of copies")
        copies = of_copies()
    with gpulab.cuda.use("real" if real else "ghost:H100", quiet=True):
        name = torch.cuda.get_device_name()
        card = card_of(name)
        record = {
            "runtime": options.runtime, "device": name, "card": card,
            "capability": list(torch.cuda.get_device_capability()), "driver": _driver(),
            "date": datetime.date.today().isoformat(), "versions": _versions(), "host": _host(),
        }  # fmt: skip
        _say("Fitting the constants of kernels")
        record["constants"] = of_kernels() | copies
        record["workloads"] = [_compared(name, card) for name in WORKLOADS if options.only in name]
    with gpulab.cuda.use("real" if real else "virtual:H100", quiet=True):
        record["kernels"] = [_kernel(name, card) for name in JOBS if options.only in name]
    _say("Counters of small kernels")
    record["counters"] = counters.compared(real, options.only)
    record["conformance"] = None if options.no_tests else _conformance(options.runtime)
    return record


def _versions() -> dict[str, str | None]:
    found = {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda}
    for package in ("numpy", "triton", "numba-cuda", "pytest"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def _host() -> dict[str, str | int | None]:
    """The processor that launches, and its kernel: a virtual machine's launches take longer."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"processor": names[0] if names else None, "cores": os.cpu_count(), "system": platform.platform()}


def _driver() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    lines = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout.split()
    return lines[0] if lines else None


def _compared(name: str, card: str | None) -> dict:
    """One workload here and, on the same card's model, in microseconds and bytes; ``error`` of each."""
    _say(name)
    here = _timed(name)
    model = dict.fromkeys(FIGURES) | {"why": "the model has no such card"}
    if card is not None:
        with gpulab.cuda.use(f"ghost:{card}", quiet=True):
            model = _timed(name)
    result = {"name": name, "measured": here, "modelled": model}
    for figure in FIGURES:
        both = here[figure] and model[figure]
        result[f"error_{figure}"] = model[figure] / here[figure] - 1 if both else None
    return result


def _kernel(name: str, card: str | None) -> dict:
    _say(f"Kernel {name}")
    torch.cuda.empty_cache()
    return kernels.measured(name, card)


def _timed(name: str) -> dict:
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    try:
        function = WORKLOADS[name]()
        peak = peak_bytes(function) - before
        alone = behind_a_busy_device_us(function, calls=_AHEAD if gpulab.cuda.current() == "real" else 1)
        return {"us": device_us(function), "us_host_ahead": alone, "peak_bytes": peak, "why": None}
    except (torch.OutOfMemoryError, NotModelled) as why:
        return dict.fromkeys(FIGURES) | {"why": str(why).splitlines()[0]}


def _conformance(runtime: str) -> dict:
    """The suites of tests/cuda and tests/kernels on this runtime, each file in a process of its own.

    What one leaves on the card (a library's workspace, an error that stays) is no other's.
    """
    _say(f"Running tests/cuda and tests/kernels on the {runtime} runtime")
    return _counted([case for file in _files(runtime) for case in _cases(file, runtime)])


def _files(runtime: str) -> list[str]:
    """The files that hold a test of this runtime."""
    command = [*_PYTEST, "tests/cuda", "tests/kernels", "--collect-only", *_only(runtime)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    return sorted({line.partition("::")[0] for line in listed if "::" in line}) or ["tests/cuda"]


def _cases(file: str, runtime: str) -> list[xml.Element]:
    """The test cases of one file; a case with an error where pytest did not come to its end."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # The second path is for its conftest.py, which has the options.
        command = [*_PYTEST, file, "tests/cuda/test_runtime.py", *_only(runtime), "--junitxml", str(report)]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        if report.exists():
            return list(xml.parse(report).iter("testcase"))
    broken = xml.Element("testcase", classname=file, name="the suite did not start")
    xml.SubElement(broken, "error")
    return [broken]


def _only(runtime: str) -> list[str]:
    return ["--runtime", runtime, "--only-that-runtime"]


def _counted(cases: list) -> dict:
    named = {f"{case.get('classname')}::{case.get('name')}": {child.tag for child in case} for case in cases}
    failed = [name for name, tags in named.items() if tags & {"failure", "error"}]
    skipped = [name for name, tags in named.items() if "skipped" in tags]
    return {"passed": len(named) - len(failed) - len(skipped), "failed": failed, "skipped": skipped}


def _summarise(record: dict) -> None:
    print(f"\n{tables.constants(record)}\n\n{tables.workloads(record)}\n\n{tables.kernels(record)}\n\n{tables.counters(record)}")
    if record["conformance"]:
        facts = record["conformance"]
        print(f"\nFacts: {facts['passed']} hold, {len(facts['failed'])} do not, {len(facts['skipped'])} skipped")


def _say(sentence: str) -> None:
    print(f"-- {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
