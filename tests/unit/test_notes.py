"""A judge finds what was noted by its word."""

from autograder.judge.notes import counted_before, noted, stretches

EVIDENCE = {"notes": ["begins", ["loss", 2.0], "asked", "begins", "asked", ["loss", 3.0], "asked"]}


def test_values_are_found_by_their_word_and_words_alone_as_none():
    assert noted(EVIDENCE, "loss") == [2.0, 3.0] and noted(EVIDENCE, "asked") == [None] * 3
    assert noted(EVIDENCE, "stepped") == []


def test_what_came_before_is_counted():
    assert counted_before(EVIDENCE, "loss", each="asked") == [1, 1, 2]


def test_stretches_are_read_as_evidence_is():
    one, two = stretches(EVIDENCE, "begins")
    assert noted(one, "loss") == [2.0] and len(noted(two, "asked")) == 2
