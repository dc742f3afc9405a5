"""Makes this folder an nbgrader course whose hidden tests are judged by the referee.

COURSE=<folder> in the environment points every command at another course folder.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))
COMMAND = sys.argv[1] if len(sys.argv) > 1 else ""

if COMMAND == "autograde":
    from autograder.notebooks import ahead

    ahead.start()

from autograder.nbgrader.config import configure  # noqa: E402

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "tensors-to-tokens"
c.CourseDirectory.root = str(Path(os.environ.get("COURSE") or ROOT).resolve())
configure(c)

if COMMAND not in ("autograde", "grade", "report"):  # these read what was released; what writes sources imports PyTorch
    from autograder.authoring.pipeline import refresh_sources

    refresh_sources(ROOT / "exercises", Path(c.CourseDirectory.root))

    from autograder.instructor.in_formgrader import show_report

    show_report()
