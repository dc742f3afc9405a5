"""``python -m evidence``: measure the GPU, compare with the model, write the record.

Needs PyTorch, Triton, numba-cuda and pytest, no network and no installation: run it in the checkout.

    python -m evidence                      the GPU; without one, an error
    python -m evidence --runtime virtual    every step on the virtual card, into a temporary folder
"""

import argparse
import datetime
import json
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
from evidence import counters, kernels
from evidence.constants import of_copies, of_kernels
from evidence.contests import JOBS
from evidence.timing import device_us, peak_bytes
from evidence.workloads import WORKLOADS
from gpulab.cuda.errors import NotModelled
from gpulab.evidence import FOLDER, card_of

ROOT = Path(__file__).parents[1]
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
            "date": datetime.date.today().isoformat(), "versions": _versions(),
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
    model = {"us": None, "peak_bytes": None, "why": "the model has no such card"}
    if card is not None:
        with gpulab.cuda.use(f"ghost:{card}", quiet=True):
            model = _timed(name)
    result = {"name": name, "measured": here, "modelled": model}
    for figure in ("us", "peak_bytes"):
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
        return {"us": device_us(function), "peak_bytes": peak_bytes(function) - before, "why": None}
    except (torch.OutOfMemoryError, NotModelled) as why:
        return {"us": None, "peak_bytes": None, "why": str(why).splitlines()[0]}


def _conformance(runtime: str) -> dict:
    """The suites of tests/cuda and tests/kernels on this runtime, in a process of its own."""
    _say(f"Running tests/cuda and tests/kernels on the {runtime} runtime")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", "tests/cuda", "tests/kernels", "--runtime", runtime,
            "--only-that-runtime", "-q", "--confcutdir", "tests/cuda", "-p", "no:cacheprovider", "--junitxml", str(report),
        ]  # fmt: skip
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        if not report.exists():
            return {"passed": 0, "failed": ["the suite did not start"], "skipped": []}
        cases = list(xml.parse(report).iter("testcase"))
    return _counted(cases)


def _counted(cases: list) -> dict:
    named = {f"{case.get('classname')}::{case.get('name')}": {child.tag for child in case} for case in cases}
    failed = [name for name, tags in named.items() if tags & {"failure", "error"}]
    skipped = [name for name, tags in named.items() if "skipped" in tags]
    return {"passed": len(named) - len(failed) - len(skipped), "failed": failed, "skipped": skipped}


def _summarise(record: dict) -> None:
    print(f"\n{'constant':<36}{'here':>14}{'assumed':>14}  unit")
    for name, constant in record["constants"].items():
        was = "" if constant["assumed"] is None else f"{constant['assumed']:.4g}"
        print(f"{name:<36}{constant['value']:>14.4g}{was:>14}  {constant['unit']}")
    print(f"\n{'workload':<52}{'here, us':>12}{'modelled, us':>14}{'error':>9}")
    for row in record["workloads"]:
        cells = [row["measured"]["us"], row["modelled"]["us"]]
        shown = [f"{cell:.1f}" if cell else "-" for cell in cells]
        error = "-" if row["error_us"] is None else f"{row['error_us']:+.0%}"
        print(f"{row['name']:<52}{shown[0]:>12}{shown[1]:>14}{error:>9}")
    _summarise_kernels(record["kernels"])
    _summarise_counters(record["counters"])
    if record["conformance"]:
        facts = record["conformance"]
        print(f"\nFacts: {facts['passed']} hold, {len(facts['failed'])} do not, {len(facts['skipped'])} skipped")


def _summarise_kernels(rows: list[dict]) -> None:
    print(f"\n{'kernel':<48}{'us':>10}{'of the roof':>13}{'library/it':>12}{'compile/it':>12}")
    for row in rows:
        if row["why"] or not row["right"]:
            print(f"{row['name']:<48}  {row['why'] or 'wrong: error ' + format(row['error'], '.2g')}")
            continue
        share, ratio = row["share_of_roof"], row["ratio_to"]
        cells = ["-" if share is None else f"{share:.1%}"]
        cells += [f"{ratio[call]:.2f}" if call in ratio else "-" for call in ("library", "torch.compile")]
        print(f"{row['name']:<48}{row['us']['kernel']['median']:>10.1f}{cells[0]:>13}{cells[1]:>12}{cells[2]:>12}")


def _summarise_counters(found: dict) -> None:
    rows = found["kernels"]
    if found["why"]:
        print(f"\nCounters of {len(rows)} kernels are predicted, none is read: {found['why']}")
        return
    print(f"\nCounters: {sum(row['differs'] == [] for row in rows)} of {len(rows)} kernels do what was predicted")
    for row in rows:
        for name in row["differs"]:
            print(f"  {row['name']}: {name} predicted {row['predicted'][name]}, counted {row['counted'][name]}")


def _say(sentence: str) -> None:
    print(f"-- {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
