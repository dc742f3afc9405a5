"""Expressions as closures ``(frame, mask) -> value``, made once for a kernel.

A value is a NumPy scalar (the same for all lanes), a vector with an entry a lane, a tuple of
values or an array. What the compiler can know is a :class:`Static`: a module, a dtype, a
constant, a device function.
"""

import ast
import operator

import numpy as np

from gpulab.kernels.errors import CompileError
from gpulab.kernels.simt import values
from gpulab.kernels.simt.arrays import Array
from gpulab.kernels.simt.intrinsics import DeviceFunction, Intrinsic, Reading, meaning_of
from gpulab.kernels.simt.lanes import Mask, as_bool
from gpulab.kernels.simt.source import Places, Source
from gpulab.kernels.simt.views import Slice, part_of

_NO_METHODS = "inside a kernel an array has shape, size and ndim, and no methods"


class Static:
    """What an expression stands for before the kernel runs."""

    def __init__(self, thing) -> None:
        self.thing = thing


class Frame:
    """One call's variables. ``defined``: the lanes for which each was last given a value."""

    __slots__ = ("group", "values", "defined", "result", "loops")

    def __init__(self, group, arguments: dict) -> None:
        self.group = group
        self.values = arguments
        self.defined = {name: group.exists for name in arguments}
        self.result = None
        self.loops: list = []


class Expressions:
    """Compiles expressions of one function."""

    def __init__(self, source: Source, places: Places) -> None:
        self.source, self.places = source, places
        self.locals = source.local_names()

    def fail(self, node: ast.AST, reason: str):
        raise CompileError(reason, self.source.line(node))

    def place(self, node: ast.AST) -> int:
        return self.places.number(self.source.line(node))

    def is_dropped(self, node: ast.expr) -> bool:
        """Whether nobody looks at the value of ``node``: it stands alone."""
        return any(isinstance(n, ast.Expr) and n.value is node for n in ast.walk(self.source.tree))

    def compile(self, node: ast.expr):
        """The closure for ``node``. Raises CompileError."""
        made = self.static_or_closure(node)
        return self._constant(made.thing, node) if isinstance(made, Static) else made

    def static_or_closure(self, node: ast.expr):
        if isinstance(node, ast.Constant):
            return Static(node.value)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            self.fail(node, f"a kernel cannot hold {type(node).__name__}")
        return handler(self, node)

    def static(self, node: ast.expr, what: str):
        """What ``node`` stands for at compile time. Raises CompileError when it is not known."""
        made = self.static_or_closure(node)
        if not isinstance(made, Static):
            self.fail(node, f"{what} must be known when the kernel is compiled: a constant, or a global")
        return made.thing

    def _constant(self, thing, node):
        if isinstance(thing, Reading):
            return lambda frame, mask: thing.read(frame.group)
        if isinstance(thing, tuple):
            parts = [self._constant(part, node) for part in thing]
            return lambda frame, mask: tuple(part(frame, mask) for part in parts)
        value = values.literal(thing)
        if value is None:
            self.fail(node, self._not_a_value(thing))
        return lambda frame, mask: value

    def _not_a_value(self, thing) -> str:
        kind = type(thing).__name__
        if hasattr(thing, "shape") and hasattr(thing, "dtype"):
            return f"a {kind} from outside the kernel: Numba would freeze a copy of it or fail. Pass it as an argument"
        if isinstance(thing, str):
            return "a string: a GPU has none. Only print takes one"
        if isinstance(thing, list):
            return "a list from outside the kernel: pass an array as an argument"
        return f"{getattr(thing, '__name__', kind)}: Numba has no value for it on a GPU"

    # ---- names

    def _name(self, node: ast.Name):
        name = node.id
        if name in self.locals:
            return lambda frame, mask: _local(frame, name)
        try:
            return Static(meaning_of(self.source.meaning(name)))
        except KeyError:
            self.fail(node, f"the name {name!r} is not defined")

    def _attribute(self, node: ast.Attribute):
        owner = self.static_or_closure(node.value)
        name = node.attr
        if isinstance(owner, Static):
            try:
                return Static(meaning_of(getattr(owner.thing, name)))
            except AttributeError as error:
                self.fail(node, str(error))
        return lambda frame, mask: self._of_value(owner(frame, mask), name, node)

    def _of_value(self, owner, name: str, node):
        if isinstance(owner, Array) and name in ("shape", "size", "ndim"):
            return np.int64(owner.ndim) if name == "ndim" else getattr(owner, name)
        if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
            return getattr(owner, name)
        if name in ("real", "imag") and isinstance(owner, (np.ndarray, np.generic)):
            return getattr(owner, name)
        self.fail(node, f".{name}: {_NO_METHODS}")

    # ---- operations

    def _binop(self, node: ast.BinOp):
        left, right = self.static_or_closure(node.left), self.static_or_closure(node.right)
        operate = values.BINARY.get(type(node.op))
        if operate is None:
            self.fail(node, "@ multiplies whole arrays and a thread has numbers. Write the loop over k")
        if isinstance(left, Static) and isinstance(right, Static):
            folded = self._folded(node, left.thing, right.thing)
            if folded is not None:
                return folded
        left, right = self._as_closure(left, node.left), self._as_closure(right, node.right)
        place = self.place(node)

        def run(frame, mask):
            try:
                out = operate(left(frame, mask), right(frame, mask))
            except (AttributeError, TypeError) as error:
                raise self._no_number(node, error) from None
            trace = frame.group.launch.trace
            if trace is not None and out.dtype.kind == "f":
                trace.at(place).flops += mask.active
            return out

        return run

    def _as_closure(self, made, node):
        return self._constant(made.thing, node) if isinstance(made, Static) else made

    def _no_number(self, node, error) -> CompileError:
        return CompileError(f"an operation on something that is no number ({error})", self.source.line(node))

    def _folded(self, node: ast.BinOp, left, right) -> Static | None:
        # Python's own integers: a shape such as TILE + 1 is known before the kernel runs.
        fold = _FOLDS.get(type(node.op))
        if fold is None or type(left) is not int or type(right) is not int:
            return None
        if right == 0 and fold in (operator.floordiv, operator.mod):
            self.fail(node, "a division by zero between constants")
        return Static(fold(left, right))

    def _unaryop(self, node: ast.UnaryOp):
        operand = self.static_or_closure(node.operand)
        if isinstance(operand, Static) and type(operand.thing) in (int, float) and isinstance(node.op, ast.USub):
            return Static(-operand.thing)
        operand = self._as_closure(operand, node.operand)
        operate = values.UNARY[type(node.op)]
        return lambda frame, mask: operate(operand(frame, mask))

    def _compare(self, node: ast.Compare):
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self._membership(node)
        parts = [self.compile(part) for part in (node.left, *node.comparators)]
        operations = [values.COMPARE.get(type(op)) for op in node.ops]
        if None in operations:
            self.fail(node, "a comparison other than < <= > >= == != and in")
        if len(operations) == 1:
            (left, right), operate = parts, operations[0]
            return lambda frame, mask: operate(left(frame, mask), right(frame, mask))

        def run(frame, mask):
            left, result = parts[0](frame, mask), None
            for operate, part in zip(operations, parts[1:]):
                right = part(frame, mask)
                holds = operate(left, right)
                result = holds if result is None else result & holds
                left = right
            return result

        return run

    def _membership(self, node: ast.Compare):
        left, among = self.compile(node.left), self.compile(node.comparators[0])
        turned = isinstance(node.ops[0], ast.NotIn)

        def run(frame, mask):
            wanted, found = left(frame, mask), among(frame, mask)
            if not isinstance(found, tuple) or not found:
                self.fail(node, "in looks through a tuple of numbers: write a loop over anything else")
            held = np.equal(wanted, found[0])
            for part in found[1:]:
                held = held | np.equal(wanted, part)
            return ~held if turned else held

        return run

    def _boolop(self, node: ast.BoolOp):
        parts = [self.compile(part) for part in node.values]
        both = isinstance(node.op, ast.And)

        def run(frame, mask):
            value = parts[0](frame, mask)
            for part in parts[1:]:
                going_on = mask.where(as_bool(value) if both else ~as_bool(value))
                if not going_on:
                    return value
                more = part(frame, going_on)
                value = more if going_on is mask else values.select(going_on.lanes, more, value)
            return value

        return run

    def _ifexp(self, node: ast.IfExp):
        test, then, other = (self.compile(part) for part in (node.test, node.body, node.orelse))

        def run(frame, mask):
            yes = mask.where(as_bool(test(frame, mask)))
            no = mask.minus(yes)
            if not no:
                return then(frame, yes)
            if not yes:
                return other(frame, no)
            return values.select(yes.lanes, then(frame, yes), other(frame, no))

        return run

    def _tuple(self, node: ast.Tuple):
        made = [self.static_or_closure(part) for part in node.elts]
        if all(isinstance(part, Static) and not isinstance(part.thing, Reading) for part in made):
            return Static(tuple(part.thing for part in made))
        parts = [self._as_closure(part, sub) for part, sub in zip(made, node.elts)]
        return lambda frame, mask: tuple(part(frame, mask) for part in parts)

    # ---- elements

    def index(self, node: ast.expr):
        """A closure for the tuple of indices in the brackets."""
        closure = self.compile(node)

        def run(frame, mask):
            found = closure(frame, mask)
            return found if isinstance(found, tuple) else (found,)

        return run

    def _slice(self, node: ast.Slice):
        parts = [None if part is None else self.compile(part) for part in (node.lower, node.upper, node.step)]

        def run(frame, mask):
            bounds = [None if part is None else part(frame, mask) for part in parts]
            if any(bound is not None and bound.dtype.kind not in "iu" for bound in bounds):
                self.fail(node, "a slice's bound is no integer: use // or int()")
            return Slice(*bounds)

        return run

    def _subscript(self, node: ast.Subscript):
        owner, place = self.static_or_closure(node.value), self.place(node)
        if isinstance(owner, Static) and isinstance(owner.thing, tuple) and _is_constant(node.slice):
            return Static(owner.thing[ast.literal_eval(node.slice)])
        owner = self._as_closure(owner, node.value)
        index, text = self.index(node.slice), ast.unparse(node)

        def run(frame, mask):
            array = owner(frame, mask)
            if isinstance(array, tuple):
                return array[self.position(node, index(frame, mask))]
            found = self.checked_index(node, array, index(frame, mask))
            if len(found) < array.ndim or any(isinstance(i, Slice) for i in found):
                return part_of(array, found, text)
            return array.load(frame.group, mask, found, place)

        return run

    def position(self, node, index: tuple) -> int | slice:
        if len(index) == 1 and isinstance(index[0], Slice):
            bounds = [getattr(index[0], name) for name in Slice.__slots__]
            if all(np.ndim(bound) == 0 for bound in bounds):
                return slice(*(None if bound is None else int(bound) for bound in bounds))
        if len(index) != 1 or isinstance(index[0], Slice) or np.ndim(index[0]) or index[0].dtype.kind not in "iu":
            self.fail(node, "a tuple is indexed with one whole number, the same in all threads")
        return int(index[0])

    def checked_index(self, node, array, index: tuple) -> tuple:
        if not isinstance(array, Array):
            self.fail(node, "only an array or a tuple can be indexed")
        if len(index) > array.ndim:
            self.fail(node, f"{array.name} has {array.ndim} dimensions and {len(index)} indices")
        steps = [i.step for i in index if isinstance(i, Slice) and i.step is not None]
        if any(np.any(step == 0) for step in steps):
            self.fail(node, "a slice's step is not 0")
        if any(not isinstance(i, Slice) and getattr(i, "dtype", _FLOAT).kind not in "iu" for i in index):
            self.fail(node, f"an index of {array.name} is no integer: use // or int()")
        return index

    # ---- calls

    def _call(self, node: ast.Call):
        function = self.static_or_closure(node.func)
        if not isinstance(function, Static):
            if isinstance(node.func, ast.Attribute):
                self.fail(node, f".{node.func.attr}: {_NO_METHODS}")
            self.fail(node, "a call of something that is known only when the kernel runs")
        thing = function.thing
        if isinstance(thing, Intrinsic):
            return thing.compile(self, node)
        if isinstance(thing, DeviceFunction):
            return self._device_call(thing, node)
        dtype = values.as_dtype(thing)
        if dtype is not None:
            return self._cast(dtype, node)
        self.fail(node, self._not_callable(thing))

    def _not_callable(self, thing) -> str:
        module = getattr(thing, "__module__", None) or ""
        name = getattr(thing, "__name__", repr(thing))
        if module.startswith("numpy") or isinstance(thing, np.ufunc):
            return f"np.{name}: NumPy works on whole arrays on the host; write the loop, or use math"
        if module == "math":
            return f"math.{name}: Numba has no such function for a kernel"
        if module.startswith("numba"):
            return f"{name}: the interpreter does not follow this part of Numba"
        if module.startswith("torch"):
            return f"torch.{name}: a kernel cannot call PyTorch"
        if callable(thing):
            return f"{name}: a kernel calls device functions only. Decorate it with @cuda.jit(device=True)"
        return f"{name} cannot be called"

    def _cast(self, dtype: np.dtype, node: ast.Call):
        if len(node.args) != 1 or node.keywords:
            self.fail(node, f"{dtype.name}() takes one number")
        argument = self.compile(node.args[0])
        return lambda frame, mask: argument(frame, mask).astype(dtype)

    def _device_call(self, function: DeviceFunction, node: ast.Call):
        body = function.body(self.places)
        arguments = [self.compile(argument) for argument in self._by_parameter(function, body, node)]

        def run(frame, mask: Mask):
            return function.call(body, frame.group, mask, [argument(frame, mask) for argument in arguments])

        return run

    def _by_parameter(self, function: DeviceFunction, body, node: ast.Call) -> list[ast.expr]:
        """The call's arguments in the order of the parameters, defaults among them."""
        given = dict(zip(body.names, node.args)) | {keyword.arg: keyword.value for keyword in node.keywords}
        missing = [name for name in body.names if name not in given and name not in body.defaults]
        if len(given) != len(node.args) + len(node.keywords) or missing or given.keys() - set(body.names):
            count = len(node.args) + len(node.keywords)
            self.fail(
                node, f"{function.name} takes {len(body.names)} arguments ({', '.join(body.names)}) and gets {count}"
            )
        constants = {name: ast.copy_location(ast.Constant(value), node) for name, value in body.defaults.items()}
        return [given.get(name, constants.get(name)) for name in body.names]


_FOLDS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_HANDLERS = {
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.BinOp: Expressions._binop,
    ast.UnaryOp: Expressions._unaryop,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._boolop,
    ast.IfExp: Expressions._ifexp,
    ast.Tuple: Expressions._tuple,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Call: Expressions._call,
}


_FLOAT = np.dtype(float)


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _local(frame: Frame, name: str):
    try:
        return frame.values[name]
    except KeyError:
        raise CompileError(f"{name} is used before it has a value") from None


def operations_in(node: ast.AST | None) -> int:
    """Operations that a warp issues for an expression: arithmetic, comparisons, loads, calls.

    Parts of an index and of a slice count like any other; attributes and names cost nothing.
    """
    if node is None:
        return 0
    counted = (ast.BinOp, ast.Compare, ast.Call, ast.Subscript, ast.IfExp)
    total = sum(isinstance(sub, counted) for sub in ast.walk(node))
    total += sum(len(sub.values) - 1 for sub in ast.walk(node) if isinstance(sub, ast.BoolOp))
    return total + sum(isinstance(sub, ast.UnaryOp) and isinstance(sub.op, ast.Not) for sub in ast.walk(node))
