"""``python -m gpulab.recordings``: train once for every fault and keep what was seen. CPU, one thread, minutes."""

import argparse
import platform

import numpy as np
import torch

from gpulab.recordings import FAULTS, keep
from gpulab.recordings.job import train


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("faults", nargs="*", default=list(FAULTS), help=", ".join(FAULTS))
    torch.set_num_threads(1)
    versions = {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
    for name in asked.parse_args().faults:
        keep(name, list(train(FAULTS[name])), versions)
        print("recorded:", name, flush=True)


if __name__ == "__main__":
    main()
