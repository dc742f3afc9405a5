"""``python -m autograder try FILE``: grades solutions, each in a process of its own, and says criterion by criterion what each loses."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from autograder.authoring.authored import SEEDS, AuthoredExercise, HiddenTestBroken, authored_in
from autograder.authoring.corpus import Solution, read_corpus
from autograder.authoring.isolated import STOPPED, IsolatedRuns, Trial, silence
from autograder.authoring.mistakes import Unreadable, listed
from autograder.notebooks.cells import solution_of


class SentenceTrial(Trial):
    """Gives pairs of a lost criterion and the sentence that its learner reads."""

    def lost(self, seed: int) -> list:
        try:
            with silence():
                verdict = self.authored.verdict(self.source, seed)
        except HiddenTestBroken as why:
            return [str(why)]
        return [[line.criterion, line.message] for line in verdict.lines if line.status != "earned"]


@dataclass(frozen=True)
class Outcome:
    """What became of one solution. ``lost``: by seed, the sentences of the lost criteria.

    ``missing``: declared losses that some seed did not lose; ``unexpected``: losses of some seed that were not declared;
    ``problem``: why there is no verdict, or an empty string.
    """

    function: str
    name: str
    wrong: bool
    lost: dict[int, dict[str, str]]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    problem: str = ""

    @property
    def as_declared(self) -> bool:
        return not (self.missing or self.unexpected or self.problem)


def run(
    file: Path, exercises: Path, chapter: str, function: str, seeds: list[int] | None, jobs: int, as_json: bool
) -> int:
    """Returns 0 where each loses what it declares, 1 where one does not, 2 where the file cannot be read.

    ``chapter``: by default the one that the file is called after; ``seeds``: those of the gates.
    """
    try:
        chosen = _chosen(read_corpus(file), exercises / (chapter or file.stem), function)
    except Unreadable as why:
        print(f"autograder try: {why}", file=sys.stderr)
        return 2
    outcomes = []
    for authored, solutions in chosen:
        for outcome in tried(authored, solutions, tuple(seeds or SEEDS), jobs):
            outcomes.append(outcome)
            print(json.dumps(asdict(outcome)) if as_json else _in_words(outcome), flush=True)
    if not as_json:
        print(_counted(outcomes))
    return 0 if all(outcome.as_declared for outcome in outcomes) else 1


def tried(
    authored: AuthoredExercise, solutions: list[Solution], seeds: tuple[int, ...], jobs: int
) -> Iterator[Outcome]:
    """Each in a process of its own, forked behind the cells above its own, with limits of time and memory."""
    runs = IsolatedRuns(jobs)
    runs.after(authored, solution_of(authored.notebook, authored.function))
    for start in range(0, len(solutions), 4 * jobs):
        some = solutions[start : start + 4 * jobs]
        found = runs.all([SentenceTrial(authored, solution.source, seeds) for solution in some])
        for solution, by_seed in zip(some, found, strict=True):
            yield _outcome(solution, authored.criteria, dict(zip(seeds, by_seed, strict=True)))


def _outcome(solution: Solution, criteria: set[str], found: dict[int, list]) -> Outcome:
    named = (solution.function, solution.name, solution.wrong)
    if broken := sorted({one for lost in found.values() for one in lost if isinstance(one, str) and one != STOPPED}):
        return Outcome(*named, {}, problem="; ".join(broken))
    lost = {
        seed: dict.fromkeys(sorted(criteria), STOPPED) if STOPPED in some else dict(some)
        for seed, some in found.items()
    }
    if solution.loses is None:
        kept = [str(seed) for seed, some in lost.items() if not some]
        return Outcome(*named, lost, problem=f"loses nothing with seed {', '.join(kept)}" if kept else "")
    declared = set(solution.loses)
    missing = {name for some in lost.values() for name in declared - some.keys()}
    unexpected = {name for some in lost.values() for name in some.keys() - declared}
    return Outcome(*named, lost, tuple(sorted(missing)), tuple(sorted(unexpected)))


def _chosen(solutions: list[Solution], folder: Path, function: str) -> list[tuple[AuthoredExercise, list[Solution]]]:
    """The exercises of a chapter with their solutions; of one ``function`` alone where it is named. Raises Unreadable."""
    if not (folder / "mistakes.py").exists():
        raise Unreadable(f"no chapter {folder.name!r} in {folder.parent}: name one with --chapter")
    by_function = {authored.function: authored for authored in authored_in(folder)}
    wanted = [function] if function else list(dict.fromkeys(solution.function for solution in solutions))
    if unknown := [name for name in wanted if name not in by_function]:
        raise Unreadable(f"{folder.name} grades no {', '.join(unknown)}; it grades {', '.join(by_function)}")
    chosen = [(by_function[name], [one for one in solutions if one.function == name]) for name in wanted]
    for authored, its in chosen:
        if not its:
            raise Unreadable(f"the file holds no solution of {authored.function}")
        for solution in its:
            if unknown := set(solution.loses or ()) - authored.criteria:
                raise Unreadable(
                    f"{solution.function} {solution.name} is to lose {listed(unknown)}; "
                    f"the criteria are {listed(authored.criteria)}"
                )
    return chosen


def _in_words(outcome: Outcome) -> str:
    """A line with the verdict, and one for each lost criterion."""
    kind = "wrong" if outcome.wrong else "right"
    sentences = {name: said for some in outcome.lost.values() for name, said in some.items()}
    lines = [f"{kind} {outcome.function} {outcome.name}: {outcome.problem or 'loses ' + listed(sentences)}"]
    for name, said in sorted(sentences.items()):
        seeds = [str(seed) for seed, some in outcome.lost.items() if name in some]
        part = "" if len(seeds) == len(outcome.lost) else f" (with seed {', '.join(seeds)} alone)"
        mark = " NOT DECLARED" if name in outcome.unexpected else ""
        lines.append(f"    {name}{mark}{part}: {said}")
    lines += [f"    {name}: declared, and kept" for name in outcome.missing if name not in sentences]
    lines += [f"    {name}: declared, and kept with some seed" for name in outcome.missing if name in sentences]
    return "\n".join(lines)


def _counted(outcomes: list[Outcome]) -> str:
    differ = [f"{outcome.function} {outcome.name}" for outcome in outcomes if not outcome.as_declared]
    counted = "1 solution" if len(outcomes) == 1 else f"{len(outcomes)} solutions"
    return f"{counted}, {len(differ)} not as declared" + (f": {', '.join(differ)}" if differ else "")
