"""The processes that run the tests side by side."""

import sys
import threading


def test_every_thread_of_a_test_process_is_known_to_threading():
    """One that is not is taken for a learner's own."""
    assert sys._current_frames().keys() <= {thread.ident for thread in threading.enumerate()}
