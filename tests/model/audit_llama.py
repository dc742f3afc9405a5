"""TinyVLA beside Hugging Face's Llama: the same logits, the same tokens."""

import numpy as np
import torch

from gpulab.model import load
from gpulab.model.world import WORDS, frames
from gpulab.serving import Chunked, Paged, Request, serve
from gpulab.serving.model.decoder import Decoder
from tests.llamas import llama as llama_like


def llama_of(policy):
    """Hugging Face's Llama with the policy's weights, in its dtype; it has no eyes."""
    c = policy.config
    none = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    same = {"rms_norm_eps": c.eps, "rope_theta": c.rope_base, "tie_word_embeddings": False}
    llama = llama_like(c, **same, **none).to(policy.lm_head.weight.dtype)
    own = {name: value for name, value in policy.state_dict().items() if not name.startswith("patch")}
    llama.load_state_dict(
        {name if name.startswith("lm_head") else f"model.{name}": value for name, value in own.items()}
    )
    return llama


def test_it_is_a_llama_behind_its_eyes(policy, given):
    llama, x = llama_of(policy), policy.embed(*given[:2])
    see = policy.mask(x.shape[1], x.device)
    with torch.no_grad():
        theirs = llama(
            inputs_embeds=x, attention_mask=torch.zeros(see.shape).masked_fill(~see, float("-inf"))[None, None]
        ).logits
        ours = policy.lm_head(policy.decode(x, see))
    assert torch.allclose(theirs, ours, atol=1e-5)


@torch.no_grad()
def test_it_generates_what_hugging_faces_llama_generates():
    """Greedy, with either's cache: words alone by ``generate``; a picture's prefix, which sees all of itself, step by step."""
    policy = load(dtype=torch.float64)
    llama = llama_of(policy)
    for prompt in ([1, 2, 3], [0], [16, 20, 4, 9, 9, 30, 12]):
        told = llama.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)[0, len(prompt) :].tolist()
        blocks = Paged(20, 4)
        report = serve(
            [Request("one", 0.0, tuple(prompt), 24)], Chunked(), blocks, model=Decoder.tiny(blocks, dtype=torch.float64)
        )
        assert report.outcomes[0].output == told and len(set(told)) > 1
    image, text = (torch.from_numpy(part) for part in frames(4, np.random.default_rng(3))[:2])
    x, cache, told = policy.embed(image, text), None, []
    for _ in range(policy.config.action_length):
        mask = torch.zeros(len(x), 1, x.shape[1], x.shape[1] + (cache.get_seq_length() if cache else 0), dtype=x.dtype)
        out = llama(inputs_embeds=x, attention_mask=mask, past_key_values=cache, use_cache=True)
        told.append(out.logits[:, -1, len(WORDS) :].argmax(-1, keepdim=True) + len(WORDS))
        x, cache = policy.embed_tokens(told[-1]), out.past_key_values
    assert torch.equal(policy.generate(image, text), torch.cat(told, 1))
