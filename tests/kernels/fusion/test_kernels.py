"""What torch.compile fuses: kernels and bytes, before and after, with values that stay right."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import gpulab.cuda
from gpulab import observe
from gpulab.kernels import fusion
from gpulab.kernels.fusion import Report

BYTES = 64 * 128 * 4


def chain(x):
    return nn.functional.gelu(x * 2 + 1)


def block(x, w):
    y = chain(x) @ w
    return torch.softmax(y, -1) + 1


@pytest.fixture(scope="module")
def x():
    return torch.randn(64, 128, generator=torch.Generator().manual_seed(1))


def one_call(fn, *arguments):
    watched = fusion.watch(fn)
    result = watched(*arguments)
    (call,) = watched.report.calls
    return result, call


def test_a_chain_of_elementwise_operations_is_one_kernel_that_reads_and_writes_once(x):
    result, call = one_call(chain, x)
    (kernel,) = call.kernels
    assert (kernel.kind, kernel.bytes_read, kernel.bytes_written) == ("triton", BYTES, BYTES)
    assert kernel.ops == ("aten.mul", "aten.add", "aten.gelu")
    torch.testing.assert_close(result, chain(x))


def test_eager_is_a_kernel_for_each_operation(x):
    call = fusion.eager(chain, x)
    assert [kernel.name for kernel in call.kernels] == ["aten.mul", "aten.add", "aten.gelu"]
    assert call.bytes == 3 * 2 * BYTES


def test_a_view_is_no_kernel_before_or_after(x):
    def turned(x):
        return x.t().reshape(128, 64).t()

    assert fusion.eager(turned, x).kernels == one_call(turned, x)[1].kernels == ()


def test_a_product_stays_the_librarys_and_splits_what_is_fused(x):
    w = torch.randn(128, 32)
    result, call = one_call(block, x, w)
    assert [kernel.kind for kernel in call.kernels] == ["triton", "library", "triton"]
    product = call.kernels[1]
    assert product.ops == ("aten.mm",)
    assert (product.bytes_read, product.bytes_written) == (BYTES + w.nbytes, 64 * 32 * 4)
    assert len(fusion.eager(block, x, w).kernels) == 6
    torch.testing.assert_close(result, block(x, w))


def test_a_library_call_with_several_results_is_one_kernel(x):
    _, call = one_call(lambda x: torch.topk(x, 3), x)
    assert [kernel.kind for kernel in call.kernels] == ["library"]


def test_each_kernel_names_the_learners_lines(x):
    (kernel,) = one_call(chain, x)[1].kernels
    (line,) = kernel.lines
    assert (line.text, line.function) == ("return nn.functional.gelu(x * 2 + 1)", "chain")


def test_a_fused_kernel_shows_its_triton_source(x):
    (kernel,) = one_call(chain, x)[1].kernels
    assert kernel.source.startswith(f"@triton.jit\ndef {kernel.name}(")
    assert kernel.source.count("tl.load(") == kernel.source.count("tl.store(") == 1


def test_a_second_call_compiles_nothing_and_launches_the_same(x):
    watched = fusion.watch(chain)
    watched(x), watched(x + 1)
    first, second = watched.report.calls
    assert first == second and watched.report.graphs == 1


def test_a_result_used_twice_is_written_for_the_library_and_read_again(x):
    def both(x):
        y = x * 2
        return y @ y.t() + y.sum()

    _, call = one_call(both, x)
    assert call.bytes < fusion.eager(both, x).bytes
    assert any(kernel.kind == "library" for kernel in call.kernels)


def test_a_module_counts_too(x):
    model = nn.Sequential(nn.Linear(128, 64), nn.GELU(), nn.LayerNorm(64))
    result, call = one_call(model, x)
    assert [kernel.kind for kernel in call.kernels] == ["library", "triton"]
    assert len(fusion.eager(model, x).kernels) == 3
    torch.testing.assert_close(result, model(x))
    assert next(model.parameters()).device.type == "cpu"


def test_a_backward_pass_that_the_function_runs_is_counted(x):
    w = torch.randn(128, 8, requires_grad=True)

    def gradient(x):
        (found,) = torch.autograd.grad(nn.functional.gelu(x @ w).sum(), w)
        return found

    result, call = one_call(gradient, x)
    assert sum(kernel.ops == ("aten.mm",) for kernel in call.kernels) == 2
    torch.testing.assert_close(result, gradient(x), rtol=1e-4, atol=1e-4)


def test_on_the_virtual_card_the_result_is_on_the_card():
    with gpulab.cuda.use("virtual", quiet=True):
        x = torch.randn(64, 128, device="cuda")
        result, call = one_call(chain, x)
        assert result.is_cuda and len(call.kernels) == 1
        torch.testing.assert_close(result.cpu(), chain(x).cpu())
        assert len(fusion.eager(chain, x).kernels) == 3
        with pytest.raises(gpulab.cuda.NotModelled):
            torch.compile(chain)


def test_a_module_on_the_virtual_card_stays_there():
    with gpulab.cuda.use("virtual", quiet=True):
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()).cuda()
        x = torch.randn(4, 8, device="cuda")
        model.eval()
        result, call = one_call(model, x)
        assert [kernel.kind for kernel in call.kernels] == ["library", "triton"]
        assert all(parameter.is_cuda for parameter in model.parameters())
        torch.testing.assert_close(result.cpu(), model(x).cpu())


def test_inside_observe_it_compiles_all_the_same(x):
    watched = fusion.watch(chain)
    with observe():
        watched(x)
    assert len(watched.report.calls[0].kernels) == 1


def test_what_inductor_is_told_is_told_to_it_alone(x):
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    before = GraphLowering.compile_to_module, config.cpu_backend, config.fx_graph_cache
    one_call(chain, x)
    assert (GraphLowering.compile_to_module, config.cpu_backend, config.fx_graph_cache) == before


def test_what_crosses_to_the_referee_is_the_same_again(x):
    watched = fusion.watch(block)
    watched(x, torch.randn(128, 32))
    assert Report.from_dict(watched.report.to_dict()) == watched.report


def test_the_text_says_kernels_and_bytes(x):
    watched = fusion.watch(chain)
    watched(x)
    assert "1 call, 1 graph compiled, 0 graph breaks, 0 recompilations" in repr(watched)
    assert "1 kernel, 64.0 KiB moved" in repr(watched)


def test_it_needs_no_compiler_and_starts_no_process(tmp_path):
    program = """
import subprocess
import torch
def refuse(*arguments, **options):
    raise SystemExit(f"started {arguments}")
subprocess.Popen.__init__ = refuse
from gpulab.kernels import fusion
watched = fusion.watch(lambda x: torch.relu(x * 2))
watched(torch.ones(8))
print(len(watched.report.calls[0].kernels), "kernel")
"""
    path = tmp_path / "program.py"
    path.write_text(program)
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("1 kernel\n", 0), done.stderr


def test_factories_that_the_card_stood_in_for_break_no_graph():
    with gpulab.cuda.use("virtual", quiet=True):
        torch._dynamo.trace_rules.clear_lru_cache()
        torch._dynamo.trace_rules.get_torch_obj_rule_map()  # Dynamo reads all names with the card on
        watched = fusion.watch(lambda x: torch.ones_like(x) + x)
        watched(torch.ones(4, device="cuda"))
    assert watched.report.graph_breaks == ()


@pytest.mark.audit
def test_compiling_leaves_no_thread_behind():
    program = (
        "import threading, torch; from gpulab.kernels import fusion; "
        "fusion.watch(lambda x: x.relu() + 1)(torch.ones(4)); "
        "print([type(thread).__name__ for thread in threading.enumerate()])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['_MainThread']"


@pytest.mark.audit
def test_to_look_at_breaks_alone_imports_no_inductor():
    program = "import sys; from gpulab.kernels.fusion.dynamo import watched; print('torch._inductor.scheduler' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
