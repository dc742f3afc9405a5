"""Bills and usage for E21.4, and who is due what of them."""

import math
from collections.abc import Iterator
from fractions import Fraction

from autograder.core.sampler import Sampler

TEAMS = ("alignment", "maps", "robotics", "search", "speech", "vision")
POOLS = ("a100", "h100", "l40s", "spot")


def due(usage: list[dict], bill: dict) -> dict[str, int]:
    """Cents by line, by the rules of the statement."""
    exact: dict[str, Fraction] = {}
    for name, pool in bill.items():
        for line, seconds in _seconds(usage, name, pool).items():
            exact[line] = exact.get(line, Fraction(0)) + seconds * Fraction(pool["cents"], pool["gpu_seconds"])
    exact = {line: cents for line, cents in exact.items() if cents}
    whole = {line: math.floor(cents) for line, cents in exact.items()}
    missing = sum(pool["cents"] for pool in bill.values()) - sum(whole.values())
    for line in sorted(exact, key=lambda line: (whole[line] - exact[line], line))[:missing]:
        whole[line] += 1
    return whole


def _seconds(usage: list[dict], name: str, pool: dict) -> dict[str, Fraction]:
    """Of one pool's capacity, all of it."""
    lines: dict[str, Fraction] = {}
    for record in usage:
        if record["pool"] == name:
            team = record["team"]
            weights = team if isinstance(team, dict) else {"untagged" if team is None else team: 1}
            for line, weight in weights.items():
                lines[line] = lines.get(line, Fraction(0)) + Fraction(
                    weight * record["gpu_seconds"], sum(weights.values())
                )
    idle = pool["gpu_seconds"] - sum(lines.values())
    short = {team: max(Fraction(0), kept - lines.get(team, Fraction(0))) for team, kept in pool["reserved"].items()}
    charged = min(idle, sum(short.values()))
    for team, missing in short.items():
        if missing:
            lines[team] = lines.get(team, Fraction(0)) + charged * missing / sum(short.values())
    lines["idle"] = idle - charged
    return lines


def _question(usage: list[dict], bill: dict) -> dict:
    return {"usage": usage, "bill": bill}


def _pool(seconds: int, rate: int, reserved: dict | None = None) -> dict:
    """``rate``: whole cents of a GPU-second, so that nothing has to be rounded."""
    return {"cents": rate * seconds, "gpu_seconds": seconds, "reserved": reserved or {}}


def _record(team: object, pool: str, seconds: int) -> dict:
    return {"team": team, "pool": pool, "gpu_seconds": seconds}


def of_teams(sampler: Sampler) -> Iterator[dict]:
    """All of every pool is held by teams: one pool and several of very different prices, a team in several, many records of one, in any order."""
    for pools in sampler.shuffled(1, 2, 4):
        usage, bill = [], {}
        for number, pool in enumerate(sampler.permutation(POOLS)[:pools]):
            records = [
                _record(team, pool, 60 * sampler.integer(1, 90))
                for team in sampler.permutation(TEAMS)[: sampler.integer(2, 4)]
            ]
            records.append(_record(records[0]["team"], pool, 60 * sampler.integer(1, 90)))
            usage += records
            bill[pool] = _pool(sum(record["gpu_seconds"] for record in records), (1, 7, 20, 3)[number])
        yield _question(sampler.permutation(usage), bill)
    team, pool = sampler.choice(TEAMS), sampler.choice(POOLS)
    yield _question([_record(team, pool, 500), _record(sampler.choice(TEAMS), pool, 0)], {pool: _pool(500, 3)})
    yield _question([_record(team, pool, 500)], {pool: _pool(500, 3), "paid and not used": _pool(40, 0)})


def shared(sampler: Sampler) -> Iterator[dict]:
    """Two and three teams, equal and unequal weights, one team alone in a dictionary, a team with jobs of its own besides, all of the pool held."""
    for weights in sampler.shuffled((1, 1), (1, 3), (2, 5, 3), (1,), (4, 4)):
        teams = sampler.permutation(TEAMS)[: len(weights)]
        record = _record(dict(zip(teams, weights, strict=True)), "h100", sum(weights) * sampler.integer(50, 900))
        own = _record(sampler.choice((teams[0], "maps")), "h100", sampler.integer(10, 5_000))
        usage = sampler.permutation([record, own, _record(teams[-1], "l40s", 600)])
        yield _question(
            usage,
            {"h100": _pool(record["gpu_seconds"] + own["gpu_seconds"], sampler.integer(2, 9)), "l40s": _pool(600, 1)},
        )


def idle(sampler: Sampler) -> Iterator[dict]:
    """No reservation; all of it used, some, and none; more than reserved; others in what was kept free; a pool that nobody touched."""
    for kind in sampler.shuffled(
        "none",
        "part",
        "all",
        "over",
        "exact",
        "crowded",
        "crowded by one",
        "untouched",
        "not a user",
        "of another pool",
        "shared",
    ):
        for _ in range(2 if "crowded" in kind else 1):
            yield _idle(sampler, kind)


def _idle(sampler: Sampler, kind: str) -> dict:
    one, other, third = sampler.permutation(TEAMS)[:3]
    unit = 60 * sampler.integer(2, 40)
    rate = sampler.integer(2, 9)
    h100 = lambda **reserved: _pool(100 * unit, rate * 6, {team: share * unit for team, share in reserved.items()})
    held = lambda team, share, pool="h100": _record(team, pool, share * unit)
    usage, bill = {
        "none": ([held(one, 30), held(other, 20)], {"h100": h100()}),
        "part": ([held(one, 30), held(other, 20)], {"h100": h100(**{one: 50, other: 10})}),
        "all": ([held(other, 40)], {"h100": h100(**{one: 60})}),
        "over": ([held(one, 70), held(other, 10)], {"h100": h100(**{one: 50, other: 20})}),
        "exact": ([held(one, 50), held(other, 10)], {"h100": h100(**{one: 50, other: 50})}),
        # 80 are short and 40 are idle, as a third team has held 50 of what was kept free.
        "crowded": ([held(third, 50), held(one, 10)], {"h100": h100(**{one: 30, other: 60})}),
        "crowded by one": ([held(third, 90)], {"h100": h100(**{one: 20, other: 60})}),
        "untouched": ([held(one, 10, "l40s")], {"h100": h100(), "l40s": _pool(10 * unit, 3)}),
        "not a user": ([held(one, 10)], {"h100": h100(**{other: 30})}),
        "of another pool": (
            [held(one, 80), held(one, 0, "l40s"), held(other, 5, "l40s")],
            {"h100": h100(), "l40s": _pool(40 * unit, 5, {one: 20 * unit})},
        ),
        "shared": ([_record({one: 1, other: 1}, "h100", 40 * unit)], {"h100": h100(**{one: 30})}),
    }[kind]
    return _question(sampler.permutation(usage), bill)


def untagged(sampler: Sampler) -> Iterator[dict]:
    """Some, all, and in two pools; with reservations that stay unused beside them."""
    one, other = sampler.permutation(TEAMS)[:2]
    for share in sampler.shuffled(10, 60, 100):
        usage = [
            _record(None, "h100", 600 * share),
            _record(one, "h100", 600 * (100 - share)),
            _record(None, "l40s", 900),
        ]
        yield _question(
            sampler.permutation(usage), {"h100": _pool(60_000, sampler.integer(2, 9)), "l40s": _pool(1_800, 4)}
        )
    yield _question([_record(None, "h100", 500)], {"h100": _pool(1_000, 6, {other: 300})})


def in_cents(sampler: Sampler) -> Iterator[dict]:
    """Fractions of cents: equal ones, several pools whose fractions add up, lines below a cent, a record for every GPU-second."""
    teams = sampler.permutation(TEAMS)
    for many, cents in sampler.shuffled((3, 100), (6, 100), (6, 1), (3, 2), (6, 1_000_001)):
        yield _question(
            [_record(team, "h100", 1) for team in sampler.permutation(teams[:many])],
            {"h100": {"cents": cents, "gpu_seconds": many, "reserved": {}}},
        )
    usage = [_record(team, pool, sampler.integer(1, 5_000)) for pool in POOLS for team in teams for _ in range(2)]
    usage += [
        _record({teams[0]: 1, teams[1]: 2, teams[2]: 4}, "a100", sampler.integer(1, 900)),
        _record(None, "spot", sampler.integer(1, 900)),
    ]
    bill = {
        pool: {"cents": sampler.integer(9_999, 99_999), "gpu_seconds": 70_001, "reserved": {teams[3]: 20_011}}
        for pool in POOLS
    }
    yield _question(sampler.permutation(usage), bill)
    # In each of the pools it is half a cent, and together whole ones.
    halves = {pool: {"cents": 1, "gpu_seconds": 2, "reserved": {}} for pool in POOLS}
    yield _question([_record(team, pool, 1) for pool in POOLS for team in sampler.permutation(teams[:2])], halves)
    yield _question(
        [_record(team, "h100", 1) for team in teams[:2] for _ in range(300)],
        {"h100": {"cents": 1_000, "gpu_seconds": 601, "reserved": {}}},
    )
    # Whole cents, beyond what a float64 can tell apart.
    first, second = sorted(teams[:2])
    yield _question(
        [_record(first, "h100", 2), _record(second, "h100", 1)],
        {"h100": {"cents": 3 * (2**53 + 1), "gpu_seconds": 3, "reserved": {}}},
    )


def refused(sampler: Sampler) -> Iterator[dict]:
    team = sampler.choice(TEAMS)
    bill = {"h100": _pool(1_000, 3, {team: 100}), "l40s": _pool(1_000, 2)}
    fine = _record(team, "h100", 500)
    for usage in sampler.shuffled(
        [fine, _record(team, "b200", 10)],
        [fine, _record(None, "b200", 0)],
        [_record(team, "h100", 1_001)],
        [fine, _record(None, "h100", 501)],
        [fine, _record({team: 1, "others": 1}, "h100", 502)],
        [fine, _record({}, "l40s", 10)],
        [fine, _record({}, "l40s", 0)],
    ):
        yield _question(usage, bill)
