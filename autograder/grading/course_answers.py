"""What everybody can read: the course's own solutions, which the wheel ``gpulab-mark`` holds, and its other right answers."""

from collections.abc import Collection

from autograder.core.layout import NOTEBOOK
from autograder.misconceptions.corpus import CORPUS, read_corpus
from autograder.selfcheck.chapters import Chapter, chapters


def course_answers(functions: Collection[str]) -> dict[str, dict[str, str]]:
    """For each of these functions that the course grades its right answers: sources by what they are called."""
    found: dict[str, dict[str, str]] = {}
    for chapter in chapters():
        if graded := _named(chapter, functions) and set(functions) & set(chapter.functions.values()):
            found |= {function: {"the course's own solution": chapter.solution(function)} for function in graded}
            for attempt in read_corpus(chapter.folder / CORPUS):
                if attempt.function in graded and attempt.kind == "right":
                    found[attempt.function][f"the course's other answer `{attempt.name}`"] = attempt.source
    return found


def _named(chapter: Chapter, functions: Collection[str]) -> bool:
    """Whether its text notebook, which takes long to read as a notebook, holds their names at all."""
    text = (chapter.folder / NOTEBOOK).read_text("utf-8")
    return any(function in text for function in functions)
