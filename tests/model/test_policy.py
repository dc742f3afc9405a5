"""TinyVLA's shape, its masks and its cache."""

from dataclasses import replace

import pytest
import torch

from gpulab import cuda
from gpulab.model import SIZES, Config, TinyVLA
from gpulab.model.world import WORDS


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
    first = [
        policy.decode(x := policy.embed(image, words), policy.mask(x.shape[1], x.device))[:, 0]
        for words in (text, other)
    ]
    assert not torch.equal(*first)


def test_on_the_virtual_card_it_acts_as_on_the_host(given):
    torch.manual_seed(0)
    policy = TinyVLA().eval()
    expected = policy.generate(*given[:2])
    with cuda.use("virtual:H100", quiet=True):
        there = policy.cuda().generate(*(each.cuda() for each in given[:2]))
        assert there.is_cuda and torch.equal(there.cpu(), expected)


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
