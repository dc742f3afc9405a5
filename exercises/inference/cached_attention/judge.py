"""E18.1 cached_attention: cases and judge."""

from collections.abc import Iterable, Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem
from exercises.inference.cached_attention.expected import Call, Play
from gpulab import Observation
from gpulab.observe import Kernel

_TOLERANCE = {torch.float64: 1e-10, torch.float32: 3e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Of the largest number that is due. Half precision rounds scores, probabilities and sums."""
_FEW = 16
"""New tokens. Where more come, blocks of them may read keys and values again."""
_SCALARS = 8192
"""Bytes: a few numbers, each of which takes 512 of the allocator's."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    for draw in (_prompts, _tokens, _chunks, _several, _large, _held, _refused):
        yield from draw(sampler)


def _prompts(sampler: Sampler) -> Iterator[Case]:
    """One call, of one token to as many as there is room for; every grouping, dtype and layout, both devices."""
    heads = sampler.shuffled((4, 4), (4, 2), (6, 3), (4, 1), (1, 1), (6, 2))
    dtypes = sampler.shuffled(*_TOLERANCE, torch.float32, torch.float64)
    forms = [(1, 3, "plain"), (2, 1, "stepped"), (9, 1, "stepped"), (17, 2, "transposed")]
    forms += [(sampler.integer(3, 8), 3, "transposed"), (sampler.integer(10, 16), 2, "plain")]
    for number, ((new, batch, layout), dtype, form) in enumerate(zip(sampler.shuffled(*forms), dtypes, heads)):
        layer, device = _layer(sampler, *form, dtype=dtype), "cpu" if number % 3 else "cuda"
        room = sampler.choice((0, 5))
        yield _case(("prompt",), sampler, layer, [new], device=device, batch=batch, room=room, layout=layout)


def _tokens(sampler: Sampler) -> Iterator[Case]:
    """A prompt, or none, then single tokens until there is no room, or a little before."""
    dtypes, firsts = sampler.shuffled(*_TOLERANCE), sampler.shuffled(1, 2, 7, sampler.integer(3, 12))
    layouts, batches = sampler.shuffled("plain", "stepped", "transposed", "plain"), sampler.shuffled(1, 2, 3, 2)
    heads, rooms = sampler.shuffled((4, 2), (6, 3), (6, 2), (4, 1)), sampler.shuffled(0, 3, 0, 1)
    strata = zip(dtypes, firsts, layouts, batches, heads, rooms)
    for number, (dtype, first, layout, batch, form, room) in enumerate(strata):
        layer, calls = _layer(sampler, *form, dtype=dtype), [first] + [1] * sampler.integer(3, 6)
        yield _case(("tokens",), sampler, layer, calls, device=_device(number), room=room, layout=layout, batch=batch)


def _chunks(sampler: Sampler) -> Iterator[Case]:
    """Chunks larger and smaller than what came before them, after prompts, tokens and each other; in every dtype, past
    17 tokens, where PyTorch misreads a mask of another dtype, and past 256, where bfloat16 lacks every other integer.

    In half precision calls after the first have larger numbers: float16's scores overflow `exp`, and tokens of a chunk see
    each other above all.
    """
    orders = sampler.shuffled([3, 6, 2, 1, 7], [1, 8, 8, 2], [sampler.integer(5, 9), 2, 1, 1, sampler.integer(8, 9), 3])
    orders.append([sampler.integer(250, 256), 16])
    heads, batches = sampler.shuffled((4, 2), (6, 2), (6, 3), (4, 1)), [*sampler.shuffled(1, 2, 3), 3]
    dtypes, larger = (
        sampler.shuffled(torch.float64, torch.float32, torch.float16),
        {torch.float16: 4, torch.bfloat16: 2.5},
    )
    for number, (dtype, calls, form, batch) in enumerate(zip([*dtypes, torch.bfloat16], orders, heads, batches)):
        layer, layout = _layer(sampler, *form, dtype=dtype), sampler.choice(("plain", "transposed"))
        case = _case(("chunks",), sampler, layer, calls, device=_device(number), batch=batch, layout=layout)
        for action in case.inputs["actions"][2:]:
            action["x"] *= larger.get(dtype, 1)
        yield case


def _several(sampler: Sampler) -> Iterator[Case]:
    """Three objects, two of them of one layer, alike or not, by turns; resets before any call, amid calls and twice."""
    for device, second in zip(sampler.shuffled("cpu", "cuda"), ((0, 2, 9), (0, sampler.choice((1, 3)), 7))):
        dtypes = [sampler.choice((torch.float32, torch.float64)) for _ in range(2)]
        layers = [
            _layer(sampler, *heads, dtype=dtype) for heads, dtype in zip(sampler.shuffled((4, 2), (6, 3)), dtypes)
        ]
        plans = [(0, 2, 9), second, (1, 2, 8)]
        actions = [_make(of, *plan) for of, plan in enumerate(plans)] + [_do("reset", sampler.integer(0, 2))]
        for of, new, layout in sampler.shuffled((0, 1, "transposed"), (1, 4, "stepped"), (2, 3, "plain")):
            actions.append(_call(sampler, layers, plans, of, new, layout=layout))
        actions += [_call(sampler, layers, plans, of, 1) for of in sampler.shuffled(0, 1, 2, 0, 1, 2)]
        again = sampler.integer(0, 2)
        actions += [_do("reset", again), _do("reset", again)]
        actions += [_call(sampler, layers, plans, again, new) for new in (5, 1)]
        actions += [_call(sampler, layers, plans, of, 1) for of in range(3) if of != again]
        yield _whole_case(("objects",), device, layers, actions, keep=True)


def _large(sampler: Sampler) -> Iterator[Case]:
    """One call is watched. No width, nor heads times head_dim, is a number of tokens, twice it, or what blocks of a power
    of two leave of it: see ``_reads_of_projections``."""
    both = ("flops", "traffic")
    for heads, dtype in sampler.shuffled(((4, 2), torch.float32), ((2, 1), torch.bfloat16), ((4, 1), torch.float32)):
        layer, calls = _layer(sampler, *heads, head_dim=68, width=136, dtype=dtype), [sampler.integer(340, 380), 1]
        yield _case(both, sampler, layer, calls, room=sampler.integer(700, 900), watch=2, batch=2)
    # Most of the bytes are weights that many sequences share.
    layer, calls = _layer(sampler, 4, 2, head_dim=56, width=208), [sampler.integer(12, 20), 1]
    yield _case(both, sampler, layer, calls, watch=2, batch=6)
    # Longer than blocks that weights could be read for: a prompt, and a chunk.
    for criterion, calls in (("prompt", []), ("chunks", [sampler.integer(21, 23)])):
        layer, calls = _layer(sampler, 4, 2, head_dim=54, width=184), [*calls, sampler.integer(132, 150)]
        room = sampler.integer(300, 400)
        yield _case((criterion, *both), sampler, layer, calls, room=room, watch=len(calls), batch=1)
    # Most of the bytes are keys, that all query heads and all new tokens share.
    layer, calls = _layer(sampler, 4, 1, head_dim=68, width=72), [sampler.integer(290, 320), 4]
    yield _case(("chunks", "traffic"), sampler, layer, calls, watch=2, batch=2)
    # Behind so many tokens a mask of all pairs is larger than keys.
    dtype, calls = sampler.choice((torch.float16, torch.bfloat16)), [sampler.integer(680, 720), sampler.integer(2, 3)]
    layer = _layer(sampler, 4, 1, head_dim=68, width=216, dtype=dtype)
    yield _case(("chunks", "traffic"), sampler, layer, calls, watch=2, batch=1)


def _held(sampler: Sampler) -> Iterator[Case]:
    """What stays on the card between calls, with a layer that is frozen and with one that trains."""
    some = ((("buffers",), [200, 1, 1, "reset", 12, 1], 4), (("chunks", "buffers"), [200, 1, 40, 90, 1], -1))
    for dtype, (criteria, calls, watch) in zip(sampler.shuffled(torch.float32, torch.bfloat16), some):
        layer = _layer(sampler, *sampler.choice(((4, 2), (2, 1))), head_dim=64, width=96, dtype=dtype, trains=False)
        room = sampler.integer(250, 350) if watch > 0 else 200
        yield _case(criteria, sampler, layer, calls, room=room, batch=2, watch=watch)
    for trains, grad in sampler.shuffled((True, False), (False, True)):
        layer = _layer(sampler, 4, 2, head_dim=64, width=96, trains=trains)
        yield _case(("graph",), sampler, layer, [60, 1, 1, "reset", 9, 1], room=40, batch=2, grad=grad, layout="fresh")


def _refused(sampler: Sampler) -> Iterator[Case]:
    """One thing wrong at a time, before, between and after calls that are right."""
    for device in sampler.shuffled("cpu", "cuda"):
        layer, batch, first = _layer(sampler, 4, 2), sampler.integer(2, 3), sampler.integer(3, 6)
        width, capacity = layer["weights"]["k_proj"].shape[1], first + 2
        plans = [(0, batch, capacity), (0, batch, width + 3), (0, 1, width + 3)]  # a row could be so many tokens
        shapes = [(1, 2, width), (batch + 1, 1, width), (batch - 1, 1, width), (0, 1, width), (batch, 0, width)]
        shapes += [(batch, 1, width + 1), (batch, 2, width - 1), (batch, 1, 1)]
        shapes += [(batch, width), (width,), (1, batch, 1, width), (batch, 1, 1, width)]
        wrong = [_wrong(sampler, *shape) for shape in sampler.permutation(shapes)]
        prompt, second, last, full = (_call(sampler, [layer], plans, 0, new) for new in (first, 1, 1, capacity))
        most, more, two, one = (_wrong(sampler, batch, new, width) for new in (capacity + 1, 3, 2, 1))
        actions = [_make(0, *plans[0]), *wrong[:4], most, prompt, *wrong[4:8], more, second, *wrong[8:], two, last, one]
        actions += [two, _do("reset", 0), most, full, one]
        for of in (1, 2):
            flat = [_wrong(sampler, *shape, of=of) for shape in ((plans[of][1], width), (2, width), (width,))]
            actions += [_make(of, *plans[of]), *flat, _call(sampler, [layer], plans, of, 2)]
        yield _whole_case(("errors",), device, [layer], actions)
    plans = [(0, 0, 8), (0, -1, 8), (0, 2, 0), (0, 2, -sampler.integer(1, 9)), (0, 0, 0)]
    actions = [_make(of, *plan) for of, plan in enumerate(sampler.permutation(plans))]
    yield _whole_case(("errors",), "cpu", [_layer(sampler, 4, 2)], actions)


def _device(number: int) -> str:
    return ("cuda", "cpu")[number % 2]


def _layer(sampler: Sampler, heads: int, kv_heads: int, head_dim=0, width=0, dtype=torch.float32, trains=True) -> dict:
    """No two of its sizes are alike. Its scores spread, so that it matters where a query looks, and its angles bend, so
    that it matters where a sequence begins."""
    head_dim, width = head_dim or sampler.choice((6, 8, 10)), width or sampler.choice((20, 22, 28, 44))
    rows = {"q_proj": heads * head_dim, "k_proj": kv_heads * head_dim, "v_proj": kv_heads * head_dim}
    wide = {"v_proj": 1, "q_proj": 1.5, "k_proj": 1 if dtype == torch.float16 else 1.5}
    weights = {name: _spread(sampler, count, width) * wide[name] for name, count in rows.items()}
    weights["o_proj"] = _spread(sampler, width, heads * head_dim)
    angles = {"base": sampler.choice((100.0, 1000.0, 10_000.0)), "bend": sampler.choice((1.125, 1.25, 1.375))}
    sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "trains": trains}
    return {**sizes, **angles, "weights": {name: weight.to(dtype) for name, weight in weights.items()}}


def _spread(sampler: Sampler, rows: int, columns: int) -> torch.Tensor:
    """Distinct weights whose products with numbers of size 1 have a size of about 1."""
    values = sampler.tensor(rows, columns, dtype=torch.float64)
    return values / values.abs().max() * (3 / columns) ** 0.5


def _case(
    criteria, sampler: Sampler, layer: dict, calls: list, device="cuda", batch=0, room=2, watch=-1, **how
) -> Case:
    """One object that is called so. ``room``: for so many tokens more than come. ``watch``: which action, 0 to make it."""
    batch, lengths = batch or sampler.integer(1, 3), [0]
    for call in calls:
        lengths.append(0 if call == "reset" else lengths[-1] + call)
    plans = [(0, batch, max(lengths) + room)]
    actions = [_make(0, *plans[0])]
    actions += [_do(call, 0) if call == "reset" else _call(sampler, [layer], plans, 0, call, **how) for call in calls]
    if watch >= 0:
        actions[watch]["watch"] = True
    return _whole_case(criteria, device, [layer], actions)


def _whole_case(criteria, device: str, layers: list, actions: list, keep: bool = False) -> Case:
    return Case(criteria, {"device": device, "layers": layers, "actions": actions, "keep": keep})


def _make(of: int, layer: int, batch: int, capacity: int) -> dict:
    return _do("make", of) | {"layer": layer, "batch": batch, "capacity": capacity}


def _do(what: str, of: int) -> dict:
    return {"do": what, "of": of, "watch": False}


def _call(sampler: Sampler, layers: list, plans: list, of: int, new: int, grad=False, layout="plain") -> dict:
    number, batch, _ = plans[of]
    weight = layers[number]["weights"]["k_proj"]
    x = 2 * sampler.within_one(batch, new, weight.shape[1], dtype=torch.float64)
    return _do("call", of) | {"x": x.to(weight.dtype), "layout": layout, "grad": grad}


def _wrong(sampler: Sampler, *shape: int, of: int = 0) -> dict:
    return _do("call", of) | {"x": sampler.tensor(*shape) / 8, "layout": "plain", "grad": False}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    problem = count_problem(evidence.get("steps"), len(case.inputs["actions"])) or _values_problem(case, evidence)
    if problem:
        values = [criterion for criterion in case.criteria if criterion not in _PROBLEMS]
        yield from (Failure(criterion, problem) for criterion in values or case.criteria)
        return
    if any(action.get("watch") for action in case.inputs["actions"]) and "seen" not in evidence:
        yield from (Failure(criterion, "The call that was to be watched was not.") for criterion in case.criteria)
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
    return next(
        (sentence for wrong, sentence in call.misread() if _near(step["returned"], wrong)), _unlike(case, call, step)
    )


def _near(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((found.double() - expected).abs().max() <= _TOLERANCE[found.dtype] * expected.abs().max())


def _unlike(case: Case, call: Call, step: dict) -> str:
    expected = call.expected()
    if not tensor_problem(step.get("at_once"), step["returned"]) and _near(step["at_once"], expected):
        return "What a call returned was changed by a later one."
    if case.inputs["keep"]:
        return "With objects in turn, and resets between, one's outputs are not those of its own tokens since it was made or reset."
    what = "a chunk after others" if call.new > 1 else "a single token after others"
    return f"The outputs of {what if call.start else 'a first call'} are not those that the layer gives for the same tokens at the end of the whole sequence."


class _Sizes:
    """Bytes and products of the call that was watched, the last."""

    def __init__(self, case: Case) -> None:
        layer, action = case.inputs["layers"][0], next(action for action in case.inputs["actions"] if action["watch"])
        play = Play(case.inputs)
        for earlier in case.inputs["actions"]:
            call = play.next(earlier)
            if earlier is action:
                break
        batch, self.width, self.item = action["x"].shape[0], action["x"].shape[2], action["x"].itemsize
        heads, kv_heads, head_dim = layer["heads"], layer["kv_heads"], layer["head_dim"]
        columns, so_far = 2 * (heads + kv_heads) * head_dim, call.start + call.new
        self.new, self.rows, self.inner = call.new, batch * call.new, heads * head_dim
        self.weights = self.width * columns * self.item
        self.keys = batch * kv_heads * so_far * head_dim * self.item
        self.scores = batch * heads * call.new * so_far
        self.tokens = self.rows * (2 * self.width + columns)
        self.products = 2 * self.rows * self.width * columns + 4 * self.scores * head_dim


def _multiplies(kernel: str) -> bool:
    """Whether a kernel is a product of matrices, or nobody's but the learner's."""
    return not kernel.startswith("aten.") or any(
        part in kernel for part in ("mm", "mv", "dot", "attention", "matmul", "linear")
    )


def _flops_problem(case: Case, evidence: dict) -> str | None:
    """Products to within a twentieth; other kernels can multiply, too, and may have half as many FLOPs beside them.

    What copies has no FLOPs, though the card counts an element as one.
    """
    seen, sizes = Observation.from_dict(evidence["seen"]), _Sizes(case)
    copies = {copy.op for copy in seen.copies}
    kernels = [kernel for kernel in seen.kernels if kernel.name not in copies]
    flops, products = (
        sum(kernel.flops or 0 for kernel in some) for some in (kernels, [k for k in kernels if _multiplies(k.name)])
    )
    if flops < 0.9 * 2 * sizes.tokens:
        return "The card did not do the work of this call."
    if any(op.device == "cpu" and _multiplies(op.op) for op in seen.ops):
        return "The host multiplies in a call: the work is the card's."
    if products > 1.05 * sizes.products or flops > 1.5 * sizes.products:
        return (
            "A call has more FLOPs than its new tokens need: each is projected once, when it comes, and attends to the tokens so "
            "far, not to all that there is room for."
        )
    return None


def _reads_of_projections(kernels: Iterable[Kernel], sizes: _Sizes) -> int:
    """Bytes that projections read: products of two matrices, known by the length of the rows that they multiply."""
    rows, read = (sizes.width, sizes.inner), 0
    for kernel in kernels:
        flops, written = (kernel.flops or 0) * sizes.item, kernel.bytes_written or 0
        two = kernel.name in ("aten.mm", "aten.addmm", "aten.mv", "aten.addmv")
        whole = kernel.name == "aten.linear"  # in inference mode
        if whole or two and flops in [2 * row * written for row in rows]:
            read += kernel.bytes_read or 0
    return read


def _traffic_problem(case: Case, evidence: dict) -> str | None:
    seen, sizes = Observation.from_dict(evidence["seen"]), _Sizes(case)
    kinds = {copy.kind for copy in seen.copies}
    if "HtoD" in kinds:
        return "Something is made on the host and moved to the card in a call: a mask can be made where it is used."
    if "DtoH" in kinds:
        return "The host reads from the card in a call, and waits for it: no step of a call depends on what the card finds."
    if seen.waits:
        return "The host waits for the card in a call, and needs nothing from it: kernels run in the order of their launches."
    inputs = sizes.rows * (3 * sizes.width + sizes.inner) * sizes.item
    if _reads_of_projections(seen.kernels, sizes) > 1.05 * sizes.weights + inputs:
        return "A call reads weights several times: once is enough for all sequences and all their new tokens."
    if sizes.new > _FEW:
        return None
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
            "With few new tokens a call reads more than weights, keys and values once: once is enough for all new tokens, and "
            "for all query heads of a group."
        )
    return None


def _cache_bytes(case: Case) -> int:
    """Of keys and values of the first object."""
    number, batch, capacity = Play(case.inputs).plan()
    layer = case.inputs["layers"][number]
    return 2 * batch * layer["kv_heads"] * capacity * layer["head_dim"] * layer["weights"]["k_proj"].itemsize


def _buffers_problem(case: Case, evidence: dict) -> str | None:
    cache, beside = _cache_bytes(case), 16 * Play(case.inputs).plan()[2] + _SCALARS
    held = [step["held"] for step in evidence["steps"]]
    if min(held) < cache:
        return "Before the first call, or later, the card does not hold the buffers for all the tokens that there is to be room for."
    if held[0] > cache + beside:
        return (
            "Before the first call more is held than keys and values take, in the layer's dtype, for the heads that have keys of "
            "their own: wider buffers, more heads, or something beside them."
        )
    if max(held) > cache + beside:
        return "After a call more is held than the buffers: a mask, weights, tokens or a result that something still refers to."
    if "seen" in evidence and Observation.from_dict(evidence["seen"]).new_bytes > beside:
        return "Something as large as the buffers is allocated once more, after they were made."
    return None


def _graph_problem(case: Case, evidence: dict) -> str | None:
    if any(step.get("graph") for step in evidence["steps"]):
        return "What was returned requires a gradient: its graph holds tensors for a backward pass that never comes."
    held = [step["held"] for step in evidence["steps"]]
    if max(held) > max(held[0], _cache_bytes(case)) + 16 * Play(case.inputs).plan()[2] + _SCALARS:
        return "After calls whose results are gone their tensors are still held: by a graph, or by whatever refers to them."
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
        Criterion("traffic", 1, "a call copies nothing of the cache, and reads what it needs once", ("tokens",)),
        Criterion("buffers", 1, "keys and values lie in buffers that are allocated once", ("tokens",)),
        Criterion("graph", 1, "nothing is kept for a backward pass", ("tokens",)),
        Criterion("errors", 1, "impossible shapes and lengths raise ValueError and change nothing", ("prompt",)),
    ),
    cases=_cases,
    judge=_judge,
)
