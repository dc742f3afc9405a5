"""Kernels are forked from a server that has imported what their chapters need."""

import pytest
from jupyter_core.utils import run_sync

from autograder.glue.environment import kernel_environment
from autograder.kernels.desk import desk
from autograder.kernels.limits import Limits

ASK = "import sys; print('{wanted}' in sys.modules)"


async def said_by_a_kernel(seat, chapters: list[str], wanted: str) -> str:
    manager = seat.kernel_manager(chapters)
    await manager.start_kernel(env=kernel_environment(), cwd=str(seat.folder / "work"))
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=60)
    texts = []
    await client.execute_interactive(
        ASK.replace("{wanted}", wanted),
        output_hook=lambda message: texts.append(message["content"].get("text", "")),
        timeout=60,
    )
    client.stop_channels()
    await manager.shutdown_kernel(now=True)
    return "".join(texts).strip()


@pytest.mark.parametrize(
    "chapters, wanted, found",
    [
        (["hierarchy"], "autograder.scenarios.hierarchy", "True"),
        (["kernels"], "torch._inductor.graph", "True"),
        ([], "torch._inductor.graph", "False"),
        (["no_such_chapter"], "autograder.scenarios.no_such_chapter", "False"),
    ],
)
def test_a_kernel_finds_its_chapters_scenarios_imported(chapters, wanted, found):
    # Limits that no other test has: a kernel server of its own, which has met no chapter yet.
    own = Limits(memory_bytes=3 * 1024**3 + len(wanted) + len(chapters))
    with desk("auto", own) as seat:
        assert run_sync(said_by_a_kernel)(seat, chapters, wanted) == found
