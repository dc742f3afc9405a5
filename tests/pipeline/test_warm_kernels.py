"""Kernels are forked from a server that has imported what their chapters need."""

import pytest
from jupyter_core.utils import run_sync

from autograder.notebooks.environment import kernel_environment
from autograder.sandbox.limits import Limits
from autograder.sandbox.workspace import workspace

ASK = "import sys; print(all(name in sys.modules for name in '{wanted}'.split()))"


async def said_by_a_kernel(seat, chapters: list[str], code: str, meanwhile=None) -> str:
    """What a fresh kernel prints; ``meanwhile()`` is awaited while it still runs."""
    manager = seat.kernel_manager(chapters)
    await manager.start_kernel(env=kernel_environment(), cwd=str(seat.folder / "work"))
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=300)
    texts = []
    await client.execute_interactive(
        code,
        output_hook=lambda message: texts.append(message["content"].get("text", "")),
        timeout=300,
    )
    if meanwhile is not None:
        texts.append(await meanwhile())
    client.stop_channels()
    await manager.shutdown_kernel(now=True)
    return "".join(texts).strip()


@pytest.mark.parametrize(
    "chapters, wanted, found",
    [
        (["precision"], "exercises.precision.amp_step.run torch._dynamo", "True"),
        *(
            pytest.param(*others, marks=pytest.mark.audit)
            for others in (
                (["kernels"], "torch._inductor.graph", "True"),
                ([], "torch._inductor.graph", "False"),
                (["no_such_chapter"], "exercises.no_such_chapter.first.run", "False"),
            )
        ),
    ],
)
def test_a_kernel_finds_imported_what_its_chapters_scenarios_are_and_name(chapters, wanted, found):
    # Limits that no other test has: a kernel server of its own, which has met no chapter yet.
    own = Limits(memory_bytes=3 * 1024**3 + len(wanted) + len(chapters))
    with workspace("required", own) as seat:
        assert run_sync(said_by_a_kernel)(seat, chapters, ASK.replace("{wanted}", wanted)) == found


LISTEN = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", 29500)), (socket.AF_UNIX, "\\0neighbours")):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    with socket.socket(family) as client:
        client.connect(address)
    globals()[f"kept_{family}"] = server
    print("heard", end=" ")
"""
REACH = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", 29500)), (socket.AF_UNIX, "\\0neighbours")):
    with socket.socket(family) as client:
        try:
            client.connect(address)
            print("reached", end=" ")
        except ConnectionRefusedError:
            print("refused", end=" ")
"""


def test_kernels_of_one_server_do_not_reach_each_other():
    with workspace("required") as one, workspace("required") as other:
        said = run_sync(said_by_a_kernel)(one, [], LISTEN, lambda: said_by_a_kernel(other, [], REACH))
    assert said.split() == ["heard", "heard", "refused", "refused"]
