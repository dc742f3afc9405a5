"""Installs the pinned environment into the Python that runs this. Called by make, with the extras of pyproject.toml.

pip is asked first which torch it would take. Where that is a CUDA build and the machine has
no NVIDIA GPU, PyTorch's index of CPU wheels is added, so that nobody downloads gigabytes of
CUDA packages against their will. TORCH=as-is leaves the choice to pip. With --newest torch and
triton are not the pinned ones but the newest that pyproject.toml allows.
"""

import compileall
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
NEWEST = "--newest"
TAKEN_NEWEST = ("torch==", "triton==")


def main() -> None:
    extras = ",".join(word for word in sys.argv[1:] if word != NEWEST)
    say(f"Installing the environment ({extras}; the first time: minutes, about 1 GB)")
    pip("install", "--upgrade", "pip")
    pip("install", *constraints(), *torch_index(), torch_range())
    # Here and not by pip, which does it on the one core that it takes. A grading kernel, which may write nothing, must find it done.
    packages = sysconfig.get_path("purelib")
    with subprocess.Popen([sys.executable, "-m", "compileall", "-qq", packages]):
        pip("install", *constraints(), "--editable", f"{ROOT}[{extras}]")
    compileall.compile_dir(packages, quiet=2, workers=0)


@cache
def constraints() -> list[str]:
    """pip's options for the pins; with --newest for a copy beside this Python, without those of torch and triton."""
    pins = ROOT / "constraints.txt"
    if NEWEST in sys.argv:
        lines = [line for line in pins.read_text().splitlines(True) if not line.startswith(TAKEN_NEWEST)]
        pins = Path(sys.prefix, "constraints.txt")
        pins.write_text("".join(lines))
    return ["--constraint", str(pins)]


def torch_range() -> str:
    """The range of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return next(line for line in project["dependencies"] if line.startswith("torch>"))


def torch_index() -> list[str]:
    """pip options that lead to a torch which suits the machine."""
    if os.environ.get("TORCH") == "as-is" or shutil.which("nvidia-smi") or not needs_cuda():
        return []
    say(f"No NVIDIA GPU here: taking PyTorch's CPU build from {CPU_WHEELS}")
    return ["--extra-index-url", CPU_WHEELS]


def needs_cuda() -> bool:
    """True when the torch that pip would take brings CUDA packages with it."""
    try:
        import torch  # noqa: F401

        return False
    except ImportError:
        pass
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-"]
    report = subprocess.run([*command, *constraints(), torch_range()], capture_output=True, text=True)
    if report.returncode:
        sys.exit(f"pip finds no torch for this Python ({sys.version.split()[0]}):\n{report.stderr}")
    found = json.loads(report.stdout)["install"]
    return any(item["metadata"]["name"].startswith(("nvidia-", "cuda-")) for item in found)


def pip(*arguments: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--no-compile", "--quiet", "--quiet"]
    )  # errors alone
    if result.returncode:
        sys.exit(f"pip {' '.join(arguments)} failed: see above")


def say(sentence: str) -> None:
    print(f"-- {sentence}", flush=True)


if __name__ == "__main__":
    main()
