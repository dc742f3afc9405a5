"""Chapter "Memory": wrong solutions, and right ones written another way."""

from dataclasses import replace

import torch

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E9.1 state_bytes

NO_STATE = ("named", "unseen", "sharding", "uneven", "scales", "errors")
SHARES = "share if stage >= first else parameters for first in (3, 2, 1)"
REFUSAL = "if parameters < 0 or world < 1 or stage not in (0, 1, 2, 3):"


def state(edits, loses, because, breaks):
    return edited("state_bytes", edits, loses=loses, because=because, breaks=breaks)


twelve_bytes = state(
    {'gradients * item_bytes(recipe["gradients"])': "0"},
    NO_STATE,
    "weights and Adam's moments are thought to be all: 12 bytes",
    "the gradients that the backward pass leaves",
)
eighteen_bytes = state(
    {'"total": sum(held.values())': '"total": 18 * parameters'},
    NO_STATE,
    "4 + 4 + 8 is quoted as 18",
    '`"total"`, their sum',
)
all_sharded_at_stage_1 = state(
    {SHARES: "share if stage else parameters for _ in range(3)"},
    ("sharding", "uneven", "scales"),
    "ZeRO is thought to divide everything from its first stage on",
    "Stage 2 shards the gradients too, stage 3 the weights too",
)
weights_before_gradients = state(
    {"for first in (3, 2, 1)": "for first in (2, 3, 1)"},
    ("sharding", "uneven", "scales"),
    "the weights are thought to be sharded before the gradients",
    "Stage 2 shards the gradients too, stage 3 the weights too",
)
stages_counted_from_0 = state(
    {"for first in (3, 2, 1)": "for first in (2, 1, 0)"},
    ("named", "sharding", "unseen", "uneven", "scales", "errors"),
    "the first stage is taken for number 0",
    "Stage 0 shards nothing: every rank holds everything",
)
main_gradients_are_gradients = state(
    {'optimizer * item_bytes(recipe["main_gradients"])': 'gradients * item_bytes(recipe["main_gradients"])'},
    ("sharding", "uneven"),
    "all gradients are thought to be sharded together",
    "the main gradients. Stage 2",
)
master_is_weights = state(
    {'optimizer * item_bytes(recipe["master"])': 'weights * item_bytes(recipe["master"])'},
    ("sharding", "uneven", "scales"),
    "all copies of the weights are thought to be sharded together",
    "Stage 1 shards the optimizer states",
)
twelve_bytes_with_adam = state(
    {'"fp32": (full, full, None, None, (full, full), None)': '"fp32": (full, full, None, None, (full,), None)'},
    ("named", "errors"),
    "Adam is thought to keep one average of each gradient",
    "All of them train with Adam",
)
no_master_weights = state(
    {'"zero": (half, half, None, full,': '"zero": (half, half, None, None,'},
    ("named", "errors"),
    "mixed precision is thought to halve everything",
    "Adam updates a float32 copy of the weights",
)
no_master_weights_in_any = state(
    {'"master": optimizer * item_bytes(recipe["master"])': '"master": 0'},
    NO_STATE,
    "the copy that the optimizer updates is taken for the weights",
    "a second copy of the weights, which the optimizer updates",
)
wide_gradients_stay = state(
    {'"zero": (half, half, None,': '"zero": (half, half, full,'},
    ("named", "errors"),
    "what is widened is thought to be kept: 20 bytes for ZeRO's 16",
    "each gradient is converted to float32 when it is used, and the float32 gradient is not kept",
)
megatron_keeps_both = state(
    {'"megatron bf16": (brain, full, None,': '"megatron bf16": (brain, brain, full,'},
    ("named", "errors"),
    "float32 gradients are thought to stand beside bfloat16 ones",
    "gradients accumulated and kept in float32 only",
)
megatron_widens_for_a_moment = state(
    {'"megatron fp16": (half, half, full,': '"megatron fp16": (half, half, None,'},
    ("named", "errors"),
    "Megatron's main gradients are thought to be gone after the step",
    "persistent float32 copies of both",
)
half_of_everything = state(
    {'"zero": (half, half, None, full, (full, full), None)': '"zero": (half, half, None, full, (half, half), None)'},
    ("named", "errors"),
    "the moments are thought to have the dtype of the weights",
    "Adam's moments in float32",
)
one_moment = state(
    {"sum(item_bytes(dtype) for dtype in recipe[\"moments\"])": 'max(map(item_bytes, recipe["moments"]), default=0)'},
    NO_STATE,
    "an optimizer is thought to keep one average",
    "a tuple of `torch.dtype`, one for each, possibly empty",
)
moments_alike = state(
    {"sum(item_bytes(dtype) for dtype in recipe[\"moments\"])": 'len(recipe["moments"]) * item_bytes(next(iter(recipe["moments"]), None))'},
    ("unseen", "sharding", "uneven", "scales"),
    "all moments are thought to have the dtype of the first",
    "a tuple of `torch.dtype`, one for each",
)
always_adam = state(
    {'blocks * len(recipe["moments"])': "blocks * 2", "sum(item_bytes(dtype) for dtype in recipe[\"moments\"])": '2 * item_bytes(recipe["moments"][0])'},
    ("unseen", "sharding", "uneven", "scales"),
    "every optimizer is taken for Adam",
    "one for each, possibly empty",
)
weights_rule_the_gradients = state(
    {'gradients * item_bytes(recipe["gradients"])': 'gradients * item_bytes(recipe["weights"])'},
    NO_STATE,
    "gradients are thought to have the dtype of their weights",
    "the gradients that the backward pass leaves",
)
float32_weights = state(
    {'"weights": weights * item_bytes(recipe["weights"])': '"weights": weights * 4'},
    NO_STATE,
    "a parameter is thought to be four bytes",
    "what is stored for every parameter, a dictionary with these keys",
)
eight_bits_in_four_bytes = state(
    {"(byte, byte), 256)": "(full, full), 256)"},
    ("named", "scales", "errors"),
    "the moments are thought to be widened again for good",
    "Its moments are one byte an element",
)
no_scales = state(
    {'blocks * len(recipe["moments"]) * item_bytes(torch.float32)': "0"},
    ("named", "scales", "errors"),
    "8 bits are thought to be one byte and nothing else",
    "share one float32 scale",
)
one_scale_for_all_moments = state(
    {'blocks * len(recipe["moments"]) *': 'blocks * bool(recipe["moments"]) *'},
    ("named", "scales", "errors"),
    "the moments of a block are thought to share their scale",
    "this number of elements of a moment (the block size), or fewer in the last block, share one float32 scale",
)
scales_in_16_bits = state(
    {"item_bytes(torch.float32)": "2"},
    ("named", "scales", "errors"),
    "scales are thought to be as narrow as the weights",
    "share one float32 scale",
)
whole_blocks_only = state(
    {'-(-optimizer // recipe["block"])': 'optimizer // recipe["block"]'},
    ("scales",),
    "the elements after the last whole block are forgotten",
    "or fewer in the last block",
)
scales_on_every_rank = state(
    {'-(-optimizer // recipe["block"])': '-(-parameters // recipe["block"])'},
    ("scales",),
    "scales are thought too small to be sharded",
    "the moments and their scales",
)
another_block = state(
    {'(byte, byte), 256)': '(byte, byte), 2048)'},
    ("named", "scales", "errors"),
    "the paper's block is taken for that of the recipe",
    "in blocks of 256",
)
blocks_across_ranks = state(
    {'-(-optimizer // recipe["block"])': '-(-parameters // recipe["block"]) // (world if stage else 1)'},
    ("scales",),
    "blocks are thought to be cut before the ranks are",
    "and the first block of a rank starts where its shard starts",
)
moments_in_one_row = state(
    {'blocks * len(recipe["moments"])': '-(-optimizer * len(recipe["moments"]) // (recipe["block"] or 1)) * bool(recipe["block"])'},
    ("scales",),
    "the moments are thought to lie in one buffer, which is cut into blocks",
    "Each moment has separate blocks",
)
scales_for_bytes_only = state(
    {'blocks * len(recipe["moments"])': 'blocks * sum(dtype.itemsize == 1 for dtype in recipe["moments"])'},
    ("scales",),
    "only moments of one byte are thought to need a scale",
    "this number of elements of a moment (the block size), or fewer in the last block, share one float32 scale",
)
share_rounded_down = state(
    {"-(-parameters // world)": "parameters // world"},
    ("uneven", "scales"),
    "what is left over is thought to be nobody's",
    "padded so that every rank holds the same number of elements",
)
share_not_padded = state(
    {"-(-parameters // world)": "parameters / world"},
    ("sharding", "uneven", "scales"),
    "a share is thought to be a fraction",
    "returns a dictionary of Python integers",
)
share_by_float = state(
    {"-(-parameters // world)": "math.ceil(parameters / world)", "    if parameters < 0": "    import math\n\n    if parameters < 0"},
    ("uneven",),
    "a quotient of integers is thought to be exact",
    "Counts are exact, even where a float would not be",
)
all_ranks_together = state(
    {"share = -(-parameters // world)": "share = parameters", "return {**held": "held = {kind: world * nbytes for kind, nbytes in held.items()}\n    return {**held"},
    NO_STATE,
    "the cluster is counted for the rank",
    "over `world` ranks",
)
gibibytes = state(
    {'return {**held, "total": sum(held.values())}': 'held["total"] = sum(held.values())\n    return {kind: nbytes // 2**30 for kind, nbytes in held.items()}'},
    NO_STATE,
    "memory is thought to come in GiB",
    "the bytes that **one rank** holds",
)
leaves_out_what_is_not_there = state(
    {"    return {**held": "    held = {kind: nbytes for kind, nbytes in held.items() if nbytes}\n    return {**held"},
    NO_STATE,
    "what is not held is left out",
    "each 0 where there are none",
)
takes_the_recipe_apart = state(
    {'    blocks = -(-optimizer // recipe["block"]) if recipe["block"] else 0\n': '    block = recipe.pop("block")\n    blocks = -(-optimizer // block) if block else 0\n'},
    ("unseen", "sharding", "uneven", "scales"),
    "the caller's dictionary is taken for one's own",
    "It is not modified",
)
step_counters_too = state(
    {'sum(item_bytes(dtype) for dtype in recipe["moments"])': 'sum(item_bytes(dtype) for dtype in recipe["moments"]) + 4'},
    NO_STATE,
    "Adam's step counter is counted, once for the model",
    "Step counters and code books, a few bytes a tensor, are left out",
)
any_name_is_fp32 = state(
    {"    if name not in recipes:\n": '    name = name if name in recipes else "fp32"\n    if False:\n'},
    ("errors",),
    "an unknown recipe is taken for the plain one",
    "raises `ValueError` for a name that is none of the five",
)
any_stage = state(
    {REFUSAL: "if parameters < 0 or world < 1:"},
    ("errors",),
    "stages beyond the third are thought to shard all the same",
    "a stage that is none of the four",
)
any_world = state(
    {REFUSAL: "if parameters < 0 or stage not in (0, 1, 2, 3):", "share = -(-parameters // world)": "share = -(-parameters // max(world, 1))"},
    ("errors",),
    "no ranks are taken for one",
    "a `world` less than 1",
)
any_count = state(
    {REFUSAL: "if world < 1 or stage not in (0, 1, 2, 3):"},
    ("errors",),
    "a count is trusted",
    "`parameters` less than 0",
)
refuses_none = state(
    {REFUSAL: "if parameters < 1 or world < 1 or stage not in (0, 1, 2, 3):"},
    ("named", "uneven", "scales", "errors"),
    "a model without parameters is thought to be an error",
    "a Python integer, 0 or more",
)
case_does_not_matter = state(
    {"    if name not in recipes:\n": "    name = name.strip().lower()\n    if name not in recipes:\n"},
    ("errors",),
    "a name is thought to mean what it resembles",
    "or one of five names",
)


@alternative("state_bytes")
def row_by_row(parameters, recipe, stage=0, world=1):
    if isinstance(recipe, str):
        table = {
            "fp32": "float32 float32 - - float32,float32 -",
            "zero": "float16 float16 - float32 float32,float32 -",
            "megatron bf16": "bfloat16 float32 - float32 float32,float32 -",
            "megatron fp16": "float16 float16 float32 float32 float32,float32 -",
            "adam 8-bit": "float32 float32 - - uint8,uint8 256",
        }
        try:
            words = table[recipe].split()
        except KeyError:
            raise ValueError(f"unknown recipe {recipe}") from None
        kinds = ("weights", "gradients", "main_gradients", "master")
        recipe = {kind: None if word == "-" else getattr(torch, word) for kind, word in zip(kinds, words)}
        recipe["moments"] = [getattr(torch, word) for word in words[4].split(",")]
        recipe["block"] = None if words[5] == "-" else int(words[5])
    if parameters < 0:
        raise ValueError("a negative count")
    if world <= 0:
        raise ValueError("no rank")
    try:
        sharded = {0: "", 1: "o", 2: "og", 3: "ogw"}[stage]
    except KeyError:
        raise ValueError("ZeRO has the stages 0, 1, 2 and 3") from None
    each, rest = divmod(parameters, world)
    own = {part: (each + (rest > 0)) if part in sharded else parameters for part in "ogw"}
    result = {"weights": own["w"] * recipe["weights"].itemsize, "gradients": own["g"] * recipe["gradients"].itemsize}
    for kind in ("main_gradients", "master"):
        result[kind] = own["o"] * (0 if recipe[kind] is None else recipe[kind].itemsize)
    result["moments"], result["scales"] = 0, 0
    for moment in recipe["moments"]:
        result["moments"] += own["o"] * moment.itemsize
        if recipe["block"] is not None:
            whole, part = divmod(own["o"], recipe["block"])
            result["scales"] += 4 * (whole + 1 if part else whole)
    result["total"] = sum(result.values())
    return result


@alternative("state_bytes")
def on_the_meta_device(parameters, recipe, stage=0, world=1):
    """Tensors without memory, whose bytes are asked for."""
    from collections import Counter

    if stage not in range(4) or world < 1 or parameters < 0:
        raise ValueError((parameters, stage, world))
    f32, f16 = torch.float32, torch.float16
    named = {
        "fp32": {"weights": f32, "gradients": f32},
        "zero": {"weights": f16, "gradients": f16, "master": f32},
        "megatron bf16": {"weights": torch.bfloat16, "gradients": f32, "master": f32},
        "megatron fp16": {"weights": f16, "gradients": f16, "master": f32, "main_gradients": f32},
        "adam 8-bit": {"weights": f32, "gradients": f32, "moments": [torch.uint8] * 2, "block": 256},
    }
    if not hasattr(recipe, "keys"):
        if recipe not in named:
            raise ValueError(recipe)
        recipe = {"main_gradients": None, "master": None, "moments": [f32] * 2, "block": None} | named[recipe]
    first = {"weights": 3, "gradients": 2}
    kept = {kind: [] for kind in ("weights", "gradients", "main_gradients", "master", "moments", "scales")}

    def hold(kind, elements, dtype):
        kept[kind].append(torch.empty(elements, dtype=dtype, device="meta").nbytes)

    for kind in list(kept)[:5]:
        dtypes = recipe[kind] if kind == "moments" else [recipe[kind]]
        elements = (parameters + world - 1) // world if stage >= first.get(kind, 1) else parameters
        for dtype in dtypes:
            if dtype is not None:
                hold(kind, elements, dtype)
            if kind == "moments" and recipe["block"]:
                hold("scales", (elements + recipe["block"] - 1) // recipe["block"], f32)
    held = Counter({kind: sum(sizes) for kind, sizes in kept.items()})
    held["total"] = held.total()
    return held


@alternative("state_bytes")
def cached_counts(parameters, recipe, stage=0, world=1):
    """Widths from finfo and iinfo; a cached function of integers, and a fresh dictionary each call."""
    if not isinstance(recipe, dict):
        try:
            what = widths[recipe]
        except KeyError:
            raise ValueError(f"no such recipe: {recipe}") from None
    else:
        kept = tuple(width_of(recipe[key]) for key in ("weights", "gradients", "main_gradients", "master"))
        what = kept, tuple(map(width_of, recipe["moments"])), recipe["block"]
    if parameters < 0 or world < 1 or not any(stage == known for known in range(4)):
        raise ValueError("parameters 0 or more, world 1 or more, stage 0 to 3")
    numbers = counted(parameters, *what, stage, world)
    kinds = ("weights", "gradients", "main_gradients", "master", "moments", "scales", "total")
    return dict(zip(kinds, (*numbers, sum(numbers))))


CACHED = """import functools

widths = {
    "fp32": ((4, 4, 0, 0), (4, 4), None),
    "zero": ((2, 2, 0, 4), (4, 4), None),
    "megatron bf16": ((2, 4, 0, 4), (4, 4), None),
    "megatron fp16": ((2, 2, 4, 4), (4, 4), None),
    "adam 8-bit": ((4, 4, 0, 0), (1, 1), 256),
}


def width_of(dtype):
    if dtype is None:
        return 0
    return (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).bits // 8


@functools.cache
def counted(parameters, widths, moments, block, stage, world):
    padded = (parameters + world - 1) // world
    first = tuple((padded if stage >= need else parameters) * width for need, width in zip((3, 2, 1, 1), widths))
    mine = (parameters, padded)[stage > 0]
    scales = 0 if block is None else (mine + block - 1) // block * 4 * len(moments)
    return first + (mine * sum(moments), scales)


"""
cached_counts.attempt = replace(cached_counts.attempt, source=CACHED + cached_counts.attempt.source)


# E9.2 activation_bytes

ALL_ACTIVATIONS = ("layers", "unfused", "grouped", "head", "errors")
IN_LAYERS = ("layers", "unfused", "grouped", "errors")
KEYS = "2 * width // heads * kv_heads * item + 4 * heads"
PAIRS = "(2 * width + heads * shape[\"sequence\"]) * item"
LAYER = "seen + (6 * width + 4 * shape[\"hidden\"]) * item"
HEAD = "2 * width * item + 4 * shape[\"vocabulary\"]"
RESULT = 'return shape["batch"] * shape["sequence"] * (shape["layers"] * layer + head)'
REFUSED = 'attention not in ("flash", "unfused") or width % heads or heads % kv_heads'


def activation(edits, loses, because, breaks):
    return edited("activation_bytes", edits, loses=loses, because=because, breaks=breaks)


formula_of_the_notes = activation(
    {RESULT: 'return shape["batch"] * shape["sequence"] * width * shape["layers"] * 2'},
    ALL_ACTIVATIONS,
    "a layer is thought to keep its output alone",
    "this decoder's forward pass saves for backward",
)
no_pairs_when_unfused = activation(
    {PAIRS: "2 * width * item"},
    ("unfused",),
    "attention is thought to keep nothing for pairs of positions",
    '`"flash"` or `"unfused"`',
)
pairs_with_flash = activation(
    {KEYS: KEYS + ' + heads * shape["sequence"] * item'},
    IN_LAYERS,
    "the probabilities are thought to stay with any attention",
    '`attention`: `"flash"` or `"unfused"`',
)
scores_and_probabilities = activation(
    {"heads * shape[\"sequence\"])": "2 * heads * shape[\"sequence\"])"},
    ("unfused",),
    "softmax is thought to need its input as well as its output",
    "A storage that several operations save counts once",
)
pairs_for_one_head = activation(
    {"heads * shape[\"sequence\"])": "shape[\"sequence\"])"},
    ("unfused",),
    "all heads are thought to share their probabilities",
    "within 10 % of what `saved_bytes` measures",
)
pairs_in_float32 = activation(
    {PAIRS: '2 * width * item + heads * shape["sequence"] * 4'},
    ("unfused",),
    "softmax is thought to widen",
    "within 10 % of what `saved_bytes` measures",
)
no_mlp = activation(
    {LAYER: "seen + 6 * width * item"},
    IN_LAYERS,
    "attention is thought to be all that keeps anything",
    "this decoder's forward pass saves for backward",
)
mlp_without_a_gate = activation(
    {"4 * shape[\"hidden\"]": "2 * shape[\"hidden\"]"},
    IN_LAYERS,
    "the MLP is taken for two layers with something between them",
    "this decoder's forward pass saves for backward",
)
silu_keeps_nothing = activation(
    {"4 * shape[\"hidden\"]": "3 * shape[\"hidden\"]"},
    IN_LAYERS,
    "the gate's activation is thought to be made in place",
    "this decoder's forward pass saves for backward",
)
hidden_is_four_widths = activation(
    {"4 * shape[\"hidden\"]": "16 * width"},
    IN_LAYERS,
    "every MLP is thought to be four widths wide",
    "a dictionary with the keys of `_small` above",
)
norms_keep_nothing = activation(
    {"6 * width": "4 * width"},
    IN_LAYERS,
    "a norm is thought to keep its statistics alone",
    "this decoder's forward pass saves for backward",
)
sums_are_kept = activation(
    {"6 * width": "8 * width"},
    IN_LAYERS,
    "an addition is thought to need what it added",
    "saves for backward",
)
three_inputs_for_three_projections = activation(
    {"6 * width": "8 * width + 0"},
    IN_LAYERS,
    "queries, keys and values are thought to keep an input each",
    "A storage that several operations save counts once",
)
keys_for_every_head = activation(
    {KEYS: "2 * width * item + 4 * heads"},
    ("grouped",),
    "flash attention is thought to repeat keys and values",
    "within 10 % of what `saved_bytes` measures",
)
keys_never_repeated = activation(
    {PAIRS: '(2 * width // heads * kv_heads + heads * shape["sequence"]) * item'},
    ("grouped",),
    "shared heads are thought to be shared in written-out attention",
    "within 10 % of what `saved_bytes` measures",
)
no_keys_at_all = activation(
    {KEYS: "4 * heads", PAIRS: 'heads * shape["sequence"] * item'},
    IN_LAYERS,
    "keys and values are thought to be a matter of inference",
    "this decoder's forward pass saves for backward",
)
no_logits = activation(
    {HEAD: "2 * width * item"},
    ("head",),
    "a loss is thought to be one number",
    "this decoder's forward pass saves for backward",
)
logits_in_their_dtype = activation(
    {"4 * shape[\"vocabulary\"]": "item * shape[\"vocabulary\"]"},
    ("head",),
    "the logits' dtype is taken for that of the log-probabilities",
    "within 10 % of what `saved_bytes` measures",
)
logits_twice = activation(
    {"4 * shape[\"vocabulary\"]": "(4 + item) * shape[\"vocabulary\"]"},
    ("head",),
    "the logits are thought to stay beside the log-probabilities",
    "saves for backward",
)
no_last_norm = activation(
    {HEAD: '4 * shape["vocabulary"]'},
    ("head",),
    "nothing is thought to stand between the last layer and the logits",
    "`\"layers\"` is 0 or more",
)
head_in_every_layer = activation(
    {RESULT: 'return shape["batch"] * shape["sequence"] * shape["layers"] * (layer + head)'},
    ("layers", "unfused", "grouped", "head", "errors"),
    "the head is thought to be a part of the layer",
    "`\"layers\"` is 0 or more",
)
always_float32 = activation(
    {'shape["dtype"].itemsize': "4"},
    ALL_ACTIVATIONS,
    "an activation is thought to be four bytes",
    '`"dtype"`, of weights and activations',
)
always_16_bits = activation(
    {'shape["dtype"].itemsize': "2"},
    ALL_ACTIVATIONS,
    "an activation is thought to be two bytes",
    "is `torch.float32` or `torch.bfloat16`",
)
elements = activation(
    {'shape["dtype"].itemsize': "1"},
    ALL_ACTIVATIONS,
    "elements are counted",
    "the **bytes** that this decoder's",
)
in_gibibytes = activation(
    {RESULT: RESULT + " // 2**30"},
    ALL_ACTIVATIONS,
    "memory is thought to come in GiB",
    "the **bytes** that this decoder's",
)
a_float = activation(
    {RESULT: RESULT.replace("return ", "return 1.0 * ")},
    ALL_ACTIVATIONS,
    "a size is thought to be any number",
    "returns a Python integer",
)
parameters_too = activation(
    {
        RESULT: "weights = 2 * width**2 + 2 * width * width // heads * kv_heads + 3 * width * shape[\"hidden\"]\n    "
        + RESULT
        + ' + item * (shape["layers"] * weights + width * shape["vocabulary"])',
    },
    ALL_ACTIVATIONS,
    "what autograd keeps of a product is thought to hold its weights",
    "and parameters do not count",
)
batch_left_out = activation(
    {RESULT: RESULT.replace('shape["batch"] * ', "")},
    ALL_ACTIVATIONS,
    "one sequence is counted",
    "the other numbers 1 or more",
)
empties_the_shape = activation(
    {'item = shape["dtype"].itemsize': 'item = shape.pop("dtype").itemsize'},
    ALL_ACTIVATIONS,
    "the caller's dictionary is taken for one's own",
    "which is not modified",
)
any_attention = activation(
    {REFUSED: "width % heads or heads % kv_heads"},
    ("errors",),
    "what is not flash is taken for unfused",
    "raises `ValueError` for any other `attention`",
)
any_width = activation(
    {REFUSED: 'attention not in ("flash", "unfused") or heads % kv_heads'},
    ("errors",),
    "heads are thought to be cut as it comes",
    "for a `width` that is not a multiple of `heads`",
)
any_kv_heads = activation(
    {REFUSED: 'attention not in ("flash", "unfused") or width % heads'},
    ("errors",),
    "heads are thought to be shared unevenly",
    "and for `heads` that are not a multiple of `kv_heads`",
)


@mistake(
    "activation_bytes",
    loses=ALL_ACTIVATIONS,
    because="a run on the meta device is taken for arithmetic",
    breaks="including `meta`. The estimate for a model of 7 billion parameters is as quick as this one",
)
def runs_without_memory(shape, attention="flash"):
    if attention not in ("flash", "unfused") or shape["width"] % shape["heads"] or shape["heads"] % shape["kv_heads"]:
        raise ValueError(attention)
    width, item = shape["width"], shape["dtype"].itemsize
    x = torch.empty(shape["batch"], shape["sequence"], width, dtype=shape["dtype"], device="meta")
    hidden = torch.empty(shape["batch"], shape["sequence"], shape["hidden"], dtype=shape["dtype"], device="meta")
    keys = 2 * x.nbytes // shape["heads"] * shape["kv_heads"] if attention == "flash" else 2 * x.nbytes
    pairs = 0 if attention == "flash" else shape["batch"] * shape["heads"] * shape["sequence"] ** 2 * item
    logits = shape["batch"] * shape["sequence"] * shape["vocabulary"] * 4
    return shape["layers"] * (6 * x.nbytes + 4 * hidden.nbytes + keys + pairs) + 2 * x.nbytes + logits


@mistake(
    "activation_bytes",
    loses=ALL_ACTIVATIONS,
    because="small shapes are measured, and large ones are thought to be in proportion",
    breaks="computes it: **no tensor is created**",
)
def scales_up_what_it_measures(shape, attention="flash"):
    if attention not in ("flash", "unfused") or shape["width"] % shape["heads"] or shape["heads"] % shape["kv_heads"]:
        raise ValueError(attention)
    one = saved_bytes({**shape, "layers": 1, "width": 64, "heads": 2, "kv_heads": 2, "hidden": 64, "batch": 1, "sequence": 4, "vocabulary": 9})
    return one * shape["layers"] * shape["batch"] * shape["sequence"] // 4 * shape["width"] // 64


@mistake(
    "activation_bytes",
    loses=("unfused", "grouped"),
    because="Korthikanti's bytes of a layer, without dropout, are thought to hold for any layer's attention",
    breaks="within 10 % of what `saved_bytes` measures",
)
def flash_with_pairs_on_top(shape, attention="flash"):
    if attention not in ("flash", "unfused") or shape["width"] % shape["heads"] or shape["heads"] % shape["kv_heads"]:
        raise ValueError(attention)
    item, tokens = shape["dtype"].itemsize, shape["batch"] * shape["sequence"]
    shared = shape["width"] // shape["heads"] * shape["kv_heads"]
    layer = tokens * item * (6 * shape["width"] + 2 * shared + 4 * shape["hidden"])
    if attention == "unfused":
        layer += 3 * item * shape["heads"] * tokens * shape["sequence"]
    return shape["layers"] * layer + tokens * (2 * item * shape["width"] + 4 * shape["vocabulary"])


@alternative("activation_bytes")
def line_by_line(shape, attention="flash"):
    """Every tensor that stays, by its sizes and the bytes of an element."""
    import math

    b, s, w, h, kv = (shape[key] for key in ("batch", "sequence", "width", "heads", "kv_heads"))
    d, rest = divmod(w, h)
    groups, uneven = divmod(h, kv)
    if rest or uneven:
        raise ValueError("heads do not divide")
    kept = [(b, s, w)] * 2  # norm_1 keeps x, the projections y
    if attention == "flash":
        kept += [(b, h, s, d), (b, kv, s, d), (b, kv, s, d)]
    elif attention == "unfused":
        kept += [(b, h, s, d)] + 2 * [(b, groups * kv, s, d)] + [(b, h, s, s)]
    else:
        raise ValueError(attention)
    kept += [(b, s, w)]  # out keeps its input
    kept += [(b, s, w)] * 2  # norm_2 and the two halves of the MLP
    kept += [(b, s, shape["hidden"])] * 4
    layer = sum(map(math.prod, kept))
    wide = torch.finfo(torch.float32).bits // 8
    last = 2 * b * s * w * shape["dtype"].itemsize + b * s * shape["vocabulary"] * wide
    return shape["layers"] * layer * shape["dtype"].itemsize + last


@alternative("activation_bytes")
def statistics_and_indices_too(shape, attention="flash"):
    """To the byte: what norms keep of each row, token ids, targets, and the log-sum-exp."""
    if attention != "flash" and attention != "unfused":
        raise ValueError(f"no attention {attention}")
    if shape["width"] % shape["heads"]:
        raise ValueError("width")
    if shape["heads"] % shape["kv_heads"]:
        raise ValueError("kv_heads")
    size = {torch.float32: 4, torch.bfloat16: 2}[shape["dtype"]]
    norm = 2 * (shape["width"] + 1) * size
    per_token = norm + 4 * shape["vocabulary"] + 16
    for _ in range(shape["layers"]):
        per_token += 2 * norm + size * (2 * shape["width"] + 4 * shape["hidden"])
        if attention == "flash":
            per_token += 2 * size * shape["kv_heads"] * (shape["width"] // shape["heads"]) + 4 * shape["heads"]
        else:
            per_token += 2 * size * shape["width"] + size * shape["sequence"] * shape["heads"]
    return 4 + per_token * shape["sequence"] * shape["batch"]


# E9.3 fits --------------------------------------------------------------------------------

ALL_OF_FITS = ("serving", "training", "free", "binding", "largest", "errors")
NO_SERVING = ("serving", "free", "binding", "largest", "errors")
NO_TRAINING = ("training", "free", "binding", "largest")
CACHE_OF_A_TOKEN = '2 * model["layers"] * model["kv_heads"] * model["head_dim"] * model["cache_bits"] // 8'
CAPACITY = '(10**9 if gpu["unit"] == "GB" else 2**30)'
TERMS_OF_THE_CACHE = "keys and the values of every token of every sequence, in every layer"

unbreakable_of_activation_bytes = [
    unbreakable("activation_bytes", "64 or more and at least 16 for each head", "what it is called with"),
]
unbreakable_of_fits = [
    unbreakable("fits", "a multiple of 0.25, greater than 0", "what it is called with"),
    unbreakable("fits", '`mode`: `"serve"` or `"train"`', "what it is called with"),
    unbreakable("fits", '`"head_dim"`: elements of a head for one token', "what it is called with"),
    unbreakable("fits", "`batch`: the number of sequences", "what it is called with"),
    unbreakable("fits", "`sequence`: tokens in each", "what it is called with"),
]


def another_cache(becomes: str, because: str, breaks: str = TERMS_OF_THE_CACHE, loses: tuple[str, ...] = NO_SERVING):
    return edited("fits", {CACHE_OF_A_TOKEN: becomes}, loses=loses, because=because, breaks=breaks)


every_head_has_keys = another_cache(
    CACHE_OF_A_TOKEN.replace("kv_heads", "heads"), "every head of queries is thought to have keys and values of its own",
    "which several query heads may share",
)  # fmt: skip
keys_without_values = another_cache(CACHE_OF_A_TOKEN.removeprefix("2 * "), "the cache is thought to hold keys alone")
bits_of_the_cache_as_bytes = another_cache(
    CACHE_OF_A_TOKEN.removesuffix(" // 8"), "bits are taken for bytes", '`"cache_bits"`: bits of each element of the KV cache'
)
cache_of_one_layer = another_cache(CACHE_OF_A_TOKEN.replace('model["layers"] * ', ""), "one layer is thought to have the cache")
cache_in_the_weights_format = another_cache(
    CACHE_OF_A_TOKEN.replace("cache_bits", "weight_bits"), "the cache is thought to be of the weights' format",
    '`"cache_bits"`: bits of each element of the KV cache',
)  # fmt: skip
cache_always_of_16_bits = another_cache(
    CACHE_OF_A_TOKEN.replace('model["cache_bits"]', "16"), "a cache is thought to be of 16 bits",
    '`"cache_bits"`: bits of each element of the KV cache',
)  # fmt: skip
heads_fill_the_width = another_cache(
    CACHE_OF_A_TOKEN.replace('model["head_dim"]', '(model["width"] // model["heads"])'),
    "a head is thought to be its share of the width",
    'other entries, such as `"width"`, are ignored. `"heads"` times `"head_dim"` need not equal the width',
)  # fmt: skip

one_cache_for_the_batch = edited(
    "fits",
    {"growing: batch * of_one": 'growing: of_one * (1 if mode == "serve" else batch)'},
    loses=("serving", "free", "binding", "errors"),
    because="a batch is thought to share one cache",
    breaks=TERMS_OF_THE_CACHE,
)

cache_of_one_token = edited(
    "fits",
    {"sequence * token_bytes(model, mode)": 'token_bytes(model, mode) * (1 if mode == "serve" else sequence)'},
    loses=NO_SERVING,
    because="the last token alone is thought to be kept",
    breaks=TERMS_OF_THE_CACHE,
)

weights_only = edited(
    "fits",
    {"growing: batch * of_one": "growing: 0", "(free + terms[growing]) // of_one": "batch if free >= 0 else 0"},
    loses=ALL_OF_FITS,
    because="a model is thought to take its weights and no more",
    breaks=TERMS_OF_THE_CACHE,
)

training_takes_the_weights_alone = edited(
    "fits",
    {'    if mode == "serve":\n        return {"weights"': '    if mode != "serve":\n        return {"weights": weights, "gradients": 0, "optimizer": 0}\n'
     '    if mode == "serve":\n        return {"weights"'},
    loses=NO_TRAINING,
    because="training is thought to take what serving does",
    breaks='`"gradients"`: as many bytes as the weights',
)

gradients_in_float32 = edited(
    "fits",
    {'"gradients": weights': '"gradients": 4 * model["parameters"]'},
    loses=("training", "free", "largest"),
    because="gradients are thought to be in float32 always",
    breaks='`"gradients"`: as many bytes as the weights',
)

no_master_copy = edited(
    "fits",
    {'8 if model["weight_bits"] == 32 else 12': "8"},
    loses=NO_TRAINING,
    because="two moments are thought to be all that an optimizer keeps",
    breaks="with 16-bit weights also a float32 master copy of them",
)

a_master_copy_of_float32 = edited(
    "fits",
    {'8 if model["weight_bits"] == 32 else 12': "12"},
    loses=NO_TRAINING,
    because="weights in float32 are thought to need a copy in float32",
    breaks="with 16-bit weights also a float32 master copy of them",
)

moments_in_the_weights_format = edited(
    "fits",
    {'8 if model["weight_bits"] == 32 else 12': 'model["weight_bits"] // 4 + (0 if model["weight_bits"] == 32 else 4)'},
    loses=NO_TRAINING,
    because="the moments of 16-bit weights are thought to be of 16 bits",
    breaks="AdamW's two moments, in float32",
)

activations_of_one_layer = edited(
    "fits",
    {'return model["layers"] * model["saved"]': 'return model["saved"]'},
    loses=NO_TRAINING,
    because="a layer is thought to reuse what the one before has saved",
    breaks='`"saved"`: bytes of activations that each layer saves for each token',
)

activations_of_one_sequence = edited(
    "fits",
    {"growing: batch * of_one": 'growing: of_one * (1 if mode == "train" else batch)'},
    loses=("training", "free", "binding"),
    because="a batch is thought to save what a sequence does",
    breaks="the bytes that all layers save, for every token of every sequence",
)

weight_bits_as_bytes = edited(
    "fits",
    {'model["weight_bits"] // 8)': 'model["weight_bits"])'},
    loses=ALL_OF_FITS,
    because="bits are taken for bytes",
    breaks='`"weight_bits"`: bits of each',
)

half_a_byte_is_none = edited(
    "fits",
    {'-(-model["parameters"] * model["weight_bits"] // 8)': 'model["parameters"] * model["weight_bits"] // 8'},
    loses=("serving", "errors"),
    because="what is left over is thought to need no room",
    breaks="rounded up to a whole byte",
)

every_card_in_gib = edited(
    "fits",
    {CAPACITY: "2**30"},
    loses=("free", "largest"),
    because="a datasheet's 80 GB are thought to be 80 GiB",
    breaks='`"GB"` (10^9 bytes',
)

every_card_in_gb = edited(
    "fits",
    {CAPACITY: "10**9"},
    loses=("free", "largest"),
    because="GiB is thought to be another way to write GB",
    breaks='`"GiB"` (2^30 bytes)',
)

whole_gigabytes = edited(
    "fits",
    {'int(gpu["memory"] * ' + CAPACITY + ")": 'int(gpu["memory"]) * ' + CAPACITY},
    loses=("free", "largest"),
    because="cards are thought to come in whole gigabytes",
    breaks="a multiple of 0.25, greater than 0",
)

no_reserve = edited(
    "fits",
    {'"reserve": gpu["reserve_mib"] * 2**20': '"reserve": 0'},
    loses=("serving", "training", "free", "largest", "errors"),
    because="all of a card is thought to be the model's",
    breaks='and `"reserve_mib"`, an integer of 0 or more: the memory that the driver and the libraries take',
)

reserve_shown_and_not_counted = edited(
    "fits",
    {"capacity - sum(terms.values())": 'capacity - sum(terms.values()) + terms["reserve"]'},
    loses=("free", "largest"),
    because="the reserve is written down and left out of the sum",
    breaks="the bytes of the card minus the sum of the terms",
)

reserve_in_millions = edited(
    "fits",
    {'gpu["reserve_mib"] * 2**20': 'gpu["reserve_mib"] * 10**6'},
    loses=("serving", "training", "free", "largest", "errors"),
    because="MiB are taken for MB",
    breaks='`"reserve"`: in bytes',
)

exactly_full_is_too_full = edited(
    "fits",
    {"free >= 0": "free > 0"},
    loses=("free",),
    because="a full card is thought to be too full",
    breaks='`"fits"`: whether the terms fit. A job that fills the card exactly fits',
)

nothing_is_free_on_a_small_card = edited(
    "fits",
    {'"free": free,': '"free": max(free, 0),'},
    loses=("free",),
    because="what is missing is thought to be of no interest",
    breaks="negative where the card is too small",
)

the_reserve_binds = edited(
    "fits",
    {'(name for name in terms if name != "reserve")': "terms"},
    loses=("binding",),
    because="the reserve is taken for a term that one could shrink",
    breaks="the largest term except the reserve, which cannot be changed",
)

the_last_of_equals_binds = edited(
    "fits",
    {'(name for name in terms if name != "reserve")': 'reversed([name for name in terms if name != "reserve"])'},
    loses=("binding",),
    because="of equal terms the last is named",
    breaks="of equal terms the first in the order above",
)

binds_where_it_does_not_fit = edited(
    "fits",
    {'"binding": max(': '"binding": None if free >= 0 else max('},
    loses=("binding",),
    because="a job that fits is thought to have no largest term",
    breaks="the name of the largest term",
)

what_grows_binds = edited(
    "fits",
    {'max((name for name in terms if name != "reserve"), key=terms.get)': "growing"},
    loses=("binding",),
    because="only the batch is thought to be anyone's to change",
    breaks="the name of the largest term",
)

as_many_more = edited(
    "fits",
    {"(free + terms[growing]) // of_one": "free // of_one"},
    loses=("largest",),
    because="how many more would fit is taken for how many do",
    breaks="the largest batch that fits, independent of `batch`",
)

a_negative_batch = edited(
    "fits",
    {"max(0, (free + terms[growing]) // of_one)": "(free + terms[growing]) // of_one"},
    loses=("largest",),
    because="a division is thought to know that there are no negative batches",
    breaks="0 where not even one sequence fits",
)

at_least_one = edited(
    "fits",
    {"max(0, (free": "max(1, (free"},
    loses=("largest",),
    because="one sequence is thought to fit always",
    breaks="0 where not even one sequence fits",
)

one_too_many = edited(
    "fits",
    {"(free + terms[growing]) // of_one": "-(-(free + terms[growing]) // of_one)"},
    loses=("largest",),
    because="a part of a sequence is counted as one",
    breaks="the largest batch that fits",
)

sought_up_to_a_bound = edited(
    "fits",
    {"max(0, (free + terms[growing]) // of_one)": "min(2**16, max(0, (free + terms[growing]) // of_one))"},
    loses=("largest",),
    because="no batch is thought to be larger than where the search ends",
    breaks="the largest batch that fits, independent of `batch`",
)

exactly_full_is_one_too_many = edited(
    "fits",
    {"(free + terms[growing]) // of_one": "(free + terms[growing] - 1) // of_one"},
    loses=("largest",),
    because="the last byte is thought to have to stay free",
    breaks="A job that fills the card exactly fits",
)

no_more_than_asked_for = edited(
    "fits",
    {"max(0, (free + terms[growing]) // of_one)": "min(batch, max(0, (free + terms[growing]) // of_one))"},
    loses=("largest",),
    because="a batch larger than the one asked about is not thought to be asked for",
    breaks="independent of `batch`",
)

bytes_as_floats = edited(
    "fits",
    {'-(-model["parameters"] * model["weight_bits"] // 8)': 'model["parameters"] * model["weight_bits"] / 8'},
    loses=("serving", "training", "free", "largest", "errors"),
    because="a division is thought to give an int where it leaves nothing over",
    breaks="all bytes and counts are of type `int`, and exact",
)

fits_as_a_number = edited(
    "fits",
    {'"fits": free >= 0': '"fits": int(free >= 0)'},
    loses=("free",),
    because="1 is taken for True",
    breaks='`"fits"` is a `bool`',
)

all_terms_in_every_mode = edited(
    "fits",
    {"terms = {**fixed,": 'terms = {"weights": 0, "cache": 0, "gradients": 0, "optimizer": 0, "activations": 0, **fixed,'},
    loses=("serving", "training", "errors"),
    because="a term of no bytes is thought to be better than none",
    breaks='to **serve** `"weights"`, `"cache"`, `"reserve"`',
)

says_the_capacity_too = edited(
    "fits",
    {'        "free": free,': '        "free": free, "capacity": capacity,'},
    loses=ALL_OF_FITS,
    because="another entry is thought to hurt nobody",
    breaks="returns a dictionary with exactly five entries",
)

writes_into_the_model = edited(
    "fits",
    {"    capacity = int": '    model["bytes"] = model["parameters"] * model["weight_bits"] / 8\n    capacity = int'},
    loses=ALL_OF_FITS,
    because="the caller's dictionary is taken for scratch paper",
    breaks="`model`: a dictionary, which is not modified",
)

converts_the_card = edited(
    "fits",
    {'    capacity = int(gpu["memory"] * ': '    gpu["memory"] *= ', CAPACITY + ")": CAPACITY + '\n    capacity = int(gpu["memory"])'},
    loses=ALL_OF_FITS,
    because="the caller's dictionary is taken for scratch paper",
    breaks="`gpu`: a dictionary, which is not modified",
)


def takes(line: dict[str, str], because: str, breaks: str):
    return edited("fits", line, loses=("errors",), because=because, breaks=breaks)


takes_any_mode = takes(
    {'mode not in ("serve", "train")': "mode is None"}, "what is not serving is thought to be training", "raises `ValueError` for another mode"
)
takes_any_unit = takes(
    {'gpu["unit"] not in ("GB", "GiB")': "False"}, "what is not GB is thought to be GiB", "raises `ValueError` for another mode or unit"
)
takes_any_case = takes(
    {'gpu["unit"] not in ("GB", "GiB")': 'gpu["unit"].lower() not in ("gb", "gib")'}, "case is thought to mean nothing in a unit: Gb is bits",
    "raises `ValueError` for another mode or unit",
)  # fmt: skip
takes_no_sequence = takes({"batch < 1 or": "batch < 0 or"}, "an empty batch is thought to be a batch", "for `batch` or `sequence` less than 1")
takes_no_token = takes({"or sequence < 1": "or sequence < 0"}, "no token is thought to be a sequence", "for `batch` or `sequence` less than 1")
takes_any_share = takes(
    {'model["heads"] % model["kv_heads"]': "False"}, "heads are thought to share keys as they come",
    '`"kv_heads"` that do not divide `"heads"`',
)  # fmt: skip
takes_any_width = takes(
    {'model["weight_bits"] not in ((4, 8, 16, 32) if mode == "serve" else (16, 32))': 'mode == "train" and model["weight_bits"] in (4, 8)'},
    "weights are thought to be of any width", "for bit widths that are not listed above",
)  # fmt: skip
takes_any_cache = takes(
    {'model["cache_bits"] not in (8, 16, 32)': "False"}, "a cache is thought to be of any width", "for bit widths that are not listed above"
)
trains_any_weights = takes(
    {'((4, 8, 16, 32) if mode == "serve" else (16, 32))': "(4, 8, 16, 32)"}, "quantised weights are thought to train like others",
    "for training with weights of 4 or 8 bits",
)  # fmt: skip
looks_at_the_cache_when_serving_only = takes(
    {'model["cache_bits"] not in (8, 16, 32)': 'mode == "serve" and model["cache_bits"] not in (8, 16, 32)'},
    "what training does not use is thought not to matter", "whether the mode uses them or not",
)  # fmt: skip


@alternative("fits")
def with_fractions_and_bits(model, gpu, mode, batch, sequence):
    from fractions import Fraction

    size = {"GB": 1000**3, "GiB": 1024**3}.get(gpu["unit"])
    allowed = {"serve": {4, 8, 16, 32}, "train": {16, 32}}.get(mode)
    possible = size and allowed and min(batch, sequence) > 0 and not model["heads"] % model["kv_heads"]
    if not possible or model["weight_bits"] not in allowed or model["cache_bits"] not in {8, 16, 32}:
        raise ValueError("no such job, or no such card")

    def terms_of(sequences):
        n, bits, tokens = model["parameters"], model["weight_bits"], sequences * sequence * model["layers"]
        weights = (n * bits + 7) // 8
        if mode == "serve":
            bits_of_a_token = model["kv_heads"] * model["head_dim"] * model["cache_bits"]
            sizes = [("weights", weights), ("cache", tokens * (bits_of_a_token + bits_of_a_token) // 8)]
        else:
            copies = 2 if bits == 32 else 3
            sizes = [("weights", weights), ("gradients", weights), ("optimizer", 4 * copies * n), ("activations", tokens * model["saved"])]
        return dict(sizes + [("reserve", gpu["reserve_mib"] * 1024 * 1024)])

    card = Fraction(gpu["memory"]) * size
    terms, none = terms_of(batch), terms_of(0)
    one = sum(terms_of(1).values()) - sum(none.values())
    sizes = [count for name, count in terms.items() if name != "reserve"]
    free = int(card) - sum(terms.values())
    return dict(
        largest=max(int((card - sum(none.values())) // one), 0), terms=terms, binding=list(terms)[sizes.index(max(sizes))],
        fits=not free < 0, free=free,
    )  # fmt: skip


@alternative("fits")
def by_bisection(model, gpu, mode, batch, sequence):
    if mode not in {"serve": 1, "train": 2} or gpu["unit"] not in ["GB", "GiB"]:
        raise ValueError(mode)
    if not (batch >= 1 <= sequence) or model["heads"] / model["kv_heads"] != model["heads"] // model["kv_heads"]:
        raise ValueError("counts")
    if model["weight_bits"] not in [4, 8, 16, 32][2 * (mode == "train") :] or model["cache_bits"] not in [8, 16, 32]:
        raise ValueError("bits")

    def terms(batch):
        found = {"weights": model["parameters"] * model["weight_bits"]}
        if mode == "train":
            found["gradients"] = found["weights"]
            found["optimizer"] = model["parameters"] * (64 if model["weight_bits"] == 32 else 96)
            found["activations"] = 8 * batch * sequence * model["layers"] * model["saved"]
        else:
            numbers = model["kv_heads"] * model["head_dim"] * model["layers"]
            found["cache"] = sum(batch * sequence * numbers * model["cache_bits"] for _ in ("keys", "values"))
        found["reserve"] = 8 * gpu["reserve_mib"] * 2**20
        return {name: bits // 8 + bool(bits % 8) for name, bits in found.items()}

    quarters = round(gpu["memory"] * 4)
    capacity = quarters * {"GB": 250_000_000, "GiB": 2**28}[gpu["unit"]]
    low, high = 0, 1
    while sum(terms(high).values()) <= capacity:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sum(terms(middle).values()) <= capacity else (low, middle)
    of_this = terms(batch)
    needed = sum(of_this.values())
    del of_this["reserve"]
    largest_term = sorted(of_this, key=lambda name: -of_this[name])[0]
    return {"terms": terms(batch), "free": capacity - needed, "fits": needed <= capacity, "binding": largest_term, "largest": low}


# E9.4 lora_memory -------------------------------------------------------------------------

ALL_OF_LORA = ("adapters", "frozen", "packed", "held", "account", "names", "errors")
NO_PACKED = ("packed", "names")
NO_ACCOUNT = ("account", "names")
NO_FROZEN = ("frozen", "names")
BASE = "        return self.layer(x) + self.scaling"
SCALES = "        scales = blocks.abs().amax(1) / (2 ** (bits - 1) - 1)\n"
ROWS_OF_64 = "        blocks = torch.nn.functional.pad(numbers, (0, -len(numbers) % 64)).view(-1, 64)\n"
PRODUCT = "UnpackedTwice.apply(x, self)"
NAMED = 'name.split(".")[-1] == target'
CHECK = "    if rank < 1 or bits not in (16, 8, 4):\n"
RAISES = "        if not meant or not all(isinstance(module, torch.nn.Linear) for module in meant):\n"

unbreakable_of_lora_memory = [
    unbreakable("lora_memory", "`rank`: the LoRA rank, an integer", "what it is called with"),
    unbreakable("lora_memory", "`targets`: a list of one name or more", "what it is called with"),
    unbreakable("lora_memory", "either one at a tie", "it leaves a choice"),
    unbreakable("lora_memory", "During either pass there may be one", "it allows something"),
    unbreakable("lora_memory", "the layer computes with the dequantized weights", "that it does is what the clauses after it say in numbers"),
    unbreakable("lora_memory", "A block of zeros is dequantized to zeros", "0 / 0 is no number, which becomes the integer 0 on many machines, by luck"),
    unbreakable("lora_memory", "an `nn.Module` on the host or on a card, all parameters in float32, no buffers", "what it is called with"),
    unbreakable("lora_memory", "Each is an `nn.Linear`, with or without bias, whose weight no other layer shares", "what it is called with"),
]


def lora(edits: dict[str, str], loses: tuple[str, ...], because: str, breaks: str):
    return edited("lora_memory", edits, loses=loses, because=because, breaks=breaks)


the_bias_trains = lora(
    {"        self.scaling = 16 / rank\n": "        self.scaling = 16 / rank\n        if layer.bias is not None:\n            layer.bias.requires_grad_()\n"},
    ("adapters", "frozen", "packed", "account", "names", "errors", "held"), "a bias is so small that it may as well train", "only these parameters require gradients",
)  # fmt: skip
frozen_by_copies = lora(
    {"    model.requires_grad_(False)\n": "    for module in model.modules():\n        for name, parameter in module._parameters.items():\n"
     "            if parameter is not None:\n                module._parameters[name] = torch.nn.Parameter(parameter.detach().clone(), False)\n"},
    ("frozen", "packed", "account", "names"), "a frozen parameter is thought to have to be a new one", "every parameter that is not packed remains the same object",
)  # fmt: skip
no_gradient_through_the_frozen = lora(
    {BASE: "        with torch.no_grad():\n            y = self.layer(x)\n        return y + self.scaling"},
    NO_FROZEN, "a frozen layer is thought to need no backward pass, and to save its activations",
    "Gradients still reach them through every frozen layer in between",
)  # fmt: skip
without_scaling = lora(
    {"self.scaling = 16 / rank": "self.scaling = 1.0"}, ALL_OF_LORA, "the adapters' scale is forgotten", "plus `16 / rank` times"
)
b_random = lora(
    {"torch.nn.Parameter(torch.zeros(rows, rank, ": "torch.nn.Parameter(torch.randn(rows, rank, "}, ALL_OF_LORA,
    "both matrices are thought to start like any others", "`lora_b`, `(out_features, rank)`, zeros",
)  # fmt: skip
a_zero_as_well = lora(
    {"torch.randn(rank, columns, ": "torch.zeros(rank, columns, "}, ALL_OF_LORA, "two zeros are thought to be safer than one: neither then gets a gradient",
    "`lora_a`, of shape `(rank, in_features)`, random",
)  # fmt: skip
a_constant = lora(
    {"torch.randn(rank, columns, ": "torch.ones(rank, columns, "}, ALL_OF_LORA, "any start is thought to do: all rows then learn the same",
    "`lora_a`, of shape `(rank, in_features)`, random",
)  # fmt: skip
on_the_host = lora(
    {"torch.randn(rank, columns, device=layer.weight.device)": "torch.randn(rank, columns)",
     "torch.zeros(rows, rank, device=layer.weight.device)": "torch.zeros(rows, rank)"},
    ("held",), "new parameters are thought to find the model's card by themselves", "in float32, on the model's device",
)  # fmt: skip
two_dimensions_only = lora(
    {BASE + " * (x @ self.lora_a.T @ self.lora_b.T)": "        return torch.addmm(self.layer(x), x @ self.lora_a.T, self.lora_b.T, alpha=self.scaling)"},
    ALL_OF_LORA, "a batch is thought to be a matrix", "given `x` of any number of dimensions",
)  # fmt: skip
flattens_what_it_is_given = lora(
    {BASE + " * (x @ self.lora_a.T @ self.lora_b.T)": "        added = x.flatten(0, -2) @ self.lora_a.T @ self.lora_b.T\n"
     "        return self.layer(x) + self.scaling * added.unflatten(0, x.shape[:-1])"},
    ALL_OF_LORA, "all but the last dimension is thought to be one dimension or more", "given `x` of any number of dimensions",
)  # fmt: skip
bias_forgotten = lora(
    {"        return y if self.bias is None else y + self.bias\n": "        return y\n"}, ALL_OF_LORA,
    "a packed layer is thought to be a product", "the module returns the output of the original layer",
)  # fmt: skip

by_a_part_of_the_name = lora(
    {NAMED: "target in name.split('.')[-1]"}, ("names", "errors"), "a name that contains another is thought to mean it",
    "neither `blocks.0.q_gate` nor `q.norm`",
)  # fmt: skip
by_the_end_of_the_name = lora(
    {NAMED: "name.endswith(target)"}, ("names", "errors"), "a name that ends like another is thought to mean it",
    "A layer is a target when the last part of its dotted name is one of them",
)  # fmt: skip
under_one_name_only = lora(
    {"    for name, module in list(model.named_modules(remove_duplicate=False)):": "    for name, module in list(model.named_modules()):"},
    ("names",), "a layer is thought to have one name", "A layer that has several names",
)  # fmt: skip
under_the_names_that_are_meant = lora(
    {"        if module in adapted:\n": '        if module in adapted and name.split(".")[-1] in targets:\n'}, ("names",),
    "a layer is thought to be another one under another name", "is a target if one of them matches, and is adapted once, under all of them",
)  # fmt: skip
two_adapters_for_one_layer = lora(
    {"model.set_submodule(name, adapted[module])": "model.set_submodule(name, Adapted(module, rank, bits))"}, ("names",),
    "each name is thought to need an adapter", "is a target if one of them matches, and is adapted once, under all of them",
)  # fmt: skip

the_unpacked_weight_is_saved = lora(
    {PRODUCT: "x @ self.weight().T"}, ("held",), "what is unpacked for a product is thought to be gone after it", "neither dequantized nor merged with its adapter"
)
saved_by_its_own_function = lora(
    {"        ctx.packed = packed\n        return x @ packed.weight().T": "        ctx.whole = packed.weight()\n        return x @ ctx.whole.T",
     "gradient @ ctx.packed.weight(), None": "gradient @ ctx.whole, None"},
    ("held",), "unpacking twice is thought to be a waste", "no other copy of a weight is held",
)  # fmt: skip
merged = lora(
    {BASE + " * (x @ self.lora_a.T @ self.lora_b.T)": "        layer, added = self.layer, self.scaling * self.lora_b @ self.lora_a\n"
     "        weight = layer.weight() if isinstance(layer, Packed) else layer.weight\n        return torch.nn.functional.linear(x, weight + added, layer.bias)"},
    ("held",), "one product with the sum is thought to be cheaper than two thin ones", "neither dequantized nor merged with its adapter",
)  # fmt: skip
the_whole_weight_stays = lora(
    {"        self.bits, self.shape": "        self.__dict__['before'] = layer\n        self.bits, self.shape"}, ("held",),
    "a copy to go back to is thought to cost nothing", "the weights that were packed are freed",
)  # fmt: skip
the_layer_stays = lora(
    {"        self.bits, self.shape": "        self.before = layer\n        self.bits, self.shape"}, ("packed", "held", "account", "names"),
    "a copy to go back to is thought to cost nothing", "the weights that were packed are freed",
)  # fmt: skip

one_scale_for_all = lora(
    {SCALES: SCALES.replace("blocks.abs().amax(1)", "blocks.abs().amax().expand(len(blocks)).clone()")}, NO_PACKED,
    "one scale is thought to do for a whole weight", "a block's scale, in float32, is its largest absolute value",
)  # fmt: skip
one_block_for_each_row = lora(
    {ROWS_OF_64: "        blocks = layer.weight.detach()\n", "scales.repeat_interleave(64)": "scales.repeat_interleave(self.shape[1])"},
    ("packed", "account", "names"), "a block is thought to be a row", "a weight is read in row-major order, in blocks of 64 elements; the last may be shorter, and a block may span rows",
)  # fmt: skip
rounded_down = lora({".round()": ".floor()"}, NO_PACKED, "a conversion to integers is thought to round", "each element becomes the integer nearest to its quotient by the scale")
all_patterns_used = lora(
    {"(2 ** (bits - 1) - 1)": "2 ** (bits - 1)", ".round()": ".round().clamp(max=2 ** (bits - 1) - 1)"}, NO_PACKED,
    "the one integer more below zero is put to use", "divided by 127, or by 7 for 4 bits",
)  # fmt: skip
rounded_and_kept_in_float32 = lora(
    {'"integers", nearest if bits == 8 else in_pairs(nearest)': '"integers", nearest.float()', "self.integers if self.bits == 8 else out_of_pairs(self.integers)": "self.integers",
     "scales = sum(buffer.nbytes for buffer in model.buffers() if buffer.is_floating_point())": 'scales = sum(buffer.nbytes for name, buffer in model.named_buffers() if name.endswith("scales"))'},
    ("packed", "held", "account", "names"), "rounded numbers are thought to be packed", "8-bit integers are stored in `torch.int8`",
)  # fmt: skip
a_byte_for_four_bits = lora(
    {'nearest if bits == 8 else in_pairs(nearest)': "nearest", "self.integers if self.bits == 8 else out_of_pairs(self.integers)": "self.integers"},
    ("packed", "held", "account", "names"), "an int8 that holds 4 bits is thought to be 4 bits", "4-bit integers two in each `torch.uint8`",
)  # fmt: skip
scales_in_sixteen_bits = lora(
    {'"scales", scales)': '"scales", scales.half())', "self.scales.repeat": "self.scales.float().repeat"}, ("packed", "account", "names"), "scales are thought to need no more bits than weights",
    "a block's scale, in float32",
)  # fmt: skip
no_buffers = lora(
    {'self.register_buffer("scales", scales)': 'self.scales = scales', 'self.register_buffer("integers", ': 'self.integers = ('},
    ("packed", "account", "names"), "an attribute is thought to belong to the model, which neither moves nor saves it",
    "integers and scales are the model's only buffers",
)  # fmt: skip
the_embedding_is_rounded = lora(
    {"    for name, module in list": "    if bits < 16:\n        next(model.parameters()).data.mul_(64).round_().div_(64)\n    for name, module in list"},
    ALL_OF_LORA, "an embedding is thought to be a layer like others", "embeddings, norms, biases, layers that are not targets",
)  # fmt: skip
sixteen_bits_are_bfloat16 = lora(
    {"self.layer = layer if bits == 16 else": "self.layer = rounded(layer) if bits == 16 else",
     "class Adapted(": "def rounded(layer):\n    layer.weight.data = layer.weight.data.bfloat16().float()\n    return layer\n\n\nclass Adapted("},
    ("frozen", "packed", "names"), "16 bits are taken for a format to round to", "with 16 the targets' weights remain too",
)  # fmt: skip

bits_without_scales = lora({'        "scales": scales,': '        "scales": 0,'}, NO_ACCOUNT, "bits / 8 is thought to be all", '`"scales"`, 0 for 16 bits')
scales_among_the_frozen = lora(
    {'everything - trained - scales': "everything - trained"}, NO_ACCOUNT, "what is counted apart is counted once more", "all parameters that are not trained, each once, and the packed integers"
)
tied_counted_twice = lora(
    {"for tensor in (*model.parameters(), *model.buffers())": "for tensor in (*(p for m in model.modules() for p in m._parameters.values() if p is not None), *model.buffers())"},
    NO_ACCOUNT, "a parameter in two modules is thought to be two", "Two modules may share one parameter",
)  # fmt: skip
gradients_of_everything = lora(
    {'"gradients": trained': '"gradients": everything - scales'}, NO_ACCOUNT, "what is frozen is thought to have gradients", '`"gradients"`, of a backward pass'
)
one_moment = lora({"2 * trained": "trained"}, NO_ACCOUNT, "one moment is forgotten", '`"optimizer"`, AdamW\'s two moments')
in_kilobytes = lora(
    {'"adapters": trained': '"adapters": trained / 1024'}, NO_ACCOUNT, "bytes are thought to be too many to read", "returns a dictionary of bytes, integers of type `int`"
)

rank_of_nothing = lora({CHECK: "    if bits not in (16, 8, 4):\n"}, ("errors",), "a rank of 0 is thought to fail by itself", "when `rank` is less than 1")
any_bits = lora({CHECK: "    if rank < 1:\n"}, ("errors",), "any number of bits is thought to pack", "when `bits` is not 16, 8 or 4")
no_such_name = lora({"not meant or ": ""}, ("errors",), "a name of nothing is thought to hurt nobody", "when a target names no module")
only_some_linear = lora(
    {RAISES: "        meant = [module for module in meant if isinstance(module, torch.nn.Linear)]\n        if not meant and not layers:\n"}, ("errors",),
    "what is no linear layer is thought to be left out by itself", "when it names one that is not an `nn.Linear`",
)  # fmt: skip
frozen_before_the_error = lora(
    {CHECK: "    model.requires_grad_(False)\n" + CHECK}, ("errors",), "an error is thought to undo what came before it", "and leaves the model unchanged"
)
four_bits_unasked = lora({"targets, bits=16)": "targets, bits=4)"}, ("frozen", "packed", "account"), "packing is thought to be the rule", "`lora_memory(model, rank, targets, bits=16)`")


@alternative("lora_memory")
def the_layer_itself_is_changed(model, rank, targets, bits=16):
    import torch.utils.checkpoint
    from torch import nn

    if int(rank) < 1 or bits not in {4, 8, 16}:
        raise ValueError("rank or bits")
    every = list(model.named_modules(remove_duplicate=False))
    for target in targets:
        kinds = [type(module) for name, module in every if name and name.rpartition(".")[2] == target]
        if not kinds or any(not issubclass(kind, nn.Linear) for kind in kinds):
            raise ValueError(target)
    meant = {id(module): module for name, module in every if name.rpartition(".")[2] in targets}

    def unpacked(layer):
        integers = layer.packed
        if integers.dtype is torch.uint8:
            integers = torch.cat(((integers % 16)[:, None], (integers // 16)[:, None]), 1).reshape(-1).to(torch.int32) - 7
        size = layer.out_features * layer.in_features
        by_block = layer.block[torch.arange(size, device=layer.block.device) // 64]
        return (integers[:size].float() * by_block).reshape(layer.out_features, layer.in_features)

    class Low(nn.Linear):
        def forward(self, x):
            if hasattr(self, "packed"):
                product = lambda x: nn.functional.linear(x, unpacked(self), self.bias)  # noqa: E731
                y = torch.utils.checkpoint.checkpoint(product, x, use_reentrant=False)
            else:
                y = nn.functional.linear(x, self.weight, self.bias)
            return y + nn.functional.linear(nn.functional.linear(x, self.lora_a), self.lora_b) * 16 / rank

    frozen = {id(parameter): parameter for parameter in model.parameters()}
    for parameter in frozen.values():
        parameter.requires_grad = False
    account = {"adapters": 0, "scales": 0}
    for layer in meant.values():
        weight = layer.weight
        layer.lora_a = nn.Parameter(weight.new_empty(rank, layer.in_features).uniform_(-0.1, 0.1))
        layer.lora_b = nn.Parameter(weight.new_zeros(layer.out_features, rank))
        account["adapters"] += layer.lora_a.nbytes + layer.lora_b.nbytes
        layer.__class__ = Low
        if bits == 16:
            continue
        most, flat = {8: 127.0, 4: 7.0}[bits], weight.detach().reshape(-1)
        block = torch.stack([part.abs().max() / most for part in flat.split(64)])
        quotients = torch.cat([part / (scale if scale else 1) for part, scale in zip(flat.split(64), block)])
        integers = torch.round(quotients).to(torch.int8)
        if bits == 4:
            integers = (integers + 7).to(torch.uint8)
            if len(integers) % 2:
                integers = torch.cat((integers, integers[:1]))
            integers = integers[0::2] + 16 * integers[1::2]
        del layer.weight
        frozen.pop(id(weight))
        layer.register_buffer("packed", integers)
        layer.register_buffer("block", block)
        account["scales"] += 4 * len(block)
    del weight
    packed = sum(buffer.nbytes for buffer in model.buffers()) - account["scales"]
    account["frozen"] = packed + sum(4 * parameter.numel() for parameter in frozen.values())
    return account | {"gradients": account["adapters"], "optimizer": 2 * account["adapters"]}


@alternative("lora_memory")
def with_hooks_on_what_is_saved(model, rank, targets, bits=16):
    import functools

    nn, functional = torch.nn, torch.nn.functional
    if rank <= 0 or bits not in [4, 8, 16]:
        raise ValueError
    found = []
    for target in targets:
        own = [m for n, m in model.named_modules(remove_duplicate=False) if ("." + n).endswith("." + target) and n and "." not in target]
        if len(own) == 0:
            raise ValueError(f"nothing is called {target}")
        for module in own:
            if not isinstance(module, nn.Linear):
                raise ValueError(f"{target} is a {type(module).__name__}")
            if module not in found:
                found.append(module)

    def unpack(layer):
        numbers = layer.numbers
        if bits == 4:
            numbers = torch.stack(((numbers & 240) >> 4, numbers & 15), -1).flatten().short() - 8
        numbers = functional.pad(numbers.float(), (0, 64))[: 64 * len(layer.scale)].view(-1, 64) * layer.scale
        return numbers.flatten()[: layer.rows * layer.columns].view(layer.rows, layer.columns)

    class LoRA(nn.Module):
        def __init__(self, linear):
            super().__init__()
            weight = linear._parameters["weight"]
            self.rows, self.columns = weight.shape
            self.lora_a = nn.Parameter(nn.init.kaiming_uniform_(torch.empty_like(weight[:1]).repeat(rank, 1), a=5**0.5))
            self.lora_b = nn.Parameter(torch.zeros_like(weight[:, :1]).repeat(1, rank))
            self.register_parameter("bias", linear.bias)
            if bits == 16:
                self.register_parameter("weight", weight)
                return
            chunks = functional.pad(weight.data.ravel(), (0, (64 - weight.numel() % 64) % 64)).unflatten(0, (-1, 64))
            scale = chunks.abs().max(-1, keepdim=True).values / (127 if bits == 8 else 7)
            numbers = torch.nan_to_num(chunks / scale).round().ravel()[: weight.numel()]
            if bits == 8:
                numbers = numbers.char()
            else:
                halves = functional.pad(numbers + 8, (0, weight.numel() & 1), value=8.0).byte()
                numbers = halves[::2] * 16 + halves[1::2]
            self.register_buffer("scale", scale)
            self.register_buffer("numbers", numbers.clone())

        def forward(self, x):
            small = functional.linear(functional.linear(x, self.lora_a), self.lora_b).mul(16).div(rank)
            if bits == 16:
                return functional.linear(x, self.weight, self.bias) + small
            def again(marker):
                return unpack(self).T if marker == "turned" else marker

            shape = (self.columns, self.rows)
            with torch.autograd.graph.saved_tensors_hooks(lambda saved: "turned" if tuple(saved.shape) == shape else saved, again):
                y = x.reshape(-1, self.columns).mm(unpack(self).T).view(*x.shape[:-1], self.rows)
            return (y if self.bias is None else y + self.bias) + small

    for parameter in model.parameters():
        parameter.requires_grad_(False)
    replacements = [LoRA(linear) for linear in found]
    for module in list(model.modules()):
        if isinstance(module, LoRA):
            continue
        for name in list(module._modules):
            if module._modules[name] in found:
                module._modules[name] = replacements[found.index(module._modules[name])]
    total = functools.reduce(lambda count, tensor: count + tensor.numel() * tensor.element_size(), model.parameters(), 0)
    trains = sum(p.numel() * 4 for p in model.parameters() if p.requires_grad)
    scales = sum(r.scale.numel() * 4 for r in replacements if bits < 16)
    numbers = sum(r.numbers.numel() for r in replacements if bits < 16)
    return dict(frozen=total - trains + numbers, scales=scales, adapters=trains, gradients=trains, optimizer=trains + trains)

SEEN = "seen = 2 * width // heads * kv_heads * item + 4 * heads"
NEAREST = "nearest = (blocks / scales.where(scales > 0, 1)[:, None]).round().to(torch.int8)"
A_TENTH = "of a head of 8 or more it is less than the tenth that is allowed"
ZEROS = "a block of zeros is zeros by any divisor, and NaN becomes 0 as an int8"

said_of_mutants = [
    *(equivalent_mutant("activation_bytes", SEEN, SEEN.replace("4 * heads", other), because=A_TENTH) for other in ("3 * heads", "5 * heads")),
    *(
        equivalent_mutant("lora_memory", NEAREST, NEAREST.replace("> 0, 1", divisor), because=ZEROS)
        for divisor in ("> (-1), 1", "> 0, 0", "> 0, 2", ">= 0, 1")
    ),
]
