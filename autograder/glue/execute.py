"""Runs a submission's notebook; what its graded cells earn is decided by the referee."""

import time
from pathlib import Path

from jupyter_core.utils import ensure_async, run_sync
from nbclient.exceptions import DeadKernelError
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute
from nbgrader.utils import is_grade, is_solution
from traitlets import Enum, Integer

from autograder.glue.environment import kernel_environment
from autograder.hearing import Hearing
from autograder.hidden import REFEREE_VARIABLE
from autograder.hidden_region import named_exercise
from autograder.kernels.desk import desk
from autograder.ledger import Ledger
from autograder.report import as_html, as_text
from autograder.verdict import Verdict


class ExecuteGraded(Execute):
    """nbgrader's Execute with a referee beside the kernel and a bound on everything.

    A kernel that dies, hangs or floods its output costs this submission's remaining cells
    and nothing else: every graded cell has a verdict when ``preprocess`` returns.
    """

    timeout = Integer(20, allow_none=True, help="Seconds a cell may run.").tag(config=True)
    submission_seconds = Integer(240, help="Seconds a whole submission may run.").tag(config=True)
    cell_output_bytes = Integer(256 * 1024, help="Bytes of output kept for each cell.").tag(config=True)
    flood_bytes = Integer(32 * 1024**2, help="Bytes of output at which a kernel is stopped.").tag(config=True)
    shutdown_kernel = "immediate"
    sandbox = Enum(
        ["auto", "required", "off"], "auto", help="auto: sandbox kernels where that is possible."
    ).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict, km=None):
        self._ledger = Ledger.of_course()
        self._deadline = time.monotonic() + self.submission_seconds
        self._stopped = ""
        self._student_resources = resources
        with desk(self.sandbox) as self._desk, Hearing(self._desk.folder) as self._hearing:
            if self._desk.unsandboxed_because:
                self._note(f"This ran without a sandbox: {self._desk.unsandboxed_because}.")
            self._desk.lay_out(Path(resources["metadata"]["path"]))
            try:
                return super().preprocess(nb, resources, self._desk.kernel_manager())
            finally:
                self._leave()
                with self._ledger.entry(resources) as entry:
                    entry.incidents += self._hearing.incidents

    async def async_start_new_kernel(self, **kwargs) -> None:
        kwargs["env"] = kernel_environment() | {REFEREE_VARIABLE: self._hearing.address}
        kwargs["cwd"] = str(self._desk.folder / "work")
        await super().async_start_new_kernel(**kwargs)

    start_new_kernel = run_sync(async_start_new_kernel)

    def preprocess_cell(self, cell: NotebookNode, resources: ResourcesDict, index: int):
        if cell.cell_type != "code":
            return cell, resources
        exercise = exercise_of(cell)
        if exercise is None:
            return self._run(cell, index), resources
        self._hearing.open(exercise)
        cell = self._run(cell, index)
        verdict = self._hearing.close(self._stopped or _first_error(cell))
        self._record(cell, verdict)
        return cell, resources

    def _run(self, cell: NotebookNode, index: int) -> NotebookNode:
        """Execute the cell unless the kernel is gone; whatever happens, the cell says it."""
        if not self._stopped and time.monotonic() > self._deadline:
            self._stop(f"The notebook ran for more than {self.submission_seconds} s and was stopped.")
        if self._stopped:
            cell.outputs = [_said(f"Not run. {self._stopped}")]
            return cell
        self._output_bytes = 0
        self._timed_out = False
        try:
            cell = self.execute_cell(cell, index, store_history=True)
        except DeadKernelError:
            self._stop(self._stopped or "The kernel died: the code ended its own process or ran out of memory.")
        except Exception as error:
            # nbclient raises several kinds when a kernel stops answering; none may stop the class.
            self._stop(f"The kernel stopped answering ({type(error).__name__}).")
        if self._timed_out and not self._stopped and not self._answers():
            self._stop("The kernel could not be interrupted and was stopped.")
        if self._stopped:
            cell.setdefault("outputs", []).append(_said(self._stopped))
        return cell

    def _get_timeout(self, cell: NotebookNode | None) -> int | None:
        left = max(1, int(self._deadline - time.monotonic()))
        return min(super()._get_timeout(cell) or left, left)

    async def _async_handle_timeout(self, timeout: int, cell: NotebookNode | None = None):
        self._timed_out = True
        reply = await super()._async_handle_timeout(timeout, cell)
        reply["content"]["evalue"] = f"stopped after {timeout} s"
        reply["content"]["traceback"] = [f"Stopped: this cell ran for more than {timeout} s."]
        return reply

    def process_message(self, msg: dict, cell: NotebookNode, cell_index: int):
        if msg["msg_type"] in ("stream", "display_data", "execute_result", "update_display_data", "error"):
            self._output_bytes += _size(msg["content"])
            if self._output_bytes > self.flood_bytes and not self._stopped:
                self._stop(f"The code printed more than {self.flood_bytes // 1024**2} MiB and was stopped.")
            if self._output_bytes > self.cell_output_bytes:
                self._note(f"Output beyond {self.cell_output_bytes // 1024} KiB a cell is not kept.")
                return None
        if msg["msg_type"] == "stream" and msg["content"].get("name") == "stderr":
            msg["content"]["name"] = "stdout"  # a warning is no failure
        return super().process_message(msg, cell, cell_index)

    def _leave(self) -> None:
        """Stop the client and the kernel: nbclient leaves a manager it was handed alone."""
        if getattr(self, "kc", None) is not None:
            self.kc.stop_channels()
            self.kc = None
        if self.km is not None:
            run_sync(self.km.shutdown_kernel)(now=True)

    def _answers(self, seconds: float = 5.0) -> bool:
        """Whether the kernel is idle again soon after an interrupt."""

        async def idle() -> bool:
            request, end = self.kc.kernel_info(), time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                try:
                    reply = await ensure_async(self.kc.shell_channel.get_msg(timeout=left))
                except Exception:
                    return False
                if reply["parent_header"].get("msg_id") == request:
                    return True
            return False

        return run_sync(idle)()

    def _stop(self, why: str) -> None:
        self._stopped = why
        self._note(why)
        self._desk.kill(self.km)

    def _note(self, sentence: str) -> None:
        self._ledger.note(self._student_resources, sentence)

    def _record(self, cell: NotebookNode, verdict: Verdict) -> None:
        grade_id = cell.metadata["nbgrader"]["grade_id"]
        with self._ledger.entry(self._student_resources) as entry:
            entry.verdicts[grade_id] = verdict
        data = {"text/plain": as_text(verdict), "text/html": as_html(verdict)}
        cell.outputs = [new_output("display_data", data=data, metadata={"autograder": "verdict"})]


def exercise_of(cell: NotebookNode) -> str | None:
    """The exercise that a graded cell's hidden part names, or None."""
    if not is_grade(cell) or is_solution(cell):
        return None
    return named_exercise(cell.source)


def _first_error(cell: NotebookNode) -> str:
    for output in cell.outputs:
        if output.output_type == "error":
            if output.ename == "CellTimeoutError":
                return "The function did not return in time: is there a loop that never ends?"
            return f"The hidden tests were stopped by {output.ename}."
    return ""


def _said(sentence: str) -> NotebookNode:
    return new_output("stream", name="stdout", text=sentence + "\n")


def _size(content: dict) -> int:
    """Roughly the characters in a message, without copying the large ones."""
    values = [*content.values(), *(content.get("data") or {}).values()]
    return sum(len(value) if isinstance(value, str) else 64 for value in values)
