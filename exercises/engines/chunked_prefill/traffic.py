"""Plays of E19.3: traces, clocks and budgets, each with a name for what a scheduler can go wrong on."""

from autograder.core.sampler import Sampler
from gpulab.serving import Linear

PLENTY, PLENTY_LARGE = [600, 4], [600, 512]
"""Blocks that never run out."""

AMPLE = 10.0**6
"""A gap that no step comes near."""


def request(name: str, at: float, prompt: int, most: int, **more) -> dict:
    return {"name": name, "arrival_us": float(at), "prompt": prompt, "most": most, **more}


def play(
    trace: list[dict], gap_us: float, clock: list, budget: tuple[int, int] = (256, 12), blocks: list | None = None
) -> dict:
    return {"trace": trace, "gap_us": gap_us, "clock": clock, "budget": list(budget), "blocks": blocks or PLENTY}


def mixed(sampler: Sampler, requests: int = 9) -> list[dict]:
    """Chats that come one after the other, and every third prompt is long; names say nothing."""
    names = sampler.permutation([f"r{number}" for number in range(requests)])
    trace, at = [], 0.0
    for number, name in enumerate(names):
        prompt = sampler.integer(90, 140) if number % 3 == 1 else sampler.integer(1, 24)
        trace.append(request(name, at, prompt, sampler.integer(3, 14)))
        at += sampler.integer(300, 4000)
    return trace


def context_counts(sampler: Sampler) -> dict:
    """A token is the slower the more it looks back at; every request costs something."""
    return play(mixed(sampler), sampler.integer(2600, 3600) + 0.5, [1000, 10, 1, 30, 1])


def in_tiles(sampler: Sampler) -> dict:
    """Steps of a stair, on which a straight line goes wrong, as long as a tile's edge: a token more is often free."""
    tile = sampler.choice([7, 8, 9])
    return play(mixed(sampler), 500 + 20 * tile * sampler.integer(2, 4), [500, 20, 0, 0, tile])


def at_the_edge(sampler: Sampler, fraction: float, beyond: float) -> dict:
    """One decodes, one has a long prompt: a later chunk lasts the gap exactly, or with a token more ``beyond`` the gap."""
    first, long, clock = sampler.integer(3, 9), sampler.integer(180, 220), [700 + fraction + beyond % 1, 10, 1, 0, 1]
    gaps = [gap + fraction for gap in sampler.permutation(range(2400, 3400))]
    gap = next(gap for gap in gaps if _meets(gap, first, long, Linear(*clock[:3]), beyond))
    return play([request("a", 0, first, 60), request("b", 1, long, 5)], gap, clock)


def _meets(gap: float, first: int, long: int, clock: Linear, beyond: float) -> bool:
    """Whether a chunk after the first, and before the last, lasts the gap, or one token more ``beyond`` it."""
    done = decoded = 0
    while done < long:
        decode = (1, first + decoded)
        chunk = max((n for n in range(long - done + 1) if clock.step_us([decode, (n, done)]) <= gap), default=0)
        if not chunk:
            return False
        edge = clock.step_us([decode, (chunk + (beyond > 0), done)])
        if done and chunk < long - done and edge == gap + beyond:
            return True
        done, decoded = done + chunk, decoded + 1
    return False


def crowded(sampler: Sampler, over: float) -> dict:
    """Decodes alone reach or pass the gap until some have ended; then a long prompt is due."""
    many = sampler.integer(6, 7)
    trace = [request(f"d{n}", 0, sampler.integer(2, 6), 4 + 3 * n) for n in range(many)]
    trace.append(request("long", 10, sampler.integer(60, 80), 3))
    return play(
        trace + [request("short", 11, sampler.integer(2, 5), 3)], 1000 + 110 * (many - 2) + over, [1000, 10, 0, 100, 1]
    )


def just_reached(sampler: Sampler) -> dict:
    """The decodes alone take the gap to the microsecond, and a tile has room for tokens that cost nothing."""
    trace = [request(f"d{n}", 0, sampler.integer(2, 6), 9 + n) for n in range(4)]
    return play([*trace, request("long", 10, sampler.integer(30, 50), 3)], 1160, [1000, 20, 0, 0, 8])


def nobody_decodes(sampler: Sampler) -> dict:
    """Everybody is done with the first token; the gap is shorter than any step."""
    trace = [request(f"p{n}", 40 * n, sampler.integer(5, 90), 1) for n in range(8)]
    return play(trace, sampler.choice([0, 1, 0.5]), [900, 10, 1, 0, 1], budget=(sampler.integer(40, 60), 6))


def never_beside(sampler: Sampler, gap: int) -> dict:
    """The gap is shorter than any step, and some decode: prompts go when nobody does."""
    trace = [request(f"r{n}", 700 * n, sampler.integer(3, 30), sampler.integer(2, 5)) for n in range(6)]
    return play(trace, gap, [1000, 10, 1, 0, 1], budget=(64, 8))


def tight_budget(sampler: Sampler, gap: float) -> dict:
    """Hardly more tokens than decodes; time is no matter."""
    trace = [
        request(f"r{n}", 300 * n, sampler.integer(2, 9) + 20 * (n % 4 == 3), sampler.integer(6, 12)) for n in range(9)
    ]
    return play(trace, gap, [1000, 10, 1, 0, 1], budget=(sampler.integer(6, 7), 6))


def thousands(sampler: Sampler) -> dict:
    """Short prompts, then long ones, of which thousands of tokens go beside a decode, and all without."""
    trace = [request("d", 0, 5, 6)] + [request(f"s{n}", 10, sampler.integer(1, 4), 2) for n in range(8)]
    trace += [request(f"r{n}", 11 + n, sampler.integer(3000, 3500), 2) for n in range(2)]
    trace.append(request("late", 10**6, sampler.integer(3000, 3500), 2))
    gap = 1000 + sampler.integer(2500, 2800)
    return play(trace, gap, [1000, 1, 0, 0, 1], budget=(8192, 32), blocks=PLENTY_LARGE)


def places_taken(sampler: Sampler) -> dict:
    """All places are taken, and a prompt ends with time left over for those who wait."""
    trace = [request("d", 0, 3, 60)] + [request(f"r{n}", 10 + n, sampler.integer(8, 12), 3) for n in range(8)]
    return play(trace, 1000 + 10 * sampler.integer(6, 7), [1000, 10, 0, 0, 1], budget=(200, 2))


def few_places(sampler: Sampler) -> dict:
    """More requests than may run, and time for all of them."""
    trace = [request(f"r{n}", 10 * n, sampler.integer(1, 12), sampler.integer(2, 6)) for n in range(10)]
    return play(trace, 5000.5, [1000, 10, 0, 20, 1], budget=(200, sampler.integer(3, 4)))


def one_left(sampler: Sampler) -> dict:
    """A prompt has one token left when the only decode ends: nobody decodes then, though one token is left."""
    a, b = sampler.integer(3, 9), sampler.integer(40, 60)
    gap = Linear(1000, 10, 1).step_us([(1, a), (b - 1, 0)])
    return play(
        [request("a", 0, a, 2), request("b", 1, b, 2), request("c", 2, 300, 2)],
        gap,
        [1000, 10, 1, 0, 1],
        budget=(180, 6),
    )


def hang_up(sampler: Sampler) -> dict:
    """Prompts are left in the middle, and while they wait; others come after them."""
    trace = [request("d", 0, sampler.integer(3, 8), 40)]
    for n in range(3):
        at = 1500 + 16_000 * n
        leaves = {"leaves_us": float(sampler.integer(5000, 8000))}
        trace += [request(f"gone{n}", at, 400, 3, **leaves), request(f"left{n}", at + 1, 8, 3, leaves_us=100.0)]
        trace += [request(f"next{n}", at + 2, sampler.integer(20, 40), 3)]
    return play(trace, sampler.integer(2200, 2600) + 0.5, [1000, 10, 1, 30, 1])


def short_after_long(sampler: Sampler) -> dict:
    """Long prompts first, then short ones that would be done sooner; two arrive at once."""
    prompts = [sampler.integer(70, 90) if n % 3 == 0 else sampler.integer(2, 9) for n in range(7)]
    trace = [request("d", 0, 4, 40)] + [request(f"r{n}", 1200 + n // 2, prompt, 4) for n, prompt in enumerate(prompts)]
    return play(trace, sampler.integer(2200, 2900) + 0.5, [1000, 10, 1, 30, 1], budget=(96, 9))


def long_waits_for_room(sampler: Sampler) -> dict:
    """The next in line has no room until a decode ends, and those behind it would have. Then there is room for all."""
    trace = [request("d", 0, 60, 12), request("long", 100, sampler.integer(104, 108), 3)]
    trace += [request(f"s{n}", 200 + n, sampler.integer(2, 7), 4) for n in range(4)]
    return play(trace, AMPLE, [1000, 10, 1, 0, 1], blocks=[40, 4])


def stuck(sampler: Sampler) -> dict:
    """The last token of a prompt looks back at so much that it has no time beside the decode."""
    first, gap, clock = sampler.integer(3, 6), sampler.integer(1500, 1800), [1000, 10, 20, 0, 1]
    done = _computed_beside(gap, first, Linear(*clock[:3]))
    return play([request("a", 0, first, 40), request("b", 1, done + 1, 5)], gap, clock)


def _computed_beside(gap: int, first: int, clock: Linear) -> int:
    """Tokens of an endless prompt that find time beside one decode before none does."""
    done = decoded = 0
    while chunk := max(n for n in range(400) if not n or clock.step_us([(1, first + decoded), (n, done)]) <= gap):
        done, decoded = done + chunk, decoded + 1
    return done


def exact_fit(sampler: Sampler) -> dict:
    """The next in line takes all blocks that are free."""
    more = sampler.integer(3, 6)
    trace = [request("d", 0, 8, 20), request("b", 100, 4 * more, 3), request("c", 200, 3, 3)]
    return play(trace, AMPLE, [1000, 10, 1, 0, 1], blocks=[3 + more, 4])


def swapped(sampler: Sampler) -> dict:
    """The next in line has no room and hangs up; another, which has, arrives before the same step."""
    trace = [request("d", 0, 60, 40)]
    for n in range(3):
        at, waits = 1500.0 + 9000 * n, 2700.0 + 1100 * n
        trace += [
            request(f"big{n}", at, sampler.integer(60, 70), 3, leaves_us=waits),
            request(f"small{n}", at + waits, 2, 1),
        ]
    return play(trace, AMPLE, [1000, 10, 1, 0, 1], blocks=[32, 4])


def short_of_room(sampler: Sampler, size: int) -> dict:
    """Outputs outgrow the cache: the youngest go, twice and more, while others wait and a long prompt comes."""
    trace = [request(f"r{n}", 150 * n, sampler.integer(4, 9), sampler.integer(18, 26)) for n in range(5)]
    trace += [request("long", 3000, sampler.integer(38, 44), 4), request("last", 3100, sampler.integer(2, 6), 5)]
    return play(trace, AMPLE, [1000, 10, 1, 20, 1], budget=(64, 8), blocks=[96 // size, size])


def no_room_beside(sampler: Sampler) -> dict:
    """A prompt in chunks stands in the way of the decodes' growth and is preempted in its middle; another waits behind it."""
    long = sampler.integer(40, 46)
    trace = [request("a", 0, 8, 40), request("b", 1, 8, 30), request("long", 1500, long, 4), request("d", 1600, 5, 6)]
    return play(
        trace, sampler.integer(1220, 1240) + 0.5, [1000, 10, 1, 20, 1], budget=(64, 8), blocks=[8 + 8 + long + 12, 1]
    )


def crunch(sampler: Sampler) -> dict:
    """Several have to go in one step, and one token's room is left over for which somebody waits."""
    trace = [request(f"r{n}", 0, 2, 20) for n in range(4)]
    trace += [request("r4", 4700, 1, 9), request("r5", 4701, 1, 9), request("waits", 5300, 1, 9)]
    return play(trace, AMPLE, [1000, 10, 0, 0, 1], blocks=[30 + sampler.integer(0, 1), 1])


def told_before(sampler: Sampler) -> dict:
    """The preempted had a short prompt and were told much: what is computed anew is cut, behind the prompt too."""
    trace = [request(f"r{n}", n, sampler.integer(2, 4), sampler.integer(50, 56)) for n in range(3)]
    return play(trace, sampler.integer(1400, 1500) + 0.5, [1000, 10, 1, 20, 1], budget=(24, 8), blocks=[24, 4])


def images(sampler: Sampler) -> dict:
    """Whole prompts that fit beside the decodes, that do not until some have ended, and that have to go alone."""
    trace = [request(f"d{n}", n, sampler.integer(2, 5), 8 + 5 * n) for n in range(3)]
    for n, prompt in enumerate(sampler.shuffled(sampler.integer(8, 12), sampler.integer(26, 32), 64)):
        at = 2500 + 9000 * n
        trace.append(request(f"whole{n}", at, prompt, 3, whole=True))
        trace += [request(f"text{n}", at + 1, sampler.integer(3, 9), 12), request(f"long{n}", at + 2, 40, 2)]
    return play(trace, sampler.integer(1900, 1970) + 0.5, [1000, 15, 0, 30, 1], budget=(64, 8))


def images_again(sampler: Sampler) -> dict:
    """Whole prompts are preempted; with what they were told they are longer than a step's budget."""
    trace = [request("a", 0, 16, 40), request("b", 1, 16, 30, whole=True), request("c", 2, sampler.integer(3, 6), 3)]
    return play(trace, sampler.integer(1500, 1700) + 0.5, [1000, 15, 0, 30, 1], budget=(18, 4), blocks=[15, 4])


def images_in_time(sampler: Sampler) -> dict:
    """Whole prompts after cut ones, with a tile or a request's cost, several in a step."""
    trace = [request("d", 0, 3, 60)]
    for n in range(4):
        at = 1300 + 5000 * n
        trace += [
            request(f"text{n}", at, sampler.integer(30, 60), 2),
            request(f"one{n}", at + 1, sampler.integer(4, 8), 2, whole=True),
        ]
        trace += [request(f"two{n}", at + 2, sampler.integer(4, 8), 2, whole=True)]
    return play(trace, 1000 + 20 * 8 * sampler.integer(2, 3) + 95, [1000, 20, 0, 30, 8], budget=(128, 8))


def images_wait(sampler: Sampler) -> dict:
    """A whole prompt does not fit beside a decode that goes on for dozens of steps; a text behind it would."""
    trace = [request("d", 0, sampler.integer(2, 5), 60)]
    trace += [request("whole", 1200, sampler.integer(26, 32), 3, whole=True), request("text", 1201, 5, 3)]
    return play(trace, sampler.integer(1300, 1400) + 0.5, [1000, 15, 0, 30, 1], budget=(64, 8))


def huge_budget(sampler: Sampler) -> dict:
    """Tens of thousands of tokens in line, and a budget that bounds nothing."""
    trace = [request("d", 0, 5, 30)] + [
        request(f"r{n}", 2000 + n, sampler.integer(23_000, 26_000), 2) for n in range(3)
    ]
    return play(
        trace, sampler.integer(12_000, 15_000), [1000, 0.5, 1e-6, 30, 1], budget=(2**30, 8), blocks=PLENTY_LARGE
    )


def many_at_once(sampler: Sampler, at: float) -> dict:
    """Dozens of short prompts come together, and all share a step, beside a decode or not."""
    trace = [request("d", 0, 5, 12)] + [request(f"r{n}", at, sampler.integer(1, 4), 3) for n in range(60)]
    return play(trace, sampler.integer(4000, 4200), [1000, 10, 1, 20, 1], budget=(512, 64))
