"""The script that chapter 14 shows and offers starts under torchrun, and among ranks with a virtual card."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from gpulab.collectives import run_ranks, train_ddp

SCRIPT = Path(train_ddp.__file__)
PAGE = Path(__file__).parents[2] / "chapters" / "many_gpus" / "data_parallel.md"


def losses(printed: str) -> list[float]:
    found = re.findall(r"epoch (\d): loss ([\d.]+) over 1002 samples", printed)
    assert [epoch for epoch, _ in found] == ["0", "1", "2"]
    return [float(loss) for _, loss in found]


def among_ranks(folder: Path):
    def script(rank, world):
        os.chdir(folder)
        train_ddp.main()

    lines = []
    run = run_ranks(script, 2, backend=None, show=lambda rank, line: lines.append((rank, line)))
    return run, lines


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return folder, *among_ranks(folder)


def test_it_starts_with_torchrun_on_two_processes_without_a_gpu_and_learns(tmp_path, ranks):
    """By a copy, in a folder of its own, with nothing of the course on the path."""
    (tmp_path / SCRIPT.name).write_text(SCRIPT.read_text())
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]  # a port that is free
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", "2", SCRIPT.name],
        cwd=tmp_path,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    first, *_, last = losses(done.stdout)
    assert last < first / 5
    _, _, lines = ranks
    assert losses("\n".join(line for _, line in lines)) == pytest.approx(losses(done.stdout), rel=1e-2)


def test_among_ranks_every_batch_is_one_all_reduce_and_rank_0_alone_prints(ranks):
    _, run, lines = ranks
    assert {rank for rank, _ in lines} == {0}
    gradients = sum(p.numel() for p in (torch.nn.Linear(20, 64).weight, torch.nn.Linear(64, 1).weight)) + 64 + 1
    sums = Counter(e.bytes for e in run.journal if e.operation == "all_reduce")
    assert sums == {4 * gradients: 3 * 11, 8: 3}


def test_started_again_it_goes_on_from_its_checkpoint(ranks):
    folder, _, _ = ranks
    saved = torch.load(folder / train_ddp.CHECKPOINT, map_location="cpu")
    assert saved["epoch"] == 2 and not any(name.startswith("module.") for name in saved["model"])
    torch.save({**saved, "epoch": 1}, folder / train_ddp.CHECKPOINT)
    _, lines = among_ranks(folder)
    assert [line.partition(":")[0] for _, line in lines] == ["epoch 2"]
    assert [file.name for file in folder.iterdir()] == [train_ddp.CHECKPOINT]


def test_the_script_imports_pytorch_alone_and_its_lines_fit_the_column():
    assert set(re.findall(r"^(?:import|from) (\w+)", SCRIPT.read_text(), re.M)) == {"os", "torch"}
    assert max(map(len, SCRIPT.read_text().splitlines())) <= 79
    assert PAGE.read_text().count(f"gpulab/collectives/{SCRIPT.name}") == 2
