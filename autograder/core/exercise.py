"""What a graded exercise is: criteria worth points, cases, and a judge.

``exercises/<chapter>/<exercise>/judge.py`` binds one as ``exercise``; it is imported by the referee alone.
``run.py`` beside it runs in the learner's process and knows no answer.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from autograder.core.layout import ROOT, file_of, imported, judge_module, run_module

if TYPE_CHECKING:
    from autograder.core.sampler import Sampler
    from autograder.judge.facts import Fact
    from gpulab.collectives import Carrier


@dataclass(frozen=True)
class Criterion:
    """One thing that earns points.

    ``says`` completes "this earns points when ...". ``requires`` names criteria without
    which this one means nothing: a function that returns its input copies nothing, and has
    not earned "copies nothing".
    """

    name: str
    points: float
    says: str
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One set of inputs for a scenario. ``criteria``: names of the criteria that this case decides.

    ``raises``: name of the expected exception; ``because``: what is wrong with the arguments, for the learner who does
    not raise it. Both stay in the referee, so that nothing in the kernel distinguishes such a case from the others.

    ``ranks``: how many ranks its scenario starts, once, with :func:`autograder.runner.ranks.in_ranks`. The judge
    then finds in ``evidence["traffic"]`` an :class:`autograder.judge.collective_broker.Traffic`, logged by the referee's own
    broker, which models ``network``. ``per_rank_inputs``: for each rank its inputs, or a list of them, one for each
    call. A rank requests them with :func:`autograder.runner.ranks.own_inputs`: they never lie in the memory of the
    kernel or of another rank, nor anywhere before their call.

    ``follows``: its scenario goes on with what that of the case before has left, so that one is not played without the other.
    """

    criteria: tuple[str, ...]
    inputs: dict[str, Any] = field(default_factory=dict)
    raises: str = ""
    because: str = ""
    ranks: int = 0
    network: "Carrier | None" = None
    per_rank_inputs: tuple[dict[str, Any] | list[dict[str, Any]], ...] = ()
    follows: bool = False

    def __post_init__(self) -> None:
        if self.per_rank_inputs and len(self.per_rank_inputs) != self.ranks:
            raise ValueError(f"inputs for {len(self.per_rank_inputs)} ranks, where the case has {self.ranks}")


@dataclass(frozen=True)
class Failure:
    """A criterion that does not hold; ``message`` tells the learner what was expected and what was found."""

    criterion: str
    message: str


@dataclass(frozen=True)
class NotGradable:
    """A criterion that this machine cannot decide. It earns nothing and is reported as such."""

    criterion: str
    message: str


Judge = Callable[[Case, dict[str, Any]], Iterable[Failure | NotGradable]]


@dataclass(frozen=True, kw_only=True)
class Outline:
    """What of an exercise is known where nothing is judged: what earns points, but no case and no judge.

    ``name``: ``<chapter>.<exercise>``; :func:`find` gives it that of its folder.
    ``alone``: background work (threads, processes of the learner's) loses every criterion of its case.
    """

    criteria: tuple[Criterion, ...] = field(kw_only=False)
    alone: bool = True
    name: str = ""

    @property
    def points(self) -> float:
        return sum(criterion.points for criterion in self.criteria)

    def __post_init__(self) -> None:
        names = [criterion.name for criterion in self.criteria]
        if len(set(names)) != len(names):
            raise ValueError("two criteria share a name")
        for criterion in self.criteria:
            if unknown := set(criterion.requires) - set(names):
                raise ValueError(f"{criterion.name} requires unknown criteria {sorted(unknown)}")


@dataclass(frozen=True)
class Exercise(Outline):
    """``cases`` draws fresh inputs; ``judge`` gives the failures that the evidence of one case shows.

    ``facts(case, evidence)``: what of it tells one wrong idea from another, for each question; None where the judge cannot ask
    a function itself, since a ``run.py`` calls it. See :mod:`autograder.judge.explain`.
    """

    cases: "Callable[[Sampler], Iterator[Case]]"
    judge: Judge
    facts: "Callable[[Case, dict[str, Any]], Iterable[Fact]] | None" = None

    @property
    def outline(self) -> Outline:
        return Outline(self.criteria, alone=self.alone, name=self.name)


def find(name: str) -> Exercise:
    """The exercise called ``<chapter>.<exercise>``. Raises LookupError when there is none."""
    chapter, _, exercise = name.partition(".")
    module = judge_module(chapter, exercise)
    judge = imported(module) if chapter.isidentifier() and exercise.isidentifier() else None
    if judge is None:
        raise LookupError(f"no exercise {name!r}: write {file_of(module)}")
    found = getattr(judge, "exercise", None)
    if not isinstance(found, Exercise):
        raise LookupError(f"{file_of(module)} binds no Exercise to the name `exercise`")
    run_of_its_own = (ROOT / file_of(run_module(chapter, exercise))).is_file()
    return replace(found, name=name, facts=None if run_of_its_own else found.facts)
