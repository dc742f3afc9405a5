"""``python -m autograder try FILE``: grades solutions, each in a process of its own, and says criterion by criterion what each loses."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from autograder.authoring.authored import SEEDS, AuthoredExercise, HiddenTestBroken, authored_in
from autograder.authoring.isolated import IsolatedRuns, Trial
from autograder.core.problems import Unreadable, listed
from autograder.misconceptions.corpus import CORPUS, Attempt, read_corpus
from autograder.notebooks.cells import solution_of
from autograder.notebooks.forked import STOPPED, silence


class SentenceTrial(Trial):
    """Gives pairs of a lost criterion and the sentence that its learner reads."""

    def lost(self, seed: int) -> list:
        try:
            with silence():
                verdict = self.authored.verdict(self.source, seed)
        except HiddenTestBroken as why:
            return [[criterion, str(why)] for criterion in why.lost] if self.may_break else [str(why)]
        return [[line.criterion, line.message] for line in verdict.lines if line.status != "earned"]


@dataclass(frozen=True)
class Outcome:
    """What became of one attempt. ``lost``: by seed, the sentences of the lost criteria.

    ``missing``: declared losses that some seed did not lose; ``unexpected``: losses of some seed that were not declared;
    ``problem``: why there is no verdict, or an empty string.
    """

    function: str
    name: str
    kind: str
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

    ``chapter``: by default the one whose corpus it is, or that it is called after; ``seeds``: those of the gates.
    """
    try:
        chosen = _chosen(read_corpus(file), exercises / (chapter or _chapter_of(file)), function)
    except Unreadable as why:
        print(f"autograder try: {why}", file=sys.stderr)
        return 2
    outcomes = []
    for authored, attempts in chosen:
        for outcome in tried(authored, attempts, tuple(seeds or SEEDS), jobs):
            outcomes.append(outcome)
            print(
                json.dumps(asdict(outcome) | {"wrong": outcome.kind != "right"}) if as_json else _in_words(outcome),
                flush=True,
            )
    if not as_json:
        print(_counted(outcomes))
    return 0 if all(outcome.as_declared for outcome in outcomes) else 1


def tried(authored: AuthoredExercise, attempts: list[Attempt], seeds: tuple[int, ...], jobs: int) -> Iterator[Outcome]:
    """Each in a process of its own, forked behind the cells above its own, with limits of time and memory."""
    runs = IsolatedRuns(jobs)
    runs.after(authored, solution_of(authored.notebook, authored.function))
    for start in range(0, len(attempts), 4 * jobs):
        some = attempts[start : start + 4 * jobs]
        found = runs.all(
            [SentenceTrial(authored, attempt.source, seeds, may_break=attempt.kind == "cheat") for attempt in some]
        )
        for attempt, by_seed in zip(some, found, strict=True):
            yield _outcome(authored, attempt, dict(zip(seeds, by_seed, strict=True)))


def _outcome(authored: AuthoredExercise, attempt: Attempt, found: dict[int, list]) -> Outcome:
    named = (attempt.function, attempt.name, attempt.kind)
    if broken := sorted({one for lost in found.values() for one in lost if isinstance(one, str) and one != STOPPED}):
        return Outcome(*named, {}, problem="; ".join(broken))
    lost = {
        seed: dict.fromkeys(sorted(authored.criteria), STOPPED) if STOPPED in some else dict(some)
        for seed, some in found.items()
    }
    if attempt.kind == "wrong" and attempt.loses is None:
        kept = [str(seed) for seed, some in lost.items() if not some]
        return Outcome(*named, lost, problem=f"loses nothing with seed {', '.join(kept)}" if kept else "")
    declared = authored.losses(attempt)
    missing = {name for some in lost.values() for name in declared - some.keys()}
    unexpected = {name for some in lost.values() for name in some.keys() - declared}
    return Outcome(*named, lost, tuple(sorted(missing)), tuple(sorted(unexpected)))


def _chosen(attempts: list[Attempt], folder: Path, function: str) -> list[tuple[AuthoredExercise, list[Attempt]]]:
    """The exercises of a chapter with their attempts; of one ``function`` alone where it is named. Raises Unreadable."""
    if not attempts:
        raise Unreadable(
            "no attempt in the file: each begins with a line `# %% wrong FUNCTION NAME` or `# %% right ...`"
        )
    if not (folder / CORPUS).exists():
        raise Unreadable(f"no chapter {folder.name!r} in {folder.parent}: name one with --chapter")
    by_function = {authored.function: authored for authored in authored_in(folder)}
    wanted = [function] if function else list(dict.fromkeys(attempt.function for attempt in attempts))
    if unknown := [name for name in wanted if name not in by_function]:
        raise Unreadable(f"{folder.name} grades no {', '.join(unknown)}; it grades {', '.join(by_function)}")
    chosen = [(by_function[name], [one for one in attempts if one.function == name]) for name in wanted]
    for authored, its in chosen:
        if not its:
            raise Unreadable(f"the file holds no attempt of {authored.function}")
        for attempt in its:
            if unknown := set(attempt.loses or ()) - authored.criteria:
                raise Unreadable(
                    f"{attempt.function} {attempt.name} is to lose {listed(unknown)}; "
                    f"the criteria are {listed(authored.criteria)}"
                )
    return chosen


def _chapter_of(file: Path) -> str:
    """A chapter's corpus lies in its folder; another file is called after the chapter."""
    return file.resolve().parent.name if file.name == CORPUS else file.stem


def _in_words(outcome: Outcome) -> str:
    """A line with the verdict, and one for each lost criterion."""
    sentences = {name: said for some in outcome.lost.values() for name, said in some.items()}
    lines = [f"{outcome.kind} {outcome.function} {outcome.name}: {outcome.problem or 'loses ' + listed(sentences)}"]
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
    counted = "1 attempt" if len(outcomes) == 1 else f"{len(outcomes)} attempts"
    return f"{counted}, {len(differ)} not as declared" + (f": {', '.join(differ)}" if differ else "")
