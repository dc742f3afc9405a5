"""From a notebook: its functions, its closures, its cards and threads, its cells in what is said."""

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = [
    "import os, threading, torch, torch.distributed as dist, gpulab\nfrom gpulab.collectives import run_ranks\ngpulab.cuda.use('virtual:H100')",
    "torch.set_num_threads(2)\na = torch.randn(300, 300, requires_grad=True); (a @ a).sum().backward()\n"
    "w = torch.nn.Linear(8, 8).cuda(); w(torch.ones(2, 8, device='cuda')).sum().backward()\n"
    "print(len(os.listdir('/proc/self/task')) > 4)",
    "scale = 3\ndef mine(rank, world):\n    x = torch.full((4,), float(rank + 1), device='cuda') * scale\n"
    "    dist.all_reduce(x)\n    y = w.cpu()(torch.ones(2, 8)); y.sum().backward(); (a @ a).sum().backward()\n"
    "    print('rank says', x.tolist())\n    return x.tolist()\n"
    "print(run_ranks(mine, 2).results, run_ranks(mine, 4).results[3])",
    "def wrong(rank, world):\n    x = torch.ones(2, device='cuda')\n    if rank == 1:\n        x = x / undefined\n    dist.all_reduce(x)\nrun_ranks(wrong, 2)",
    "def stuck(rank, world):\n    x = torch.ones(2, device='cuda')\n    dist.recv(x, 1 - rank)\nrun_ranks(stuck, 2)",
    "def hangs(rank, world):\n    while rank == 1:\n        rank = 1\nrun_ranks(hangs, 2, timeout_s=5)",
    "print(gpulab.cuda.current(), torch.ones(2, device='cuda').sum().item(), torch.get_num_threads())",
]


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> list[str]:
    """What each cell printed, or the error that it ended with."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(book, timeout=90, kernel_name="python3", allow_errors=True).execute(
        cwd=str(tmp_path_factory.mktemp("notebook"))
    )
    return ["".join(output.get("text", output.get("evalue", "")) for output in cell.outputs) for cell in book.cells]


def test_a_notebooks_function_runs_in_ranks_while_threads_run(said):
    assert said[1] == "True\n"
    assert "[[9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]] [30.0, 30.0, 30.0, 30.0]" in said[2]


def test_what_ranks_print_appears_below_the_cell(said):
    assert (
        said[2].count("rank says [9.0") == 2
        and said[2].count("rank says [30.0") == 4
        and "[rank 3] rank says" in said[2]
    )


def test_errors_name_the_cells_line(said):
    assert said[3].startswith(
        "rank 1 raised NameError at the cell:4 `x = x / undefined`: name 'undefined' is not defined"
    )
    assert "deadlock: rank 0 waits in recv from rank 1 at the cell:3 `dist.recv(x, 1 - rank)`" in said[4]
    assert "did not finish within 5 s: rank 1 is at the cell:" in said[5]
    assert "rank = 1" in said[5] or "while rank == 1" in said[5]


def test_the_notebook_goes_on_with_its_card(said):
    assert said[6] == "virtual:H100 2.0 2\n"
