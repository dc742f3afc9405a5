"""The endpoints of the server, as an ASGI application."""

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import torch
from fastapi import FastAPI
from fastapi import Request as Asked
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException

from gpulab.serving.blocks.blocks import blocks_for
from gpulab.serving.blocks.paged import Paged
from gpulab.serving.engine import Engine
from gpulab.serving.http import errors
from gpulab.serving.http.answers import Answer
from gpulab.serving.http.asked import Chat, Completion
from gpulab.serving.http.desk import Desk, Ticket
from gpulab.serving.http.language import CONFIG, ids_of, image_of, instruction_of
from gpulab.serving.http.metrics import Metrics
from gpulab.serving.http.parts import scheduler
from gpulab.serving.http.worker import Worker
from gpulab.serving.model.decoder import Decoder
from gpulab.serving.model.robot import Actions, ask
from gpulab.serving.plan import Budget
from gpulab.serving.requests import Request

NAME = "tinyvla"
REMEMBERED = 256
"""Steps and ended requests that the engine keeps."""


@dataclass(frozen=True)
class Setup:
    """scheduler: as of :func:`gpulab.serving.http.parts.scheduler`. blocks, size: of the KV cache. context: tokens of prompt
    and answer at most. budget: of a step. queue: requests that may wait beside those that run."""

    scheduler: str = "chunked"
    device: str = "cpu"
    blocks: int = 2048
    size: int = 16
    context: int = 256
    budget: Budget = field(default_factory=lambda: Budget(512, 64))
    queue: int = 192

    def __post_init__(self) -> None:
        if min(self.blocks, self.size, self.context) < 1 or self.queue < 0:
            raise ValueError(f"blocks, their size, the context and the queue are counted from 1, 1, 1 and 0 on: {self}")
        if self.blocks_of(self.context) > self.blocks:
            raise ValueError(f"{self.blocks} blocks of {self.size} tokens hold less than one context of {self.context}")

    def blocks_of(self, tokens: int) -> int:
        return blocks_for(tokens, self.size)

    def engine(self, ended=None) -> Engine:
        blocks = Paged(self.blocks, self.size)
        model = Decoder.tiny(blocks, self.device, sampler=_sample)
        return Engine(scheduler(self.scheduler), blocks, model=model, budget=self.budget, keep=REMEMBERED, ended=ended)


def _sample(logits: torch.Tensor, lives) -> torch.Tensor:
    """The likeliest token; for those who look at a picture, the likeliest of an action's."""
    seeing = torch.tensor([live.image is not None for live in lives], device=logits.device)
    return torch.where(seeing, Actions()(logits, lives), logits.argmax(-1))


class _Streamed(StreamingResponse):
    """Leaves when it is over, also where nobody ever read its first piece."""

    def __init__(self, answer: Answer, ticket: Ticket) -> None:
        super().__init__(
            answer.pieces(ticket.tokens()), media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
        )
        self._ticket = ticket

    async def __call__(self, scope, receive, send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ticket.leave()


def app_of(setup: Setup) -> FastAPI:
    """The application; its engine starts and ends with it, once. Raises ValueError for a setup that cannot run."""
    worker = Worker(setup.engine)
    app = FastAPI(title="TinyVLA", lifespan=lambda app: _running(app, setup, worker))
    names = itertools.count()

    @app.post("/v1/completions")
    async def completions(body: Completion, asked: Asked):
        body.check()
        prompt, most = ids_of(body.text), body.max_tokens or 16
        request = Request(f"cmpl-{next(names)}", 0.0, prompt, most)
        return await _answered(
            app, setup, asked, request, _answer(request, body, chat=False, finish="length"), body.stream
        )

    @app.post("/v1/chat/completions")
    async def chats(body: Chat, asked: Asked):
        body.check()
        name, most = f"chatcmpl-{next(names)}", body.max_completion_tokens or body.max_tokens or 16
        if body.image is None:
            request, finish = Request(name, 0.0, ids_of(body.text), most), "length"
        else:
            image = await asyncio.to_thread(image_of, body.image)
            request, finish = ask(name, 0.0, image, instruction_of(body.text)), "stop"
            if most < CONFIG.action_length:
                raise errors.Refused(f"an action has {CONFIG.action_length} tokens, max_tokens is {most}", "max_tokens")
        return await _answered(
            app, setup, asked, request, _answer(request, body, chat=True, finish=finish), body.stream
        )

    @app.get("/v1/models")
    async def models():
        return {"object": "list", "data": [{"id": NAME, "object": "model", "created": 0, "owned_by": "gpulab"}]}

    @app.get("/health")
    async def health():
        return Response() if app.state.worker.is_alive() else errors.answer("the engine has stopped", 503)

    @app.get("/metrics")
    async def metrics():
        return Response(app.state.desk.metrics.text(), media_type="text/plain; version=0.0.4")

    _tell_errors(app)
    return app


@asynccontextmanager
async def _running(app: FastAPI, setup: Setup, worker: Worker):
    loop = asyncio.get_running_loop()
    app.state.worker, app.state.desk = (
        worker,
        Desk(worker, Metrics(lambda: worker.standing), setup.budget.requests + setup.queue),
    )
    worker.told = lambda news: loop.call_soon_threadsafe(app.state.desk.told, news)
    worker.start()
    yield
    await asyncio.to_thread(worker.close)


def _answer(request: Request, body: Completion | Chat, chat: bool, finish: str) -> Answer:
    if body.model != NAME:
        raise errors.Refused(
            f"the model {errors.shown(body.model)} is not here: ask for {NAME}", "model", "model_not_found", 404
        )
    return Answer(request.name, NAME, chat, request.prompt_tokens, finish, counts=body.counts)


async def _answered(app: FastAPI, setup: Setup, asked: Asked, request: Request, answer: Answer, streams: bool):
    whole = request.prompt_tokens + request.most
    if whole > setup.context:
        numbers = [errors.shown(number) for number in (request.prompt_tokens, request.most, whole)]
        told = "{} tokens of prompt and {} of answer are {}: {} at most".format(*numbers, setup.context)
        raise errors.Refused(told, "max_tokens", "context_length_exceeded")
    ticket = app.state.desk.take(request)
    if streams:
        return _Streamed(answer, ticket)
    try:
        return await _collected(asked, ticket, answer)
    finally:
        ticket.leave()


async def _collected(asked: Asked, ticket: Ticket, answer: Answer) -> dict | Response:
    """The whole answer, unless the client leaves before: then there is nobody to tell it."""
    collect, gone = asyncio.ensure_future(_collect(ticket, answer)), asyncio.ensure_future(_until_gone(asked))
    try:
        await asyncio.wait((collect, gone), return_when=asyncio.FIRST_COMPLETED)
        return collect.result() if collect.done() else Response(status_code=499)
    finally:
        collect.cancel()
        gone.cancel()


async def _collect(ticket: Ticket, answer: Answer) -> dict:
    answer.ids += [token async for token in ticket.tokens()]
    return answer.whole()


async def _until_gone(asked: Asked) -> None:
    while (await asked.receive())["type"] != "http.disconnect":
        pass


def _tell_errors(app: FastAPI) -> None:
    for kind in (errors.Refused, errors.Overloaded, errors.EngineFailed, Exception):
        app.add_exception_handler(kind, lambda _, error: errors.of(error))

    @app.exception_handler(RequestValidationError)
    async def unreadable(asked: Asked, error: RequestValidationError):
        first, sent = error.errors()[0], asked.headers.get("content-type", "nothing")
        if "json" not in sent:
            return errors.answer(f"the header Content-Type says {sent}; expected application/json", 400)
        where = ".".join(str(part) for part in first["loc"] if part not in ("body",))
        said = (
            first["msg"].removeprefix("Value error, ")
            if first["type"] != "json_invalid"
            else f"the body is no JSON: {first['ctx']['error']}"
        )
        return errors.answer(
            f"{where}: {said}" if where and first["type"] != "json_invalid" else said, 400, where or None
        )

    @app.exception_handler(HTTPException)
    async def elsewhere(asked: Asked, error: HTTPException):
        return errors.answer(f"{asked.method} {asked.url.path}: {error.detail}", error.status_code)
