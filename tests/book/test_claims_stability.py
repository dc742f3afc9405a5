"""What settles the claims of the chapter "Staying alive: stability, schedules, checkpoints": one test a claim, or more."""

import io
import os
import pickle
import random
import resource
import signal

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, Dataset

from gpulab.collectives import run_ranks

GLOO = {"card": "off", "backend": "gloo"}


def gradients(bad: float | None = None) -> list[nn.Parameter]:
    torch.manual_seed(0)
    found = [nn.Parameter(torch.zeros(16, 16)) for _ in range(3)]
    for parameter, size in zip(found, (1.0, 5.0, 0.01), strict=True):
        parameter.grad = size * torch.randn(16, 16)
    if bad is not None:
        found[1].grad[3, 3] = bad
    return found


def flat(parameters: list[nn.Parameter]) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in parameters])


def test_clipping_by_norm_spreads_one_nan_to_every_gradient():
    clip_grad_norm_(some := gradients(float("nan")), 1.0)
    assert flat(some).isnan().all()
    clip_grad_norm_(some := gradients(float("inf")), 1.0)
    assert flat(some).isnan().sum() == 1 and (flat(some) == 0).sum() == flat(some).numel() - 1
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_(some := gradients(float("nan")), 1.0, error_if_nonfinite=True)
    assert flat(some).isnan().sum() == 1


def test_clipping_by_norm_keeps_the_direction_and_by_value_does_not():
    before = flat(gradients())

    def cosine(clip) -> float:
        clip(some := gradients())
        return torch.cosine_similarity(before, flat(some), dim=0).item()

    assert cosine(lambda some: clip_grad_norm_(some, 1.0)) == pytest.approx(1, abs=1e-5)
    assert cosine(lambda some: clip_grad_value_(some, 0.5)) < 0.99
    assert cosine(lambda some: [clip_grad_norm_([one], 1.0) for one in some]) < 0.99


@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_the_peak_is_one_step_at_the_end_of_the_warm_up():
    sgd = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1e-3)
    schedule = SequentialLR(sgd, [LinearLR(sgd, 1 / 11, total_iters=10), CosineAnnealingLR(sgd, 90)], [10])
    rates = []
    for _ in range(100):
        rates.append(sgd.param_groups[0]["lr"])
        sgd.step()
        schedule.step()
    assert rates.index(max(rates)) == 10 and max(rates) == pytest.approx(1e-3)
    assert all(a < b for a, b in zip(rates[:10], rates[1:11], strict=True))
    assert all(a > b for a, b in zip(rates[10:], rates[11:], strict=False))


class Surprise:
    def __reduce__(self):
        return os.putenv, ("GPULAB_SURPRISE", "ran")


def loads(state: dict) -> bool:
    torch.save(state, file := io.BytesIO())
    file.seek(0)
    try:
        torch.load(file)
    except pickle.UnpicklingError:
        return False
    return True


def test_a_load_refuses_arrays_and_code_and_takes_plain_types():
    model = nn.Linear(2, 2)
    adam = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    adam.step()
    notes = {
        "epoch": 3,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": adam.state_dict(),
        "loss": 0.5,
        "rng_state": torch.get_rng_state(),
        "cuda_rng_state": [],
    }
    assert (
        loads(notes)
        and loads({"python": random.getstate()})
        and loads({"numpy": np.random.default_rng(0).bit_generator.state})
    )
    assert not loads(notes | {"numpy": np.random.get_state()})
    assert not loads({"state": Surprise()})


class Job:
    """Training with all the state that a real job has; ``parts`` are what a checkpoint may hold."""

    parts = ("model", "optimizer", "schedule", "scaler", "sampler", "torch", "numpy", "python")

    def __init__(self, seed: int):
        for start in (torch.manual_seed, np.random.seed, random.seed):
            start(seed)
        self.model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.schedule = CosineAnnealingLR(self.optimizer, 20)
        self.scaler = torch.amp.GradScaler("cpu", 1024.0, growth_interval=3)
        self.position = 0

    def step(self) -> tuple[float, float]:
        x = (
            torch.full((8, 4), float(self.position % 5))
            + torch.from_numpy(np.random.normal(size=(8, 4))).float()
            + random.random()
        )
        self.position += 1
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        return loss.item(), self.scaler.get_scale()

    def save(self) -> dict:
        plain = {
            "sampler": self.position,
            "torch": torch.get_rng_state(),
            "numpy": np.random.get_state(),
            "python": random.getstate(),
        }
        return {name: getattr(self, name).state_dict() for name in self.parts[:4]} | plain

    def load(self, state: dict) -> None:
        put = {"torch": torch.set_rng_state, "numpy": np.random.set_state, "python": random.setstate}
        for name, part in state.items():
            if name == "sampler":
                self.position = part
            else:
                put.get(name, lambda part, name=name: getattr(self, name).load_state_dict(part))(part)


def test_a_run_goes_on_bit_for_bit_with_everything_and_with_nothing_less():
    job = Job(seed=0)
    for _ in range(7):
        job.step()
    torch.save(job.save(), file := io.BytesIO())
    went_on = [job.step() for _ in range(8)]

    def resumed(without: set[str]) -> list[tuple[float, float]]:
        file.seek(0)
        state = torch.load(file, weights_only=False)
        other = Job(seed=1)
        other.load({name: part for name, part in state.items() if name not in without})
        return [other.step() for _ in range(8)]

    assert resumed(set()) == went_on
    assert [name for name in Job.parts if resumed({name}) == went_on] == []
    assert resumed({"schedule", "scaler", "sampler", "numpy", "python"}) != went_on


def test_every_rank_has_random_states_of_its_own():
    def drawn(rank, world):
        torch.manual_seed(100 + rank)
        torch.rand(3)
        return torch.get_rng_state().tolist()

    first, second = run_ranks(drawn, 2, **GLOO).results
    assert first != second


def cut_short(path: str, limit: int) -> None:
    """Save over a file in a process that is ended by its first byte past a limit."""
    if (child := os.fork()) == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        torch.save({"weights": torch.ones(100_000)}, path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGXFSZ


def test_a_save_over_the_old_file_that_is_cut_short_leaves_neither(tmp_path):
    path = str(tmp_path / "state.pt")
    torch.save({"weights": torch.zeros(100_000)}, path)
    assert torch.load(path)["weights"].sum() == 0
    cut_short(path, 50_000)
    with pytest.raises((RuntimeError, OSError, EOFError, pickle.UnpicklingError)):
        torch.load(path)
    torch.save({"weights": torch.zeros(100_000)}, path)
    cut_short(path + ".tmp", 50_000)
    assert torch.load(path)["weights"].sum() == 0


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.rand(()).item()


def test_a_workers_random_state_is_lost_in_the_middle_of_an_epoch():
    torch.manual_seed(0)
    loader = iter(DataLoader(Noisy(), num_workers=1, batch_size=1))
    for _ in range(4):
        next(loader)
    state = torch.get_rng_state()
    rest = [next(loader).item() for _ in range(4)]
    torch.set_rng_state(state)
    again = list(DataLoader(Noisy(), num_workers=1, batch_size=1))
    assert rest not in ([one.item() for one in again[4:]], [one.item() for one in again[:4]])


def level(rate: float, batch: int, steps: int = 4000) -> float:
    """Where the loss of a noisy quadratic stands at the end: the mean of its last half."""
    noise = torch.Generator().manual_seed(0)
    w, losses = torch.full((20,), 3.0), []
    for step in range(steps):
        w = w - rate * (w + torch.randn(20, generator=noise) / batch**0.5)
        losses.append(0.5 * w.square().sum().item())
    return sum(losses[steps // 2 :]) / (steps // 2)


def test_a_larger_batch_mends_a_plateau_of_noise_and_not_a_rate_that_is_too_low():
    assert level(0.1, batch=8) < 0.2 * level(0.1, batch=1)
    assert level(0.0125, batch=1) < 0.2 * level(0.1, batch=1)
    assert level(1e-6, batch=8) > 0.9 * level(1e-6, batch=1) > 10


def test_at_equal_samples_a_larger_batch_does_what_a_lower_rate_does_in_fewer_steps():
    assert level(0.1, batch=8, steps=1000) == pytest.approx(level(0.0125, batch=1, steps=8000), rel=0.2)
    assert level(0.0125, batch=1, steps=100) > 10 * level(0.1, batch=1, steps=100), (
        "what is not noise falls more slowly"
    )


def test_a_nan_comes_from_an_overflow_a_logarithm_or_the_data_with_gradients_in_order():
    half = torch.tensor([300.0], requires_grad=True).half()
    assert (half * half - half * half).isnan()
    p = torch.zeros(1, requires_grad=True)
    assert (p * p.log()).isnan().all()
    assert nn.functional.mse_loss(torch.ones(2), torch.tensor([1.0, float("nan")])).isnan()


def after_a_step(gradient: float, dtype: torch.dtype) -> torch.Tensor:
    """A weight of 1 behind a step of AdamW with this gradient."""
    weight = nn.Parameter(torch.ones(1, dtype=dtype))
    weight.grad = torch.full((1,), gradient, dtype=dtype)
    torch.optim.AdamW([weight], lr=1e-3, foreach=False).step()
    return weight.detach()


def test_vanishing_makes_a_nan_in_pure_fp16_and_in_a_norm_and_none_by_itself_in_float32():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(400):
        y = 0.1 * y.tanh()
    y.backward()
    assert x.grad == 0 and y.isfinite() and after_a_step(0.0, torch.float32).isfinite()
    assert after_a_step(0.0, torch.float16).isnan(), "0 / 0: an eps of 1e-8 is 0 in fp16"
    assert after_a_step(1e-5, torch.float16).isinf(), "its square is 0 in fp16"
    vanished = torch.zeros(4, requires_grad=True)
    vanished.square().sum().sqrt().backward()
    assert vanished.grad.isnan().all()


def first_norm(depth: int, residual: bool, norm: bool) -> float:
    """The norm of the first layer's gradient, before any step."""
    torch.manual_seed(0)
    x = torch.randn(64, 32)
    weights = [nn.Parameter(torch.randn(32, 32) / 32**0.5) for _ in range(depth)]
    for weight in weights:
        given = nn.functional.layer_norm(x, (32,)) if norm else x
        y = (given @ weight).relu()
        x = x + y if residual else y
    out = nn.functional.layer_norm(x, (32,)) if norm else x
    nn.functional.cross_entropy(out, torch.arange(64) % 32).backward()
    return weights[0].grad.norm().item()


def test_gradients_keep_their_size_with_residual_connections_and_norms_together():
    def growth(residual: bool, norm: bool) -> float:
        return first_norm(64, residual, norm) / first_norm(2, residual, norm)

    assert growth(residual=False, norm=False) < 1e-5
    assert growth(residual=True, norm=False) > 1e5
    assert 0.1 < growth(residual=True, norm=True) < 10
