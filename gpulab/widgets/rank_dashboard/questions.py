"""Five jobs of sixteen ranks, simulated, with what was planted in each; one question, with why for every answer."""

import random
from statistics import mean

from gpulab.fleet import step
from gpulab.widgets.quiz import Question, right, wrong

RANKS, TP, STEPS = 16, 4, 24
METRICS = {
    "dp_ms": "data-parallel collectives, ms",
    "tp_ms": "tensor-parallel collectives, ms",
    "step_ms": "whole step, ms",
    "temperature": "GPU temperature, C",
    "clock": "SM clock, MHz",
    "utilisation": "GPU utilisation, %",
}


def job(
    seed: int,
    late: dict[int, float] | None = None,
    since: int = 0,
    spike: tuple[int, int] | None = None,
    group: int | None = None,
    hot: int = 3,
    slow_hot: bool = False,
) -> dict:
    """Numbers by metric, step and rank. ``late``: ms by rank, from a step on; ``spike``: a rank and the one step in which it took 400 ms more.

    ``group``: tensor-parallel ranks whose node is slow as a whole; ``hot``: the hottest card, which runs at a lower clock if ``slow_hot``.
    """
    rng, rows = random.Random(seed), {name: [] for name in METRICS}
    for s in range(STEPS):
        work = [
            200 + rng.uniform(-0.9, 0.9) + ((late or {}).get(rank, 0.0) if s >= since else 0.0) for rank in range(RANKS)
        ]
        if spike and s == spike[1]:
            work[spike[0]] += 400
        behind = [30.0 if number == group else rng.uniform(0, 0.4) for number in range(RANKS // TP)]
        times = step(work, TP, (rng.uniform(4, 6), rng.uniform(24, 30)), behind)
        rows["dp_ms"].append(times["dp"])
        rows["tp_ms"].append(times["tp"])
        rows["step_ms"].append(times["step"])
        heated = [rank == hot and (not slow_hot or s >= since) for rank in range(RANKS)]
        rows["temperature"].append([rng.randint(58, 66) + (24 if one else 0) for one in heated])
        rows["clock"].append([(1_410 if slow_hot else 1_950) + rng.randint(-9, 9) if one else 1_980 for one in heated])
        rows["utilisation"].append([100] * RANKS)
    return {name: [[round(value, 1) for value in row] for row in of_metric] for name, of_metric in rows.items()}


JOBS: dict[str, dict] = {
    "late rank": job(1, late={9: 38.0}),
    "one step": job(2, spike=(2, 13), hot=11),
    "late group": job(3, group=2, hot=5),
    "throttled": job(4, late={14: 55.0}, since=9, hot=14, slow_hot=True),
    "two late": job(5, late={5: 60.0, 12: 30.0}, hot=0),
}
MEAN_STEP_MS = {name: mean(row[0] for row in rows["step_ms"]) for name, rows in JOBS.items()}
ASKED = "Every rank takes the same time for a step. Which one would you take out?"
QUESTIONS: dict[str, Question] = {
    "late rank": Question.ask(
        ASKED,
        wrong(
            "Rank 3, the hottest",
            "It is 24 degrees hotter, at nearly the same clock, and comes as early as the others. Heat is a suspect, and no verdict.",
        ),
        wrong(
            "Rank 8, with the longest time in tensor-parallel collectives",
            "It waits there for a member of its group. With the other two it is the nearest victim.",
        ),
        right(
            "Rank 9",
            "In its group the other three wait 38 ms, and it does not. All other groups wait in the data-parallel collectives for that group. The shortest "
            "time in both kinds of collective is that of whoever comes last.",
        ),
        wrong(
            "Rank 0 to 7 and 12 to 15: their data-parallel time is longest",
            "Twelve ranks that wait for four. Their link is not slow: it is idle.",
        ),
    ),
    "one step": Question.ask(
        ASKED,
        wrong(
            "Rank 2: all waited 400 ms for it",
            "In one step of 24. A garbage collection, a page fault, a checkpoint: the median step knows nothing of it.",
        ),
        wrong("Rank 11, the hottest", "It comes as early as the others in every step."),
        right(
            "None",
            "In the median step nobody is waited for by more than a millisecond. A mean over the steps would name rank 2.",
        ),
        wrong(
            "Whoever comes last in most steps",
            "Somebody always comes last. By how much is the question, and it is less than a millisecond.",
        ),
    ),
    "late group": Question.ask(
        ASKED,
        wrong("Rank 5, the hottest", "Nobody waits for it in either kind of collective."),
        right(
            "None of them: ranks 8 to 11 together come late",
            "Within the group nobody waits: their tensor-parallel times are as short as everywhere. All others wait for the group. What four ranks share "
            "is slow: a node's network card, its loader, a pipeline stage with more layers.",
        ),
        wrong("Rank 8", "It is no later than 9, 10 and 11. To take it out and to leave the other three gains nothing."),
        wrong("Rank 0, with a long time in data-parallel collectives", "It waits, like eleven others."),
    ),
    "throttled": Question.ask(
        ASKED,
        wrong("None: the first nine steps are well", "And fifteen are not. The median is one of those."),
        wrong(
            "Rank 12, with the longest time in tensor-parallel collectives",
            "A victim: it waits for a member of its group from step 9 on.",
        ),
        right(
            "Rank 14",
            "Shortest in both kinds of collective from step 9 on; and here the sensors say why: its temperature leaps and its clock falls by a quarter. "
            "Sensors explain a culprit. They do not find one: in job A another card is as hot, and is well.",
        ),
        wrong(
            "Ranks 0 to 11: they spend 80 ms in data-parallel collectives", "They are twelve, and they wait for one."
        ),
    ),
    "two late": Question.ask(
        ASKED,
        wrong(
            "Rank 12 first",
            "It is 30 ms late in its own group. But its group is not the last one: all wait another 30 ms for somebody else, and so does rank 12.",
        ),
        right(
            "Rank 5 first, then rank 12",
            "The step ends 60 ms late because of rank 5. Without it, it would end 30 ms late because of rank 12. What one gains by a repair is the "
            "distance to the second-last.",
        ),
        wrong(
            "Both at once: they are equally guilty", "Taking out 12 alone gains nothing. Taking out 5 alone gains half."
        ),
        wrong("Rank 0, the hottest", "Nobody waits for it."),
    ),
}
