"""What a scenario noted while the learner's function ran: words, or words and values, in order (``event_sink.emit_note``)."""

from typing import Any


def noted(evidence: dict[str, Any], word: str) -> list:
    """The values that were noted under ``word``, in order; None for each time that it was noted alone."""
    return [value for name, value in map(_pair, evidence["notes"]) if name == word]


def counted_before(evidence: dict[str, Any], word: str, each: str) -> list[int]:
    """For each time that ``each`` was noted, how often ``word`` had been by then."""
    words = [name for name, _ in map(_pair, evidence["notes"])]
    return [words[:at].count(word) for at, name in enumerate(words) if name == each]


def stretches(evidence: dict[str, Any], begins: str) -> list[dict[str, Any]]:
    """The notes after each ``begins``, up to the next, each as ``{"notes": [...]}``."""
    found: list[dict[str, Any]] = []
    for note in evidence["notes"]:
        if note == begins:
            found.append({"notes": []})
        elif found:
            found[-1]["notes"].append(note)
    return found


def _pair(note: str | list) -> tuple[str, Any]:
    word, value = note if isinstance(note, list) else (note, None)
    return word, value
