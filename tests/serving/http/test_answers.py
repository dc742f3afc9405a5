"""OpenAI's own client against the server: whole answers, streams, pictures, and many at once."""

import asyncio
import base64
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openai
import pytest
import torch
from PIL import Image

from gpulab.model import load
from gpulab.model.world import frames
from gpulab.serving import Paged, Request, Static, serve
from gpulab.serving.http.tokenizer import VOCABULARY
from gpulab.serving.model.decoder import Decoder

PROMPT = "move to the red block"


def alone(prompt: str, tokens: int) -> str:
    """What the engine tells somebody who is there by himself."""
    blocks, ids = Paged(100, 4), tuple(VOCABULARY.index(word) for word in prompt.split())
    report = serve([Request("one", 0.0, ids, tokens)], Static(), blocks, model=Decoder.tiny(blocks))
    return " ".join(VOCABULARY[token] for token in report.outcomes[0].output)


def test_a_completion_is_what_the_model_says_alone(served):
    answer = served.client.completions.create(model="tinyvla", prompt=PROMPT, max_tokens=12)
    assert answer.choices[0].text == alone(PROMPT, 12) and answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 12, 17)


def test_ids_and_words_are_the_same_prompt(served):
    ids = [VOCABULARY.index(word) for word in PROMPT.split()]
    texts = {
        served.client.completions.create(model="tinyvla", prompt=prompt).choices[0].text
        for prompt in (PROMPT, ids, [PROMPT])
    }
    assert len(texts) == 1 and len(texts.pop().split()) == 16


def test_a_stream_comes_in_as_many_pieces_as_tokens(served):
    stream = served.client.completions.create(
        model="tinyvla", prompt=PROMPT, max_tokens=7, stream=True, stream_options={"include_usage": True}
    )
    *pieces, last, counts = list(stream)
    assert "".join(piece.choices[0].text for piece in pieces) == alone(PROMPT, 7) and len(pieces) == 7
    assert last.choices[0].finish_reason == "length" and counts.usage.completion_tokens == 7 and not counts.choices


def test_a_chat_is_a_completion_of_all_it_says(served):
    said = [
        {"role": "system", "content": "move to"},
        {"role": "user", "content": [{"type": "text", "text": "the red block"}]},
    ]
    answer = served.client.chat.completions.create(model="tinyvla", messages=said, max_completion_tokens=5)
    assert answer.choices[0].message.content == alone(PROMPT, 5)
    pieces = list(served.client.chat.completions.create(model="tinyvla", messages=said, max_tokens=5, stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == alone(PROMPT, 5)


def test_a_picture_and_an_instruction_give_the_actions_of_the_policy(served):
    images, texts, _ = frames(3, np.random.default_rng(8))
    expected = load().generate(torch.from_numpy(images), torch.from_numpy(texts))
    for image, text, actions in zip(images, texts, expected, strict=True):
        file = io.BytesIO()
        Image.fromarray(image).save(file, "png")
        url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        words = " ".join(VOCABULARY[word] for word in text)
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": words}]
        answer = served.client.chat.completions.create(model="tinyvla", messages=[{"role": "user", "content": content}])
        said = answer.choices[0]
        assert (
            said.message.content == " ".join(VOCABULARY[token] for token in actions.tolist())
            and said.finish_reason == "stop"
        )


def test_models_are_listed(served):
    assert [model.id for model in served.client.models.list()] == ["tinyvla"]


def test_everyone_of_a_crowd_is_told_what_he_is_told_alone(served):
    prompts = [f"{VOCABULARY[n % 33]} {VOCABULARY[n % 7]}" for n in range(16)]

    async def all_at_once() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(_streamed(client, prompt) for prompt in prompts))

    before = served.metrics()
    # In a thread of its own: Playwright's loop may run in this one.
    with ThreadPoolExecutor(1) as thread:
        told = thread.submit(lambda: asyncio.run(all_at_once())).result()
    assert told == [alone(prompt, 20) for prompt in prompts]
    after = served.metrics()
    assert after["generation_tokens_total"] - before["generation_tokens_total"] == 16 * 20
    assert after["num_steps_total"] - before["num_steps_total"] < 16 * 20 / 2


async def _streamed(client: openai.AsyncOpenAI, prompt: str) -> str:
    stream = await client.completions.create(model="tinyvla", prompt=prompt, max_tokens=20, stream=True)
    return "".join([piece.choices[0].text async for piece in stream])


@pytest.mark.parametrize(
    "name", ["time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds"]
)
def test_latencies_are_counted(served, name):
    before = served.metrics()[f"{name}_count"]
    served.client.completions.create(model="tinyvla", prompt=PROMPT, max_tokens=3)
    served.wait_until_nobody_is_there()
    assert served.metrics()[f"{name}_count"] - before == (2 if name.startswith("inter") else 1)
