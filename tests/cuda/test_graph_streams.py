"""Streams and events while a CUDA graph is captured: what joins a capture, what stays outside, what is refused."""

import pytest
import torch

from gpulab.cuda.errors import NotModelled


def full(value, count=8):
    return torch.full((count,), float(value), device="cuda")


def test_a_stream_that_waits_for_the_capture_is_in_it(cuda):
    x, graph, side, seen = full(1), torch.cuda.CUDAGraph(), torch.cuda.Stream(), []
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        here = torch.cuda.current_stream()
        with torch.cuda.stream(side):
            seen.append(torch.cuda.is_current_stream_capturing())
            side.wait_stream(here)
            seen.append(torch.cuda.is_current_stream_capturing())
            y = x * 2
        here.wait_stream(side)
        z = y + 1
    x.fill_(5)
    graph.replay()
    assert seen == [False, True] and z.tolist() == [11] * 8 and not side.is_capturing()


def test_a_stream_outside_the_capture_runs_at_once(cuda):
    x, w, graph, side = full(1), full(0), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x * 2
        with torch.cuda.stream(side):
            w.add_(1)
    torch.cuda.synchronize()
    assert w.tolist() == [1] * 8
    graph.replay()
    assert w.tolist() == [1] * 8 and y.tolist() == [2] * 8


def test_work_of_a_stream_that_was_not_joined_is_refused(virtual):
    x, graph, side = full(1), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with pytest.raises(torch.AcceleratorError, match="CUDA error: capturing stream has unjoined work"):
        with torch.cuda.graph(graph):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                x.add_(1)
    assert x.tolist() == [1] * 8
    with pytest.raises(RuntimeError, match="without a preceding successful capture|must have been called before"):
        graph.replay()


def test_work_after_the_join_is_not_joined(virtual):
    x, side = full(1), torch.cuda.Stream()
    with pytest.raises(torch.AcceleratorError, match="unjoined work"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            here = torch.cuda.current_stream()
            side.wait_stream(here)
            with torch.cuda.stream(side):
                x.add_(1)
            here.wait_stream(side)
            with torch.cuda.stream(side):
                x.add_(1)


def test_a_stream_is_joined_by_way_of_another(cuda):
    x, graph, one, two = full(1), torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        here = torch.cuda.current_stream()
        one.wait_stream(here)
        with torch.cuda.stream(one):
            y = x * 2
        two.wait_stream(one)
        with torch.cuda.stream(two):
            z = y + 1
        here.wait_stream(two)
    graph.replay()
    assert z.tolist() == [3] * 8


def test_an_event_from_outside_is_refused_in_a_capture(virtual):
    x, event, side = full(1), torch.cuda.Event(), torch.cuda.Stream()
    event.record()
    with torch.cuda.stream(side):
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        with pytest.raises(torch.AcceleratorError, match="dependency created on uncaptured work in another stream"):
            side.wait_event(event)
        with pytest.raises(torch.AcceleratorError, match="previous error during capture"):
            x.add_(1)
        with pytest.raises(torch.AcceleratorError, match="previous error during capture"):
            graph.capture_end()
    assert x.tolist() == [1] * 8


def test_an_event_that_was_never_recorded_is_waited_for_in_vain(cuda):
    x, graph = full(1), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.cuda.current_stream().wait_event(torch.cuda.Event())
        y = x + 1
    graph.replay()
    assert y.tolist() == [2] * 8


def test_an_event_of_one_capture_is_from_outside_in_another(virtual):
    x, event = full(1), torch.cuda.Event()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        y = x + 1
        event.record()
    with pytest.raises(torch.AcceleratorError, match="previous error during capture"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            event.wait()
    assert y.numel() == 8


def test_a_capture_that_failed_leaves_a_card_that_works(virtual):
    x, event = full(1), torch.cuda.Event()
    event.record()
    with pytest.raises(torch.AcceleratorError):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            event.wait()
    torch.cuda.set_stream(torch.cuda.default_stream())
    assert not torch.cuda.is_current_stream_capturing() and (x + 1).tolist() == [2] * 8
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    graph.replay()
    assert y.tolist() == [2] * 8


def test_an_event_of_a_capture_has_not_happened_for_the_host(virtual):
    x, event = full(1), torch.cuda.Event()
    with pytest.raises(torch.AcceleratorError, match="previous error during capture"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.add_(1)
            event.record()
            with pytest.raises(torch.AcceleratorError, match="an event last recorded in a capturing stream"):
                event.query()
    with pytest.raises(torch.AcceleratorError, match="an event last recorded in a capturing stream"):
        event.synchronize()


def test_an_event_of_a_capture_is_not_waited_for_after_it(virtual):
    event = torch.cuda.Event()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        full(1)
        event.record()
    with pytest.raises(NotModelled, match="after its end"):
        event.wait()
    event.record()
    event.wait()


def test_a_capture_ends_where_it_began(virtual):
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(side):
        graph.capture_begin()
        with torch.cuda.stream(torch.cuda.Stream()):
            with pytest.raises(RuntimeError, match="Capture must end on the same stream it began on"):
                graph.capture_end()
        full(1)
        graph.capture_end()


def test_the_default_stream_enters_no_capture(virtual):
    with pytest.raises(NotModelled, match="the default stream inside the capture"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            full(1)
            torch.cuda.default_stream().wait_stream(torch.cuda.current_stream())


def test_a_replay_inside_a_capture_is_refused(virtual):
    x, graph = full(1), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
    with pytest.raises(NotModelled, match="the replay of a CUDA graph inside the capture of another"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.add_(1)
            graph.replay()


def test_an_empty_graph_is_warned_of(cuda):
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        pass
