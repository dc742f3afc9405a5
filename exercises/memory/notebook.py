# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: nbgrader,tags
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Where the bytes go: exercises
#
# Each function predicts bytes before they are allocated. Its result is compared with a measurement: of a training
# step, of the tensors that autograd saves, of weights that are really packed. A result must be right for every recipe, shape and
# card that its statement allows.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import torch

# %% [markdown]
# ## E9.1 `state_bytes`
#
# Before the first activation, a training run holds weights, gradients and optimizer states. People quote 12, 16, 18 and
# 20 bytes a parameter. Write `state_bytes(parameters, recipe, stage=0, world=1)`:
#
# - [c1] `parameters`: the model's parameter count, a Python integer, 0 or more. All counts are exact, even where a float
#   would not be;
# - [c2] `recipe`: what is stored for every parameter, a dictionary with these keys, which is not modified:
#
# | key | what is stored | value |
# | --- | --- | --- |
# | `"weights"` | the weights that the forward pass reads | a `torch.dtype` |
# | `"gradients"` | the gradients that the backward pass leaves | a `torch.dtype` |
# | `"main_gradients"` | a second copy of the gradients, for the optimizer | a `torch.dtype`, or `None` |
# | `"master"` | the master weights: a second copy of the weights, which the optimizer updates | a `torch.dtype`, or `None` |
# | `"moments"` | the optimizer's running averages, each with an element for every parameter | a tuple of `torch.dtype`, one for each, possibly empty |
# | `"block"` | this number of elements of a moment (the block size), or fewer in the last block, share one float32 scale | an integer, or `None` for no scales |
#
# - [c3] or one of five names, of recipes that all train with Adam:
#
# | name | what is stored |
# | --- | --- |
# | `"fp32"` | all of it in float32; Adam updates the weights themselves |
# | `"zero"` | mixed precision as in the ZeRO paper: weights and gradients in float16, Adam's moments in float32. Adam updates a float32 copy of the weights; each gradient is converted to float32 when it is used, and the float32 gradient is not kept |
# | `"megatron bf16"` | weights in bfloat16; gradients accumulated and kept in float32 only; a float32 copy of the weights, and float32 moments |
# | `"megatron fp16"` | weights and gradients in float16, and persistent float32 copies of both; float32 moments |
# | `"adam 8-bit"` | weights and gradients in float32; Adam updates the weights themselves. Its moments are one byte an element (`torch.uint8`) in blocks of 256 |
#
# - [c4] `stage`, from 0 to 3, is the ZeRO stage, over `world` ranks. Stage 0 shards nothing: every rank holds everything.
#   Stage 1 shards the optimizer states: the moments and their scales, the master weights, the main gradients. Stage 2
#   shards the gradients too, stage 3 the weights too;
# - [c5] each sharded kind is one flat buffer, padded to the next multiple of `world` elements, so that every rank holds as
#   many of them, its shard;
# - [c6] each moment has separate blocks, and the first block of a rank starts where its shard starts;
# - [c7] returns a dictionary of Python integers with exactly these entries, the bytes that **one rank** holds: `"weights"`,
#   `"gradients"`, `"main_gradients"`, `"master"`, `"moments"`, `"scales"`, each 0 where there are none, and `"total"`, their
#   sum. Step counters and code books, a few bytes a tensor, are left out;
# - [c8] raises `ValueError` for a name that is none of the five, a stage that is none of the four, a `world` less
#   than 1 and `parameters` less than 0.

# %% nbgrader={"grade": false, "grade_id": "state_bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def state_bytes(parameters, recipe, stage=0, world=1):
    """Bytes that one rank holds of weights, gradients and optimizer state, by kind, and in total."""
    ### BEGIN SOLUTION
    if parameters < 0 or world < 1 or stage not in (0, 1, 2, 3):
        raise ValueError(f"{parameters} parameters in stage {stage} over {world} ranks: 0, 0 to 3 and 1 are the least")
    recipe = by_name(recipe) if isinstance(recipe, str) else recipe
    share = -(-parameters // world)
    weights, gradients, optimizer = (share if stage >= first else parameters for first in (3, 2, 1))
    blocks = -(-optimizer // recipe["block"]) if recipe["block"] else 0
    held = {
        "weights": weights * item_bytes(recipe["weights"]),
        "gradients": gradients * item_bytes(recipe["gradients"]),
        "main_gradients": optimizer * item_bytes(recipe["main_gradients"]),
        "master": optimizer * item_bytes(recipe["master"]),
        "moments": optimizer * sum(item_bytes(dtype) for dtype in recipe["moments"]),
        "scales": blocks * len(recipe["moments"]) * item_bytes(torch.float32),
    }
    return {**held, "total": sum(held.values())}


def item_bytes(dtype):
    return dtype.itemsize if dtype else 0


def by_name(name):
    half, brain, full, byte = torch.float16, torch.bfloat16, torch.float32, torch.uint8
    recipes = {  # weights, gradients, main gradients, master, moments, block
        "fp32": (full, full, None, None, (full, full), None),
        "zero": (half, half, None, full, (full, full), None),
        "megatron bf16": (brain, full, None, full, (full, full), None),
        "megatron fp16": (half, half, full, full, (full, full), None),
        "adam 8-bit": (full, full, None, None, (byte, byte), 256),
    }
    if name not in recipes:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(recipes)}")
    return dict(zip(("weights", "gradients", "main_gradients", "master", "moments", "block"), recipes[name]))
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "state_bytes_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_state_bytes():
    """The memory of a layer after one step of Adam; then the numbers of the ZeRO paper."""
    layer = torch.nn.Linear(300, 70)
    adam = torch.optim.Adam(layer.parameters())
    layer(torch.ones(4, 300)).square().mean().backward()
    adam.step()
    held = {
        "weights": sum(p.nbytes for p in layer.parameters()),
        "gradients": sum(p.grad.nbytes for p in layer.parameters()),
        "moments": sum(state[name].nbytes for state in adam.state.values() for name in ("exp_avg", "exp_avg_sq")),
    }
    answer = state_bytes(sum(p.numel() for p in layer.parameters()), "fp32")
    print("A layer after one step of Adam")
    for kind, nbytes in held.items():
        print(f"  {kind:12}{nbytes:8} bytes held {answer[kind]:8} counted")
        assert answer[kind] == nbytes, f"{kind}: {answer[kind]} bytes counted, {nbytes} held after one step of Adam"
    assert answer["total"] == sum(held.values()), f"the total is {answer['total']}, expected {sum(held.values())}, the sum of the kinds"

    # Figure 1 of the ZeRO paper: 7.5 billion parameters on 64 ranks.
    for stage, published in enumerate([120.0, 31.4, 16.6, 1.9]):
        total = state_bytes(7_500_000_000, "zero", stage, 64)["total"]
        print(f"ZeRO stage {stage}: {total / 1e9:6.1f} GB a rank, {published:6.1f} in the paper")
        assert round(total / 1e9, 1) == published, f"stage {stage}: {total / 1e9:.1f} GB a rank, expected {published} as in the paper"


_see_state_bytes()

# %% nbgrader={"grade": true, "grade_id": "state_bytes_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of state_bytes: the five names 2, other recipes 2, sharding 2, uneven shares 1, scales 1,
# errors 1. Small models are really trained for a step, and what they hold is compared.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("memory.state_bytes")
### END HIDDEN TESTS

# %% [markdown]
# ## E9.2 `activation_bytes`
#
# The backward pass needs tensors that the forward pass computed, and autograd saves them until then: this is activation
# memory. Below are a decoder in plain PyTorch and a measurement: `saved_bytes` counts the bytes that autograd saves, every
# storage once, without parameters. Run it, read the code line by line, and find which tensor each line saves.

# %% nbgrader={"grade": false, "grade_id": "a_decoder", "locked": true, "schema_version": 3, "solution": false, "task": false}
class _Block(torch.nn.Module):
    """One layer: attention, then a gated MLP (gate, up and down projection), each after a LayerNorm and added to its input."""

    def __init__(self, shape, attention):
        super().__init__()
        width, hidden = shape["width"], shape["hidden"]
        self.heads, self.kv_heads, self.attention = shape["heads"], shape["kv_heads"], attention
        shared = width // self.heads * self.kv_heads
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (
            torch.nn.Linear(*sizes, bias=False)
            for sizes in ((width, width), (width, shared), (width, shared), (width, width))
        )
        self.gate, self.up = (torch.nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        y = self.norm_1(x)
        q, k, v = (
            project(y).unflatten(-1, (heads, -1)).transpose(1, 2)
            for project, heads in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
        )
        mixed = _flash(q, k, v) if self.attention == "flash" else _unfused(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.norm_2(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


def _flash(q, k, v):
    """Attention in one kernel, which recomputes the probabilities in the backward pass."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _unfused(q, k, v):
    """The same, written out: each operation is a separate kernel."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    later = torch.full((q.shape[2], q.shape[2]), -torch.inf, dtype=q.dtype).triu(1)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + later
    return torch.softmax(scores, dim=-1) @ v


class _Decoder(torch.nn.Module):
    """Token ids (batch, sequence) to the mean loss of predicting targets of the same shape."""

    def __init__(self, shape, attention="flash"):
        super().__init__()
        self.embed = torch.nn.Embedding(shape["vocabulary"], shape["width"])
        self.blocks = torch.nn.Sequential(*(_Block(shape, attention) for _ in range(shape["layers"])))
        self.norm = torch.nn.LayerNorm(shape["width"])
        self.head = torch.nn.Linear(shape["width"], shape["vocabulary"], bias=False)
        self.to(shape["dtype"])

    def forward(self, tokens, targets):
        logits = self.head(self.norm(self.blocks(self.embed(tokens))))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def saved_bytes(shape, attention="flash"):
    """Run the forward pass; the bytes that autograd saves for backward, every storage once, without parameters."""
    model = _Decoder(shape, attention)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def keep(x):
        if x.untyped_storage().data_ptr() not in own:
            kept[x.untyped_storage().data_ptr()] = x.untyped_storage()
        return x

    tokens, targets = torch.zeros(2, shape["batch"], shape["sequence"], dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        model(tokens, targets)
    return sum(storage.nbytes() for storage in kept.values())


_small = {"layers": 2, "width": 128, "heads": 8, "kv_heads": 2, "hidden": 256, "vocabulary": 100}
_small |= {"batch": 2, "sequence": 96, "dtype": torch.bfloat16}
for _attention in ("flash", "unfused"):
    print(f"{_attention:8} keeps {saved_bytes(_small, _attention):8} bytes; the formula of the notes: {2 * 96 * 128 * 2 * 2}")

# %% [markdown]
# Write `activation_bytes(shape, attention="flash")`, which computes this number without a model:
#
# - [c1] `shape`: a dictionary with the keys of `_small` above, which is not modified. [c2] `"layers"` is 0 or more, `"width"`
#   64 or more and at least 16 for each head, the other numbers 1 or more; [c3] `"dtype"`, of weights and activations,
#   is `torch.float32` or `torch.bfloat16`;
# - [c4] `attention`: `"flash"` or `"unfused"`;
# - [c5] returns a Python integer: [c6] the **bytes** that this decoder's forward pass saves for backward, within 10 % of
#   what `saved_bytes` measures. [c7] A storage that several operations save counts once, and parameters do not
#   count;
# - [c8] computes it: **no tensor is created**, on any device, including `meta`. [c9] The estimate for a model of 7 billion
#   parameters is as quick as this one;
# - [c10] raises `ValueError` for any other `attention`, for a `width` that is not a multiple of `heads`, and for `heads`
#   that are not a multiple of `kv_heads`.

# %% nbgrader={"grade": false, "grade_id": "activation_bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def activation_bytes(shape, attention="flash"):
    """Bytes that the forward pass of the decoder keeps for backward."""
    ### BEGIN SOLUTION
    width, heads, kv_heads = shape["width"], shape["heads"], shape["kv_heads"]
    if attention not in ("flash", "unfused") or width % heads or heads % kv_heads:
        raise ValueError(f"{attention!r} with {width} columns, {heads} heads and {kv_heads} of keys and values")
    item = shape["dtype"].itemsize
    if attention == "flash":  # keys and values as they are, and a float32 log-sum-exp for each query
        seen = 2 * width // heads * kv_heads * item + 4 * heads
    else:  # keys and values repeated for every head, and the probabilities
        seen = (2 * width + heads * shape["sequence"]) * item
    # Input and output of both norms, queries, the heads' outputs; gate, its silu, up, and their product.
    layer = seen + (6 * width + 4 * shape["hidden"]) * item
    # Input and output of the last norm; cross_entropy keeps log-probabilities in float32.
    head = 2 * width * item + 4 * shape["vocabulary"]
    return shape["batch"] * shape["sequence"] * (shape["layers"] * layer + head)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "activation_bytes_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_activation_bytes():
    """Your counts beside the bytes that autograd saves."""
    for attention in ("flash", "unfused"):
        for change in ({}, {"sequence": 384}, {"hidden": 1024}, {"vocabulary": 4000}, {"dtype": torch.float32}):
            shape = {**_small, **change}
            measured, answer = saved_bytes(shape, attention), activation_bytes(shape, attention)
            print(f"{attention:8} {str(change or 'as above'):28} measured {measured:9} counted {answer:9} {answer / measured:6.2f}")
            assert abs(answer - measured) < 0.1 * measured, "more than 10 % off: which tensors, of which dtype, does autograd save?"

    # A shape like that of a model of 7 billion parameters, which no machine here could run.
    large = {"layers": 32, "width": 4096, "heads": 32, "kv_heads": 32, "hidden": 11008, "vocabulary": 32000}
    large |= {"batch": 8, "sequence": 4096, "dtype": torch.bfloat16}
    with gpulab.observe() as seen:
        answers = [activation_bytes(large, attention) for attention in ("flash", "unfused")]
    print(f"7B, 8 x 4096 tokens: {answers[0] / 2**30:.0f} GiB with flash, {answers[1] / 2**30:.0f} GiB unfused")
    assert not seen.ops, "a tensor was created: compute the bytes from the shape alone"


_see_activation_bytes()

# %% nbgrader={"grade": true, "grade_id": "activation_bytes_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of activation_bytes: layers 2, unfused attention 2, shared keys and values 2, logits 1,
# errors 1. The decoder above is run for the small shapes, and what autograd keeps is compared.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("memory.activation_bytes")
### END HIDDEN TESTS

# %% [markdown]
# ## E9.3 `fits`
#
# "Seventy billion parameters of 4 bits are 35 GB: that serves on a card of 40." Does it, with 16
# users at once? And if not, which term is too large? Write the estimate behind every capacity
# question.
#
# Write `fits(model, gpu, mode, batch, sequence)`. The job is to serve or to train (`mode` is `"serve"` or `"train"`) with
# `batch` sequences of `sequence` tokens each:
#
# - [c1] `model` and `gpu` are dictionaries, which may have other entries and are not modified:
#
# | entry | value |
# | --- | --- |
# | `model["parameters"]`, `["weight_bits"]` | the number of weights, and the bits of each: 4, 8, 16 or 32, and to train 16 or 32 |
# | `model["layers"]` | the number of layers |
# | `model["heads"]`, `["kv_heads"]` | in each layer: query heads; key heads, and as many value heads, which several query heads may share (grouped-query attention) |
# | `model["head_dim"]` | elements of a head for one token. The heads together need not be as wide as the model |
# | `model["cache_bits"]` | bits of each element of the KV cache: 8, 16 or 32 |
# | `model["saved"]` | bytes of activations that each layer saves for the backward pass, for each token |
# | `gpu["memory"]`, `["unit"]` | the card's memory, a multiple of 0.25, in `"GB"` (10^9 bytes) or `"GiB"` (2^30 bytes) |
# | `gpu["reserve_mib"]` | the memory that the driver and the libraries take, in MiB (2^20 bytes) |
#
# - [c2] returns a dictionary with five entries. All bytes and counts are of type `int`, and exact, even where a float would not be;
# - [c3] `"terms"`: a dictionary of bytes. To **serve** it has `"weights"`, `"cache"`, `"reserve"`; to **train** `"weights"`,
#   `"gradients"`, `"optimizer"`, `"activations"`, `"reserve"`:
#
# | term | bytes of |
# | --- | --- |
# | `"weights"` | all weights, rounded up to a whole byte |
# | `"cache"` | the KV cache: keys and values of every token of every sequence, in every layer |
# | `"gradients"` | as many as of the weights |
# | `"optimizer"` | AdamW's two moments, in float32, and with 16-bit weights also a float32 master copy of them |
# | `"activations"` | what all layers save, for every token of every sequence |
# | `"reserve"` | the reserve |
#
# - [c4] `"free"`: the bytes of the card minus the sum of the terms, negative where the card is too small;
# - [c5] `"fits"`: a `bool`, whether the terms fit. A job that fills the card exactly fits;
# - [c6] `"binding"`: the name of the largest term except the reserve, which cannot be changed; of equal terms the first
#   in the order above;
# - [c7] `"largest"`: the largest batch that fits, independent of `batch`, and 0 where not even one sequence fits;
# - [c8] raises `ValueError` for a mode, a unit or a bit width that is not listed above, whether the mode uses it or not,
#   and for training with weights of 4 or 8 bits;
# - [c9] raises `ValueError` for `batch` or `sequence` less than 1, and for `"kv_heads"` that do not divide `"heads"`.

# %% nbgrader={"grade": false, "grade_id": "fits", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fits(model, gpu, mode, batch, sequence):
    """What a job takes of a card, whether it fits, which term is largest, and how many sequences there could be."""
    ### BEGIN SOLUTION
    require_possible(model, gpu, mode, batch, sequence)
    capacity = int(gpu["memory"] * (10**9 if gpu["unit"] == "GB" else 2**30))
    fixed, of_one = fixed_bytes(model, mode), sequence * token_bytes(model, mode)
    growing = "cache" if mode == "serve" else "activations"
    terms = {**fixed, growing: batch * of_one, "reserve": gpu["reserve_mib"] * 2**20}
    free = capacity - sum(terms.values())
    return {
        "terms": terms,
        "free": free,
        "fits": free >= 0,
        "binding": max((name for name in terms if name != "reserve"), key=terms.get),
        "largest": max(0, (free + terms[growing]) // of_one),
    }


def require_possible(model, gpu, mode, batch, sequence):
    """Raise ValueError for what no card and no job can be."""
    if mode not in ("serve", "train") or gpu["unit"] not in ("GB", "GiB"):
        raise ValueError(f"{mode!r} on a card in {gpu['unit']!r}: serve or train, GB or GiB")
    if batch < 1 or sequence < 1 or model["heads"] % model["kv_heads"]:
        raise ValueError("one sequence of one token is the least; heads share whole heads of keys")
    if model["weight_bits"] not in ((4, 8, 16, 32) if mode == "serve" else (16, 32)):
        raise ValueError(f"no weights of {model['weight_bits']} bits to {mode}")
    if model["cache_bits"] not in (8, 16, 32):
        raise ValueError(f"no cache of {model['cache_bits']} bits")


def fixed_bytes(model, mode):
    """The terms that no batch changes."""
    weights = -(-model["parameters"] * model["weight_bits"] // 8)
    if mode == "serve":
        return {"weights": weights}
    each = 8 if model["weight_bits"] == 32 else 12
    return {"weights": weights, "gradients": weights, "optimizer": each * model["parameters"]}


def token_bytes(model, mode):
    """What one token of one sequence takes in all layers."""
    if mode == "train":
        return model["layers"] * model["saved"]
    return 2 * model["layers"] * model["kv_heads"] * model["head_dim"] * model["cache_bits"] // 8
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "fits_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_fits():
    """Four jobs on cards of 40 GB and of 80 GB."""
    llama_70b = {
        "parameters": 70_553_706_496, "weight_bits": 4, "layers": 80, "width": 8192, "heads": 64, "kv_heads": 8, "head_dim": 128,
        "cache_bits": 16, "saved": 34 * 8192,
    }  # fmt: skip
    small_8b = {**llama_70b, "parameters": 8_030_261_248, "weight_bits": 16, "layers": 32, "width": 4096, "heads": 32, "saved": 34 * 4096}
    CARDS = {size: {"memory": size, "unit": "GB", "reserve_mib": 768} for size in (40, 80)}
    jobs = [(llama_70b, "serve", 16, 4096), (llama_70b, "serve", 1, 2048), (small_8b, "serve", 8, 8192), (small_8b, "train", 1, 2048)]
    for job in jobs:
        for size, card in CARDS.items():
            verdict = fits(job[0], card, *job[1:])
            assert isinstance(verdict, dict), f"fits returned {verdict!r}, expected a dictionary"
            print(f"{job[0]['parameters'] / 1e9:5.1f} B, {job[1]} {job[2]:2} x {job[3]}, {size} GB: ", end="")
            print(f"fits {verdict['fits']!s:5} binding {verdict['binding']:9} largest {verdict['largest']}")
            print("  " + ", ".join(f"{name} {count / 2**30:.1f}" for name, count in verdict["terms"].items()) + " GiB")

    verdict = fits(llama_70b, CARDS[40], "serve", 16, 4096)
    assert verdict["terms"]["weights"] == 35_276_853_248, "weights: expected 35276853248 bytes, half a byte for each parameter"
    assert verdict["terms"]["cache"] == 16 * 1_342_177_280, "every sequence has its own KV cache: keys and values of 8 heads of 128 elements"
    assert verdict["free"] == 40 * 10**9 - sum(verdict["terms"].values()), "free: this card has 40 times 10^9 bytes"
    assert verdict["fits"] is False and verdict["largest"] == 2, "see the table: how many KV caches fit beside the weights?"
    assert fits(small_8b, CARDS[80], "train", 1, 2048)["binding"] == "optimizer", "see the table: which term is largest?"


_see_fits()

# %% nbgrader={"grade": true, "grade_id": "fits_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of fits: terms of serving 2, terms of training 2, what is free 2, the binding term 1,
# the largest batch 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("memory.fits")
### END HIDDEN TESTS

# %% [markdown]
# ## E9.4 `lora_memory`
#
# LoRA trains two low-rank matrices beside each weight that it freezes; QLoRA quantizes the frozen weights
# to 4 bits. Gradients and optimizer states shrink with the number of trained parameters, weights with their bit width.
# Activation memory hardly shrinks, and it can grow: a weight that is dequantized for a matrix product is
# saved for the backward pass, whole, unless you prevent it.
#
# Write `lora_memory(model, rank, targets, bits=16)`, which adapts `model` in place and returns the memory that
# it then takes:
#
# - [c1] `model`: an `nn.Module` on the host or on a card, all parameters in float32, no buffers. Two modules
#   may share one parameter (tied weights);
# - [c2] `rank`: the LoRA rank, an integer; `targets`: a list of one name or more. A layer is a target when the **last
#   part** of its dotted name is one of them: `"q"` means `blocks.0.q`, and not `blocks.0.q_gate`. Each is an
#   `nn.Linear`, with or without bias, whose weight no other layer shares. A layer that has several names is a target if
#   one of them matches, and is adapted once, under all of them;
# - [c3] afterwards the module under a target's name (yours, or the layer itself) has the parameters `lora_a`, of shape
#   `(rank, in_features)`, **random**, with other numbers in each layer, and `lora_b`, `(out_features, rank)`, **zeros**,
#   in float32, on the model's device;
# - [c4] given `x` of any number of dimensions, the module returns the output of the original layer, plus `16 / rank`
#   times `x @ lora_a.T @ lora_b.T`;
# - [c5] only these parameters require gradients, which still reach them through every frozen layer in between. Every
#   parameter that is not packed remains the same object with the same values: embeddings, norms, biases, other layers;
# - [c6] `bits`: with 16 the targets' weights remain too. With 8 or 4 they are quantized in row-major order, in blocks of
#   64 elements, of which the last may be shorter; a block may span rows. A block's scale, in float32, is its largest
#   absolute value (absmax) divided by 127, or by 7 for 4 bits. Each element becomes the integer nearest to its quotient by
#   the scale, and the layer computes with that integer times the scale; a block of zeros stays zeros;
# - [c7] 8-bit integers are stored in `torch.int8`; 4-bit integers two in each `torch.uint8`, and an odd last one in a
#   separate byte. Integers and scales are the model's only buffers, and the weights that were packed are freed;
# - [c8] between the forward pass and the backward pass **no other matrix of a weight's size is held**, neither dequantized
#   nor merged with an adapter. During either pass there may be one;
# - [c9] returns a dictionary of bytes, integers of type `int`, with five entries: `"frozen"`, all parameters that are not
#   trained, each once, and the packed integers; `"scales"`, 0 for 16 bits; `"adapters"`; `"gradients"`, of a backward
#   pass; `"optimizer"`, AdamW's two moments;
# - [c10] raises `ValueError`, and leaves the model unchanged, when `rank` is less than 1, when `bits` is not 16, 8 or 4,
#   when a target names no module, and when it names one that is not an `nn.Linear`, be it beside others that are.
#
# `torch.autograd.Function` lets you choose what an operation saves for backward; `torch.utils.checkpoint` (gradient
# checkpointing) recomputes instead of saving.

# %% nbgrader={"grade": false, "grade_id": "lora_memory", "locked": false, "schema_version": 3, "solution": true, "task": false}
def lora_memory(model, rank, targets, bits=16):
    """Adapt the targets in place, freeze the rest, and say what it takes: bytes by kind."""
    ### BEGIN SOLUTION
    if rank < 1 or bits not in (16, 8, 4):
        raise ValueError(f"rank {rank} and {bits} bits: 1 is the least, and 16, 8 and 4 are the widths")
    layers = layers_named(model, targets)
    model.requires_grad_(False)
    adapted = {layer: Adapted(layer, rank, bits) for layer in layers}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if module in adapted:
            model.set_submodule(name, adapted[module])
    return bytes_by_kind(model)


def layers_named(model, targets):
    """Every layer that is meant, once. Raises ValueError for a name of nothing, or of something else."""
    layers = {}
    for target in targets:
        meant = [module for name, module in model.named_modules(remove_duplicate=False) if name.split(".")[-1] == target]
        if not meant or not all(isinstance(module, torch.nn.Linear) for module in meant):
            raise ValueError(f"{target!r} is to name linear layers, and nothing else")
        layers.update(dict.fromkeys(meant))
    return layers


class Adapted(torch.nn.Module):
    """A frozen linear layer and its two thin matrices."""

    def __init__(self, layer, rank, bits):
        super().__init__()
        rows, columns = layer.weight.shape
        self.scaling = 16 / rank
        self.lora_a = torch.nn.Parameter(torch.randn(rank, columns, device=layer.weight.device) / columns**0.5)
        self.lora_b = torch.nn.Parameter(torch.zeros(rows, rank, device=layer.weight.device))
        self.layer = layer if bits == 16 else Packed(layer, bits)

    def forward(self, x):
        return self.layer(x) + self.scaling * (x @ self.lora_a.T @ self.lora_b.T)


class Packed(torch.nn.Module):
    """A frozen linear layer whose weight is integers of 8 or 4 bits, and a scale for each block."""

    def __init__(self, layer, bits):
        super().__init__()
        self.bits, self.shape, self.bias = bits, layer.weight.shape, layer.bias
        numbers = layer.weight.detach().flatten()
        blocks = torch.nn.functional.pad(numbers, (0, -len(numbers) % 64)).view(-1, 64)
        scales = blocks.abs().amax(1) / (2 ** (bits - 1) - 1)
        nearest = (blocks / scales.where(scales > 0, 1)[:, None]).round().to(torch.int8)
        nearest = nearest.view(-1)[: len(numbers)].clone()
        self.register_buffer("scales", scales)
        self.register_buffer("integers", nearest if bits == 8 else in_pairs(nearest))

    def weight(self):
        """What the integers stand for."""
        integers = self.integers if self.bits == 8 else out_of_pairs(self.integers)
        numbers = integers[: self.shape.numel()] * self.scales.repeat_interleave(64)[: self.shape.numel()]
        return numbers.view(self.shape)

    def forward(self, x):
        y = UnpackedTwice.apply(x, self)
        return y if self.bias is None else y + self.bias


class UnpackedTwice(torch.autograd.Function):
    """A product with an unpacked weight, which the backward pass unpacks again."""

    @staticmethod
    def forward(ctx, x, packed):
        ctx.packed = packed
        return x @ packed.weight().T

    @staticmethod
    def backward(ctx, gradient):
        return gradient @ ctx.packed.weight(), None


def in_pairs(integers):
    """Two integers from -8 to 7 in each byte, the first in its lower half."""
    low, high = torch.nn.functional.pad(integers + 8, (0, len(integers) % 2)).to(torch.uint8).view(-1, 2).T
    return low | high << 4


def out_of_pairs(pairs):
    """The integers, and one more where they were odd in number."""
    return torch.stack((pairs & 15, pairs >> 4), 1).view(-1).to(torch.int8) - 8


def bytes_by_kind(model):
    """What the machine holds, and will hold once there are gradients and moments."""
    trained = sum(parameter.nbytes for parameter in model.parameters() if parameter.requires_grad)
    scales = sum(buffer.nbytes for buffer in model.buffers() if buffer.is_floating_point())
    everything = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    return {
        "frozen": everything - trained - scales,
        "scales": scales,
        "adapters": trained,
        "gradients": trained,
        "optimizer": 2 * trained,
    }
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "lora_memory_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_lora_memory():
    """A step of full fine-tuning, and two with LoRA adapters."""
    from collections import OrderedDict

    import gpulab.cuda

    def two_layers():
        """An embedding, two linear layers of 512 KiB each, and a head, on the current card."""
        torch.manual_seed(7)
        parts = {"embed": torch.nn.Embedding(32, 256), "up": torch.nn.Linear(256, 512), "act": torch.nn.Tanh()}
        parts |= {"down": torch.nn.Linear(512, 256, bias=False), "head": torch.nn.Linear(256, 32)}
        return torch.nn.Sequential(OrderedDict(parts)).cuda()

    def one_step(model):
        """KiB on the card: at rest, held by the graph, gradients, the optimizer's moments."""
        tokens = torch.arange(8, device="cuda")
        optimizer = torch.optim.AdamW(parameter for parameter in model.parameters() if parameter.requires_grad)
        readings = [torch.cuda.memory_allocated()]
        loss = model(tokens).square().mean()
        readings.append(torch.cuda.memory_allocated())
        loss.backward()
        gradients = sum(parameter.grad.nbytes for parameter in model.parameters() if parameter.grad is not None)
        optimizer.step()
        moments = sum(state[name].nbytes for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq"))
        return [readings[0] / 1024, (readings[1] - readings[0]) / 1024, gradients / 1024, moments / 1024]

    with gpulab.cuda.use("virtual:H100", quiet=True):
        tokens, shown, accounts, drifts = torch.arange(8, device="cuda"), {}, {}, {}
        model = two_layers()
        shown["everything trains"] = one_step(model)
        for bits in (16, 4):
            del model
            model = two_layers()
            before = model(tokens).detach()
            accounts[bits] = lora_memory(model, 4, ["up", "down"], bits)
            drifts[bits] = (model(tokens) - before).abs().max().item() / before.abs().max().item()
            shown[f"rank 4, {bits} bits"] = one_step(model)
        trained = sorted(name for name, parameter in model.named_parameters() if parameter.requires_grad)

    print(f"{'KiB':18}{'at rest':>9}{'graph':>9}{'gradients':>11}{'moments':>9}")
    for what, readings in shown.items():
        print(f"{what:18}{readings[0]:9.1f}{readings[1]:9.1f}{readings[2]:11.1f}{readings[3]:9.1f}")
    for bits, account in accounts.items():
        print(f"{bits} bits: the outputs moved by {drifts[bits]:.2%}; {account}")

    assert len(trained) == 4 and all(".lora_" in name for name in trained), f"these parameters require gradients: {trained}; expected lora_a and lora_b of two layers"
    whole, *steps = shown.values()
    for (bits, account), (rest, graph, gradients, moments) in zip(accounts.items(), steps):
        assert isinstance(account, dict), f"lora_memory returned {account!r}, expected a dictionary"
        assert drifts[bits] <= {16: 1e-6, 4: 0.4}[bits], f"{bits} bits: the outputs changed by {drifts[bits]:.2%} before any step"
        assert (account["gradients"], account["optimizer"]) == (gradients * 1024, moments * 1024), f"{bits} bits: gradients and optimizer differ from the table"
        packed = {16: 4, 4: 0.5}[bits] * 2 * 512 * 256
        due = packed + 4 * (512 + 2 * 32 * 256 + 32)
        assert account["frozen"] == due, f"{bits} bits: frozen is {account['frozen']} bytes, expected {due}: embedding, head and biases stay in float32"
        assert account["scales"] == (0 if bits == 16 else 4 * 2 * 512 * 256 // 64), f"{bits} bits: scales is {account['scales']} bytes; each block of 64 weights has one float32 scale"
        assert graph < whole[1] + 256, f"{bits} bits: the autograd graph holds {graph:.0f} KiB: is a weight among the saved tensors?"


_see_lora_memory()

# %% nbgrader={"grade": true, "grade_id": "lora_memory_hidden", "locked": true, "points": 11, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of lora_memory: the adapters 2, what is frozen 2, packed weights 2, what the graph holds 1,
# the account 2, names and shared layers 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("memory.lora_memory")
### END HIDDEN TESTS
