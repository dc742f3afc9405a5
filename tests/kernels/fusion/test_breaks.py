"""Graph breaks with their lines, recompilations with their reasons."""

import pytest
import torch

from gpulab.kernels import fusion
from gpulab.kernels.fusion import Report, dynamo
from gpulab.observe import InstrumentError


def branches(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y.relu()


def branches_without(x):
    y = x * 2
    return torch.where(y.sum() > 0, y + 1, y).relu()


def prints(x):
    y = x * 2
    print("half way")
    return y + 1


def asks_for_a_value(x):
    return x * x.max().item()


def report_of(fn, *calls, **options) -> Report:
    watched = fusion.watch(fn, **options)
    for arguments in calls:
        torch.testing.assert_close(watched(*arguments), fn(*arguments))
    return watched.report


@pytest.mark.parametrize(
    ("fn", "text", "reason"),
    [
        (branches, "if y.sum() > 0:", "Data-dependent branching"),
        (prints, 'print("half way")', "Failed to trace builtin operator"),
        (asks_for_a_value, "return x * x.max().item()", "Tensor.item()"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_graph_break_names_the_line_and_the_reason(fn, text, reason):
    (found,) = report_of(fn, (torch.randn(8),)).graph_breaks
    assert found.line.text == text and found.line.function == fn.__name__
    assert reason in found.reason and found.explanation


def test_a_break_makes_two_graphs_and_one_kernel_more():
    broken, whole = (report_of(fn, (torch.ones(8),)) for fn in (branches, branches_without))
    assert (broken.graphs, whole.graphs) == (2, 1)
    assert whole.graph_breaks == ()


def test_a_break_in_a_function_that_is_called_is_found_where_it_stands():
    def outer(x):
        return prints(x) * 3

    found = report_of(outer, (torch.ones(8),)).graph_breaks
    assert [item.line.text for item in found] == ['print("half way")']


def test_a_break_after_a_break_keeps_the_name_of_the_function():
    def two(x):
        y = x * 2
        print("first")
        y = y + 1
        print("second")
        return y

    found = report_of(two, (torch.ones(8),)).graph_breaks
    assert [(item.line.text, item.line.function) for item in found] == [
        ('print("first")', "two"),
        ('print("second")', "two"),
    ]


def test_to_switch_compilation_off_is_a_break():
    hidden = torch.compiler.disable(branches)

    def calls_it(x):
        return hidden(x) + 1

    (found,) = report_of(calls_it, (torch.ones(8),)).graph_breaks
    assert found.line.text == "return hidden(x) + 1" and "disable" in found.reason


def test_a_function_that_computes_nothing_leaves_no_graph():
    report = report_of(lambda x: x, (torch.ones(8),))
    assert report.graphs == 0 and report.calls[0].kernels == ()


def test_another_shape_recompiles_once_and_then_any_shape_fits():
    shapes = [(torch.ones(n),) for n in (4, 5, 6, 7)]
    (found,) = report_of(branches_without, *shapes).recompilations
    assert found.function == "branches_without"
    assert found.reasons == ("tensor 'x' size mismatch at index 0. expected 4, actual 5",)


def test_a_shape_declared_static_recompiles_for_each():
    shapes = [(torch.ones(n),) for n in (4, 5, 6)]
    report = report_of(branches_without, *shapes, dynamic=False)
    assert len(report.recompilations) == 2 and report.graphs == 3


def test_a_shape_declared_dynamic_never_recompiles():
    shapes = [(torch.ones(n),) for n in (4, 5, 6)]
    assert report_of(branches_without, *shapes, dynamic=True).recompilations == ()


def test_a_number_that_changes_recompiles():
    def scaled(x, factor: float):
        return x * factor

    report = report_of(scaled, *[(torch.ones(4), factor) for factor in (1.5, 2.5)])
    assert "factor" in report.recompilations[0].reasons[0]


def test_a_dtype_that_changes_recompiles():
    report = report_of(branches_without, (torch.ones(4),), (torch.ones(4, dtype=torch.float64),))
    assert "dtype" in report.recompilations[0].reasons[0]


def test_one_report_forgets_what_another_compiled():
    for _ in range(2):
        report = report_of(branches_without, (torch.ones(4),))
        assert (report.graphs, report.recompilations) == (1, ())


def test_breaks_and_reasons_cross_to_the_referee():
    report = report_of(branches, (torch.ones(4),), (torch.ones(5),))
    assert report.graph_breaks and report.recompilations
    assert Report.from_dict(report.to_dict()) == report


def test_a_break_that_was_counted_and_not_seen_is_an_error():
    from torch._dynamo.utils import counters

    with pytest.raises(InstrumentError, match="1 graph breaks, and 0 of them were seen"):
        with dynamo.watched(lambda found: None, lambda found: None):
            counters["graph_break"]["made up"] += 1


def test_the_text_names_line_and_reason():
    text = str(report_of(branches, (torch.ones(4),), (torch.ones(5),)))
    assert "graph break: if y.sum() > 0:  (Data-dependent branching)" in text
    assert "recompiled branches: tensor 'x' size mismatch at index 0. expected 4, actual 5" in text
