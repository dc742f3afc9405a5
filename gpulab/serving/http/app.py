"""The endpoints of the server, as an ASGI application."""

import asyncio
import itertools
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gpulab.serving.http import errors
from gpulab.serving.http.admission import Admission
from gpulab.serving.http.metrics import Metrics
from gpulab.serving.http.responses import Answer, Streamed, whole
from gpulab.serving.http.schemas import Chat, Completion
from gpulab.serving.http.setup import Setup
from gpulab.serving.http.tokenizer import CONFIG, ids_of, image_of, instruction_of
from gpulab.serving.http.worker import Worker
from gpulab.serving.model.robot import ask
from gpulab.serving.requests import Request

NAME = "tinyvla"
PROBE = ["GET", "HEAD"]
MOST_ECHOED = 100
"""Characters of a path or a header that are sent back."""


def app_of(setup: Setup) -> FastAPI:
    """The application; its engine starts and ends with it, once. Raises ValueError for a setup that cannot run."""
    worker = Worker(setup.engine)
    app = FastAPI(title="TinyVLA", lifespan=lambda app: _running(app, setup, worker))
    _completions(app, setup)
    _probes(app, setup)
    _errors(app)
    return app


@asynccontextmanager
async def _running(app: FastAPI, setup: Setup, worker: Worker):
    loop = asyncio.get_running_loop()
    admission = Admission(worker, Metrics(lambda: worker.standing), setup.most)
    app.state.worker, app.state.admission = worker, admission
    worker.deliver = lambda events: loop.call_soon_threadsafe(admission.deliver, events)
    worker.start()
    yield
    await asyncio.to_thread(worker.close)


def _completions(app: FastAPI, setup: Setup) -> None:
    names = itertools.count()

    @app.post("/v1/completions")
    async def completions(body: Completion, http: HttpRequest):
        body.check()
        request = Request(f"cmpl-{next(names)}", 0.0, ids_of(body.text), body.max_tokens or 16)
        return await _answered(app, setup, http, request, _answer(request, body, chat=False, finish="length"), body)

    @app.post("/v1/chat/completions")
    async def chats(body: Chat, http: HttpRequest):
        body.check()
        name, most = f"chatcmpl-{next(names)}", body.max_completion_tokens or body.max_tokens or 16
        if body.image is None:
            request, finish = Request(name, 0.0, ids_of(body.text), most), "length"
        else:
            image = await asyncio.to_thread(image_of, body.image)
            request, finish = ask(name, 0.0, image, instruction_of(body.text)), "stop"
            if most < CONFIG.action_length:
                raise errors.Refused(f"an action has {CONFIG.action_length} tokens, max_tokens is {most}", "max_tokens")
        return await _answered(app, setup, http, request, _answer(request, body, chat=True, finish=finish), body)

    @app.get("/v1/models")
    async def models():
        return {"object": "list", "data": [{"id": NAME, "object": "model", "created": 0, "owned_by": "gpulab"}]}


def _probes(app: FastAPI, setup: Setup) -> None:
    @app.api_route("/health", methods=PROBE)
    async def health():
        """Liveness: 503 asks for a restart."""
        why = _dead(app.state.worker, setup)
        return errors.answer(why, 503) if why else Response()

    @app.api_route("/ready", methods=PROBE)
    async def ready():
        """Readiness: 503 asks for no more requests."""
        why = "shutting down" if app.state.admission.draining else _dead(app.state.worker, setup)
        return errors.answer(why, 503) if why else Response()

    @app.api_route("/metrics", methods=PROBE)
    async def metrics():
        return Response(app.state.admission.metrics.text(), media_type="text/plain; version=0.0.4")


def _dead(worker: Worker, setup: Setup) -> str:
    stalls = worker.in_step_s > setup.stalled_s
    return worker.dead or (f"the engine is in one step for {worker.in_step_s:.0f} s" if stalls else "")


def _answer(request: Request, body: Completion | Chat, chat: bool, finish: str) -> Answer:
    if body.model != NAME:
        raise errors.Refused(
            f"the model {errors.shown(body.model)} is not here: ask for {NAME}", "model", "model_not_found", 404
        )
    return Answer(request.name, NAME, chat, request.prompt_tokens, finish, counts=body.counts)


async def _answered(
    app: FastAPI, setup: Setup, http: HttpRequest, request: Request, answer: Answer, body: Completion | Chat
):
    tokens = request.prompt_tokens + request.most
    if tokens > setup.context:
        sentence = f"{request.prompt_tokens} tokens of prompt and {request.most} of answer are {tokens}"
        raise errors.Refused(f"{sentence}: {setup.context} at most", "max_tokens", "context_length_exceeded")
    ticket = app.state.admission.admit(request)
    return Streamed(answer, ticket) if body.stream else await whole(http, ticket, answer)


def _errors(app: FastAPI) -> None:
    for kind in (errors.Refused, errors.Overloaded, errors.Draining, errors.EngineFailed, Exception):
        app.add_exception_handler(kind, lambda _, error: errors.of(error))

    @app.exception_handler(RequestValidationError)
    async def unreadable(http: HttpRequest, error: RequestValidationError):
        # Of a union's branches the one that the value came nearest to.
        first = max(error.errors(), key=lambda one: len(one["loc"]))
        sent = http.headers.get("content-type", "nothing")[:MOST_ECHOED]
        if "json" not in sent:
            return errors.answer(f"the header Content-Type says {sent}; expected application/json", 400)
        if first["type"] == "json_invalid":
            return errors.answer(f"the body is no JSON: {first['ctx']['error']}", 400)
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        why = first["msg"].removeprefix("Value error, ")
        return errors.answer(f"{where}: {why}" if where else why, 400, where or None)

    @app.exception_handler(HTTPException)
    async def elsewhere(http: HttpRequest, error: HTTPException):
        path = http.url.path[:MOST_ECHOED]
        return errors.answer(f"{http.method} {path}: {error.detail}", error.status_code, **(error.headers or {}))
