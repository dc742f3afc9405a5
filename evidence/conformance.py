"""The facts of tests/cuda and tests/kernels on a runtime, each file in a process of its own.

What one leaves on the card (a library's workspace, an error that stays) is no other's. Files run side by
side; those that time or fill the card run alone, and so does, once more, whatever failed beside others.
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALONE = ("test_memory.py", "test_memory_viz.py", "test_streams.py", "test_transfers.py", "test_real_instruments.py")
"""They assert what other processes on the card would change: what is free, and what overlaps."""
_PYTEST = [sys.executable, "-m", "pytest", "-q", "--confcutdir", "tests/cuda", "-p", "no:cacheprovider"]
_LONGEST_S = 240


def ran(runtime: str, jobs: int) -> dict:
    """``passed``, a count; ``failed`` and ``skipped``, names; ``failures``, a line of each."""
    files = files_of(runtime)
    alone = [file for file in files if file.endswith(ALONE)]
    with ThreadPoolExecutor(jobs) as pool:
        beside = [file for file in files if file not in alone]
        found = dict(zip(beside, pool.map(lambda file: _cases(file, runtime), beside)))
    for file in [*alone, *(file for file, cases in found.items() if _counted(cases)["failed"])]:
        found[file] = _cases(file, runtime)
    return _counted([case for cases in found.values() for case in cases])


def files_of(runtime: str) -> list[str]:
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
        try:
            subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            return [_broken(file, f"took longer than {_LONGEST_S} s")]
        if report.exists():
            return list(xml.parse(report).iter("testcase"))
    return [_broken(file, "the suite did not start")]


def _broken(file: str, why: str) -> xml.Element:
    broken = xml.Element("testcase", classname=file, name=why)
    xml.SubElement(broken, "error", message=why)
    return broken


def _only(runtime: str) -> list[str]:
    return ["--runtime", runtime, "--only-that-runtime"]


def _counted(cases: list[xml.Element]) -> dict:
    named = {f"{case.get('classname')}::{case.get('name')}": case for case in cases}
    bad = {name: child for name, case in named.items() for child in case if child.tag in ("failure", "error")}
    skipped = [name for name, case in named.items() if case.find("skipped") is not None]
    said = {name: (child.get("message") or "").partition("\n")[0][:300] for name, child in bad.items()}
    return {
        "passed": len(named) - len(bad) - len(skipped),
        "failed": list(bad),
        "skipped": skipped,
        "failures": said,
    }
