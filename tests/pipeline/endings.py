"""Ways in which a learner's function ends its own process: by name, the lines that do it."""

OF_THE_PROCESS = {
    "os_exit": "import os; os._exit(0)",
    "another_status": "import os; os._exit(3)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "segmentation_fault": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "aborts": "import os; os.abort()",
    "null_pointer": "import ctypes; ctypes.string_at(0)",
    "full_stack": """
        import sys; sys.setrecursionlimit(10**9)
        deeper = lambda _: sorted([1], key=deeper)
        deeper(1)
    """,
    "another_program": "import os; os.execv('/bin/true', ['true'])",
    "exit_in_a_thread": """
        import os, threading
        ends = threading.Thread(target=os._exit, args=(0,)); ends.start(); ends.join()
    """,
}
"""The process is gone: a rank alone, or the kernel."""

OF_THE_CALL = {
    "sys_exit": "import sys; sys.exit()",
    "sys_exit_with_a_status": "import sys; sys.exit(1)",
    "system_exit": "raise SystemExit('bye')",
    "exit_as_in_a_notebook": "exit()",
    "quit_as_in_a_notebook": "quit()",
}
"""An exception like others."""

AT_ANOTHER_MOMENT = {
    "in_one_rank_of_several": """
        if torch.distributed.get_rank(): os._exit(0)
        return right(*given)
    """,
    "behind_a_collective": """
        torch.distributed.all_reduce(torch.zeros(1))
        os._exit(0)
    """,
    "in_a_later_call": """
        calls.append(1)
        if len(calls) > 3: os._exit(0)
        return right(*given)
    """,
}
"""Of a rank; ``right`` is the course's own solution, ``calls`` an empty list."""
