"""What the fork server of :mod:`tests.forks` imports last, when all else is loaded: its pages are shared with each fork."""

from tests.page_sharing import share_before_forking

share_before_forking()
