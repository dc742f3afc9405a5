"""What a kernel may call: CUDA's own functions, ``math``, and a few of Python's builtins."""

import ast
import builtins
import types
from collections.abc import Callable

import numpy as np
import torch

from gpulab.kernels.simt.lanes import as_bool
from gpulab.kernels.simt.mathematics import fraction_and_exponent, gamma, remainder, rounded
from gpulab.kernels.simt.values import BINARY, as_dtype, power, select


class Intrinsic:
    """A function that exists inside a kernel."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"{self.name} is for use inside a kernel: a function under @cuda.jit that is launched")

    def compile(self, expressions, node: ast.Call):
        """The closure for a call of it. Raises CompileError."""
        raise NotImplementedError


class Reading(Intrinsic):
    """A value that the hardware gives each thread: ``threadIdx.x``, ``laneid``."""

    def __init__(self, name: str, read: Callable) -> None:
        super().__init__(name)
        self.read = read

    def compile(self, expressions, node):
        expressions.fail(node, f"{self.name} is a number, not a function")


class Iteration(Intrinsic):
    """``range``, ``enumerate`` and ``zip``: known to ``for`` alone."""

    def compile(self, expressions, node):
        expressions.fail(node, f"{self.name} stands in a for loop")


class Operation(Intrinsic):
    """``implement(group, mask, place, *values)``. ``counts``: how many arguments it may take.

    ``flops``: floating-point operations of a lane when the result is a float. ``touches``: what it
    does to an array that is its first argument: ``read``, ``write``, ``atomic``.
    """

    def __init__(
        self, name: str, implement: Callable, counts: tuple[int, ...], flops: int = 0, keywords=(), touches=()
    ) -> None:
        super().__init__(name)
        self.implement, self.counts, self.flops, self.keywords = implement, counts, flops, keywords
        self.touches = touches

    def compile(self, expressions, node: ast.Call):
        arguments = [expressions.compile(argument) for argument in self._in_order(expressions, node)]
        if len(arguments) not in self.counts:
            wanted = " or ".join(map(str, self.counts))
            expressions.fail(node, f"{self.name} takes {wanted} arguments and gets {len(arguments)}")
        place, implement, flops = expressions.place(node), self.implement, self.flops

        def run(frame, mask):
            group = frame.group
            out = implement(group, mask, place, *[argument(frame, mask) for argument in arguments])
            if flops and group.launch.trace is not None and out.dtype.kind == "f":
                group.launch.trace.at(place).flops += flops * mask.active
            return out

        return run

    def _in_order(self, expressions, node: ast.Call) -> list:
        found = list(node.args)
        for keyword in node.keywords:
            if keyword.arg not in self.keywords[len(found) :]:
                expressions.fail(node, f"{self.name} does not know the argument {keyword.arg}")
            found.append(keyword.value)
        return found


class Grid(Intrinsic):
    """``grid(n)`` and ``gridsize(n)``: a number, or a tuple of two or three."""

    def __init__(self, name: str, read: Callable) -> None:
        super().__init__(name)
        self.read = read

    def compile(self, expressions, node: ast.Call):
        count = expressions.static(node.args[0], f"the argument of cuda.{self.name}") if len(node.args) == 1 else 0
        if count not in (1, 2, 3):
            expressions.fail(node, f"cuda.{self.name} takes 1, 2 or 3")
        read = self.read
        if count == 1:
            return lambda frame, mask: read(frame.group, 0)
        return lambda frame, mask: tuple(read(frame.group, axis) for axis in range(count))


class Allocation(Intrinsic):
    """``shared.array`` and ``local.array``: shape and dtype are known at compile time."""

    def __init__(self, name: str, make: Callable) -> None:
        super().__init__(name)
        self.make = make

    def compile(self, expressions, node: ast.Call):
        arguments = dict(zip(("shape", "dtype"), node.args))
        arguments.update((keyword.arg, keyword.value) for keyword in node.keywords)
        if set(arguments) - {"alignment"} != {"shape", "dtype"}:
            expressions.fail(node, f"cuda.{self.name} takes shape and dtype")
        shape = self._shape(expressions, arguments["shape"])
        dtype = as_dtype(expressions.static(arguments["dtype"], "the dtype"))
        if dtype is None or dtype.kind not in "biufc":
            expressions.fail(node, f"cuda.{self.name} needs a dtype such as float32")
        name, key, make = self._variable(expressions, node), (id(expressions), node.lineno, node.col_offset), self.make
        return lambda frame, mask: make(frame.group, name, key, shape, dtype)

    def _shape(self, expressions, node) -> tuple[int, ...]:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        found = [self._extent(expressions, part) for part in parts]
        shape = found[0] if len(found) == 1 and isinstance(found[0], tuple) else tuple(found)
        if not all(isinstance(n, (int, np.integer)) and n >= 0 for n in shape):
            expressions.fail(node, f"the shape {shape} must be whole numbers")
        return tuple(int(n) for n in shape)

    def _extent(self, expressions, node):
        node = self._given_once(expressions, node)
        leaves = {type(sub) for sub in ast.walk(node) if isinstance(sub, (ast.Name, ast.Attribute, ast.Constant))}
        if isinstance(node, (ast.Name, ast.Attribute)) or leaves == {ast.Constant}:
            return expressions.static(node, "the shape")
        text = ast.unparse(node)
        expressions.fail(
            node,
            f"{text} is no constant to Numba: give it a name outside the kernel (PADDED = {text}) and use that",
        )

    def _given_once(self, expressions, node):
        """What a local name stands for that is assigned once: Numba sees through it."""
        if isinstance(node, ast.Name) and node.id in expressions.locals:
            stores = [n for n in ast.walk(expressions.source.tree) if isinstance(n, ast.Assign) and _gives(n, node.id)]
            if len(stores) == 1 and node.id not in expressions.source.arguments:
                return stores[0].value
        return node

    def _variable(self, expressions, node: ast.Call) -> str:
        for statement in ast.walk(expressions.source.tree):
            if isinstance(statement, ast.Assign) and statement.value is node:
                return ast.unparse(statement.targets[0])
        return self.name


def _gives(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


class DeviceFunction:
    """What ``@cuda.jit(device=True)`` makes: callable inside a kernel."""

    compile: Callable
    """Makes a body; entered by :mod:`gpulab.kernels.simt.statements`, which is above this module."""

    def __init__(self, function, signatures: tuple = (), as_given=None) -> None:
        self.function, self.signatures, self.signature_as_given = function, signatures, as_given
        self.name = self.__name__ = function.__name__
        self._bodies: dict = {}

    def compiled(self) -> "DeviceFunction":
        """Compile it, as Numba does when it has a signature. Raises CompileError."""
        from gpulab.kernels.simt.source import Places

        self.body(Places())
        return self

    def body(self, places):
        """The compiled function, its lines numbered by ``places``."""
        from gpulab.kernels.simt.signatures import check_signatures
        from gpulab.kernels.simt.source import Source

        if places not in self._bodies:
            self._bodies[places] = None
            source = Source(self.function)
            check_signatures(self.signatures, source.arguments, self.name, device=True)
            self._bodies[places] = self.compile(source, places, device=True)
        if self._bodies[places] is None:
            from gpulab.kernels.errors import CompileError

            raise CompileError(f"{self.name} calls itself: write the recursion as a loop")
        return self._bodies[places]

    def call(self, body, group, mask, arguments: list):
        """Run ``body`` with these values, which a signature casts, and its result too."""
        if not self.signatures:
            return body.call(group, mask, arguments)
        signature = self.signatures[0]
        pairs = zip(signature.arguments, arguments)
        cast = [typed.number(v) if typed.ndim == 0 and hasattr(v, "astype") else v for typed, v in pairs]
        found = body.call(group, mask, cast)
        return found if signature.result is None or not hasattr(found, "astype") else signature.result.number(found)

    def __call__(self, *args):
        raise RuntimeError(f"{self.name} is a device function: a kernel calls it, the host does not")


# ---- math and builtins


def _floating(value):
    return value if value.dtype.kind in "fc" else value.astype(np.float64)


def _alike(a, b):
    a, b = _floating(a), _floating(b)
    return a, b


def _unary(function: Callable) -> Callable:
    return lambda group, mask, place, a: function(_floating(a))


def _binary(function: Callable) -> Callable:
    return lambda group, mask, place, a, b: function(*_alike(a, b))


def _whole(function: Callable) -> Callable:
    return lambda group, mask, place, a: function(a).astype(np.int64) if a.dtype.kind == "f" else a


def _with_torch(function: Callable) -> Callable:
    def compute(a):
        found = function(torch.from_numpy(np.atleast_1d(a))).numpy()
        return found if np.ndim(a) else found[0]

    return compute


MATH_FUNCTIONS = {
    "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "fabs": np.abs, "erf": _with_torch(torch.erf),
    "erfc": _with_torch(torch.erfc), "lgamma": _with_torch(torch.lgamma), "radians": np.radians,
    "degrees": np.degrees, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "exp2": np.exp2,
    "gamma": gamma,
}  # fmt: skip
_PAIR_FUNCTIONS = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "pow": np.power,
    "remainder": remainder,
    "nextafter": np.nextafter,
}
_NUMPY_FUNCTIONS = {
    "sqrt": "sqrt", "exp": "exp", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite",
}  # fmt: skip


def _extreme(name: str, better: Callable) -> Operation:
    def implement(group, mask, place, *found):
        best = found[0]
        for other in found[1:]:
            best = select(better(other, best), other, best)
        return best

    return Operation(name, implement, tuple(range(2, 9)), flops=1)


def _int(group, mask, place, a):
    return a if a.dtype.kind in "iu" else a.astype(np.int64)


def _float(group, mask, place, a):
    return _floating(a)


def _round(group, mask, place, a, digits=None):
    if digits is None:
        return np.rint(_floating(a)).astype(np.int64)
    return rounded(_floating(a), digits)


def _divmod(group, mask, place, a, b):
    return BINARY[ast.FloorDiv](a, b), BINARY[ast.Mod](a, b)


def _frexp(group, mask, place, a):
    return fraction_and_exponent(_floating(a))


def _ldexp(group, mask, place, a, exponent):
    if exponent.dtype.kind not in "biu":
        raise TypeError("math.ldexp takes a whole number as its exponent")
    return np.ldexp(_floating(a), np.clip(exponent, -(2**30), 2**30).astype(np.int32))


def _modf(group, mask, place, a):
    return tuple(np.modf(_floating(a)))


def _len(group, mask, place, a):
    return np.int64(len(a)) if isinstance(a, tuple) else a.shape[0]


def _pow(group, mask, place, a, b):
    return power(a, b)


def _print(group, mask, place, *found):
    parts = [part if isinstance(part, tuple) else (part,) for part in found]
    for lane in mask.positions():
        print(*[value if np.ndim(value) == 0 else value[lane] for part in parts for value in part])


class Print(Operation):
    """``print``: a line for each active lane, in order. Text must be a constant."""

    def compile(self, expressions, node):
        parts = []
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                parts.append(lambda frame, mask, text=argument.value: text)
            else:
                parts.append(expressions.compile(argument))

        def run(frame, mask):
            _print(frame.group, mask, 0, *[part(frame, mask) for part in parts])

        return run


_BUILTINS = {
    builtins.min: _extreme("min", np.less),
    builtins.max: _extreme("max", np.greater),
    builtins.abs: Operation("abs", lambda group, mask, place, a: np.abs(a), (1,), flops=1),
    builtins.int: Operation("int", _int, (1,)),
    builtins.float: Operation("float", _float, (1,)),
    builtins.bool: Operation("bool", lambda group, mask, place, a: as_bool(a), (1,)),
    builtins.round: Operation("round", _round, (1, 2)),
    builtins.divmod: Operation("divmod", _divmod, (2,)),
    builtins.len: Operation("len", _len, (1,)),
    builtins.pow: Operation("pow", _pow, (2,), flops=1),
    builtins.range: Iteration("range"),
    builtins.enumerate: Iteration("enumerate"),
    builtins.zip: Iteration("zip"),
    builtins.print: Print("print", _print, ()),
}
_MATH = {
    **{name: Operation(f"math.{name}", _unary(function), (1,), flops=1) for name, function in MATH_FUNCTIONS.items()},
    **{name: Operation(f"math.{name}", _binary(function), (2,), flops=1) for name, function in _PAIR_FUNCTIONS.items()},
    "frexp": Operation("math.frexp", _frexp, (1,)),
    "ldexp": Operation("math.ldexp", _ldexp, (2,), flops=1),
    "modf": Operation("math.modf", _modf, (1,)),
    "floor": Operation("math.floor", _whole(np.floor), (1,)),
    "ceil": Operation("math.ceil", _whole(np.ceil), (1,)),
    "trunc": Operation("math.trunc", _whole(np.trunc), (1,)),
}


OURS: dict[str, types.ModuleType] = {}
"""Our modules in the place of Numba's, by what follows ``numba.cuda``: they are above this one and enter themselves."""


def _our_module(name: str) -> types.ModuleType | None:
    """Ours for one of Numba's modules."""
    inner = name.removeprefix("numba_cuda.").removeprefix("numba.cuda")
    if not name.startswith(("numba.cuda", "numba_cuda.numba.cuda")) or inner not in ("", ".random", ".libdevice"):
        return None
    return OURS[inner]


def meaning_of(thing):
    """What a global stands for inside a kernel: Numba's and Python's own names become ours."""
    if isinstance(thing, types.ModuleType):
        return _our_module(thing.__name__) or thing
    named = getattr(thing, "__name__", "")
    ours = _our_module(getattr(thing, "__module__", None) or "") if callable(thing) else None
    if ours is not None and named in vars(ours):
        return vars(ours)[named]
    if isinstance(thing, np.ufunc) and thing.__name__ in _NUMPY_FUNCTIONS:
        return _MATH[_NUMPY_FUNCTIONS[thing.__name__]]
    if isinstance(thing, types.BuiltinFunctionType) and thing.__module__ == "math":
        return _MATH.get(thing.__name__, thing)
    if isinstance(thing, (type, types.BuiltinFunctionType)) and thing in _BUILTINS:
        return _BUILTINS[thing]
    return thing


def full(value, group) -> np.ndarray:
    """``value`` as a vector over all lanes."""
    return np.broadcast_to(value, (group.size,)) if np.ndim(value) == 0 else value
