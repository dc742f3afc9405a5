"""E21.4 chargeback: cases and judge."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.operating.chargeback import cases as bills


def _cases(sampler: Sampler) -> Iterator[Questions]:
    strata = {
        "teams": bills.of_teams,
        "shared": bills.shared,
        "idle": bills.idle,
        "untagged": bills.untagged,
        "cents": bills.in_cents,
    }
    for criteria, drawn in strata.items():
        yield ask(criteria, list(drawn(sampler)))
    yield ask("errors", list(bills.refused(sampler)), raises="ValueError")


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary from lines to cents."
    if strange := [cents for cents in value.values() if type(cents) is not int]:
        return f"A line's cents are {type_name(strange[0])}; expected an int."
    due = bills.due(**question)
    if value == due:
        return None
    total = sum(pool["cents"] for pool in question["bill"].values())
    if sum(value.values()) != total:
        return f"The lines add up to {'less' if sum(value.values()) < total else 'more'} than the bill. {_SENTENCES[criteria]}"
    if set(value) != set(due):
        return f"The lines add up to the bill and are not those that are due: who is due nothing is left out, and nobody else. {_SENTENCES[criteria]}"
    return f"The lines add up to the bill, and not each pays its own. {_SENTENCES[criteria]}"


_SENTENCES = {
    "teams": "A GPU-second costs what its own pool's capacity costs by the second, and no average of pools.",
    "shared": "A shared record is paid once: each team pays the part that its weight is of all its weights.",
    "idle": "Idle time is paid: by the teams whose reservations stayed unused, as far as there is idle time, and the rest is a line of its own.",
    "untagged": "What has no tag is a line of its own, and not spread over those who tag.",
    "cents": "The fractions are exact and are rounded once, for the lines of the whole bill: down, and the missing cents to the largest remainders.",
}

exercise = answers(
    criteria=(
        Criterion("teams", 2, "what a team held is paid at the price of its pool"),
        Criterion("shared", 2, "a shared job is paid once, by weights"),
        Criterion("idle", 3, "idle time is paid by who reserved it, and the rest of it is seen"),
        Criterion("untagged", 1, "what has no tag is a line of its own"),
        Criterion("cents", 1, "fractions of cents are rounded once, so that the lines add up to the bill", ("teams",)),
        Criterion("errors", 1, "records that the bill cannot have are refused with ValueError", ("teams",)),
    ),
    cases=_cases,
    arguments=lambda question: (question["usage"], question["bill"]),
    wrong=_wrong,
    kept="The function changed the usage or the bill that it was given: the caller still needs them.",
    libraries=("numpy",),
)
