"""Dynamo's graph breaks and recompilations, each with its reason."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from gpulab.compat.dynamo import LOG_GRAPH_BREAK, LOGGER, RECOMPILATION_REASONS, config, counters
from gpulab.kernels.fusion.records import GraphBreak, Recompilation
from gpulab.kernels.fusion.stacks import function_name, line_of_stack
from gpulab.observe import InstrumentError


@contextmanager
def watched(broke: Callable[[GraphBreak], None], recompiled: Callable[[Recompilation], None]) -> Iterator[None]:
    """Tell of each graph break and each recompilation inside the block.

    Raises InstrumentError when Dynamo counted a graph break that was not seen here.
    """
    before, seen = sum(counters["graph_break"].values()), 0
    log = LOG_GRAPH_BREAK.value
    ask = RECOMPILATION_REASONS.value

    def log_graph_break(self, code_options, *args, **kwargs):
        nonlocal seen
        reason, error = _reason_and_error(*args, **kwargs)
        if not getattr(error, "logged", False):
            seen += 1
            broke(_graph_break(reason, error, self))
        return log(self, code_options, *args, **kwargs)

    def recompilation_reasons(entries, frame, *args, **kwargs):
        reasons = ask(entries, frame, *args, **kwargs)
        if reasons:
            recompiled(Recompilation(function_name(frame.f_code.co_name), tuple(_guard(reason) for reason in reasons)))
        return reasons

    with ExitStack() as stack:
        stack.enter_context(config.patch(automatic_dynamic_local_pgo=False, automatic_dynamic_remote_pgo=False))
        stack.enter_context(_quiet())
        stack.enter_context(patch.object(*LOG_GRAPH_BREAK, log_graph_break))
        stack.enter_context(patch.object(*RECOMPILATION_REASONS, recompilation_reasons))
        yield
    counted = sum(counters["graph_break"].values()) - before
    if counted > seen:
        raise InstrumentError(f"Dynamo counted {counted} graph breaks, and {seen} of them were seen")


def _reason_and_error(reason: str = "", exc=None):
    return reason, exc


def _graph_break(reason: str, error, translator) -> GraphBreak:
    stack = getattr(error, "real_stack", None) or translator.frame_summary and [translator.frame_summary()]
    text = str(error) if error is not None else reason
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    explained = next((line for line in lines if line.startswith("Explanation:")), "")
    return GraphBreak(line_of_stack(stack), lines[0] if lines else "", explained.removeprefix("Explanation:").strip())


@contextmanager
def _quiet() -> Iterator[None]:
    """What Dynamo would warn of is in the report."""
    logger = logging.getLogger(LOGGER)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _guard(reason: str) -> str:
    """Without the number of the compilation in front and Dynamo's place behind."""
    _, found, text = reason.partition(": ")
    return (text if found else reason).split("  # ")[0].strip()
