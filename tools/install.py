"""Installs the pinned environment into the Python that runs this. Called by make, with the extras of pyproject.toml.

pip is asked first which torch it would take. Where that is a CUDA build and the machine has
no NVIDIA GPU, PyTorch's index of CPU wheels is added, so that nobody downloads gigabytes of
CUDA packages against their will. TORCH=as-is leaves the choice to pip.
"""

import compileall
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
CONSTRAINTS = ["--constraint", str(ROOT / "constraints.txt")]


def main() -> None:
    extras = ",".join(sys.argv[1:])
    say(f"Installing the environment ({extras}; the first time: minutes, about 1 GB)")
    pip("install", "--upgrade", "pip")
    pip("install", *CONSTRAINTS, *torch_index(), "torch")
    # Here and not by pip, which does it on the one core that it takes. A grading kernel, which may write nothing, must find it done.
    packages = sysconfig.get_path("purelib")
    with subprocess.Popen([sys.executable, "-m", "compileall", "-qq", packages]):
        pip("install", *CONSTRAINTS, "--editable", f"{ROOT}[{extras}]")
    compileall.compile_dir(packages, quiet=2, workers=0)


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
    report = subprocess.run([*command, *CONSTRAINTS, "torch"], capture_output=True, text=True)
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
