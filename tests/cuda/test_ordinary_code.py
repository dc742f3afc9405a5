"""Lines that ordinary programs have: an index for the card, versions, streams of no named kind."""

import gc
import io
import pickle
import sys
import weakref
from contextlib import contextmanager
from types import ModuleType

import pytest
import torch

import gpulab.cuda


def test_an_index_alone_is_the_card(cuda):
    assert torch.device(0) == torch.device("cuda", 0)
    assert torch.nn.Linear(2, 2).to(0).weight.device == torch.device(0)
    assert torch.nn.Linear(2, 2).to(device=0).weight.is_cuda


def test_a_flag_is_no_index(virtual):
    x = torch.ones(2)
    assert x.to(torch.ones(1, device="cuda", dtype=torch.float64), True, True).dtype == torch.float64
    with pytest.raises(TypeError):
        torch.device(True)


def test_the_device_class_is_the_one_of_its_instances(cuda):
    device = torch.device("cpu")
    assert isinstance(device, torch.device) and type(device) == torch.device  # noqa: E721
    assert {torch.device: "known"}[type(device)] == "known"
    assert pickle.loads(pickle.dumps(torch.device(0))) == torch.device(0)


def test_a_script_makes_a_device(cuda):
    @torch.jit.script
    def zeros_there(x: torch.Tensor, where: torch.device):
        return x.to(where), torch.zeros(2, device=torch.device("cpu"))

    assert zeros_there(torch.ones(2), torch.device("cpu"))[1].device.type == "cpu"


def test_the_card_has_the_versions_of_a_cuda_build(cuda):
    assert int(torch.version.cuda.split(".")[0]) >= 11
    assert torch.backends.cudnn.version() > 8000


def test_the_versions_go_with_the_card():
    with gpulab.cuda.use("off", quiet=True):
        before = torch.version.cuda
        with gpulab.cuda.use("virtual", quiet=True):
            assert torch.version.cuda
        assert torch.version.cuda == before


def test_streams_and_events_of_no_named_kind_are_the_cards(cuda):
    begin, end = (torch.Event(device="cuda", enable_timing=True) for _ in range(2))
    stream = torch.Stream(device="cuda")
    with stream:
        begin.record()
        torch.ones(1 << 20, device="cuda").sum()
        end.record()
    torch.accelerator.current_stream().wait_event(end)
    end.synchronize()
    assert begin.elapsed_time(end) > 0
    assert isinstance(torch.cuda.Stream(), torch.Stream) and stream.device == torch.device(0)


def test_names_bound_before_use_are_the_cards():
    program = """
from time import perf_counter
from torch import tensor, zeros
from torch.cuda import Stream
from torch.linalg import matrix_rank
def run():
    return [zeros(2, device="cuda"), tensor([1, 2], device="cuda"), matrix_rank(zeros(2, 2, device="cuda")), Stream()]
"""
    with gpulab.cuda.use("off", quiet=True), learners_module("learners", program) as module:
        before = module.zeros
        with gpulab.cuda.use("virtual", quiet=True):
            *tensors, stream = module.run()
            assert all(t.is_cuda for t in tensors) and stream.device.type == "cuda"
        assert module.zeros is before


@contextmanager
def learners_module(name, program):
    """A module of a learner's, imported under ``name`` until the block ends."""
    module = ModuleType(name)
    module.__file__ = f"{name}.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        exec(program, vars(module))
        yield module


def is_bound_to_the_cards(module):
    with gpulab.cuda.use("virtual", quiet=True):
        return module.zeros is torch.zeros


@pytest.mark.parametrize("name", ["later", "__main__"])
def test_a_module_that_came_after_a_card_was_on_is_bound_to_the_next(name):
    program = "from torch import zeros"
    with gpulab.cuda.use("off", quiet=True), learners_module("first", program) as first:
        assert is_bound_to_the_cards(first)
        with learners_module("newest_then_gone", program) as newest:
            assert is_bound_to_the_cards(newest)
        assert is_bound_to_the_cards(first)
        with learners_module(name, program) as module:
            assert is_bound_to_the_cards(module) and is_bound_to_the_cards(first)
            assert module.zeros is first.zeros is torch.zeros


FACTORIES = ("zeros", "ones", "empty", "rand", "randn", "arange", "eye")


@pytest.mark.parametrize("name", FACTORIES)
def test_a_factory_that_a_library_kept_from_before_makes_a_device_tensor(name):
    with gpulab.cuda.use("off", quiet=True):
        kept = {"function": getattr(torch, name)}
    with gpulab.cuda.use("virtual", quiet=True):
        made = kept["function"](3, device="cuda")
        assert made.is_cuda and torch.cuda.memory_allocated() > 0


def test_a_block_that_the_garbage_collector_frees_meanwhile_waits_for_the_allocator(virtual):
    from gpulab.cuda.device import state

    memory, tensors = state.device_on().memory, [torch.ones(300, device="cuda") for _ in range(3)]
    allocator, free = memory._machine.allocator, memory._machine.allocator.free
    busy = []

    def freeing(block):
        assert not busy
        busy.append(block)
        tensors.clear()
        free(block)
        busy.clear()

    allocator.free = freeing
    first = tensors.pop()
    watch = weakref.ref(first.untyped_storage())
    del first
    gc.collect()
    assert watch() is None and torch.cuda.memory_allocated() == 0


def test_a_saved_file_opens_with_an_index_for_the_card(cuda):
    file = io.BytesIO()
    torch.save({"where": torch.device(0), "what": torch.ones(2, device="cuda")}, file)
    file.seek(0)
    assert torch.load(file, map_location=torch.device(0))["what"].is_cuda
