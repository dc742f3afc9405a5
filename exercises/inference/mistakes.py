"""Chapter "Anatomy of LLM inference": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E18.1 cached_attention

AFTER_TOKENS = ("tokens", "chunks", "objects", "flops", "traffic", "buffers", "graph")
ALL_OF_ATTENTION = ("prompt", *AFTER_TOKENS, "errors")
KEYS_KEPT = "self.keys[:, :, start:end] = self.layer.rotate(self.heads_of(self.layer.k_proj(x)), start)"
ATTENDS = "y = self.attention(queries, self.keys[:, :, :end], self.values[:, :, :end])"
BUFFERS = "self.keys, self.values = torch.empty(shape, dtype=weight.dtype, device=weight.device)"
TRIL = ".tril(self.length)"


def attention(edits, loses, because, breaks):
    return edited("cached_attention", edits, loses=loses, because=because, breaks=breaks)


def attention_with_buffers(made, loses, because, breaks, **edits):
    return attention({BUFFERS: made, **edits}, loses, because, breaks)


positions_begin_anew = attention(
    {KEYS_KEPT: KEYS_KEPT.replace("start)", "0)"), "q_proj(x)), start)": "q_proj(x)), 0)"},
    (*AFTER_TOKENS, "errors"),
    "rotate is called as in the layer, where every sequence begins at 0",
    "what the layer gives for these tokens at the end of all tokens so far",
)
positions_begin_at_1 = attention(
    {KEYS_KEPT: KEYS_KEPT.replace("start)", "start + 1)"), "q_proj(x)), start)": "q_proj(x)), start + 1)"},
    ALL_OF_ATTENTION,
    "only distances are thought to matter, and angles to grow evenly",
    "whose angles are its own affair: call its `rotate`",
)
positions_go_on_after_reset = attention(
    {
        "self.layer, self.length = layer, 0": "self.layer, self.length, self.place = layer, 0, 0",
        KEYS_KEPT: KEYS_KEPT.replace("start)", "self.place)"),
        "q_proj(x)), start)": "q_proj(x)), self.place)",
        "self.length = end": "self.length, self.place = end, self.place + x.shape[1]",
    },
    ("objects", "buffers", "graph", "errors"),
    "positions are counted by themselves, and reset() forgets them",
    "sequences begin again at position 0",
)
query_at_0 = attention(
    {"q_proj(x)), start)": "q_proj(x)), 0)"},
    (*AFTER_TOKENS, "errors"),
    "only keys are thought to need the positions of the sequence",
    "what the layer gives for these tokens at the end of all tokens so far",
)
values_turned_too = attention(
    {"self.values[:, :, start:end] = self.heads_of(self.layer.v_proj(x))": "self.values[:, :, start:end] = self.layer.rotate(self.heads_of(self.layer.v_proj(x)), start)"},
    ALL_OF_ATTENTION,
    "whatever is cached is thought to carry its position",
    "what the layer gives for these tokens at the end of all tokens so far",
)
own_angles = attention(
    {
        KEYS_KEPT: "self.keys[:, :, start:end] = Attention.rotate(self.layer, self.heads_of(self.layer.k_proj(x)), start)",
        "self.layer.rotate(self.heads_of(self.layer.q_proj(x)), start)": "Attention.rotate(self.layer, self.heads_of(self.layer.q_proj(x)), start)",
    },
    ALL_OF_ATTENTION,
    "all layers are thought to turn by the same angles",
    "whose angles are its own affair: call its `rotate`",
)
mask_from_the_first_token = attention(
    {TRIL: ".tril()"},
    ("chunks",),
    "is_causal=True, or tril() alone, is thought to know where a chunk stands",
    "Each looks at itself and at all before it",
)
chunk_sees_ahead = attention(
    {"if new > 1:": "if new > 1 and self.length == 0:"},
    ("chunks",),
    "a mask is thought to be due for prompts alone",
    "at none after it",
)
no_mask = attention(
    {"if new > 1:": "if False:"},
    ("prompt", *AFTER_TOKENS, "errors"),
    "with a cache all tokens are thought to be past",
    "at none after it",
)
mask_without_itself = attention(
    {TRIL: ".tril(self.length - 1)", "mask = seen.repeat(": "seen[0, 0] = True\n            mask = seen.repeat("},
    ALL_OF_ATTENTION,
    "a token is thought to look at what is before it only",
    "Each looks at itself and at all before it",
)
mask_one_too_far = attention(
    {TRIL: ".tril(self.length + 1)"},
    ALL_OF_ATTENTION,
    "the diagonal is counted from the new length",
    "at none after it",
)
own_call_only = attention(
    {ATTENDS: "y = self.attention(queries, self.keys[:, :, start:end], self.values[:, :, start:end])", TRIL: ".tril()"},
    (*AFTER_TOKENS, "errors"),
    "a call is taken for a sequence",
    "what the layer gives for these tokens at the end of all tokens so far",
)
heads_dealt_out = attention(
    {
        "rows = queries.unflatten(1, (keys.shape[1], -1)).flatten(2, 3)": "rows = queries.unflatten(1, (-1, keys.shape[1])).transpose(1, 2).flatten(2, 3)",
        "return y.unflatten(2, (-1, new)).flatten(1, 2)": "return y.unflatten(2, (-1, new)).transpose(1, 2).flatten(1, 2)",
    },
    ALL_OF_ATTENTION,
    "query heads are dealt out to key heads one by one",
    "returns a tensor of the shape of `x`: what the layer gives",
)
everything_again = attention(
    {
        "self.layer, self.length = layer, 0": "self.layer, self.length, self.read = layer, 0, []",
        "self.length = 0\n\n    @": "self.length, self.read = 0, []\n\n    @",
        KEYS_KEPT: "self.read.append(x.clone())",
        "self.values[:, :, start:end] = self.heads_of(self.layer.v_proj(x))": "return self.everything(end)[:, start:]\n\n    def everything(self, end):\n        self.length, x, start = end, torch.cat(self.read, 1), 0\n        return self.layer(x)",
    },
    ("flops", "traffic", "buffers", "graph"),
    "a cache of inputs is thought to be one: the prefix is computed anew for each token",
    "a call costs the **FLOPs** of its new tokens",
)
all_of_the_capacity = attention(
    {
        ATTENDS: "y = self.attention(queries, self.keys, self.values)",
        "new, mask = queries.shape[2], None": "new = queries.shape[2]",
        "if new > 1:": "if True:",
        BUFFERS: BUFFERS.replace("empty", "zeros"),
    },
    ("flops", "traffic"),
    "buffers of one size are thought to cost nothing where the mask is False",
    "and their attention to the tokens so far",
)
token_after_token = attention(
    {
        "        self.layer, self.length = layer, 0\n": "        self.layer, self.length, self.batch, self.width = layer, 0, batch, layer.k_proj.in_features\n",
        '        """(batch, new, width) to the outputs of the new tokens. ValueError for another shape, or too many."""\n': "        self.end_after(x)\n        return torch.cat([self.one(token) for token in x.split(1, 1)], 1)\n\n    def one(self, x):\n",
    },
    ("traffic",),
    "a chunk is taken for so many calls: each reads all weights",
    "a call reads every weight once, however many tokens are new",
)
query_head_by_query_head = attention(
    {
        ATTENDS: "y = torch.cat([self.attention(queries[:, h : h + 1], self.keys[:, g : g + 1, :end], self.values[:, g : g + 1, :end]) for h in range(self.layer.heads) for g in [h * self.layer.kv_heads // self.layer.heads]], 1)",
    },
    ("traffic",),
    "every query head reads its keys by itself",
    "It reads the key and the value of each token so far once",
)
grown_by_cat = attention_with_buffers(
    "self.keys, self.values = torch.empty(2, batch, layer.kv_heads, 0, layer.head_dim, dtype=weight.dtype, device=weight.device)\n        self.shape = shape[1:]",
    ("traffic", "buffers"),
    "torch.cat is thought to add at the end",
    "the cache is not copied, `torch.cat` copies it",
    **{
        KEYS_KEPT: "self.keys = torch.cat((self.keys[:, :, :start], self.layer.rotate(self.heads_of(self.layer.k_proj(x)), start)), 2)",
        "self.values[:, :, start:end] = self.heads_of": "self.values = torch.cat((self.values[:, :, :start], self.heads_of",
        "(self.layer.v_proj(x))": "(self.layer.v_proj(x))), 2)",
        "(batch, _, capacity, _), width = self.keys.shape,": "(batch, _, capacity, _), width = self.shape,",
    },
)
repeated_for_the_queries = attention(
    {
        ATTENDS: "groups = self.layer.heads // self.layer.kv_heads\n        y = self.attention(queries, *(kept[:, :, :end].repeat_interleave(groups, 1) for kept in (self.keys, self.values)))",
    },
    ("traffic",),
    "every query head is thought to need a copy of its keys",
    "its heads are not repeated",
)
kept_for_every_query_head = attention(
    {
        "shape = (2, batch, layer.kv_heads,": "self.groups = layer.heads // layer.kv_heads\n        shape = (2, batch, layer.heads,",
        KEYS_KEPT: "self.keys[:, :, start:end] = self.layer.rotate(self.heads_of(self.layer.k_proj(x)), start).repeat_interleave(self.groups, 1)",
        "self.heads_of(self.layer.v_proj(x))\n": "self.heads_of(self.layer.v_proj(x)).repeat_interleave(self.groups, 1)\n",
    },
    ("traffic", "buffers"),
    "the cache is thought to have a head for each query head",
    "`batch * kv_heads * capacity * head_dim` elements",
)
turned_when_read = attention(
    {
        KEYS_KEPT: "self.keys[:, :, start:end] = self.heads_of(self.layer.k_proj(x))",
        ATTENDS: "y = self.attention(queries, self.layer.rotate(self.keys[:, :, :end], 0), self.values[:, :, :end])",
    },
    ("traffic",),
    "keys are thought to be turned anew for each query",
    "and never as much as its keys",
)
mask_of_all_pairs = attention(
    {
        "new, mask = queries.shape[2], None": "new, end = queries.shape[2], keys.shape[2]\n        mask = torch.ones(end, end, dtype=torch.bool, device=keys.device).tril()[-new:].repeat(rows.shape[2] // new, 1)",
        "if new > 1:": "if False:",
    },
    ("traffic",),
    "the layer's mask is thought to be due, of which the last rows are taken",
    "is a few numbers for each query head",
)
mask_kept = attention(
    {
        "self.layer, self.length = layer, 0": "self.layer, self.length = layer, 0\n        self.mask = torch.ones(capacity, capacity, dtype=torch.bool, device=layer.k_proj.weight.device).tril()",
        "torch.ones(new, keys.shape[2], dtype=torch.bool, device=keys.device).tril(self.length)": "self.mask[self.length : keys.shape[2], : keys.shape[2]]",
    },
    ("buffers",),
    "a mask that is made once is thought to cost nothing",
    "nothing on the device outlives a call",
)
weights_side_by_side = attention(
    {
        "self.layer, self.length = layer, 0": "self.layer, self.length = layer, 0\n        self.fused = torch.cat([p.weight.detach() for p in (layer.k_proj, layer.v_proj)])",
        "self.layer.k_proj(x)), start)": "x @ self.fused.chunk(2)[0].T), start)",
        "self.layer.v_proj(x))": "x @ self.fused.chunk(2)[1].T)",
    },
    ("buffers",),
    "weights are copied to be read together",
    "Beside them and what was returned, nothing on the device outlives a call",
)
wide_buffers_cast = attention(
    {
        BUFFERS: BUFFERS.replace("weight.dtype", "torch.float64"),
        ATTENDS: "y = self.attention(queries, *(kept[:, :, :end].to(queries.dtype) for kept in (self.keys, self.values)))",
    },
    ("traffic", "buffers"),
    "what is kept long is thought to be kept wide",
    "elements of the layer's dtype",
)
on_the_default_device = attention(
    {BUFFERS: "self.keys, self.values = torch.empty(shape, dtype=weight.dtype)"},
    ALL_OF_ATTENTION,
    "new tensors are thought to be where the model is",
    "lie on one device, the host or a card",
)
always_on_a_card = attention(
    {"dtype=weight.dtype, device=weight.device": 'dtype=weight.dtype, device="cuda"'},
    ALL_OF_ATTENTION,
    "models are thought to be on a GPU",
    "lie on one device, the host or a card",
)
waits_on_the_host = attention(
    {
        BUFFERS: BUFFERS.replace(", device=weight.device", ", pin_memory=False"),
        KEYS_KEPT: KEYS_KEPT.replace("start)", "start).cpu()"),
        "self.values[:, :, start:end] = self.heads_of(self.layer.v_proj(x))": "self.values[:, :, start:end] = self.heads_of(self.layer.v_proj(x)).cpu()",
        ATTENDS: "y = self.attention(queries, *(kept[:, :, :end].to(x.device) for kept in (self.keys, self.values)))",
    },
    ("traffic", "buffers"),
    "a cache on the host is thought to save the card's memory for nothing",
    "nothing moves between the host and a card",
)
mask_from_the_host = attention(
    {"torch.ones(new, keys.shape[2], dtype=torch.bool, device=keys.device).tril(self.length)": "torch.ones(new, keys.shape[2], dtype=torch.bool).tril(self.length).to(keys.device)"},
    ("traffic",),
    "a mask is made where Python is, and sent",
    "nothing moves between the host and a card",
)
length_on_the_card = attention(
    {
        "self.layer, self.length = layer, 0": "self.layer, self.length = layer, 0\n        self.place = torch.zeros((), dtype=torch.int64, device=layer.k_proj.weight.device)",
        "start, end = self.length, self.end_after(x)": "end = self.end_after(x)\n        self.place.fill_(self.length)\n        start = self.place.item()",
    },
    ("traffic",),
    "the card is asked for a number that the host knows",
    "the host waits for nothing",
)
made_at_the_first_call = attention(
    {
        BUFFERS: "self.shape, self.keys = shape, None",
        "        start, end = self.length, self.end_after(x)": "        start, end = self.length, self.end_after(x)\n        if self.keys is None:\n            self.keys, self.values = torch.empty(self.shape, dtype=x.dtype, device=x.device)",
        "(batch, _, capacity, _), width = self.keys.shape,": "(_, batch, _, capacity, _), width = self.shape,",
    },
    ("buffers",),
    "buffers are made when the shape of x is known",
    "buffers that are **allocated once**, by `cached_attention`",
)
made_again_by_reset = attention(
    {"self.length = 0\n\n    @": "self.length, self.keys, self.values = 0, torch.empty_like(self.keys), torch.empty_like(self.values)\n\n    @"},
    ("buffers",),
    "to forget is thought to need fresh buffers",
    "buffers that are **allocated once**",
)
a_graph_of_everything = attention(
    {
        "    @torch.no_grad()\n": "",
        BUFFERS: "self.keys, self.values = (torch.empty(shape[1:], dtype=weight.dtype, device=weight.device) for _ in range(2))",
    },
    ("graph",),
    "nobody calls backward, so nothing is thought to be kept",
    "nothing is kept for a backward pass",
)
result_of_a_graph = attention(
    {
        "    @torch.no_grad()\n": "",
        "self.layer.rotate(self.heads_of(self.layer.k_proj(x)), start)": "self.layer.rotate(self.heads_of(self.layer.k_proj(x)), start).detach()",
        BUFFERS: "self.keys, self.values = (torch.empty(shape[1:], dtype=weight.dtype, device=weight.device) for _ in range(2))",
        "self.values[:, :, start:end] = self.heads_of(self.layer.v_proj(x))": "self.values[:, :, start:end] = self.heads_of(self.layer.v_proj(x)).detach()",
    },
    ("graph",),
    "detached buffers are thought to be all",
    "what is returned requires no gradient",
)
graph_cut_at_the_end = attention(
    {
        "    @torch.no_grad()\n": "",
        BUFFERS: "self.keys, self.values = (torch.empty(shape[1:], dtype=weight.dtype, device=weight.device) for _ in range(2))",
        "return self.layer.o_proj(y.transpose(1, 2).flatten(2))": "return self.layer.o_proj(y.transpose(1, 2).flatten(2)).detach()",
    },
    ("graph",),
    "a detached result is thought to let go of its graph, which the buffers are in as well",
    "nothing is kept for a backward pass",
)
layer_frozen = attention(
    {"self.layer, self.length = layer, 0": "self.layer, self.length = layer.requires_grad_(False), 0"},
    ALL_OF_ATTENTION,
    "gradients are switched off in the layer",
    "It is left as it is",
)
kept_on_the_layer = attention(
    {"return CachedAttention(layer, batch, capacity)": "layer.attend = CachedAttention(layer, batch, capacity)\n    return layer.attend"},
    ALL_OF_ATTENTION,
    "a layer is thought to be the place for its cache",
    "It is left as it is",
)
one_object_a_layer = attention(
    {
        "return CachedAttention(layer, batch, capacity)": "CachedAttention.made = vars(CachedAttention).get('made', {})\n    return CachedAttention.made.setdefault((layer, batch, capacity), CachedAttention(layer, batch, capacity))",
    },
    ("objects",),
    "a layer is thought to need one cache of a size",
    "those of one layer neither",
)
length_of_the_class = attention(
    {
        "self.layer, self.length = layer, 0": "self.layer, CachedAttention.length = layer, 0",
        "    def reset(self):\n        self.length = 0": "    def reset(self):\n        CachedAttention.length = 0",
        "self.length = end": "CachedAttention.length = end",
    },
    ("objects",),
    "a variable of the class is taken for one of the object",
    "Two objects know nothing of each other",
)
results_in_one_place = attention(
    {
        "return self.layer.o_proj(y.transpose(1, 2).flatten(2))": "result = self.layer.o_proj(y.transpose(1, 2).flatten(2))\n        if getattr(self, 'out', None) is None or self.out.shape != result.shape:\n            self.out = result\n        return self.out.copy_(result)"
    },
    ("objects", "buffers", "graph"),
    "the output has a buffer too, as a CUDA graph's",
    "what a call returned is not changed by later ones",
)
reads_the_callers_x_later = attention(
    {
        "start, end = self.length, self.end_after(x)": "start, end = self.length, self.end_after(x)\n        if start:\n            old = self.last\n            self.keys[:, :, start - old.shape[1] : start] = self.layer.rotate(self.heads_of(self.layer.k_proj(old)), start - old.shape[1])\n        self.last = x",
    },
    (*AFTER_TOKENS, "errors"),
    "x is kept without a copy and read again in the next call",
    "the caller may overwrite `x` after a call",
)
reset_keeps_the_length = attention(
    {"    def reset(self):\n        self.length = 0": "    def reset(self):\n        self.keys.zero_()\n        self.values.zero_()"},
    ("objects", "buffers", "graph", "errors"),
    "zeroed keys are thought to be forgotten, but a key of zeros has a score of 0, which is one",
    "`attend.reset()` forgets them all",
)
length_counts_calls = attention(
    {"self.length = end": "self.length, self.calls = end, getattr(self, 'calls', 0) + 1\n        self.length = self.calls"},
    (*AFTER_TOKENS, "prompt", "errors"),
    "a call is thought to be a token",
    "how many tokens each sequence has by now",
)
length_of_all_sequences = attention(
    {
        "self.layer, self.length = layer, 0": "self.layer, self.count = layer, 0",
        "    def reset(self):\n        self.length = 0": "    @property\n    def length(self):\n        return self.count * len(self.keys)\n\n    def reset(self):\n        self.count = 0",
        "start, end = self.length,": "start, end = self.count,",
        "self.length = end": "self.count = end",
        "capacity - self.length:": "capacity - self.count:",
        "return self.length + x.shape[1]": "return self.count + x.shape[1]",
        TRIL: ".tril(self.count)",
    },
    ALL_OF_ATTENTION,
    "tokens are counted over all sequences",
    "how many tokens each sequence has by now",
)
length_a_tensor = attention(
    {"self.length = end": "self.length = torch.tensor(end)"},
    ALL_OF_ATTENTION,
    "everything in a model is thought to be a tensor",
    "by now, an `int`",
)
strides_taken_for_granted = attention(
    {"start, end = self.length, self.end_after(x)": "start, end = self.length, self.end_after(x)\n        x = x.view(-1, x.shape[2]).view(x.shape)"},
    ("prompt", *AFTER_TOKENS, "errors"),
    "the tokens are thought to lie one after another",
    "with any strides",
)
prompt_then_tokens = attention(
    {"start, end = self.length, self.end_after(x)": "start, end = self.length, self.end_after(x)\n        if start and x.shape[1] > 1:\n            x = x[:, -1:]\n            end = start + 1"},
    ("chunks",),
    "after the prompt there is thought to be one token a call",
    "`new` is 1 or more, another in each call: a prompt, a part of one, a single token",
)
last_token_only = attention(
    {"return self.layer.o_proj(y.transpose(1, 2).flatten(2))": "return self.layer.o_proj(y.transpose(1, 2).flatten(2)[:, -1:])"},
    ALL_OF_ATTENTION,
    "only the last token is thought to be asked for",
    "`attend(x)` returns a tensor of the shape of `x`",
)
tokens_before_come_again = attention(
    {"start, end = self.length, self.end_after(x)": "x = x[:, self.length :] if x.ndim == 3 and x.shape[1] > self.length else x\n        start, end = self.length, self.end_after(x)"},
    ("chunks",),
    "x is taken for the whole sequence, of which some is known",
    "`attend(x)` takes the next tokens of every sequence",
)
only_its_call = attention(
    {"return CachedAttention(layer, batch, capacity)": "return CachedAttention(layer, batch, capacity).__call__"},
    ALL_OF_ATTENTION,
    "what is called is thought to be a function",
    "returns an object, say `attend`",
)
one_sequence = attention(
    {"shape = (2, batch, layer.kv_heads,": "shape = (2, 1, layer.kv_heads,"},
    ALL_OF_ATTENTION,
    "a cache is thought to be of one sequence",
    "how many sequences grow together",
)
one_token_less = attention(
    {"<= capacity - self.length:": "< capacity - self.length:"},
    ALL_OF_ATTENTION,
    "the last place is thought to stay free",
    "the most tokens that each can have",
)
slices_are_thought_to_refuse = attention(
    {"if not 0 < x.shape[1] <= capacity - self.length:": "if False:"},
    ("errors",),
    "an assignment that does not fit is thought to be a ValueError",
    "when there are more tokens than the capacity has room for",
)
goes_round = attention(
    {"if not 0 < x.shape[1] <= capacity - self.length:": "if 0 < x.shape[1] <= capacity < self.length + x.shape[1]:\n            self.length = 0\n        if not 0 < x.shape[1] <= capacity:"},
    ("errors",),
    "a full cache is begun again, and its oldest tokens are forgotten in silence",
    "when there are more tokens than the capacity has room for",
)
no_token_is_no_work = attention(
    {"if not 0 < x.shape[1] <=": "if not 0 <= x.shape[1] <="},
    ("errors",),
    "no token is thought to be a chunk as well",
    "`attend` raises it when `x` has no token",
)
batch_broadcast = attention(
    {"x.shape[0] != batch or": "x.shape[0] not in (1, batch) or"},
    ("errors",),
    "one sequence is thought to stand for all",
    "another batch or another width",
)
width_unchecked = attention(
    {"x.shape[0] != batch or x.shape[2] != width": "x.shape[0] != batch"},
    ("errors",),
    "the product is thought to refuse another width as a ValueError",
    "another batch or another width",
)
dimensions_unchecked = attention(
    {"x.ndim != 3 or x.shape[0] != batch or x.shape[2] != width": "x.shape[0] != batch or x.shape[-1] != width"},
    ("errors",),
    "whatever can be projected is thought to be right",
    "not three dimensions",
)
longer_before_it_is_refused = attention(
    {"        (batch, _, capacity, _), width": "        before, self.length = self.length, self.length + (x.shape[1] if x.ndim > 1 else 0)\n        (batch, _, capacity, _), width", "capacity - self.length:": "capacity - before:", "return self.length + x.shape[1]": "self.length = before\n        return before + x.shape[1]"},
    ("errors",),
    "the length grows before anything is checked",
    "Nothing has changed then",
)
checked_once_written = attention(
    {
        "start, end = self.length, self.end_after(x)": "if x.ndim == 3 and x.shape[0] == len(self.keys) and x.shape[2] == self.layer.k_proj.in_features:\n            room = max(0, self.keys.shape[2] - x.shape[1])\n            self.keys[:, :, min(self.length, room) : min(self.length, room) + x.shape[1]] = self.layer.rotate(self.heads_of(self.layer.k_proj(x[:, : self.keys.shape[2]])), self.length)\n        start, end = self.length, self.end_after(x)"
    },
    ("errors", "flops"),
    "what does not fit is written over what is there, and then refused",
    "Nothing has changed then",
)
sizes_unchecked = attention(
    {"if batch < 1 or capacity < 1:": "if False:"},
    ("errors",),
    "torch.empty is thought to refuse no rows",
    "when `batch` or `capacity` is less than 1",
)
assertions = attention(
    {'raise ValueError(f"{x.shape[1]} new tokens': 'raise IndexError(f"{x.shape[1]} new tokens'},
    ("errors",),
    "any exception is thought to do",
    "raises `ValueError`",
)


@alternative("cached_attention")
def products_written_out(layer, batch, capacity):
    if min(batch, capacity) <= 0:
        raise ValueError("no tokens")
    like = {"dtype": layer.o_proj.weight.dtype, "device": layer.o_proj.weight.device}
    groups, size = layer.heads // layer.kv_heads, layer.head_dim
    keys = torch.empty(batch, layer.kv_heads, size, capacity, **like)
    values = torch.empty(capacity, batch, layer.kv_heads, size, **like)
    places = torch.arange(capacity, device=like["device"])

    def attend(x):
        start = attend.length
        if x.dim() != 3 or (x.size(0), x.size(2)) != (batch, layer.q_proj.weight.size(1)):
            raise ValueError("wrong shape")
        stop = start + x.size(1)
        if stop == start or stop > capacity:
            raise ValueError("no room")
        with torch.inference_mode():
            q = layer.rotate(layer.q_proj(x).view(batch, -1, layer.heads, size).transpose(1, 2), start) / size**0.5
            k = layer.rotate(layer.k_proj(x).view(batch, -1, layer.kv_heads, size).transpose(1, 2), start)
            keys[..., start:stop].copy_(k.transpose(2, 3))
            values[start:stop].copy_(layer.v_proj(x).view(batch, -1, layer.kv_heads, size).transpose(0, 1))
            q = q.reshape(batch, layer.kv_heads, groups * (stop - start), size)
            scores = (q @ keys[..., :stop]).view(batch, layer.kv_heads, groups, stop - start, stop)
            scores.masked_fill_(places[:stop] > places[start:stop, None], -torch.inf)
            shares = scores.float().softmax(-1).to(q.dtype) if q.dtype != torch.float64 else scores.softmax(-1)
            y = shares.flatten(2, 3) @ values[:stop].permute(1, 2, 0, 3)
            y = y.view(batch, layer.heads, stop - start, size).transpose(1, 2).reshape(batch, stop - start, -1)
            attend.length = stop
            return layer.o_proj(y)

    def reset():
        attend.length = 0

    attend.reset = reset
    reset()
    return attend


@alternative("cached_attention")
def a_module_with_grouped_heads(layer, batch, capacity):
    class Attend(torch.nn.Module):
        def __init__(self):
            super().__init__()
            if batch < 1 or capacity < 1:
                raise ValueError("no tokens")
            self.of = [layer]
            weight = layer.v_proj.weight
            self.register_buffer("kept", weight.new_zeros(batch, capacity, 2, layer.kv_heads, layer.head_dim))
            self.reset()

        def reset(self):
            self.tokens = 0

        @property
        def length(self):
            return self.tokens

        def forward(self, x):
            layer = self.of[0]
            if x.ndim != 3:
                raise ValueError("three dimensions are due")
            rows, new, width = x.shape
            if rows != batch or width != layer.v_proj.in_features or new < 1 or new + self.tokens > capacity:
                raise ValueError("these tokens cannot be")
            with torch.no_grad():
                k, v = (project(x).view(rows, new, layer.kv_heads, -1) for project in (layer.k_proj, layer.v_proj))
                held = self.kept.narrow(1, self.tokens, new)
                held.select(2, 1).copy_(v)
                held.select(2, 0).copy_(layer.rotate(k.transpose(1, 2), self.tokens).transpose(1, 2))
                q = layer.rotate(layer.q_proj(x).view(rows, new, layer.heads, -1).transpose(1, 2), self.tokens)
                keys, values = self.kept[:, : self.tokens + new].permute(2, 0, 3, 1, 4).unbind(0)
                bias = None
                if new > 1:
                    bias = q.new_zeros(new, self.tokens + new)
                    bias.masked_fill_(torch.ones_like(bias, dtype=torch.bool).triu(self.tokens + 1), float("-inf"))
                y = torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=bias, enable_gqa=True)
                self.tokens += new
                return layer.o_proj(y.transpose(1, 2).reshape(rows, new, -1))

    return Attend()


@alternative("cached_attention")
def key_head_by_key_head(layer, batch, capacity):
    if batch < 1 or capacity < 1:
        raise ValueError("no tokens")
    groups, size, weight = layer.heads // layer.kv_heads, layer.head_dim, layer.k_proj.weight.detach()
    kept = [[weight.new_empty(batch, capacity, size) for _ in range(2)] for _ in range(layer.kv_heads)]

    class Attend:
        length = 0

        def reset(self):
            self.length = 0

        def __call__(self, x):
            if x.ndim != 3 or x.shape != (batch, x.shape[1], weight.shape[1]) or not 1 <= x.shape[1] <= capacity - self.length:
                raise ValueError("these tokens cannot be")
            with torch.inference_mode():
                return self.attended(x.detach(), x.shape[1])

        def attended(self, x, new):
            k, v = (p(x).view(batch, new, layer.kv_heads, size).transpose(1, 2) for p in (layer.k_proj, layer.v_proj))
            q, k = layer.rotate(layer.q_proj(x).view(batch, new, layer.heads, size).transpose(1, 2), self.length), layer.rotate(k, self.length)
            self.length, parts = self.length + new, []
            later = torch.ones(new, new, dtype=torch.bool, device=x.device).triu(1)
            for head, (keys, values) in enumerate(kept):
                keys[:, self.length - new : self.length] = k[:, head]
                values[:, self.length - new : self.length] = v[:, head]
                rows = q[:, head * groups : (head + 1) * groups].reshape(batch, groups * new, size)
                scores = torch.einsum("brd,btd->brt", rows, keys[:, : self.length]).unflatten(1, (groups, new)) * size**-0.5
                scores[..., self.length - new :].masked_fill_(later, float("-inf"))
                shares = torch.exp(scores - scores.amax(-1, keepdim=True))
                y = torch.einsum("brt,btd->brd", shares.flatten(1, 2), values[:, : self.length]).unflatten(1, (groups, new))
                parts.append(y / shares.sum(-1, keepdim=True))
            return layer.o_proj(torch.cat(parts, 1).transpose(1, 2).flatten(2))

    return Attend()


CACHED_TOO_MANY = 'raise ValueError(f"{x.shape[1]} new tokens after {self.length}, with room for {capacity}")'
CACHED_ALONE = "if new > 1: # row i is the token at position length + i; one token alone sees everything"
CACHED_WORDS = "a message names another number"
CACHED_SEES_ALL = "a mask that hides nothing, a number for each token so far"
cached_harmless = [
    equivalent_mutant("cached_attention", CACHED_TOO_MANY, CACHED_TOO_MANY.replace("shape[1]", "shape[2]"), CACHED_WORDS),
    equivalent_mutant("cached_attention", CACHED_TOO_MANY, CACHED_TOO_MANY.replace("shape[1]", "shape[0]"), CACHED_WORDS),
    equivalent_mutant("cached_attention", CACHED_ALONE, CACHED_ALONE.replace("> 1", ">= 1"), CACHED_SEES_ALL),
    equivalent_mutant("cached_attention", CACHED_ALONE, CACHED_ALONE.replace("> 1", "> 0"), CACHED_SEES_ALL),
]

sequence_by_sequence = edited(
    "cached_attention",
    {
        "self.heads_of(self.layer.k_proj(x))": "self.heads_of(torch.stack([self.layer.k_proj(row) for row in x]))",
        "self.heads_of(self.layer.v_proj(x))": "self.heads_of(torch.stack([self.layer.v_proj(row) for row in x]))",
        "self.heads_of(self.layer.q_proj(x))": "self.heads_of(torch.stack([self.layer.q_proj(row) for row in x]))",
    },
    loses=("traffic",),
    because="a batch is thought to be so many calls of one: each of them reads the weights",
    breaks="a call reads every weight once, however many tokens are new",
)

repeats_heads_for_chunks = edited(
    "cached_attention",
    {
        "        y = self.attention(queries, self.keys[:, :, :end], self.values[:, :, :end])\n": (
            "        keys, values = self.keys[:, :, :end], self.values[:, :, :end]\n"
            "        if x.shape[1] > 1:\n"
            "            keys, values = (each.repeat_interleave(self.layer.heads // self.layer.kv_heads, 1) for each in (keys, values))\n"
            "        y = self.attention(queries, keys, values)\n"
        ),
    },
    loses=("traffic",),
    because="only the step of one token is thought to matter",
    breaks="and its heads are not repeated",
)

keeps_the_last_mask = edited(
    "cached_attention",
    {
        "            seen = torch.ones(new, keys.shape[2], dtype=torch.bool, device=keys.device).tril(self.length)\n": (
            "            self.seen = seen = torch.ones(new, keys.shape[2], dtype=torch.bool, device=keys.device).tril(self.length)\n"
        ),
    },
    loses=("buffers",),
    because="a mask is thought to be worth keeping, and to be small",
    breaks="nothing on the device outlives a call",
)


# E18.2 kv_bytes

EVERY_KIND = ("heads", "requests", "images", "videos", "layers", "latents", "together", "errors")
EACH = "each = 2 * config.kv_heads * config.head_dim if config.latent is None else config.latent + config.rope_dim"
ITEM = "return kept * each * dtype.itemsize"
KEPT = "kept += full * tokens + (keeping - full) * min(tokens, config.window or tokens)"
FULL = "full = keeping // config.full_every if config.full_every else 0"
KEEPING = "keeping = config.layers - config.shared"
LOOP = "    for request in requests:\n"
READ = "return prompt + max(request.generated - 1, 0)"
IMAGES = "sum(image_tokens(config, *sides) for sides in request.images)"
VIDEOS = "sum(video_tokens(config, video) for video in request.videos)"
SQUARES = "return rounded_up(height, side) * rounded_up(width, side)"
FRAMES = "frames = rounded_up(video.milliseconds * video.fps, 1000)"
GROUPS = "return rounded_up(frames, config.temporal) * image_tokens(config, video.height, video.width)"
SIZES = "sizes = (config.layers, config.width, config.heads, config.kv_heads, config.head_dim)"
MORE_SIZES = "sizes += (config.patch, config.merge, config.temporal)"
GIVEN_SIZES = "(config.latent, config.window, config.full_every)"
REFUSAL = "if min(sizes) < 1 or config.rope_dim < 0 or not 0 <= config.shared < config.layers:"
LENGTHS = "[request.text, request.generated, *(video.milliseconds for video in request.videos)]"
IMAGE_SIDES = "sides = [side for sides in request.images for side in sides]"
VIDEO_SIDES = "for side in (video.height, video.width, video.fps)]"
NO_TOKEN = "    if prompt < 1:\n"
NUMBERS = "for numbers of `config` less than 1, or `rope_dim` or `shared` less than 0"


def cache(edits, loses, because, breaks):
    return edited("kv_bytes", edits, loses=loses, because=because, breaks=breaks)


# heads

heads_of_queries = cache(
    {"2 * config.kv_heads": "2 * config.heads"},
    ("heads", "together", "errors"),
    "every head of queries is thought to have keys of its own",
    "a key and a value in each of the `kv_heads` heads",
)
keys_alone = cache(
    {"each = 2 * config.kv_heads": "each = config.kv_heads"},
    EVERY_KIND,
    "what is kept is thought to be one tensor",
    "of a token a layer keeps a key and a value",
)
queries_too = cache(
    {"2 * config.kv_heads * config.head_dim if": "(2 * config.kv_heads + config.heads) * config.head_dim if"},
    EVERY_KIND,
    "the queries of former tokens are thought to be needed again",
    "of a token a layer keeps a key and a value",
)
the_width = cache(
    {"2 * config.kv_heads * config.head_dim": "2 * config.width"},
    ("heads", "together", "errors"),
    "a key is thought to be as wide as the residual stream",
    "`heads` and `width` play no part",
)
a_share_of_the_width = cache(
    {"2 * config.kv_heads * config.head_dim": "2 * config.width * config.kv_heads // config.heads"},
    ("heads", "together", "errors"),
    "the heads are thought to fill the width",
    "the heads need not fill the width",
)
heads_of_the_width = cache(
    {"2 * config.kv_heads * config.head_dim": "2 * config.kv_heads * (config.width // config.heads)"},
    ("heads", "together", "errors"),
    "a head is thought to be the width over the heads",
    "the heads need not fill the width",
)
keys_in_groups_values_not = cache(
    {"2 * config.kv_heads * config.head_dim": "(config.kv_heads + config.heads) * config.head_dim"},
    ("heads", "together", "errors"),
    "the keys alone are thought to be shared",
    "a key and a value in each of the `kv_heads` heads",
)
two_bytes = cache(
    {"dtype.itemsize": "2"},
    ("heads", "together", "errors"),
    "a cache is thought to be of 16 bits",
    "`torch.dtype` of every element, of 8 bits or more",
)
no_integers = cache(
    {"dtype.itemsize": "(torch.finfo(dtype).bits // 8)"},
    ("heads", "together", "errors"),
    "a dtype is thought to be floating",
    "`torch.dtype` of every element, of 8 bits or more",
)
integers_are_wide = cache(
    {"dtype.itemsize": "(4 if not dtype.is_floating_point else dtype.itemsize)"},
    ("heads", "together", "errors"),
    "integers are thought to be unpacked",
    "`torch.dtype` of every element, of 8 bits or more",
)
eight_bits_of_one_name = cache(
    {
        "dtype.itemsize": (
            "{torch.float64: 8, torch.float32: 4, torch.float8_e4m3fn: 1, torch.int8: 1, torch.uint8: 1}.get(dtype, 2)"
        ),
    },
    ("heads", "together", "errors"),
    "there is thought to be one format of 8 bits",
    "`torch.dtype` of every element, of 8 bits or more",
)
with_scales = cache(
    {
        ITEM: "scales = 4 * kept * 2 * config.kv_heads if dtype.itemsize == 1 else 0\n"
        "    return kept * each * dtype.itemsize + scales",
    },
    ("heads", "together", "errors"),
    "each head of 8 bits is thought to bring a scale",
    "scales of 8-bit elements are left out",
)
in_kibibytes = cache(
    {ITEM: ITEM + " // 1024"},
    EVERY_KIND,
    "kibibytes are thought to do",
    "returns the bytes that the cache holds between two steps, an `int`",
)
as_a_float = cache(
    {ITEM: "return float(kept * each * dtype.itemsize)"},
    EVERY_KIND,
    "a number of bytes is thought to be any number",
    "returns the bytes that the cache holds between two steps, an `int`",
)
by_way_of_a_float = cache(
    {ITEM: "return int(kept * each * dtype.itemsize / 2**20 * 2**20)"},
    ("requests", "together"),
    "a float is thought to hold every integer",
    "It is exact, also where a float or 64 bits would not do",
)
in_64_bits = cache(
    {ITEM: "return int((torch.tensor(kept % 2**63) * each * dtype.itemsize).item())"},
    ("requests", "together"),
    "64 bits are thought to be enough for bytes",
    "It is exact, also where a float or 64 bits would not do",
)

# requests

first_request_alone = cache(
    {LOOP: "    for request in requests[:1]:\n"},
    ("requests", "layers", "together", "errors"),
    "one sequence is thought to be the batch",
    "returns the bytes that the cache holds",
)
padded = cache(
    {KEPT: "tokens = max(tokens_read(config, other) for other in requests)\n        " + KEPT},
    ("requests", "layers", "together"),
    "a batch is thought to be a rectangle",
    "Nothing is padded to the longest request",
)
equal_ones_once = cache(
    {LOOP: "    for request in set(requests):\n"},
    ("requests",),
    "equal requests are thought to be one",
    "a list of `Request`, perhaps empty or with equal ones",
)
taken_from_the_list = cache(
    {LOOP: "    while requests:\n        request = requests.pop()\n"},
    EVERY_KIND,
    "the list is thought to be the function's own",
    "left as it is",
)
none_is_an_error = cache(
    {
        "    require_decoder(config)\n": "    require_decoder(config)\n"
        "    if not requests:\n        raise ValueError(\"no requests\")\n",
    },
    ("requests",),
    "a server without requests is thought to be none",
    "a list of `Request`, perhaps empty",
)
all_generated = cache(
    {READ: "return prompt + request.generated"},
    ("requests", "layers", "together"),
    "a token is thought to be kept from when it is sampled",
    "a token is kept from when the decoder reads it",
)
none_generated = cache(
    {READ: "return prompt"},
    ("requests", "layers", "together"),
    "the prompt alone is thought to be kept",
    "it has read the prompt and all that it generated",
)
always_one_less = cache(
    {READ: "return prompt + request.generated - 1"},
    EVERY_KIND,
    "the last token of the prompt is thought to be unread like one that was sampled",
    "Before the first is sampled, `generated` is 0 and the prompt has been read",
)
not_before_the_first = cache(
    {READ: "return prompt + request.generated - 1 if request.generated else 0"},
    EVERY_KIND,
    "a request is thought to hold nothing before its first token",
    "Before the first is sampled, `generated` is 0 and the prompt has been read",
)
remembered = cache(
    {
        ITEM: "seen[len(requests)] = seen.get(len(requests), kept * each * dtype.itemsize)\n    return seen[len(requests)]",
        "def tokens_read": "seen = {}\n\n\ndef tokens_read",
    },
    EVERY_KIND,
    "as many requests are thought to hold as much again",
    "returns the bytes that the cache holds between two steps",
)
summed_over_calls = cache(
    {
        ITEM: "total.append(kept * each * dtype.itemsize)\n    return sum(total)",
        "def tokens_read": "total = []\n\n\ndef tokens_read",
    },
    EVERY_KIND,
    "calls are thought to add up",
    "returns the bytes that the cache holds between two steps",
)

# images

whole_squares_alone = cache(
    {SQUARES: "return (height // side) * (width // side)"},
    ("images", "together"),
    "what is left at the edges is thought to be cut off",
    "padded at its right and lower edge until whole tokens cover it",
)
nearest_squares = cache(
    {SQUARES: "return max(1, round(height / side)) * max(1, round(width / side))"},
    ("images", "together"),
    "an image is thought to be resized to the nearest whole tokens",
    "padded at its right and lower edge until whole tokens cover it",
)
area_rounded = cache(
    {SQUARES: "return rounded_up(height * width, side * side)"},
    ("images", "together"),
    "the area is thought to be cut, not the sides",
    "padded at its right and lower edge until whole tokens cover it",
)
patches_rounded_together = cache(
    {SQUARES: "return rounded_up(rounded_up(height, config.patch) * rounded_up(width, config.patch), config.merge**2)"},
    ("images", "together"),
    "patches are thought to be merged wherever they lie",
    "Such a token has `merge` x `merge` patches",
)
whole_patches_alone = cache(
    {SQUARES: "return rounded_up(height // config.patch, config.merge) * rounded_up(width // config.patch, config.merge)"},
    ("images", "together"),
    "a part of a patch is thought to be cut off, and patches to be padded",
    "padded at its right and lower edge until whole tokens cover it",
)
whole_merges_alone = cache(
    {
        SQUARES: "rows, columns = rounded_up(height, config.patch), rounded_up(width, config.patch)\n"
        "    return max(rows // config.merge, 1) * max(columns // config.merge, 1)"
    },
    ("images", "together"),
    "the image is thought to be padded to whole patches alone",
    "until whole tokens cover it",
)
unmerged = cache(
    {"side = config.patch * config.merge": "side = config.patch"},
    ("images", "videos", "together"),
    "a patch is thought to be a token",
    "Such a token has `merge` x `merge` patches",
)
merged_in_one_direction = cache(
    {SQUARES: "return rounded_up(height, side) * rounded_up(width, config.patch)"},
    ("images", "videos", "together"),
    "merged patches are thought to lie side by side",
    "Such a token has `merge` x `merge` patches",
)
square_images = cache(
    {SQUARES: "return rounded_up(height, side) ** 2"},
    ("images", "videos", "together"),
    "images are thought to be square",
    "padded at its right and lower edge",
)
one_image = cache(
    {"for sides in request.images)": "for sides in request.images[:1])"},
    ("images", "together"),
    "a prompt is thought to have one image",
    "a prompt has `text` tokens and those of its images and videos",
)
equal_images_once = cache(
    {"for sides in request.images)": "for sides in set(request.images))"},
    ("images",),
    "an image that is shown twice is thought to be kept once",
    "a prompt has `text` tokens and those of its images and videos",
)
images_are_not_kept = cache(
    {IMAGES: "0"},
    ("images", "together"),
    "an encoder is thought to keep what it saw",
    "a prompt has `text` tokens and those of its images and videos",
)
no_text = cache(
    {"prompt = request.text + ": "prompt = (0 if request.images else request.text) + "},
    ("images", "together"),
    "an image is thought to take the place of the words",
    "a prompt has `text` tokens and those of its images and videos",
)

# videos

whole_steps_alone = cache(
    {FRAMES: "frames = video.milliseconds * video.fps // 1000"},
    ("videos", "together"),
    "the frame at the beginning is thought to need a whole step behind it",
    "the first at its beginning",
)
one_at_the_end = cache(
    {FRAMES: "frames = video.milliseconds * video.fps // 1000 + 1"},
    ("videos", "errors"),
    "a frame is thought to stand at the very end too",
    "and each before its end",
)
one_at_least = cache(
    {FRAMES: "frames = max(1, rounded_up(video.milliseconds * video.fps, 1000))"},
    ("videos", "errors"),
    "every video is thought to have a frame",
    "of 0 milliseconds none",
)
in_floats = cache(
    {
        FRAMES: "frames = math.ceil(video.milliseconds / 1000 * video.fps)",
        "def video_tokens": "import math\n\n\ndef video_tokens",
    },
    ("videos",),
    "a product of floats is thought to be whole where it ought to be",
    "and each before its end",
)
in_steps_of_a_float = cache(
    {
        FRAMES: "frames = math.ceil(video.milliseconds / (1000 / video.fps))",
        "def video_tokens": "import math\n\n\ndef video_tokens",
    },
    ("videos",),
    "a step in time is thought to be a float",
    "and each before its end",
)
in_whole_milliseconds = cache(
    {FRAMES: "frames = len(range(0, video.milliseconds, 1000 // video.fps))"},
    ("videos",),
    "frames are thought to lie whole milliseconds apart",
    "`fps` frames are taken in every second, evenly",
)
whole_seconds = cache(
    {FRAMES: "frames = rounded_up(video.milliseconds, 1000) * video.fps"},
    ("videos", "together"),
    "a video is thought to last whole seconds",
    "and each before its end",
)
groups_of_frames_cut = cache(
    {"rounded_up(frames, config.temporal)": "(frames // config.temporal)"},
    ("videos", "together"),
    "frames left over are thought to be dropped",
    "Every `temporal` frames, and what is left over, become one",
)
frames_by_themselves = cache(
    {"rounded_up(frames, config.temporal)": "frames"},
    ("videos", "together"),
    "every frame is thought to be an image",
    "Every `temporal` frames, and what is left over, become one",
)
tokens_in_groups = cache(
    {GROUPS: "return rounded_up(frames * image_tokens(config, video.height, video.width), config.temporal)"},
    ("videos", "together"),
    "tokens are thought to be brought together, not frames",
    "with the tokens of an image of that size",
)
films_run_together = cache(
    {
        "    prompt += " + VIDEOS: "    frames = {}\n    for video in request.videos:\n"
        "        size = video.height, video.width\n"
        "        frames[size] = frames.get(size, 0) + rounded_up(video.milliseconds * video.fps, 1000)\n"
        "    prompt += sum(image_tokens(config, *size) * rounded_up(count, config.temporal) for size, count in frames.items())"
    },
    ("videos",),
    "the last frames of one film are thought to join the first of the next",
    "of a video `fps` frames are taken",
)
frames_uncovered = cache(
    {
        GROUPS: "side = config.patch * config.merge\n"
        "    return rounded_up(frames, config.temporal) * (video.height // side) * (video.width // side)",
    },
    ("together",),
    "frames are thought to be cut where images are padded",
    "with the tokens of an image of that size",
)
one_video = cache(
    {"for video in request.videos)\n    if": "for video in request.videos[:1])\n    if"},
    ("videos", "together"),
    "a prompt is thought to have one video",
    "a prompt has `text` tokens and those of its images and videos",
)

# layers

no_window = cache(
    {KEPT: "kept += keeping * tokens"},
    ("layers", "together"),
    "a window is thought to save work and no memory",
    "with `window`, a layer keeps the last `window` tokens of each request",
)
windows_alone = cache(
    {FULL: "full = 0"},
    ("layers", "together"),
    "a decoder with a window is thought to have it in each layer",
    "those whose number is a multiple of `full_every` have no window and keep all tokens",
)
counted_from_0 = cache(
    {FULL: "full = -(-keeping // config.full_every) if config.full_every else 0"},
    ("layers", "together"),
    "the first layer is thought to have number 0, a multiple of everything",
    "Layers are numbered from 1",
)
window_every_so_often = cache(
    {FULL: "full = keeping - keeping // config.full_every if config.full_every else 0"},
    ("layers", "together"),
    "the layers of that number are thought to be those with a window",
    "those whose number is a multiple of `full_every` have no window",
)
none_is_full = cache(
    {FULL: "full = keeping // config.full_every if config.full_every else keeping"},
    ("layers", "together"),
    "without a number every layer is thought to be full",
    "those whose number is a multiple of `full_every` have no window",
)
sorted_in_place = cache(
    {LOOP: "    requests.sort(key=lambda request: request.text)\n" + LOOP},
    ("requests", "layers", "together", "errors"),
    "the order of the requests is thought to be nobody's",
    "left as it is",
)
tokens_remembered = cache(
    {
        "tokens = tokens_read(config, request)": "tokens = known[request] = known.get(request) or tokens_read(config, request)",
        "def tokens_read": "known = {}\n\n\ndef tokens_read",
    },
    ("images", "videos"),
    "a request is thought to have as many tokens for every decoder",
    "Such a token has `merge` x `merge` patches of `patch` x `patch` pixels",
)
frames_of_images = cache(
    {IMAGES: "sum(rounded_up(image_tokens(config, *sides), config.temporal) for sides in request.images)"},
    ("images", "together"),
    "the tokens of an image are thought to be shared by as many of them as a video's frames",
    "an image is padded at its right and lower edge until whole tokens cover it",
)
frames_rounded = cache(
    {FRAMES: "frames = round(video.milliseconds * video.fps / 1000)"},
    ("videos", "together"),
    "a frame is thought to be at hand for half of the time between two",
    "`fps` frames are taken in every second, evenly, the first at its beginning",
)
full_without_a_window = cache(
    {
        KEPT: KEPT.replace("config.window or tokens", "config.window or (0 if config.full_every else tokens)"),
    },
    ("layers", "together"),
    "layers that are not full are thought to have a window, of nothing",
    "Without `window` every layer does",
)
window_of_the_batch = cache(
    {
        LOOP: "    total = 0\n" + LOOP,
        KEPT: "total += tokens\n    kept = full * total + (keeping - full) * min(total, config.window or total)",
    },
    ("layers", "together"),
    "the window is thought to be the batch's",
    "the last `window` tokens of each request",
)
one_more_than_the_window = cache(
    {KEPT: KEPT.replace("config.window or tokens", "(config.window or tokens) + 1")},
    ("layers", "together"),
    "the token that is read is thought to be kept beside the window",
    "keeps the last `window` tokens",
)
one_less_than_the_window = cache(
    {KEPT: KEPT.replace("config.window or tokens", "config.window - 1 if config.window else tokens")},
    ("layers", "together"),
    "the newest token is thought not to count among the window's",
    "keeps the last `window` tokens",
)
always_a_whole_window = cache(
    {KEPT: KEPT.replace("min(tokens, config.window or tokens)", "(config.window or tokens)")},
    ("layers", "together"),
    "a window is thought to be allocated, full or not",
    "or all where there are fewer",
)
window_of_the_prompt = cache(
    {
        KEPT: KEPT.replace("min(tokens, config.window or tokens)", "(min(tokens - fresh, config.window or tokens) + fresh)"),
        LOOP: LOOP + "        fresh = max(request.generated - 1, 0)\n",
    },
    ("layers", "together"),
    "generated tokens are thought to come on top of the window",
    "keeps the last `window` tokens",
)
nothing_is_shared = cache(
    {KEEPING: "keeping = config.layers"},
    ("layers", "together"),
    "every layer is thought to keep what it reads",
    "the last `shared` layers read what an earlier layer keeps and keep nothing",
)
shared_have_windows = cache(
    {FULL: "full = config.layers // config.full_every if config.full_every else 0"},
    ("layers", "together"),
    "those that share are thought to be layers with a window",
    "and keep nothing, with a window or not",
)
first_ones_share = cache(
    {FULL: "every = config.full_every or config.layers + 1\n    full = config.layers // every - config.shared // every"},
    ("layers", "together"),
    "the first layers are thought to share",
    "the last `shared` layers read what an earlier layer keeps",
)
shared_keep_keys = cache(
    {ITEM: "return kept * each * dtype.itemsize * (config.layers - config.shared // 2) // max(config.layers - config.shared, 1)"},
    ("layers", "together"),
    "layers that share are thought to keep values of their own",
    "and keep nothing, with a window or not",
)

# latents

two_latents = cache(
    {"config.latent + config.rope_dim": "2 * (config.latent + config.rope_dim)"},
    ("latents", "together"),
    "keys and values are thought to have a latent each",
    "a layer keeps `latent + rope_dim` elements of a token instead",
)
latents_of_heads = cache(
    {"config.latent + config.rope_dim": "config.kv_heads * (config.latent + config.rope_dim)"},
    ("latents", "together"),
    "every head is thought to have its latent",
    "once for all heads",
)
rotary_keys_of_heads = cache(
    {"config.latent + config.rope_dim": "config.latent + config.heads * config.rope_dim"},
    ("latents", "together"),
    "every head is thought to have its rotary key",
    "once for all heads",
)
no_rotary_key = cache(
    {"config.latent + config.rope_dim": "config.latent"},
    ("latents", "together"),
    "the latent is thought to be all",
    "a layer keeps `latent + rope_dim` elements of a token instead",
)
two_latents_one_rotary_key = cache(
    {"config.latent + config.rope_dim": "2 * config.latent + config.rope_dim"},
    ("latents", "together"),
    "keys and values are thought to have a latent each",
    "a layer keeps `latent + rope_dim` elements of a token instead",
)
no_latent = cache(
    {EACH: "each = 2 * config.kv_heads * config.head_dim"},
    ("latents", "together"),
    "keys and values are thought to be kept as attention reads them",
    "a layer keeps `latent + rope_dim` elements of a token instead",
)
latent_beside_the_heads = cache(
    {EACH: "each = 2 * config.kv_heads * config.head_dim + (config.latent + config.rope_dim if config.latent else 0)"},
    ("latents", "together"),
    "the latent is thought to come on top",
    "elements of a token instead",
)
rotary_key_without_a_latent = cache(
    {EACH: EACH.replace("2 * config.kv_heads * config.head_dim", "2 * config.kv_heads * config.head_dim + config.rope_dim")},
    ("latents", "together"),
    "a rotary key is thought to be kept by everyone",
    "Without, `rope_dim` plays no part",
)
latents_of_16_bits = cache(
    {ITEM: "return kept * each * (dtype.itemsize if config.latent is None else 2)"},
    ("together",),
    "a latent is thought to stay in 16 bits",
    "`torch.dtype` of every element",
)
latents_have_no_window = cache(
    {
        KEPT: (
            "kept += keeping * tokens if config.latent else "
            "full * tokens + (keeping - full) * min(tokens, config.window or tokens)"
        ),
    },
    ("together",),
    "a latent is thought to be kept for good",
    "keeps the last `window` tokens",
)

# errors

decoders_unchecked = cache(
    {"    require_decoder(config)\n": ""},
    ("errors",),
    "a decoder is thought to be right because someone built it",
    NUMBERS,
)
requests_unchecked = cache(
    {"    require_request(request)\n": ""},
    ("errors",),
    "a request is thought to be right because someone sent it",
    "for `text`, `generated` or `milliseconds` less than 0, for `fps` or a side less than 1",
)
decoders_checked_where_requests_are = cache(
    {"    require_decoder(config)\n": "    if requests:\n        require_decoder(config)\n"},
    ("errors",),
    "a decoder without requests is thought to be right",
    NUMBERS,
)
zeros_pass = cache(
    {"if min(sizes) < 1": "if min(sizes) < 0"},
    ("errors",),
    "only what is negative is thought to be wrong",
    NUMBERS,
)
unread_sizes_pass = cache(
    {SIZES: "sizes = (config.layers, config.heads, config.kv_heads, config.head_dim)"},
    ("errors",),
    "what plays no part is thought to need no check",
    "whether they play a part or not",
)
pictures_sizes_pass = cache(
    {
        MORE_SIZES: (
            "sizes += (config.patch, config.merge, config.temporal) if any(request.images for request in requests) else ()"
        ),
        "require_decoder(config)\n    keeping": "require_decoder(config, requests)\n    keeping",
        "def require_decoder(config)": "def require_decoder(config, requests)",
    },
    ("errors",),
    "patches are thought to matter where there are images",
    "whether they play a part or not",
)
options_pass = cache(
    {GIVEN_SIZES: "()"},
    ("errors",),
    "an option of 0 is thought to be none",
    NUMBERS,
)
heads_of_a_latent_pass = cache(
    {
        SIZES: "sizes = (config.layers, config.heads, config.width)",
        "if config.heads % config.kv_heads": "if config.kv_heads and config.heads % config.kv_heads",
    },
    ("errors",),
    "whatever is a factor is thought to show by itself that it is wrong",
    NUMBERS,
)
latent_of_nothing = cache(
    {GIVEN_SIZES: "(config.window, config.full_every)"},
    ("errors",),
    "a latent of 0 is thought to be none",
    NUMBERS,
)
window_of_nothing = cache(
    {GIVEN_SIZES: "(config.latent, config.full_every)"},
    ("errors",),
    "a window of 0 is thought to be none",
    NUMBERS,
)
never_full_of_0 = cache(
    {GIVEN_SIZES: "(config.latent, config.window, config.full_every if config.window else None)"},
    ("errors",),
    "a number that is not read is thought to need no check",
    "whether they play a part or not",
)
rotary_keys_unchecked = cache(
    {"config.rope_dim < 0 or": "(config.latent and config.rope_dim < 0) or"},
    ("errors",),
    "a rotary key without a latent is thought to need no check",
    "whether they play a part or not",
)
rotary_keys_of_nothing_refused = cache(
    {"config.rope_dim < 0 or": "config.rope_dim < (1 if config.latent else 0) or"},
    ("latents",),
    "every latent is thought to have a rotary key beside it",
    "or `rope_dim` or `shared` less than 0",
)
negative_sharing = cache(
    {"not 0 <= config.shared < config.layers": "config.shared >= config.layers"},
    ("errors",),
    "a number of layers is thought to be positive",
    "or `rope_dim` or `shared` less than 0",
)
all_layers_share = cache(
    {"not 0 <= config.shared < config.layers": "not 0 <= config.shared <= config.layers"},
    ("errors",),
    "all layers are thought to be able to share",
    "for `shared` that leaves no layer",
)
one_layer_is_none = cache(
    {"not 0 <= config.shared < config.layers": "not 0 <= config.shared < config.layers - 1"},
    ("heads", "layers", "errors"),
    "two layers at least are thought to keep something",
    "for `shared` that leaves no layer",
)
uneven_groups = cache(
    {"if config.heads % config.kv_heads:": "if config.heads < config.kv_heads:"},
    ("errors",),
    "heads of queries are thought to share as they can",
    "for `kv_heads` that do not divide `heads`",
)
negative_text = cache(
    {LENGTHS: LENGTHS.replace("request.text, ", "")},
    ("errors",),
    "images are thought to make up for a text that is not there",
    "for `text`, `generated` or `milliseconds` less than 0",
)
negative_tokens_generated = cache(
    {LENGTHS: LENGTHS.replace("request.generated, ", "")},
    ("errors",),
    "what is less than 0 is thought to be 0",
    "for `text`, `generated` or `milliseconds` less than 0",
)
negative_time = cache(
    {LENGTHS: "[request.text, request.generated]"},
    ("errors",),
    "a time is thought to be positive",
    "for `text`, `generated` or `milliseconds` less than 0",
)
only_whole_films = cache(
    {LENGTHS: LENGTHS.replace("video.milliseconds for", "video.milliseconds - 1 for")},
    ("videos",),
    "a film of no length is thought to be an error",
    "of 0 milliseconds none",
)
no_frames_a_second = cache(
    {VIDEO_SIDES: "for side in (video.height, video.width)]"},
    ("errors",),
    "no frames in a second are thought to be none at all",
    "for `fps` or a side less than 1",
)
frames_without_a_side = cache(
    {VIDEO_SIDES: "for side in (video.fps,)]"},
    ("errors",),
    "a frame without a side is thought to have no tokens",
    "for `fps` or a side less than 1",
)
images_without_a_side = cache(
    {IMAGE_SIDES: "sides = []"},
    ("errors",),
    "an image without a side is thought to have no tokens",
    "for `fps` or a side less than 1",
)
heights_alone = cache(
    {IMAGE_SIDES: "sides = [sides[0] for sides in request.images]"},
    ("errors",),
    "an image with a height is thought to have a width",
    "for `fps` or a side less than 1",
)
areas = cache(
    {IMAGE_SIDES: "sides = [sides[0] * sides[1] for sides in request.images]"},
    ("errors",),
    "the area is thought to tell",
    "for `fps` or a side less than 1",
)
last_request_alone = cache(
    {
        "    require_request(request)\n    prompt": "    prompt",
        ITEM: "if requests:\n        require_request(request)\n    " + ITEM,
    },
    ("errors",),
    "one request is thought to stand for all",
    "it does so too for `text`, `generated` or `milliseconds` less than 0",
)
no_prompt_needed = cache(
    {NO_TOKEN: "    if prompt < 0:\n"},
    ("errors",),
    "a decoder is thought to begin with nothing",
    "for a prompt with no token at all",
)
nothing_generated_from_nothing = cache(
    {NO_TOKEN: "    if prompt + request.generated < 1:\n"},
    ("errors",),
    "what was generated is thought to be a prompt",
    "for a prompt with no token at all",
)
text_is_due = cache(
    {NO_TOKEN: "    if request.text < 1:\n"},
    ("images", "videos", "together"),
    "a prompt is thought to have words",
    "for a prompt with no token at all",
)
pictures_are_a_prompt = cache(
    {NO_TOKEN: "    if request.text < 1 and not request.images and not request.videos:\n"},
    ("errors",),
    "a film is thought to have frames",
    "for a prompt with no token at all",
)
type_errors = cache(
    {'raise ValueError("a number of the decoder': 'raise TypeError("a number of the decoder'},
    ("errors",),
    "any exception is thought to do",
    "raises `ValueError` for numbers",
)

NOT_TO_BREAK = [
    unbreakable("kv_bytes", "`config` is a `KVConfig`", "it says what is given"),
    unbreakable("kv_bytes", "All numbers are of type `int`", "it says what is given"),
]


@alternative("kv_bytes")
def layer_after_layer(config, requests, dtype):
    """Every layer and every request by itself; frames and squares as the lengths of ranges."""
    from dataclasses import asdict

    for name, number in asdict(config).items():
        least = 0 if name in ("rope_dim", "shared") else 1
        if number is not None and number < least:
            raise ValueError(f"{name} is {number}")
    if config.shared >= config.layers or config.heads // config.kv_heads * config.kv_heads != config.heads:
        raise ValueError("layers or heads do not come out")
    side = config.patch * config.merge

    def squares(height, width):
        if height < 1 or width < 1:
            raise ValueError("no side")
        return len(range(0, height, side)) * len(range(0, width, side))

    def length(request):
        if request.text < 0 or request.generated < 0:
            raise ValueError("fewer tokens than none")
        prompt = [request.text]
        for height, width in request.images:
            prompt.append(squares(height, width))
        for video in request.videos:
            if video.fps < 1 or video.milliseconds < 0:
                raise ValueError("no film")
            frames = range(0, video.milliseconds * video.fps, 1000)
            prompt.append(len(frames[:: config.temporal]) * squares(video.height, video.width))
        if not any(prompt):
            raise ValueError("no prompt")
        return sum(prompt) + (request.generated - 1 if request.generated else 0)

    elements = 0
    lengths = list(map(length, requests))
    for layer in range(1, config.layers - config.shared + 1):
        windowed = config.window is not None and not (config.full_every and layer % config.full_every == 0)
        for tokens in lengths:
            kept = min(tokens, config.window) if windowed else tokens
            elements += kept * (config.latent + config.rope_dim if config.latent else config.kv_heads * config.head_dim * 2)
    return elements * torch.empty(0, dtype=dtype).element_size()


@alternative("kv_bytes")
def with_fractions(config, requests, dtype):
    """Ceilings of fractions; what tokens take of every layer is a function of their number."""
    import math
    from fractions import Fraction

    def refuse_below(least, *numbers):
        if any(number < least for number in numbers if number is not None):
            raise ValueError(f"less than {least}")

    refuse_below(1, config.layers, config.width, config.heads, config.kv_heads, config.head_dim, config.latent, config.window)
    refuse_below(1, config.full_every, config.patch, config.merge, config.temporal, config.layers - config.shared)
    refuse_below(0, config.rope_dim, config.shared)
    if math.gcd(config.heads, config.kv_heads) != config.kv_heads:
        raise ValueError("heads")

    def area(height, width):
        refuse_below(1, height, width)
        rows, columns = (math.ceil(math.ceil(Fraction(side, config.patch)) / Fraction(config.merge)) for side in (height, width))
        return rows * columns

    def film(video):
        refuse_below(1, video.fps)
        refuse_below(0, video.milliseconds)
        frames = math.ceil(Fraction(video.milliseconds, 1000) * video.fps)
        return math.ceil(Fraction(frames, config.temporal)) * area(video.height, video.width)

    def read(request):
        refuse_below(0, request.text, request.generated)
        seen = sum(area(*image) for image in request.images) + sum(film(video) for video in request.videos)
        refuse_below(1, request.text + seen)
        return request.text + seen + request.generated - bool(request.generated)

    wanted = range(1, config.layers + 1)[: config.layers - config.shared]
    full = [layer for layer in wanted if not config.window or (config.full_every and layer % config.full_every == 0)]
    tokens = [read(request) for request in requests]
    recent = [min(number, config.window or number) for number in tokens]
    slots = len(full) * sum(tokens) + (len(wanted) - len(full)) * sum(recent)
    pair = [config.latent, config.rope_dim] if config.latent is not None else [config.kv_heads * config.head_dim] * 2
    return int(sum(slots * part * Fraction(dtype.itemsize) for part in pair))


# E18.3 intensity

LINEAR_COUNTS = ("linear", "bound", "crossover")
LINEAR_BYTES = ("linear", "formats", "bound", "crossover")
ATTENTION_BYTES = ("attention", "formats")
ALL_OF_A_PASS = ("linear", "attention", "formats", "bound", "crossover")

PHASES = 'phase not in ("prefill", "decode")'
LEAST = "batch < 1 or seq < (phase == \"prefill\")"
RATES = 'peak, bandwidth, item = card["dense"][c.dtype], card["bytes_per_s"], c.dtype.itemsize'
TOKENS = 'new, held = (seq, seq) if phase == "prefill" else (1, seq + 1)'
WIDE = "queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim"
PROJECTIONS = "matrices = [(c.width, queries), (c.width, keys), (c.width, keys), (queries, c.width)]"
MLP = "matrices += [(c.width, c.hidden), (c.width, c.hidden), (c.hidden, c.width)]"
PRODUCTS = "products = [(requests * new, *sizes) for sizes in matrices] * c.layers + [(requests, c.width, c.vocabulary)]"
HEAD = " + [(requests, c.width, c.vocabulary)]"
LINEAR_FLOPS = "sum(2 * rows * inputs * outputs for rows, inputs, outputs in products)"
WEIGHTS = "sum(inputs * outputs * c.weight_bits // 8 for _, inputs, outputs in products)"
ROWS = "sum(rows * (inputs + outputs) * item for rows, inputs, outputs in products)"
PAIRS = "pairs = new * held - new * (new - 1) // 2"
MOVED = "moved = 2 * new * queries * item + 2 * (new + held) * keys * c.kv_bits // 8"
ATTENTION = "return c.layers * batch * 4 * queries * pairs, c.layers * batch * moved"
BOUND = 'bound = "compute" if flops * bandwidth >= nbytes * peak else "memory"'
PART = 'return {"flops": flops, "bytes": nbytes, "intensity": flops / nbytes, "bound": bound}'
ONE_TWO = "(flops, one), (_, two) = linear(1, 1), linear(2, 1)"
SPLIT = "row, weights = two - one, 2 * one - two"
GAIN = "gain = flops * bandwidth - row * peak"
CROSSOVER = "crossover = -(-weights * peak // gain) if gain > 0 else None"
NO_PEAK = 'if c.dtype not in card["dense"]:'


def bounded(edits, loses, because, breaks):
    return edited("intensity", edits, loses=loses, because=because, breaks=breaks)


one_operation = bounded(
    {LINEAR_FLOPS: LINEAR_FLOPS.replace("2 * ", ""), ATTENTION: ATTENTION.replace("4 *", "2 *")},
    ("linear", "attention", "bound", "crossover"),
    "a multiply-add is counted as one operation",
    "a multiply-add as two",
)
head_for_every_token = bounded(
    {HEAD: " + [(requests * new, c.width, c.vocabulary)]"},
    ("linear", "formats", "bound"),
    "the head is thought to run over all tokens, as in training",
    "The head is applied to the last token of each request alone, in prefill too",
)
head_of_one_request = bounded(
    {HEAD: " + [(1, c.width, c.vocabulary)]"},
    LINEAR_BYTES,
    "the head is thought to be applied once",
    "to the last token of each request alone",
)
no_head = bounded({HEAD: ""}, LINEAR_BYTES, "the layers are thought to be all", "and one head behind the last layer")
head_in_every_layer = bounded(
    {PRODUCTS: "products = ([(requests * new, *sizes) for sizes in matrices] + [(requests, c.width, c.vocabulary)]) * c.layers"},
    LINEAR_BYTES,
    "the head is taken for a part of each layer",
    "one head behind the last layer",
)
embedding_as_a_product = bounded(
    {HEAD: " + [(requests, c.width, c.vocabulary), (requests * new, c.vocabulary, c.width)]"},
    LINEAR_BYTES,
    "every parameter is thought to be multiplied with",
    "Embedding, norms, rotary positions, softmax, SiLU and residuals count neither as FLOPs nor as bytes",
)
embedding_is_read = bounded(
    {WEIGHTS: WEIGHTS + " + c.vocabulary * c.width * c.weight_bits // 8"},
    LINEAR_BYTES,
    "all parameters are thought to be read",
    "Embedding, norms, rotary positions, softmax, SiLU and residuals count neither as FLOPs nor as bytes",
)
norms_and_silu = bounded(
    {LINEAR_FLOPS: LINEAR_FLOPS + " + requests * new * c.layers * (8 * c.width + 5 * c.hidden)"},
    LINEAR_COUNTS,
    "what is cheap is counted with what is dear",
    "of FLOPs only those of matrix products count",
)
softmax_counted = bounded(
    {ATTENTION: ATTENTION.replace("4 * queries * pairs", "(4 * queries + 5 * c.heads) * pairs")},
    ("attention",),
    "softmax is counted with the products",
    "of FLOPs only those of matrix products count",
)
two_matrices_in_the_mlp = bounded(
    {MLP: "matrices += [(c.width, c.hidden), (c.hidden, c.width)]"},
    LINEAR_BYTES,
    "an MLP is thought to have two matrices",
    "the linear layers are the seven of each layer that `one_pass` has",
)
hidden_is_four_widths = bounded(
    {MLP: "matrices += [(c.width, 4 * c.width), (4 * c.width, c.width)]"},
    LINEAR_BYTES,
    "12 times width squared is taken for what any layer has",
    "the linear layers are the seven of each layer that `one_pass` has",
)
all_heads_have_keys = bounded(
    {PROJECTIONS: "matrices = [(c.width, queries), (c.width, queries), (c.width, queries), (queries, c.width)]"},
    LINEAR_BYTES,
    "keys and values are thought to be as wide as queries",
    "the seven of each layer that `one_pass` has",
)
heads_fill_the_width = bounded(
    {WIDE: "queries, keys = c.width, c.width * c.kv_heads // c.heads"},
    ALL_OF_A_PASS,
    "the heads together are thought to be as wide as the residual stream",
    "`config`: a `DecoderShape`",
)
one_layer = bounded(
    {PRODUCTS: PRODUCTS.replace(" * c.layers", ""), ATTENTION: ATTENTION.replace("c.layers * ", "")},
    ALL_OF_A_PASS,
    "a layer is counted and not the pass",
    "a pass over `batch` prompts of `seq` tokens each",
)
one_request = bounded(
    {PRODUCTS: "requests = 1\n        " + PRODUCTS, ATTENTION: ATTENTION.replace(" * batch", "")},
    ALL_OF_A_PASS,
    "a request is counted and not the batch",
    "of the whole pass, all layers and requests together",
)
weights_for_every_request = bounded(
    {WEIGHTS: "requests * " + WEIGHTS},
    LINEAR_BYTES,
    "each request is thought to have the weights read for itself",
    "each linear layer is one kernel over all requests",
)
weights_for_every_token = bounded(
    {WEIGHTS: "sum(rows * inputs * outputs * c.weight_bits // 8 for rows, inputs, outputs in products)"},
    LINEAR_BYTES,
    "each row is thought to have the weights read for itself",
    "It reads its weights once",
)
weights_alone = bounded(
    {f"return flops, weights + {ROWS}": "return flops, weights"},
    LINEAR_BYTES,
    "inputs and outputs are thought to be nothing beside the weights, so that the ridge itself is the batch",
    "reads its own input and writes its output, a row for each token",
)
inputs_alone = bounded(
    {ROWS: ROWS.replace("(inputs + outputs)", "inputs")},
    LINEAR_BYTES,
    "what is written is thought to cost nothing",
    "reads its own input and writes its output",
)
one_input_for_three = bounded(
    {ROWS: ROWS + " - 3 * requests * new * c.layers * c.width * item"},
    LINEAR_BYTES,
    "queries, keys and values are taken for one product, and gate and up for one",
    "reads its own input and writes its output, a row for each token",
)
a_row_for_each_request = bounded(
    {ROWS: ROWS.replace("rows * (", "requests * (")},
    ("linear", "formats", "bound"),
    "a prompt is taken for one row",
    "a row for each token, in `dtype`",
)
recomputed = bounded(
    {TOKENS: 'new, held = (seq, seq) if phase == "prefill" else (seq + 1, seq + 1)'},
    ("linear", "attention", "formats", "bound"),
    "decode is thought to pass over all tokens again",
    "a pass over one new token of each of `batch` requests",
)
all_pairs = bounded(
    {PAIRS: "pairs = new * held"},
    ("attention",),
    "the whole square is counted, as PyTorch's counter does",
    "Pairs that the causal mask leaves out cost no FLOPs",
)
half_of_the_square = bounded(
    {PAIRS: 'pairs = new * held / 2 if phase == "prefill" else held', "return c.layers * batch * 4 * queries * pairs,": "return int(c.layers * batch * 4 * queries * pairs),"},
    ("attention",),
    "half of the square is thought to be near enough",
    "exact Python integers however large",
)
never_itself = bounded(
    {PAIRS: "pairs = new * held - new * (new + 1) // 2"},
    ("attention",),
    "a token is thought to look at others alone",
    "A token attends to itself and to the tokens before it",
)
only_what_was_cached = bounded(
    {TOKENS: 'new, held = (seq, seq) if phase == "prefill" else (1, seq)'},
    ("attention", "formats"),
    "the new token is thought to look at the cache alone",
    "It reads those of all tokens that the request has then, the new ones among them",
)
holds_the_new_one = bounded(
    {TOKENS: 'new, held = (seq, seq) if phase == "prefill" else (1, max(seq, 1))'},
    ("attention", "formats"),
    "seq is thought to count the new token",
    "which hold `seq` tokens in the cache before it, none or more",
)
one_long_sequence = bounded(
    {PAIRS: 'pairs = (new * held - new * (new - 1) // 2 if phase == "decode" else new * (batch * new + 1) // 2)'},
    ("attention",),
    "the prompts of a batch are taken for one sequence",
    "to the tokens before it in its own request",
)
scores_alone = bounded(
    {ATTENTION: ATTENTION.replace("4 *", "2 *")},
    ("attention",),
    "the weighted sum of the values is forgotten",
    "attention has two products",
)
flops_by_kv_heads = bounded(
    {ATTENTION: ATTENTION.replace("queries * pairs", "keys * pairs")},
    ("attention",),
    "shared keys are thought to be multiplied once",
    "of queries and keys, and of probabilities and values",
)
read_for_every_query_head = bounded(
    {MOVED: MOVED.replace("keys * c.kv_bits", "queries * c.kv_bits")},
    ATTENTION_BYTES,
    "each query head is thought to read keys and values for itself",
    "once for each head of keys and values",
)
shared_keys_repeated = bounded(
    {MOVED: "moved = 2 * new * queries * item + 2 * (new * keys + held * queries) * c.kv_bits // 8"},
    ATTENTION_BYTES,
    "keys and values are thought to be repeated for the query heads before they are read",
    "once for each head of keys and values",
)
keys_alone = bounded(
    {MOVED: MOVED.replace("+ 2 * (new", "+ (new")},
    ATTENTION_BYTES,
    "values are forgotten",
    "It writes keys and values of the new tokens to the cache",
)
no_cache_read = bounded(
    {MOVED: MOVED.replace("(new + held)", "new")},
    ATTENTION_BYTES,
    "the reads of the cache are forgotten, and with them what grows",
    "It reads those of all tokens that the request has then",
)
no_cache_written = bounded(
    {MOVED: MOVED.replace("(new + held)", "held")},
    ATTENTION_BYTES,
    "what a pass adds to the cache is forgotten",
    "It writes keys and values of the new tokens to the cache",
)
cache_written_whole = bounded(
    {MOVED: MOVED.replace("(new + held)", "(held + held)")},
    ATTENTION_BYTES,
    "a cache is thought to be put together anew for each token, as torch.cat does",
    "It writes keys and values of the new tokens to the cache",
)
prompt_is_not_read = bounded(
    {MOVED: MOVED.replace("(new + held)", '(new + (held if phase == "decode" else 0))')},
    ATTENTION_BYTES,
    "in prefill there is thought to be nothing to read",
    "the new ones among them",
)
cache_of_all_requests = bounded(
    {MOVED: MOVED.replace("2 * (new + held) * keys * c.kv_bits // 8", "2 * (new + held) * keys * c.kv_bits // 8 // batch")},
    ATTENTION_BYTES,
    "requests are thought to share a cache as they share weights",
    "of the whole pass, all layers and requests together",
)
no_queries = bounded(
    {MOVED: "moved = 2 * (new + held) * keys * c.kv_bits // 8"},
    ATTENTION_BYTES,
    "the cache is thought to be all that attention moves",
    "It reads the queries of the new tokens and writes as many outputs",
)
queries_of_all_tokens = bounded(
    {MOVED: MOVED.replace("2 * new * queries", "2 * held * queries")},
    ATTENTION_BYTES,
    "old tokens are thought to ask again",
    "It reads the queries of the new tokens",
)
scores_in_memory = bounded(
    {MOVED: MOVED + "\n        moved += 4 * pairs * c.heads * item"},
    ATTENTION_BYTES,
    "scores and probabilities are thought to be written and read again",
    "attention is one kernel in each layer, whose scores stay on the chip",
)
two_bytes_for_all = bounded(
    {
        WEIGHTS: WEIGHTS.replace("* c.weight_bits // 8", "* 2"), MOVED: MOVED.replace("* c.kv_bits // 8", "* 2"),
        RATES: RATES.replace("c.dtype.itemsize", "2"),
    },  # fmt: skip
    ("formats", "crossover"),
    "everything is thought to be bfloat16",
    "Weights and cache may have fewer bits than `dtype`, or more",
)
weights_as_the_activations = bounded(
    {WEIGHTS: WEIGHTS.replace("* c.weight_bits // 8", "* item")},
    ("formats", "crossover"),
    "weights are thought to be widened before they are read",
    "of `weight_bits` bits each",
)
cache_as_the_activations = bounded(
    {MOVED: MOVED.replace("* c.kv_bits // 8", "* item")},
    ("formats",),
    "the cache is thought to have the activations' dtype",
    "The cache has `kv_bits` bits an element",
)
cache_as_the_weights = bounded(
    {MOVED: MOVED.replace("c.kv_bits", "c.weight_bits")},
    ("formats",),
    "what is quantised is thought to be quantised throughout",
    "The cache has `kv_bits` bits an element",
)
activations_as_the_weights = bounded(
    {ROWS: ROWS.replace("* item", "* c.weight_bits // 8")},
    ("formats", "crossover"),
    "a layer with weights of few bits is thought to have inputs of few bits",
    "a row for each token, in `dtype`",
)
queries_as_the_cache = bounded(
    {MOVED: "moved = (2 * new * queries + 2 * (new + held) * keys) * c.kv_bits // 8"},
    ("formats",),
    "attention is thought to work in the cache's format",
    "and writes as many outputs, in `dtype`",
)
arithmetic_of_the_weights = bounded(
    {RATES: RATES + '\n    by_bits = {8: torch.int8, 4: torch.int8, 16: torch.float16, 32: torch.float32}\n    peak = card["dense"].get(by_bits[c.weight_bits], peak) if c.weight_bits < 8 * item else peak'},
    ("bound", "crossover"),
    "weights of eight bits are thought to be multiplied in eight bits",
    "they are converted on the chip, and all arithmetic is done in `dtype`",
)
sparse_peak = bounded(
    {RATES: RATES.replace('card["dense"][c.dtype]', 'card["sparse"].get(c.dtype, card["dense"][c.dtype])')},
    ("bound", "crossover"),
    "the largest figure of the datasheet is thought to be the peak",
    "The weights of `config` are **dense**",
)
any_peak = bounded(
    {RATES: RATES.replace('card["dense"][c.dtype]', 'max(card["dense"].values())')},
    ("bound", "crossover"),
    "a card is thought to have one peak",
    "FLOP/s by dtype, without and with 2:4 sparsity",
)
over_the_link = bounded(
    {RATES: RATES.replace('card["bytes_per_s"]', 'card["link_bytes_per_s"]')},
    ("bound", "crossover"),
    "weights are thought to come from the host",
    "`\"bytes_per_s\"` of device memory",
)
twice_the_bandwidth = bounded(
    {RATES: RATES.replace('card["bytes_per_s"]', '2 * card["bytes_per_s"]')},
    ("bound", "crossover"),
    "a bandwidth is thought to hold in each direction",
    "`\"bytes_per_s\"` of device memory",
)
memory_where_they_tie = bounded(
    {BOUND: BOUND.replace(">=", ">")},
    ("bound",),
    "a tie is given to the memory",
    "where the FLOPs take as long as the bytes on that card or longer",
)
by_the_phase = bounded(
    {BOUND: 'bound = "compute" if phase == "prefill" else "memory"'},
    ("bound",),
    "prefill is thought to be compute-bound and decode memory-bound, whatever batch and card",
    "where the FLOPs take as long as the bytes on that card or longer",
)
by_the_part = bounded(
    {'"attention": part(*attention())': '"attention": {**part(*attention()), "bound": "memory"}'},
    ("bound",),
    "attention is thought to be memory-bound in every phase",
    "where the FLOPs take as long as the bytes on that card or longer",
)
one_bound_for_both = bounded(
    {'"attention": part(*attention())': '"attention": {**part(*attention()), "bound": part(*linear(batch, new))["bound"]}'},
    ("bound",),
    "a pass is thought to have one bound",
    "`\"linear\"` and `\"attention\"` are dictionaries",
)
against_a_ridge_known_by_heart = bounded(
    {BOUND: 'bound = "compute" if flops >= 295 * nbytes else "memory"'},
    ("bound",),
    "a ridge that was read somewhere is taken for every card's",
    "where the FLOPs take as long as the bytes on that card or longer",
)
bytes_a_flop = bounded(
    {PART: PART.replace("flops / nbytes", "nbytes / flops")},
    ("bound",),
    "the ratio is turned over",
    "`\"intensity\"`, FLOP/byte",
)
two_digits = bounded(
    {PART: PART.replace("flops / nbytes", "round(flops / nbytes, 2)")},
    ("bound",),
    "an intensity is thought to be read by people alone",
    "which may be wrong by rounding, up to a billionth of it",
)
operations_an_element = bounded(
    {PART: PART.replace("flops / nbytes", "flops / nbytes * item")},
    ("bound",),
    "elements are taken for bytes",
    "`\"intensity\"`, FLOP/byte",
)
in_floats = bounded(
    {PART: PART.replace('"flops": flops', '"flops": float(flops)')},
    ("linear", "attention", "bound"),
    "large counts are thought to be floats",
    "exact Python integers however large",
)
through_floats = bounded(
    {PART: PART.replace('"flops": flops', '"flops": int(float(flops))')},
    ("linear", "attention", "bound"),
    "a float64 is thought to hold every count",
    "exact Python integers however large",
)
crossover_is_the_ridge = bounded(
    {CROSSOVER: "crossover = -(-peak * c.weight_bits // (16 * bandwidth))"},
    ("crossover",),
    "the ridge in FLOP/byte is taken for the batch",
    "the smallest batch with which the linear layers of a **decode** pass are compute-bound",
)
crossover_of_this_pass = bounded(
    {ONE_TWO: ONE_TWO.replace("linear(1, 1), linear(2, 1)", "linear(1, new), linear(2, new)")},
    ("crossover",),
    "the batch is sought for the pass that was asked about",
    "It does not depend on `phase`, `batch` and `seq`",
)
crossover_for_decode_alone = bounded(
    {CROSSOVER: 'crossover = -(-weights * peak // gain) if gain > 0 and phase == "decode" else None'},
    ("crossover",),
    "the batch is thought to be a question of decode alone",
    "It does not depend on `phase`, `batch` and `seq`",
)
crossover_with_attention = bounded(
    {ONE_TWO: ONE_TWO + "\n    share = attention()[1] // batch\n    one, two = one + share, two + 2 * share"},
    ("crossover",),
    "the cache is thought to be read by the linear layers",
    "with which the linear layers of a **decode** pass are compute-bound",
)
never_compute_bound = bounded(
    {CROSSOVER: "crossover = None"},
    ("crossover",),
    "decode is thought to be memory-bound with any batch",
    "the smallest batch with which the linear layers of a **decode** pass are compute-bound",
)
always_somewhere = bounded(
    {CROSSOVER: "crossover = max(1, -(-weights * peak // gain)) if gain else 0"},
    ("crossover",),
    "a batch is thought to be large enough some time",
    "and None where they are with no batch",
)
no_batch_of_infinity = bounded(
    {CROSSOVER: 'crossover = -(-weights * peak // gain) if gain > 0 else float("inf")'},
    ("crossover",),
    "no batch is thought to be an infinite one",
    "and None where they are with no batch",
)
crossover_rounded_down = bounded(
    {CROSSOVER: "crossover = max(1, weights * peak // gain) if gain > 0 else None"},
    ("crossover",),
    "the batch is rounded down",
    "the smallest batch with which",
)
crossover_and_one = bounded(
    {CROSSOVER: "crossover = weights * peak // gain + 1 if gain > 0 else None"},
    ("crossover",),
    "at a tie one more is thought to be due",
    "the smallest batch with which",
)
crossover_in_powers_of_two = bounded(
    {CROSSOVER: "crossover = 1 << (-(-weights * peak // gain) - 1).bit_length() if gain > 0 else None"},
    ("crossover",),
    "batches are thought to be powers of two",
    "the smallest batch with which",
)
crossover_up_to_4096 = bounded(
    {CROSSOVER: CROSSOVER.replace("gain > 0", "gain > 0 and -(-weights * peak // gain) <= 4096")},
    ("crossover",),
    "beyond what anyone serves there is thought to be nothing",
    "an integer however large",
)
crossover_as_a_float = bounded(
    {CROSSOVER: "crossover = weights * peak / gain if gain > 0 else None"},
    ("crossover",),
    "where two lines cross is taken for a batch",
    "an integer however large",
)
phases_by_their_beginning = bounded(
    {PHASES: 'phase.lower()[:1] not in ("p", "d")', TOKENS: TOKENS.replace('phase == "prefill"', 'phase.lower().startswith("p")')},
    ("errors",),
    "names are thought to be obvious",
    "raises `ValueError` for any other `phase`",
)
else_decode = bounded(
    {PHASES + " or ": ""},
    ("errors",),
    "what is not prefill is thought to be decode",
    "raises `ValueError` for any other `phase`",
)
no_requests = bounded(
    {LEAST: LEAST.replace("batch < 1", "batch < 0"), PART: PART.replace("flops / nbytes", "flops / max(nbytes, 1)")},
    ("errors",),
    "no requests are thought to be a batch",
    "for a `batch` less than 1",
)
no_prompt = bounded(
    {LEAST: LEAST.replace('(phase == "prefill")', "0"), PART: PART.replace("flops / nbytes", "flops / max(nbytes, 1)")},
    ("errors",),
    "a prompt is thought to be allowed to be empty",
    "for a `seq` less than 1 in prefill",
)
a_cache_is_never_empty = bounded(
    {LEAST: LEAST.replace('(phase == "prefill")', "1")},
    ("linear", "attention", "errors", "bound"),
    "decode is thought to come behind a prompt",
    "or less than 0 in decode",
)
any_length = bounded(
    {LEAST: LEAST.replace('seq < (phase == "prefill")', 'seq < 1 and phase == "prefill"')},
    ("errors",),
    "of decode's lengths only the caller is thought to know",
    "or less than 0 in decode",
)
any_heads = bounded(
    {" or c.heads % c.kv_heads:": ":"},
    ("errors",),
    "heads that do not share evenly are thought to be someone else's matter",
    "for `heads` that are no multiple of `kv_heads`",
)
more_kv_heads_refused_alone = bounded(
    {"c.heads % c.kv_heads:": "c.heads < c.kv_heads:"},
    ("errors",),
    "fewer heads of keys are thought to be enough",
    "for `heads` that are no multiple of `kv_heads`",
)
sharing_is_due = bounded(
    {"c.heads % c.kv_heads:": "c.heads % c.kv_heads or c.heads == c.kv_heads:"},
    ("linear", "attention", "bound", "crossover", "errors"),
    "heads are thought to share keys always",
    "for `heads` that are no multiple of `kv_heads`",
)
half_of_the_sparse = bounded(
    {NO_PEAK: 'if c.dtype not in card["dense"] and c.dtype not in card["sparse"]:', 'card["dense"][c.dtype]': 'card["dense"].get(c.dtype) or card["sparse"][c.dtype] // 2'},
    ("errors",),
    "a dense peak is thought to follow from the sparse one",
    "and for a `dtype` of which the card has no dense peak",
)
float32_where_nothing_is_said = bounded(
    {NO_PEAK: "if False:", 'card["dense"][c.dtype]': 'card["dense"].get(c.dtype, min(card["dense"].values()))'},
    ("errors",),
    "a format that a card lacks is thought to run as its slowest",
    "and for a `dtype` of which the card has no dense peak",
)
a_key_error = bounded(
    {NO_PEAK: "if False:"},
    ("errors",),
    "a missing peak is thought to speak for itself",
    "raises `ValueError` for any other `phase`, for a `batch` less than 1",
)
card_used_up = bounded(
    {RATES: RATES.replace('card["bytes_per_s"]', 'card.pop("bytes_per_s")')},
    ("linear", "attention", "formats", "bound", "crossover", "errors"),
    "a dictionary that came in is thought to be one's own",
    "a dictionary like the one above, of integers, which is left as it is",
)
flat = bounded(
    {'return {"linear": part(*linear(batch, new)), "attention": part(*attention()), "crossover": crossover}': 'return part(*linear(batch, new)), part(*attention()), crossover'},
    ("linear", "attention", "formats", "bound", "crossover", "errors"),
    "the order is thought to say which is which",
    "returns a dictionary",
)


@mistake(
    "intensity",
    loses=("linear", "attention", "formats", "bound", "crossover"),
    because="two FLOPs for each parameter and token, and the parameters' bytes, are thought to be the whole account",
    breaks="which says beforehand what a pass does and what bounds it",
)
def two_for_each_parameter(phase, batch, seq, config, card):
    if phase not in ("prefill", "decode") or batch < 1 or seq < (phase == "prefill") or config.heads % config.kv_heads:
        raise ValueError("no such pass")
    if config.dtype not in card["dense"]:
        raise ValueError("no such peak")
    layer = 2 * config.width * (config.heads + config.kv_heads) * config.head_dim + 3 * config.width * config.hidden
    parameters = config.layers * layer + 2 * config.vocabulary * config.width
    tokens = batch * (seq if phase == "prefill" else 1)
    ridge = card["dense"][config.dtype] / card["bytes_per_s"]

    def part(flops, nbytes):
        return {"flops": flops, "bytes": nbytes, "intensity": flops / nbytes, "bound": "compute" if flops / nbytes >= ridge else "memory"}

    cache = 2 * config.layers * config.kv_heads * config.head_dim * batch * max(seq, 1) * config.kv_bits // 8
    attention = part(4 * config.layers * config.heads * config.head_dim * tokens * max(seq, 1), cache)
    linear = part(2 * parameters * tokens, parameters * config.weight_bits // 8)
    return {"linear": linear, "attention": attention, "crossover": int(-(-ridge * config.weight_bits // 16))}


intensity_unbroken = [
    unbreakable("intensity", "`\"memory_bytes\"`. Other cards have other dtypes", "it says what the caller gives"),
    unbreakable("intensity", "`one_pass` counts them in prefill", "it says how the cell above differs"),
    unbreakable("intensity", "the card's model looks at shapes alone", "it is the reason"),
]


@alternative("intensity")
def times_compared_and_the_batch_bisected(phase, batch, seq, config, card):
    from fractions import Fraction

    if phase == "prefill":
        lengths, allowed = range(1, seq + 1), seq > 0
    elif phase == "decode":
        lengths, allowed = range(seq + 1, seq + 2), seq >= 0
    else:
        raise ValueError(phase)
    dense = card["dense"].get(config.dtype)
    if not allowed or batch <= 0 or dense is None or config.kv_heads * (config.heads // config.kv_heads) != config.heads:
        raise ValueError("this cannot be had")
    activation, weight, cached = (Fraction(bits, 8) for bits in (8 * config.dtype.itemsize, config.weight_bits, config.kv_bits))
    q_width = config.head_dim * config.heads
    kv_width = config.head_dim * config.kv_heads

    def through(rows, inputs, outputs):
        return rows * inputs * outputs * 2, inputs * outputs * weight, rows * (inputs + outputs) * activation

    def all_linear(requests, tokens_each):
        rows, found = requests * tokens_each, [0, 0, 0]
        for inputs, outputs, times in (
            (config.width, q_width, 1), (config.width, kv_width, 2), (q_width, config.width, 1),
            (config.width, config.hidden, 2), (config.hidden, config.width, 1),
        ):  # fmt: skip
            found = [a + config.layers * times * b for a, b in zip(found, through(rows, inputs, outputs))]
        flops, weights, moved = (a + b for a, b in zip(found, through(requests, config.width, config.vocabulary)))
        return int(flops), int(weights + moved)

    def takes_long(flops, nbytes):
        return Fraction(flops, dense) >= Fraction(nbytes, card["bytes_per_s"])

    def described(flops, nbytes):
        ratio = float(Fraction(flops, nbytes))
        return {"bound": ("memory", "compute")[takes_long(flops, nbytes)], "intensity": ratio, "bytes": nbytes, "flops": flops}

    attended = (lengths[0] + lengths[-1]) * len(lengths) // 2
    each = 2 * q_width * len(lengths) * activation + 2 * kv_width * (len(lengths) + lengths[-1]) * cached
    attention = described(2 * 2 * q_width * attended * config.layers * batch, int(each * config.layers * batch))
    high = 1
    while high < 2**80 and not takes_long(*all_linear(high, 1)):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if takes_long(*all_linear(middle, 1)) else (middle, high)
    found = high if takes_long(*all_linear(high, 1)) else None
    return {"crossover": found, "attention": attention, "linear": described(*all_linear(batch, len(lengths)))}


@alternative("intensity")
def closed_formulas(phase, batch, seq, config, card):
    import math

    if phase not in {"prefill", "decode"}:
        raise ValueError("a pass is prefill or decode")
    try:
        peak, rate = card["dense"][config.dtype], card["bytes_per_s"]
    except KeyError:
        raise ValueError("no dense peak") from None
    prefill = phase == "prefill"
    if batch < 1 or (seq < 1 if prefill else seq < 0) or config.heads % config.kv_heads != 0:
        raise ValueError("too little, or heads that do not share evenly")
    L, d, f, V = config.layers, config.width, config.hidden, config.vocabulary
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    bits = 8 * torch.empty((), dtype=config.dtype).element_size()
    n = batch * (seq if prefill else 1)
    in_layers, in_head = L * (2 * d * q + 2 * d * kv + 3 * d * f), d * V
    wide, wide_head = L * (7 * d + 2 * q + 2 * kv + 3 * f), d + V
    flops = 2 * n * in_layers + 2 * batch * in_head
    moved = ((in_layers + in_head) * config.weight_bits + (n * wide + batch * wide_head) * bits) // 8
    pairs = seq * (seq + 1) // 2 if prefill else seq + 1
    touched = 2 * seq if prefill else seq + 2
    attended = 4 * L * batch * q * pairs
    cache = (2 * L * n * q * bits + 2 * L * batch * kv * touched * config.kv_bits) // 8
    ridge = peak / rate
    out = {}
    for name, a, b in (("linear", flops, moved), ("attention", attended, cache)):
        out[name] = dict(flops=a, bytes=b, intensity=a / b, bound="compute" if a / b >= ridge else "memory")
    gain = 2 * (in_layers + in_head) - ridge * (wide + wide_head) * bits / 8
    out["crossover"] = max(1, math.ceil(ridge * (in_layers + in_head) * config.weight_bits / 8 / gain)) if gain > 0 else None
    return out


stops_looking_at_two_to_the_24th = edited(
    "intensity",
    {"-(-weights * peak // gain) if gain > 0 else None": "-(-weights * peak // gain) if gain * 2**24 >= weights * peak else None"},
    loses=("crossover",),
    because="a batch of so many is thought to be none",
    breaks="an integer however large, and None where they are with no batch",
)

bytes_of_weights_by_a_float = edited(
    "intensity",
    {"sum(inputs * outputs * c.weight_bits // 8 for": "sum(int(inputs * outputs * (c.weight_bits / 8)) for"},
    loses=("linear", "bound"),
    because="bits over eight are thought to be harmless: the product is a float",
    breaks="exact Python integers however large",
)

half_a_byte_is_a_byte = edited(
    "intensity",
    {"2 * (new + held) * keys * c.kv_bits // 8": "2 * (new + held) * -(-keys * c.kv_bits // 8)"},
    loses=("formats",),
    because="a key of a token is thought to begin at a byte",
    breaks="keys and values together, come to whole bytes",
)
