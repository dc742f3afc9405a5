"""What a process takes of a card and no tensor holds: its context, and the workspace of cuBLAS."""

import subprocess
import sys

import torch

from evidence.studies import Figures, Rows, Study

_OTHER = (
    "import sys, torch; torch.ones(1, device='cuda').add_(1); torch.cuda.synchronize(); "
    "print(torch.cuda.memory_reserved(), flush=True); sys.stdin.read()"
)


def _context() -> Figures:
    """What the driver has less of while another process has run one kernel, without what that one's allocator took."""
    torch.cuda.synchronize()
    before, _ = torch.cuda.mem_get_info()
    other = subprocess.Popen([sys.executable, "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        reserved = int(other.stdout.readline())
        after, _ = torch.cuda.mem_get_info()
    finally:
        other.communicate()
    return {"context_bytes": before - after - reserved}


def _workspace() -> Figures:
    """What the first product of a new stream leaves allocated beside its result."""
    a, stream = torch.ones(1024, 1024, device="cuda", dtype=torch.bfloat16), torch.cuda.Stream()
    before = torch.cuda.memory_allocated()
    with torch.cuda.stream(stream):
        product = a @ a
    torch.cuda.synchronize()
    return {"workspace_bytes": torch.cuda.memory_allocated() - before - product.nbytes}


def beside_tensors() -> Rows:
    yield "the context of another process", _context
    yield "the first product of a stream", _workspace


STUDIES = {
    "memory beside tensors": Study(
        beside_tensors, "Bytes by mem_get_info() and memory_allocated(), before and after.", ("one_gpu/memory",)
    ),
}
