"""``@triton.autotune`` and ``@triton.heuristics`` where nothing can be timed."""

import torch

from gpulab import observe
from gpulab.kernels import tl, triton

CONFIGS = [triton.Config({"BLOCK": size}, num_warps=4) for size in (32, 64, 128)]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def launched(kernel, **options):
    x, out = torch.randn(256), torch.zeros(256)
    with observe() as seen:
        kernel[lambda meta: (triton.cdiv(256, meta["BLOCK"]),)](x, out, 256, **options)
    assert torch.equal(x, out)
    return seen.launches


def test_the_first_config_runs_and_nothing_else_does():
    (launch,) = launched(copy)
    assert launch.grid == (8, 1, 1)


def test_every_config_can_be_run():
    grids = [launched(copy.fn, **config.all_kwargs())[0].grid[0] for config in copy.configs]
    assert grids == [8, 4, 2]


def test_pruned_configs_do_not_run():
    prune = {"early_config_prune": lambda configs, *args, **kwargs: configs[1:]}
    pruned = triton.autotune(configs=CONFIGS, key=["n"], prune_configs_by=prune)(copy.fn)
    assert launched(pruned)[0].grid == (4, 1, 1)


def test_heuristics_give_a_constant():
    @triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"]) // 4})
    @triton.jit
    def by_rule(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i))

    assert launched(by_rule)[0].grid == (4, 1, 1)
