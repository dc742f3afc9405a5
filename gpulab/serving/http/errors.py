"""OpenAI's shape of an error: ``{"error": {"message", "type", "param", "code"}}``."""

import reprlib
from typing import Any

from starlette.responses import JSONResponse

TYPES = {
    400: "invalid_request_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    429: "overloaded_error",
}
"""Others are ``server_error`` from 500 on and ``invalid_request_error`` below."""


class Refused(ValueError):
    """A request that cannot be served as it is: the message says why. param: the field that is at fault."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status = param, code, status


class Overloaded(RuntimeError):
    """No place is free; retry_after: seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Draining(RuntimeError):
    """The server ends, and takes no more requests."""


class EngineFailed(RuntimeError):
    """A part of the engine broke a rule while a request ran."""


def shown(value: Any) -> str:
    """What a client sent, short enough to be sent back."""
    return reprlib.repr(value)


def body(message: str, status: int, param: str | None = None, code: str | None = None) -> dict:
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def answer(
    message: str, status: int, param: str | None = None, code: str | None = None, **headers: str
) -> JSONResponse:
    return JSONResponse(body(message, status, param, code), status, headers or None)


def of(error: Exception) -> JSONResponse:
    """The answer to a request that came to this."""
    match error:
        case Refused():
            return answer(str(error), error.status, error.param, error.code)
        case Overloaded():
            return answer(str(error), 429, code="queue_full", **{"Retry-After": str(error.retry_after)})
        case Draining():
            return answer(str(error), 503, code="draining", **{"Retry-After": "1", "Connection": "close"})
        case EngineFailed():
            return answer(str(error), 500, code="engine_failed")
        case _:
            return answer(f"the server has failed: {type(error).__name__}", 500)
