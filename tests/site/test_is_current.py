"""When the tests take the site as it is, and when they build it."""

import os

from tests.site.conftest import newest


def test_what_python_keeps_beside_a_module_does_not_make_the_site_old(tmp_path):
    (tmp_path / "module.py").touch()
    before = newest(tmp_path)
    kept = tmp_path / "__pycache__" / "module.pyc"
    kept.parent.mkdir()
    kept.touch()
    os.utime(tmp_path, (before + 60, before + 60))
    assert newest(tmp_path) == before


def test_a_module_that_was_edited_does(tmp_path):
    edited = tmp_path / "part" / "module.py"
    edited.parent.mkdir()
    edited.touch()
    before = newest(tmp_path)
    os.utime(edited, (before + 60, before + 60))
    assert newest(tmp_path) == before + 60
