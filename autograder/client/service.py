"""The marking service, as a learner's machine speaks to it: :mod:`autograder.marking.app` is the other end."""

import json
import time
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from autograder.client.cannot import CannotAsk, UnknownToken

SECONDS_TO_ANSWER = 60
SECONDS_BETWEEN = 1.0
MOST_BYTES = 32 * 1024**2
"""Of an answer; a page takes some tens of KiB."""
_OF_WHAT_WAS_SENT = {"ask": str, "chapter": str, "marked": bool}
_OF_THOSE_WHO_WAIT = {"ahead": int}
_OF_MARKS = {"marks": dict, "page": str, "used": int, "of": int}


class _NoOtherHost(HTTPRedirectHandler):
    """The token is for the service alone."""

    def redirect_request(self, *about: Any) -> None:
        return None


class Service:
    """At ``address``, for whoever has the ``token``. Every method raises CannotAsk."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self._token = address, token
        self._opener = build_opener(_NoOtherHost)

    def send(self, notebook: bytes) -> dict:
        """``{"ask": path, "chapter": ..., "marked": whether it was before}``."""
        return self._checked(self._answer("notebooks", notebook)[1], _OF_WHAT_WAS_SENT)

    def marks(self, path: str, waits: Callable[[int], None]) -> dict:
        """``{"marks": ..., "page": HTML, "used": tries, "of": tries}``. ``waits`` hears how many notebooks are before it."""
        while True:
            status, said = self._answer(path)
            if status != HTTPStatus.ACCEPTED:
                return self._checked(said, _OF_MARKS)
            waits(self._checked(said, _OF_THOSE_WHO_WAIT)["ahead"])
            time.sleep(SECONDS_BETWEEN)

    def _answer(self, path: str, body: bytes | None = None) -> tuple[int, Any]:
        about = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            with self._opener.open(Request(f"{self.address}/{path}", body, about), timeout=SECONDS_TO_ANSWER) as answer:
                return answer.status, json.loads(answer.read(MOST_BYTES))
        except HTTPError as error:
            raise (UnknownToken if error.code == HTTPStatus.UNAUTHORIZED else CannotAsk)(_said_by(error)) from None
        except OSError as error:
            why = getattr(error, "reason", error)
            raise CannotAsk(
                f"The marking service at {self.address} does not answer ({why}). The same line, later, shows the marks of what "
                "was sent, or sends it."
            ) from None
        except (ValueError, RecursionError, HTTPException):
            raise self._is_none() from None

    def _checked(self, said: Any, form: dict[str, type]) -> dict:
        if isinstance(said, dict) and all(isinstance(said.get(name), kind) for name, kind in form.items()):
            return said
        raise self._is_none()

    def _is_none(self) -> CannotAsk:
        return CannotAsk(f"What answers at {self.address} is no marking service of this course. Tell your instructor.")


def _said_by(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read(MOST_BYTES))["error"])
    except (ValueError, LookupError, TypeError, OSError, RecursionError, HTTPException):
        return f"The marking service answers with HTTP {error.code}. Tell your instructor."
