"""Code that nobody here wrote, unmodified: values equal to the host's.

The packages are in the ``test`` extra; where one is missing (a bare GPU machine), its tests skip.
"""

import copy

import pytest
import torch

from gpulab.cuda import coverage

pytestmark = pytest.mark.usefixtures("cuda", "no_tf32")
CLOSE = dict(atol=2e-4, rtol=1e-3)
IDS = torch.tensor([[5, 17, 33, 2], [9, 9, 71, 64]])


def test_every_package_that_the_book_names_is_run_here_or_beside_this_file():
    assert {row.package for row in coverage.PACKAGES} == {"transformers", "peft", "diffusers", "accelerate"}


def same(expected, got):
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(b.cpu(), a, **CLOSE)


# ---- peft: low-rank adapters


def adapted():
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
    base = transformers.GPT2LMHeadModel(config).eval()
    options = dict(r=4, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    return peft.get_peft_model(base, peft.LoraConfig(**options))


def adapter_step(model, ids):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    return [loss.detach(), *(p.detach() for p in model.parameters())]


def test_peft_trains_an_adapter_to_the_hosts_weights():
    host = adapted()
    card = copy.deepcopy(host).cuda()
    same(adapter_step(host, IDS), adapter_step(card, IDS.cuda()))


def test_peft_merges_an_adapter_to_the_hosts_outputs():
    host = adapted()
    card = copy.deepcopy(host).cuda()
    with torch.no_grad():
        expected = host.merge_and_unload()(IDS).logits
        got = card.merge_and_unload()(IDS.cuda()).logits
    assert got.is_cuda
    same([expected], [got])


# ---- diffusers: a denoising network and its samplers


def network():
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    return diffusers.UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )


def images():
    return torch.linspace(-1, 1, 2 * 3 * 8 * 8).view(2, 3, 8, 8)


def denoising_gradients(model, device):
    import diffusers

    x, steps = images().to(device), torch.tensor([3, 40]).to(device)
    noise = torch.sin(9 * x)
    noisy = diffusers.DDPMScheduler(num_train_timesteps=50).add_noise(x, noise, steps)
    loss = torch.nn.functional.mse_loss(model(noisy, steps).sample, noise)
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


def sampled(model, device):
    import diffusers

    scheduler, x = diffusers.DDIMScheduler(num_train_timesteps=50), images().to(device)
    scheduler.set_timesteps(3, device=device)
    with torch.no_grad():
        for step in scheduler.timesteps:
            x = scheduler.step(model(x, step).sample, step, x).prev_sample
    return x


def test_diffusers_trains_a_network_with_the_hosts_gradients():
    host = network()
    card = copy.deepcopy(host).cuda()
    same(denoising_gradients(host, "cpu"), denoising_gradients(card, "cuda"))


def test_diffusers_samples_the_hosts_images():
    host = network()
    card = copy.deepcopy(host).cuda()
    same([sampled(host, "cpu")], [sampled(card, "cuda")])


# ---- accelerate: a training loop that finds its own device


def test_accelerate_finds_the_card_and_trains_to_the_hosts_weights():
    accelerate = pytest.importorskip("accelerate")
    torch.manual_seed(0)
    host, rows = torch.nn.Linear(4, 2), torch.linspace(-1, 1, 32).view(8, 4)
    model, loop = copy.deepcopy(host), accelerate.Accelerator()
    assert loop.device.type == "cuda"
    loader = torch.utils.data.DataLoader(rows, batch_size=4, pin_memory=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = loop.prepare(model, optimizer, loader)
    for x in loader:
        assert x.is_cuda
        loop.backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    expected = torch.optim.SGD(host.parameters(), lr=0.1)
    for x in rows.split(4):
        host(x).square().mean().backward()
        expected.step()
        expected.zero_grad()
    same(list(host.parameters()), list(loop.unwrap_model(model).parameters()))
