"""Whose line it was: the learner's, or a library's."""

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import torch
    from gpulab import observe
    from borrowed import doubled
    with observe() as seen:
        doubled(torch.ones(2))  # mine
    print(seen.ops[-1].line.text)
"""


@pytest.mark.audit
def test_a_library_in_a_users_home_is_no_learners_code(tmp_path):
    home = tmp_path / "lib" / "python3" / "site-packages"
    home.mkdir(parents=True)
    (home / "borrowed.py").write_text("def doubled(x):\n    return x * 2\n")
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    path = os.pathsep.join([str(home), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "doubled(torch.ones(2))  # mine", done.stderr
