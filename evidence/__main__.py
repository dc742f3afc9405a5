"""``python -m evidence``: measure the GPU, compare with the model, write the record.

Needs PyTorch, Triton, numba-cuda and pytest, no network and no installation: run it in the checkout.

    python -m evidence                      the GPU; without one, an error
    python -m evidence --runtime virtual    every step on the virtual card, into a temporary folder
    python -m evidence --model RECORD       what the model says of the same, put beside it: needs no GPU

The record is written after each part: what was measured before an end by force is kept.
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
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch

import gpulab.cuda
from evidence import cells, conformance, counters, kernels, tables
from evidence.constants import of_copies, of_kernels
from evidence.contests import JOBS
from evidence.studies import Study, answered
from evidence.studies.every import STUDIES
from evidence.studies.profiles import save_trace
from evidence.timing import behind_a_busy_device_us, device_us, peak_bytes
from evidence.workloads import FIGURES, WORKLOADS
from gpulab.cuda.errors import NotModelled
from gpulab.evidence import FOLDER, card_of

PARTS = ("studies", "constants", "workloads", "kernels", "counters", "trace", "model", "conformance", "cells")
_AHEAD = 5  # calls queued behind a busy device: few, or the queue of launches is full
NO_GPU = "There is no GPU here that PyTorch sees: nothing was measured and nothing was written."


def main() -> None:
    options = _options()
    if options.model:
        return _put_the_model_beside(Path(options.model))
    if options.runtime == "real" and not torch.cuda.is_available():
        sys.exit(NO_GPU)
    if missing := [package for package in ("triton", "numba", "pytest") if find_spec(package) is None]:
        sys.exit(f"Not installed: {', '.join(missing)}. Nothing was measured and nothing was written.")
    folder = Path(options.out or (FOLDER if options.runtime == "real" else tempfile.mkdtemp(prefix="evidence-")))
    record = _begun(options)
    path = folder / f"{record['card'] or 'GPU'}-{record['date']}.json"
    if options.part and path.exists():
        record = json.loads(path.read_text())
    for part in _parts(options, path):
        part(record)
        _write(record, path)
    _summarise(record)
    print(f"Written: {path}" + ("" if options.runtime == "real" else " (a dry run: nothing in it was measured)"))
    if wrong := _wrong(record):
        sys.exit(f"{', '.join(wrong)}: see the record")


def _write(record: dict, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def _wrong(record: dict) -> list[str]:
    """What must not be: kernels without the right result, facts that do not hold, parts that ended in an error."""
    kernels_wrong = sum(not row["right"] for row in record["kernels"])
    facts = len(record["conformance"]["failed"]) if record["conformance"] else 0
    broken = record.get("broken", {})
    said = [
        (kernels_wrong, "reference kernels do not give the right result"),
        (facts, "facts do not hold here"),
        (len(broken), f"parts ended in an error ({', '.join(broken)})"),
    ]
    return [f"{count} {words}" for count, words in said if count]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="evidence", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runtime", choices=["real", "virtual"], default="real")
    parser.add_argument("--out", help="folder for the record")
    parser.add_argument("--no-tests", action="store_true", help="leave the suites and the book's cells out")
    parser.add_argument("--no-model", action="store_true", help="leave the model's side out: --model puts it in")
    parser.add_argument("--model", metavar="RECORD", help="put the model's side into this record, and measure nothing")
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="only this; into the day's record, if one is there"
    )
    parser.add_argument(
        "--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="suites and notebooks side by side"
    )
    parser.add_argument("--only", default="", help="only what has this text in its name (several: A|B)")
    return parser.parse_args()


def _begun(options: argparse.Namespace) -> dict:
    """What is measured, with what, when: the head of a record."""
    with gpulab.cuda.use("real" if options.runtime == "real" else "ghost:H100", quiet=True):
        name, capability = torch.cuda.get_device_name(), list(torch.cuda.get_device_capability())
    return {
        "runtime": options.runtime, "device": name, "card": card_of(name), "capability": capability,
        "driver": _driver(), "date": datetime.date.today().isoformat(), "versions": _versions(), "host": _host(),
        "constants": {}, "workloads": [], "studies": {}, "kernels": [], "counters": None, "conformance": None,
        "cells": None, "seconds": {},
    }  # fmt: skip


Part = Callable[[dict], None]


def _parts(options: argparse.Namespace, path: Path) -> Iterator[Part]:
    """What is measured, in order; the first product of the process comes first."""
    real = options.runtime == "real"
    for name, study in STUDIES.items():
        if _named(name, options) and _wanted("studies", options):
            yield _timed_part(name, lambda record: record["studies"].update({name: _study(study, real)}))
    for name, part in _further(options, path, real).items():
        if _wanted(name, options):
            yield _timed_part(name, part)


def _further(options: argparse.Namespace, path: Path, real: bool) -> dict[str, Part]:
    return {
        "constants": lambda record: _constants(record, real),
        "workloads": lambda record: _workloads(record, options),
        "kernels": lambda record: _kernels(record, options),
        "counters": lambda record: record.update(counters=counters.compared(real, options.only)),
        "trace": lambda record: save_trace(path.with_suffix(".trace.json.gz")),
        "model": put_beside,
        "conformance": lambda record: record.update(conformance=conformance.ran(options.runtime, options.jobs)),
        "cells": lambda record: record.update(cells=cells.all_ran(options.runtime, options.jobs)),
    }


def _named(name: str, options: argparse.Namespace) -> bool:
    return any(text in name for text in options.only.split("|"))


def _wanted(part: str, options: argparse.Namespace) -> bool:
    if options.part:
        return part in options.part
    left_out = {
        "model": options.no_model,
        "conformance": options.no_tests,
        "cells": options.no_tests,
        "trace": options.runtime != "real" or bool(options.only),
    }
    return not left_out.get(part, False)


def _timed_part(name: str, part: Part) -> Part:
    """The part, announced; what it takes is in the record, and what breaks it, which ends no other."""

    def run(record: dict) -> None:
        _say(name)
        begin = time.monotonic()
        record.get("broken", {}).pop(name, None)
        try:
            part(record)
        except Exception as why:
            record.setdefault("broken", {})[name] = f"{type(why).__name__}: {why}"
            _say(f"broken: {name}: {why}")
        record["seconds"][name] = round(time.monotonic() - begin, 1)

    return run


def _study(study: Study, real: bool) -> dict:
    """Its rows here; in a dry run those of the model. ``modelled`` is filled in by ``put_beside``."""
    if not real and study.model is None:
        return {"about": study.about, "chapters": list(study.chapters), "measured": {}, "modelled": None}
    with gpulab.cuda.use("real" if real else f"{study.model}:H100", quiet=True):
        return {"about": study.about, "chapters": list(study.chapters), "measured": answered(study), "modelled": None}


def _constants(record: dict, real: bool) -> None:
    with gpulab.cuda.use("real" if real else "virtual:H100", quiet=True):
        copies = of_copies()
    with gpulab.cuda.use("real" if real else "ghost:H100", quiet=True):
        record["constants"] = of_kernels() | copies


def _workloads(record: dict, options: argparse.Namespace) -> None:
    with gpulab.cuda.use("real" if options.runtime == "real" else "ghost:H100", quiet=True):
        for name in WORKLOADS:
            if _named(name, options):
                _say(name)
                record["workloads"].append({"name": name, "measured": _timed(name)})


def _kernels(record: dict, options: argparse.Namespace) -> None:
    with gpulab.cuda.use("real" if options.runtime == "real" else "virtual:H100", quiet=True):
        for name in JOBS:
            if _named(name, options):
                _say(f"Kernel {name}")
                torch.cuda.empty_cache()
                record["kernels"].append(kernels.measured(name, record["card"]))


def _put_the_model_beside(path: Path) -> None:
    record = json.loads(path.read_text())
    put_beside(record)
    _write(record, path)
    _summarise(record)


def put_beside(record: dict) -> None:
    """Beside each workload and study what the model of the same card gives, and of workloads the model's error."""
    card = record["card"]
    for row in record["workloads"]:
        _say(f"model: {row['name']}")
        row |= _modelled(row["name"], row["measured"], card)
    for name, found in record["studies"].items():
        if card is not None and STUDIES[name].model is not None:
            _say(f"model: {name}")
            with gpulab.cuda.use(f"{STUDIES[name].model}:{card}", quiet=True):
                found["modelled"] = answered(STUDIES[name])


def _modelled(name: str, here: dict, card: str | None) -> dict:
    """One workload on the card's model, in microseconds and bytes, and ``error`` of each figure."""
    model = dict.fromkeys(FIGURES) | {"why": "the model has no such card"}
    if card is not None:
        with gpulab.cuda.use(f"ghost:{card}", quiet=True):
            model = _timed(name)
    result = {"modelled": model}
    for figure in FIGURES:
        both = here[figure] and model[figure]
        result[f"error_{figure}"] = model[figure] / here[figure] - 1 if both else None
    return result


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


def _summarise(record: dict) -> None:
    print(f"\n{tables.constants(record)}\n\n{tables.workloads(record)}\n\n{tables.kernels(record)}\n")
    if record["counters"]:
        print(tables.counters(record))
    for name in record["studies"]:
        print(f"\n{tables.study(record, name)}")
    if record["conformance"]:
        facts = record["conformance"]
        print(f"\nFacts: {facts['passed']} hold, {len(facts['failed'])} do not, {len(facts['skipped'])} skipped")
    if record["cells"]:
        print(f"\n{tables.cells(record)}")


def _say(sentence: str) -> None:
    print(f"-- {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
