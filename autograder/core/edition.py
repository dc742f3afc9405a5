"""For whom a release is made: *open*, for self-study, or *graded*, for a course whose points count."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

NAMES = ("open", "graded")
NAME, SERVICE = "COURSE_EDITION", "COURSE_MARKING_SERVICE"
"""The environment variables by which the build of a site is told. Not those of make, which `make book` would see, too."""
LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Edition:
    """``graded``: whether everything that holds a solution or a hidden test is left out.

    ``service``: the address of the marking service that learners of a graded edition ask; empty where there is none.
    """

    graded: bool = False
    service: str = ""

    @property
    def name(self) -> str:
        return NAMES[self.graded]

    @property
    def has_marker(self) -> bool:
        return not self.graded or bool(self.service)

    def version(self, of_the_course: str) -> str:
        """The marker's: another for each service, so that pip puts it in the place of another edition's or service's."""
        if not self.graded:
            return of_the_course
        return f"{of_the_course}+graded.at{hashlib.sha256(self.service.encode()).hexdigest()[:8]}"

    def built(self, root: Path) -> Path:
        """The folder of what is built of it: its ``exercises``, its site and its release are in it."""
        return root / "_build" / "graded" if self.graded else root / "_build"

    def environment(self) -> dict[str, str]:
        """What tells a site's build of it."""
        return {NAME: self.name, SERVICE: self.service}


def edition(name: str, service: str = "") -> Edition:
    """The one that an instructor asks for. Raises ValueError, in a sentence."""
    if name not in NAMES:
        raise ValueError(f"There is no edition {name!r}: EDITION is open or graded.")
    if name == "open" and service:
        raise ValueError("The open edition marks on the learner's machine: MARKING_SERVICE goes with EDITION=graded.")
    address = urlsplit(service)
    if service and not (address.scheme == "https" or (address.scheme == "http" and address.hostname in LOCAL)):
        raise ValueError(
            f"MARKING_SERVICE={service}: an address with https:// is needed, because learners' tokens are sent to it."
        )
    return Edition(name == "graded", service.rstrip("/"))


def of_this_build() -> Edition:
    """The one that the environment names; the open one where it names none."""
    return edition(os.environ.get(NAME) or "open", os.environ.get(SERVICE, ""))
