"""``torch.compile`` on the virtual card: refused, except where it compiles nothing."""

import subprocess
import sys

import pytest
import torch

import gpulab.cuda

pytestmark = pytest.mark.usefixtures("virtual")


def double(x):
    return x * 2


def test_the_refusal_names_what_to_do_instead():
    with pytest.raises(gpulab.cuda.NotModelled) as refused:
        torch.compile(double)
    words = ("disable=True", "TORCH_COMPILE_DISABLE=1", "set_stance('force_eager')", "gpulab.kernels.fusion.watch")
    assert all(word in str(refused.value) for word in words)


def test_a_decorator_is_refused_too():
    with pytest.raises(gpulab.cuda.NotModelled):
        torch.compile(fullgraph=True)


@pytest.mark.parametrize("off", ["disable", "variable"])
def test_what_is_switched_off_gives_the_function_itself_back(monkeypatch, off):
    options = {"disable": True} if off == "disable" else {}
    if off == "variable":
        monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    layer = torch.nn.Linear(2, 2)
    assert torch.compile(double, mode="max-autotune", **options) is double
    assert torch.compile(layer, **options) is layer
    assert torch.compile(fullgraph=True, **options)(double) is double


def test_in_an_eager_stance_functions_and_modules_run_as_they_are():
    x, layer = torch.ones(2, device="cuda"), torch.nn.Linear(2, 2).cuda()
    with torch.compiler.set_stance("force_eager"):
        of_function, of_module = torch.compile(double), torch.compile(layer)
        with gpulab.observe() as seen:
            assert torch.equal(of_function(x), x * 2) and torch.equal(of_module(x), layer(x))
    assert "aten.addmm" in {kernel.name for kernel in seen.kernels}
    assert set(of_module.state_dict()) == {"_orig_mod.weight", "_orig_mod.bias"}
    for compiled in (of_function, of_module):
        with pytest.raises(gpulab.cuda.NotModelled, match="torch.compile"):
            compiled(x)


def test_a_decorator_and_a_module_compiled_in_place_run_in_an_eager_stance():
    x, layer = torch.ones(2, device="cuda"), torch.nn.Linear(2, 2).cuda()
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(torch.compile(fullgraph=True)(double)(x), x * 2)
        layer.compile()
        assert layer(x).shape == (2,)


def test_a_variable_that_switches_compiling_off_is_heeded():
    script = """
import torch, gpulab.cuda
gpulab.cuda.use("virtual", quiet=True)
x = torch.ones(2, device="cuda")
print(torch.compile(lambda t: t * 2)(x).tolist(), torch.compile(torch.nn.ReLU())(x).tolist())
"""
    environment = {"TORCH_COMPILE_DISABLE": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split("\n")[0] == "[2.0, 2.0] [1.0, 1.0]"
