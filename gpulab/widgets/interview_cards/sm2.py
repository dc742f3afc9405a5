"""SM-2, by which the cards come back: P. A. Woźniak, "Optimization of learning", 1990, section 3.2.

The widget runs `model.js`; this says the same in Python, and a test holds one to the other.
"""

from math import ceil

EASE, LEAST_EASE = 2.5, 1.3
AGAIN, HARD, GOOD, EASY = 2, 3, 4, 5


def graded(state: dict | None, quality: int, day: int) -> dict:
    """A card's state after it was graded.

    Args:
        state: ease, streak (of answers that were known), interval and due (days), first (the day it was first seen), again
            (a day on which it has to come once more, or None); None for a card that was never seen.
        quality: 0 to 5, of which the widget gives 2 (again) to 5 (easy). day: in days.

    Returns:
        The new state. A card graded below 4 comes again on the same day until it is graded 4 or better, which changes
        nothing else.
    """
    once_more = day if quality < GOOD else None
    if state and state["again"] == day:
        return state | {"again": once_more}
    old = state or {"ease": EASE, "streak": 0, "interval": 0, "first": day}
    if quality < HARD:
        ease, streak, interval = old["ease"], 0, 1
    else:
        ease = max(LEAST_EASE, old["ease"] + (0.1 - (5 - quality) * (0.08 + (5 - quality) * 0.02)))
        streak = old["streak"] + 1
        interval = {1: 1, 2: 6}.get(streak) or ceil(old["interval"] * ease)
    return {
        "ease": ease,
        "streak": streak,
        "interval": interval,
        "due": day + interval,
        "first": old["first"],
        "again": once_more,
    }
