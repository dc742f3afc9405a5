"""Whose line it was: the learner's, or a library's."""

import os
import subprocess
import sys
import textwrap

import pytest

from gpulab.observe.lines import is_learners

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


def test_a_librarys_frame_is_asked_for_its_code_once():
    asked, stop = [], []
    sys.addaudithook(lambda event, arguments: event == "object.__getattr__" and not stop and asked.append(arguments))
    library = {"__name__": "some_library", "sys": sys, "is_learners": is_learners}
    exec(compile("def ask(): return is_learners(sys._getframe())", os.__file__, "exec"), library)
    assert [library["ask"]() for _ in range(9)] == [False] * 9 and len(asked) == 1
    stop.append(True)


def test_a_namespace_of_a_librarys_name_is_not_the_librarys():
    for path, expected in ((os.__file__, False), ("/tmp/ipykernel_1/2.py", True)):
        space = {"__name__": "another_library", "sys": sys, "is_learners": is_learners}
        exec(compile("found = is_learners(sys._getframe())", path, "exec"), space)
        assert space["found"] is expected
