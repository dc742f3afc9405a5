"""Makes this folder an nbgrader course whose hidden tests are judged by the referee."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from autograder.glue.config import configure  # noqa: E402

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "tensors-to-tokens"
configure(c)
