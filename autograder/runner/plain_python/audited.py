"""Python's audit events of what begins to work beside the calling thread."""

import _thread
import sys
import threading

THREAD_EVENTS = ("_thread.start_new_thread", "_thread.start_joinable_thread")
PROCESS_EVENTS = ("os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "subprocess.Popen")


def announce_threads() -> None:
    """Raise, under Python 3.11, the audit event that later ones raise for a new thread."""
    if sys.version_info >= (3, 12):
        return
    start = _thread.start_new_thread

    def start_new_thread(function, *arguments):
        sys.audit(THREAD_EVENTS[0], function, *arguments)
        return start(function, *arguments)

    _thread.start_new_thread = threading._start_new_thread = start_new_thread
