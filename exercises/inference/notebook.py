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
# # Anatomy of LLM inference: exercises
#
# A cache is graded by what it does as well as by what it returns: what a new token multiplies, allocates and copies is
# watched. Bytes are counted exactly, and not in gigabytes. What is said of a forward pass is compared with one that is run.
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
# ## E18.1 `cached_attention`
#
# A decoder adds one token at a time, and each looks at all before it. Their keys and values do not change, so a
# server computes them once and keeps them. This layer keeps nothing: it reads the whole sequence every time.

# %% nbgrader={"grade": false, "grade_id": "an_attention_layer", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Attention(torch.nn.Module):
    """Causal attention with grouped heads: query head h uses key and value head h // (heads // kv_heads)."""

    def __init__(self, width, heads, kv_heads, head_dim, base=10_000.0):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.base = heads, kv_heads, head_dim, base
        self.q_proj = torch.nn.Linear(width, heads * head_dim, bias=False)
        self.k_proj = torch.nn.Linear(width, kv_heads * head_dim, bias=False)
        self.v_proj = torch.nn.Linear(width, kv_heads * head_dim, bias=False)
        self.o_proj = torch.nn.Linear(heads * head_dim, width, bias=False)

    def rotate(self, x, start):
        """x, of shape (batch, H, T, head_dim), turned by the angles of positions start to start + T - 1."""
        half = self.head_dim // 2
        place = torch.arange(start, start + x.shape[2], dtype=torch.float64, device=x.device)
        pair = torch.arange(half, dtype=torch.float64, device=x.device)
        angle = place[:, None] * self.base ** (-pair / half)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x):
        """The whole sequence, (batch, T, width), to the outputs of all its tokens, of the same shape."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = self.rotate(q, 0), self.rotate(k, 0)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


# %% [markdown]
# Write `cached_attention(layer, batch, capacity)`, which gives such a layer a memory:
#
# - [c1] `layer`: as above, or another module with the same attributes. Its projections are `torch.nn.Linear` without bias, all of one
#   floating-point dtype and on one device, the host or a card; its `rotate` may use other angles. The layer is left as it is;
# - [c2] returns an object, say `attend`, for `batch` sequences of at most `capacity` tokens each. `attend(x)` takes the next tokens of
#   every sequence: `x` is `(batch, new, width)`, in the layer's dtype, on its device, with any strides. `new` is 1 or more
#   and differs from call to call: a prompt, a part of one, a single token;
# - [c3] `attend(x)` returns a tensor of the shape of `x`: what the layer gives for these tokens at the end of all tokens so far, up to
#   rounding in the layer's dtype. So each token sees itself and all before it, none after it;
# - [c4] `attend.length`: how many tokens each sequence has so far, an `int`. `attend.reset()` forgets them all: sequences begin again
#   at position 0;
# - [c5] a call leaves `x` and the results of earlier calls as they are, and the caller may overwrite `x` afterwards. Two objects share
#   no state, even with the same layer;
# - [c6] the buffers for keys and values are **allocated once**, by `cached_attention`: `2 * batch * kv_heads * capacity * head_dim`
#   elements of the layer's dtype, on its device. Beside them and the results, at most 16 bytes for each token of the capacity
#   stay on the device between calls;
# - [c7] nothing is kept for a backward pass: results require no gradient, even where `x` or the layer's parameters do;
# - [c8] a call costs the **FLOPs** of its new tokens: their four projections, and their attention to the tokens so far. It reads every
#   weight once, however many tokens are new. Nothing moves between host and card, and the host waits for nothing;
# - [c9] a call with 16 new tokens or fewer reads each key and value so far once, for all query heads that share it. It makes no
#   second copy of them, by `torch.cat` or by repeating heads: beside the new tokens' own vectors, it allocates, writes and copies
#   a few numbers for each attention score;
# - [c10] raises `ValueError` when `batch` or `capacity` is less than 1. `attend` raises it, and nothing changes, when `x` has not three
#   dimensions, another batch or width, no token, or more tokens than there is room left.

# %% nbgrader={"grade": false, "grade_id": "cached_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cached_attention(layer, batch, capacity):
    """An object that attends as the layer does, and remembers the keys and values of up to capacity tokens."""
    ### BEGIN SOLUTION
    if batch < 1 or capacity < 1:
        raise ValueError(f"{batch} sequences of up to {capacity} tokens: one of each is the least")
    return CachedAttention(layer, batch, capacity)


class CachedAttention:
    """Keys, turned by their positions, and values: each (batch, kv_heads, capacity, head_dim), full up to length."""

    def __init__(self, layer, batch, capacity):
        self.layer, self.length = layer, 0
        weight = layer.k_proj.weight
        shape = (2, batch, layer.kv_heads, capacity, layer.head_dim)
        self.keys, self.values = torch.empty(shape, dtype=weight.dtype, device=weight.device)

    def reset(self):
        self.length = 0

    @torch.no_grad()
    def __call__(self, x):
        """(batch, new, width) to the outputs of the new tokens. ValueError for another shape, or too many."""
        start, end = self.length, self.end_after(x)
        self.keys[:, :, start:end] = self.layer.rotate(self.heads_of(self.layer.k_proj(x)), start)
        self.values[:, :, start:end] = self.heads_of(self.layer.v_proj(x))
        queries = self.layer.rotate(self.heads_of(self.layer.q_proj(x)), start)
        y = self.attention(queries, self.keys[:, :, :end], self.values[:, :, :end])
        self.length = end
        return self.layer.o_proj(y.transpose(1, 2).flatten(2))

    def end_after(self, x):
        """The length once the tokens of x have come."""
        (batch, _, capacity, _), width = self.keys.shape, self.layer.k_proj.in_features
        if x.ndim != 3 or x.shape[0] != batch or x.shape[2] != width:
            raise ValueError(f"x has the shape {tuple(x.shape)}; ({batch}, new, {width}) is due")
        if not 0 < x.shape[1] <= capacity - self.length:
            raise ValueError(f"{x.shape[1]} new tokens after {self.length}, with room for {capacity}")
        return self.length + x.shape[1]

    def heads_of(self, y):
        """(batch, new, H * head_dim) as (batch, H, new, head_dim)."""
        return y.unflatten(-1, (-1, self.layer.head_dim)).transpose(1, 2)

    def attention(self, queries, keys, values):
        """The last tokens' queries over all keys so far, (batch, heads, new, head_dim)."""
        # Query heads that share a key head become rows of one product, which reads its keys once for all of them.
        rows = queries.unflatten(1, (keys.shape[1], -1)).flatten(2, 3)
        new, mask = queries.shape[2], None
        if new > 1:  # row i is the token at position length + i; one token alone sees everything
            seen = torch.ones(new, keys.shape[2], dtype=torch.bool, device=keys.device).tril(self.length)
            mask = seen.repeat(rows.shape[2] // new, 1)
        y = torch.nn.functional.scaled_dot_product_attention(rows, keys, values, attn_mask=mask)
        return y.unflatten(2, (-1, new)).flatten(1, 2)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "cached_attention_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_cached_attention():
    """Five calls: what each computed, read and made anew, and the layer's own answer beside it."""
    calls = {"prompt of 60": 60, "4 after 60": 4, "1 after 64": 1, "191 after 65": 191, "1 after 256": 1}
    with gpulab.cuda.use("virtual:H100", quiet=True):
        torch.manual_seed(7)
        layer = Attention(width=128, heads=4, kv_heads=2, head_dim=64).cuda()
        tokens = 4 * torch.randn(2, 257, 128, device="cuda")
        at_rest = torch.cuda.memory_allocated()
        attend = cached_attention(layer, 2, 1024)
        held = torch.cuda.memory_allocated() - at_rest
        answers, costs = [], {}
        for what, x in zip(calls, tokens.split(list(calls.values()), 1)):
            with gpulab.observe() as seen:
                answers.append(attend(x))
            flops = read = None  # a GPU's profiler counts neither
            if seen.counts_work:
                flops, read = (sum(getattr(kernel, name) for kernel in seen.kernels) for name in ("flops", "bytes_read"))
            costs[what] = flops, read, seen.new_bytes
        with torch.no_grad():
            whole = layer(tokens).split(list(calls.values()), 1)
        off = {what: (a - b).abs().max().item() for what, a, b in zip(calls, answers, whole)}
        length, graph = attend.length, any(answer.requires_grad for answer in answers)
        attend.reset()

    print(f"held before the first call: {held} bytes\n")
    print(f"{'modelled':18}{'FLOPs':>12}{'bytes read':>12}{'new bytes':>12}{'off by':>10}")
    for what, numbers in costs.items():
        print(f"{what:18}" + "".join(f"{number!s:>12}" for number in numbers) + f"{off[what]:10.1e}")

    due = 2 * (2 * 2 * 1024 * 64) * 4
    assert due <= held <= due + 16 * 1024 + 4096, f"{held} bytes are held before the first call; the buffers take {due}"
    for what, difference in off.items():
        assert difference < 1e-5, f"{what}: off by {difference:.1e} from what the layer gives for the whole sequence"
    assert not graph, "what was returned belongs to a graph: its tensors stay until it is gone"
    for before in (64, 256):
        flops, read, new_bytes = costs[f"1 after {before}"]
        products = 2 * 2 * 128 * 64 * (4 + 4 + 2 + 2) + 2 * 4 * 4 * 64 * (before + 1)
        assert flops is None or flops < 1.3 * products, f"{flops} FLOPs for one token after {before}; its products have {products}"
        keys = 2 * 2 * before * 64 * 4
        assert new_bytes < keys / 2 + 60_000, f"{new_bytes} new bytes for one token; the keys before it are {keys}"
    assert (length, attend.length) == (257, 0), f"the length was {length}, and {attend.length} after reset()"


_see_cached_attention()

# %% nbgrader={"grade": true, "grade_id": "cached_attention_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of cached_attention: a prompt 1, single tokens 1, chunks 1, objects and reset 1, FLOPs 1, buffers 1,
# traffic 1, nothing for backward 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("inference.cached_attention")
### END HIDDEN TESTS

# %% [markdown]
# ## E18.2 `kv_bytes`
#
# How many requests a card serves is how many caches fit beside the weights. Bytes a token are quoted; a server holds
# requests of unlike lengths, with pictures in them, and a decoder's layers need not all keep the same.

# %% nbgrader={"grade": false, "grade_id": "kv_bytes_given", "locked": true, "schema_version": 3, "solution": false, "task": false}
from dataclasses import dataclass


@dataclass(frozen=True)
class KVConfig:
    """A decoder, in as far as its cache turns on it."""

    layers: int
    width: int  # of the residual stream
    heads: int  # of queries
    kv_heads: int  # of keys, and as many of values
    head_dim: int  # elements in a head
    latent: int | None = None  # elements that stand for all keys and values of a token; None: these are kept themselves
    rope_dim: int = 0  # elements of the one rotary key that is kept beside a latent
    window: int | None = None  # tokens that a layer with a sliding window keeps; None: no layer has one
    full_every: int | None = None  # which layers have no window; None: all have it
    shared: int = 0  # so many layers, the last ones, keep nothing
    patch: int = 14  # pixels along the side of a patch
    merge: int = 1  # patches along the side of a token
    temporal: int = 1  # frames of a video that become one


@dataclass(frozen=True)
class Video:
    milliseconds: int  # how long it is
    fps: int  # frames that are taken of each second
    height: int  # pixels
    width: int  # pixels


@dataclass(frozen=True)
class Request:
    text: int  # tokens of text in the prompt
    images: tuple = ()  # in the prompt: height and width of each, in pixels
    videos: tuple = ()  # in the prompt: each a Video
    generated: int = 0  # tokens that were sampled so far


# %% [markdown]
# Write `kv_bytes(config, requests, dtype)`:
#
# - [c1] `config` is a `KVConfig`, `requests` a list of `Request`, perhaps empty or with equal ones, and left as it is. `dtype` is
#   the `torch.dtype` of every element: floating-point or integer, of 8 bits or more. All numbers are of type `int`;
# - [c2] returns the bytes that the cache holds between two steps, an exact `int`, also beyond what a float or 64 bits hold. Requests
#   are not padded to the longest, and scales of 8-bit elements are not counted;
# - [c3] a layer keeps a key and a value of each token in each of the `kv_heads` heads, each of `head_dim` elements: the heads need
#   not fill `width`;
# - [c4] with `latent`, a layer keeps `latent + rope_dim` elements of each token instead, once for all heads;
# - [c5] with `window`, a layer keeps the last `window` tokens of each request, or all if there are fewer. Layers are numbered from 1:
#   those whose number is a multiple of `full_every` have no window and keep all tokens. Without `window` every layer does;
# - [c6] the last `shared` layers read what an earlier layer keeps and keep nothing, with a window or not;
# - [c7] a prompt has `text` tokens and those of its images and videos. Such a token has `merge` x `merge` patches of `patch` x
#   `patch` pixels; an image is padded at its right and lower edge until whole tokens cover it;
# - [c8] of a video, `fps` frames are taken in every second, evenly spaced, the first at its beginning and all before its end: of 0
#   milliseconds none. Every `temporal` frames, and what is left over, become one, with the tokens of an image of that size;
# - [c9] between two steps the cache holds the tokens that the decoder has read: the prompt, and every generated token but the newest,
#   which the next step reads. While `generated` is 0, that is the prompt alone;
# - [c10] raises `ValueError` for a number of `config` less than 1 (`rope_dim` and `shared`: less than 0), for `kv_heads` that do not
#   divide `heads`, and for `shared` that leaves no layer, whether a number is used (`heads` is not with `latent`) and there are
#   requests or not; and for a request with `text`, `generated` or `milliseconds` less than 0, `fps` or a side less than 1, or a prompt with
#   no token at all.

# %% nbgrader={"grade": false, "grade_id": "kv_bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kv_bytes(config, requests, dtype):
    """Bytes that the cache holds of these requests between two steps."""
    ### BEGIN SOLUTION
    require_decoder(config)
    keeping = config.layers - config.shared
    full = keeping // config.full_every if config.full_every else 0
    kept = 0  # tokens, once for each layer
    for request in requests:
        tokens = tokens_read(config, request)
        kept += full * tokens + (keeping - full) * min(tokens, config.window or tokens)
    each = 2 * config.kv_heads * config.head_dim if config.latent is None else config.latent + config.rope_dim
    return kept * each * dtype.itemsize


def tokens_read(config, request):
    """Tokens that the decoder has read of a request between two steps."""
    require_request(request)
    prompt = request.text + sum(image_tokens(config, *sides) for sides in request.images)
    prompt += sum(video_tokens(config, video) for video in request.videos)
    if prompt < 1:
        raise ValueError("a prompt has a token at least")
    return prompt + max(request.generated - 1, 0)


def image_tokens(config, height, width):
    side = config.patch * config.merge
    return rounded_up(height, side) * rounded_up(width, side)


def video_tokens(config, video):
    frames = rounded_up(video.milliseconds * video.fps, 1000)
    return rounded_up(frames, config.temporal) * image_tokens(config, video.height, video.width)


def rounded_up(whole, part):
    return -(-whole // part)


def require_decoder(config):
    """Raise ValueError for what no decoder can be."""
    sizes = (config.layers, config.width, config.heads, config.kv_heads, config.head_dim)
    sizes += (config.patch, config.merge, config.temporal)
    sizes += tuple(size for size in (config.latent, config.window, config.full_every) if size is not None)
    if min(sizes) < 1 or config.rope_dim < 0 or not 0 <= config.shared < config.layers:
        raise ValueError("a number of the decoder is too small, or no layer keeps anything")
    if config.heads % config.kv_heads:
        raise ValueError(f"{config.heads} heads of queries cannot share {config.kv_heads} evenly")


def require_request(request):
    """Raise ValueError for what no request can be."""
    sides = [side for sides in request.images for side in sides]
    sides += [side for video in request.videos for side in (video.height, video.width, video.fps)]
    lengths = [request.text, request.generated, *(video.milliseconds for video in request.videos)]
    if min(lengths) < 0 or any(side < 1 for side in sides):
        raise ValueError("a length, a rate or a side is too small")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "kv_bytes_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_kv_bytes():
    """The cache of TinyVLA, a token of two large models, and a robot's prompts."""
    from gpulab.model import SIZES, Cache, TinyVLA

    # What TinyVLA's own cache holds after it has generated three tokens.
    shape = SIZES["tiny"]
    policy = TinyVLA(shape)
    told = torch.zeros(1, shape.text_length, dtype=torch.int64)
    with torch.no_grad():
        x = policy.embed(torch.zeros(1, shape.image, shape.image, 3, dtype=torch.uint8), told)
        cache = Cache(shape, 1, 64, like=x)
        for _ in range(3):
            sampled = policy.lm_head(policy.decode(x, cache=cache)[:, -1:]).argmax(-1)
            x = policy.embed_tokens(sampled)
    held = sum(part[:, :, :, : cache.length].numel() * part.itemsize for part in (cache.keys, cache.values))
    tiny = KVConfig(shape.layers, shape.width, shape.heads, shape.kv_heads, shape.head_dim, patch=shape.patch)
    asked = Request(shape.text_length, images=((shape.image, shape.image),), generated=3)
    print(f"TinyVLA after 3 tokens: {held} bytes held, {kv_bytes(tiny, [asked], torch.float32)} counted")
    assert kv_bytes(tiny, [asked], torch.float32) == held, f"TinyVLA's cache has {cache.length} tokens: who has read the last one?"

    # One token in 16 bits. The vLLM paper has 800 KB for OPT-13B; the second has the shape of the DeepSeek-V3 report.
    one = [Request(1)]
    opt = KVConfig(layers=40, width=5120, heads=40, kv_heads=40, head_dim=128)
    deepseek = KVConfig(layers=61, width=7168, heads=128, kv_heads=128, head_dim=128, latent=512, rope_dim=64)
    for name, config in (("OPT-13B", opt), ("DeepSeek-V3", deepseek)):
        print(f"One token of {name}: {kv_bytes(config, one, torch.bfloat16)} bytes")
    assert kv_bytes(opt, one, torch.float16) == 800 * 1024, "a key and a value for each of 40 layers, of 2 bytes an element"
    assert kv_bytes(deepseek, one, torch.bfloat16) == 61 * (512 + 64) * 2, "one latent and one rotary key, for all heads"

    # A robot's prompt: what of its cache are pictures?
    robot = KVConfig(layers=36, width=4096, heads=32, kv_heads=8, head_dim=128, merge=2, temporal=2)
    windowed = KVConfig(layers=36, width=4096, heads=32, kv_heads=8, head_dim=128, merge=2, temporal=2, window=1024, full_every=6)
    prompts = {
        "40 words": Request(40),
        "and three cameras": Request(40, ((480, 640),) * 3),
        "and ten seconds of one": Request(40, ((480, 640),) * 3, (Video(10_000, 2, 480, 640),)),
    }
    print(f"\n{'MiB in bfloat16':24}{'all layers full':>16}{'5 of 6 windowed':>17}{'... in 8 bits':>15}")
    for what, prompt in prompts.items():
        kinds = ((robot, torch.bfloat16), (windowed, torch.bfloat16), (windowed, torch.float8_e4m3fn))
        sizes = [kv_bytes(config, [prompt], dtype) / 2**20 for config, dtype in kinds]
        print(f"{what:24}{sizes[0]:16.1f}{sizes[1]:17.1f}{sizes[2]:15.1f}")
        assert sizes[2] == sizes[1] / 2, "an element of 8 bits is half one of 16"
    words, cameras, film = ([prompt] for prompt in prompts.values())
    each = kv_bytes(robot, one, torch.bfloat16)
    assert kv_bytes(robot, cameras, torch.bfloat16) == (40 + 3 * 18 * 23) * each, "480 x 640 pixels are 18 x 23 tokens of 28 x 28"
    assert kv_bytes(robot, film, torch.bfloat16) == (40 + (3 + 10) * 18 * 23) * each, "20 frames become 10"
    assert kv_bytes(windowed, film, torch.bfloat16) == (6 * 5422 + 30 * 1024) * each // 36, "30 layers keep 1024 tokens, 6 keep all"
    apart = [kv_bytes(robot, requests, torch.bfloat16) for requests in (words, film)]
    assert kv_bytes(robot, words + film, torch.bfloat16) == sum(apart), "no request is padded to another"
    assert kv_bytes(robot, [], torch.bfloat16) == 0, "no requests, no cache"


_see_kv_bytes()

# %% nbgrader={"grade": true, "grade_id": "kv_bytes_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of kv_bytes: heads and dtypes 2, requests 1, images 1, videos 1, layers 1, latents 1, all of it
# together 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("inference.kv_bytes")
### END HIDDEN TESTS

# %% [markdown]
# ## E18.3 `intensity`
#
# "Prefill is compute-bound, decode is memory-bound." A layer has two parts that behave differently: the linear layers, whose
# weights all requests share, and attention, whose keys and values each request has for itself. The cell below makes one pass
# of a decoder in plain PyTorch on a virtual card, which counts what its kernels compute and move. The pass is real. That the
# bytes are these, each tensor read once, is *modelled*.

# %% nbgrader={"grade": false, "grade_id": "a_pass", "locked": true, "schema_version": 3, "solution": false, "task": false}
from dataclasses import dataclass

from torch.nn import functional as _F


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of a decoder with a gated MLP, and the formats of its numbers."""

    layers: int
    width: int
    """Of the residual stream; the heads together may be wider or narrower."""
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    dtype: torch.dtype = torch.bfloat16
    """Of the arithmetic, and of all activations."""
    weight_bits: int = 16
    kv_bits: int = 16
    """Of an element of the cache."""


def one_pass(config, batch, held, new, card="virtual:H100"):
    """FLOPs and bytes by part: `new` tokens of each of `batch` requests, behind the `held` tokens of each that are cached.

    All of it in `dtype`, the cache too. On a card `"ghost:H100"` tensors have shapes and no values. None where the
    instrument counts neither, as the profiler of a GPU.
    """
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    weights = {"q_proj": (queries, config.width), "k_proj": (keys, config.width), "v_proj": (keys, config.width)}
    weights |= {"o_proj": (config.width, queries), "gate_proj": (config.hidden, config.width)}
    weights |= {"up_proj": (config.hidden, config.width), "down_proj": (config.width, config.hidden)}
    cached = (config.layers, 2, batch, config.kv_heads, held + new, config.head_dim)
    with gpulab.cuda.use(card, quiet=True), torch.no_grad():
        like = {"device": "cuda", "dtype": config.dtype}
        layers = [{name: torch.zeros(*sizes, **like) for name, sizes in weights.items()} for _ in range(config.layers)]
        head, cache = torch.zeros(config.vocabulary, config.width, **like), torch.zeros(*cached, **like)
        x = torch.zeros(batch, new, config.width, **like)
        with gpulab.observe() as seen:
            for layer, (k, v) in zip(layers, cache):
                x = _layer_pass(config, layer, x, k, v, held)
            _F.linear(_rms_norm(x[:, -1]), head)
    return _counted(seen.kernels, config, batch * new) if seen.counts_work else None


def _layer_pass(config, layer, x, k, v, held):
    """One layer. Its new keys and values go into the cache behind those that are held."""
    y = _rms_norm(x)
    projected = (_F.linear(y, layer[name]) for name in ("q_proj", "k_proj", "v_proj"))
    q, new_k, new_v = (z.unflatten(-1, (-1, config.head_dim)).transpose(1, 2) for z in projected)
    k[:, :, held:], v[:, :, held:] = new_k, new_v  # rotary positions would not change what is counted
    y = _F.scaled_dot_product_attention(q, k, v, is_causal=not held, enable_gqa=True)
    x = x + _F.linear(y.transpose(1, 2).flatten(2), layer["o_proj"])
    y = _rms_norm(x)
    return x + _F.linear(_F.silu(_F.linear(y, layer["gate_proj"])) * _F.linear(y, layer["up_proj"]), layer["down_proj"])


def _rms_norm(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


def _counted(kernels, config, tokens):
    """[FLOPs, bytes] of the products with weights, and of attention with what is written to the cache."""
    found = {"linear": [0, 0], "attention": [0, 0]}
    for kernel in kernels:
        if kernel.name == "aten.mm":
            found["linear"][0] += kernel.flops
            found["linear"][1] += kernel.bytes_read + kernel.bytes_written
        elif "attention" in kernel.name:  # of what it writes the outputs alone: the rest is for a backward pass
            found["attention"][0] += kernel.flops
            found["attention"][1] += kernel.bytes_read + tokens * config.heads * config.head_dim * config.dtype.itemsize
        elif kernel.name == "aten.copy_":
            found["attention"][1] += kernel.bytes_written
    return found


_small = DecoderShape(layers=2, width=64, heads=4, kv_heads=2, head_dim=24, hidden=160, vocabulary=100)
print("prefill, 3 prompts of 8 tokens  ", one_pass(_small, 3, 0, 8))
print("decode, 3 requests that hold 40 ", one_pass(_small, 3, 40, 1))

# %% [markdown]
# And this is what a card can do. The rates are those of the makers' datasheets, in `gpulab.cards`.

# %% nbgrader={"grade": false, "grade_id": "rates_of_a_card", "locked": true, "schema_version": 3, "solution": false, "task": false}
from gpulab.cards.cards import CARDS as _CARDS


def _rates(card):
    """Whole FLOP/s, bytes/s and bytes of a card of `gpulab.cards`."""
    formats = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.int8: "int8"}
    dense = {dtype: int(card.flops_per_s[name]) for dtype, name in formats.items()}
    return {
        "dense": {torch.float32: int(card.flops_per_s["fp32"]), **dense},
        "sparse": {dtype: 2 * rate for dtype, rate in dense.items()},
        "bytes_per_s": int(card.bytes_per_s),
        "link_bytes_per_s": int(card.link_bytes_per_s),
        "memory_bytes": card.memory_bytes,
    }


print(_rates(_CARDS["H100"]))

# %% [markdown]
# Write `intensity(phase, batch, seq, config, card)`, which says beforehand what a pass does and what bounds it:
#
# - [c1] `phase`: `"prefill"`, a pass over `batch` prompts of `seq` tokens each; or `"decode"`, a pass over one new token of each
#   of `batch` requests, which hold `seq` tokens in the cache before it, none or more;
# - [c2] `config`: a `DecoderShape`. Its sizes are 1 or more, its `width` is even, its bits are multiples of 4: a matrix, and a
#   token's key together with its value, take whole bytes. Weights and cache may have fewer bits than `dtype`, or more:
#   they are converted on the chip, and all arithmetic is done in `dtype`;
# - [c3] `card`: a dictionary like the one above, of integers, which is left as it is. `"dense"` and `"sparse"` are FLOP/s by
#   dtype, without and with 2:4 sparsity; `"bytes_per_s"` is that of device memory. A card has not a peak for every
#   dtype, and may have one for others. The weights of `config` are **dense**;
# - [c4] of FLOPs only those of matrix products count, a multiply-add as two. Embedding, norms, rotary positions, softmax, SiLU and
#   residuals count neither as FLOPs nor as bytes;
# - [c5] the linear layers are the seven of each layer that `one_pass` has, and one head behind the last layer, applied to the last
#   token of each request alone, in prefill too. Each is one kernel over all requests. It reads its weights once, of `weight_bits` bits
#   each, reads its own input and writes its output, a row for each token, in `dtype`;
# - [c6] attention has two products, of queries and keys, and of probabilities and values. A token attends to itself and to the
#   tokens before it in its own request. Pairs that the causal mask leaves out cost no FLOPs (`one_pass` counts them in
#   prefill: the card's model looks at shapes alone);
# - [c7] attention is one kernel in each layer, whose scores stay on the chip. It reads the queries of the new tokens and writes as
#   many outputs, in `dtype`. It writes keys and values of the new tokens to the cache, and reads those of all tokens that the
#   request has then, the new ones among them, **once for each head of keys and values**. The cache has `kv_bits` bits an
#   element;
# - [c8] returns a dictionary. `"linear"` and `"attention"` are dictionaries, of the whole pass, all layers and requests together:
#   `"flops"` and `"bytes"`, exact Python integers however large; `"intensity"`, FLOP/byte, for which float64 is precise
#   enough, as for what follows; `"bound"`, which is `"compute"` where the FLOPs take as long as the bytes on that card or longer,
#   else `"memory"`;
# - [c9] its third entry, `"crossover"`, is the smallest batch with which the linear layers of a **decode** pass are compute-bound
#   on that card, an integer, and None where they are with no batch. It does not depend on `phase`, `batch` and `seq`;
# - [c10] raises `ValueError` for any other `phase`, for a `batch` less than 1, for a `seq` less than 1 in prefill or less than 0 in
#   decode, for `heads` that are no multiple of `kv_heads`, and for a `dtype` of which the card has no dense peak.

# %% nbgrader={"grade": false, "grade_id": "intensity", "locked": false, "schema_version": 3, "solution": true, "task": false}
def intensity(phase, batch, seq, config, card):
    """FLOPs, bytes, FLOP/byte and bound of a pass, by part; the batch from which decode's linear layers are compute-bound."""
    ### BEGIN SOLUTION
    c = config
    if phase not in ("prefill", "decode") or batch < 1 or seq < (phase == "prefill") or c.heads % c.kv_heads:
        raise ValueError(f"no {phase!r} of {batch} requests with {seq} tokens, {c.heads} heads on {c.kv_heads}")
    if c.dtype not in card["dense"]:
        raise ValueError(f"the card has no dense peak for {c.dtype}")
    peak, bandwidth, item = card["dense"][c.dtype], card["bytes_per_s"], c.dtype.itemsize
    new, held = (seq, seq) if phase == "prefill" else (1, seq + 1)
    queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim
    matrices = [(c.width, queries), (c.width, keys), (c.width, keys), (queries, c.width)]
    matrices += [(c.width, c.hidden), (c.width, c.hidden), (c.hidden, c.width)]

    def linear(requests, new):
        """FLOPs and bytes."""
        products = [(requests * new, *sizes) for sizes in matrices] * c.layers + [(requests, c.width, c.vocabulary)]
        flops = sum(2 * rows * inputs * outputs for rows, inputs, outputs in products)
        weights = sum(inputs * outputs * c.weight_bits // 8 for _, inputs, outputs in products)
        return flops, weights + sum(rows * (inputs + outputs) * item for rows, inputs, outputs in products)

    def attention():
        """FLOPs and bytes. Of its last new token a request has `held` pairs, of each before it one less."""
        pairs = new * held - new * (new - 1) // 2
        moved = 2 * new * queries * item + 2 * (new + held) * keys * c.kv_bits // 8
        return c.layers * batch * 4 * queries * pairs, c.layers * batch * moved

    def part(flops, nbytes):
        bound = "compute" if flops * bandwidth >= nbytes * peak else "memory"
        return {"flops": flops, "bytes": nbytes, "intensity": flops / nbytes, "bound": bound}

    # In decode: b * flops * bandwidth >= (weights + b * row) * peak, for the smallest b.
    (flops, one), (_, two) = linear(1, 1), linear(2, 1)
    row, weights = two - one, 2 * one - two
    gain = flops * bandwidth - row * peak
    crossover = -(-weights * peak // gain) if gain > 0 else None
    return {"linear": part(*linear(batch, new)), "attention": part(*attention()), "crossover": crossover}
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "intensity_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_intensity():
    """Your FLOPs and bytes beside those of real passes; then TinyVLA 7B on three cards."""
    import dataclasses

    from gpulab.model.config import SIZES

    h100 = _rates(_CARDS["H100"])
    sizes = ("layers", "width", "heads", "kv_heads", "head_dim", "hidden", "vocabulary")
    seven = DecoderShape(**{name: getattr(SIZES["7B"], name) for name in sizes})
    print("counted from sizes, and in passes of one_pass; the last one is of a decoder with the sizes of TinyVLA 7B, on a ghost card")
    some = [("prefill", 1, 1, _small), ("prefill", 3, 8, _small), ("decode", 1, 0, _small), ("decode", 3, 40, _small)]
    some.append(("decode", 8, 1024, seven))
    for phase, batch, seq, config in some:
        found = intensity(phase, batch, seq, config, h100)
        runs_on = "virtual:H100" if config is _small else "ghost:H100"
        ran = one_pass(config, batch, *((0, seq) if phase == "prefill" else (seq, 1)), runs_on)
        if ran is None:
            print(f"  {phase:8}{batch} x {seq:<5}the profiler of this card counts no FLOPs and no bytes")
            continue
        square = ran["attention"][0]
        if phase == "prefill":  # token after token: these passes have no pairs that a mask leaves out
            ran["attention"][0] = sum(one_pass(_small, batch, before, 1)["attention"][0] for before in range(seq))
        for name, (flops, nbytes) in ran.items():
            told = found[name]
            print(f"  {phase:8}{batch} x {seq:<5}{name:10}{told['flops']:13} of {flops:13} FLOPs", end=" ")
            print(f"{told['bytes']:12} of {nbytes:12} bytes")
            assert told["flops"] == flops, f"{phase}, {name}: {flops} FLOPs were computed"
            assert told["bytes"] == nbytes, f"{phase}, {name}: {nbytes} bytes were moved"
        if square > ran["attention"][0]:
            print(f"  with the pairs that the mask leaves out the card counts {square} FLOPs of attention")

    shared = dataclasses.replace(seven, kv_heads=seven.heads // 8)
    print(f"\n{'modelled: TinyVLA 7B on an H100':36}{'linear layers':>20}{'attention':>15}   [FLOP/byte]")
    told = {}
    for what, config in (("", seven), (", kv_heads / 8", shared)):
        for phase, batch in (("prefill", 1), ("decode", 1), ("decode", 64), ("decode", 512)):
            told[what, phase, batch] = found = intensity(phase, batch, 1024, config, h100)
            a, b = found["linear"], found["attention"]
            print(f"{phase}, {batch} x 1024{what:20}{a['intensity']:14.1f} {a['bound']:7}{b['intensity']:14.1f} {b['bound']}")

    of_attention = {key: found["attention"]["intensity"] for key, found in told.items()}
    one, many, grouped = (of_attention[key] for key in (("", "decode", 1), ("", "decode", 512), (", kv_heads / 8", "decode", 1)))
    assert abs(one / many - 1) < 1e-9, "a larger batch brings its own keys and values: attention gains nothing from it"
    assert 7 < grouped / one < 8, "eight query heads that share keys and values read them once"

    print("\nmodelled: the smallest batch with which decode's linear layers are compute-bound, by bits of the weights; ridge in FLOP/byte")
    for name in ("H100", "H200", "A100"):
        card, batches = _rates(_CARDS[name]), {}
        for bits in (16, 8, 4):
            config = dataclasses.replace(seven, weight_bits=bits)
            batches[bits] = batch = intensity("decode", 1, 1024, config, card)["crossover"]
            sides = [intensity("decode", b, 1024, config, card)["linear"]["bound"] for b in (batch - 1, batch)]
            assert sides == ["memory", "compute"], f"{name}: with {batch} requests and one less the bound is {sides}"
        ridge = card["dense"][torch.bfloat16] / card["bytes_per_s"]
        print(f"{name:6}{str(batches):32}{ridge:8.0f}")
        assert batches[16] > ridge, "inputs and outputs are bytes too: a batch of the ridge is not enough"
    never = intensity("decode", 1, 8, _small, h100)["crossover"]
    assert never is None, "so narrow a model moves a row in and out for few FLOPs: no batch is large enough"


_see_intensity()

# %% nbgrader={"grade": true, "grade_id": "intensity_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of intensity: linear layers 2, attention 2, formats 1, bound 1, crossover 2, errors 1. Passes of the decoder
# above are made for small shapes, and their FLOPs and bytes compared.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("inference.intensity")
### END HIDDEN TESTS
