"""Runs a submission's notebook; what its graded cells earn is decided by the referee."""

import time
from pathlib import Path
from typing import Protocol

from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_async, run_sync
from nbclient.exceptions import DeadKernelError
from nbconvert.exporters.exporter import ResourcesDict
from nbconvert.preprocessors import ExecutePreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbformat.validator import isvalid
from traitlets import Bool, Enum, Integer

from autograder.core.flag import Flag
from autograder.core.hidden_region import named_exercise
from autograder.core.report import as_html, as_text
from autograder.core.unexplained import Unexplained
from autograder.core.verdict import Verdict
from autograder.flags.noticed import flags_of_noticed
from autograder.intake.beside import lay_out
from autograder.judge.grading_server import GradingServer
from autograder.notebooks.environment import kernel_environment
from autograder.notebooks.inert import inert, is_the_referees
from autograder.notebooks.watchdog import at_most
from autograder.protocol import referee_address
from autograder.sandbox.limits import Limits
from autograder.sandbox.manager import MAX_MESSAGE_BYTES
from autograder.sandbox.workspace import workspace

TOO_LONG = "The function did not return in time: is there a loop that never ends?"
DIED = "The kernel died: the code ended its own process, crashed it, or ran out of memory."
NOT_RUN = "These tests were not run: the notebook had come to its end at an earlier cell."


class Sheet(Protocol):
    """Where it is written what one notebook earned, and what happened on the way."""

    def note(self, sentence: str) -> None: ...

    def record(self, grade_id: str, verdict: Verdict) -> None: ...

    def explain(self, grade_id: str, verdict: Verdict) -> None:
        """The same points, with the misconceptions by which some were lost; after all that is recorded."""

    def keep(self, grade_id: str, unexplained: Unexplained) -> None:
        """What is needed to name such a misconception later."""

    def leave(
        self, outcome: str, incidents: list[str], broken: list[str], tracebacks: list[str], flags: list[Flag]
    ) -> None:
        """The notebook has been run; see :class:`autograder.core.ledger.Entry`."""


SECONDS_TO_END = 180
"""For what comes after a submission's own seconds: the last cell is judged, the kernel ends. Beyond them grading hangs."""
MOST_TOLD, MOST_NAMED = 10_000, 200
"""Characters that are kept of the name, the text and the traceback of an error whose message was too large to keep."""


class RunGraded(ExecutePreprocessor):
    """nbconvert's ExecutePreprocessor with a referee beside the kernel and a bound on everything.

    A kernel that dies, hangs or floods its output costs this notebook's remaining cells
    and nothing else: every graded cell has a verdict when ``preprocess`` returns.
    ``resources["metadata"]["path"]``: the folder whose files lie beside the kernel.
    """

    allow_errors = True
    interrupt_on_timeout = True
    raise_on_iopub_timeout = True

    timeout = Integer(20, allow_none=True, help="Seconds a cell may run.").tag(config=True)
    submission_seconds = Integer(240, help="Seconds a whole submission may run.").tag(config=True)
    play_seconds = Integer(
        60,
        help="Seconds that forms of misconceptions may be played after a submission, to name those that cost a point of a "
        "function which a run.py calls; 0: none is played now, and what is needed for it is kept.",
    ).tag(config=True)
    cell_output_bytes = Integer(256 * 1024, help="Bytes of output kept for each cell.").tag(config=True)
    output_bytes = Integer(8 * 1024**2, help="Bytes of output kept for a whole submission.").tag(config=True)
    # A learner's widgets would be kept in the grader's memory, and nothing shows them.
    store_widget_state = False
    flood_bytes = Integer(32 * 1024**2, help="Bytes of output at which a kernel is stopped.").tag(config=True)
    iopub_timeout = Integer(20, help="Seconds to wait for output of a cell that has ended.").tag(config=True)
    shutdown_kernel = "immediate"
    memory_bytes = Integer(4 * 1024**3, help="Bytes of memory for a kernel and all its processes.").tag(config=True)
    sandbox = Enum(
        ["required", "off"], "required", help="off: submissions are trusted, and run without bubblewrap."
    ).tag(config=True)

    warm_kernels = Bool(True, help="Fork kernels from a server that has imported everything.").tag(config=True)

    def __init__(self, **kwargs):
        kwargs.setdefault("kernel_manager_class", AsyncKernelManager)
        super().__init__(**kwargs)

    def sheet(self, resources: ResourcesDict) -> Sheet:
        """Of the notebook that is about to run."""
        raise NotImplementedError

    def unsandboxed(self, because: str) -> str:
        """The note on a notebook that ran without a sandbox."""
        return f"This ran without a sandbox: {because}."

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict, km=None):
        self._sheet = self.sheet(resources)
        self._deadline = time.monotonic() + self.submission_seconds
        self._stopped = ""
        self._notes: set[str] = set()
        self._in_graded_cell = False
        self._kept_bytes = 0
        self._outcome = "ran"
        self._graded: dict[str, NotebookNode] = {}
        limits = Limits(memory_bytes=self.memory_bytes)
        with (
            at_most(self.submission_seconds + SECONDS_TO_END),
            workspace(self.sandbox, limits, self.warm_kernels) as self._workspace,
            GradingServer(self._workspace.folder, _exercises(nb)) as self._server,
        ):
            if self._workspace.unsandboxed_because:
                self._note(self.unsandboxed(self._workspace.unsandboxed_because))
            if self._workspace.cold_because:
                self.log.warning(f"kernels are started one by one, which is slow: {self._workspace.cold_because}")
            lay_out(Path(resources["metadata"]["path"]), self._workspace.folder / "work")
            try:
                nb, resources = super().preprocess(nb, resources, self._workspace.kernel_manager(_chapters(nb)))
                self._workspace.require_server(self.km)
                _keep_well_formed(nb)
                return nb, resources
            finally:
                self._leave()
                self._explain()
                server, where = self._server, resources.get("nbgrader", {})
                flags = flags_of_noticed(where.get("notebook", ""), nb, server.noticed)
                self._sheet.leave(self._outcome, server.incidents, server.broken, server.tracebacks, flags)

    async def async_start_new_kernel(self, **kwargs) -> None:
        kwargs["env"] = kernel_environment() | {referee_address.VARIABLE: self._server.address}
        kwargs["cwd"] = str(self._workspace.folder / "work")
        await super().async_start_new_kernel(**kwargs)

    start_new_kernel = run_sync(async_start_new_kernel)

    def preprocess_cell(self, cell: NotebookNode, resources: ResourcesDict, index: int):
        if cell.cell_type != "code":
            return cell, resources
        exercise = exercise_of(cell)
        if exercise is None:
            return self._run(cell, index), resources
        self._open(exercise)
        before = self._workspace.siblings(self.km)
        self._in_graded_cell = True
        cell = self._run(cell, index)
        self._in_graded_cell = False
        helped = before.worked_until(self._workspace.siblings(self.km))
        left = self._deadline - time.monotonic()
        self._record(cell, exercise, self._server.close(self._what_stopped(cell), helped, left))
        return cell, resources

    def _what_stopped(self, cell: NotebookNode) -> str:
        """The hidden tests of a graded cell, as its learner is told; empty where nothing did."""
        if not self._was_run:
            return f"{NOT_RUN} {self._stopped}"
        # The interrupt after a timeout arrives as the kernel's own KeyboardInterrupt.
        return self._stopped or (TOO_LONG if self._timed_out else _first_error(cell))

    def _open(self, exercise: str) -> None:
        try:
            self._server.open(exercise)
        except Exception as error:  # no verdicts, or a module that does not run: no grade, and the reason
            self._note(f"The hidden tests of {exercise} cannot be had ({type(error).__name__}: {str(error):.200}).")
            raise

    def _run(self, cell: NotebookNode, index: int) -> NotebookNode:
        """Execute the cell unless the kernel is gone; whatever happens, the cell says it."""
        if not self._stopped and time.monotonic() > self._deadline:
            self._stop(f"The notebook ran for more than {self.submission_seconds} s and was stopped.", "timed out")
        self._was_run = not self._stopped
        if not self._was_run:
            cell.outputs = [_said(f"Not run. {self._stopped}")]
            return cell
        self._output_bytes = 0
        self._timed_out = False
        self._execute(cell, index)
        if not self._stopped and (cause := self._workspace.cause_of_death(self.km)):
            self._stop(cause, "crashed")
        if (
            not self._stopped and self.kc.was_cut_off and not self._timed_out
        ):  # a process that is another program is cut off too
            self._stop(
                f"The code printed more than {MAX_MESSAGE_BYTES // 1024**2} MiB at once and was stopped.", "flooded"
            )
        if self._timed_out and not self._stopped and not self._answers():
            self._stop("The kernel could not be interrupted and was stopped.", "timed out")
        if self._stopped:
            cell.setdefault("outputs", []).append(_said(self._stopped))
        return cell

    def _execute(self, cell: NotebookNode, index: int) -> None:
        try:
            self.execute_cell(cell, index, store_history=True)
        except DeadKernelError:
            self._stop(self._stopped or self._workspace.cause_of_death(self.km) or DIED, "crashed")
        except Exception as error:
            # nbclient raises several kinds when a kernel stops answering; none may stop the class.
            if self._timed_out:
                cell.outputs.append(new_output("error", ename="CellTimeoutError", evalue="", traceback=[]))
            else:
                self._lost_touch(error)

    def _lost_touch(self, error: Exception) -> None:
        if not self.kc.was_cut_off:
            self._stop(f"The kernel stopped answering ({type(error).__name__}).", "crashed")

    def _get_timeout(self, cell: NotebookNode | None) -> int | None:
        left = max(1, int(self._deadline - time.monotonic()))
        return min(super()._get_timeout(cell) or left, left)

    async def _async_handle_timeout(self, timeout: int, cell: NotebookNode | None = None):
        self._timed_out = True
        self._ended("timed out")
        self._note(f"A cell ran for more than {timeout} s and was interrupted.")
        reply = await super()._async_handle_timeout(timeout, cell)
        reply["content"]["evalue"] = f"stopped after {timeout} s"
        reply["content"]["traceback"] = [f"Stopped: this cell ran for more than {timeout} s."]
        return reply

    def on_cell_executed(self, cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        """An error that shows nowhere in the outputs, as that of a timeout, is shown; one that was too large is, in part."""
        content = execute_reply["content"]
        shown = {output.ename for output in cell.outputs if output.output_type == "error"}
        if content["status"] == "error" and content["ename"] not in shown:
            self._kept_bytes += 3 * MOST_TOLD
            most = MOST_TOLD if self._kept_bytes <= self.output_bytes else MOST_NAMED
            traceback = "\n".join(content["traceback"]) or "ERROR: An error occurred while showtraceback was disabled"
            told = {key: content[key][:most] for key in ("ename", "evalue")}
            cell.outputs.append(new_output("error", **told, traceback=[traceback[:most]]))

    def process_message(self, msg: dict, cell: NotebookNode, cell_index: int):
        if msg["msg_type"] not in ("status", "execute_input"):
            self._output_bytes += _size(msg["content"])
            if self._output_bytes > self.flood_bytes and not self._stopped:
                self._stop(f"The code printed more than {self.flood_bytes // 1024**2} MiB and was stopped.", "flooded")
            if self._output_bytes > self.cell_output_bytes:
                self._note(f"Output beyond {self.cell_output_bytes // 1024} KiB a cell is not kept.")
                return None
            self._kept_bytes += _size(msg["content"])
            if self._kept_bytes > self.output_bytes and not self._in_graded_cell:
                self._note(f"Output beyond {self.output_bytes / 1024**2:g} MiB of the whole notebook is not kept.")
                return None
        if self._is_left_out(msg):
            return None
        if msg["msg_type"] == "stream" and msg["content"].get("name") == "stderr":
            msg["content"]["name"] = "stdout"  # a warning is no failure
        return super().process_message(msg, cell, cell_index)

    def _is_left_out(self, msg: dict) -> bool:
        """Whether a message is for no reader of a graded notebook.

        A graded cell shows the referee's verdict: what its functions display is not kept, or a
        later cell could update it, by its display id, into a verdict of its own.
        """
        if msg["msg_type"].startswith("comm"):
            return True
        if self._in_graded_cell and msg["msg_type"] == "error":
            msg["content"].pop("transient", None)
            return False
        return self._in_graded_cell and msg["msg_type"] != "status"

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

    def _ended(self, outcome: str) -> None:
        """The first thing that went wrong is the outcome."""
        if self._outcome == "ran":
            self._outcome = outcome

    def _stop(self, why: str, outcome: str) -> None:
        self._stopped = why
        self._ended(outcome)
        self._note(why)
        self._workspace.kill(self.km)

    def _note(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.add(sentence)
            self._sheet.note(sentence)

    def _explain(self) -> None:
        """The kernel is gone: name the misconceptions by which points were lost."""
        for verdict, unexplained in self._server.explained(self.play_seconds):
            cell = self._graded[verdict.exercise]
            grade_id = cell.metadata["nbgrader"]["grade_id"]
            if unexplained:
                self._sheet.keep(grade_id, unexplained)
            else:
                self._sheet.explain(grade_id, verdict)
                show(cell, verdict)

    def _record(self, cell: NotebookNode, exercise: str, verdict: Verdict) -> None:
        self._graded[exercise] = cell
        self._sheet.record(cell.metadata["nbgrader"]["grade_id"], verdict)
        show(cell, verdict)


def show(cell: NotebookNode, verdict: Verdict) -> None:
    """What a graded cell puts out: its verdict, and nothing of the kernel's."""
    data = {"text/plain": as_text(verdict), "text/html": as_html(verdict)}
    cell.outputs = [new_output("display_data", data=data, metadata={"autograder": "verdict"})]


def exercise_of(cell: NotebookNode) -> str | None:
    """The exercise that a graded cell's hidden part names, or None."""
    return named_exercise(cell.source) if is_the_referees(cell) else None


def _exercises(nb: NotebookNode) -> list[str]:
    """Those that the notebook's graded cells name, in its order."""
    return list(dict.fromkeys(filter(None, map(exercise_of, nb.cells))))


def _chapters(nb: NotebookNode) -> list[str]:
    """The chapters of these exercises."""
    return sorted({name.partition(".")[0] for name in _exercises(nb)})


def _first_error(cell: NotebookNode) -> str:
    for output in cell.outputs:
        if output.output_type == "error":
            return f"The hidden tests were stopped by {output.ename}."
    return ""


def _said(sentence: str) -> NotebookNode:
    return new_output("stream", name="stdout", text=sentence + "\n")


def _size(content: object) -> int:
    """Roughly the characters in a message, without copying the large ones."""
    if isinstance(content, str):
        return len(content)
    values = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return 8 + sum(map(_size, values))


def _keep_well_formed(nb: NotebookNode) -> None:
    for cell in (cell for cell in nb.cells if cell.cell_type == "code"):
        cell.outputs = [output for output in cell.outputs if _is_well_formed(output)]
        if exercise_of(cell) is None:
            cell.outputs = [inert(output) for output in cell.outputs]
        if type(cell.execution_count) is not int:
            cell.execution_count = None


def _is_well_formed(output: NotebookNode) -> bool:
    """Whether an output is one that a notebook may hold: a kernel can send anything."""
    return isvalid(output, ref="output", version=4)
