"""E18.1 cached_attention: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem
from exercises.inference.cached_attention.expected import Call, Play
from gpulab import Observation

_TOLERANCE = {torch.float64: 1e-10, torch.float32: 3e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Of the largest number that is due. Half precision rounds scores, probabilities and sums."""
_SCALARS = 8192
"""Bytes: a few numbers, each of which takes 512 of the allocator's."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield from _prompts(sampler)
    yield from _tokens(sampler)
    yield from _chunks(sampler)
    yield from _several(sampler)
    yield from _large(sampler)
    yield from _held(sampler)
    yield from _refused(sampler)


def _prompts(sampler: Sampler) -> Iterator[Case]:
    """One call, of one token to as many as there is room for; every grouping, dtype and layout, both devices."""
    heads = sampler.shuffled((4, 4), (4, 2), (6, 3), (4, 1), (1, 1), (6, 2))
    dtypes = sampler.shuffled(*_TOLERANCE, torch.float32, torch.float64)
    forms = [
        (1, 3, "plain"),
        (2, 1, "stepped"),
        (9, 1, "stepped"),
        (17, 2, "transposed"),
        (sampler.integer(3, 8), 3, "transposed"),
    ]
    forms = sampler.shuffled(*forms, (sampler.integer(10, 16), 2, "plain"))
    for number, ((new, batch, layout), dtype, form) in enumerate(zip(forms, dtypes, heads, strict=True)):
        layer, device, room = (
            _layer(sampler, *form, dtype=dtype),
            "cpu" if number % 3 else "cuda",
            sampler.choice((0, 5)),
        )
        yield _case(("prompt",), sampler, layer, [new], device=device, batch=batch, room=room, layout=layout)


def _tokens(sampler: Sampler) -> Iterator[Case]:
    """A prompt, or none, then single tokens until there is no room, or a little before."""
    dtypes, firsts = sampler.shuffled(*_TOLERANCE), sampler.shuffled(1, 2, 7, sampler.integer(3, 12))
    layouts, batches = sampler.shuffled("plain", "stepped", "transposed", "plain"), sampler.shuffled(1, 2, 3, 2)
    heads, rooms = sampler.shuffled((4, 2), (6, 3), (6, 2), (4, 1)), sampler.shuffled(0, 3, 0, 1)
    for number, (dtype, first, layout, batch, form, room) in enumerate(
        zip(dtypes, firsts, layouts, batches, heads, rooms)
    ):
        layer, calls = _layer(sampler, *form, dtype=dtype), [first] + [1] * sampler.integer(3, 6)
        yield _case(("tokens",), sampler, layer, calls, device=_device(number), room=room, layout=layout, batch=batch)


def _chunks(sampler: Sampler) -> Iterator[Case]:
    """Chunks larger and smaller than what came before them, after prompts, tokens and each other."""
    dtypes = sampler.shuffled(torch.float64, torch.float32, torch.float32)
    orders = sampler.shuffled([3, 5, 2, 1, 4], [1, 8, 8, 2], [sampler.integer(5, 9), 2, 1, 1, sampler.integer(2, 6), 3])
    heads, batches = sampler.shuffled((4, 2), (6, 2), (6, 3)), sampler.shuffled(1, 2, 3)
    for number, (dtype, calls, form, batch) in enumerate(zip(dtypes, orders, heads, batches)):
        layer, layout = _layer(sampler, *form, dtype=dtype), sampler.choice(("plain", "transposed"))
        yield _case(("chunks",), sampler, layer, calls, device=_device(number), batch=batch, layout=layout)


def _several(sampler: Sampler) -> Iterator[Case]:
    """Three objects, two of them of one layer, alike or not, by turns; resets before any call, amid calls and twice."""
    for device, second in zip(sampler.shuffled("cpu", "cuda"), ((0, 2, 9), (0, sampler.choice((1, 3)), 7))):
        layers = [
            _layer(sampler, *heads, dtype=sampler.choice((torch.float32, torch.float64)))
            for heads in sampler.shuffled((4, 2), (6, 3))
        ]
        plans = [(0, 2, 9), second, (1, 2, 8)]
        actions = [_make(of, *plan) for of, plan in enumerate(plans)] + [_do("reset", sampler.integer(0, 2))]
        for of, new, layout in sampler.shuffled((0, 1, "transposed"), (1, 4, "stepped"), (2, 3, "plain")):
            actions.append(_call(sampler, layers, plans, of, new, layout=layout))
        actions += [_call(sampler, layers, plans, of, 1) for of in sampler.shuffled(0, 1, 2, 0, 1, 2)]
        again = sampler.integer(0, 2)
        actions += [
            _do("reset", again),
            _do("reset", again),
            *(_call(sampler, layers, plans, again, new) for new in (5, 1)),
        ]
        actions += [_call(sampler, layers, plans, of, 1) for of in range(3) if of != again]
        yield _whole_case(("objects",), device, layers, actions, keep=True)


def _large(sampler: Sampler) -> Iterator[Case]:
    """One call is watched, with many tokens before it and room for many more: a single token, or a chunk.

    In the last two most of the bytes are weights that many sequences share, and keys that all query heads do.
    """
    for heads, dtype in sampler.shuffled(((4, 2), torch.float32), ((2, 1), torch.bfloat16), ((4, 1), torch.float32)):
        layer = _layer(sampler, *heads, head_dim=64, width=96, dtype=dtype)
        yield _case(
            ("flops", "traffic"),
            sampler,
            layer,
            [sampler.integer(340, 380), 1],
            room=sampler.integer(700, 900),
            watch=2,
            batch=2,
        )
    layer = _layer(sampler, 4, 2, head_dim=64, width=128)
    calls = [sampler.integer(36, 44), 16]
    yield _case(("chunks", "flops", "traffic"), sampler, layer, calls, room=sampler.integer(300, 400), watch=2, batch=2)
    layer = _layer(sampler, 4, 2, head_dim=64, width=192)
    yield _case(("flops", "traffic"), sampler, layer, [sampler.integer(12, 20), 1], watch=2, batch=6)
    layer = _layer(sampler, 4, 1, head_dim=64, width=64)
    yield _case(
        ("chunks", "traffic"), sampler, layer, [sampler.integer(290, 320), sampler.integer(3, 4)], watch=2, batch=2
    )


def _held(sampler: Sampler) -> Iterator[Case]:
    """What stays on the card between calls, with a layer that is frozen and with one that trains."""
    for dtype in sampler.shuffled(torch.float32, torch.bfloat16):
        layer = _layer(sampler, *sampler.choice(((4, 2), (2, 1))), head_dim=64, width=96, dtype=dtype, trains=False)
        yield _case(
            ("buffers",), sampler, layer, [200, 1, 1, "reset", 12, 1], room=sampler.integer(250, 350), batch=2, watch=4
        )
    for trains, grad in sampler.shuffled((True, False), (False, True)):
        layer = _layer(sampler, 4, 2, head_dim=64, width=96, trains=trains)
        yield _case(("graph",), sampler, layer, [60, 1, 1, "reset", 9, 1], room=40, batch=2, grad=grad, layout="fresh")


def _refused(sampler: Sampler) -> Iterator[Case]:
    """One thing wrong at a time, before, between and after calls that are right."""
    for device in sampler.shuffled("cpu", "cuda"):
        layer, batch, first = _layer(sampler, 4, 2), sampler.integer(2, 3), sampler.integer(3, 6)
        capacity, plans = first + 2, [(0, batch, first + 2)]
        width = layer["weights"]["k_proj"].shape[1]
        shapes = [(1, 2, width), (batch + 1, 1, width), (batch - 1, 1, width), (0, 1, width), (batch, 0, width)]
        shapes += [(batch, 1, width + 1), (batch, 2, width - 1), (batch, 1, 1)]
        shapes += [(batch, width), (width,), (1, batch, 1, width), (batch, 1, 1, width)]
        wrong = [_wrong(sampler, *shape) for shape in sampler.permutation(shapes)]
        prompt, second, last = (_call(sampler, [layer], plans, 0, new) for new in (first, 1, 1))
        most, more, two, one = (_wrong(sampler, batch, new, width) for new in (capacity + 1, 3, 2, 1))
        actions = [
            _make(0, *plans[0]),
            *wrong[:4],
            most,
            prompt,
            *wrong[4:8],
            more,
            second,
            *wrong[8:],
            two,
            last,
            one,
            two,
        ]
        actions += [_do("reset", 0), most, _call(sampler, [layer], plans, 0, capacity), one]
        roomy = (0, batch, width + 3)  # for a row to be taken for so many tokens
        actions += [
            _make(1, *roomy),
            _wrong(sampler, batch, width) | {"of": 1},
            _call(sampler, [layer], [*plans, roomy], 1, 2),
        ]
        yield _whole_case(("errors",), device, [layer], actions)
    plans = [(0, 0, 8), (0, -1, 8), (0, 2, 0), (0, 2, -sampler.integer(1, 9)), (0, 0, 0)]
    actions = [_make(of, *plan) for of, plan in enumerate(sampler.permutation(plans))]
    yield _whole_case(("errors",), "cpu", [_layer(sampler, 4, 2)], actions)


def _device(number: int) -> str:
    return ("cuda", "cpu")[number % 2]


def _layer(
    sampler: Sampler,
    heads: int,
    kv_heads: int,
    head_dim: int = 0,
    width: int = 0,
    dtype=torch.float32,
    trains: bool = True,
) -> dict:
    """No two of its sizes are alike. Its scores spread, so that it matters where a query looks, and its angles bend, so
    that it matters where a sequence begins."""
    head_dim = head_dim or sampler.choice((6, 8, 10))
    width = width or sampler.choice((20, 22, 28, 44))
    rows = {"q_proj": heads * head_dim, "k_proj": kv_heads * head_dim, "v_proj": kv_heads * head_dim}
    weights = {
        name: _spread(sampler, count, width) * (1.5 if name in ("q_proj", "k_proj") else 1)
        for name, count in rows.items()
    }
    weights["o_proj"] = _spread(sampler, width, heads * head_dim)
    angles = {"base": sampler.choice((100.0, 1000.0, 10_000.0)), "bend": sampler.choice((1.125, 1.25, 1.375))}
    sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    return {
        **sizes,
        **angles,
        "trains": trains,
        "weights": {name: weight.to(dtype) for name, weight in weights.items()},
    }


def _spread(sampler: Sampler, rows: int, columns: int) -> torch.Tensor:
    """Distinct weights whose products with numbers of size 1 have a size of about 1."""
    values = sampler.tensor(rows, columns, dtype=torch.float64)
    return values / values.abs().max() * (3 / columns) ** 0.5


def _case(
    criteria,
    sampler: Sampler,
    layer: dict,
    calls: list,
    device="cuda",
    batch=0,
    room=2,
    watch=-1,
    grad=False,
    layout="plain",
) -> Case:
    """One object that is called so. ``room``: for so many tokens more than come. ``watch``: which action, 0 to make it."""
    batch = batch or sampler.integer(1, 3)
    lengths = [0]
    for call in calls:
        lengths.append(0 if call == "reset" else lengths[-1] + call)
    plans = [(0, batch, max(lengths) + room)]
    actions = [_make(0, *plans[0])]
    for call in calls:
        actions.append(_do("reset", 0) if call == "reset" else _call(sampler, [layer], plans, 0, call, grad, layout))
    if watch >= 0:
        actions[watch]["watch"] = True
    return _whole_case(criteria, device, [layer], actions)


def _whole_case(criteria, device: str, layers: list, actions: list, keep: bool = False) -> Case:
    return Case(criteria, {"device": device, "layers": layers, "actions": actions, "keep": keep})


def _make(of: int, layer: int, batch: int, capacity: int) -> dict:
    return {"do": "make", "of": of, "watch": False, "layer": layer, "batch": batch, "capacity": capacity}


def _do(what: str, of: int) -> dict:
    return {"do": what, "of": of, "watch": False}


def _call(
    sampler: Sampler,
    layers: list[dict],
    plans: list[tuple],
    of: int,
    new: int,
    grad: bool = False,
    layout: str = "plain",
) -> dict:
    number, batch, _ = plans[of]
    weight = layers[number]["weights"]["k_proj"]
    x = sampler.tensor(batch, new, weight.shape[1], dtype=torch.float64)
    x = (2 * x / x.abs().max()).to(weight.dtype)
    return _do("call", of) | {"x": x, "layout": layout, "grad": grad}


def _wrong(sampler: Sampler, *shape: int) -> dict:
    x = sampler.tensor(*shape)
    return _do("call", 0) | {"x": x / 8, "layout": "plain", "grad": False}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    problem = count_problem(evidence.get("steps"), len(case.inputs["actions"])) or _values_problem(case, evidence)
    if problem:
        values = [criterion for criterion in case.criteria if criterion not in _PROBLEMS]
        yield from (Failure(criterion, problem) for criterion in values or case.criteria)
        return
    for criterion in case.criteria:
        if criterion in _PROBLEMS and (problem := _PROBLEMS[criterion](case, evidence)):
            yield Failure(criterion, problem)


def _values_problem(case: Case, evidence: dict) -> str | None:
    """What each action gave, raised and left; the messages name the kind of call and never its sizes."""
    play = Play(case.inputs)
    for action, step in zip(case.inputs["actions"], evidence["steps"], strict=True):
        call = play.next(action)
        if problem := _error_problem(action, step) if call is None else _step_problem(case, call, step):
            return problem
        if (call is not None or action["do"] == "call") and (problem := _length_problem(step, play.length(action))):
            return problem
    if evidence["kept"] is not True:
        return "The layer was changed: others use it too."
    return None


def _error_problem(action: dict, step: dict) -> str | None:
    if problem := error_problem(step, "ValueError"):
        made = "There is room asked for no sequences or no tokens."
        return f"{problem} {made if action['do'] == 'make' else 'x has a wrong shape, or more tokens than there is room for.'}"
    return None


def _length_problem(step: dict, expected: int) -> str | None:
    if type(step["length"]) is not int:
        return f"`length` is of the type {str(step['length']):.40}; expected an int."
    if step["length"] != expected:
        return (
            "`length` is not the number of tokens that each sequence has: a call adds its new ones, a refused call none, and a "
            "reset leaves none."
        )
    return None


def _step_problem(case: Case, call: Call, step: dict) -> str | None:
    if "error" in step:
        return raised_problem(step["error"])
    if call.new == 0:  # made, or reset
        return None
    expected = call.expected()
    if problem := tensor_problem(step["returned"], expected.to(call.dtype)):
        return problem
    if step["device"] != case.inputs["device"]:
        return "The result is not on the layer's device."
    if step["same"] is not True:
        return "`x` was changed: it is the caller's."
    if _near(step["returned"], expected):
        return None
    return next((sentence for wrong, sentence in call.misread() if _near(step["returned"], wrong)), _unlike(call))


def _near(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((found.double() - expected).abs().max() <= _TOLERANCE[found.dtype] * expected.abs().max())


def _unlike(call: Call) -> str:
    what = (
        "a first call"
        if call.start == 0
        else "a single token after others"
        if call.new == 1
        else "a chunk after others"
    )
    return f"The outputs of {what} are not those that the layer gives for the same tokens at the end of the whole sequence."


class _Sizes:
    """Bytes and products of the call that was watched, the last."""

    def __init__(self, case: Case) -> None:
        layer, action = case.inputs["layers"][0], next(action for action in case.inputs["actions"] if action["watch"])
        play = Play(case.inputs)
        for earlier in case.inputs["actions"]:
            call = play.next(earlier)
            if earlier is action:
                break
        batch, width, item = action["x"].shape[0], action["x"].shape[2], action["x"].itemsize
        heads, kv_heads, head_dim = layer["heads"], layer["kv_heads"], layer["head_dim"]
        columns, so_far = 2 * (heads + kv_heads) * head_dim, call.start + call.new
        self.call = call
        self.weights = width * columns * item
        self.keys = batch * kv_heads * so_far * head_dim * item
        self.scores = batch * heads * call.new * so_far
        self.tokens = batch * call.new * (2 * width + columns)
        self.products = 2 * batch * call.new * width * columns + 4 * self.scores * head_dim
        self.item = item


def _multiplies(kernel: str) -> bool:
    """Whether a kernel is a product of matrices, or nobody's but the learner's."""
    return not kernel.startswith("aten.") or any(
        part in kernel for part in ("mm", "mv", "dot", "attention", "matmul", "linear")
    )


def _flops_problem(case: Case, evidence: dict) -> str | None:
    """Products to within a twentieth; other kernels can multiply, too, and may have half as many FLOPs beside them."""
    seen, sizes = Observation.from_dict(evidence["seen"]), _Sizes(case)
    if sum(kernel.flops or 0 for kernel in seen.kernels) < 0.9 * 2 * sizes.tokens:
        return "The card did not do the work of this call."
    if any(op.device == "cpu" and _multiplies(op.op) for op in seen.ops):
        return "The host multiplies in a call: the work is the card's."
    products = sum(kernel.flops or 0 for kernel in seen.kernels if _multiplies(kernel.name))
    if products > 1.05 * sizes.products or sum(kernel.flops or 0 for kernel in seen.kernels) > 1.5 * sizes.products:
        return (
            "A call has more FLOPs than its new tokens need: each is projected once, when it comes, and attends to the tokens so "
            "far, not to all that there is room for."
        )
    return None


def _traffic_problem(case: Case, evidence: dict) -> str | None:
    seen, sizes = Observation.from_dict(evidence["seen"]), _Sizes(case)
    if any(copy.kind in ("HtoD", "DtoH") for copy in seen.copies):
        return "Data moves between host and card in a call: masks and lengths can be made where they are used."
    if seen.waits:
        return "The host waits for the card in a call: a length that lives on the card has to be asked for."
    scores, tokens = 4 * sizes.scores, sizes.tokens * max(sizes.item, 4)
    most = 6 * scores + 6 * tokens + _SCALARS
    if max(seen.new_bytes, seen.copied_bytes, sum(kernel.bytes_written or 0 for kernel in seen.kernels)) > most:
        return (
            "With few new tokens something as large as the cache is made, written or copied: torch.cat, keys turned or "
            "repeated for the query heads, or a mask for every pair of tokens."
        )
    read = sum(kernel.bytes_read or 0 for kernel in seen.kernels)
    if read > 1.4 * (sizes.weights + 2 * sizes.keys) + 8 * scores + 10 * tokens + _SCALARS:
        return (
            "A call reads weights, keys or values several times: once is enough for all new tokens, and for all query heads of a "
            "group."
        )
    return None


def _cache_bytes(case: Case) -> int:
    """Of keys and values of the first object."""
    number, batch, capacity = Play(case.inputs).plan()
    layer = case.inputs["layers"][number]
    return 2 * batch * layer["kv_heads"] * capacity * layer["head_dim"] * layer["weights"]["k_proj"].itemsize


def _buffers_problem(case: Case, evidence: dict) -> str | None:
    capacity, cache = Play(case.inputs).plan()[2], _cache_bytes(case)
    held = [step["held"] for step in evidence["steps"]]
    if min(held) < cache:
        return "Before the first call, or later, the card does not hold the buffers for all the tokens that there is to be room for."
    if max(held) > cache + 16 * capacity + _SCALARS:
        return "More is held between calls than keys and values in the layer's dtype, for the heads that have keys of their own."
    if "seen" in evidence and Observation.from_dict(evidence["seen"]).new_bytes > 16 * capacity + _SCALARS:
        return "Something as large as the buffers is allocated once more, after they were made."
    return None


def _graph_problem(case: Case, evidence: dict) -> str | None:
    if any(step.get("graph") for step in evidence["steps"]):
        return "What was returned requires a gradient: its graph holds tensors for a backward pass that never comes."
    held = [step["held"] for step in evidence["steps"]]
    if max(held) > max(held[0], _cache_bytes(case)) + 16 * Play(case.inputs).plan()[2] + _SCALARS:
        return "After calls whose results are gone more is held than before: for a backward pass?"
    return None


_PROBLEMS = {"flops": _flops_problem, "traffic": _traffic_problem, "buffers": _buffers_problem, "graph": _graph_problem}

exercise = Exercise(
    criteria=(
        Criterion(
            "prompt",
            1,
            "a first call gives what the layer gives, for every grouping of heads, dtype, layout and device",
        ),
        Criterion("tokens", 1, "single tokens after others see all of them, at their positions", ("prompt",)),
        Criterion("chunks", 1, "tokens of a chunk see all before them and none after", ("tokens",)),
        Criterion(
            "objects", 1, "several objects, reset or not, know nothing of each other, and results stay", ("tokens",)
        ),
        Criterion("flops", 1, "a call has the FLOPs of its new tokens", ("tokens",)),
        Criterion(
            "traffic", 1, "a single token copies nothing of the cache, and a call reads what it needs once", ("tokens",)
        ),
        Criterion("buffers", 1, "keys and values lie in buffers that are allocated once", ("tokens",)),
        Criterion("graph", 1, "nothing is kept for a backward pass", ("tokens",)),
        Criterion(
            "errors",
            1,
            "shapes and lengths that cannot be are refused with ValueError, and change nothing",
            ("prompt",),
        ),
    ),
    cases=_cases,
    judge=_judge,
)
