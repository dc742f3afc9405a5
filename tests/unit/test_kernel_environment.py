"""A kernel needs no more of the system than its variables say."""

import subprocess
import sys

from autograder.notebooks import environment
from autograder.notebooks.environment import kernel_environment

UNKNOWN_TO_PASSWD = """\
import pwd
def nobody(*_):
    raise KeyError("no such user")
pwd.getpwuid = pwd.getpwnam = nobody
import getpass
from jupyter_core.paths import jupyter_runtime_dir
print(getpass.getuser(), jupyter_runtime_dir())
"""


def test_a_user_whom_only_a_directory_service_knows_can_have_a_kernel(monkeypatch):
    monkeypatch.setattr(environment, "_in_passwd", lambda user: False)
    done = subprocess.run(
        [sys.executable, "-c", UNKNOWN_TO_PASSWD], env=kernel_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("learner /nonexistent")
