"""Unmodified Hugging Face ``transformers`` models give the CPU's results on a CUDA device, virtual or real."""

import copy

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pip install transformers, to run its models here")
pytestmark = pytest.mark.usefixtures("cuda", "no_tf32")

IDS = torch.tensor([[5, 17, 33, 2, 81, 40], [9, 9, 71, 64, 3, 12]])
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
MODELS = {
    "GPT-2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
    ),
    "Llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=100, num_key_value_heads=2, **SMALL)
    ),
    "BERT": lambda: transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=100, **SMALL)),
    "ViT": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(image_size=32, patch_size=8, **SMALL)),
}


def made(name):
    torch.manual_seed(0)
    return MODELS[name]().eval()


def batch(name):
    if name == "ViT":
        return dict(pixel_values=torch.linspace(0, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32), labels=torch.tensor([0, 1]))
    return dict(input_ids=IDS, labels=torch.tensor([0, 1]) if name == "BERT" else IDS)


def trained(model, inputs):
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(**inputs).loss
    loss.backward()
    optimizer.step()
    return [loss.detach(), *(p.detach() for p in model.parameters())]


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_gives_the_hosts_loss_and_weights(name):
    host = made(name)
    card = copy.deepcopy(host).cuda()
    expected = trained(host, batch(name))
    got = trained(card, {key: value.cuda() for key, value in batch(name).items()})
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(b.cpu(), a, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_greedy_generation_gives_the_hosts_tokens(name):
    host = made(name)
    card = copy.deepcopy(host).cuda()
    options = dict(max_new_tokens=6, do_sample=False, pad_token_id=0)
    mask = torch.ones_like(IDS)
    expected = host.generate(IDS, attention_mask=mask, **options)
    got = card.generate(IDS.cuda(), attention_mask=mask.cuda(), **options)
    assert got.is_cuda and got.tolist() == expected.tolist()
