"""A file is written whole or not at all."""

import stat

import pytest

from autograder.core.replaced import replaced


def test_a_block_that_fails_leaves_the_file_of_before_and_nothing_beside_it(tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text("old")
    with pytest.raises(RuntimeError), replaced(kept) as file:
        file.write("half of the n")
        raise RuntimeError
    assert kept.read_text() == "old" and [*tmp_path.iterdir()] == [kept]


def test_until_the_block_ends_readers_find_the_file_of_before(tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text("old")
    with replaced(kept, survives_power_failure=True) as file:
        file.write("new")
        file.flush()
        assert kept.read_text() == "old"
    assert kept.read_text() == "new" and [*tmp_path.iterdir()] == [kept]


def test_the_new_file_has_the_permissions_of_the_old_one(tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text("old")
    kept.chmod(0o640)
    with replaced(kept) as file:
        file.write("new")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
