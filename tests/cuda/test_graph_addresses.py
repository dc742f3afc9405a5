"""A CUDA graph refers to memory by address: what a replay reads and writes once a tensor is gone."""

import inspect
import weakref

import pytest
import torch

import gpulab.cuda
from gpulab import observe
from gpulab.cuda.errors import NotModelled

N = 1 << 22


def captured(function, *inputs, **options):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        output = function(*inputs)
    return graph, output


def copying(source, target):
    """A graph that copies."""
    return captured(target.copy_, source)[0]


def full(value, count=N):
    return torch.full((count,), float(value), device="cuda")


def test_an_input_that_is_dropped_is_freed(cuda):
    x, y = full(1), full(0)
    graph = copying(x, y)
    before = torch.cuda.memory_allocated()
    del x
    assert before - torch.cuda.memory_allocated() == 4 * N
    graph.replay()


def test_a_replay_reads_what_lies_at_the_address_by_then(cuda):
    x, y = full(1), full(0)
    graph = copying(x, y)
    del x
    other = full(7)
    graph.replay()
    assert y.mean().item() == 7 and other.mean().item() == 7


def test_a_replay_reads_what_was_left_where_nothing_lies(cuda):
    x, y = full(1), full(0)
    graph = copying(x, y)
    x.fill_(3)
    del x
    graph.replay()
    assert y.mean().item() == 3


def test_a_replay_reads_what_the_last_one_to_lie_there_left(cuda):
    x, y = full(1), full(0)
    graph = copying(x, y)
    del x
    other = full(7)
    del other
    graph.replay()
    assert y.mean().item() == 7


def test_a_replay_writes_over_what_lies_at_the_address(cuda):
    x, y = full(1), full(0)
    graph = copying(x, y)
    del y
    other = full(7)
    graph.replay()
    assert other.mean().item() == 1


def test_a_replay_writes_where_nothing_lies_for_the_next_to_find(cuda):
    x, y = full(1), full(0)
    graph = copying(x, y)
    reading, z = captured(lambda t: t * 2, y)
    del y
    graph.replay()
    reading.replay()
    assert z.mean().item() == 2


def test_of_an_address_a_part_may_be_anothers(virtual):
    x, y = full(1, 1024), full(0, 1024)
    graph = copying(x, y)
    del x
    other = full(7, 256)
    graph.replay()
    assert y.tolist() == [7.0] * 256 + [1.0] * 768 and other.numel() == 256


def test_a_storage_that_was_resized_is_elsewhere(virtual):
    x, y = full(1, 1024), full(0, 1024)
    graph = copying(x, y)
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(4 << 20)
    x.untyped_storage().fill_(0)
    graph.replay()
    assert y.tolist() == [1.0] * 1024


def test_one_graph_reads_what_another_writes_although_the_tensor_is_gone(cuda):
    x = full(1)
    first, y = captured(lambda t: t + 1, x)
    second, z = captured(lambda t: t * 10, y)
    del y
    x.fill_(4)
    first.replay()
    second.replay()
    assert z.mean().item() == 50


def test_memory_that_was_made_in_a_graph_is_no_others_while_the_graph_is_there(cuda):
    x = full(1)
    graph, y = captured(lambda t: t + 1, x)
    del y
    others = [full(7) for _ in range(8)]
    graph.replay()
    assert all(other.mean().item() == 7 for other in others)


def test_memory_of_a_graph_goes_back_to_the_driver_after_the_graph(cuda):
    x = full(1)
    graph, y = captured(lambda t: t + 1, x)
    del y
    held = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == held
    graph.reset()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < held


def test_graphs_that_share_a_pool_share_what_is_free_in_it(cuda):
    x = full(1)
    first, y = captured(lambda t: t + 1, x)
    del y
    held = torch.cuda.memory_reserved()
    second, z = captured(lambda t: t + 2, x, pool=first.pool())
    assert second.pool() == first.pool() and torch.cuda.memory_reserved() == held
    third, w = captured(lambda t: t + 3, x)
    assert third.pool() != first.pool() and torch.cuda.memory_reserved() > held


def test_each_graph_has_a_pool_and_each_handle_is_new(cuda):
    handles = [tuple(torch.cuda.graph_pool_handle()) for _ in range(2)]
    x = full(1, 8)
    (first, _), (second, _) = captured(lambda t: t + 1, x), captured(lambda t: t + 1, x, pool=handles[0])
    assert handles[0] != handles[1] and all(own == 0 for own, _ in handles)
    assert first.pool()[0] > 0 and first.pool()[1] == 0 and tuple(second.pool()) == handles[0]


def test_a_snapshot_shows_the_pool_of_a_graph(cuda):
    x = full(1)
    graph, _ = captured(lambda t: t + 1, x)
    of_graph = torch.cuda.memory_snapshot(graph.pool())
    assert of_graph and all(tuple(s["segment_pool_id"]) == tuple(graph.pool()) for s in of_graph)
    assert len(torch.cuda.memory_snapshot()) > len(of_graph)


def test_a_graph_that_captured_nothing_yet_has_no_pool(cuda):
    with pytest.raises(RuntimeError, match=r"Called CUDAGraph::pool\(\) without a preceding successful capture"):
        torch.cuda.CUDAGraph().pool()


def test_a_graph_captures_once(cuda):
    x = full(1, 8)
    graph, _ = captured(lambda t: t + 1, x)
    with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()


def test_a_replay_of_memory_that_the_driver_has_is_refused(virtual):
    x, y = full(1), full(0)
    graph = copying(x, y)
    del x
    torch.cuda.empty_cache()
    with pytest.raises(NotModelled, match="went back to the driver"):
        graph.replay()


def test_what_was_left_is_kept_as_long_as_a_graph_may_read_it(virtual):
    x, y = full(1, 1024), full(0, 1024)
    graph = copying(x, y)
    del x
    (left,) = [place.left for place in graph._capture.places.values() if place.resident is None]
    assert left.nbytes() == y.nbytes
    left = weakref.ref(left)
    graph.reset()
    assert left() is None


checks_liveness = pytest.mark.skipif(
    "check_input_liveness" not in inspect.signature(torch.cuda.graph).parameters, reason="this PyTorch checks none"
)


@checks_liveness
def test_a_dead_input_is_named_where_that_is_asked_for(cuda):
    x = full(1)
    graph, _ = captured(lambda t: t * 2, x, check_input_liveness=True)
    graph.replay()
    del x
    with pytest.raises(RuntimeError, match=r"CUDA graph replay detected 1 dead tensor\(s\)"):
        graph.replay()


def test_a_replay_races_with_work_that_nobody_ordered(virtual):
    x, y = full(1), full(0)
    graph = copying(x, y)
    torch.cuda.synchronize()
    with observe() as seen, torch.cuda.stream(torch.cuda.Stream()):
        graph.replay()
    assert not seen.races
    with observe() as seen:
        y.add_(1)
    assert len(seen.races) == 1


def test_a_replay_races_with_the_work_of_who_lies_at_the_address(virtual):
    x, y = full(1), full(0)
    graph = copying(x, y)
    del y
    other = full(7)
    torch.cuda.synchronize()
    with observe() as seen:
        other.add_(1)
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.replay()
    assert [race.second_op for race in seen.races] == ["aten.copy_"]


def test_a_replay_after_what_it_waits_for_races_with_nothing(virtual):
    x, y = full(1), full(0)
    graph = copying(x, y)
    side = torch.cuda.Stream()
    with observe() as seen:
        y.add_(1)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            graph.replay()
        torch.cuda.current_stream().wait_stream(side)
        y.add_(1)
    assert not seen.races


def test_a_replay_on_a_ghost_card_takes_its_time():
    with gpulab.cuda.use("ghost", quiet=True):
        x = full(1)
        graph, _ = captured(lambda t: t + 1, x)
        with observe() as seen:
            graph.replay()
    assert [kernel.name for kernel in seen.kernels] == ["aten.add"]
