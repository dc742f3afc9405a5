"""Statements as closures ``(frame, mask) -> mask``: the lanes that go on to the next statement."""

import ast

from gpulab.kernels.errors import CompileError, EndlessLoop
from gpulab.kernels.simt.arrays import Array
from gpulab.kernels.simt.expressions import Expressions, Frame, operations_in
from gpulab.kernels.simt.intrinsics import DeviceFunction
from gpulab.kernels.simt.iteration import compile_iteration
from gpulab.kernels.simt.lanes import Mask, as_bool
from gpulab.kernels.simt.language import check, refuse_result
from gpulab.kernels.simt.source import Places, Source
from gpulab.kernels.simt.spin_wait import Patience, may_wait
from gpulab.kernels.simt.values import select
from gpulab.kernels.simt.views import Slice, merged

_ALL_WAIT = (
    "Every thread that has not ended waits, and none changes what the others wait for. (The threads of a warp "
    "run together here: one of them must not wait for another, as on cards before compute capability 7.0.)"
)


class Loop:
    """Lanes that have left a loop, and those that wait for its next turn."""

    __slots__ = ("broken", "continued")

    def __init__(self, none: Mask) -> None:
        self.broken = self.continued = none


class Body:
    """A function that is ready to run. ``names``: its arguments."""

    def __init__(self, source: Source, places: Places, device: bool) -> None:
        check(source)
        if not device:
            refuse_result(source)
        self.names, self.defaults = source.arguments, source.defaults()
        self._run = Statements(source, places, device).block(source.tree.body)

    def call(self, group, mask: Mask, arguments: list):
        """Run with these values. A device function gives its result, a kernel None."""
        frame = Frame(group, dict(zip(self.names, arguments)))
        self._run(frame, mask)
        return frame.result


class Statements:
    """Compiles the statements of one function."""

    def __init__(self, source: Source, places: Places, device: bool) -> None:
        self.source, self.device = source, device
        self.expressions = Expressions(source, places)

    def block(self, nodes: list[ast.stmt]):
        """All of ``nodes``, one after another, while a lane goes on."""
        steps = [self._statement(node) for node in nodes if not _is_text(node)]

        def run(frame, mask):
            for step in steps:
                mask = step(frame, mask)
                if not mask.active:
                    break
            return mask

        return steps[0] if len(steps) == 1 else run

    def _statement(self, node: ast.stmt):
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise CompileError(f"a kernel cannot hold {type(node).__name__}", self.source.line(node))
        return self._located(handler(self, node), node)

    def _located(self, step, node: ast.stmt):
        """What goes wrong with a value's kind names the statement."""

        def run(frame, mask):
            try:
                return step(frame, mask)
            except (TypeError, AttributeError, ValueError) as error:
                raise CompileError(str(error), self.source.line(node)) from error

        return run

    def _counted(self, node: ast.AST, operations: int):
        """What a statement adds to the counters of its line."""
        place = self.expressions.place(node)

        def count(frame, mask):
            launch = frame.group.launch
            if launch.trace is not None:
                counter = launch.trace.at(place)
                counter.instructions += operations * mask.warps
                counter.active_lanes += operations * mask.active
                if launch.steps is not None:
                    launch.steps.step(frame.group, mask, place)

        return count

    # ---- assignments

    def _assign(self, node: ast.Assign):
        value = self.expressions.compile(node.value)
        targets = [self._target(target) for target in node.targets]
        stores = sum(isinstance(target, ast.Subscript) for target in node.targets)
        count = self._counted(node, max(1, operations_in(node.value) + stores))

        def run(frame, mask):
            count(frame, mask)
            found = value(frame, mask)
            for target in targets:
                target(frame, mask, found)
            return mask

        return run

    def _annassign(self, node: ast.AnnAssign):
        if node.value is None:
            return lambda frame, mask: mask
        return self._assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def _augassign(self, node: ast.AugAssign):
        here = ast.copy_location
        loaded = here(_as_load(node.target), node)
        whole = here(ast.Assign([node.target], here(ast.BinOp(loaded, node.op, node.value), node)), node)
        return self._assign(ast.fix_missing_locations(whole))

    def _target(self, node: ast.expr):
        if isinstance(node, ast.Name):
            name = node.id
            return lambda frame, mask, value: assign(frame, mask, name, value)
        if isinstance(node, ast.Tuple):
            return self._unpacking(node)
        if isinstance(node, ast.Subscript):
            return self._storing(node)
        raise CompileError("a kernel assigns to names and to elements of arrays only", self.source.line(node))

    def _unpacking(self, node: ast.Tuple):
        targets = [self._target(part) for part in node.elts]

        def run(frame, mask, value):
            if not isinstance(value, tuple) or len(value) != len(targets):
                reason = f"{len(targets)} names for a value that has not {len(targets)} parts"
                raise CompileError(reason, self.source.line(node))
            for target, part in zip(targets, value):
                target(frame, mask, part)

        return run

    def _storing(self, node: ast.Subscript):
        owner, index = self.expressions.compile(node.value), self.expressions.index(node.slice)
        place = self.expressions.place(node)

        def run(frame, mask, value):
            array = owner(frame, mask)
            found = self.expressions.checked_index(node, array, index(frame, mask))
            if len(found) < array.ndim or any(isinstance(i, Slice) for i in found):
                reason = (
                    f"{ast.unparse(node)} is a part of an array: the interpreter assigns single elements, in a loop"
                )
                raise CompileError(reason, self.source.line(node))
            if isinstance(value, (tuple, Array)):
                raise CompileError(f"an element of {array.name} holds one number", self.source.line(node))
            array.store(frame.group, mask, found, value, place)

        return run

    def _expr(self, node: ast.Expr):
        value, count = self.expressions.compile(node.value), self._counted(node, operations_in(node.value))

        def run(frame, mask):
            count(frame, mask)
            value(frame, mask)
            return mask

        return run

    def _pass(self, node: ast.Pass):
        return lambda frame, mask: mask

    # ---- branches

    def _if(self, node: ast.If):
        test = self.expressions.compile(node.test)
        count = self._counted(node, operations_in(node.test) + 1)
        then = self.block(node.body)
        other = self.block(node.orelse) if node.orelse else None
        place = self.expressions.place(node)

        def run(frame, mask):
            count(frame, mask)
            yes = mask.where(as_bool(test(frame, mask)))
            no = mask.minus(yes)
            _count_divergence(frame, place, mask, yes, no)
            after = then(frame, yes) if yes.active else yes
            rest = other(frame, no) if other is not None and no.active else no
            if after is yes and rest is no:
                return mask
            return after.plus(rest)

        return run

    # ---- loops

    def _while(self, node: ast.While):
        test = self.expressions.compile(node.test)
        count = self._counted(node, operations_in(node.test) + 1)
        body, place = self.block(node.body), self.expressions.place(node)
        waits = may_wait(self.expressions, node)

        def run(frame, mask):
            loop = Loop(mask.none())
            live, left, turns = mask, loop.broken, 0
            patience = Patience(frame.group.launch) if waits else None
            frame.loops.append(loop)
            while live.active:
                count(frame, live)
                staying = live.where(as_bool(test(frame, live)))
                leaving = live.minus(staying)
                _count_divergence(frame, place, live, staying, leaving)
                left = leaving.plus(left)
                if not staying.active:
                    break
                before, live = live, self._turn(frame, loop, body, staying)
                turns = self._guarded(frame, turns, node)
                if waits and live.active and not patience.lasts(frame.group, live.active == before.active):
                    raise self._endless(node, turns, _ALL_WAIT)
            frame.loops.pop()
            return _all_or(mask, left.plus(loop.broken))

        return run

    def _turn(self, frame, loop: Loop, body, mask: Mask) -> Mask:
        after = body(frame, mask)
        if loop.continued.active:
            after = after.plus(loop.continued)
            loop.continued = mask.none()
        return _all_or(mask, after)

    def _guarded(self, frame, turns: int, node) -> int:
        if turns >= frame.group.launch.max_turns:
            raise self._endless(node, turns, "Does every thread reach its end?")
        return turns + 1

    def _endless(self, node, turns: int, why: str) -> EndlessLoop:
        line = self.source.line(node)
        return EndlessLoop(
            f"{line.function}, line {line.number}: {line.text}\n  this loop has run {turns} times and goes on. {why}"
        )

    def _for(self, node: ast.For):
        walk_over = compile_iteration(self.expressions, node.iter)
        assign_to = self._target(node.target)
        count = self._counted(node, 1)
        body, place = self.block(node.body), self.expressions.place(node)

        def run(frame, mask):
            walk = walk_over(frame, mask)
            loop = Loop(mask.none())
            live, left, turns = mask, loop.broken, 0
            frame.loops.append(loop)
            while live.active:
                count(frame, live)
                staying = live.where(walk.condition())
                leaving = live.minus(staying)
                _count_divergence(frame, place, live, staying, leaving)
                left = leaving.plus(left)
                if not staying.active:
                    break
                assign_to(frame, staying, walk.item(frame, staying))
                live = self._turn(frame, loop, body, staying)
                walk.advance()
                turns = self._guarded(frame, turns, node)
            frame.loops.pop()
            return _all_or(mask, left.plus(loop.broken))

        return run

    def _break(self, node: ast.Break):
        count = self._counted(node, 1)

        def run(frame, mask):
            count(frame, mask)
            loop = frame.loops[-1]
            loop.broken = loop.broken.plus(mask)
            return mask.none()

        return run

    def _continue(self, node: ast.Continue):
        count = self._counted(node, 1)

        def run(frame, mask):
            count(frame, mask)
            loop = frame.loops[-1]
            loop.continued = loop.continued.plus(mask)
            return mask.none()

        return run

    def _return(self, node: ast.Return):
        count = self._counted(node, operations_in(node.value) + 1)
        value = None if node.value is None or not self.device else self.expressions.compile(node.value)

        def run(frame, mask):
            count(frame, mask)
            if value is not None:
                found = value(frame, mask)
                frame.result = found if frame.result is None else _merged(mask, found, frame.result)
            if not self.device:
                frame.group.leave(mask)
            return mask.none()

        return run


_HANDLERS = {
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._annassign,
    ast.AugAssign: Statements._augassign,
    ast.Expr: Statements._expr,
    ast.Pass: Statements._pass,
    ast.If: Statements._if,
    ast.While: Statements._while,
    ast.For: Statements._for,
    ast.Break: Statements._break,
    ast.Continue: Statements._continue,
    ast.Return: Statements._return,
}


def assign(frame: Frame, mask: Mask, name: str, value) -> None:
    """Give a variable its value in the lanes of ``mask``; other lanes keep theirs."""
    known = frame.defined.get(name)
    if known is None or known is mask or mask.active == len(mask.lanes) or _covers(mask, known):
        frame.values[name] = value
        frame.defined[name] = mask
        return
    frame.values[name] = _merged(mask, value, frame.values[name])
    frame.defined[name] = known if _covers(known, mask) else known.plus(mask)


def _covers(mask: Mask, other: Mask) -> bool:
    """Whether every lane of ``other`` is in ``mask``."""
    return other.active <= mask.active and not (other.lanes & ~mask.lanes).any()


def _merged(mask: Mask, new, old):
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        parts = [_merged(mask, n, o) for n, o in zip(new, old)]
        return type(new)(*parts) if hasattr(new, "_fields") else tuple(parts)
    if new is old:
        return old
    if isinstance(new, Array) and (both := merged(mask, new, old)) is not None:
        return both
    if isinstance(new, (tuple, Array)) or isinstance(old, (tuple, Array)):
        raise CompileError("one name stands for an array or a tuple in some threads and for something else in others")
    return select(mask.lanes, new, old)


def _all_or(mask: Mask, found: Mask) -> Mask:
    """``mask`` itself when ``found``, a part of it, is all of it: what is known of it is kept."""
    return mask if found.active == mask.active else found


def _count_divergence(frame, place: int, mask: Mask, yes: Mask, no: Mask) -> None:
    trace = frame.group.launch.trace
    if trace is not None and yes.active and no.active:
        trace.at(place).divergent_branches += yes.warps + no.warps - mask.warps


def _as_load(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Load())
    return ast.Subscript(node.value, node.slice, ast.Load())


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


DeviceFunction.compile = Body
