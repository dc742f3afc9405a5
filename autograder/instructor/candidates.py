"""What a class lost without a name, as wrong solutions in the form of a corpus: forms that its misconceptions lack.

Solutions that are alike are one. None holds a learner's name, a comment or a docstring.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.core.layout import NOTEBOOK, ROOT
from autograder.core.verdict import Verdict
from autograder.instructor.solutions import LeftOut, Names, Solution, solution, words
from autograder.instructor.standing import Learner, Standing, outcome, without_figures
from autograder.intake.answers import answers_of, releases_in
from autograder.intake.files import digest, handed_in
from autograder.intake.released import Released
from autograder.misconceptions.corpus import CORPUS, Attempt, read_corpus

_HEAD = """\
# What a class lost without a name: wrong solutions that no misconception explains, without comments and names.
# Read them before you run them: `python -m autograder try` has no sandbox.
"""


class CannotWrite(Exception):
    """Says why nothing was written."""


@dataclass(frozen=True)
class Loss:
    """What a verdict's solution is to lose, and what its learner was told, figures aside, where nothing was named."""

    exercise: str
    loses: tuple[str, ...]
    told: tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """``learners`` wrote it; ``alike`` lost ``loss`` and were told the same, whatever they wrote."""

    loss: Loss
    solution: Solution
    learners: int
    alike: int


def write_candidates(course: Path, standing: Standing, folder: Path) -> list[str]:
    """Writes ``<chapter>.txt`` for each chapter; returns what there is to say. Raises CannotWrite, Unreadable."""
    found = Collected(course, standing)
    chapters: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in found.candidates():
        chapters[candidate.loss.exercise.partition(".")[0]].append(candidate)
    paths = {chapter: folder / f"{chapter}.txt" for chapter in chapters}
    if there := [str(path) for path in paths.values() if path.exists()]:
        raise CannotWrite(f"{', '.join(there)} is there already: name another folder with --new")
    for chapter, path in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_HEAD + "".join(_blocks(chapters[chapter])), "utf-8")
    written = [f"{path}: {_counted(chapters[chapter])}" for chapter, path in paths.items()]
    return [*(written or ["no candidates for a corpus"]), *found.said()]


class Collected:
    """The solutions of a class that lost something without a name."""

    def __init__(self, course: Path, standing: Standing) -> None:
        self._course, self._standing = course, standing
        self._left: Counter[str] = Counter()
        self._in_corpus: Counter[tuple[str, str]] = Counter()
        self._chapters: dict[str, Chapter] = {}

    def candidates(self) -> list[Candidate]:
        """In the order of the notebook; of an exercise those first whose learners were told what most were told."""
        wrong = list(self._wrong())
        alike = Counter(loss for loss, _ in wrong)
        found = [_merged(same, alike) for same in _by_shape(wrong)]
        order = [function.exercise for function in self._standing.functions]
        return sorted(found, key=lambda one: (order.index(one.loss.exercise), -one.alike, one.loss.told, -one.learners))

    def said(self) -> Iterator[str]:
        """What is no candidate, and why."""
        for (exercise, attempt), count in self._in_corpus.most_common():
            yield f"{exercise}: {_learners(count)} wrote what the corpus has as {attempt}"
        for why, count in self._left.most_common():
            yield f"left out: {count} {why}"

    def _wrong(self) -> Iterator[tuple[Loss, Solution]]:
        for learner in self._standing.learners:
            losses = {loss.exercise.partition(".")[2]: loss for loss in map(_loss, _nameless(learner))}
            answers = self._answers(learner, len(losses)) if losses else {}
            for function in losses.keys() & answers.keys():
                if written := self._solution(losses[function], answers[function]):
                    yield losses[function], written

    def _answers(self, learner: Learner, count: int) -> dict[str, str]:
        """As they were graded; none where that is not certain, or where a person is to look first."""
        entry, folder = learner.entry, self._course / "submitted" / learner.entry.student / self._standing.assignment
        handed = handed_in(folder) if folder.is_dir() else None
        if entry.flags or entry.incidents:
            self._left["of submissions that a person is to look at"] += count
        elif handed is None:
            self._left[f"whose hand-ins are not in {self._course / 'submitted'}"] += count
        elif entry.handed_in and entry.handed_in != digest(handed):
            self._left["that changed since they were graded"] += count
        else:
            return answers_of(handed, self._releases)
        return {}

    @cached_property
    def _releases(self) -> dict[str, Released]:
        found = releases_in(self._course / "release" / self._standing.assignment)
        if not found:
            raise CannotWrite(
                f"no release of {self._standing.assignment!r} in {self._course / 'release'}, by which solutions are found: "
                f"nbgrader generate_assignment {self._standing.assignment}"
            )
        return found

    def _solution(self, loss: Loss, source: str) -> Solution | None:
        chapter, _, function = loss.exercise.partition(".")
        about = self._chapters.setdefault(chapter, Chapter(chapter, self._standing.names))
        try:
            written = solution(source, function)
        except LeftOut as why:
            self._left[str(why)] += 1
            return None
        if attempt := about.attempts(function).get(written.shape):
            self._in_corpus[loss.exercise, attempt] += 1
        elif about.names.are_in(written.source):
            self._left["that hold what may be a learner's name"] += 1
        else:
            return written
        return None


class Chapter:
    """What a chapter's own files hold: their words name nobody, their attempts are no news."""

    def __init__(self, name: str, names: set[str]) -> None:
        self._folder, self._all = ROOT / "exercises" / name, names
        self._attempts: dict[str, dict[str, str]] = {}

    @cached_property
    def names(self) -> Names:
        """Of the class."""
        files = (NOTEBOOK, CORPUS)
        return Names(self._all, {word for file in files for word in words((self._folder / file).read_text("utf-8"))})

    def attempts(self, function: str) -> dict[str, str]:
        """By the shapes of the wrong ones what they are. Raises Unreadable."""
        if function not in self._attempts:
            its = [one for one in self._corpus if (one.function, one.kind) == (function, "wrong")]
            self._attempts[function] = {shape: _called(one) for one in its if (shape := _shape(one))}
        return self._attempts[function]

    @cached_property
    def _corpus(self) -> list[Attempt]:
        return read_corpus(self._folder / CORPUS)


def _shape(attempt: Attempt) -> str:
    """Empty where it has none."""
    try:
        return solution(attempt.source, attempt.function).shape
    except LeftOut:
        return ""


def _called(attempt: Attempt) -> str:
    return f"{attempt.name}, a form of {attempt.says}" if attempt.says else f"{attempt.name}, which is no form of any"


def _nameless(learner: Learner) -> Iterator[Verdict]:
    """Verdicts with a line that was lost and has no name; not those of hidden tests that failed."""
    for verdict in learner.entry.verdicts.values():
        failed = any(verdict.exercise in sentence for sentence in learner.entry.broken)
        if not failed and any(outcome(line) == "lost" for line in verdict.lines):
            yield verdict


def _loss(verdict: Verdict) -> Loss:
    loses = tuple(line.criterion for line in verdict.lines if line.status != "earned")
    told = tuple(without_figures(line.message) for line in verdict.lines if outcome(line) == "lost")
    return Loss(verdict.exercise, loses, told)


def _by_shape(wrong: list[tuple[Loss, Solution]]) -> Iterable[list[tuple[Loss, Solution]]]:
    shapes: dict[tuple[str, str], list[tuple[Loss, Solution]]] = defaultdict(list)
    for loss, written in wrong:
        shapes[loss.exercise, written.shape].append((loss, written))
    return shapes.values()


def _merged(same: list[tuple[Loss, Solution]], alike: Counter[Loss]) -> Candidate:
    """Of solutions of one shape: what most of them lost, and the shortest text. Inputs are drawn, so that not all lose the same."""
    loss = Counter(loss for loss, _ in same).most_common(1)[0][0]
    shortest = min((written for _, written in same), key=lambda one: (len(one.source), one.source))
    return Candidate(loss, shortest, len(same), alike[loss])


def _blocks(candidates: Iterable[Candidate]) -> Iterator[str]:
    numbers: Counter[str] = Counter()
    for one in candidates:
        function = one.loss.exercise.partition(".")[2]
        numbers[function] += 1
        more = f"; {one.alike} lost the same and were told the same" if one.alike > one.learners else ""
        yield f"\n# %% wrong {function} unnamed_{numbers[function]} loses={','.join(one.loss.loses)}\n"
        yield f"# {_learners(one.learners)} wrote it{more}.\n{one.solution.source}"


def _counted(candidates: list[Candidate]) -> str:
    count = f"{len(candidates)} candidate{'' if len(candidates) == 1 else 's'}"
    return f"{count}, of {_learners(sum(one.learners for one in candidates))}"


def _learners(count: int) -> str:
    return "1 learner" if count == 1 else f"{count} learners"
