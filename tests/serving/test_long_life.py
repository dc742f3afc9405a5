"""An engine that lives long forgets what is over."""

from gpulab.serving import Chunked, Engine, Linear, Paged, Request


def test_it_keeps_so_many_steps_and_ended_requests():
    ended = []
    engine = Engine(Chunked(), Paged(50, 4), Linear(), keep=5, ended=lambda live: ended.append((live.name, live.state)))
    for n in range(300):
        engine.submit(Request(f"r{n}", engine.now_us, 3, 2, leaves_us=1.0 if n % 3 == 0 else None))
        while engine.busy:
            engine.step()
    assert len(engine.steps) == 5 and [one.name for one in engine.report().outcomes] == [
        f"r{n}" for n in range(295, 300)
    ]
    assert len(ended) == 300 and {state for _, state in ended} == {"finished", "aborted"}


def test_a_name_that_was_forgotten_may_come_again():
    engine = Engine(Chunked(), Paged(50, 4), Linear(), keep=0)
    for _ in range(3):
        engine.submit(Request("again", engine.now_us, 3, 2))
        while engine.busy:
            engine.step()
    engine.abort("again")
    assert not engine.report().outcomes
