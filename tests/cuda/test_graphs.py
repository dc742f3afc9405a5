"""CUDA graphs on the virtual card and, where there is one, on a GPU: capture, replay, random numbers, refusals."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("cuda")


def capture(function, *inputs):
    """Warm up on a side stream as the documentation asks, capture, return graph and output."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = function(*inputs)
    return graph, output


def test_a_replay_reads_what_the_input_holds_by_then():
    x = torch.ones(4, device="cuda")
    graph, y = capture(lambda t: (t * 2 + 1).relu(), x)
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [11, 11, 11, 11]
    x.copy_(torch.zeros(4))
    graph.replay()
    assert y.tolist() == [1, 1, 1, 1]


def test_the_output_stays_in_the_same_memory():
    x = torch.ones(4, device="cuda")
    graph, y = capture(lambda t: t + 1, x)
    graph.replay()
    first = y.data_ptr()
    graph.replay()
    assert y.data_ptr() == first and y.tolist() == [2, 2, 2, 2]


def test_in_place_work_happens_again():
    x = torch.zeros(2, device="cuda")
    graph, _ = capture(lambda t: t.add_(1), x)
    x.zero_()
    graph.replay()
    graph.replay()
    assert x.tolist() == [2, 2]


def test_capturing_runs_nothing():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout()).cuda()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    x, total = torch.randn(8, 4, device="cuda"), torch.zeros(4, device="cuda")

    def step(x):
        optimizer.zero_grad()
        out = model(x)
        total.add_(out.detach().sum(0))
        out.square().sum().backward()
        optimizer.step()

    step(x)
    before = [t.clone() for t in (*model.state_dict().values(), total)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(x)
    assert all(torch.equal(a, b) for a, b in zip(before, (*model.state_dict().values(), total)))
    graph.replay()
    assert not any(torch.equal(a, b) for a, b in zip(before, (*model.state_dict().values(), total)))
    assert {int(s["step"]) for s in optimizer.state.values()} == {2}


def test_a_captured_training_step_takes_the_eager_steps():
    def trained(as_graph):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.ones(2, 4, device="cuda")

        def step(x):
            optimizer.zero_grad(set_to_none=True)
            model(x).square().mean().backward()
            optimizer.step()

        again = capture(step, x)[0].replay if as_graph else lambda: step(x)
        for _ in range(3 if as_graph else 4):
            again()
        return model.weight.detach().clone()

    torch.testing.assert_close(trained(as_graph=True), trained(as_graph=False))


def test_an_unknown_error_mode_is_refused():
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="loud"):
            pass
    assert not torch.cuda.is_current_stream_capturing()


def test_views_and_temporaries_are_followed():
    x = torch.arange(6.0, device="cuda")

    def function(t):
        rows = t.view(2, 3).t()
        return (rows @ rows.t())[0] + torch.zeros(3, device="cuda")

    graph, y = capture(function, x)
    x.fill_(1)
    graph.replay()
    assert y.tolist() == [2, 2, 2]


def test_a_module_replays_its_eager_values():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)).cuda().eval()
    x = torch.randn(3, 4, device="cuda")
    with torch.no_grad():
        graph, y = capture(model, x)
        x.copy_(torch.randn(3, 4))
        graph.replay()
        torch.testing.assert_close(y, model(x))


def test_a_whole_training_step_replays():
    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, target = torch.ones(2, 4, device="cuda"), torch.zeros(2, 1, device="cuda")

    def step(x, target):
        optimizer.zero_grad(set_to_none=False)
        loss = (model(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step(x, target)
    graph, loss = capture(step, x, target)
    losses = []
    for _ in range(4):
        graph.replay()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_dropout_draws_anew_at_each_replay():
    x = torch.ones(256, device="cuda")
    graph, y = capture(torch.nn.functional.dropout, x)
    before = torch.get_rng_state()
    graph.replay()
    first = y.tolist()
    graph.replay()
    assert y.tolist() != first and torch.equal(torch.get_rng_state(), before)


def test_a_stream_knows_that_it_is_capturing():
    seen = []
    capture(lambda t: (seen.append(torch.cuda.is_current_stream_capturing()), t + 1)[1], torch.ones(1, device="cuda"))
    assert seen == [False, True] and not torch.cuda.is_current_stream_capturing()


def test_the_default_stream_cannot_be_capture():
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        graph.capture_begin()


def test_a_replay_without_a_capture_is_refused():
    # From PyTorch 2.14 on it instantiates the graph first.
    said = "without a preceding successful capture|must have been called before calling instantiate"
    with pytest.raises(RuntimeError, match=said):
        torch.cuda.CUDAGraph().replay()


def test_a_host_synchronization_inside_a_capture_is_refused(virtual):
    x = torch.ones(1, device="cuda")
    with pytest.raises(torch.AcceleratorError, match="operation failed due to a previous error during capture") as said:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.item()
    assert "operation not permitted when stream is capturing" in str(said.value.__context__)


def test_a_replay_costs_the_host_less_than_a_twentieth_of_the_eager_launches(virtual):
    import time

    from gpulab import observe

    x = torch.ones(8, device="cuda")

    def function(t):
        for _ in range(50):
            t = t + 1
        return t

    graph, _ = capture(function, x)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    function(x)
    eager = time.perf_counter() - begin
    torch.cuda.synchronize()
    with observe() as seen:
        begin = time.perf_counter()
        graph.replay()
        replayed = time.perf_counter() - begin
    assert len(seen.kernels) == 50 and replayed < eager / 20


def test_an_lstm_in_a_graph_gives_what_it_gives_outside(cuda):
    torch.manual_seed(0)
    lstm, x = torch.nn.LSTM(3, 4, 2).cuda(), torch.ones(5, 2, 3, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        expected = lstm(x)[0].detach().clone()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, _ = lstm(x)
    graph.replay()
    torch.testing.assert_close(out.detach(), expected)


def test_a_training_step_of_an_lstm_is_replayed(cuda):
    def trained(replayed: bool) -> list:
        torch.manual_seed(0)
        lstm, x = torch.nn.LSTM(3, 4).cuda(), torch.ones(5, 2, 3, device="cuda")
        optimizer = torch.optim.SGD(lstm.parameters(), 0.1)

        def step():
            optimizer.zero_grad(set_to_none=False)
            lstm(x)[0].square().sum().backward()
            optimizer.step()

        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        if replayed:
            with torch.cuda.graph(graph):
                step()
        for _ in range(3):
            graph.replay() if replayed else step()
        return [p.detach().cpu() for p in lstm.parameters()]

    torch.testing.assert_close(trained(True), trained(False))
