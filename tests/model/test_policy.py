"""TinyVLA's shape, its masks and its cache."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gpulab import cuda
from gpulab.model import SIZES, Config, TinyVLA, load
from gpulab.model.world import WORDS, frames
from gpulab.serving import Chunked, Paged, Request, serve
from gpulab.serving.model.decoder import Decoder


@pytest.fixture(scope="module")
def policy():
    torch.manual_seed(0)
    return TinyVLA().eval()


@pytest.fixture(scope="module")
def given():
    """Images, word ids and action tokens of eight frames."""
    image, text, bins = frames(8, np.random.default_rng(3))
    return torch.from_numpy(image), torch.from_numpy(text), torch.from_numpy(bins + len(WORDS))


@pytest.mark.parametrize("size", SIZES)
def test_the_configuration_counts_the_parameters(size):
    with torch.device("meta"):
        policy = TinyVLA(SIZES[size])
    assert sum(p.numel() for p in policy.parameters()) == SIZES[size].parameters


def test_sizes_go_from_under_a_million_to_seven_billion():
    assert SIZES["tiny"].parameters < 1e6 and SIZES["7B"].parameters > 6.7e9


def test_the_vocabulary_is_that_of_the_world():
    assert SIZES["tiny"].words == len(WORDS)


@pytest.mark.parametrize("wrong", [{"heads": 3}, {"kv_heads": 3}, {"patch": 15}, {"width": 12}])
def test_a_configuration_that_does_not_divide_is_refused(wrong):
    with pytest.raises(ValueError, match="divide|even"):
        replace(Config(), **wrong)


def test_the_cache_changes_no_token(policy, given):
    image, text, _ = given
    assert torch.equal(policy.generate(image, text), policy.generate(image, text, use_cache=False))


def test_what_is_generated_is_an_action(policy, given):
    tokens = policy.generate(*given[:2])
    assert tokens.shape == (8, 2) and tokens.min() >= len(WORDS) and tokens.max() < policy.config.vocabulary


def test_generating_step_by_step_agrees_with_all_at_once(policy, given):
    image, text, _ = given
    tokens = policy.generate(image, text)
    logits = policy(image, text, tokens)[..., len(WORDS) :]
    assert torch.equal(logits.argmax(-1) + len(WORDS), tokens)


def test_an_action_token_sees_none_that_comes_after(policy, given):
    image, text, actions = given
    other = actions.clone()
    other[:, 0] = (other[:, 0] - len(WORDS) + 1) % 17 + len(WORDS)
    before, after = policy(image, text, actions), policy(image, text, other)
    assert torch.equal(before[:, 0], after[:, 0]) and not torch.equal(before[:, 1], after[:, 1])


def test_patches_see_the_words(policy, given):
    """The prefix looks at all of itself: a last word changes what the first patch becomes."""
    image, text, _ = given
    other = text.clone()
    other[:, -1] = other[:, -2]
    first = [policy.decode(x := policy.embed(image, words), policy.mask(x.shape[1], x.device))[:, 0] for words in (text, other)]
    assert not torch.equal(*first)


def llama_of(policy):
    """Hugging Face's Llama with the policy's weights, in its dtype; it has no eyes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    c = policy.config
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=c.vocabulary, hidden_size=c.width, intermediate_size=c.hidden, num_hidden_layers=c.layers,
            num_attention_heads=c.heads, num_key_value_heads=c.kv_heads, rms_norm_eps=c.eps, rope_theta=c.rope_base,
            tie_word_embeddings=False, attn_implementation="eager", bos_token_id=None, eos_token_id=None, pad_token_id=None,
        )
    ).to(policy.lm_head.weight.dtype).eval()  # fmt: skip
    own = {name: value for name, value in policy.state_dict().items() if not name.startswith("patch")}
    llama.load_state_dict({name if name.startswith("lm_head") else f"model.{name}": value for name, value in own.items()})
    return llama


def test_it_is_a_llama_behind_its_eyes(policy, given):
    llama, x = llama_of(policy), policy.embed(*given[:2])
    see = policy.mask(x.shape[1], x.device)
    with torch.no_grad():
        theirs = llama(inputs_embeds=x, attention_mask=torch.zeros(see.shape).masked_fill(~see, float("-inf"))[None, None]).logits
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
        report = serve([Request("one", 0.0, tuple(prompt), 24)], Chunked(), blocks, model=Decoder.tiny(blocks, dtype=torch.float64))
        assert report.outcomes[0].output == told and len(set(told)) > 1
    image, text = (torch.from_numpy(part) for part in frames(4, np.random.default_rng(3))[:2])
    x, cache, told = policy.embed(image, text), None, []
    for _ in range(policy.config.action_length):
        mask = torch.zeros(len(x), 1, x.shape[1], x.shape[1] + (cache.get_seq_length() if cache else 0), dtype=x.dtype)
        out = llama(inputs_embeds=x, attention_mask=mask, past_key_values=cache, use_cache=True)
        told.append(out.logits[:, -1, len(WORDS) :].argmax(-1, keepdim=True) + len(WORDS))
        x, cache = policy.embed_tokens(told[-1]), out.past_key_values
    assert torch.equal(policy.generate(image, text), torch.cat(told, 1))


def test_on_the_virtual_card_it_acts_as_on_the_host(given):
    torch.manual_seed(0)
    policy = TinyVLA().eval()
    due = policy.generate(*given[:2])
    with cuda.use("virtual:H100", quiet=True):
        there = policy.cuda().generate(*(each.cuda() for each in given[:2]))
        assert there.is_cuda and torch.equal(there.cpu(), due)


def test_training_on_one_batch_learns_it(given):
    torch.manual_seed(0)
    policy = TinyVLA(replace(SIZES["tiny"], layers=1))
    optimizer = torch.optim.AdamW(policy.parameters(), 3e-3)
    losses = []
    for _ in range(30):
        loss = policy.loss(*given)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
