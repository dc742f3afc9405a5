"""What is wrong with a step of E19.3, each fault with the clause that it breaks."""

from collections.abc import Iterator
from typing import NamedTuple

from exercises.engines.chunked_prefill.step import Step, Stood


class Fault(NamedTuple):
    """``of``: "whole" or "room" where it shows a rule of whole prompts or of the cache, unless other prompts suffer alike."""

    criterion: str
    of: str
    says: str


def faults(step: Step, tight: bool) -> Iterator[Fault]:
    """tight: whether the cache is so small that it matters."""
    yield from _room(step)
    if step.beyond_budget:
        yield Fault("chunks", "", step.beyond_budget)
    for one in step.idle_decodes[:1]:
        of = "whole" if step.begun_whole() and not step.full else ""
        yield Fault("decodes", of, f"{one.name} decodes and got {step.part(one)} tokens: one is due in every step.")
    if step.too_long:
        yield Fault(
            "gap",
            "whole" if step.too_long_by_whole else "",
            f"{_names(step.decodes)} {_s('decode', step.decodes)}, {_parts(step)}: by step_us that lasts {step.lasts():.10g} us, "
            f"and the gap is {step.gap_us:.10g} us. Ask step_us about all of the step, every decode and every chunk behind its "
            "own live.computed; what does not fit beside the decodes waits, a whole prompt all of it.",
        )
    if found := step.overtaken:
        first, behind = found
        yield Fault(
            "order",
            "whole" if step.whole(first) and not step.part(first) and not first.computed else "",
            f"{behind.name} got tokens, and {first.name}, which comes before it, got {step.part(first)} of the {first.left} that it "
            "has left: first those who run, then `waiting` from its front, and one is finished before the next begins.",
        )
    for one in step.short():
        yield _short(step, one, tight)


def _short(step: Step, one: Stood, tight: bool) -> Fault:
    if step.whole(one):
        told = " Tokens that it was told before a preemption are no part of it." if one.told else ""
        if step.least(one) > 1 or not (one.computed or step.part(one)):
            says = (
                f"{one.name} is whole and got nothing, though its prompt of {one.prompt_tokens} tokens fits now.{told}"
            )
        else:
            says = (
                f"{one.name}, a whole prompt, got {step.part(one)} of {one.left} tokens, and one more fits.{told} "
                "What is left behind a whole prompt may be cut."
            )
        return Fault("chunks", "whole", says)
    if tight and step.waits(one):
        says = f"{one.name} was not let in, though there is room for all the {one.left} tokens that it has left."
        return Fault("chunks", "room", says)
    why = (
        f"with one more the step lasts {step.lasts({one.name: 1}):.10g} us, and the gap is {step.gap_us:.10g} us"
        if step.decodes
        else "nobody decodes, so no gap bounds the step"
    )
    return Fault(
        "chunks",
        "",
        f"{one.name} got {step.part(one)} of the {one.left} tokens that it has left, and one more fits: {why}, and budget and "
        "cache have room for it.",
    )


def _room(step: Step) -> Iterator[Fault]:
    if step.preempted != step.gone:
        yield _of_room(
            f"Preempted: {_names(step.preempted)}. Due: {_names(step.gone)}. The last of `running` goes first, and no more "
            "than the decodes need room for; plan.preempt has them in that order."
        )
    elif step.gone and step.let_in:
        yield _of_room(f"{step.let_in[0].name} was let in by a step that preempts: such a step lets nobody in.")
    for name in filter(step.runs_on, step.calls("release")):
        yield _of_room(f"{name} runs on, and its blocks were given back: its keys and values are lost.")
    for name in step.calls("leaked"):
        yield _of_room(f"{name} was not let in and holds blocks: release them.")
    for one, due in step.odd_room():
        yield _of_room(
            f"{one.name} holds {one.blocks} blocks, {due} are due: live.left is reserved when it is let in, and one token in "
            "each step in which it decodes."
        )


def _of_room(says: str) -> Fault:
    return Fault("room", "", says)


def _parts(step: Step) -> str:
    return ", ".join(f"{one.name} gets {step.part(one)} of {one.left}" for one in step.line if step.part(one))


def _names(some: list[Stood] | tuple[str, ...]) -> str:
    return ", ".join(getattr(one, "name", one) for one in some) or "nobody"


def _s(verb: str, some: list[Stood]) -> str:
    return verb if len(some) > 1 else f"{verb}s"
