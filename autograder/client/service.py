"""The marking service, as a learner's machine speaks to it: :mod:`autograder.marking.app` is the other end."""

import json
import time
from collections.abc import Callable
from http import HTTPStatus
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

SECONDS_TO_ANSWER = 60
SECONDS_BETWEEN = 1.0


class CannotAsk(Exception):
    """Nothing was marked; says why and what to do."""


class Service:
    """At ``address``, for whoever has the ``token``. Every method raises CannotAsk."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self._token = address, token

    def send(self, notebook: bytes) -> dict:
        """``{"ask": path, "chapter": ..., "used": tries, "of": tries}``."""
        return self._answer("notebooks", notebook)[1]

    def marks(self, path: str, waits: Callable[[int], None]) -> dict:
        """``{"marks": ..., "page": HTML, "used": tries, "of": tries}``. ``waits`` hears how many notebooks are before it."""
        while True:
            status, said = self._answer(path)
            if status != HTTPStatus.ACCEPTED:
                return said
            waits(said["ahead"])
            time.sleep(SECONDS_BETWEEN)

    def _answer(self, path: str, body: bytes | None = None) -> tuple[int, dict]:
        about = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        asked = Request(f"{self.address}/{path}", body, about)
        try:
            with urlopen(asked, timeout=SECONDS_TO_ANSWER) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            raise CannotAsk(_said_by(error)) from None
        except (URLError, OSError) as error:
            why = getattr(error, "reason", error)
            raise CannotAsk(
                f"The marking service at {self.address} does not answer ({why}). Try again later."
            ) from None
        except ValueError:
            raise CannotAsk(f"What answers at {self.address} is no marking service. Tell your instructor.") from None


def _said_by(error: HTTPError) -> str:
    try:
        return json.load(error)["error"]
    except (ValueError, LookupError, TypeError, OSError):
        return f"The marking service answers with HTTP {error.code}. Tell your instructor."
