"""Where no instrument watches: another thread."""

import threading
from collections.abc import Callable
from typing import Any


def in_a_thread(function: Callable[[], Any]) -> Any:
    """What ``function`` returns on a thread that no instrument watches."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]
