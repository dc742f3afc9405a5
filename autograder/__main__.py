"""``python -m autograder``: see :mod:`autograder.cli.main`."""

import sys

from autograder.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
