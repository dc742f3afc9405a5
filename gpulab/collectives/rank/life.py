"""A rank's process, from the fork to its end."""

import ctypes
import faulthandler
import json
import os
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from textwrap import shorten
from types import TracebackType
from typing import Any

from gpulab.collectives.rank import session, transports
from gpulab.collectives.rank.output import Lines
from gpulab.collectives.rank.result import packed
from gpulab.collectives.rank.session import Session
from gpulab.collectives.wire import Closed, Wire
from gpulab.observe import Observation, observe
from gpulab.observe.lines import is_learners, source_line

_LONGEST_TEXT = 400
_FIRST_OF_OURS, _FURTHER = 3, 1024
SHOW_WHERE = signal.SIGUSR1
_DIE_WITH_PARENT = 1


@dataclass(frozen=True)
class Task:
    """What ranks are to do, and with what. ``ranks``: those of ``world_size`` that are there. ``card``: as :func:`gpulab.cuda.use` takes it."""

    fn: Callable
    args: tuple
    world_size: int
    ranks: tuple[int, ...]
    card: str
    transport: str
    backend: str | None
    observed: bool
    folder: str


def live(task: Task, rank: int, sock: socket.socket, stack: int, parent: int) -> None:
    """In the fork. Never returns. stack: where it writes its stack when asked."""
    try:
        _alone(sock, stack, parent)
        wire = Session(Wire(sock), rank, task.world_size)
        session.begin(wire)
        sys.stdout = sys.stderr = Lines(wire)
        _run(task, rank, wire)
    except Closed:
        pass
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(0)


def _alone(sock: socket.socket, stack: int, parent: int) -> None:
    """A session of its own, that ends with its parent and holds nobody else's sockets."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.register(SHOW_WHERE, file=stack, all_threads=False, chain=False)
    _let_go_of_others_channels({sock.fileno(), stack})


def _let_go_of_others_channels(own: set[int]) -> None:
    """Sockets and pipes that this process inherited lead nowhere from now on; files stay.

    Their numbers are kept: objects of the parent's that still name one may close it without harm.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(_FIRST_OF_OURS, max(own | {nowhere}) + _FURTHER):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue
        if descriptor not in own and (stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _run(task: Task, rank: int, wire: Session) -> None:
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(task.world_size),
        LOCAL_RANK=str(rank),
        LOCAL_WORLD_SIZE=str(task.world_size),
        GROUP_RANK="0",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29500",
    )
    try:
        with ExitStack() as stack:
            transports.enter(stack, task, rank)
            value, seen = _called(task, rank)
            result = packed(value)
            if seen is not None:
                wire.tell({"do": "seen"}, [json.dumps(seen.to_dict()).encode()])
    except BaseException as error:
        if not _is_a_good_end(error):
            sys.stdout.close()
            wire.tell({"do": "raised", **_in_words(error)})
            return
        result = packed(None)
    sys.stdout.close()
    wire.tell({"do": "result"}, [result])


def _called(task: Task, rank: int) -> tuple[Any, Observation | None]:
    if not task.observed:
        return task.fn(rank, task.world_size, *task.args), None
    with observe() as seen:
        value = task.fn(rank, task.world_size, *task.args)
    return value, seen


def _is_a_good_end(error: BaseException) -> bool:
    """``sys.exit()`` at the end of a script."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def _in_words(error: BaseException) -> dict:
    line = _line_of(error.__traceback__)
    return {
        "exception": type(error).__name__,
        "text": shorten(str(error), _LONGEST_TEXT) or "no more was said",
        "line": None if line is None else asdict(line),
        "traceback": "".join(traceback.format_exception(error))[-20000:],
    }


def _line_of(trace: TracebackType | None):
    """The learner's innermost line on the way to the exception."""
    found = None
    while trace is not None:
        if is_learners(trace.tb_frame):
            found = trace
        trace = trace.tb_next
    return None if found is None else source_line(found.tb_frame, found.tb_lineno)
