"""``@jit``, ``kernel[grid, block](...)``: from a Python function to a launch."""

import inspect
import warnings
from contextlib import contextmanager
from functools import update_wrapper

from gpulab.cards.multiprocessors import multiprocessor
from gpulab.kernels.errors import LaunchError, RaceWarning
from gpulab.kernels.simt import gpu, virtual
from gpulab.kernels.simt.arguments import read_argument
from gpulab.kernels.simt.batch import Shape
from gpulab.kernels.simt.host import stream_of, tensors_of
from gpulab.kernels.simt.intrinsics import DeviceFunction
from gpulab.kernels.simt.limits import check_launch, check_shared, three
from gpulab.kernels.simt.occupancy import best_block, occupancy
from gpulab.kernels.simt.run import Run
from gpulab.kernels.simt.signatures import Signature, check_signatures, chosen, read_signatures
from gpulab.kernels.simt.source import Places, Source
from gpulab.kernels.simt.statements import Body
from gpulab.kernels.simt.usage import usage
from gpulab.observe.device import observing, record_launch
from gpulab.observe.launches import Launch
from gpulab.observe.lines import learners_line

DEFAULT_CAPABILITY = (9, 0)
_IGNORED = {"fastmath", "debug", "opt", "lineinfo", "cache", "inline", "link", "launch_bounds", "max_registers"}


class Options:
    """How launches run from now on: see :func:`gpulab.kernels.warp_order` and ``trace``."""

    order: int | None = None
    steps = None


options = Options()


@contextmanager
def warp_order(seed: int | None):
    """Inside the block, warps run one at a time between barriers, in an order that ``seed`` gives.

    None: in lockstep, as always. Races are found in every order; a read of memory that nobody has
    written yet shows only in the orders in which it comes too early.
    """
    before, options.order = options.order, seed
    try:
        yield
    finally:
        options.order = before


def jit(function=None, device: bool = False, **keywords):
    """``numba.cuda.jit``: a kernel, or with ``device=True`` a function that kernels call.

    With a signature, such as ``"void(float32[:], int32)"``, numbers are cast to its types and the
    kernel is compiled here. Raises CompileError, without a signature at the first launch, and
    TypeError for an option that Numba has not or for what is no signature.
    """
    unknown = set(keywords) - _IGNORED
    if unknown:
        raise TypeError(f"cuda.jit has no option {sorted(unknown)[0]!r}")
    if inspect.isfunction(function):
        return DeviceFunction(function) if device else Kernel(function, keywords)
    if function is None:
        return lambda decorated: jit(decorated, device, **keywords)
    signatures = read_signatures(function)
    made = DeviceFunction if device else lambda decorated, *rest: Kernel(decorated, keywords, *rest)
    return lambda decorated: made(decorated, signatures, function).compiled()


class Kernel:
    """A kernel. ``kernel[grid, block](*arguments)`` launches it."""

    def __init__(self, function, keywords: dict, signatures: tuple[Signature, ...] = (), as_given=None) -> None:
        self.py_func, self.signatures, self.signature_as_given = function, signatures, as_given
        self.registers = int(keywords.get("max_registers") or 0)
        self.keywords = keywords
        self._body: Body | None = None
        update_wrapper(self, function)

    def compiled(self) -> "Kernel":
        """Compile it if it has not been. Raises CompileError."""
        if self._body is None:
            source, self.places = Source(self.py_func), Places()
            check_signatures(self.signatures, source.arguments, source.name, device=False)
            body = Body(source, self.places, device=False)
            self.usage, self._body = usage(source), body
        return self

    @property
    def body(self) -> Body:
        return self._body

    def __getitem__(self, configuration) -> "Configured":
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise LaunchError(f"{self.__name__}[grid, block]: a launch needs a grid and a block")
        grid, block, *rest = configuration
        return Configured(self, three(grid, "grid"), three(block, "block"), *rest)

    def forall(self, ntasks: int, tpb: int = 0, stream=None, sharedmem: int = 0):
        """A launch of at least ``ntasks`` threads, in blocks of ``tpb``.

        tpb 0: the largest block with which a multiprocessor holds the most warps, as CUDA's
        cudaOccupancyMaxPotentialBlockSize. Raises ValueError for a negative number of tasks.
        """
        if ntasks < 0:
            raise ValueError(f"forall({ntasks}): a number of tasks")
        if ntasks == 0:
            return lambda *arguments: None
        capability = virtual.capability() or DEFAULT_CAPABILITY
        tpb = tpb or best_block(self.registers, sharedmem, multiprocessor(capability))
        return self[-(-ntasks // tpb), tpb, stream, sharedmem]

    def __call__(self, *arguments):
        raise LaunchError(
            f"{self.__name__} is launched with a grid and a block: {self.__name__}[blocks, threads](...). "
            f"Without them Numba runs one thread"
        )


class Configured:
    """A kernel with its grid, its block, its stream and its dynamic shared memory in bytes."""

    def __init__(self, kernel: Kernel, grid, block, stream=None, shared_bytes: int = 0) -> None:
        self.kernel, self.grid, self.block = kernel, grid, block
        self.stream, self.shared_bytes = stream_of(stream), int(shared_bytes)

    def __call__(self, *arguments, **named) -> None:
        check_launch(self.grid, self.block)
        kernel = self.kernel.compiled()
        names = kernel.body.names
        if named:
            raise LaunchError(f"{kernel.__name__}: a launch takes positional arguments, and no {next(iter(named))}=")
        arguments = [tensors_of(value) for value in self._with_defaults(arguments)]
        if len(arguments) != len(names):
            raise LaunchError(f"{kernel.__name__}({', '.join(names)}) gets {len(arguments)} arguments")
        if gpu.runs_here(arguments):
            return gpu.launch(self, arguments, self._interpreted if observing() else None)
        virtual.check_sides(dict(zip(names, arguments)))
        run = self._interpreted([read_argument(*pair) for pair in zip(names, arguments)])
        virtual.launched(self, run, arguments)

    def _with_defaults(self, arguments: tuple) -> tuple:
        missing, defaults = self.kernel.body.names[len(arguments) :], self.kernel.body.defaults
        known = all(name in defaults for name in missing)
        return (*arguments, *(defaults[name] for name in missing)) if known else arguments

    def _interpreted(self, values: list) -> Run:
        """Run on the interpreter and hand the trace over. Returns the finished :class:`Run`."""
        if self.kernel.signatures:
            values = chosen(self.kernel.signatures, values, self.kernel.__name__)
        capability = virtual.capability() or DEFAULT_CAPABILITY
        check_shared(self.shared_bytes, capability)
        tracing = observing() or options.steps is not None or virtual.needs_counts()
        run = Run(
            self.kernel,
            Shape(self.grid, self.block),
            self.shared_bytes,
            capability,
            tracing,
            options.order,
            options.steps,
        )
        run.raises = not observing()
        run.go(values)
        if observing():
            written = [(a.argument.tensor, a.written_bytes()) for a in run.arrays if a.argument.tensor is not None]
            record_launch(self._launch(run), [(tensor, mask) for tensor, mask in written if mask.any()])
        else:
            _warn(run)
        return run

    def _launch(self, run: Run) -> Launch:
        shared = run.static_bytes + run.dynamic_bytes
        sm = multiprocessor(run.capability)
        threads = run.shape.threads
        found = run.findings
        return Launch(
            self.kernel.__name__,
            "numba",
            self.grid,
            self.block,
            shared,
            learners_line(),
            run.trace.lines(),
            tuple(found.races.values()),
            tuple(found.faults.values()),
            occupancy(threads, self.kernel.registers, shared, sm),
            tuple(found.warnings),
            tuple(array.use() for array in run.arrays),
        )


def _warn(run: Run) -> None:
    for race in run.findings.races.values():
        warnings.warn(
            f"race in {race.space} memory, {race.kind}: {race.array}{list(race.index)} by thread "
            f"{race.first_thread[3:]} of block {race.first_thread[:3]} ({race.first_line}) and by thread "
            f"{race.second_thread[3:]} of block {race.second_thread[:3]} ({race.second_line})",
            RaceWarning,
            stacklevel=4,
        )
