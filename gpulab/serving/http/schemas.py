"""Request schemas: the fields of OpenAI's completions and chat completions that this server knows."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, field_validator, model_validator

from gpulab.serving.http.errors import Refused, shown

NOT_HERE = {
    "temperature": ([0], "the likeliest token is taken, always"),
    "n": ([1], "one answer is given"),
    "best_of": ([1], "one answer is given"),
    "stop": ([[]], "an answer ends after max_tokens"),
    "logprobs": ([False], "probabilities are not returned"),
    "logit_bias": ([{}], "the likeliest token is taken, always"),
    "frequency_penalty": ([0], "the likeliest token is taken, always"),
    "presence_penalty": ([0], "the likeliest token is taken, always"),
    "echo": ([False], "the prompt is not repeated"),
    "suffix": ([""], "nothing can follow the answer"),
    "tools": ([[]], "there are no tools"),
    "response_format": ([{"type": "text"}], "answers are words and numbers of an action"),
}
"""Fields that would change the answer, with the values that are served beside none at all, and why no other."""
MOST_TOKENS = 1 << 31
"""Of an answer that is asked for: numbers beyond are not even compared with the context."""
MOST_IDS, MOST_PARTS = 4096, 64
"""Of a prompt, and of messages and their parts. What is longer is not looked at: pydantic makes an error of each item."""


class _Common(BaseModel):
    """Fields that are not named are passed over, but for those of :data:`NOT_HERE`."""

    model_config = ConfigDict(extra="allow")
    model: str
    max_tokens: StrictInt | None = Field(None, ge=1, le=MOST_TOKENS)
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None

    @property
    def counts(self) -> bool:
        """Whether the stream's last piece shall say how many tokens there were."""
        return bool((self.stream_options or {}).get("include_usage"))

    def check(self) -> None:
        """Raises Refused for what is not served."""
        for name, (served, why) in NOT_HERE.items():
            given = (self.model_extra or {}).get(name)
            if given is not None and not any(given == one and given is not True for one in served):
                raise Refused(f"{name} = {shown(given)} is not served: {why}", name)


class Completion(_Common):
    prompt: str | list[StrictInt] | list[str]

    @field_validator("prompt", mode="before")
    @classmethod
    def _of_one_kind(cls, prompt: Any) -> Any:
        if isinstance(prompt, list) and (len(prompt) > MOST_IDS or {*map(type, prompt)} not in ({int}, {str}, set())):
            raise ValueError(f"a valid prompt is a text, or up to {MOST_IDS:,} whole numbers, which are token ids")
        return prompt

    @property
    def text(self) -> str | list[int]:
        if isinstance(self.prompt, list) and self.prompt and isinstance(self.prompt[0], str):
            if len(self.prompt) > 1:
                raise Refused(f"{len(self.prompt)} prompts in one request: send one in each", "prompt")
            return self.prompt[0]
        return self.prompt


class Url(BaseModel):
    url: str


class Part(BaseModel):
    type: Literal["text", "image_url"]
    text: str = ""
    image_url: Url | None = None

    @model_validator(mode="after")
    def _whole(self) -> "Part":
        if (self.type == "image_url") != (self.image_url is not None):
            raise ValueError("a part of the type image_url has an image_url, and no other part has one")
        return self


def _few(items: Any) -> Any:
    if isinstance(items, list) and len(items) > MOST_PARTS:
        raise ValueError(f"{len(items)} of them: {MOST_PARTS} at most")
    return items


class Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]
    _few = field_validator("content", mode="before")(_few)

    @property
    def parts(self) -> list[Part]:
        return [Part(type="text", text=self.content)] if isinstance(self.content, str) else self.content


class Chat(_Common):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: StrictInt | None = Field(None, ge=1, le=MOST_TOKENS)
    _few = field_validator("messages", mode="before")(_few)

    @property
    def text(self) -> str:
        """Of all messages, in their order: TinyVLA knows no roles."""
        return " ".join(part.text for message in self.messages for part in message.parts if part.type == "text")

    @property
    def image(self) -> str | None:
        """The URL of the one picture. Raises Refused for several."""
        urls = [part.image_url.url for message in self.messages for part in message.parts if part.image_url]
        if len(urls) > 1:
            raise Refused(f"{len(urls)} pictures in one request: the policy looks at one", "messages")
        return urls[0] if urls else None
