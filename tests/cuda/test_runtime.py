"""``use()``: which runtime, said in one line, and no trace of it afterwards."""

import time

import pytest
import torch
from torch.optim.optimizer import _foreach_supported_types

import gpulab.cuda
from gpulab.cards.cards import CARDS
from gpulab.cuda.device.dispatch import references_of_a_temporary


def attributes():
    owners = (
        torch, torch._C, torch.cuda, torch.cuda.memory, torch.cuda.streams, torch.cuda.nvtx,
        torch.cuda.graphs, torch.Tensor, torch.fft, torch.nn.functional, torch._C._nn, time,
        torch.accelerator, torch.utils._device.DeviceContext, torch.serialization, torch.amp,
        torch.backends.cudnn, torch.optim.Optimizer, torch.profiler, torch.cuda.random,
    )  # fmt: skip
    found = {(o.__name__, name): id(value) for o in owners for name, value in vars(o).items()}
    found["registry"] = list(torch.serialization._package_registry)
    found["foreach"] = list(_foreach_supported_types)
    found["script"] = len(torch.jit._builtins._get_builtin_table())
    found["swap"] = torch.__future__.get_swap_module_params_on_conversion()
    found["autocast"] = (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda"))
    return found


def used():
    with gpulab.cuda.use("virtual", quiet=True):
        model = torch.nn.Linear(4, 4).cuda()
        with torch.autocast("cuda"):
            loss = model(torch.randn(2, 4, device="cuda")).sum()
        loss.backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def test_the_virtual_device_leaves_no_trace():
    used()
    before = attributes()
    used()
    assert attributes() == before


def test_an_error_inside_the_block_leaves_no_trace():
    used()
    before = attributes()
    with pytest.raises(ZeroDivisionError):
        with gpulab.cuda.use("virtual", quiet=True):
            1 / 0
    assert attributes() == before


def test_observing_begins_where_the_card_is_the_default_device():
    gpulab.cuda.use("virtual", quiet=True)
    references_of_a_temporary.cache_clear()
    with torch.device("cuda"), gpulab.observe() as seen:
        torch.ones(4)
    assert len(seen.kernels) == 1


def test_host_autocast_works_as_before_afterwards():
    used()
    layer = torch.nn.Linear(4, 4)
    with torch.autocast("cpu"):
        assert layer(torch.ones(1, 4)).dtype == torch.bfloat16
        assert torch.softmax(torch.ones(2, dtype=torch.bfloat16), -1).dtype == torch.bfloat16


def test_use_says_in_one_line_what_it_is(capsys):
    with gpulab.cuda.use("virtual:T4"):
        pass
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("CUDA: virtual Tesla T4.") and "modelled" in line


def test_off_says_so(capsys):
    gpulab.cuda.use("off")
    assert capsys.readouterr().out == "CUDA: off\n"


def test_an_unknown_card_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="choose one of H100, H200, A100"):
        gpulab.cuda.use("virtual:P100")


def test_an_unknown_runtime_is_refused():
    with pytest.raises(ValueError, match="say 'auto', 'real', 'virtual'"):
        gpulab.cuda.use("gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is at hand")
def test_real_without_a_gpu_is_refused():
    with pytest.raises(RuntimeError, match="sees no GPU here"):
        gpulab.cuda.use("real")


def test_leaving_restores_the_card_that_was_on_before():
    with gpulab.cuda.use("virtual:A10", quiet=True):
        with gpulab.cuda.use("virtual:T4", quiet=True):
            assert gpulab.cuda.current() == "virtual:T4"
        assert gpulab.cuda.current() == "virtual:A10"


def test_a_tensor_that_outlives_its_card_says_so():
    with gpulab.cuda.use("virtual", quiet=True):
        x = torch.ones(2, device="cuda")
    with pytest.raises(gpulab.cuda.DeviceIsOff, match="switched off"):
        x + 1


@pytest.mark.parametrize("card", CARDS.values(), ids=list(CARDS))
def test_every_figure_of_a_card_names_its_source(card):
    sourced = {figure for names in card.sources for figure in names.split(", ")}
    figures = {"multiprocessors", "clock_hz", "bytes_per_s", "memory_bytes", "link_bytes_per_s"}
    assert sourced == figures | set(card.flops_per_s)
    assert card.flops_per_s["fp16"] >= card.flops_per_s["fp32"] >= card.flops_per_s["fp64"]
    assert not any(
        site in text for text in card.sources.values() for site in (".se/", "sysrqmts", "fpsreview", "glennk")
    )


def test_double_precision_is_as_slow_as_the_guide_says():
    assert CARDS["A10"].flops_per_s["fp64"] == pytest.approx(0.488e12, rel=0.01)
    for key in ("H100", "A100"):
        rates = CARDS[key].flops_per_s
        assert rates["fp64 matrix"] == pytest.approx(2 * rates["fp64"])


@pytest.mark.parametrize(("card", "mib"), [("T4", 15360), ("A10", 23028), ("RTX4090", 24564), ("H100", 81559)])
def test_a_card_has_no_more_memory_than_nvidia_smi_shows(card, mib):
    assert 0.95 * mib < CARDS[card].memory_bytes / 2**20 < mib


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_scripted_functions_may_still_make_tensors():
    with gpulab.cuda.use("virtual", quiet=True):
        assert _scripted()(torch.ones(2)).tolist() == [2, 2]
    assert _scripted()(torch.ones(2)).tolist() == [2, 2]


def _scripted():
    def function(x):
        return x + torch.ones([2]) + torch.zeros_like(x)

    return torch.jit.script(function)


def test_the_name_of_a_virtual_card_says_that_it_is_virtual():
    with gpulab.cuda.use("virtual:L40S", quiet=True):
        assert torch.cuda.get_device_name() == "NVIDIA L40S (virtual)"


def test_a_tensor_of_the_card_before_lives_on_after_the_block():
    with gpulab.cuda.use("virtual:T4", quiet=True):
        x = torch.ones(3, device="cuda")
        allocated, stream = torch.cuda.memory_allocated(), torch.cuda.Stream()
        with gpulab.cuda.use("virtual:H100", quiet=True):
            assert torch.cuda.memory_allocated() == 0
        assert torch.cuda.memory_allocated() == allocated and x.tolist() == [1, 1, 1]
        with torch.cuda.stream(stream):
            x.add_(1)


def test_a_tensor_of_an_outer_block_of_the_same_card_lives_on():
    with gpulab.cuda.use("virtual:T4", quiet=True):
        x = torch.ones(3, device="cuda")
        for _ in range(2):
            with gpulab.cuda.use("virtual:T4", quiet=True):
                assert torch.cuda.memory_allocated() == 0
                torch.ones(1 << 20, device="cuda")
        assert torch.cuda.memory_allocated() == 512 and x.tolist() == [1, 1, 1]


def test_asking_again_for_the_card_that_is_on_keeps_its_tensors():
    with gpulab.cuda.use("virtual:T4", quiet=True):
        x = torch.ones(3, device="cuda")
        runtime = gpulab.cuda.use("virtual:T4", quiet=True)
        assert torch.cuda.memory_allocated() == 512 and runtime.card.key == "T4"
        del x
        assert torch.cuda.memory_allocated() == 0


def test_memory_freed_while_another_card_is_on_is_free_afterwards():
    with gpulab.cuda.use("virtual:T4", quiet=True):
        x = torch.ones(3, device="cuda")
        with gpulab.cuda.use("virtual:H100", quiet=True):
            del x
        assert torch.cuda.memory_allocated() == 0


def test_a_run_of_memory_history_outlives_a_block_of_another_card():
    with gpulab.cuda.use("virtual:T4", quiet=True):
        torch.cuda.memory._record_memory_history()
        x = torch.ones(3, device="cuda")
        with gpulab.cuda.use("virtual:H100", quiet=True):
            pass
        traces = torch.cuda.memory._snapshot()["device_traces"][0]
        assert [entry["action"] for entry in traces] == ["segment_alloc", "alloc"] and x.is_cuda


@pytest.mark.parametrize("variable", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
@pytest.mark.parametrize("which", ["virtual:H100", "ghost:H100"])
def test_an_allocator_that_the_environment_asks_for_is_refused_by_the_name_of_the_variable(
    monkeypatch, variable, which
):
    monkeypatch.setenv(variable, "expandable_segments:True")
    with gpulab.cuda.use("off", quiet=True):
        with pytest.raises(
            gpulab.cuda.NotModelled, match=f"expandable_segments:True, in the environment's {variable} "
        ):
            gpulab.cuda.use(which, quiet=True)
        assert gpulab.cuda.current() == "off"


def test_a_setting_that_no_card_knows_is_refused_in_pytorchs_words(monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable:True")
    with pytest.raises(ValueError, match="Unrecognized key 'expandable' in Accelerator allocator config."):
        gpulab.cuda.use("virtual:T4", quiet=True)


def test_a_refused_card_leaves_the_one_that_was_on(monkeypatch):
    with gpulab.cuda.use("virtual:A100", quiet=True):
        monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
        with pytest.raises(gpulab.cuda.NotModelled, match="max_split_size_mb:64"):
            gpulab.cuda.use("virtual:H100", quiet=True)
        assert gpulab.cuda.current() == "virtual:A100" and torch.zeros(1, device="cuda").is_cuda


@pytest.mark.parametrize("settings", ["", "backend:native", "expandable_segments:False, backend:native"])
def test_an_allocator_as_the_model_has_it_may_be_asked_for(monkeypatch, settings):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", settings)
    with gpulab.cuda.use("virtual:H100", quiet=True):
        assert torch.zeros(1, device="cuda").is_cuda
