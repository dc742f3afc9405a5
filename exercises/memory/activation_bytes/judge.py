"""E9.2 activation_bytes: cases and judge.

A shape is asked about in several variants, by `role`: what one fault makes wrong in all of them is lost once, and how an
answer grows with one size says how many tensors of that size were counted.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, raised_problem, type_name
from autograder.judge.questions import judge_questions, refuse
from gpulab import Observation

_TOLERANCE = 0.1
_ITEM_BYTES = {"float32": 4, "bfloat16": 2}
_ALIKE = 0.01
"""What the notebook's decoder keeps is known as well as that."""
_MADE = (
    "A tensor was made: the bytes are to be computed from the shape's numbers, before there is a model, on no device."
)
_ANOTHER = "What was measured is not what the given decoder keeps: were its cell's functions changed further down?"


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield _case(("layers",), _layers(sampler))
    yield _case(("layers", "unfused"), _unfused(sampler))
    yield _case(("layers", "unfused", "grouped"), _grouped(sampler))
    yield _case(("head",), _heads_only(sampler))
    yield _case(("errors",), _allowed(sampler))
    yield refuse("errors", _refused(sampler))


def _case(criteria: tuple[str, ...], groups: Iterable[list[dict]]) -> Case:
    return Case(criteria, {"questions": [q | {"group": number} for number, group in enumerate(groups) for q in group]})


def _shape(sampler: Sampler, **sizes: Any) -> dict:
    """Keys in any order."""
    sizes = {"vocabulary": 16} | sizes
    width = sizes.pop("head_dim") * sizes["heads"]
    hidden = max(1, round(sizes.pop("wider") * width))
    sizes = {"kv_heads": sizes["heads"], "width": width, "hidden": hidden, **sizes}
    return dict(sampler.permutation(list(sizes.items())))


def _ask(shape: dict, *how: str, role: str = "base", measure: bool = False, **change: int) -> dict:
    """``how``: the attention, or nothing, which is flash. ``measure``: whether the notebook's decoder is run, too."""
    return {"shape": shape | change, "how": list(how), "role": role, "measure": measure}


def _small(sampler: Sampler) -> dict:
    """Sizes of a decoder that is run."""
    sizes = {"layers": sampler.integer(3, 4), "heads": 4, "head_dim": 16}
    return sizes | {"batch": sampler.integer(1, 3), "sequence": sampler.integer(24, 48)}


def _large(sampler: Sampler) -> dict:
    """Sizes of one that no machine of a learner's runs."""
    sizes = {"layers": sampler.integer(24, 80), "heads": sampler.integer(3, 16) * 8}
    sizes |= {"head_dim": sampler.choice([64, 128]), "batch": sampler.integer(2, 64)}
    return sizes | {"sequence": sampler.integer(1000, 3000)}


def _layers(sampler: Sampler) -> Iterator[list[dict]]:
    """Flash, by narrow and wide MLPs, short and long sequences; one size at a time is another."""
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 8)):
        yield _one_size_at_a_time(_shape(sampler, **_large(sampler), **plan), sampler.shuffled((), ("flash",)))
        yield [_ask(_shape(sampler, **_small(sampler), **plan), "flash", measure=True)]
        long = _large(sampler) | {"sequence": sampler.integer(30_000, 40_000), "batch": 1}
        yield [_ask(_shape(sampler, **long, **plan))]
        yield [_ask(_shape(sampler, **_large(sampler) | {"sequence": 1}, **plan), "flash")]
    long = _small(sampler) | {"sequence": sampler.integer(120, 160)}
    yield [_ask(_shape(sampler, **long, dtype="float32", wider=1), measure=True)]


def _one_size_at_a_time(shape: dict, hows: list[tuple[str, ...]]) -> list[dict]:
    wider = {"width": 2 * shape["width"]}
    changes = {
        "width": wider,
        "hidden": {"hidden": 2 * shape["hidden"]},
        "sequence": {"sequence": 2 * shape["sequence"]},
    }
    changes |= {"layers": {"layers": 2 * shape["layers"]}}
    changed = [_ask(shape, *hows[1], role=role, **change) for role, change in changes.items()]
    return [_ask(shape, *hows[0]), *changed]


def _unfused(sampler: Sampler) -> Iterator[list[dict]]:
    """Long sequences, where the probabilities are most of it, and short ones, where they are little; one head of one row."""
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 4), sequence=(8, 512, 16_384)):
        yield _both(_shape(sampler, **_large(sampler) | plan))
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), wider=(0.125, 4), heads=(1, 4)):
        sizes = {"sequence": sampler.integer(100, 140), "head_dim": 64 // plan["heads"]}
        batch = {"batch": 1} if plan["heads"] == 1 else {}
        yield _both(_shape(sampler, **_small(sampler) | sizes | plan | batch), measure=True)


def _both(shape: dict, measure: bool = False) -> list[dict]:
    unfused = _ask(shape, "unfused", role="unfused", measure=measure)
    return [_ask(shape), unfused, _ask(shape, "unfused", role="unfused twice", sequence=2 * shape["sequence"])]


def _grouped(sampler: Sampler) -> Iterator[list[dict]]:
    """Each attention, shared heads or not, at short and long sequences: where the keys are seen, and the probabilities."""
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), sequence=(4, 40), kv_heads=(1, 2)):
        yield _shared(sampler, _small(sampler) | {"heads": 8, "layers": 5} | plan, measure=True)
    for plan in sampler.cover(dtype=tuple(_ITEM_BYTES), sequence=(1, 16, 512, 4096), of=(2, 8)):
        kv_heads = sampler.integer(2, 5)
        heads = {"heads": plan.pop("of") * kv_heads, "kv_heads": kv_heads}
        yield _shared(sampler, _large(sampler) | plan | heads)


def _shared(sampler: Sampler, sizes: dict, measure: bool = False) -> list[dict]:
    shape = _shape(sampler, **sizes, wider=0.125)
    whole = shape | {"kv_heads": shape["heads"]}
    asked = [_ask(whole, "flash"), _ask(whole, "unfused", role="unfused")]
    return asked + [_ask(shape, how, role=f"{how}, shared", measure=measure) for how in ("flash", "unfused")]


def _heads_only(sampler: Sampler) -> Iterator[list[dict]]:
    """No layer, or a vocabulary beside which a layer is little; then a width beside which the vocabulary is little."""
    for plan in sampler.cover(
        dtype=tuple(_ITEM_BYTES), how=("flash", "unfused"), measure=(True, False), sizes=((0, 1), (0, 50), (1, 50))
    ):
        (layers, many), measure, how = (plan.pop(name) for name in ("sizes", "measure", "how"))
        heads, vocabulary = (4, 300 * many) if measure else (sampler.integer(8, 32), sampler.integer(4000, 5000) * many)
        sizes = {"layers": layers, "heads": heads, "head_dim": 16, "vocabulary": vocabulary, "wider": 0.125}
        sizes |= {"batch": sampler.integer(2, 4), "sequence": sampler.integer(8, 16)} | plan
        shape = _shape(sampler, **sizes)
        asked = [_ask(shape, how, measure=measure), _ask(shape, how, role="vocabulary", vocabulary=2 * vocabulary)]
        yield asked + [_ask(shape, how, role="width", width=2 * shape["width"])] * (layers == 0)
    for dtype in sampler.shuffled(*_ITEM_BYTES):
        sizes = {"layers": 0, "heads": 8, "head_dim": sampler.integer(60, 90), "vocabulary": sampler.integer(2, 30)}
        shape = _shape(sampler, **sizes, batch=1, sequence=sampler.integer(1, 9), wider=1, dtype=dtype)
        yield [_ask(shape, measure=True), _ask(shape, role="width", width=2 * shape["width"])]


def _allowed(sampler: Sampler) -> Iterator[list[dict]]:
    """The least of all sizes, and one head of keys for many: whoever refuses everything refuses these."""
    for kv_heads in (1, 4):
        least = {
            "layers": 0,
            "batch": 1,
            "sequence": 1,
            "heads": 4,
            "kv_heads": kv_heads,
            "head_dim": 16,
            "vocabulary": 1,
        }
        yield [
            _ask(_shape(sampler, **least, wider=0.01, dtype="float32"), *how) for how in ((), ("flash",), ("unfused",))
        ]


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    for other in sampler.shuffled("Flash", "fused", "eager", "sdpa", ""):
        shape = _shape(sampler, **_large(sampler), dtype="bfloat16", wider=4)
        yield _ask(shape, other), f"the attention {other!r} is neither `flash` nor `unfused`"
    for how in sampler.shuffled((), ("flash",), ("unfused",)):
        shape = _shape(sampler, **_large(sampler) | {"heads": 24}, dtype="float32", wider=4)
        because = "`width` is not a multiple of `heads`"
        yield _ask(shape, *how, width=24 * 64 + sampler.integer(1, 23)), because
        for kv_heads in (sampler.choice([5, 7, 9, 16]), 48):
            yield _ask(shape, *how, kv_heads=kv_heads), "`heads` is not a multiple of `kv_heads`"


def expected(shape: dict, attention: str = "flash") -> int:
    """Bytes that the notebook's decoder keeps on the CPU, to the last."""
    width, heads, item = shape["width"], shape["heads"], _ITEM_BYTES[shape["dtype"]]
    tokens, norms = shape["batch"] * shape["sequence"], 2 * shape["layers"] + 1
    if attention == "flash":
        keys, inside = width // heads * shape["kv_heads"], 4 * heads
    else:
        keys, inside = width, heads * shape["sequence"] * item
    layer = (2 * width + 2 * keys + 4 * shape["hidden"]) * item + inside  # and what its norms keep
    each = shape["layers"] * layer + norms * 2 * (width + 1) * item + 4 * shape["vocabulary"] + 2 * 8
    return tokens * each + 4


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    questions, answers = case.inputs["questions"], evidence["answers"]
    if problem := _problem_of_all(case, evidence):
        yield from (Failure(name, problem) for name in case.criteria)
    elif case.raises:
        yield from judge_questions(_never)(case, evidence)
    else:
        lost = {}
        for _, group in groupby(zip(questions, answers, strict=True), lambda pair: pair[0]["group"]):
            for name, sentence in _lost(case.criteria, list(group)):
                lost.setdefault(name, sentence)
        if "layers" in case.criteria and not all(answer["kept"] is True for answer in answers):
            lost.setdefault("layers", "The function changed the shape that it was given: the caller still needs it.")
        yield from (Failure(name, sentence) for name, sentence in lost.items())


def _problem_of_all(case: Case, evidence: dict) -> str | None:
    """What no count makes good: a tensor, another decoder."""
    questions, answers, measured = case.inputs["questions"], evidence["answers"], evidence["measured"]
    if Observation.from_dict(evidence["seen"]).ops:
        return _MADE
    if problem := count_problem(answers, len(questions)) or count_problem(measured, len(questions)):
        return problem
    return None if all(map(_as_measured, questions, measured)) else _ANOTHER


def _as_measured(question: dict, measured: Any) -> bool:
    if not question["measure"]:
        return True
    right = expected(question["shape"], *question["how"])
    return type(measured) is int and abs(measured - right) <= _ALIKE * right


def _never(*_: Any) -> None:
    """Where an error is expected, no value is right."""


def _lost(criteria: tuple[str, ...], group: list[tuple[dict, dict]]) -> Iterator[tuple[str, str]]:
    """Each criterion that the answers about one shape lose, with its sentence."""
    for _, answer in group:
        value = answer.get("returned")
        problem = raised_problem(answer["error"]) if "error" in answer else None
        if problem or type(value) is not int:
            problem = problem or f"The function returned {type_name(value)}; expected a Python integer, of bytes."
            yield from ((name, problem) for name in criteria)
            return
    counts = Counts({question["role"]: (question, answer["returned"]) for question, answer in group})
    if "errors" not in criteria:
        yield from counts.lost(criteria)


class Counts:
    """A learner's counts of one shape in several variants, beside the right ones."""

    def __init__(self, by_role: dict[str, tuple[dict, int]]) -> None:
        self.shape = by_role["base"][0]["shape"]
        self.found = {role: value for role, (_, value) in by_role.items()}
        self.right = {role: expected(question["shape"], *question["how"]) for role, (question, _) in by_role.items()}
        self.tokens = self.shape["batch"] * self.shape["sequence"]
        self.row = self.tokens * _ITEM_BYTES[self.shape["dtype"]]

    def lost(self, criteria: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        if not all(
            map(self._near, self.found.keys() & {"base", "width", "hidden", "sequence", "layers", "vocabulary"})
        ):
            yield criteria[0], self._why_head() if criteria == ("head",) else self._why_layers()
        if "unfused" in self.found and not self._follows("unfused", "base"):
            yield "unfused", self._why_unfused()
        if "grouped" in criteria:
            for how, base in (("flash", "base"), ("unfused", "unfused")):
                if not self._follows(f"{how}, shared", base):
                    yield "grouped", self._why_grouped(how, base)

    def _near(self, role: str) -> bool:
        return abs(self.found[role] - self.right[role]) <= _TOLERANCE * self.right[role]

    def _follows(self, role: str, base: str) -> bool:
        """Whether an answer is right; where ``base`` is not, whether it differs from it, or is a multiple, as it should."""
        if self._near(base) or self._near(role):
            return self._near(role)
        found, right = self.found[role], self.right[role]
        more, due = found - self.found[base], right - self.right[base]
        multiple = abs(found * self.right[base] - right * self.found[base]) <= _TOLERANCE * right * abs(
            self.found[base]
        )
        return abs(more - due) <= _TOLERANCE * right or (multiple and self.found[base] > 0)

    def _more(self, role: str, base: str = "base") -> int:
        return self.found[role] - self.found[base]

    def _why_layers(self) -> str:
        if self.found["base"] == self.tokens * self.shape["width"] * self.shape["layers"] * 2:
            return "One tensor of two bytes an element for each layer is what its output takes: the many inside it are kept as well."
        if 2**9 * self.found["base"] < self.right["base"]:
            return "The number is far too small: these are not bytes, or no layer's inside was counted."
        if "layers" not in self.found:
            return _SAID["layers"].format(_more_or_less(self.found["base"], self.right["base"]))
        if self._more("sequence") > 1.1 * self.found["base"]:
            return "The count grows faster than the sequence: flash attention keeps nothing for a pair of positions."
        due = {role: self.right[role] - self.right["base"] for role in self.right}
        wrong = {role: self._more(role) / due[role] for role in ("hidden", "width")}
        if abs(wrong["hidden"] - 1) > 0.02 and abs(wrong["hidden"] - wrong["width"]) <= 0.01 * wrong["hidden"]:
            return "All of it is off by one factor: the bytes of an element, the tokens, or the layers."
        columns = self.row * self.shape["layers"]
        hidden = self._more("hidden") / (columns * self.shape["hidden"])
        width = self._more("width") / (columns * self.shape["width"]) - 2 / self.shape["layers"]
        if abs(hidden - 4) > 0.1:
            return f"As `hidden` grows, the count grows as by {hidden:.2g} tensors of that width in each layer; 4 are kept."
        if abs(width - 8) > 0.2:
            return f"As `width` grows, the count grows as by {width:.2g} tensors of that width in each layer; 8 are kept, keys and values among them."
        return _SAID["layers"].format(_more_or_less(self.found["base"], self.right["base"]))

    def _why_unfused(self) -> str:
        if "unfused twice" in self.found:
            bend, due = (x["unfused twice"] - 2 * x["unfused"] for x in (self.found, self.right))
            if abs(bend - due) > 0.05 * due:
                return f"The count has {bend / due:.2g} times the bytes that unfused attention keeps for each pair of positions: one number for each query head, in the shape's dtype."
        word = _more_or_less(self.found["unfused"], self.right["unfused"])
        return f"It is {word} than written-out attention keeps: which tensors does each of its operations need again in backward, and in which dtype?"

    def _why_grouped(self, how: str, base: str) -> str:
        fewer, due = -self._more(f"{how}, shared", base), self.right[base] - self.right[f"{how}, shared"]
        if how == "unfused":
            return f"With unfused attention the count {'falls' if fewer > 0 else 'is another'} where heads of keys and values are shared: it repeats them for every query head, and keeps what it repeated."
        if abs(fewer) < 0.05 * due:
            return "With flash attention the count does not fall where heads of keys and values are shared: it keeps them as they are, without repeating them."
        return f"With flash attention fewer heads of keys and values take {'too much' if fewer > due else 'too little'} off the count: it keeps keys and values of `kv_heads` heads."

    def _why_head(self) -> str:
        if "width" in self.found:
            tensors = self._more("width") / (self.row * self.shape["width"])
            if abs(tensors - 2) > 0.1:
                return f"Without layers the count grows with `width` as by {tensors:.2g} tensors of it in the shape's dtype; 2 are kept, the last norm's input and output."
        if "vocabulary" in self.found:
            each = self._more("vocabulary") / (self.tokens * self.shape["vocabulary"])
            if abs(each - 4) > 0.1:
                return f"The count grows by {each:.2g} bytes for each token and entry of the vocabulary; 4 are kept: `cross_entropy` keeps the log-probabilities, in float32."
        word = _more_or_less(self.found["base"], self.right["base"])
        return f"It is {word} than is kept behind the layers: the last norm, and what `cross_entropy` keeps of the logits, in its own dtype."


def _more_or_less(found: int, right: int) -> str:
    return "more" if found > right else "less"


_SAID = {
    "layers": "It is {} than the layers keep: go through the block's lines with flash attention and count what each has to have "
    "again in backward, in the shape's dtype, a tensor once though two operations keep it. Nothing of (sequence, sequence) stays.",
}


exercise = Exercise(
    criteria=(
        Criterion("layers", 2, "the layers with flash attention are counted, in both dtypes"),
        Criterion("unfused", 2, "written-out attention is counted with its tensors for each pair of positions"),
        Criterion("grouped", 2, "grouped-query keys and values are counted as each attention saves them"),
        Criterion("head", 1, "the final norm, the head and the loss are counted"),
        Criterion(
            "errors", 1, "unknown attention and heads that do not divide, and no others, are refused with ValueError"
        ),
    ),
    cases=_cases,
    judge=_judge,
)
