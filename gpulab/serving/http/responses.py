"""Responses to a completion and to a chat in OpenAI's form, whole and streamed (``data: {...}`` and a last ``data: [DONE]``)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from fastapi import Request as HttpRequest
from fastapi.responses import Response, StreamingResponse

from gpulab.serving.http import errors
from gpulab.serving.http.admission import Ticket
from gpulab.serving.http.tokenizer import word

DONE = "data: [DONE]\n\n"


@dataclass
class Answer:
    """One that grows. chat: of a chat completion. finish: why it will end, ``length`` or ``stop``. counts: say the tokens."""

    name: str
    model: str
    chat: bool
    prompt_tokens: int
    finish: str
    counts: bool = False
    ids: list[int] = field(default_factory=list)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self) -> dict:
        text = " ".join(map(word, self.ids))
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = "chat.completion" if self.chat else "text_completion"
        return self._about(kind, [self._choice(said, self.finish)]) | {"usage": self._usage()}

    async def pieces(self, tokens: AsyncIterator[int]) -> AsyncIterator[str]:
        """Server-sent events, one a token. An error in the middle is an event, and no ``[DONE]`` follows it."""
        try:
            if self.chat:
                yield self._piece({"delta": {"role": "assistant", "content": ""}})
            async for token in tokens:
                text = word(token) if not self.ids else f" {word(token)}"
                self.ids.append(token)
                yield self._piece({"delta": {"content": text}} if self.chat else {"text": text})
        except (errors.EngineFailed, errors.Draining) as error:
            yield f"data: {errors.of(error).body.decode()}\n\n"
            return
        yield self._piece({"delta": {}} if self.chat else {"text": ""}, self.finish)
        if self.counts:
            yield _event(self._about(self._kind, []) | {"usage": self._usage()})
        yield DONE

    @property
    def _kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _piece(self, said: dict, finish: str | None = None) -> str:
        return _event(self._about(self._kind, [self._choice(said, finish)]))

    def _about(self, kind: str, choices: list[dict]) -> dict:
        return {"id": self.name, "object": kind, "created": self.created, "model": self.model, "choices": choices}

    def _choice(self, said: dict, finish: str | None) -> dict:
        return {"index": 0, **said, "logprobs": None, "finish_reason": finish}

    def _usage(self) -> dict:
        generated = len(self.ids)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": generated,
            "total_tokens": self.prompt_tokens + generated,
        }


def _event(value: dict) -> str:
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n"


class Streamed(StreamingResponse):
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


async def whole(http: HttpRequest, ticket: Ticket, answer: Answer) -> dict | Response:
    """The whole answer, unless the client leaves before: then nobody hears it."""
    collect, gone = asyncio.ensure_future(_collected(ticket, answer)), asyncio.ensure_future(_until_gone(http))
    try:
        await asyncio.wait((collect, gone), return_when=asyncio.FIRST_COMPLETED)
        return collect.result() if collect.done() else Response(status_code=499)
    finally:
        collect.cancel()
        gone.cancel()
        ticket.leave()


async def _collected(ticket: Ticket, answer: Answer) -> dict:
    answer.ids += [token async for token in ticket.tokens()]
    return answer.whole()


async def _until_gone(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
