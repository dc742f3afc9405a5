"""Chapter "Tensor, pipeline and 3D parallelism": wrong solutions, and right ones written another way."""

import torch
import torch.distributed as dist
from torch import nn

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E16.1 tensor_parallel_mlp

EVERYTHING = ("outputs", "gradients", "forward", "backward", "shares", "errors")
WRONG_GRADIENTS = ("gradients", "backward")

FITS = "    if up.out_features != down.in_features or up.out_features % ranks:\n"
PART = "slice(share * dist.get_rank(), share * (dist.get_rank() + 1))"
UP = "own(up.weight[part])"
UP_BIAS = "None if up.bias is None else own(up.bias[part])"
DOWN = "own(down.weight[:, part])"
DOWN_BIAS = "None if down.bias is None else own(down.bias)"
SHARES_UP = f"        self.up_weight = {UP}\n        self.up_bias = {UP_BIAS}\n"
SHARES_DOWN = f"        self.down_weight = {DOWN}\n        self.down_bias = {DOWN_BIAS}\n"
SPLIT_INPUT = "ToEveryShare.apply(x)"
HIDDEN = "nn.functional.gelu(nn.functional.linear(ToEveryShare.apply(x), self.up_weight, self.up_bias))"
SUMMED_OUT = "OverAllShares.apply(nn.functional.linear(hidden, self.down_weight))"
WITH_BIAS = "return out if self.down_bias is None else out + self.down_bias"
NEW = "nn.Parameter(part.detach().clone(memory_format=torch.contiguous_format))"
COPIED = "total = tensor.clone(memory_format=torch.contiguous_format)"
REDUCED = "    dist.all_reduce(total)\n"
BACK_TO_X = "        return summed(grad)\n"
BACK_TO_SHARES = "        return grad"


def split(edits, loses, because, breaks):
    return edited("tensor_parallel_mlp", edits, loses=loses, because=because, breaks=breaks)


bias_in_every_share = split(
    {SUMMED_OUT: "OverAllShares.apply(nn.functional.linear(hidden, self.down_weight, self.down_bias))", WITH_BIAS: "return out"},
    EVERYTHING,
    "each rank's layer is thought to have its bias",
    "`down.bias` is added **once**",
)
bias_forgotten = split(
    {WITH_BIAS: "return out"},
    EVERYTHING,
    "the sum over the ranks is thought to be the output",
    "`down.bias` is added **once**",
)
bias_in_parts = split(
    {SUMMED_OUT: "OverAllShares.apply(nn.functional.linear(hidden, self.down_weight, None if self.down_bias is None else self.down_bias / dist.get_world_size()))", WITH_BIAS: "return out"},
    ("gradients", "forward", "backward"),
    "a bias that is added up is thought to be divided first",
    "What a rank hands in is what its own share contributes to the output, without `down.bias`",
)
bias_of_rank_0 = split(
    {SUMMED_OUT: "OverAllShares.apply(nn.functional.linear(hidden, self.down_weight, self.down_bias if dist.get_rank() == 0 else None))", WITH_BIAS: "return out"},
    ("gradients", "forward", "backward"),
    "one rank is thought to be the one for what is done once",
    "In each `.grad` a rank gets its share of the gradient that the whole MLP's parameter has",
)
averaged = split(
    {SUMMED_OUT: SUMMED_OUT + " / dist.get_world_size()"},
    EVERYTHING,
    "ranks are thought to have copies that are averaged",
    "the module returns the output of the whole MLP, in every rank",
)
gradients_averaged = split(
    {BACK_TO_SHARES: "        return grad / dist.get_world_size()"},
    WRONG_GRADIENTS,
    "gradients of ranks are thought to be averaged, as in data parallel training",
    "every rank has the same gradient of the output",
)
gradient_summed_again = split(
    {BACK_TO_SHARES: "        return summed(grad)"},
    WRONG_GRADIENTS,
    "the backward pass of an all-reduce is thought to be an all-reduce, as torch.distributed.nn has it",
    "every rank has the same gradient of the output",
)
input_gradient_of_one_share = split(
    {BACK_TO_X: "        return grad\n"},
    WRONG_GRADIENTS,
    "what all ranks have in the forward pass is thought to need nothing in the backward pass",
    "x, where it requires gradients, gets the **whole gradient** in every rank",
)
input_not_marked = split(
    {SPLIT_INPUT: "x"},
    WRONG_GRADIENTS,
    "the input is thought to be no one's business",
    "for this one all-reduce crosses, a sum: a rank hands in what comes to x through its own share",
)
hook_on_the_input = split(
    {"        hidden = ": "        if x.requires_grad and torch.is_grad_enabled():\n            x.register_hook(summed)\n        hidden = ", SPLIT_INPUT: "x"},
    WRONG_GRADIENTS,
    "the gradient that comes to x is thought to come from here alone",
    "a rank hands in what comes to x through its own share",
)
input_gradient_averaged = split(
    {BACK_TO_X: "        return summed(grad) / dist.get_world_size()\n"},
    WRONG_GRADIENTS,
    "gradients of ranks are thought to be averaged",
    "x, where it requires gradients, gets the **whole gradient** in every rank",
)
always_reduced_behind = split(
    {SPLIT_INPUT: "ToEveryShare.apply(x if x.requires_grad or not torch.is_grad_enabled() else x.detach().requires_grad_())"},
    ("backward",),
    "the backward pass of a layer is thought to reach its input in any case",
    "Where x requires no gradients, **nothing crosses** in the backward pass",
)
hidden_gathered = split(
    {
        "        hidden = " + HIDDEN: "        hidden = nn.functional.gelu(Gathered.apply(nn.functional.linear(ToEveryShare.apply(x), self.up_weight, self.up_bias)))\n        hidden = hidden.chunk(dist.get_world_size(), -1)[dist.get_rank()]",
        "class OverAllShares": "class Gathered(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, part):\n        parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]\n        dist.all_gather(parts, part.contiguous())\n        return torch.cat(parts, -1)\n\n    @staticmethod\n    def backward(ctx, grad):\n        return grad.chunk(dist.get_world_size(), -1)[dist.get_rank()]\n\n\nclass OverAllShares",
    },
    ("forward",),
    "a column split is thought to end with an all-gather, as in the notes' figure",
    "With gradients or without, nothing else crosses",
)
gelu_of_sums = split(
    {
        SHARES_UP: "        self.up_weight = own(up.weight[part])\n        self.up_bias = None if up.bias is None else own(up.bias[part])\n",
        HIDDEN: "nn.functional.linear(ToEveryShare.apply(x), self.up_weight, self.up_bias)",
        SUMMED_OUT: "nn.functional.gelu(OverAllShares.apply(nn.functional.linear(hidden, self.down_weight)))",
    },
    EVERYTHING,
    "the non-linearity is thought to commute with the sum, so that it may come last",
    "the MLP is `down(gelu(up(x)))`",
)
tanh_gelu = split(
    {"nn.functional.gelu(nn.functional.linear(ToEveryShare.apply(x), self.up_weight, self.up_bias))": "nn.functional.gelu(nn.functional.linear(ToEveryShare.apply(x), self.up_weight, self.up_bias), approximate='tanh')"},
    EVERYTHING,
    "every GELU is thought to be the same function",
    "with `torch.nn.functional.gelu`",
)
rows_of_the_second = split(
    {DOWN: "own(down.weight[:, part].flip(1))"},
    ("shares",),
    "the columns of the second layer are thought to be free in their order, since they are added up",
    "the same part of the **columns** of `down.weight`",
)
dealt_out = split(
    {PART: "slice(dist.get_rank(), None, ranks)"},
    ("shares",),
    "rows are thought to be dealt out in turn as well as cut",
    "the r-th of n equal parts of the rows of `up.weight`",
)
biases_first = split(
    {SHARES_UP: f"        self.up_bias = {UP_BIAS}\n        self.up_weight = {UP}\n"},
    EVERYTHING,
    "parameters are thought to be known by their names",
    "whose `parameters()` are this rank's **share**, in this order",
)
bias_not_cut = split(
    {UP_BIAS: "None if up.bias is None else own(up.bias)", "self.up_weight, self.up_bias))": "self.up_weight, None if self.up_bias is None else self.up_bias[: len(self.up_weight)]))"},
    EVERYTHING,
    "a bias is thought to be too small to be cut",
    "the same part of `up.bias`",
)
down_bias_of_rank_0 = split(
    {DOWN_BIAS: "None if down.bias is None or part.start else own(down.bias)"},
    EVERYTHING,
    "what is added once is thought to be held once",
    "and `down.bias`, whole, in every rank",
)
a_bias_of_zeros = split(
    {DOWN_BIAS: "own(down.weight.new_zeros(down.out_features) if down.bias is None else down.bias)"},
    EVERYTHING,
    "a bias of zeros is thought to be as good as none",
    "A bias that is not there is left out",
)
views_of_the_whole = split(
    {NEW: "nn.Parameter(part.detach())"},
    ("shares",),
    "a slice is thought to let go of the rest",
    "each in memory of its own and of its size: nothing of the whole layers is kept",
)
whole_copies_cut = split(
    {UP: "nn.Parameter(up.weight.detach().clone()[part])", DOWN: "nn.Parameter(down.weight.detach().clone()[:, part])"},
    ("shares",),
    "a slice of a copy is thought to be a copy of a slice",
    "each in memory of its own and of its size",
)
the_whole_computed = split(
    {
        "        super().__init__()\n": "        super().__init__()\n        self.whole = [None if t is None else t.detach().clone() for t in (up.weight, up.bias, down.weight, down.bias)]\n",
        "        hidden = ": "        if True:\n            w, b, v, c = self.whole\n            partial = OverAllShares.apply(nn.functional.linear(nn.functional.gelu(nn.functional.linear(ToEveryShare.apply(x), self.up_weight, self.up_bias)), self.down_weight))\n            return nn.functional.linear(nn.functional.gelu(nn.functional.linear(x, w, b)), v, c) + 0 * partial\n        hidden = ",
    },
    EVERYTHING,
    "every rank has the whole layers, and is thought to be free to use them",
    "It computes with what the ranks' parameters **hold at the time**",
)
weights_remembered = split(
    {"        super().__init__()\n": "        super().__init__()\n        self.first = up.weight[part].detach().clone()\n", "self.up_weight, self.up_bias))": "self.up_weight * 0 + self.first, self.up_bias))"},
    EVERYTHING,
    "weights are thought to be those of the call",
    "an optimizer, or a checkpoint, may have written to them since",
)
layers_emptied = split(
    {SHARES_DOWN: SHARES_DOWN + "        with torch.no_grad():\n            up.weight.zero_()\n"},
    ("shares",),
    "the whole layers are thought to be one's own to take apart",
    "`up` and `down` stay as they are",
)
frozen = split(
    {NEW: "nn.Parameter(part.detach().clone(memory_format=torch.contiguous_format), requires_grad=False)"},
    EVERYTHING,
    "parameters are thought to be values",
    "they are new `nn.Parameter`s that require gradients",
)
buffers = split(
    {NEW: "part.detach().clone(memory_format=torch.contiguous_format).requires_grad_()"},
    EVERYTHING,
    "a tensor that requires gradients is thought to be a parameter",
    "they are new `nn.Parameter`s",
)
always_single = split(
    {NEW: "nn.Parameter(part.detach().float().clone(memory_format=torch.contiguous_format))"},
    EVERYTHING,
    "weights are thought to be float32",
    "of one dtype, `float32` or `float64`",
)
input_sent = split(
    {"        hidden = ": "        if dist.get_world_size() > 1:\n            dist.broadcast(x.detach().clone(memory_format=torch.contiguous_format), 0)\n        hidden = "},
    ("forward",),
    "an input is thought to be rank 0's, which sends it",
    "x is the same in all ranks",
)
two_collectives = split(
    {REDUCED: "    for part in total.flatten().chunk(2):\n        dist.all_reduce(part)\n"},
    ("forward", "backward"),
    "a sum is thought to be the same in pieces",
    "one all-reduce crosses, a sum in the default process group",
)
in_double = split(
    {REDUCED: "    wide = total.double()\n    dist.all_reduce(wide)\n    total = wide.to(total.dtype)\n"},
    ("forward", "backward"),
    "a sum over ranks is thought to need more digits than its parts",
    "in the dtype of x",
)
averaged_by_the_collective = split(
    {REDUCED: "    dist.all_reduce(total, op=dist.ReduceOp.AVG)\n    total *= dist.get_world_size()\n"},
    ("forward", "backward"),
    "what a collective divides is thought to be as good when it is multiplied again",
    "a sum in the default process group",
)
gathered_and_added = split(
    {REDUCED: "    parts = [torch.empty_like(total) for _ in range(dist.get_world_size())]\n    dist.all_gather(parts, total)\n    total = sum(parts)\n"},
    ("forward", "backward"),
    "what is added up afterwards is thought to cost the same",
    "one all-reduce crosses",
)
in_a_group_of_its_own = split(
    {REDUCED: "    dist.all_reduce(total, group=summed.group)\n", "    ranks = dist.get_world_size()\n": "    ranks = dist.get_world_size()\n    summed.group = dist.new_group(list(range(ranks)))\n"},
    ("forward", "backward"),
    "tensor parallel ranks are thought to need a group of their own, wherever they are",
    "a sum in the default process group",
)
agreed_before = split(
    {"    share = up.out_features // ranks\n": "    share = up.out_features // ranks\n    dist.all_reduce(torch.tensor(share))\n"},
    ("forward",),
    "ranks are thought to have to agree on sizes first",
    "nothing crosses in `tensor_parallel_mlp` itself",
)
shares_sent = split(
    {NEW: "nn.Parameter(sent(part.detach().clone(memory_format=torch.contiguous_format)))", "def summed(": "def sent(tensor):\n    dist.broadcast(tensor.clone(), 0)\n    return tensor\n\n\ndef summed("},
    ("forward",),
    "weights are thought to be rank 0's, which sends them",
    "They have the same values in all ranks",
)
one_pass_at_a_time = split(
    {"        hidden = ": "        self.calls = getattr(self, 'calls', 0) + torch.is_grad_enabled()\n        hidden = ",
     SUMMED_OUT: SUMMED_OUT.replace("self.down_weight)", "self.down_weight if self.calls < 2 or not torch.is_grad_enabled() else self.down_weight.detach())")},
    WRONG_GRADIENTS,
    "a module is thought to be called once for each backward pass",
    "the module may be called several times before a backward pass",
)
rows_in_one_piece = split(
    {SPLIT_INPUT: "ToEveryShare.apply(x.view(-1, x.shape[-1])).view(x.shape)"},
    EVERYTHING,
    "x is thought to lie in one piece",
    "and any strides",
)
only_two_dimensions = split(
    {"        hidden = ": "        x = x.reshape(-1, x.shape[-1])\n        hidden = "},
    EVERYTHING,
    "x is thought to be a batch of rows",
    "of any number of dimensions, the last of which is `up.in_features`",
)
not_divided_is_fine = split(
    {FITS: "    if up.out_features != down.in_features:\n", PART: "slice(up.out_features * dist.get_rank() // ranks, up.out_features * (dist.get_rank() + 1) // ranks)"},
    ("errors",),
    "shares are thought to be allowed to differ",
    "where n does not divide `up.out_features`",
)
not_fitting_is_fine = split(
    {FITS: "    if up.out_features % ranks:\n"},
    ("errors",),
    "layers are thought to fit, or to fail by themselves",
    "and where `down.in_features` is another number",
)
fits_the_ranks_each = split(
    {FITS: "    if up.out_features % ranks or down.in_features % ranks:\n"},
    ("errors",),
    "two numbers that the ranks divide are thought to be one",
    "and where `down.in_features` is another number",
)
a_function = split(
    {"    return Share(": "    part = Share("  , PART + ")": PART + ")\n    return lambda x: part(x)"},
    EVERYTHING,
    "what can be called is thought to be a module",
    "it returns an `nn.Module`",
)


@mistake(
    "tensor_parallel_mlp",
    loses=EVERYTHING,
    because="the first layer is split by rows and the second by columns, so that the non-linearity meets parts of sums",
    breaks="the MLP is `down(gelu(up(x)))`",
)
def row_first(up, down):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    if up.out_features != down.in_features or up.out_features % ranks:
        raise ValueError("no")
    part = nn.Module()
    cuts = [p.detach().chunk(ranks, dim)[rank].clone() for p, dim in ((up.weight, 0), (down.weight, 1))]
    part.up, part.down = nn.Parameter(cuts[0]), nn.Parameter(cuts[1].contiguous())

    def forward(x):
        total = x @ part.up.t()
        dist.all_reduce(total.detach())
        return nn.functional.gelu(total) @ part.down.t()

    part.forward = forward
    return part


@mistake(
    "tensor_parallel_mlp",
    loses=("gradients", "backward"),
    because="autograd is thought to go through a collective that writes in place",
    breaks="In each `.grad` a rank gets its share of the gradient that the whole MLP's parameter has, and x",
)
def collective_on_data(up, down):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    if up.out_features != down.in_features or up.out_features % ranks:
        raise ValueError("no")

    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(up.weight.detach().chunk(ranks)[rank].clone())
            self.b = None if up.bias is None else nn.Parameter(up.bias.detach().chunk(ranks)[rank].clone())
            self.v = nn.Parameter(down.weight.detach().chunk(ranks, 1)[rank].clone(memory_format=torch.contiguous_format))
            self.c = None if down.bias is None else nn.Parameter(down.bias.detach().clone())

        def forward(self, x):
            partial = nn.functional.linear(nn.functional.gelu(nn.functional.linear(x, self.w, self.b)), self.v)
            total = partial.detach().clone(memory_format=torch.contiguous_format)
            dist.all_reduce(total)
            out = partial + (total - partial.detach())
            return out if self.c is None else out + self.c

    return Local()


@alternative("tensor_parallel_mlp")
def with_a_hook(up, down):
    """No Function: a sum beside the graph, and a hook on the input's gradient."""
    n, r = dist.get_world_size(), dist.get_rank()
    if up.out_features % n or up.out_features != down.in_features:
        raise ValueError("does not fit")
    k = up.out_features // n
    with torch.no_grad():
        a, b = nn.Linear(up.in_features, k, up.bias is not None, dtype=up.weight.dtype), nn.Linear(k, down.out_features, down.bias is not None, dtype=up.weight.dtype)
        a.weight.copy_(up.weight[k * r : k * r + k])
        b.weight.copy_(down.weight[:, k * r : k * r + k])
        if up.bias is not None:
            a.bias.copy_(up.bias[k * r : k * r + k])
        if down.bias is not None:
            b.bias.copy_(down.bias)

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = a, b

        def forward(self, x):
            if x.requires_grad and torch.is_grad_enabled():
                x = x * 1
                x.register_hook(reduced)
            partial = nn.functional.gelu(self.a(x)).matmul(self.b.weight.t())
            rest = reduced(partial.detach()) - partial.detach()
            total = partial + rest
            return total if self.b.bias is None else total + self.b.bias

    def reduced(grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad

    return Mlp()


@alternative("tensor_parallel_mlp")
def one_function(up, down):
    """Forward and backward by hand, in one Function that saves what it needs."""
    world, me = dist.get_world_size(), dist.get_rank()
    h = up.out_features
    if h != down.in_features:
        raise ValueError("layers do not fit")
    if h % world != 0:
        raise ValueError("ranks do not fit")
    lo, hi = h * me // world, h * (me + 1) // world

    class Mlp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, b, v, c):
            pre = x.matmul(w.t()) if b is None else x.matmul(w.t()) + b
            act = nn.functional.gelu(pre)
            y = act.matmul(v.t())
            y = y.contiguous()
            dist.all_reduce(y)
            ctx.save_for_backward(x, w, v, pre, act)
            ctx.has = b is not None, c is not None
            return y if c is None else y + c

        @staticmethod
        def backward(ctx, dy):
            x, w, v, pre, act = ctx.saved_tensors
            rows = dy.reshape(-1, dy.shape[-1])
            dv = rows.t() @ act.reshape(-1, act.shape[-1])
            with torch.enable_grad():
                leaf = pre.detach().requires_grad_()
                (dpre,) = torch.autograd.grad(nn.functional.gelu(leaf), leaf, dy.matmul(v))
            flat = dpre.reshape(-1, dpre.shape[-1])
            dx = None
            if ctx.needs_input_grad[0]:
                dx = dpre.matmul(w).contiguous()
                dist.all_reduce(dx)
            return dx, flat.t() @ x.reshape(-1, x.shape[-1]), flat.sum(0) if ctx.has[0] else None, dv, rows.sum(0) if ctx.has[1] else None

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            kept = [up.weight[lo:hi], None if up.bias is None else up.bias[lo:hi], down.weight[:, lo:hi], down.bias]
            self.kept = nn.ParameterList(nn.Parameter(torch.empty(t.shape, dtype=t.dtype).copy_(t.detach())) for t in kept if t is not None)
            self.there = [t is not None for t in kept]

        def forward(self, x):
            own = iter(self.kept)
            return Mlp.apply(x, *(next(own) if there else None for there in self.there))

    return Part()


@alternative("tensor_parallel_mlp")
def by_functional_collectives(up, down):
    """PyTorch's collectives for autograd, with the gradient of the sum made right."""
    import torch.distributed.nn.functional as collectives

    size = dist.get_world_size()
    if up.out_features % size > 0 or down.in_features != up.out_features:
        raise ValueError("the ranks do not divide the features")

    def mine(tensor, dim):
        return nn.Parameter(tensor.detach().tensor_split(size, dim)[dist.get_rank()].clone(memory_format=torch.contiguous_format))

    class Back(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return collectives.all_reduce(g.detach().clone(memory_format=torch.contiguous_format))

    class Parallel(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_parameter("w1", mine(up.weight, 0))
            self.register_parameter("b1", None if up.bias is None else mine(up.bias, 0))
            self.register_parameter("w2", mine(down.weight, 1))
            self.register_parameter("b2", None if down.bias is None else nn.Parameter(down.bias.detach().clone()))

        def forward(self, x):
            y = nn.functional.gelu(nn.functional.linear(Back.apply(x), self.w1, self.b1)) @ self.w2.T
            with torch.no_grad():
                others = collectives.all_reduce(y.detach().clone(memory_format=torch.contiguous_format)) - y
            y = y + others
            return y if self.b2 is None else y + self.b2

    return Parallel()


@alternative("tensor_parallel_mlp")
def by_dtensor(up, down):
    """PyTorch's tensor parallel layers make the sums; the module's parameters are plain ones that they compute with."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    world = dist.get_world_size()
    if up.out_features % world or up.out_features != down.in_features:
        raise ValueError("no shares")
    mesh = init_device_mesh("cpu", (world,))
    r, k = dist.get_rank(), up.out_features // world

    class Sharded(nn.Module):
        def __init__(self):
            super().__init__()
            self.u = nn.Parameter(up.weight.detach()[r * k : r * k + k].clone())
            self.ub = nn.Parameter(up.bias.detach()[r * k : r * k + k].clone()) if up.bias is not None else None
            self.d = nn.Parameter(down.weight.detach()[:, r * k : r * k + k].contiguous().clone())
            self.db = nn.Parameter(down.bias.detach().clone()) if down.bias is not None else None

        def forward(self, x):
            x = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
            x = x.to_local(grad_placements=[Partial()])
            y = nn.functional.linear(nn.functional.gelu(nn.functional.linear(x, self.u, self.ub)), self.d)
            y = DTensor.from_local(y, mesh, [Partial()], run_check=False).redistribute(placements=[Replicate()]).to_local()
            return y if self.db is None else y + self.db

    return Sharded()


unbreakable_by_one_rank = unbreakable(
    "tensor_parallel_mlp", "One rank alone may leave all collectives out", "it is free to have them"
)
# E16.2 validate_schedule

RULES = ("missing", "early", "sound", "once", "foreign", "split", "errors")
NOT_SOUND = ("sound", "errors")

SIZES_CHECKED = "    if stages < 1 or microbatches < 1:\n"
OWN = "if action[0] < stages and action[2] < microbatches}"
FOREIGN = '[("foreign", written(action)) for action in runs if action not in at]'
STAGES = "    for stage in range(stages):\n"
MICROBATCHES = "        for k in range(microbatches):\n"
HALVES = '{half for half in "IW" if (stage, half, k) in at}'
WHOLE = 'whole = (stage, "B", k) in at\n'
DUE = '"F" if whole else "FIW" if halves else "FB"'
WHOLE_TWICE = 'if whole and (halves or len(at[stage, "B", k]) > 1)'
FIRST = "min(slot for slot, _ in places)"
BEFORE = "first.get(one, slot) < slot"
ANY_OF = "if not any("
EARLY = '                found.append(("early", written(action)))\n                break\n'
TWICE = 'if action[1] != "B" and len(places) > 1]'
HOME = "update(gpu for _, gpu in places)"
SPLIT = '("split", str(stage)) for stage, gpus in homes.items() if len(gpus) > 1'
IDLE = "            if cell is None:\n"
WRITTEN = '"([0-9]+)([FBIW])([0-9]+)"'
ONLY_TEXT = "if isinstance(cell, str) else None"
NO_ACTION = '                raise ValueError(f"{cell!r} is no action")\n'
FORWARD_NEEDS = '[[(stage - 1, "F", k)]] if stage > 0 else []'
HALF_NEEDS = '        return [[(stage, "I", k)]]\n'
BEHIND = '[[(stage + 1, "B", k), (stage + 1, "I", k)]] if stage < stages - 1 else []'
OWN_FORWARD = 'return [[(stage, "F", k)], *behind]'


def judged(edits, loses, because, breaks):
    return edited("validate_schedule", edits, loses=loses, because=because, breaks=breaks)


same_slot_allowed = judged(
    {BEFORE: "first.get(one, slot + 1) <= slot"},
    ("early", "sound", "errors"),
    "what runs in the same slot is thought to be there in time",
    "The same slot is too early",
)
forward_alone = judged(
    {OWN_FORWARD: "return []"},
    ("early", "sound", "errors"),
    "the order of a pipeline is thought to be that of its forward passes",
    "`B` and `I` need the `F` of their own stage, and, on every stage but the last, the `B` or the `I` of the stage behind it",
)
backward_from_the_front = judged(
    {BEHIND: '[[(stage - 1, "B", k), (stage - 1, "I", k)]] if stage > 0 else []'},
    ("early", "once", *NOT_SOUND),
    "backward passes are thought to go through the stages in the same order as forward passes",
    "the `B` or the `I` of the stage behind it",
)
all_forward_first = judged(
    {OWN_FORWARD: 'return [*([(stage, "F", other)] for other in range(k + 2)), *behind]'},
    ("early", "once", "foreign", *NOT_SOUND),
    "backward passes are thought to begin when all forward passes are done, as in GPipe",
    "an action **needs** others of its microbatch",
)
never_runs_is_not_early = judged(
    {BEFORE: "first.get(one, -1) < slot"},
    ("early", "sound", "errors"),
    "what never runs is thought to be missing and nothing else",
    "and so is any slot where it never runs",
)
own_forward_forgotten = judged(
    {OWN_FORWARD: "return behind"},
    ("early", *NOT_SOUND),
    "a backward pass is thought to need the gradient alone",
    "`B` and `I` need the `F` of their own stage",
)
halves_need_nothing = judged(
    {HALF_NEEDS: "        return []\n"},
    ("early", *NOT_SOUND),
    "the weights' half is thought to be free to run at any time",
    "`W` needs the `I` of its own stage",
)
half_needs_the_forward_pass = judged(
    {HALF_NEEDS: '        return [[(stage, "F", k)]]\n'},
    ("early", *NOT_SOUND),
    "the weights' gradient is thought to be made of activations alone",
    "`W` needs the `I` of its own stage",
)
only_whole_ones_behind = judged(
    {BEHIND: '[[(stage + 1, "B", k)]] if stage < stages - 1 else []'},
    ("early", "once", *NOT_SOUND),
    "a gradient is thought to come from a whole backward pass",
    "one of the two will do",
)
both_halves_behind = judged(
    {BEHIND: '[[(stage + 1, "B", k), (stage + 1, "W", k)]] if stage < stages - 1 else []'},
    ("early", "once", *NOT_SOUND),
    "a stage is thought to wait until the one behind it is done with its weights",
    "the `B` or the `I` of the stage behind it",
)
last_stage_waits = judged(
    {BEHIND: '[[(stage + 1, "B", k), (stage + 1, "I", k)]]'},
    ("early", "once", "foreign", *NOT_SOUND),
    "every stage is thought to have one behind it",
    "on every stage but the last",
)
stages_of_the_table = judged(
    {STAGES: "    stages = 1 + max((stage for stage, _, _ in at), default=-1)\n" + STAGES},
    ("missing", "sound", "errors"),
    "a pipeline is thought to have the stages that its table names",
    "whatever the table names",
)
microbatches_of_the_table = judged(
    {MICROBATCHES: "        for k in range(1 + max((k for _, _, k in at), default=-1)):\n"},
    ("missing", "sound", "errors"),
    "microbatches that nobody names are thought not to be there",
    "and `microbatches` microbatches, 1 or more of each, whatever the table names",
)
every_need_counts = judged(
    {EARLY: '                found.append(("early", written(action)))\n'},
    ("early", "once", *NOT_SOUND),
    "each unmet need is thought to be a violation of its own",
    "each of them once",
)
last_run_counts = judged(
    {FIRST: "max(slot for slot, _ in places)"},
    ("once",),
    "of several runs the last is thought to be the one that holds",
    "counts in the first of its slots: as what needs, and as what is needed",
)
last_place_counts = judged(
    {FIRST: "places[-1][0]"},
    ("once",),
    "a dictionary is filled, and what comes later replaces what was there",
    "counts in the first of its slots",
)
repetitions_kept = judged(
    {WHOLE_TWICE: "if whole and halves", TWICE: "if False]"},
    ("once",),
    "what was done is thought to be done, however often",
    "the action runs more than once",
)
halves_beside_are_fine = judged(
    {WHOLE_TWICE: 'if whole and len(at[stage, "B", k]) > 1'},
    ("once",),
    "only the same action is thought to be able to run twice",
    "A whole `B` that runs on its stage beside the microbatch's `I`, `W` or both is `\"twice\"`, too",
)
halves_are_twice_too = judged(
    {TWICE: 'if action[1] != "B" and (len(places) > 1 or action[1] in "IW" and (action[0], "B", action[2]) in at)]'},
    ("once",),
    "of two that do the same both are thought to be one too many",
    "and they are not for that reason",
)
whole_before_half = judged(
    {"for one in any_of):": "for one in (any_of[:1] if any_of[0] in at else any_of)):"},
    ("once",),
    "where a stage goes back both ways, the whole way is thought to be what counts",
    "one of the two will do",
)
once_for_each_run = judged(
    {TWICE: 'for _ in places[1:] if action[1] != "B"]'},
    ("once",),
    "every repetition is thought to be one violation",
    "however often",
)
both_backward_passes_are_due = judged(
    {DUE: '"FB" if whole or not halves else "FBIW"'},
    ("missing", "sound", "errors"),
    "a backward pass in halves is thought to stand for nothing",
    "backward in whole or in both halves",
)
one_half_is_enough = judged(
    {DUE: '"F" if whole or halves else "FB"'},
    ("missing", "sound", "errors"),
    "the half that others wait for is thought to be all",
    "one half where the other runs alone",
)
all_halves_are_missing = judged(
    {DUE: '"F" if whole else "FIW"'},
    ("missing", "sound", "errors"),
    "a backward pass is thought to be missing by its halves",
    "Missing is `F` where that never runs, `B` where neither `B` nor `I` nor `W` runs",
)
forward_passes_counted = judged(
    {DUE: '"" if whole else "IW" if halves else "B"'},
    ("missing", "sound", "errors"),
    "it is thought to be enough that every microbatch comes back",
    "every stage has to run every microbatch forward",
)
foreign_ones_take_part = judged(
    {OWN: "}", FOREIGN: '[("foreign", written(a)) for a in runs if a[0] >= stages or a[2] >= microbatches]'},
    ("foreign",),
    "what does not belong is thought to be judged like the rest",
    "All that follows is about the other actions alone",
)
foreign_microbatches_alone = judged(
    {OWN: "if action[2] < microbatches}"},
    ("foreign",),
    "a stage that is there is thought to be one of the pipeline's",
    "the action's stage or microbatch is not one of the pipeline's",
)
counted_from_one = judged(
    {OWN: "if action[0] <= stages and action[2] <= microbatches}"},
    ("foreign",),
    "stages are thought to be counted from 1",
    "Stages and microbatches are counted from 0",
)
foreign_ones_forgotten = judged(
    {FOREIGN: "[]"},
    ("foreign",),
    "what does not concern the pipeline is thought to be no violation",
    '`("foreign", action)`',
)
stage_is_the_gpu = judged(
    {SPLIT: '("split", str(stage)) for stage, gpus in homes.items() if gpus != {stage}'},
    ("split", "sound", "errors"),
    "stage s is thought to be on GPU s",
    "Any stage may be on any GPU, several on one",
)
one_stage_a_gpu = judged(
    {SPLIT: SPLIT + " or any(gpus & theirs for other, theirs in homes.items() if other != stage)"},
    ("split", "sound", "errors"),
    "a GPU is thought to have one stage",
    "several on one",
)
split_forgotten = judged(
    {SPLIT: '("split", str(stage)) for stage in ()'},
    ("split",),
    "which GPU runs an action is thought to make no difference",
    "actions of the stage run on more than one GPU. Its weights are on one",
)
split_names_a_number = judged(
    {"str(stage)": "stage"},
    ("split",),
    "a stage is thought to be its number",
    "pairs `(kind, what)` of strings",
)
microbatches_on_gpus = judged(
    {HOME: 'update([places[0][1]] if _ == "F" else [])'.replace("_ ==", "_kind =="), "for (stage, _, _), places in at.items()": "for (stage, _kind, _), places in at.items()"},
    ("split",),
    "a stage is thought to be where its forward passes are",
    "actions of the stage run on more than one GPU",
)
one_digit = judged(
    {WRITTEN: '"([0-9])([FBIW])([0-9])"'},
    ("foreign", "split", *NOT_SOUND),
    "a stage is thought to be one character",
    "have one decimal digit or more",
)
written_anywhere = judged(
    {"re.fullmatch(": "re.match("},
    ("errors",),
    "what begins as an action is thought to be one",
    "anything else than `None` or an action",
)
digits_of_all_scripts = judged(
    {WRITTEN: r'"(\\d+)([FBIW])(\\d+)"'.replace("\\\\", "\\\\")},
    ("errors",),
    "a digit is thought to be what a regular expression calls one",
    "one decimal digit or more",
)
empty_is_idle = judged(
    {IDLE: "            if not cell:\n"},
    ("errors",),
    "a cell that holds nothing true is thought to be idle",
    "a cell is `None`, where the GPU idles",
)
numbers_fall_through = judged(
    {ONLY_TEXT: "if True else None"},
    ("errors",),
    "a cell is thought to be a text, if it is not None",
    "or a number",
)
unreadable_is_idle = judged(
    {NO_ACTION: "                continue\n"},
    ("errors",),
    "what cannot be read is thought to be no work",
    "raises `ValueError`",
)
no_sizes_refused = judged(
    {SIZES_CHECKED: "    if False:\n"},
    ("errors",),
    "a pipeline of nothing is thought to be sound",
    "where `stages` or `microbatches` is less than 1",
)
rows_are_slots = judged(
    {"    for gpu, row in enumerate(table):\n        for slot, cell in enumerate(row):\n": "    for slot, row in enumerate(table):\n        for gpu, cell in enumerate(row):\n"},
    ("early", "sound", "once", "foreign", "split", "errors"),
    "time is thought to run down the table",
    "`table` is a list of rows, one for each GPU. A row is a list of cells, one for each slot of time",
)
backward_takes_two = judged(
    {BEFORE: 'first.get(one, slot) + (one[1] == "B") < slot'},
    ("early", *NOT_SOUND),
    "a backward pass is known to take twice as long as a forward pass",
    "Slots are counted from 0, and all take the same time",
)
microbatch_first = judged(
    {"(int(parts[1]), parts[2], int(parts[3]))": "(int(parts[3]), parts[2], int(parts[1]))", '"".join(map(str, action))': '"".join(map(str, action[::-1]))'},
    RULES,
    "an action is read as F0 on stage 2 is said: microbatch, then stage",
    "a stage, a letter and a microbatch",
)
halves_exchanged = judged(
    {'if kind == "W":\n': 'if kind == "I":\n', HALF_NEEDS: '        return [[(stage, "W", k)]]\n', BEHIND: BEHIND.replace('"I"', '"W"')},
    ("early", "once", *NOT_SOUND),
    "the stage before is thought to wait for the gradient of the weights",
    "`\"2I0\"` and `\"2W0\"` are the **halves** of that: the gradient of the stage's input, and those of its weights",
)
split_names_an_action = judged(
    {"str(stage)": '"".join(map(str, next(a for a in at if a[0] == stage)))'},
    ("split",),
    "every violation is thought to name an action",
    'or, for `"split"`, a stage, as in `"2"`',
)
none_for_sound = judged(
    {f"    return found + [{SPLIT}]": f"    found += [{SPLIT}]\n    return found or None"},
    NOT_SOUND,
    "nothing wrong is thought to be None",
    "A sound schedule has none",
)
forward_unchecked = judged(
    {FORWARD_NEEDS: "[]"},
    ("early", "once", *NOT_SOUND),
    "forward passes are thought to be right by themselves",
    "`F`, on every stage but the first, the `F` of the stage before",
)
rows_of_one_length = judged(
    {"        for slot, cell in enumerate(row):\n": "        for slot, cell in zip(range(len(table[0])), row):\n"},
    ("once", "foreign", "split", *NOT_SOUND),
    "all rows are thought to be as long as the first",
    "Rows may have different lengths: a GPU idles after its last cell",
)
idle_slots_counted = judged(
    {"    homes = {}\n": '    homes = {}\n    if sum(cell is None for row in table for cell in row) > 2 * stages * (stages - 1):\n        found.append(("early", "0F0"))\n'},
    ("early", "once", "foreign", *NOT_SOUND),
    "more idle slots than 1F1B has are thought to be wrong",
    "nothing else is a violation: neither idle slots",
)
in_order = judged(
    {OWN_FORWARD: 'return [[(stage, "F", k)], *behind, *([[(stage, "B", k - 1), (stage, "I", k - 1)]] if k > 0 else [])]'},
    ("early", "once", *NOT_SOUND),
    "microbatches are thought to come back in the order in which they went",
    "nor an order that the needs allow",
)
in_flight_limited = judged(
    {"    homes = {}\n": '    homes = {}\n    if any(len([a for a in at if a[0] == s and a[1] == "F"]) > 3 for s in range(stages)):\n        found.append(("early", "0F0"))\n'},
    ("early", *NOT_SOUND),
    "more than a few microbatches in flight are thought to be a defect",
    "nor how many microbatches are in flight",
)
table_emptied = judged(
    {"    homes = {}\n": "    homes = {}\n    for row in table:\n        row[:] = [cell for cell in row if cell is not None]\n"},
    RULES[:-1] + ("errors",),
    "the table is thought to be one's own",
    "the table is not changed",
)
borrowed = judged(
    {"    found = [": "    from gpulab.parallel import slots\n    slots(())\n    found = ["},
    RULES,
    "a library's function is thought to be as good as one's own",
    "you write it in plain Python: a call of PyTorch, NumPy or gpulab",
)


@mistake(
    "validate_schedule",
    loses=RULES,
    because="a schedule is thought to be right when it has the right number of cells",
    breaks="names all that is wrong with the schedule of one step",
)
def cells_counted(table, stages, microbatches):
    if stages < 1 or microbatches < 1:
        raise ValueError("no pipeline")
    cells = [cell for row in table for cell in row if cell is not None]
    return [] if len(cells) == 2 * stages * microbatches else [("missing", "0F0")]


@mistake(
    "validate_schedule",
    loses=("early", "once", "sound", "errors"),
    because="a slot is thought not to matter, only the order in which each GPU runs",
    breaks="that does not run in an **earlier slot**",
)
def order_on_each_gpu(table, stages, microbatches):
    if stages < 1 or microbatches < 1:
        raise ValueError("no pipeline")
    found, seen, homes, counts = set(), set(), {}, {}
    cells = [(cell, gpu) for gpu, row in enumerate(table) for cell in row if cell is not None]
    for cell, gpu in cells:
        letters = [i for i, c in enumerate(cell) if c in "FBIW"] if isinstance(cell, str) else []
        if len(letters) != 1 or not all(part.isascii() and part.isdigit() for part in cell.replace(cell[letters[0]], " ").split(" ")):
            raise ValueError(cell)
        stage, kind, k = int(cell[: letters[0]]), cell[letters[0]], int(cell[letters[0] + 1 :])
        if stage >= stages or k >= microbatches:
            found.add(("foreign", cell))
            continue
        if kind in "BI" and (stage, "F", k) not in seen or kind == "W" and (stage, "I", k) not in seen:
            found.add(("early", cell))
        seen.add((stage, kind, k))
        counts[stage, kind, k] = counts.get((stage, kind, k), 0) + 1
        homes.setdefault(stage, set()).add(gpu)
    found |= {("twice", f"{s}{kind}{k}") for (s, kind, k), n in counts.items() if n > 1}
    found |= {("twice", f"{s}B{k}") for s, kind, k in seen if kind == "B" and {(s, "I", k), (s, "W", k)} & seen}
    found |= {("split", str(stage)) for stage, gpus in homes.items() if len(gpus) > 1}
    for s in range(stages):
        for k in range(microbatches):
            has = {kind for kind in "FBIW" if (s, kind, k) in seen}
            for kind in "F" + ("" if "B" in has else "IW" if has & set("IW") else "B"):
                if kind not in has:
                    found.add(("missing", f"{s}{kind}{k}"))
    return sorted(found)


@alternative("validate_schedule")
def slot_by_slot(table, stages, microbatches):
    """Plays the table: in each slot all GPUs look at what there was before it."""
    import re
    from itertools import zip_longest

    if min(stages, microbatches) < 1:
        raise ValueError("nothing to run")
    there, ran, homes, found = set(), [], {}, set()
    for column in zip_longest(*table):
        made = set()
        for gpu, cell in enumerate(column):
            if cell is None:
                continue
            if type(cell) is not str or re.fullmatch("[0-9]+[FBIW][0-9]+", cell) is None:
                raise ValueError(repr(cell))
            stage, kind, k = re.split("([FBIW])", cell)
            stage, k = int(stage), int(k)
            if not (stage < stages and k < microbatches):
                found.add(("foreign", cell))
                continue
            lacks = {
                "F": stage > 0 and ("x", stage, k) not in there,
                "B": ("a", stage, k) not in there or stage + 1 < stages and ("g", stage, k) not in there,
                "I": ("a", stage, k) not in there or stage + 1 < stages and ("g", stage, k) not in there,
                "W": ("h", stage, k) not in there,
            }[kind]
            if lacks and cell not in ran:
                found.add(("early", cell))
            if kind == "F":
                made |= {("x", stage + 1, k), ("a", stage, k)}
            elif kind != "W":
                made.add(("g", stage - 1, k))
                made |= {("h", stage, k)} if kind == "I" else set()
            if cell in ran:
                found.add(("twice", cell))
            ran.append(cell)
            homes.setdefault(stage, set()).add(gpu)
        there |= made
    found |= {("split", f"{stage}") for stage in homes if len(homes[stage]) > 1}
    for stage in range(stages):
        for k in range(microbatches):
            f, b, i, w = (f"{stage}{kind}{k}" in ran for kind in "FBIW")
            found |= set() if f else {("missing", f"{stage}F{k}")}
            if b and (i or w):
                found.add(("twice", f"{stage}B{k}"))
            if not (b or i or w):
                found.add(("missing", f"{stage}B{k}"))
            if not b and i != w:
                found.add(("missing", f"{stage}{'W' if i else 'I'}{k}"))
    return list(found)


@alternative("validate_schedule")
def as_sets_of_moments(table, stages, microbatches):
    """When a forward pass, a gradient and a half are there; all else are comparisons of these."""
    from collections import Counter
    from math import inf

    if stages <= 0 or microbatches <= 0:
        raise ValueError("no stages or no microbatches")

    def parsed(cell):
        for letter in "FBIW":
            stage, found, k = str(cell).partition(letter)
            if found and isinstance(cell, str) and stage.isdecimal() and k.isdecimal() and cell.isascii():
                return int(stage), letter, int(k)
        raise ValueError(f"{cell} is not an action")

    runs = [(parsed(cell), slot, gpu) for gpu, row in enumerate(table) for slot, cell in enumerate(row) if cell is not None]
    inside = [run for run in runs if run[0][0] < stages and run[0][2] < microbatches]
    outside = {action for action, _, _ in runs} - {action for action, _, _ in inside}
    times = Counter(action for action, _, _ in inside)
    when = {}
    for action, slot, _ in sorted(inside, key=lambda run: -run[1]):
        when[action] = slot

    def at(*action):
        return when.get(action, inf)

    def text(action):
        return "%d%s%d" % action

    answer = {("foreign", text(a)) for a in outside} | {("twice", text(a)) for a in times if times[a] > 1}
    for s, kind, k in times:
        forward, gradient = at(s, "F", k), min(at(s + 1, "B", k), at(s + 1, "I", k)) if s + 1 < stages else -1
        there = {"F": at(s - 1, "F", k) if s else -1, "B": max(forward, gradient), "I": max(forward, gradient), "W": at(s, "I", k)}
        if not there[kind] < at(s, kind, k):
            answer.add(("early", text((s, kind, k))))
    for s in range(stages):
        if len({gpu for action, _, gpu in inside if action[0] == s}) > 1:
            answer.add(("split", str(s)))
        for k in range(microbatches):
            has = "".join(kind for kind in "FBIW" if times[s, kind, k])
            lacking = {"": "B", "I": "W", "W": "I"}.get(has.replace("F", ""), "")
            answer |= {("missing", text((s, kind, k))) for kind in lacking + ("" if "F" in has else "F")}
            if "B" in has and set("IW") & set(has):
                answer.add(("twice", text((s, "B", k))))
    return [*answer]


@alternative("validate_schedule")
def by_a_class(table, stages, microbatches):
    class Judge:
        def __init__(self):
            self.pairs, self.cells = {}, {}

        def say(self, kind, what):
            self.pairs[kind, what] = None

        def read(self):
            for gpu, row in enumerate(table):
                for slot, cell in enumerate(row):
                    if cell is not None:
                        self.cells.setdefault(self.action(cell), []).append((slot, gpu))
            for action in [a for a in self.cells if a[0] >= stages or a[2] >= microbatches]:
                self.say("foreign", "{}{}{}".format(*action))
                del self.cells[action]

        def action(self, cell):
            if not isinstance(cell, str):
                raise ValueError("a cell is a text or None")
            digits = "0123456789"
            stage = cell[: len(cell) - len(cell.lstrip(digits))]
            k = cell[len(cell.rstrip(digits)) :]
            kind = cell[len(stage) : len(cell) - len(k)]
            if kind not in ("F", "B", "I", "W") or stage == "" or k == "":
                raise ValueError("not an action: " + cell)
            return int(stage), kind, int(k)

        def slot(self, *action):
            return min(self.cells[action])[0] if action in self.cells else None

        def before(self, slot, *actions):
            return any(self.slot(*a) is not None and self.slot(*a) < slot for a in actions)

        def judge(self):
            for (s, kind, k), places in self.cells.items():
                slot, name = min(places)[0], f"{s}{kind}{k}"
                ok = True
                if kind == "W":
                    ok = self.before(slot, (s, "I", k))
                elif kind == "F":
                    ok = s == 0 or self.before(slot, (s - 1, "F", k))
                else:
                    ok = self.before(slot, (s, "F", k))
                    ok = ok and (s == stages - 1 or self.before(slot, (s + 1, "B", k), (s + 1, "I", k)))
                if not ok:
                    self.say("early", name)
                beside = kind == "B" and ((s, "I", k) in self.cells or (s, "W", k) in self.cells)
                if beside or len(places) > 1:
                    self.say("twice", name)
                for _, gpu in places:
                    if any(gpu != other for (t, _, _), theirs in self.cells.items() if t == s for _, other in theirs):
                        self.say("split", str(s))
            for s in range(stages):
                for k in range(microbatches):
                    f, b, i, w = ((s, kind, k) in self.cells for kind in "FBIW")
                    if not f:
                        self.say("missing", f"{s}F{k}")
                    if b:
                        continue
                    if i and not w:
                        self.say("missing", f"{s}W{k}")
                    elif w and not i:
                        self.say("missing", f"{s}I{k}")
                    elif not i:
                        self.say("missing", f"{s}B{k}")

    if stages < 1 or microbatches < 1:
        raise ValueError("there is no such pipeline")
    judge = Judge()
    judge.read()
    judge.judge()
    return list(judge.pairs)


@alternative("validate_schedule")
def recursive_needs(table, stages, microbatches):
    import itertools
    import string

    if not (stages >= 1 and microbatches >= 1):
        raise ValueError

    def split(cell):
        try:
            kind = cell.strip(string.digits)
            stage, k = cell.split(kind)
            if kind not in {*"FBIW"} or not stage or not k or set(stage + k) - {*string.digits}:
                raise ValueError
            return int(stage), kind, int(k)
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f"what is {cell!r}?") from None

    found, flat = [], []
    for gpu, row in enumerate(table):
        flat += [(slot, gpu, *split(cell)) for slot, cell in enumerate(row) if cell is not None]
    flat.sort()
    foreign = {e[2:] for e in flat if e[2] not in range(stages) or e[4] not in range(microbatches)}
    flat = [e for e in flat if e[2:] not in foreign]
    found += [("foreign", f"{s}{c}{k}") for s, c, k in foreign]
    for action, group in itertools.groupby(sorted(flat, key=lambda e: e[2:]), key=lambda e: e[2:]):
        s, c, k = action
        slot = next(group)[0]
        more = len(list(group))
        before = {e[2:] for e in flat if e[0] < slot}
        needs = {"F": [{(s - 1, "F", k)}] * (s > 0), "W": [{(s, "I", k)}]}.get(c)
        if needs is None:
            needs = [{(s, "F", k)}] + [{(s + 1, "B", k), (s + 1, "I", k)}] * (s + 1 < stages)
        if any(before.isdisjoint(one) for one in needs):
            found.append(("early", f"{s}{c}{k}"))
        others = {e[2:] for e in flat}
        if more or c == "B" and not others.isdisjoint({(s, "I", k), (s, "W", k)}):
            found.append(("twice", f"{s}{c}{k}"))
    for s in range(stages):
        if len({e[1] for e in flat if e[2] == s}) >= 2:
            found.append(("split", f"{s}"))
        for k in range(microbatches):
            kinds = {e[3] for e in flat if (e[2], e[4]) == (s, k)}
            want = {"F"} | ({"B"} if not kinds & {*"BIW"} else {"B"} if "B" in kinds else {"I", "W"})
            found += [("missing", f"{s}{c}{k}") for c in want - kinds]
    return found

# E16.3 schedule_1f1b

FEW_TOO = ("sound", "slots", "flight", "order", "few", "errors")

PIPELINE_CHECKED = "    if stages < 1 or microbatches < 1:\n"
TABLE = "    table = [[None] * (2 * (microbatches + stages - 1)) for _ in range(stages)]\n"
LENGTH = "(2 * (microbatches + stages - 1))"
AHEAD = "        ahead = stages - stage\n"
FORWARD = "            forward = stage + k if k < ahead else stage + 2 * k\n"
FORWARD_CELL = '            row[forward] = f"{stage}F{k}"\n'
BACKWARD_CELL = '            row[stages - 1 + ahead + 2 * k] = f"{stage}B{k}"\n'
BACKWARD = "stages - 1 + ahead + 2 * k"
EVERY = "        for k in range(microbatches):\n"
DONE = "    return table"
EARLIER_ROOM = "(2 * (microbatches + stages - 1) + 1)"


def drawn(edits, loses, because, breaks):
    return edited("schedule_1f1b", edits, loses=loses, because=because, breaks=breaks)


as_gpipe = drawn(
    {FORWARD: "            forward = stage + k\n", BACKWARD: "microbatches + stages - 2 + ahead + k"},
    ("flight", "few"),
    "all forward passes are thought to have to be done before the first backward pass",
    "on stage s, at most `stages` - s microbatches are in flight in any slot",
)
in_reverse = drawn(
    {FORWARD: "            forward = stage + k\n", BACKWARD: "microbatches + stages - 2 + ahead + microbatches - 1 - k"},
    ("flight", "order", "few"),
    "what went last is thought to come back first, as in the notes' figure",
    "and its backward passes too",
)
forward_in_reverse = drawn(
    {'f"{stage}F{k}"': 'f"{stage}F{microbatches - 1 - k}"', 'f"{stage}B{k}"': 'f"{stage}B{microbatches - 1 - k}"'},
    ("order", "few"),
    "microbatches are thought to be alike",
    "every stage runs its forward passes in the order of the microbatches",
)
same_slot = drawn(
    {BACKWARD: "stages - 1 + ahead + 2 * k - (ahead > 1)"},
    FEW_TOO,
    "a gradient is thought to be there in the slot in which it is made",
    "what an action needs has run in an earlier slot",
)
notes_ahead = drawn(
    {AHEAD: "        ahead = stages\n", BACKWARD: "2 * stages - 1 - stage + 2 * k"},
    FEW_TOO,
    "all stages are thought to run equally far ahead",
    "the schedule is **sound**",
)
warm_up_for_all = drawn(
    {LENGTH: "(2 * (max(microbatches, stages) + stages - 1))", EVERY: "        for k in range(max(microbatches, ahead)):\n"},
    ("few",),
    "a stage is thought to have enough microbatches to warm up with",
    "and fewer microbatches than stages, too",
)
few_refused = drawn(
    {PIPELINE_CHECKED: "    if stages < 1 or microbatches < stages:\n"},
    ("few",),
    "what PyTorch refuses is thought to be impossible",
    "fewer microbatches than stages, too",
)
an_idle_slot_more = drawn(
    {LENGTH: "(2 * (microbatches + stages))"},
    ("slots", "few"),
    "the bubble is thought to be as long as there are stages, at both ends",
    "every row has exactly 2 · (`microbatches` + `stages` - 1) cells",
)
an_idle_slot_first = drawn(
    {LENGTH: EARLIER_ROOM, "row[forward]": "row[forward + 1]", f"row[{BACKWARD}]": f"row[{BACKWARD} + 1]"},
    ("slots", "few"),
    "work is thought to begin in slot 1",
    "every row has exactly 2 · (`microbatches` + `stages` - 1) cells",
)
rows_end_with_the_work = drawn(
    {DONE: "    for row in table:\n        while row[-1] is None:\n            row.pop()\n    return table"},
    ("slots", "few"),
    "what idles at the end is thought not to count",
    "every row has exactly",
)
trailing_rows = drawn(
    {DONE: "    return [row[: 2 * (microbatches + stages - 1) - stage] for stage, row in enumerate(table)]"},
    ("slots", "few"),
    "a stage's row is thought to end with its last backward pass",
    "every row has exactly",
)
actions_without_a_stage = drawn(
    {'f"{stage}F{k}"': 'f"F{k}"', 'f"{stage}B{k}"': 'f"B{k}"'},
    FEW_TOO,
    "a row is thought to say which stage it is",
    "A cell is `None` or an action",
)
in_halves = drawn(
    {LENGTH: "(3 * (microbatches + stages - 1) + 9)", BACKWARD_CELL: '            row[stages - 1 + ahead + 2 * k] = f"{stage}I{k}"\n            row[2 * (microbatches + stages - 1) + k] = f"{stage}W{k}"\n'},
    FEW_TOO,
    "halves are thought to be as good as whole ones",
    "backward passes are whole (`B`)",
)
counted_from_1 = drawn(
    {'f"{stage}F{k}"': 'f"{stage}F{k + 1}"', 'f"{stage}B{k}"': 'f"{stage}B{k + 1}"'},
    FEW_TOO,
    "microbatches are thought to be counted from 1",
    "`validate_schedule` would find nothing in it",
)
last_stage_first = drawn(
    {DONE: "    return table[::-1]"},
    FEW_TOO,
    "the last stage is thought to be drawn on top",
    "Row s is GPU s, which has stage s alone",
)
slots_as_rows = drawn(
    {DONE: "    return [list(column) for column in zip(*table)]"},
    FEW_TOO,
    "a table is thought to have a row for each slot, as PyTorch prints it",
    "a list of `stages` rows",
)
a_dictionary = drawn(
    {DONE: "    return dict(enumerate(table))"},
    FEW_TOO,
    "GPUs are thought to be keys, as in PyTorch's `pipeline_order`",
    "it returns a table as in E16.2",
)
rows_of_text = drawn(
    {DONE: '    return [" ".join(cell or "." for cell in row) for row in table]'},
    FEW_TOO,
    "a row is thought to be a line of text",
    "each a list of cells",
)
backward_twice = drawn(
    {LENGTH: EARLIER_ROOM, BACKWARD_CELL: BACKWARD_CELL + '            row[-1] = f"{stage}B0"\n'},
    FEW_TOO,
    "a first microbatch is done again to be sure",
    "Every stage runs every microbatch forward and backward, once",
)
the_last_never_comes_back = drawn(
    {BACKWARD_CELL: "            if k < microbatches - 1 or stages > 1:\n    " + BACKWARD_CELL},
    FEW_TOO,
    "a pipeline of one stage is thought to need no backward pass of its last microbatch",
    "for 1 or more of each",
)
remembered = drawn(
    {DONE: "    tables[stages, microbatches] = table\n    return table", PIPELINE_CHECKED:
     "    tables = schedule_1f1b.__dict__.setdefault('tables', {})\n    if (stages, microbatches) in tables:\n        return tables[stages, microbatches]\n" + PIPELINE_CHECKED},
    FEW_TOO,
    "the same question is thought to deserve the same object",
    "the lists are new ones in every call: their owner may change them",
)
nothing_refused = drawn(
    {PIPELINE_CHECKED: "    if False:\n"},
    ("errors",),
    "a pipeline of nothing is thought to have an empty table",
    "where `stages` or `microbatches` is less than 1",
)
only_stages_checked = drawn(
    {PIPELINE_CHECKED: "    if stages < 1:\n"},
    ("errors",),
    "no microbatches are thought to be no work",
    "raises `ValueError` where `stages` or `microbatches` is less than 1",
)
of_the_library = drawn(
    {DONE: "    from gpulab.parallel import one_f_one_b\n    return one_f_one_b(stages, microbatches)"},
    FEW_TOO,
    "what is in a library is thought to be one's own",
    "you write it in plain Python: a call of PyTorch, NumPy or gpulab",
)


def greedily(first, loses, because, breaks):
    """A schedule as early as its order allows; ``first``: how many forward passes a stage runs ahead."""
    return drawn(
        {
            TABLE: "    table, done = [[] for _ in range(stages)], {}\n    todo = {}\n",
            "    for stage, row in enumerate(table):\n": "    for stage in range(stages):\n",
            AHEAD: f"        first = max(1, min(microbatches, {first}))\n",
            EVERY: "        order = [('F', k) for k in range(first)]\n        for k in range(microbatches):\n",
            "            # The first ones follow one another; each later one comes in behind the backward pass that makes room for it.\n" + FORWARD
            + FORWARD_CELL + "            # On the last stage in the slot after its forward pass, and a slot later on each stage before.\n" + BACKWARD_CELL:
            "            order += [('B', k)] + ([('F', first + k)] if first + k < microbatches else [])\n        todo[stage] = order\n"
            "    while any(todo.values()):\n        slot = len(table[0])\n        for stage, order in todo.items():\n            cell = None\n            if order:\n"
            "                kind, k = order[0]\n                needs = [(stage - 1, 'F', k)] if kind == 'F' else [(stage, 'F', k), (stage + 1, 'B', k)]\n"
            "                needs = [one for one in needs if 0 <= one[0] < stages]\n                if all(done.get(one, slot) < slot for one in needs):\n"
            "                    cell = f'{stage}{kind}{k}'\n                    done[stage, kind, k] = slot\n                    order.pop(0)\n            table[stage].append(cell)\n",
        },
        loses, because, breaks,
    )  # fmt: skip


one_more_ahead = greedily("stages - stage + 1", ("flight", "few"), "the warm-up is thought to take a forward pass more", "on stage s, at most `stages` - s microbatches are in flight")
one_less_ahead = greedily("stages - stage - 1", ("slots", "few"), "the warm-up is thought to be what is done before the first stage waits", "every row has exactly 2 · (`microbatches` + `stages` - 1) cells")
as_far_as_stage_0 = greedily("stages", ("slots", "flight", "few"), "every stage is thought to be allowed what the first is", "One is in flight from the slot of its forward pass to the slot of its backward pass, both included")
one_at_a_time = greedily("1", ("slots", "few"), "one forward, one backward is taken to be meant of each microbatch", "every row has exactly 2 · (`microbatches` + `stages` - 1) cells")
by_halves = greedily("(stages - stage + 1) // 2", ("slots", "few"), "half of the stages are thought to be enough to keep the last one busy", "every row has exactly 2 · (`microbatches` + `stages` - 1) cells")


@alternative("schedule_1f1b")
def played(stages, microbatches):
    """Slot by slot: each GPU takes a backward pass where it can, else a forward pass if it has room for another."""
    if stages < 1 or microbatches < 1:
        raise ValueError("a pipeline has a stage and a microbatch")
    table = [[] for _ in range(stages)]
    forward, backward = [0] * stages, [0] * stages
    while backward[0] < microbatches:
        had, returned = forward[:], backward[:]
        for s in range(stages):
            can_return = had[s] > returned[s] and (s == stages - 1 or returned[s + 1] > returned[s])
            can_go = had[s] < microbatches and (s == 0 or had[s - 1] > had[s]) and had[s] - returned[s] < stages - s
            if can_return:
                table[s].append(f"{s}B{returned[s]}")
                backward[s] += 1
            elif can_go:
                table[s].append(f"{s}F{had[s]}")
                forward[s] += 1
            else:
                table[s].append(None)
    return table


@alternative("schedule_1f1b")
def from_phases(stages, microbatches):
    """Warm-up, pairs and cool-down, as PyTorch writes it; slots by waiting for what is needed."""
    if min(stages, microbatches) <= 0:
        raise ValueError(stages, microbatches)
    rows = []
    for rank in range(stages):
        warm = min(microbatches, stages - rank)
        row = ["F%d" % i for i in range(warm)]
        f, b = warm, 0
        while b < microbatches:
            row.append("B%d" % b)
            b += 1
            if f < microbatches:
                row.append("F%d" % f)
                f += 1
        rows.append(row)
    when, changed = {}, True
    while changed:
        changed = False
        for rank, row in enumerate(rows):
            last = -1
            for what in row:
                if what[0] == "F":
                    after = when.get((rank - 1, what), -1) if rank else -1
                else:
                    after = when.get((rank + 1, what), -1)
                slot = max(last, after) + 1
                changed |= when.get((rank, what)) != slot
                when[rank, what] = last = slot
    length = max(when.values()) + 1
    at = {(rank, slot): f"{rank}{what}" for (rank, what), slot in when.items()}
    return [[at.get((rank, slot)) for slot in range(length)] for rank in range(stages)]


@alternative("schedule_1f1b")
def cell_by_cell(stages, microbatches):
    """Asks each cell what runs there."""
    if not (stages > 0 and microbatches > 0):
        raise ValueError("nothing to do")

    def cell(s, slot):
        back, odd = divmod(slot - (2 * stages - 1 - s), 2)
        if not odd and 0 <= back < microbatches:
            return str(s) + "B" + str(back)
        k = slot - s
        if 0 <= k < min(stages - s, microbatches):
            return str(s) + "F" + str(k)
        k, odd = divmod(slot - s, 2)
        if not odd and stages - s <= k < microbatches:
            return str(s) + "F" + str(k)
        return None

    return [[cell(s, slot) for slot in range(2 * microbatches + 2 * stages - 2)] for s in range(stages)]


@alternative("schedule_1f1b")
def from_the_last_stage(stages, microbatches):
    """The last stage alternates; each stage before goes one slot earlier and comes back one slot later, as late as it may."""
    if stages < 1:
        raise ValueError("stages")
    if microbatches < 1:
        raise ValueError("microbatches")
    whole = 2 * (stages + microbatches - 1)
    goes = {k: stages - 1 + 2 * k for k in range(microbatches)}
    comes = {k: stages + 2 * k for k in range(microbatches)}
    rows = []
    for s in reversed(range(stages)):
        row = [None] * whole
        for k in range(microbatches):
            row[goes[k]], row[comes[k]] = f"{s}F{k}", f"{s}B{k}"
        rows.insert(0, row)
        room = stages - s + 1  # of the stage before
        comes = {k: comes[k] + 1 for k in comes}
        goes = {k: comes[k - room] + 1 if k >= room else s - 1 + k for k in goes}
    return rows

# E16.4 mesh_plan

ALL_OF_IT = ("time", "divides", "memory", "groups", "errors")

NODE = "divisors(cluster['gpus'])".replace("'", '"')
STAGES_OF = "for pp in divisors(gpus // tp)\n"
HEADS = 'model["heads"] % tp == 0'
LAYERS_DIVIDED = ' and model["layers"] % pp == 0'
BATCH_DIVIDED = ' and model["batch"] % (gpus // (pp * tp)) == 0'
FITTING = "held_bytes(model, *plan) <= cluster["
NONE_FITS = "    if not plans:\n"
FASTEST = "min(plans, key=lambda plan: step_us(model, cluster, *plan))"
GROUPS_DP = "[list(range(first, gpus, pp * tp)) for first in range(pp * tp)]"
GROUPS_PP = "[list(range(d + t, d + pp * tp, tp)) for d in range(0, gpus, pp * tp) for t in range(tp)]"
GROUPS_TP = "[list(range(first, first + tp)) for first in range(0, gpus, tp)]"
IN_FLIGHT = 'min(pp, model["batch"] // dp)'
SAVED = 'in_flight * model["layers"] // pp * model["activation_bytes"] / tp'
STATE = 'model["state_bytes"] * model["parameters"] / (pp * tp)'
SUMS = '4 * 2 * (tp - 1) / tp * model["layer_bytes"] / cluster["link"]'
STAGE = 'model["layers"] / pp * (model["layer_us"] / tp + summed)'
GRADIENTS = '2 * (dp - 1) / dp * 2 * model["parameters"] / (pp * tp) / cluster["network"]'
TURNS = '(model["batch"] // dp + pp - 1) * stage'
PAIR = "    return (dp, pp, tp), {\n"


def planned(edits, loses, because, breaks):
    return edited("mesh_plan", edits, loses=loses, because=because, breaks=breaks)


no_bubble = planned(
    {TURNS: 'model["batch"] // dp * stage'},
    ("time", "errors"),
    "a pipeline is thought to be always full",
    "A step takes m + pp - 1 times as long, since the bubble counts",
)
one_turn_too_many = planned(
    {TURNS: '(model["batch"] // dp + pp) * stage'},
    ("time", "errors"),
    "filling and draining is thought to take a turn for each stage",
    "A step takes m + pp - 1 times as long",
)
no_sums = planned(
    {SUMS: "0"},
    ("time", "errors"),
    "what tensor parallel ranks send is thought to cost nothing within a node",
    "a stage takes layers / pp · (layer_us / tp + 4 · 2 (tp - 1) / tp · layer_bytes / link) for one microbatch",
)
sums_once = planned(
    {SUMS: SUMS.replace("4 * 2", "2")},
    ("time", "errors"),
    "a layer is thought to have one all-reduce",
    "4 · 2 (tp - 1) / tp · layer_bytes / link",
)
sums_over_the_network = planned(
    {SUMS: SUMS.replace('"link"', '"network"')},
    ("time", "errors"),
    "all ranks are thought to be joined by the same network",
    "A GPU sends `\"link\"` bytes a microsecond within its node",
)
no_gradients = planned(
    {GRADIENTS: "0"},
    ("time", "errors"),
    "gradients are thought to be summed behind the backward pass",
    "then 2 (dp - 1) / dp · 2 · parameters / (pp · tp) / network microseconds for the gradients",
)
all_gradients = planned(
    {GRADIENTS: GRADIENTS.replace(" / (pp * tp)", "")},
    ("time", "errors"),
    "a rank is thought to have the gradients of the whole model",
    "2 (dp - 1) / dp · 2 · parameters / (pp · tp) / network",
)
gradients_by_the_link = planned(
    {GRADIENTS: GRADIENTS.replace('"network"', '"link"')},
    ("time", "errors"),
    "replicas are thought to be as near as parts",
    "and `\"network\"` bytes a microsecond for the sums of gradients, wherever the replicas are",
)
gradients_of_four_bytes = planned(
    {GRADIENTS: GRADIENTS.replace("* 2 * model", "* 4 * model")},
    ("time", "errors"),
    "gradients are thought to be float32",
    "microseconds for the gradients, of two bytes each",
)
most_replicas = planned(
    {FASTEST: "max(plans)"},
    ("time", "errors"),
    "data parallelism is thought to be the cheapest as long as it fits",
    "the one with the **shortest step** is taken. No two are equally fast",
)
least_memory = planned(
    {FASTEST: "min(plans, key=lambda plan: held_bytes(model, *plan))"},
    ("time", "errors"),
    "the plan that leaves most room is thought to be the best",
    "of all plans that may be, the one with the **shortest step** is taken",
)
tp_first = planned(
    {FASTEST: "max(plans, key=lambda plan: (plan[2], -plan[1]))"},
    ("time", "errors"),
    "a node is thought to be best used by tensor parallelism",
    "of all plans that may be, the one with the **shortest step** is taken",
)
tp_over_nodes = planned(
    {NODE: "divisors(gpus)"},
    ("divides", "groups", "errors"),
    "sixteen parts are thought to be as good on two nodes as on one",
    "**tp** divides the GPUs of a node, so that no split leaves it",
)
tp_as_large_as_a_node = planned(
    {NODE: '[k for k in divisors(gpus) if k <= cluster["gpus"]]'},
    ("divides", "groups", "errors"),
    "a group that is no larger than a node is thought to be in one",
    "**tp** divides the GPUs of a node, so that no split leaves it",
)
heads_cut = planned(
    {HEADS: "True"},
    ("divides", "groups", "errors"),
    "a head is thought to be as easily cut as a matrix",
    "and it divides the heads",
)
layers_cut = planned(
    {LAYERS_DIVIDED: ""},
    ("divides", "groups", "errors"),
    "stages are thought to be allowed parts of layers",
    "**pp** divides the layers",
)
batch_rounded = planned(
    {BATCH_DIVIDED: ' and model["batch"] >= gpus // (pp * tp)'},
    ("divides", "groups", "errors"),
    "the rest of a batch is thought to be left out",
    "**dp** divides the batch",
)
gpus_left_over = planned(
    {STAGES_OF: "for pp in range(1, gpus // tp + 1)\n"},
    ("divides", "groups", "errors"),
    "GPUs are thought to be allowed to idle",
    "It uses **all GPUs**: their product is nodes times gpus",
)
no_memory = planned(
    {FITTING: "0 * held_bytes(model, *plan) <= cluster["},
    ("memory", "errors"),
    "what divides is thought to fit",
    "The sum may be as large as `memory` and no larger",
)
state_alone = planned(
    {SAVED: "0"},
    ("memory", "errors"),
    "memory is thought to be that of the parameters and what belongs to them",
    "and on the first stage layers / pp · activation_bytes / tp for each microbatch in flight",
)
one_in_flight = planned(
    {IN_FLIGHT: "1"},
    ("memory", "errors"),
    "a stage is thought to work on one microbatch at a time",
    "for each microbatch in flight, of which there are pp, or m where that is less",
)
all_in_flight = planned(
    {IN_FLIGHT: 'model["batch"] // dp'},
    ("memory",),
    "1F1B is thought to keep all microbatches, as GPipe does",
    "a replica has m = batch / dp microbatches of one sequence each, in 1F1B order",
)
always_pp = planned(
    {IN_FLIGHT: "pp"},
    ("memory",),
    "there are thought to be enough microbatches for all stages",
    "or m where that is less",
)
saved_whole = planned(
    {SAVED: SAVED.removesuffix(" / tp")},
    ("memory",),
    "activations are thought to be the same on all parts",
    "layers / pp · activation_bytes / tp",
)
less_than_memory = planned(
    {FITTING: "held_bytes(model, *plan) < cluster["},
    ("memory",),
    "the last byte is thought not to be there",
    "The sum may be as large as `memory` and no larger",
)
state_of_a_replica = planned(
    {STATE: 'model["state_bytes"] * model["parameters"] / (pp * tp * dp)'},
    ("memory", "errors"),
    "replicas are thought to share the state among them, as ZeRO's do",
    "a GPU holds state_bytes · parameters / (pp · tp)",
)
sixteen_bytes = planned(
    {STATE: '16 * model["parameters"] / (pp * tp)'},
    ("memory", "errors"),
    "a parameter is thought to take 16 bytes",
    "of which each takes `\"state_bytes\"` bytes with its gradient and the optimizer's state",
)
pp_innermost = planned(
    {GROUPS_PP: "[list(range(first, first + pp)) for first in range(0, gpus, pp)]", GROUPS_TP: "[list(range(d + p, d + pp * tp, pp)) for d in range(0, gpus, pp * tp) for p in range(pp)]"},
    ("groups",),
    "stages are thought to be neighbours",
    "ranks are counted with tp innermost and dp outermost",
)
dp_innermost = planned(
    {GROUPS_DP: "[list(range(first, first + dp)) for first in range(0, gpus, dp)]", GROUPS_PP: "[list(range(t + d, t + dp * pp, dp)) for t in range(0, gpus, dp * pp) for d in range(dp)]",
     GROUPS_TP: "[list(range(first, gpus, dp * pp)) for first in range(dp * pp)]"},
    ("groups",),
    "a plan is thought to be read from the left, fastest first",
    "is in replica d, stage p and part t. So `DeviceMesh` has it with sizes (dp, pp, tp)",
)
of_rank_0 = planned(
    {GROUPS_DP: "[list(range(0, gpus, pp * tp))]", GROUPS_PP: "[list(range(0, pp * tp, tp))]", GROUPS_TP: "[list(range(tp))]"},
    ("groups",),
    "a rank's own groups are thought to be all",
    "Each value is a list of all groups of that dimension",
)
no_groups_of_one = planned(
    {GROUPS_DP: GROUPS_DP + " if dp > 1 else []", GROUPS_PP: GROUPS_PP + " if pp > 1 else []", GROUPS_TP: GROUPS_TP + " if tp > 1 else []"},
    ("groups",),
    "a rank alone is thought to be no group",
    "a dimension of size 1 has a group for each rank",
)
groups_of_a_replica = planned(
    {GROUPS_PP: GROUPS_PP.replace("range(0, gpus, pp * tp)", "range(0, pp * tp, pp * tp)")},
    ("groups",),
    "replicas are thought to have the same stages",
    "Ranks that differ in one of these numbers alone are a group of that dimension",
)
groups_in_any_order = planned(
    {GROUPS_PP: "[list(range(d + t, d + pp * tp, tp)) for t in range(tp) for d in range(0, gpus, pp * tp)]"},
    ("groups",),
    "groups are thought to have no order",
    "and the groups in the order of their first ranks",
)
in_reverse_sizes = planned(
    {PAIR: "    return (tp, pp, dp), {\n"},
    ALL_OF_IT,
    "the innermost dimension is thought to be named first",
    "a plan is (dp, pp, tp): dp replicas of pp stages, each split over tp ranks",
)
plan_alone = planned(
    {PAIR: "    return dp, pp, tp\n    return (dp, pp, tp), {\n"},
    ALL_OF_IT,
    "the groups are thought to follow from the plan",
    "it returns a pair: the plan, a tuple `(dp, pp, tp)` of integers, and the rank **groups**",
)
none_instead = planned(
    {NONE_FITS: "    if not plans:\n        return None\n    if not plans:\n"},
    ("errors",),
    "no plan is thought to be None",
    "raises `ValueError` where no plan may be",
)
min_of_nothing = planned(
    {NONE_FITS: "    if not plans:\n        plans = [(gpus, 1, 1)]\n    if not plans:\n"},
    ("errors",),
    "some plan is thought to be better than none",
    "raises `ValueError` where no plan may be",
)
dictionaries_used = planned(
    {NONE_FITS: '    cluster["total"] = gpus\n' + NONE_FITS},
    ALL_OF_IT,
    "a dictionary is thought to have room for what was found",
    "the dictionaries stay as they are",
)
a_layer_of_the_batch = planned(
    {STAGE: 'model["layers"] / pp * (model["layer_us"] * model["batch"] / tp + summed)'},
    ("time", "errors"),
    "a layer's time is thought to be that of the whole batch",
    "takes `\"layer_us\"` microseconds of one GPU to go there and back with it",
)
batch_for_each_replica = planned(
    {TURNS: '(model["batch"] + pp - 1) * stage'},
    ("time", "errors"),
    "every replica is thought to see the whole batch",
    "A step has `\"batch\"` sequences",
)
memory_of_a_node = planned(
    {FITTING + '"memory"]': FITTING + '"memory"] * cluster["gpus"]'},
    ("memory", "errors"),
    "the memory is thought to be a node's",
    "the cluster has `\"nodes\"` nodes of `\"gpus\"` GPUs with `\"memory\"` bytes each",
)
of_gpulab = planned(
    {PAIR: "    from gpulab.parallel import mesh_groups\n    return (dp, pp, tp), mesh_groups({'dp': dp, 'pp': pp, 'tp': tp})\n    return (dp, pp, tp), {\n"},
    ALL_OF_IT,
    "what is in a library is thought to be one's own",
    "a call of gpulab, which can form such groups, loses the points",
)


@alternative("mesh_plan")
def by_itertools(model, cluster):
    from fractions import Fraction
    from itertools import product

    world = cluster["nodes"] * cluster["gpus"]
    best = None
    for pp, tp in product(range(1, world + 1), repeat=2):
        if world % (pp * tp):
            continue
        dp = world // (pp * tp)
        if cluster["gpus"] % tp or model["heads"] % tp or model["layers"] % pp or model["batch"] % dp:
            continue
        m, layers = model["batch"] // dp, model["layers"] // pp
        held = Fraction(model["state_bytes"] * model["parameters"], pp * tp)
        held += Fraction(min(m, pp) * layers * model["activation_bytes"], tp)
        if held > cluster["memory"]:
            continue
        stage = layers * (Fraction(model["layer_us"], tp) + Fraction(8 * (tp - 1), tp) * model["layer_bytes"] / cluster["link"])
        step = (m + pp - 1) * stage + Fraction(4 * (dp - 1), dp) * model["parameters"] / (pp * tp) / cluster["network"]
        if best is None or step < best[0]:
            best = step, dp, pp, tp
    if best is None:
        raise ValueError("nothing fits")
    _, dp, pp, tp = best
    place = {(d * pp + p) * tp + t: (d, p, t) for d in range(dp) for p in range(pp) for t in range(tp)}

    def groups(axis):
        found = {}
        for rank, where in sorted(place.items()):
            found.setdefault(where[:axis] + where[axis + 1 :], []).append(rank)
        return sorted(found.values())

    return (dp, pp, tp), {name: groups(axis) for axis, name in enumerate(("dp", "pp", "tp"))}


@alternative("mesh_plan")
def groups_by_torch(model, cluster):
    def options():
        for tp in range(1, cluster["gpus"] + 1):
            if cluster["gpus"] % tp or model["heads"] % tp:
                continue
            slots = cluster["nodes"] * cluster["gpus"] // tp
            for pp in range(1, slots + 1):
                if slots % pp == 0 and model["layers"] % pp == 0 and model["batch"] % (slots // pp) == 0:
                    yield slots // pp, pp, tp

    def cost(plan):
        dp, pp, tp = plan
        m = model["batch"] // dp
        layer = model["layer_us"] / tp + 8 * (1 - 1 / tp) * model["layer_bytes"] / cluster["link"]
        return (m - 1 + pp) * layer * model["layers"] / pp + 4 * (1 - 1 / dp) * model["parameters"] / pp / tp / cluster["network"]

    def fits(plan):
        dp, pp, tp = plan
        flight = pp if pp < model["batch"] // dp else model["batch"] // dp
        need = model["state_bytes"] * model["parameters"] + flight * model["layers"] * model["activation_bytes"]
        return need <= cluster["memory"] * pp * tp

    good = sorted(filter(fits, options()), key=cost)
    if len(good) == 0:
        raise ValueError("no plan")
    dp, pp, tp = good[0]
    ranks = torch.arange(dp * pp * tp).view(dp, pp, tp)
    return good[0], {
        "dp": ranks.permute(1, 2, 0).reshape(-1, dp).tolist(),
        "pp": ranks.permute(0, 2, 1).reshape(-1, pp).tolist(),
        "tp": ranks.reshape(-1, tp).tolist(),
    }


@alternative("mesh_plan")
def groups_by_numpy(model, cluster):
    import numpy as np

    gpus = cluster["nodes"] * cluster["gpus"]
    table = []
    for tp in range(1, gpus + 1):
        for pp in range(1, gpus + 1):
            if gpus % (tp * pp):
                continue
            dp = gpus // (tp * pp)
            checks = [cluster["gpus"] % tp == 0, model["heads"] % tp == 0, model["layers"] % pp == 0, model["batch"] % dp == 0]
            if not all(checks):
                continue
            micro = model["batch"] // dp
            activations = min(micro, pp) * (model["layers"] // pp) * model["activation_bytes"] / tp
            if activations + model["state_bytes"] * model["parameters"] / (pp * tp) > cluster["memory"]:
                continue
            sums = 4 * 2 * (tp - 1) / tp * model["layer_bytes"] / cluster["link"]
            seconds = (micro + pp - 1) * (model["layers"] // pp) * (model["layer_us"] / tp + sums)
            seconds += 2 * (dp - 1) / dp * 2 * (model["parameters"] / (pp * tp)) / cluster["network"]
            table.append((seconds, (dp, pp, tp)))
    if not table:
        raise ValueError("this model does not fit into this cluster")
    plan = min(table)[1]
    grid = np.arange(gpus).reshape(plan)
    return plan, {name: np.moveaxis(grid, axis, -1).reshape(-1, plan[axis]).tolist() for axis, name in enumerate(["dp", "pp", "tp"])}


@alternative("mesh_plan")
def as_a_recursion(model, cluster):
    world, found = cluster["nodes"] * cluster["gpus"], []

    def visit(sizes, left):
        if len(sizes) == 2:
            found.append((left, *sizes))
            return
        for size in range(1, left + 1):
            if left % size == 0:
                visit([*sizes, size], left // size)

    visit([], world)
    rules = [
        lambda dp, pp, tp: cluster["gpus"] % tp == 0,
        lambda dp, pp, tp: model["heads"] % tp == 0,
        lambda dp, pp, tp: model["layers"] % pp == 0,
        lambda dp, pp, tp: model["batch"] % dp == 0,
        lambda dp, pp, tp: model["parameters"] * model["state_bytes"]
        + model["layers"] * model["activation_bytes"] * min(pp, model["batch"] // dp)
        <= cluster["memory"] * tp * pp,
    ]
    left = [plan for plan in found if all(rule(*plan) for rule in rules)]
    times = {}
    for dp, pp, tp in left:
        one = model["layer_us"] / tp + 8 * (tp - 1) * model["layer_bytes"] / tp / cluster["link"]
        stage = one * model["layers"] / pp
        share = model["parameters"] / pp / tp
        times[dp, pp, tp] = stage * model["batch"] / dp + stage * (pp - 1) + 4 * share * (dp - 1) / dp / cluster["network"]
    if not times:
        raise ValueError(str(model))
    dp, pp, tp = sorted(times, key=times.get)[0]

    def rank(d, p, t):
        return t + tp * (p + pp * d)

    return (dp, pp, tp), {
        "dp": [[rank(d, p, t) for d in range(dp)] for p in range(pp) for t in range(tp)],
        "pp": [[rank(d, p, t) for p in range(pp)] for d in range(dp) for t in range(tp)],
        "tp": [[rank(d, p, t) for t in range(tp)] for d in range(dp) for p in range(pp)],
    }


free_to_use = unbreakable("mesh_plan", "PyTorch and NumPy may help", "it is a permission")
