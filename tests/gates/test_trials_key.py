"""What the record of trials depends on: an exercise's own files and what they import, and not its neighbour's."""

from autograder.authoring.on_record import reached
from autograder.core.layout import ROOT, judge_module, run_module


def files_of(chapter: str, exercise: str) -> list[str]:
    found = reached([run_module(chapter, exercise), judge_module(chapter, exercise)])
    return [path.relative_to(ROOT / "exercises" / chapter).as_posix() for path in found]


def test_it_takes_both_sides_and_what_they_import_of_the_chapter():
    assert files_of("hierarchy", "row_sums") == [
        "numbers.py",
        "own_kernel.py",
        "row_sums/judge.py",
        "row_sums/run.py",
        "run.py",
        "run_unwritten.py",
    ]


def test_it_takes_modules_that_are_imported_by_name_from_their_folder():
    assert "mini_ddp/buckets.py" in files_of("data_parallel", "mini_ddp")


def test_it_takes_nothing_of_its_neighbours():
    assert files_of("memory", "fits") == ["fits/judge.py"]
