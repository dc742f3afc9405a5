"""Every operation that PyTorch's own tests know, on the host and on the virtual card.

    python -m tests.cuda.opinfo [--write] [--jobs 2] [NAME ...]

PyTorch keeps a table of its operations (OpInfo's ``op_db``) with inputs for each of them. An
operation agrees when the card's results and gradients have the host's values, strides and dtypes
and lie on the card; it is refused when the card says why it has none. Each operation runs in a
process of its own, so that one that crashes or hangs is a row of the table too. ``--write`` keeps
the table in ``opinfo.json`` beside this file.
"""

import argparse
import contextlib
import copy
import functools
import json
import multiprocessing
import sys
import time
import unittest.mock
import warnings
from multiprocessing.connection import wait
from pathlib import Path

import torch
from torch.utils._pytree import tree_flatten, tree_map

import gpulab.cuda

RECORD = Path(__file__).with_name("opinfo.json")
DTYPES = (torch.float32, torch.complex64, torch.bfloat16, torch.int64, torch.bool)
SAMPLES = 12
SECONDS_AN_OPERATION = 240
AGREES, REFUSED, DIFFERS = "agrees", "refused", "differs"
_SEEDS = 256
# A unit in the last place, where a card sums in single precision what the host sums in bfloat16.
_TOLERANCES = {torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2}}
_NO_VALUES = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
# In half precision a card normalises, and keeps mean and rstd, in float32, the host in half: test_norms compares those.
_NORMALISATIONS = {
    "native_layer_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update",
    "nn.functional.batch_norm", "nn.functional.instance_norm",
}  # fmt: skip
_HALVES = (torch.bfloat16, torch.float16)


class Difference(Exception):
    """What the card does otherwise than the host."""


def operations() -> dict:
    """OpInfo's operations by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.formatted_name: op for op in op_db}


def _dtypes_of(op) -> set:
    return set(op.dtypes) - set(_HALVES) if op.name in _NORMALISATIONS else set(op.dtypes)


def compared(op, samples: int = SAMPLES, dtypes=DTYPES) -> dict:
    """The row of ``op``: its outcome, and the reason when it does not agree in everything."""
    reasons: dict[str, dict[str, None]] = {REFUSED: {}, DIFFERS: {}}
    tried = 0
    # What a card rounds to TF32 the host does not.
    no_tf32 = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
    with gpulab.cuda.use("virtual:H100", quiet=True), warnings.catch_warnings(), no_tf32:
        warnings.simplefilter("ignore")
        for dtype in [d for d in dtypes if d in _dtypes_of(op)] or sorted(op.dtypes, key=str)[:1]:
            for sample in _samples(op, dtype, samples):
                tried += 1
                for outcome, reason in _outcomes(op, dtype, sample):
                    reasons[outcome].setdefault(f"{str(dtype).removeprefix('torch.')}: {reason}")
    for outcome in (DIFFERS, REFUSED):
        if reasons[outcome]:
            return {"outcome": outcome, "reason": "; ".join(reasons[outcome])[:400]}
    return {"outcome": AGREES} if tried else {"outcome": REFUSED, "reason": "OpInfo has no input for a CPU"}


def _samples(op, dtype, count: int) -> list:
    """``count`` of OpInfo's inputs, spread over all of them; none where OpInfo itself fails."""
    torch.manual_seed(0)
    grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    try:
        found = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    except (RuntimeError, NotImplementedError, TypeError):
        return []
    step = max(1, len(found) // count)
    return found[::step]


def _outcomes(op, dtype, sample):
    """What of this sample does not agree: pairs of outcome and reason."""
    for name, variant in _variants(op, sample).items():
        try:
            host, error = _run(op, variant, sample, "cpu", name == "in place"), None
        except Exception as why:
            host, error = None, why
        try:
            card = _run(op, variant, sample, "cuda", name == "in place")
        except Exception as why:
            if error is None:
                yield _of_error(op, dtype, name, why)
            continue
        if error is not None:
            continue
        expected = "cuda" if _names_a_place(sample) else "cpu"
        reason = _difference(name, host, card, op.name not in _NO_VALUES, expected)
        if reason and _is_random(lambda: _run(op, variant, sample, "cpu", name == "in place")):
            reason = _difference(name, host, card, False, expected)
        if reason:
            yield DIFFERS, reason


def _names_a_place(sample) -> bool:
    """Whether a tensor or a device among the inputs says where the result belongs."""
    values = tree_flatten((sample.input, list(sample.args), dict(sample.kwargs)))[0]
    return any(isinstance(v, (torch.Tensor, torch.device)) or isinstance(v, str) and v == "cpu" for v in values)


def _difference(name: str, host, card, values: bool, device: str) -> str:
    try:
        for what, a, b in zip(("result", "gradient"), host, card):
            _check(f"{name}'s {what}", a, b, values, device)
    except Difference as why:
        return str(why)
    return ""


def _of_error(op, dtype, name: str, why: Exception) -> tuple[str, str]:
    first = next(iter(str(why).strip().splitlines()), type(why).__name__)[:160]
    if isinstance(why, gpulab.cuda.NotModelled):
        return REFUSED, first
    if isinstance(why, RuntimeError) and dtype not in op.dtypesIfCUDA:
        return REFUSED, first
    return DIFFERS, f"{name} raises {type(why).__name__}: {first}"


def _by_name(op):
    """The function as a program that runs now finds it: a module's attribute, where it is one."""
    with gpulab.cuda.use("off", quiet=True):
        path = op.name if _at(op.name) is op.op else None
    return _at(path) if path else op.op


def _at(path: str):
    return functools.reduce(lambda owner, name: getattr(owner, name, None), path.split("."), torch)


def _variants(op, sample) -> dict:
    found = {"function": _by_name(op)}
    for name, method in (("method", op.method_variant), ("in place", op.inplace_variant)):
        if method is not None and not (name == "in place" and sample.broadcasts_input):
            found[name] = getattr(torch.Tensor, getattr(method, "__name__", ""), method)
    if op.supports_out:
        found["out="] = _into(found["function"])
    return found


def _into(function):
    """``function`` with its own results' shapes handed to it as ``out``."""

    def call(*args, **kwargs):
        with torch.no_grad():
            out = function(*args, **kwargs)
            room = tree_flatten(out)[0]
            if not all(isinstance(tensor, torch.Tensor) for tensor in room):
                return out
            room = [torch.empty_like(tensor) for tensor in room]
            function(*args, **kwargs, out=room[0] if isinstance(out, torch.Tensor) else tuple(room))
        return room

    return call


def _run(op, variant, sample, device: str, in_place: bool) -> tuple[list, list]:
    """The results and the gradients of the inputs, in order."""
    torch.manual_seed(1)
    whole = (sample.input, list(sample.args), dict(sample.kwargs))
    first, args, kwargs = tree_map(lambda value: _placed(value, device), whole)
    leaves = [v for v in tree_flatten((first, args, kwargs))[0] if isinstance(v, torch.Tensor)]
    if in_place:
        first = tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) and v.requires_grad else v, first)
    out = variant(first, *args, **kwargs)
    shown = sample.output_process_fn_grad(out) if op.supports_autograd else out
    return tree_flatten(out)[0], _gradients(op, shown, leaves)


def _placed(value, device: str):
    if isinstance(value, torch.Tensor):
        return _copied(value, device)
    if isinstance(value, torch.device) or isinstance(value, str) and value == "cpu":
        return torch.device(device)
    return copy.copy(value)


def _gradients(op, out, leaves: list) -> list:
    out = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if not out or not leaves:
        return []
    return list(torch.autograd.grad(out, leaves, [torch.ones_like(t) for t in out], allow_unused=True))


def _copied(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """The same values with the same strides on ``device``; a leaf."""
    source = tensor.detach()
    if source.layout is not torch.strided or source.is_conj() or source.is_neg() or source.is_nested:
        twin = source.clone().to(device)
    else:
        span = 1 + sum((n - 1) * s for n, s in zip(source.shape, source.stride())) if source.numel() else 0
        flat = source.as_strided((span,), (1,))
        twin = flat.clone().to(device).as_strided(source.shape, source.stride())
    return twin.detach().requires_grad_(tensor.requires_grad)


def _is_random(run) -> bool:
    """Whether other seeds give other values: OpInfo seeds some operations itself."""
    first = _seeded(run, 0)
    try:
        for shift in range(1, _SEEDS):
            for a, b in zip(first, _seeded(run, shift)):
                _check("", a, b, True, device="cpu")
    except Difference:
        return True
    return False


def _seeded(run, shift: int):
    moved = lambda seed: torch.default_generator.manual_seed(seed + shift)
    with unittest.mock.patch.object(torch, "manual_seed", moved):
        return run()


def _check(what: str, host: list, card: list, values: bool, device: str) -> None:
    if len(host) != len(card):
        raise Difference(f"{what}: {len(card)} of {len(host)}")
    for a, b in zip(host, card):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor) or (a is None) != (b is None):
            raise Difference(f"{what} is {type(b).__name__}, not {type(a).__name__}")
        if isinstance(a, torch.Tensor):
            _check_tensor(what, a, b, values, device)
        elif values and not _equal(a, b):
            raise Difference(f"{what} is {b!r}, not {a!r}"[:120])


def _equal(a, b) -> bool:
    if isinstance(a, torch.device):
        return True
    with contextlib.suppress(AssertionError, ValueError, TypeError):
        torch.testing.assert_close(b, a, equal_nan=True)
        return True
    return a == b


def _check_tensor(what: str, a: torch.Tensor, b: torch.Tensor, values: bool, device: str) -> None:
    if b.device.type != device:
        raise Difference(f"{what} is on the {b.device.type}")
    for name in ("dtype", "shape", "layout", "requires_grad"):
        if getattr(a, name) != getattr(b, name):
            raise Difference(f"{what} has {name} {getattr(b, name)}, not {getattr(a, name)}")
    if a.layout is torch.strided and a.stride() != b.stride() and "gradient" not in what:
        raise Difference(f"{what} has strides {b.stride()}, not {a.stride()}")
    if values:
        try:
            torch.testing.assert_close(b.detach().cpu(), a.detach(), equal_nan=True, **_TOLERANCES.get(a.dtype, {}))
        except AssertionError as why:
            raise Difference(f"{what}: {str(why).splitlines()[0]}") from why


# ---- many operations, each in a process of its own


def table(ops: dict, jobs: int, **options) -> dict:
    """The rows of ``ops``. A process that dies or takes too long costs its own row alone."""
    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    waiting, running, rows = list(ops), {}, {}
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(theirs, ops[name], options))
            process.start()
            theirs.close()
            running[ours] = (name, process, time.monotonic() + SECONDS_AN_OPERATION)
        for ours in wait(list(running), timeout=1):
            name, process, _ = running.pop(ours)
            rows[name] = _received(ours)
            process.join()
        for ours, (name, process, until) in list(running.items()):
            if time.monotonic() > until:
                del running[ours]
                process.kill()
                process.join()
                rows[name] = {"outcome": DIFFERS, "reason": f"it took more than {SECONDS_AN_OPERATION} s"}
    return {name: rows[name] for name in sorted(rows)}


def _send(pipe, op, options) -> None:
    try:
        row = compared(op, **options)
    except Exception as why:
        row = {"outcome": DIFFERS, "reason": f"the comparison raises {type(why).__name__}: {why}"[:400]}
    pipe.send(row)


def _received(pipe) -> dict:
    try:
        return pipe.recv()
    except EOFError:
        return {"outcome": DIFFERS, "reason": "the process died"}


def counts(rows: dict) -> dict[str, int]:
    """How many operations have each outcome."""
    return {kind: sum(row["outcome"] == kind for row in rows.values()) for kind in (AGREES, REFUSED, DIFFERS)}


def written(rows: dict, samples: int) -> str:
    """The record's text: an operation a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
    head = f' "torch": {json.dumps(torch.__version__.partition("+")[0])},\n "counts": {json.dumps(counts(rows))},\n'
    head += f' "inputs of each operation and dtype": {samples},\n'
    return "{\n" + head + ' "operations": {\n' + ",\n".join(lines) + "\n }\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="operations; all of them when none is named")
    parser.add_argument("--write", action="store_true", help=f"write {RECORD.name}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="inputs of each operation and dtype")
    options = parser.parse_args()
    ops = operations()
    ops = {name: ops[name] for name in options.names or ops}
    rows = table(ops, options.jobs, samples=options.samples)
    for name, row in rows.items():
        if row["outcome"] != AGREES:
            print(f"{name}: {row['outcome']}: {row['reason']}")
    print(counts(rows))
    if options.write and not options.names:
        RECORD.write_text(written(rows, options.samples))
    return 1 if counts(rows)[DIFFERS] else 0


if __name__ == "__main__":
    sys.exit(main())
