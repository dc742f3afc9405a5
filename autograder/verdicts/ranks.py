"""What verdicts of exercises with ranks have in common."""


def stopped(evidence: dict) -> str | None:
    """What ended the ranks before their end, or None."""
    if evidence["crossed"].problem is not None:
        return evidence["crossed"].problem.text
    if evidence["problem"] is not None:
        return str(evidence["problem"]["text"])
    return "A rank did not return." if None in evidence["results"] else None
