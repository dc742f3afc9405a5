"""Rows below one another in 80 columns, whatever they hold."""

import random

from gpulab.observe.columns import WIDTH, columns, sentence

HEAD = ("line", "code", *(f"some head {i}" for i in range(12)))


def rows(rng, numbers):
    text = "x = " + "y" * rng.randint(0, 120)
    return [(str(i), text, *(str(rng.randint(0, 10**9)) if n < numbers else "" for n in range(12))) for i in range(4)]


def test_a_table_fits_whatever_it_holds():
    rng = random.Random(0)
    for _ in range(200):
        assert max(map(len, columns([HEAD, *rows(rng, rng.randint(0, 12))]))) <= WIDTH


def test_every_number_is_in_the_table_once():
    table = rows(random.Random(1), 12)
    words = " ".join(columns([HEAD, *table])).split()
    assert all(words.count(cell) == 1 for row in table for cell in row[2:])


def test_what_has_no_room_follows_by_number():
    lines = columns([HEAD, *rows(random.Random(1), 12)])
    assert sum(line.lstrip().startswith("line") for line in lines) > 1


def test_a_column_that_holds_nothing_is_left_out():
    assert "some head 5" not in "\n".join(columns([HEAD, *rows(random.Random(2), 5)]))


def test_a_long_sentence_goes_on_with_an_indent():
    assert sentence("  waits: " + "word " * 30)[1].startswith("    word")
