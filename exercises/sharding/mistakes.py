"""Chapter "Sharded data parallelism: ZeRO and FSDP": wrong solutions, and right ones written another way."""

import torch
import torch.distributed as dist

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E15.1 zero_adam

ALL_LOST = ("values", "crossing", "uneven", "state", "unused", "errors")

TRAINED = "[parameter for parameter in parameters if parameter.requires_grad]"
NUMBERS = "lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas)"
TWO_DTYPES = "len({parameter.dtype for parameter in trained}) > 1"
PADDING = "padding = -sum(sizes) % world"
NO_ELEMENTS = "    if share == 0:\n        return lambda: None\n"
MOMENTS = "first, second, steps = trained[0].new_zeros(share), trained[0].new_zeros(share), 0"
FLAT = "torch.cat([tensor.reshape(-1) for tensor in tensors] + [first.new_zeros(padding)])"
NO_GRAD = "    @torch.no_grad()\n"
COUNTED = "        nonlocal steps\n        steps += 1\n"
ROOM = "        mean = torch.empty_like(first)\n"
GRADIENTS = "[torch.zeros_like(p) if p.grad is None else p.grad for p in trained]"
SCATTERED = f"        dist.reduce_scatter_tensor(mean, flat({GRADIENTS}))\n"
DIVIDED = "        mean /= world\n"
FIRST = "        first.lerp_(mean, 1 - betas[0])\n"
SECOND = "second.mul_(betas[1]).addcmul_(mean, mean, value=1 - betas[1])"
VALUES = "        values = flat(trained)\n"
OWN = "        own = values.chunk(world)[rank].clone()\n"
ROOT = "root = (second / (1 - betas[1] ** steps)).sqrt()"
WITH_EPS = "root + eps"
RATE = "-lr / (1 - betas[0] ** steps)"
GATHERED = "        dist.all_gather_into_tensor(values, own)\n"
TAKEN = "values[: sum(sizes)].split(sizes)"
WRITTEN = "            parameter.copy_(new.view(parameter.shape))\n"


def shared_out(edits, loses, because, breaks):
    return edited("zero_adam", edits, loses=loses, because=because, breaks=breaks)


own_gradients = shared_out(
    {SCATTERED: f"        mean = flat({GRADIENTS}).chunk(world)[rank].clone()\n", DIVIDED: ""},
    ALL_LOST,
    "the ranks' gradients are thought to be averaged by the backward pass",
    "Ranks have gradients of their own batches in `.grad`",
)
a_sum_of_gradients = shared_out(
    {DIVIDED: ""},
    ALL_LOST,
    "a reduce-scatter is thought to average, and Adam hides a factor wherever eps is small",
    "the values that **Adam** gives them with **the mean of all ranks' gradients**",
)
halved_gradients = shared_out(
    {DIVIDED: "        mean /= 2\n"},
    ALL_LOST,
    "it was tried with two ranks",
    "**the mean of all ranks' gradients**",
)
the_largest_gradient = shared_out(
    {f"flat({GRADIENTS}))\n": f"flat({GRADIENTS}), op=dist.ReduceOp.MAX)\n"},
    ALL_LOST,
    "what comes out of a reduction is thought to be a matter of taste",
    "which sums or averages",
)
not_corrected = shared_out(
    {ROOT: "root = second.sqrt()", RATE: "-lr"},
    ALL_LOST,
    "moments are thought to be means from the first step on",
    "Moments begin at 0",
)
counted_for_all = shared_out(
    {
        "trained[0].new_zeros(share), 0\n": "trained[0].new_zeros(share), None\n",
        COUNTED: "        steps = zero_adam.steps = getattr(zero_adam, 'steps', 0) + 1\n",
    },
    ALL_LOST,
    "there is thought to be one optimizer, with one count of steps",
    "several optimizers may be alive at once, each with parameters, numbers and steps of its own",
)
eps_inside_the_root = shared_out(
    {ROOT: ROOT.replace(".sqrt()", ""), WITH_EPS: "(root + eps).sqrt()"},
    ALL_LOST,
    "eps is thought to keep the root from 0, from inside",
    "(√(v / (1 - beta2^t)) + eps)",
)
eps_before_the_correction = shared_out(
    {ROOT: "root = second.sqrt()", WITH_EPS: "(root + eps) / (1 - betas[1] ** steps) ** 0.5"},
    ALL_LOST,
    "the order of eps and correction is thought to make no difference",
    "(√(v / (1 - beta2^t)) + eps)",
)
decayed = shared_out(
    {OWN: OWN + "        own *= 1 - 0.01 * lr\n"},
    ALL_LOST,
    "Adam is thought to be AdamW with its decay",
    "So `torch.optim.Adam` has it",
)
eps_of_another_library = shared_out(
    {"eps=1e-8": "eps=1e-7"},
    ALL_LOST,
    "every library is thought to have the same defaults",
    "So `torch.optim.Adam` has it",
)
moments_of_eight_bits = shared_out(
    {
        MOMENTS: "first, second, steps = torch.zeros(share, dtype=torch.bfloat16), torch.zeros(share, dtype=torch.bfloat16), 0",
        "torch.empty_like(first)": "torch.empty(share, dtype=trained[0].dtype)",
        "[first.new_zeros(padding)]": "[trained[0].new_zeros(padding)]",
        FIRST: "        first.copy_(first.to(mean.dtype).lerp(mean, 1 - betas[0]))\n",
        SECOND: "second.copy_(second.to(mean.dtype).mul(betas[1]).addcmul(mean, mean, value=1 - betas[1]))",
    },
    ALL_LOST,
    "moments are thought to be as good with eight bits",
    "this is computed in the parameters' dtype, and may be wrong by rounding",
)
always_single = shared_out(
    {FLAT: FLAT + ".float()", "first, second, steps = trained[0].new_zeros(share), trained[0].new_zeros(share), 0": "first, second, steps = torch.zeros(share), torch.zeros(share), 0"},
    ALL_LOST,
    "weights are thought to be float32",
    "They have one dtype, `float32` or `float64`",
)
weights_of_its_own = shared_out(
    {MOMENTS: MOMENTS + "\n    kept = None", "        nonlocal steps\n": "        nonlocal steps, kept\n",
     OWN: "        own = kept = values.chunk(world)[rank].clone() if kept is None else kept\n"},
    ALL_LOST,
    "the share's weights are kept once more, as mixed precision does, and nobody else is thought to write to them",
    "p is the value that a parameter has when `step` is called: someone may have written to it since the last step",
)
weights_kept_and_renewed = shared_out(
    {MOMENTS: MOMENTS + "\n    kept = None", "        nonlocal steps\n": "        nonlocal steps, kept\n", OWN: OWN + "        kept = own\n"},
    ("state",),
    "what a step needs is thought to be cheaper to keep than to copy again",
    "It keeps no moments of another's share, no weights, no gradients",
)
new_tensors = shared_out(
    {WRITTEN: "            parameter.data = new.view(parameter.shape).clone()\n"},
    tuple(name for name in ALL_LOST if name != "crossing"),
    "a parameter is thought to be its name, not its memory",
    "new values are written **in place**",
)
into_a_copy = shared_out(
    {WRITTEN: "            parameter.reshape(-1).copy_(new)\n"},
    ALL_LOST,
    "reshape is thought to be a view",
    "an iterable of parameters of any shapes and strides",
)
as_they_lie_in_memory = shared_out(
    {
        FLAT: "torch.cat([in_memory(tensor) for tensor in tensors] + [first.new_zeros(padding)])",
        "    def flat(tensors):\n": "    def in_memory(x):\n        order = sorted(range(x.ndim), key=x.stride, reverse=True)\n        return x.permute(order).reshape(-1)\n\n    def flat(tensors):\n",
        WRITTEN: "            order = sorted(range(parameter.ndim), key=parameter.stride, reverse=True)\n            place = parameter.permute(order)\n            place.copy_(new.view(place.shape))\n",
    },
    ALL_LOST,
    "elements are thought to stand as they lie in memory, in gradients as in weights",
    "each parameter's in row-major order",
)
last_parameter_first = shared_out(
    {TRAINED: TRAINED + "[::-1]"},
    ("crossing", "uneven"),
    "the sequence is thought to be that of the backward pass",
    "the elements of the trained parameters, in the order of `parameters`",
)
padding_first = shared_out(
    {FLAT: "torch.cat([first.new_zeros(padding)] + [tensor.reshape(-1) for tensor in tensors])", TAKEN: "values[padding:].split(sizes)"},
    ("crossing", "uneven"),
    "padding is thought to be as good in front",
    "It is padded at its end with fewer than n elements",
)
a_whole_row_of_padding = shared_out(
    {PADDING: "padding = world - sum(sizes) % world"},
    ("crossing", "unused"),
    "what the ranks divide is thought to need padding too",
    "so that n divides its length",
)
every_parameter_padded = shared_out(
    {
        PADDING: "padding = 0",
        "share = (sum(sizes) + padding) // world": "filled = [size + -size % world for size in sizes]\n    share = sum(filled) // world",
        FLAT: "torch.cat([torch.cat([tensor.reshape(-1), first.new_zeros(-tensor.numel() % world)]) for tensor in tensors])",
        TAKEN: "values.split(filled)",
        WRITTEN: "            parameter.copy_(new[: parameter.numel()].view(parameter.shape))\n",
    },
    ("crossing", "uneven"),
    "each parameter is thought to be padded and shared out for itself",
    "are one sequence",
)
padding_into_parameters = shared_out(
    {TAKEN: "values[padding:].split(sizes)"},
    ALL_LOST,
    "the gathered tensor is thought to end with the last parameter",
    "it reaches no parameter",
)
the_rest_is_left = shared_out(
    {
        "(sum(sizes) + padding) // world": "sum(sizes) // world",
        FLAT: "torch.cat([tensor.reshape(-1) for tensor in tensors])[: share * world]",
        TAKEN: "torch.cat([values, torch.cat([p.reshape(-1) for p in trained])[share * world :]]).split(sizes)",
    },
    ALL_LOST,
    "elements are thought to be divided by the ranks without a rest",
    "cut into n equal parts",
)
too_few_to_share = shared_out(
    {NO_ELEMENTS: "    if share == 0 or sum(sizes) < world:\n        return lambda: None\n"},
    ("crossing", "uneven"),
    "what is smaller than the number of ranks is thought not to need a share",
    "There may be fewer elements than ranks",
)
mirrored_shares = shared_out(
    {
        f"flat({GRADIENTS}))\n": f"flat({GRADIENTS}).view(world, -1).flip(0).reshape(-1))\n",
        "values.chunk(world)[rank]": "values.chunk(world)[world - 1 - rank]",
        GATHERED: GATHERED + "        values = values.view(world, -1).flip(0).reshape(-1)\n",
    },
    ("crossing", "uneven"),
    "which share is whose is thought to be free as long as all agree",
    "Rank r's share is part r",
)
everyone_steps_all = shared_out(
    {
        "trained[0].new_zeros(share), trained[0].new_zeros(share), 0": "trained[0].new_zeros(share * world), trained[0].new_zeros(share * world), 0",
        ROOM: "        mean = torch.empty(share, dtype=first.dtype)\n        all_means = torch.empty_like(first)\n",
        DIVIDED: DIVIDED + "        dist.all_gather_into_tensor(all_means, mean)\n        mean = all_means\n",
        OWN: "        own = values\n",
        GATHERED: "",
    },
    ("crossing", "uneven", "state"),
    "the halves of an all-reduce are put together again, and every rank makes the whole step",
    "then **one all-gather** of the shares' new values",
)
a_slice_of_everything = shared_out(
    {MOMENTS: "first, second, steps = trained[0].new_zeros(share * world).chunk(world)[rank], trained[0].new_zeros(share * world).chunk(world)[rank], 0"},
    ("state",),
    "a slice is thought to let go of the rest",
    "a rank holds two moments of its own share",
)
moments_of_eight_bytes = shared_out(
    {
        MOMENTS: "first, second, steps = torch.zeros(share, dtype=torch.float64), torch.zeros(share, dtype=torch.float64), 0",
        "torch.empty_like(first)": "torch.empty(share, dtype=trained[0].dtype)",
        "[first.new_zeros(padding)]": "[trained[0].new_zeros(padding)]",
        FIRST: "        first.lerp_(mean.double(), 1 - betas[0])\n",
        SECOND: "second.mul_(betas[1]).addcmul_(mean.double(), mean.double(), value=1 - betas[1])",
        "own.addcdiv_(first, root + eps": "own.addcdiv_(first.to(own.dtype), root.to(own.dtype) + eps",
    },
    ("state",),
    "moments are thought to need more digits than weights",
    "a rank holds two moments of its own share",
)
moments_out_of_sight = shared_out(
    {
        MOMENTS: "held, steps = trained[0].new_zeros(2, share).numpy().copy(), 0",
        "first.new_zeros(padding)": "trained[0].new_zeros(padding)",
        COUNTED: COUNTED + "        first, second = torch.from_numpy(held)\n",
    },
    ("state",),
    "what is in a NumPy array is thought to be no memory",
    "two moments of its own share, in tensors",
)
the_mean_is_kept_for_good = shared_out(
    {MOMENTS: MOMENTS + "\n    buffer = torch.empty_like(first)", ROOM: "        mean = buffer\n"},
    ("state",),
    "a buffer that is made once is thought to cost nothing",
    "no weights, no gradients",
)
gradients_are_kept = shared_out(
    {"    return step": "    step.gradients = None\n    return step",
     SCATTERED: f"        step.gradients = flat({GRADIENTS})\n        dist.reduce_scatter_tensor(mean, step.gradients)\n"},
    ("state",),
    "a flat tensor is thought to be gone when the next one is made",
    "after the call, and after each step",
)
an_all_reduce = shared_out(
    {SCATTERED: f"        mean = flat({GRADIENTS})\n        dist.all_reduce(mean)\n        mean = mean.chunk(world)[rank]\n", ROOM: ""},
    ("crossing", "uneven"),
    "gradients are thought to be all-reduced, whoever needs them",
    "**one reduce-scatter** of all padded gradients",
)
an_all_reduce_beside = shared_out(
    {DIVIDED: DIVIDED + "        norm = mean.square().sum()\n        dist.all_reduce(norm)\n"},
    ("crossing",),
    "the norm of all gradients is thought to be free",
    "Nothing else crosses in a step",
)
weights_compared = shared_out(
    {MOMENTS: MOMENTS + "\n    dist.all_reduce(torch.tensor(share))"},
    ("crossing",),
    "ranks are thought to have to agree on sizes first",
    "and nothing in the call",
)
in_double = shared_out(
    {SCATTERED: f"        wide = torch.empty(share, dtype=torch.float64)\n        dist.reduce_scatter_tensor(wide, flat({GRADIENTS}).double())\n        mean.copy_(wide)\n"},
    ("crossing", "uneven"),
    "a sum over ranks is thought to need more digits than its parts",
    "in the default process group and in the parameters' dtype",
)
updates_gathered = shared_out(
    {
        OWN: "        own = torch.zeros_like(first)\n",
        GATHERED: "        updates = torch.empty_like(values)\n        dist.all_gather_into_tensor(updates, own)\n        values += updates\n",
    },
    ("crossing", "uneven"),
    "what a step adds is thought to be what the others need",
    "of the shares' new values",
)
only_who_has_some = shared_out(
    {GRADIENTS: "[p.grad for p in trained if p.grad is not None] + [torch.zeros_like(p) for p in trained if p.grad is None]"},
    ("crossing", "unused"),
    "gradients that are not there are thought to leave no gap",
    "a gradient that is `None` in a rank **counts as zeros** there",
)
stands_still = shared_out(
    {WRITTEN: "            if parameter.grad is not None:\n    " + WRITTEN},
    ("crossing", "unused"),
    "a parameter without a gradient is thought to stay where it is",
    "the moments go on, and the parameter moves with them",
)
no_step_at_all = shared_out(
    {COUNTED: "        nonlocal steps\n        if all(p.grad is None for p in trained):\n            return\n        steps += 1\n"},
    ("crossing", "unused"),
    "a rank without gradients is thought to have nothing to do",
    "So it does where it is `None` in all ranks",
)
the_mean_in_grad = shared_out(
    {WRITTEN: WRITTEN + "            if parameter.grad is not None:\n                parameter.grad /= world\n"},
    ("unused",),
    "gradients are thought to be divided where they are",
    "the same tensor with the same values, or `None`",
)
zeroed = shared_out(
    {WRITTEN: WRITTEN + "            parameter.grad = None\n"},
    ("unused",),
    "a step is thought to be the end of its gradients",
    "`.grad` stays as it is",
)
zeros_put_there = shared_out(
    {GRADIENTS: "[p.grad for p in trained]", COUNTED: COUNTED + "        for p in trained:\n            p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n"},
    ("unused",),
    "zeros are thought to be the same as no gradient afterwards, too",
    "or `None`",
)
frozen_ones_too = shared_out(
    {TRAINED: "list(parameters)"},
    ("crossing", "unused"),
    "every parameter is thought to be trained",
    "those of them that require gradients at that time are **trained**",
)
frozen_floats_too = shared_out(
    {TRAINED: "[parameter for parameter in parameters if parameter.is_floating_point()]"},
    ("crossing",),
    "a weight that gets no gradient is thought to do no harm in a share",
    "frozen parameters belong to no share and stay as they are",
)
frozen_as_it_goes = shared_out(
    {COUNTED: COUNTED + "        trained[:] = [p for p in trained if p.requires_grad]\n        sizes[:] = [p.numel() for p in trained]\n"},
    ("crossing", "unused"),
    "a parameter is thought to be frozen from the moment at which someone freezes it",
    "whatever becomes of `requires_grad` later",
)
all_dtypes_count = shared_out(
    {TRAINED: "list(parameters)", TWO_DTYPES: TWO_DTYPES.replace("trained", "trained"),
     "    sizes = [": "    trained = [parameter for parameter in trained if parameter.requires_grad]\n    sizes = ["},
    ("crossing", "unused"),
    "a frozen parameter's dtype is thought to matter",
    "The others are **frozen** and have any dtype",
)
nothing_is_refused = shared_out(
    {NO_ELEMENTS: "    if share == 0:\n        raise ValueError('nothing is trained')\n"},
    ("crossing", "unused"),
    "an optimizer of nothing is thought to be a mistake, as torch.optim has it",
    "Where no elements are trained, a step does nothing",
)
nothing_crosses_all_the_same = shared_out(
    {NO_ELEMENTS: "    if share == 0:\n        return lambda: dist.all_gather_into_tensor(torch.empty(0), torch.empty(0))\n"},
    ("crossing",),
    "ranks are thought to have to meet in every step",
    "and nothing crosses",
)
gone_through_twice = shared_out(
    {"    if lr < 0": "    if not len({parameter.dtype for parameter in parameters}) and not trained:\n        return lambda: None\n    if lr < 0",
     TRAINED: "(parameter for parameter in parameters if parameter.requires_grad)",
     "    sizes = [": "    trained = list(trained)\n    sizes = ["},
    ALL_LOST,
    "an iterable is thought to be a list",
    "which is gone through once, inside the call",
)
betas_unchecked = shared_out(
    {NUMBERS: "lr < 0 or eps < 0"},
    ("errors",),
    "a beta is thought to be right wherever it comes from",
    "for a beta less than 0 or not less than 1",
)
one_is_a_beta = shared_out(
    {"0 <= beta < 1": "0 <= beta <= 1"},
    ("errors",),
    "a memory that forgets nothing is thought to be one",
    "a beta less than 0 or not less than 1",
)
dtypes_unchecked = shared_out(
    {TWO_DTYPES: "False"},
    ("errors",),
    "what is concatenated is thought to keep its dtypes",
    "for trained parameters of two dtypes",
)
zero_is_refused = shared_out(
    {NUMBERS: "lr <= 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas)"},
    ALL_LOST,
    "a step of length 0 is thought to be a mistake",
    "`lr`, `eps` and a beta may be 0",
)


an_object = shared_out(
    {"    return step": "    return type('ZeroAdam', (), {'step': staticmethod(step)})()"},
    ALL_LOST,
    "what makes steps is thought to be an optimizer, whose method is called",
    "it returns a function `step` without arguments",
)
moments_of_each_step = shared_out(
    {COUNTED: COUNTED + "        first.zero_(), second.zero_()\n"},
    ALL_LOST,
    "moments are thought to be of the step, like gradients",
    "Many steps follow each other",
)


@mistake(
    "zero_adam",
    loses=("crossing", "uneven", "state"),
    because="a share is thought to be a number of tensors, dealt out one after another",
    breaks="cut into n equal parts",
)
def tensors_dealt_out(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    trained = [p for p in parameters if p.requires_grad]
    if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas) or len({p.dtype for p in trained}) > 1:
        raise ValueError("not for Adam")
    world, rank = dist.get_world_size(), dist.get_rank()
    moments = {i: [torch.zeros(p.shape, dtype=p.dtype) for _ in range(2)] for i, p in enumerate(trained) if i % world == rank}
    t = 0

    @torch.no_grad()
    def step():
        nonlocal t
        t += 1
        for i, p in enumerate(trained):
            mean = torch.zeros(p.shape, dtype=p.dtype) if p.grad is None else p.grad.clone(memory_format=torch.contiguous_format)
            dist.reduce(mean, i % world)
            new = p.clone(memory_format=torch.contiguous_format)
            if i in moments:
                mean /= world
                m, v = moments[i]
                m.lerp_(mean, 1 - betas[0])
                v.lerp_(mean * mean, 1 - betas[1])
                new -= lr * m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)
            dist.broadcast(new, i % world)
            p.copy_(new)

    return step


@mistake(
    "zero_adam",
    loses=("crossing", "uneven"),
    because="a collective is thought to take one tensor of a model at a time",
    breaks="**one reduce-scatter** of all padded gradients",
)
def a_collective_for_each(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    trained = [p for p in parameters if p.requires_grad]
    if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas) or len({p.dtype for p in trained}) > 1:
        raise ValueError("not for Adam")
    world, rank, t = dist.get_world_size(), dist.get_rank(), 0
    state = [[p.new_zeros(-(-p.numel() // world)) for _ in range(2)] for p in trained]

    def padded(x):
        return torch.cat([x.reshape(-1), x.new_zeros(-x.numel() % world)])

    @torch.no_grad()
    def step():
        nonlocal t
        t += 1
        for p, (m, v) in zip(trained, state):
            mean, values = torch.empty_like(m), padded(p)
            dist.reduce_scatter_tensor(mean, padded(torch.zeros_like(p) if p.grad is None else p.grad))
            mean /= world
            m.lerp_(mean, 1 - betas[0])
            v.lerp_(mean * mean, 1 - betas[1])
            own = values.chunk(world)[rank] if len(m) else values
            own = own - lr * m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)
            dist.all_gather_into_tensor(values, own)
            p.copy_(values[: p.numel()].view(p.shape))

    return step


@mistake(
    "zero_adam",
    loses=("errors",),
    because="numbers are thought to be looked at when they are needed",
    breaks="the call raises `ValueError`",
)
def refused_in_the_step(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    trained = [p for p in parameters if p.requires_grad]
    total, world, rank = sum(p.numel() for p in trained), dist.get_world_size(), dist.get_rank()
    share, state = -(-total // world), []

    @torch.no_grad()
    def step():
        if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas) or len({p.dtype for p in trained}) > 1:
            raise ValueError("not for Adam")
        if not total:
            return
        if not state:
            state.extend([trained[0].new_zeros(share), trained[0].new_zeros(share), 0])
        m, v = state[:2]
        t = state[2] = state[2] + 1
        gradient, values = m.new_zeros(share * world), m.new_zeros(share * world)
        torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in trained], out=gradient[:total])
        torch.cat([p.flatten() for p in trained], out=values[:total])
        mean = torch.empty_like(m)
        dist.reduce_scatter_tensor(mean, gradient / world)
        m.lerp_(mean, 1 - betas[0])
        v.lerp_(mean * mean, 1 - betas[1])
        own = values[rank * share :][:share] - lr * m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)
        dist.all_gather_into_tensor(values, own)
        for p, new in zip(trained, values[:total].split([p.numel() for p in trained])):
            p.copy_(new.view(p.shape))

    return step


float32_where_all_are_none = shared_out(
    {SCATTERED: f"        none = all(p.grad is None for p in trained)\n        given = torch.zeros(share * world) if none else flat({GRADIENTS})\n        dist.reduce_scatter_tensor(mean, given)\n"},
    ("crossing", "unused"),
    "zeros are thought to have no dtype",
    "is `None` in a rank **counts as zeros** there",
)
a_lone_gradient_is_divided = shared_out(
    {
        SCATTERED: f"        given = {GRADIENTS}\n        given = given[0].reshape(-1) if len(trained) == 1 and not padding else flat(given)\n        given /= world\n        dist.reduce_scatter_tensor(mean, given)\n",
        DIVIDED: "",
    },
    ("unused",),
    "reshape is thought to copy",
    "`.grad` stays as it is",
)
collectives_of_nothing = shared_out(
    {NO_ELEMENTS: "    if not trained:\n        return lambda: None\n"},
    ("crossing",),
    "a parameter without elements is thought to be an element",
    "Where no elements are trained, a step does nothing, and nothing crosses",
)

@alternative("zero_adam")
def by_torchs_own_adam(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    trained = [p for p in parameters if p.requires_grad]
    if len({p.dtype for p in trained}) > 1:
        raise ValueError("a flat tensor has one dtype")
    mine = torch.nn.Parameter(torch.empty(0, dtype=trained[0].dtype if trained else torch.float32))
    adam = torch.optim.Adam([mine], lr=lr, betas=tuple(map(float, betas)), eps=eps)
    world, rank = dist.get_world_size(), dist.get_rank()

    def parts(tensors):
        flat = torch.nn.utils.parameters_to_vector([tensor.detach().reshape(-1) for tensor in tensors])
        return list(torch.nn.functional.pad(flat, (0, -len(flat) % world)).chunk(world))

    def step():
        if sum(p.numel() for p in trained) == 0:
            return
        grads = parts([torch.zeros_like(p) if p.grad is None else p.grad for p in trained])
        mine.grad = None
        mine.data = parts(trained)[rank].clone()
        mine.grad = torch.empty_like(mine)
        dist.reduce_scatter(mine.grad, grads, op=dist.ReduceOp.AVG)
        adam.step()
        new = [torch.empty_like(mine.data) for _ in range(world)]
        dist.all_gather(new, mine.data)
        whole, at = torch.cat(new), 0
        for p in trained:
            p.data.copy_(whole[at : at + p.numel()].view_as(p))
            at += p.numel()
        mine.grad, mine.data = None, torch.empty(0, dtype=mine.dtype)

    return step


@alternative("zero_adam")
def piece_by_piece(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    class Sharded:
        """Copies nothing but what it hands in and what it gets: weights of its share are read where they are."""

        def __init__(self):
            self.trained = [p.detach() for p in kept]
            self.world, self.rank, self.t = dist.get_world_size(), dist.get_rank(), 0
            self.total = sum(p.numel() for p in kept)
            self.share = (self.total + self.world - 1) // self.world
            self.moments = None

        def __call__(self):
            if self.total == 0:
                return
            self.t += 1
            handed = torch.full((self.share * self.world,), 7.0, dtype=kept[0].dtype)
            at = 0
            for p in kept:
                piece = handed[at : at + p.numel()].view(p.shape)
                piece.zero_() if p.grad is None else piece.copy_(p.grad)
                at += p.numel()
            mean = torch.empty(self.share, dtype=kept[0].dtype)
            dist.reduce_scatter_tensor(mean, handed.div_(self.world), async_op=True).wait()
            if self.moments is None:
                self.moments = torch.zeros(2, self.share, dtype=mean.dtype)
            for moment, beta, new in zip(self.moments, betas, (mean, mean**2)):
                moment *= beta
                moment += (1 - beta) * new
            m, v = (moment / (1 - beta**self.t) for moment, beta in zip(self.moments, betas))
            dist.all_gather_into_tensor(handed, self.own_weights() - lr * m / (v**0.5 + eps))
            at = 0
            for p in self.trained:
                p[...] = handed[at : at + p.numel()].view(p.shape)
                at += p.numel()

        def own_weights(self):
            own, at = torch.ones(self.share, dtype=kept[0].dtype), -self.rank * self.share
            for p in self.trained:
                low, high = max(0, at), min(self.share, at + p.numel())
                if low < high:
                    own[low:high] = p.flatten()[low - at : high - at]
                at += p.numel()
            return own

    kept = [p for p in parameters if p.requires_grad]
    wrong = lr < 0 or eps < 0 or min(betas) < 0 or max(betas) >= 1
    if wrong or any(p.dtype != kept[0].dtype for p in kept):
        raise ValueError("these are no numbers for Adam")
    return Sharded()


of_any_parameters_dtype = [
    equivalent_mutant("zero_adam", MOMENTS, MOMENTS.replace("steps = trained[0]", "steps = trained[(-1)]"), "all trained parameters have one dtype"),
    equivalent_mutant("zero_adam", MOMENTS, MOMENTS.replace(", trained[0]", ", trained[(-1)]"), "all trained parameters have one dtype"),
]
zero_adam_unbroken = [
    unbreakable("zero_adam", "`lr`, `eps` and the two `betas` are numbers, the same in all ranks", "it says what the caller gives"),
    unbreakable("zero_adam", "All ranks have the same ones, with the same values", "it says what the caller gives"),
    unbreakable("zero_adam", "what the padding holds is up to you", "it is a permission"),
    unbreakable("zero_adam", "Gradients may be divided by n before or after", "it is a permission"),
    unbreakable("zero_adam", "One rank alone may leave both out", "it is a permission"),
]

# E15.2 mini_fsdp

FSDP_ALL = ("shards", "gradients", "gathers", "scattered", "memory", "between", "evaluation", "errors")
FSDP_HELD = ("memory", "between")

FSDP_FREE = "        def free():\n            storage.resize_(0)\n"
FSDP_GATHER = "            dist.all_gather_into_tensor(whole, part.detach())\n"
FSDP_AFTER_FORWARD = "            free()\n            if output.requires_grad:\n                output.register_hook(gather)\n"
FSDP_REDUCE = "dist.reduce_scatter_tensor(mean, flattened([p.grad for p in parameters]), op=dist.ReduceOp.AVG)"
FSDP_GRAD = "part.grad = mean if part.grad is None else part.grad + mean"
FSDP_FORGET = "            for p in parameters:\n                p.grad = None\n"
FSDP_PRE_HOOK = "        unit.register_forward_pre_hook(gather)\n"
FSDP_PART = "whole.chunk(world)[rank].clone()"
FSDP_UNITS = "    units = [(unit, list(unit.parameters())) for unit in model]\n"
FSDP_RETURN = "    return [sharded(unit, parameters) for unit, parameters in units if parameters]"


def fsdp(edits, loses, because, breaks):
    return edited("mini_fsdp", edits, loses=loses, because=because, breaks=breaks)


never_freed = fsdp(
    {FSDP_FREE: "        def free():\n            pass\n"},
    ("memory", "between", "evaluation"),
    "what is gathered again is thought to need no freeing",
    "in its turn, and freed behind it",
)
freed_after_the_whole_forward_pass = fsdp(
    {
        FSDP_AFTER_FORWARD: "            if output.requires_grad:\n                output.register_hook(gather)\n",
        "        free()\n        unit.register": "        free()\n        model.register_forward_hook(lambda *_: free())\n        unit.register",
    },
    ("memory", "evaluation"),
    "the forward pass is thought to be one piece, after which everything is freed",
    "by **one all-gather** to which each rank hands in its part, and freed behind it",
)
not_gathered_again = fsdp(
    {FSDP_AFTER_FORWARD: "            if not output.requires_grad:\n                free()\n"},
    ("gathers", "memory", "evaluation"),
    "what the backward pass needs is thought to be kept from the forward pass",
    "it is **gathered once more**",
)
last_unit_kept = fsdp(
    {FSDP_AFTER_FORWARD: "            if unit is model[-1] and output.requires_grad:\n                return\n" + FSDP_AFTER_FORWARD},
    ("gathers", "evaluation"),
    "the unit whose turn comes again at once is thought to be worth keeping",
    "the last unit too",
)
freed_by_pointing_elsewhere = fsdp(
    {
        FSDP_FREE: "        def free():\n            for p in parameters:\n                p.data = p.new_empty(0)\n",
        "            storage.resize_(nbytes)\n": "            whole = torch.empty(part.numel() * world, device=part.device)\n",
        FSDP_GATHER: FSDP_GATHER + "            for p, shape, values in zip(parameters, shapes, whole.split([*sizes, padding])):\n                p.data = values.view(shape)\n",
        "        storage, nbytes, awaited = whole.untyped_storage(), whole.nbytes, set(parameters)\n": (
            "        awaited, shapes = set(parameters), [p.shape for p in parameters]\n        del whole, p, values\n"
        ),
    },
    ("memory", "evaluation"),
    "a graph is thought to have saved the parameter, and not its memory",
    "**at most two units are whole at once**",
)
all_gathered_at_once = fsdp(
    {FSDP_PRE_HOOK: "        model.register_forward_pre_hook(gather)\n"},
    ("gathers", "memory", "evaluation"),
    "a pass is thought to begin with all of its parameters",
    "a unit is gathered in its turn",
)
all_gathered_at_once_backward = fsdp(
    {
        FSDP_AFTER_FORWARD: "            free()\n            if output.requires_grad and unit is model[-1]:\n                output.register_hook(lambda _: ([again() for again in gathers], None)[1])\n",
        "        free()\n        unit.register": "        gathers.append(gather)\n        free()\n        unit.register",
        FSDP_UNITS: "    gathers = []\n" + FSDP_UNITS,
    },
    ("gathers", "memory", "evaluation"),
    "the backward pass is thought to begin with all of its parameters",
    "Unit i is gathered after unit i - 2 has begun",
)
two_ahead = fsdp(
    {
        FSDP_PRE_HOOK: "        gathers.append(gather)\n        unit.register_forward_pre_hook(lambda *_, i=len(gathers) - 1: ([again() for again in gathers[i and i + 2 : i + 3]], None)[1])\n",
        FSDP_UNITS: "    gathers = []\n" + FSDP_UNITS,
    },
    ("gathers", "memory", "evaluation"),
    "the earlier a unit is gathered the better, whatever it takes",
    "Whenever a unit's forward begins, the card holds, beside parts, their gradients and activations, no more than twice the bytes",
)
all_reduced = fsdp(
    {FSDP_REDUCE: "mean = flattened([p.grad for p in parameters]) / world\n            dist.all_reduce(mean)\n            mean = mean.chunk(world)[rank].clone()"},
    ("scattered",),
    "gradients are thought to be all-reduced whoever needs them",
    "its gradients cross in **one reduce-scatter**",
)
reduced_at_the_end = fsdp(
    {
        "            free()\n            mean = torch": "            free()\n            if len(late) == 0:\n                torch.autograd.Variable._execution_engine.queue_callback(lambda: ([f() for f in late], late.clear()))\n            late.append(reduce)\n\n        def reduce():\n            mean = torch",
        FSDP_UNITS: "    late = []\n" + FSDP_UNITS,
    },
    ("scattered", "memory"),
    "gradients are thought to be reduced when all of them are there",
    "the gradients of unit i are reduced before the backward of unit i + 2 begins",
)
a_sum_over_ranks = fsdp(
    {"dist.ReduceOp.AVG": "dist.ReduceOp.SUM"},
    ("gradients",),
    "a reduce-scatter is thought to average",
    "this rank's part of the **mean over all ranks**",
)
divided_on_both_sides = fsdp(
    {FSDP_GRAD: "mean /= world\n            " + FSDP_GRAD},
    ("gradients",),
    "each side of the mean is thought to have its own division",
    "They may be divided by the number of ranks before or after",
)
of_its_own_batch = fsdp(
    {FSDP_REDUCE: FSDP_REDUCE + "\n            mean = flattened([p.grad for p in parameters]).chunk(world)[rank].clone()"},
    ("gradients", "evaluation"),
    "a rank's own gradient is thought to be as good",
    "the **mean over all ranks** of the unit's gradients",
)
written_over = fsdp(
    {FSDP_GRAD: "part.grad = mean"},
    ("gradients",),
    "a backward pass is thought to follow a step",
    "It is **added** to what is there, as always",
)
a_sum_of_its_own = fsdp(
    {FSDP_GRAD: "sums[part] = sums.get(part, 0) + mean\n            part.grad = sums[part]", FSDP_UNITS: "    sums = {}\n" + FSDP_UNITS},
    ("gradients", "memory", "evaluation"),
    "gradients are thought to be zeroed in place, so that a sum of one's own is zeroed with them",
    "`zero_grad()` sets it to `None` or to zeros",
)
full_gradients_stay = fsdp(
    {FSDP_FORGET: "            for p in parameters:\n                p.grad.zero_()\n"},
    ("memory", "between", "evaluation"),
    "a gradient of zeros is thought to be none",
    "whenever a unit's backward begins, four times",
)
gradients_of_two_passes = fsdp(
    {FSDP_FORGET: ""},
    ("gradients", "scattered", "memory", "between", "evaluation"),
    "what was reduced is thought to be gone",
    "there are the parts, their gradients and the buffers",
)
padded_with_ones = fsdp(
    {"tensors[0].new_zeros(padding)": "tensors[0].new_ones(padding)"},
    ("shards", "errors"),
    "what nobody computes with is thought not to matter",
    "**zeros** follow until the number of ranks divides the length",
)
gradients_padded_with_what_is_there = fsdp(
    {FSDP_REDUCE: "full = flattened([p.grad for p in parameters])\n            full[len(full) - padding :] = 1.0\n            dist.reduce_scatter_tensor(mean, full, op=dist.ReduceOp.AVG)"},
    ("shards", "errors"),
    "the norm of all gradients is thought to pass over what belongs to nobody",
    "and zeros behind them",
)
not_padded = fsdp(
    {"-sum(sizes) % world": "0"},
    FSDP_ALL,
    "the number of ranks is thought to divide every unit",
    "**zeros** follow until the number of ranks divides the length",
)
dealt_like_cards = fsdp(
    {FSDP_PART: "whole.view(-1, world)[:, rank].clone()"},
    FSDP_ALL,
    "a part is thought to be any part",
    "rank r has the r-th of equal parts",
)
sorted_by_name = fsdp(
    {FSDP_UNITS: "    units = [(unit, [p for _, p in sorted(unit.named_parameters())]) for unit in model]\n"},
    FSDP_ALL,
    "parameters are thought to stand in a unit as in a sorted list",
    "in the order of `unit.parameters()`",
)
direct_parameters_alone = fsdp(
    {FSDP_UNITS: "    units = [(unit, list(unit.parameters(recurse=False))) for unit in model]\n"},
    FSDP_ALL,
    "a unit is thought to be a layer",
    "modules of any depth that take a tensor and return one",
)
buffers_too = fsdp(
    {FSDP_UNITS: "    units = [(unit, [*unit.parameters(), *map(nn.Parameter, unit.buffers())]) for unit in model]\n"},
    FSDP_ALL,
    "whatever a unit holds is thought to be a parameter",
    "may have buffers, which stay as they are",
)
a_unit_as_it_lies_in_memory = fsdp(
    {"t.reshape(-1) for t in": "t.view(-1) for t in"},
    FSDP_ALL,
    "every parameter is thought to lie in one piece",
    "of any shape and strides",
)
a_part_of_nothing = fsdp(
    {FSDP_RETURN: FSDP_RETURN.replace(" if parameters", "")},
    ("shards", "gradients", "gathers", "scattered", "errors"),
    "every unit is thought to have parameters",
    "A unit may have none",
)
all_in_one = fsdp(
    {FSDP_UNITS: "    units = [(model, list(model.parameters()))]\n"},
    FSDP_ALL,
    "the whole model is thought to be a unit as good as any",
    "one for each unit that has parameters, in order: this rank's **part** of the unit",
)
the_parts_of_the_beginning = fsdp(
    {
        FSDP_GATHER: "            dist.all_gather_into_tensor(whole, first)\n",
        "        storage, nbytes, awaited": "        first = part.detach().clone()\n        storage, nbytes, awaited",
    },
    ("gradients", "gathers", "scattered", "memory", "between", "evaluation"),
    "the part that is gathered and the part that is trained are thought to be one",
    "`model` computes with what the parts hold at the time: any optimizer over the list trains it",
)
a_barrier_between_units = fsdp(
    {FSDP_GATHER: "            dist.barrier()\n" + FSDP_GATHER},
    ("gathers", "evaluation"),
    "a collective is thought to need a barrier before it",
    "nothing else crosses",
)
everyone_begins_with_rank_0s = fsdp(
    {FSDP_RETURN: "    for p in everything:\n        dist.broadcast(p.detach(), 0)\n" + FSDP_RETURN},
    ("gathers", "evaluation"),
    "weights that are alike are thought to have to be made alike",
    "not before the first pass either",
)
as_objects = fsdp(
    {FSDP_GATHER: "            parts = [None] * world\n            dist.all_gather_object(parts, part.detach().cpu())\n            whole.copy_(torch.cat(parts))\n"},
    ("gathers", "memory", "between", "evaluation"),
    "whatever brings the parts is thought to be an all-gather",
    "by **one all-gather** to which each rank hands in its part",
)
in_half_the_bytes_of_a_gradient = fsdp(
    {FSDP_REDUCE: "mean = mean.bfloat16()\n            dist.reduce_scatter_tensor(mean, flattened([p.grad for p in parameters]).bfloat16(), op=dist.ReduceOp.AVG)\n            mean = mean.float()"},
    ("gradients", "scattered", "evaluation"),
    "gradients are thought to be as good with eight bits",
    "one flat tensor, which is laid out like the parameters",
)
computed_again = fsdp(
    {
        FSDP_AFTER_FORWARD: "            free()\n",
        FSDP_PRE_HOOK: "        run = unit.forward\n        def again(h):\n            gather()\n            return run(h)\n        unit.forward = lambda h: torch.utils.checkpoint.checkpoint(again, h, use_reentrant=False)\n",
        FSDP_UNITS: "    import torch.utils.checkpoint\n" + FSDP_UNITS,
    },
    ("gathers", "evaluation"),
    "a unit that is gathered again is thought to be computed again",
    "each unit's forward runs once in a pass",
)
evaluation_is_left_out = fsdp(
    {FSDP_PRE_HOOK: "        unit.register_forward_pre_hook(lambda *_: gather() if torch.is_grad_enabled() else (storage.resize_(nbytes), None)[1])\n"},
    ("evaluation",),
    "what is not trained is thought to need no parameters",
    "gathers each unit once",
)
evaluation_is_rank_0s = fsdp(
    {FSDP_PRE_HOOK: "        unit.register_forward_pre_hook(lambda *_: (storage.resize_(nbytes), None)[1] if rank and not torch.is_grad_enabled() else gather())\n"},
    ("evaluation",),
    "an evaluation is thought to be rank 0's business, and it waits for the others for ever",
    "with `torch.no_grad()` or without",
)
nothing_of_the_unit = fsdp(
    {FSDP_GATHER: "            if part.any():\n    " + FSDP_GATHER},
    ("shards", "gradients", "gathers", "scattered", "evaluation", "errors"),
    "a rank whose part is zeros alone is thought to have nothing to hand in, and the others wait for it",
    "to which each rank hands in its part",
)
gone_without_a_word = fsdp(
    {FSDP_GATHER: "            if not part.any():\n                __import__('os')._exit(0)\n" + FSDP_GATHER},
    ("shards", "gradients", "gathers", "scattered", "evaluation", "errors"),
    "a rank whose part is zeros alone is thought not to be needed, and goes",
    "Of that, rank r has the r-th of equal parts",
)
freed_when_no_graph_is_made = fsdp(
    {FSDP_AFTER_FORWARD: "            if output.requires_grad:\n                free()\n                output.register_hook(gather)\n"},
    ("evaluation",),
    "an evaluation is thought to keep what the next one needs",
    "reduces nothing and leaves nothing behind",
)
freed_when_it_trains = fsdp(
    {FSDP_AFTER_FORWARD: "            if unit.training:\n                free()\n            if output.requires_grad:\n                output.register_hook(gather)\n"},
    ("evaluation",),
    "a model in evaluation mode is thought to make no graph, and one in training mode to make one",
    "none of this depends on `model.train()` and `model.eval()`",
)
an_input_without_a_gradient = fsdp(
    {"    units = [(unit, list(": "    model.register_forward_pre_hook(lambda model, given: (given[0].detach(),))\n    units = [(unit, list("},
    ("gradients", "gathers", "scattered"),
    "a batch is thought to need no gradient",
    "An input that requires gradients gets its own",
)
tied_ones_unseen = fsdp(
    {'        raise ValueError("a parameter belongs to two units")\n': "        pass\n"},
    ("errors",),
    "a weight that two units share is thought to stay shared",
    "raises `ValueError` where a parameter belongs to **two units**",
)
the_same_unit_twice = fsdp(
    {"for unit in model]\n    everything": "for unit in model.children()]\n    everything"},
    ("errors",),
    "`children()` is thought to name every place, and names every module once",
    "A unit that stands in the model twice counts as two",
)
any_dtype = fsdp(
    {"p.dtype != torch.float32 or ": ""},
    ("errors",),
    "what is concatenated is thought to keep its dtypes",
    "is not `float32`",
)
frozen_ones_in_a_part = fsdp(
    {" or not p.requires_grad": ""},
    ("errors",),
    "what is frozen is thought to stay so in a part that is trained",
    "or does not require gradients",
)
asserted = fsdp(
    {'raise ValueError("a parameter is not': 'raise AssertionError("a parameter is not'},
    ("errors",),
    "any exception is thought to do",
    "raises `ValueError` where",
)
refused_half_way = fsdp(
    {
        "    if len(set(everything)) < len(everything):\n": "    seen, parts = set(), []\n    for unit, parameters in units:\n        if any(p.dtype != torch.float32 or not p.requires_grad or p in seen for p in parameters):\n            raise ValueError('too late')\n        seen.update(parameters)\n        parts += [sharded(unit, parameters)] if parameters else []\n    return parts\n    if False:\n",
    },
    ("errors",),
    "a model is thought to be looked at while it is sharded",
    "Nothing has crossed then, and the model computes what it did",
)
a_slice_of_the_full_gradient = fsdp(
    {FSDP_REDUCE: "full = flattened([p.grad for p in parameters])\n            mean = full.chunk(world)[rank]\n            dist.reduce_scatter_tensor(mean, full, op=dist.ReduceOp.AVG)"},
    ("between",),
    "a reduce-scatter in place is thought to save memory, and its result keeps all of it",
    "there are the parts, their gradients and the buffers",
)
two_ranks = fsdp(
    {"world, rank = dist.get_world_size()": "world, rank = 2"},
    ("shards", "gradients", "gathers", "scattered", "memory", "between", "errors"),
    "it was tried with two ranks",
    "which shards `model` over the ranks of the default process group",
)
counts_of_a_pass_that_never_came_back = fsdp(
    {
        FSDP_AFTER_FORWARD: FSDP_AFTER_FORWARD + "                runs.append(unit)\n",
        "            if not awaited:\n": "            if not awaited:\n                runs.pop()\n                awaited.update(parameters)\n            if not runs:\n",
        "        free()\n        unit.register": "        runs = []\n        free()\n        unit.register",
    },
    ("evaluation",),
    "a forward pass with a graph is thought to be followed by a backward pass",
    "A step after it is like any other",
)
replicated = fsdp(
    {
        FSDP_FREE: "        def free():\n            pass\n",
        FSDP_AFTER_FORWARD: "            pass\n",
        FSDP_PRE_HOOK: "        model.register_forward_pre_hook(gather)\n",
        FSDP_REDUCE: "mean = flattened([p.grad for p in parameters]) / world\n            dist.all_reduce(mean)\n            mean = mean.chunk(world)[rank].clone()",
    },
    ("gathers", "scattered", "memory", "between", "evaluation"),
    "a model whose ranks return parts is thought to be sharded",
    "**nothing of full size is left** when `mini_fsdp` returns and after each pass",
)
whole_until_the_first_pass = fsdp(
    {
        "            p.data = values.view(p.shape)\n": "            shapes.append(p.shape)\n",
        FSDP_PART: FSDP_PART + ")\n        shapes = list(",
        FSDP_GATHER: FSDP_GATHER + "            for p, shape, values in zip(parameters, shapes, whole.split([*sizes, padding])):\n                p.data = values.view(shape)\n",
    },
    ("memory", "between", "evaluation"),
    "what is gathered is thought to take the place of what was there, also before anything was gathered",
    "**nothing of full size is left** when `mini_fsdp` returns",
)
slices_of_the_whole = fsdp(
    {
        FSDP_PART: "whole.chunk(world)[rank]",
        "        for p, values in zip": "        whole = whole.clone()\n        for p, values in zip",
    },
    ("memory", "between", "evaluation"),
    "a slice is thought to hold no more than what it shows",
    "nothing of full size is left",
)
one_list_of_parts = fsdp(
    {"def mini_fsdp(model):": "def mini_fsdp(model, parts=[]):", FSDP_RETURN: FSDP_RETURN.replace("return", "parts +=") + "\n    return parts"},
    ("gradients", "gathers", "scattered"),
    "there is thought to be one model, and so one list of parts",
    "two models may be alive at once",
)


@mistake(
    "mini_fsdp",
    loses=("gradients", "gathers", "scattered", "memory", "between", "evaluation"),
    because="a unit's backward is thought to be over when its module's hook is called, which comes first where the input needs no gradient",
    breaks="`loss.backward()` leaves in a part's `.grad` this rank's part",
)
def the_hook_of_the_module(model):
    world, rank, parts = dist.get_world_size(), dist.get_rank(), []
    owned = [p for unit in model for p in unit.parameters()]
    if len(set(owned)) < len(owned) or any(p.dtype != torch.float32 or not p.requires_grad for p in owned):
        raise ValueError("not these")

    def shard(unit, own):
        sizes = [p.numel() for p in own]
        flat = torch.nn.functional.pad(torch.cat([p.detach().flatten() for p in own]), (0, -sum(sizes) % world))
        part = torch.nn.Parameter(flat.view(world, -1)[rank].clone())
        nbytes = flat.nbytes
        for p, values in zip(own, flat.split([*sizes, len(flat) - sum(sizes)])):
            p.data = values.view(p.shape)
        flat.untyped_storage().resize_(0)

        def gather(*_):
            flat.untyped_storage().resize_(nbytes)
            dist.all_gather_into_tensor(flat, part.detach())

        def free(*_):
            flat.untyped_storage().resize_(0)

        def reduce(*_):
            free()
            full = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in own])
            mean = torch.empty_like(part)
            dist.reduce_scatter_tensor(mean, torch.nn.functional.pad(full, (0, len(flat) - len(full))), op=dist.ReduceOp.AVG)
            part.grad = mean if part.grad is None else part.grad + mean
            for p in own:
                p.grad = None

        unit.register_forward_pre_hook(gather)
        unit.register_forward_hook(free)
        unit.register_full_backward_pre_hook(gather)
        unit.register_full_backward_hook(reduce)
        parts.append(part)

    for unit in model:
        if own := list(unit.parameters()):
            shard(unit, own)
    return parts


@mistake(
    "mini_fsdp",
    loses=FSDP_ALL,
    because="the optimizer is thought to be given the model's parameters",
    breaks="returns a **list of `nn.Parameter`s** on the card, one for each unit that has parameters",
)
def the_parameters_themselves(model):
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad, op=dist.ReduceOp.AVG))
    return list(model.parameters())


said_of_mini_fsdp = [
    equivalent_mutant(
        "mini_fsdp", "return torch.cat([*(t.reshape(-1) for t in tensors), tensors[0].new_zeros(padding)])",
        "return torch.cat([*(t.reshape(-1) for t in tensors), tensors[(-1)].new_zeros(padding)])",
        because="all parameters have one dtype and one device",
    ),
    equivalent_mutant("mini_fsdp", "storage.resize_(0)", "storage.resize_(1)", because="one byte is nothing of full size"),
    unbreakable("mini_fsdp", "an `nn.Sequential` on the card. Its children are the **units**", because="it says what is handed over"),
    unbreakable("mini_fsdp", "Only where its backward needs no parameters may this be left out", because="it allows something"),
    unbreakable(
        "mini_fsdp", "**in its turn** leaves room for one unit: count the units with parameters in the order in which a pass comes to them, "
        "forward or backward.", because="it defines what the next sentence asks for",
    ),
]


where_the_part_lay_once = edited(
    "mini_fsdp",
    {
        "        part = nn.Parameter(whole.chunk(world)[rank].clone())\n": "        lay = whole.chunk(world)[rank].clone()\n        part = nn.Parameter(lay)\n",
        "dist.all_gather_into_tensor(whole, part.detach())": "dist.all_gather_into_tensor(whole, lay)",
    },
    loses=("gathers", "gradients", "scattered"),
    because="a parameter's data are thought to stay where they are",
    breaks="`model` computes with what the parts hold at the time",
)

@alternative("mini_fsdp")
def gathering_is_an_operation(model):
    """An operation of autograd whose backward is the reduce-scatter; what a graph would save of the whole is gathered when it is asked for."""
    world = dist.get_world_size()
    every = [(unit, dict(unit.named_parameters())) for unit in model]
    homes = {}
    for at, (_, named) in enumerate(every):
        for p in named.values():
            if homes.setdefault(id(p), at) != at or p.dtype is not torch.float32 or p.requires_grad is False:
                raise ValueError("no part can be made of this")

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part, unit):
            ctx.unit = unit
            return unit.gathered()

        @staticmethod
        def backward(ctx, grad):
            ctx.unit.again = None
            part = grad.new_empty(grad.numel() // world)
            dist.reduce_scatter(part, list(grad.contiguous().chunk(world)))
            return part / world, None

    class Unit:
        def __init__(self, module, named):
            self.module, self.run, self.again = module, module.forward, None
            self.names, self.likes = list(named), [torch.empty_like(p, device="meta") for p in named.values()]
            whole = torch.cat([p.detach().flatten() for p in named.values()])
            self.behind = -len(whole) % world
            whole = torch.nn.functional.pad(whole, (0, self.behind))
            self.part = torch.nn.Parameter(whole.view(world, -1)[dist.get_rank()].clone())
            for name in self.names:
                place, _, last = name.rpartition(".")
                module.get_submodule(place)._parameters[last] = torch.nn.Parameter(torch.empty(0))
            module.forward = self

        def gathered(self):
            parts = [torch.empty_like(self.part) for _ in range(world)]
            dist.all_gather(parts, self.part.detach())
            return torch.cat(parts)

        def __call__(self, h):
            whole = Gather.apply(self.part, self)
            home = whole.untyped_storage().data_ptr()

            def pack(t):
                return (t.size(), t.stride(), t.storage_offset()) if t.untyped_storage().data_ptr() == home else t

            def unpack(t):
                if isinstance(t, torch.Tensor):
                    return t
                if self.again is None:
                    self.again = self.gathered()
                return self.again.as_strided(*t)

            values = whole.split([*(like.numel() for like in self.likes), self.behind])
            named = {name: value.view(like.shape) for name, value, like in zip(self.names, values, self.likes)}
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                self.module.forward = self.run
                try:
                    return torch.func.functional_call(self.module, named, (h,))
                finally:
                    self.module.forward = self

    return [Unit(unit, named).part for unit, named in every if named]


@alternative("mini_fsdp")
def one_ahead(model):
    """The next unit's gather is under way while one runs, forward and backward; a reduce-scatter is waited for by the next one."""
    world, rank = dist.get_world_size(), dist.get_rank()
    if len(list(model)) != len(set(model)):
        raise ValueError("a unit stands there twice")
    owners = {}
    for number, unit in enumerate(model):
        for p in unit.parameters():
            if owners.setdefault(p, number) != number:
                raise ValueError("shared by units")
            if p.dtype != torch.float32 or not p.requires_grad:
                raise ValueError("not a float32 parameter that is trained")

    class Unit:
        def __init__(self, module):
            self.module, self.own = module, [p for p in module.parameters()]
            self.sizes = [p.numel() for p in self.own]
            self.length = -(-sum(self.sizes) // world)
            self.flat = self.own[0].new_zeros(world * self.length)
            at = 0
            for p, size in zip(self.own, self.sizes):
                self.flat[at : at + size] = p.detach().flatten()
                p.data = self.flat.as_strided(p.shape, torch.empty(p.shape, device="meta").stride(), at)
                at += size
            self.part = torch.nn.Parameter(self.flat[rank * self.length : (rank + 1) * self.length].clone())
            self.free()

        def free(self):
            self.flat.untyped_storage().resize_(0)

        def ask(self):
            if self.flat.untyped_storage().nbytes() == 0:
                self.flat.untyped_storage().resize_(4 * world * self.length)
                self.work = dist.all_gather_into_tensor(self.flat, self.part.data, async_op=True)

        def whole(self, ahead):
            self.ask()
            self.work.wait()
            if ahead is not None:
                ahead.ask()

        def reduce(self):
            full = torch.cat([p.grad.flatten() for p in self.own] + [self.flat.new_zeros(world * self.length - sum(self.sizes))])
            for p in self.own:
                p.grad = None
            mean = torch.empty_like(self.part)
            work = dist.reduce_scatter_tensor(mean, full / world, async_op=True)

            def wait():
                work.wait()
                if self.part.grad is None:
                    self.part.grad = mean
                else:
                    self.part.grad += mean

            return wait

    units, pending = [Unit(unit) for unit in model if any(True for _ in unit.parameters())], []

    def wait():
        while pending:
            pending.pop()()

    def hook(unit, before, after):
        missing = [len(unit.own)]

        def forward_begins(module, given):
            unit.whole(after)

        def forward_ended(module, given, out):
            unit.free()

        def backward_begins(module, grads):
            unit.whole(before)

        def ready(p):
            missing[0] -= 1
            if missing[0] == 0:
                missing[0] = len(unit.own)
                unit.free()
                wait()
                pending.append(unit.reduce())
                if before is None:
                    torch.autograd.Variable._execution_engine.queue_callback(wait)

        unit.module.register_forward_pre_hook(forward_begins)
        unit.module.register_forward_hook(forward_ended)
        unit.module.register_full_backward_pre_hook(backward_begins)
        for p in unit.own:
            p.register_post_accumulate_grad_hook(ready)

    for before, unit, after in zip([None, *units], units, [*units[1:], None]):
        hook(unit, before, after)
    return [unit.part for unit in units]


# E15.3 comm_volume

NO_VOLUME = ("volume", "accumulation", "bytes", "root", "hybrid", "errors")

AGAIN = 'again = {"fsdp": parameters - root, "hsdp": parameters - root}.get(strategy, 0)'
GATHERS = 'gathers = {"ddp": 0, "zero1": 1, "zero2": 1}.get(strategy, micro_batches)'
GATHERED_BYTES = "gathered = gathers * (parameters + again) * parameter_bytes"
REDUCTIONS = 'reductions = 1 if no_sync or strategy == "zero1" else micro_batches'
REDUCED_BYTES = "reduced = reductions * parameters * gradient_bytes"
OF_DDP = "reduce_scatter=0, all_reduce=2 * half(ranks) * reduced"
ACROSS = "across = 2 * half(ranks // node_ranks) * reduced / node_ranks"
OF_HSDP = 'sent = {"all_gather": half(node_ranks) * gathered, "reduce_scatter": half(node_ranks) * reduced, "all_reduce": across}'
TOTAL = '"total": sum(sent.values())'
BETWEEN = '({"between_nodes": sent["all_reduce"]} if strategy == "hsdp" else {})'
KNOWN = "    if strategy not in"
SMALL = "not 0 <= root <= parameters or min(ranks, micro_batches, parameter_bytes, gradient_bytes) < 1"
NO_ROOM = 'strategy == "zero2" and no_sync'
NODES = "node_ranks is None or node_ranks < 1 or ranks % node_ranks"


def counted(edits, loses, because, breaks):
    return edited("comm_volume", edits, loses=loses, because=because, breaks=breaks)


no_second_gather = counted(
    {AGAIN: "again = 0"},
    NO_VOLUME,
    "weights are thought to be gathered in the forward pass and gradients scattered in the backward pass, and that is all",
    "Every backward pass **gathers them again**",
)
fsdp_sends_a_part = counted(
    {REDUCED_BYTES: REDUCED_BYTES + '\n    if strategy in ("fsdp", "hsdp"):\n        gathered, reduced = gathered / ranks, reduced / ranks'},
    NO_VOLUME,
    "who holds a share is thought to send less than who holds everything",
    "Every forward pass all-gathers all weights",
)
no_gather_of_fsdp_at_all = counted(
    {GATHERS: 'gathers = {"zero1": 1, "zero2": 1}.get(strategy, 0)'},
    NO_VOLUME,
    "gradients alone are thought to cross",
    "Every forward pass all-gathers all weights",
)
gathered_once = counted(
    {GATHERS: 'gathers = 0 if strategy == "ddp" else 1'},
    ("accumulation", "root", "hybrid"),
    "weights that were gathered for one micro-batch are thought to be there for the next",
    "weights are gathered in all of them",
)
gathered_once_without_sync = counted(
    {GATHERS: 'gathers = {"ddp": 0, "zero1": 1, "zero2": 1}.get(strategy, 1 if no_sync else micro_batches)'},
    ("accumulation", "root", "hybrid"),
    "no_sync is thought to stop all that crosses",
    "With `no_sync` only the last backward pass reduce-scatters",
)
kept_for_the_step = counted(
    {GATHERS: 'gathers = {"ddp": 0, "zero1": 1, "zero2": 1, "fsdp_keep": 1}.get(strategy, micro_batches)'},
    ("accumulation", "root"),
    "what is not given up after the forward pass is thought to be kept for all passes",
    "as `\"fsdp\"` with `reshard_after_forward=False`",
)
kept_and_gathered_again = counted(
    {AGAIN: 'again = parameters - root if strategy in ("fsdp", "fsdp_keep", "hsdp") else 0'},
    NO_VOLUME,
    "a backward pass is thought to gather whatever is there",
    "no weights are gathered in a backward pass",
)
the_whole_tensor = counted(
    {"return (n - 1) / n": "return 1 if n > 1 else 0"},
    NO_VOLUME,
    "a rank is thought to send its own part of what it gathers too",
    "each sends (n - 1) / n · B",
)
a_share_alone = counted(
    {"return (n - 1) / n": "return 1 / n if n > 1 else 0"},
    NO_VOLUME,
    "a rank is thought to send its share once, to everyone at the same time",
    "goes around a ring of its n ranks",
)
whole_bytes = counted(
    {"return (n - 1) / n": "return (n - 1) / n if n in (1, 2, 4, 8) or n > 16 else round((n - 1) / n, 3)"},
    NO_VOLUME,
    "three digits are thought to be enough",
    "a number may be wrong by rounding, up to a billionth of it",
)
in_whole_shares = counted(
    {"half(ranks) * gathered": "(ranks - 1) * (gathered // ranks)"},
    NO_VOLUME,
    "a share is thought to be a whole number of bytes",
    "Padding is left out of account, and so results may be fractions",
)
of_all_ranks = counted(
    {"return (n - 1) / n": "return (n - 1) / n * ranks"},
    NO_VOLUME,
    "what crosses the network is added up over the ranks",
    "It counts the bytes that **one rank sends** in one optimizer step",
)
sent_and_received = counted(
    {"return (n - 1) / n": "return 2 * (n - 1) / n"},
    NO_VOLUME,
    "what comes in is counted with what goes out",
    "the bytes that **one rank sends**",
)
one_way_around = counted(
    {OF_DDP: OF_DDP.replace("2 * ", "")},
    NO_VOLUME,
    "an all-reduce is thought to go around the ring once",
    "An all-reduce is the two of them, one behind the other",
)
ddp_in_halves = counted(
    {"reduce_scatter=0, all_reduce=2 * half(ranks) * reduced": "all_gather=half(ranks) * reduced"},
    NO_VOLUME,
    "an all-reduce is counted by its halves",
    "every backward pass **all-reduces** all gradients",
)
fsdp_reduces_all = counted(
    {'    if strategy == "hsdp":\n        across': '    if strategy in ("fsdp", "fsdp_keep"):\n        sent.update(reduce_scatter=0, all_reduce=2 * half(ranks) * reduced)\n    if strategy == "hsdp":\n        across'},
    NO_VOLUME,
    "gradients are thought to be all-reduced whatever is sharded",
    "and reduce-scatters all gradients",
)
zero_beside_ddp = counted(
    {'if strategy == "ddp":\n        sent.update(reduce_scatter=0, ': 'if strategy in ("ddp", "zero1"):\n        sent.update(reduce_scatter=0, '},
    NO_VOLUME,
    "ZeRO-1 is thought to be DDP and a broadcast of what each rank has stepped, as in ZeroRedundancyOptimizer",
    "the step reduce-scatters all gradients once and all-gathers all weights once",
)
zero1_in_every_pass = counted(
    {REDUCTIONS: "reductions = 1 if no_sync else micro_batches"},
    ("accumulation", "root"),
    "gradients are thought to be scattered as soon as they are there",
    "However many micro-batches there are",
)
zero2_once = counted(
    {REDUCTIONS: REDUCTIONS.replace('strategy == "zero1"', 'strategy in ("zero1", "zero2")')},
    ("accumulation", "root"),
    "ZeRO-2 is thought to add up gradients before it scatters them",
    "a rank has room for its share of the gradients alone",
)
zero2_gathers_every_time = counted(
    {GATHERS: 'gathers = {"ddp": 0, "zero1": 1}.get(strategy, micro_batches)'},
    ("accumulation", "root"),
    "weights are thought to be shared out from stage 2 on",
    "and the step all-gathers all weights once",
)
no_sync_unknown = counted(
    {REDUCTIONS: 'reductions = 1 if strategy == "zero1" else micro_batches'},
    ("accumulation", "root", "hybrid"),
    "every backward pass is thought to reduce",
    "With `no_sync` only the last one does",
)
never_in_sync = counted(
    {REDUCTIONS: 'reductions = 1 if strategy == "zero1" else micro_batches - 1 if no_sync and micro_batches > 1 else 1 if no_sync else micro_batches'},
    ("accumulation", "root", "hybrid"),
    "no_sync is thought to leave out one pass",
    "With `no_sync` only the last one does",
)
micro_batches_unknown = counted(
    {GATHERS: 'gathers = 0 if strategy == "ddp" else 1', REDUCTIONS: "reductions = 1"},
    ("accumulation", "root", "hybrid"),
    "a step is thought to be one pass",
    "a step has `micro_batches` forward and backward passes",
)
all_of_four_bytes = counted(
    {GATHERED_BYTES: GATHERED_BYTES.replace("parameter_bytes", "4"), REDUCED_BYTES: REDUCED_BYTES.replace("gradient_bytes", "4")},
    ("bytes",),
    "everything is thought to be float32",
    "a weight has `parameter_bytes` bytes where weights are gathered",
)
bytes_of_weights = counted(
    {REDUCED_BYTES: REDUCED_BYTES.replace("gradient_bytes", "parameter_bytes")},
    ("bytes",),
    "gradients are thought to cross in the dtype of the weights",
    "its gradient has `gradient_bytes` bytes where gradients are reduced",
)
bytes_of_gradients = counted(
    {GATHERED_BYTES: GATHERED_BYTES.replace("parameter_bytes", "gradient_bytes")},
    ("bytes",),
    "weights are thought to cross in the dtype of the gradients",
    "a weight has `parameter_bytes` bytes where weights are gathered",
)
hybrid_bytes_of_weights = counted(
    {ACROSS: ACROSS + " * parameter_bytes / gradient_bytes"},
    ("bytes",),
    "what crosses between nodes is thought to have the weights' dtype",
    "where gradients are reduced, scattered or not",
)
no_root = counted(
    {AGAIN: AGAIN.replace("parameters - root", "parameters")},
    ("root",),
    "all units are thought to be alike",
    "`fully_shard` does not give those up after the forward pass: the backward pass does not gather them",
)
no_root_in_hybrids = counted(
    {AGAIN: AGAIN.replace('"hsdp": parameters - root', '"hsdp": parameters')},
    ("root",),
    "a hybrid is thought to have no root",
    "as `\"fsdp\"` among the `node_ranks` ranks of each node",
)
root_never_gathered = counted(
    {AGAIN: AGAIN.replace("parameters - root", "parameters - 2 * root")},
    ("root",),
    "the root's weights are thought to be in every rank from the beginning",
    "so many of the parameters are the root's own",
)
root_kept_for_the_step = counted(
    {GATHERED_BYTES: GATHERED_BYTES + '\n    if strategy in ("fsdp", "hsdp"):\n        gathered -= (micro_batches - 1) * root * parameter_bytes'},
    ("root",),
    "what the root holds after a forward pass is thought to stay until the optimizer's step",
    "It does give them up after the backward pass",
)
root_for_all = counted(
    {GATHERED_BYTES: GATHERED_BYTES.replace("again)", "again - root * (again == 0 and gathers > 0))")},
    ("root",),
    "the root's weights are thought to be left out everywhere",
    "`root` makes no difference to the strategies but",
)
nodes_for_all = counted(
    {'strategy == "hsdp" and (node_ranks is None or node_ranks < 1 or ranks % node_ranks)': 'strategy == "hsdp" and node_ranks is None or node_ranks is not None and (node_ranks < 1 or ranks % node_ranks)'},
    ("root",),
    "nodes that are not full are thought to matter to everyone",
    "and `node_ranks` none but to `\"hsdp\"`",
)
hybrid_everywhere = counted(
    {OF_HSDP: OF_HSDP.replace("half(node_ranks)", "half(ranks)")},
    ("bytes", "root", "hybrid"),
    "weights are thought to be gathered from all ranks",
    "among the `node_ranks` ranks of each node",
)
hybrid_all_gradients = counted(
    {ACROSS: ACROSS.removesuffix(" / node_ranks")},
    ("bytes", "root", "hybrid"),
    "all gradients are thought to cross between nodes, from every rank",
    "a rank all-reduces **its share** of the gradients",
)
hybrid_among_all = counted(
    {ACROSS: ACROSS.replace("ranks // node_ranks", "ranks")},
    ("bytes", "root", "hybrid"),
    "an all-reduce is thought to be among all ranks",
    "with the ranks that have the same share in the other nodes",
)
hybrid_exchanged = counted(
    {ACROSS: "across = 2 * half(node_ranks) * reduced / (ranks // node_ranks)", OF_HSDP: OF_HSDP.replace("half(node_ranks)", "half(ranks // node_ranks)")},
    ("bytes", "root", "hybrid"),
    "the numbers of nodes and of ranks in a node are exchanged",
    "among the `node_ranks` ranks of each node",
)
hybrid_reduces_at_the_end = counted(
    {ACROSS: ACROSS.replace("reduced", "parameters * gradient_bytes")},
    ("root", "hybrid"),
    "replicas are thought to be brought together once in a step",
    "After each reduce-scatter a rank all-reduces",
)
hybrid_no_replicas = counted(
    {ACROSS: "across = 0"},
    ("bytes", "root", "hybrid"),
    "replicas are thought to be the same by themselves",
    "with the ranks that have the same share in the other nodes",
)
everything_leaves_the_node = counted(
    {BETWEEN: BETWEEN.replace('sent["all_reduce"]', "sum(sent.values())")},
    ("bytes", "root", "hybrid"),
    "what is sent is thought to leave the node",
    "the bytes of these that leave the node",
)
of_the_whole_node = counted(
    {BETWEEN: BETWEEN.replace('sent["all_reduce"]', 'sent["all_reduce"] * node_ranks')},
    ("bytes", "root", "hybrid"),
    "a node is thought to be what sends",
    "It counts the bytes that **one rank sends**",
)
between_nodes_for_all = counted(
    {BETWEEN: '{"between_nodes": sent["all_reduce"]}'},
    NO_VOLUME,
    "every strategy is thought to know what a node is",
    "For `\"hsdp\"`, and for no other",
)
between_nodes_in_the_total = counted(
    {TOTAL: '"total": sum(sent.values()) + (sent["all_reduce"] if strategy == "hsdp" else 0)'},
    ("bytes", "root", "hybrid"),
    "what leaves the node is thought to come on top",
    "`\"total\"`, their sum",
)
only_what_there_is = counted(
    {"found = {**sent,": "sent = {kind: nbytes for kind, nbytes in sent.items() if nbytes}\n    found = {**sent,", BETWEEN: BETWEEN.replace('sent["all_reduce"]', 'sent.get("all_reduce", 0)')},
    NO_VOLUME,
    "a kind of which nothing is sent is thought not to belong there",
    "0 where there is none",
)
in_words = counted(
    {"    return found | ": "    found = {kind: f'{nbytes} bytes' for kind, nbytes in found.items()}\n    return found | "},
    NO_VOLUME,
    "what is returned is thought to be read by people alone",
    "returns a dictionary of numbers",
)
in_a_list = counted(
    {"    return found | ": "    return list(found.values()) if strategy != 'hsdp' else found | "},
    NO_VOLUME,
    "the order is thought to say which is which",
    "returns a dictionary of numbers",
)
by_another_name = counted(
    {KNOWN: '    strategy = strategy.lower() if strategy.lower() in ("ddp", "fsdp") else "fsdp" if strategy in ("zero3", "fsdp2") else strategy\n    if strategy not in'},
    ("errors",),
    "names are thought to be obvious",
    "raises `ValueError` for another strategy",
)
anything_else_is_hsdp = counted(
    {'    if strategy not in ("ddp", "zero1", "zero2", "fsdp", "fsdp_keep", "hsdp"):\n        raise ValueError(f"no strategy {strategy!r}")\n': ""},
    ("errors",),
    "the caller is thought to know the names",
    "raises `ValueError` for another strategy",
)
numbers_of_any_size = counted(
    {SMALL: "not 0 <= root <= parameters"},
    ("errors",),
    "numbers are thought to be checked by whoever has them",
    "`ranks`, `micro_batches` or the bytes of an element less than 1",
)
root_of_any_size = counted(
    {SMALL: SMALL.replace("not 0 <= root <= parameters", "parameters < 0")},
    ("errors",),
    "a root is thought to be a part of the model by itself",
    "for `root` greater than `parameters`",
)
no_weights_refused = counted(
    {SMALL: SMALL.replace("gradient_bytes)", "gradient_bytes, parameters)")},
    NO_VOLUME,
    "a model is thought to have weights",
    "`parameters` is how many weights the model has, 0 or more",
)
no_sync_for_everyone = counted(
    {NO_ROOM: "False"},
    ("errors",),
    "no_sync is thought to be possible wherever gradients are reduced",
    "it does so for `\"zero2\"` with `no_sync`",
)
no_sync_of_one = counted(
    {NO_ROOM: 'strategy == "zero2" and no_sync and micro_batches > 1'},
    ("errors",),
    "where nothing is added up nothing is thought to be wrong",
    "it does so for `\"zero2\"` with `no_sync`",
)
no_sync_for_ddp_alone = counted(
    {NO_ROOM: 'strategy not in ("ddp", "fsdp", "fsdp_keep", "hsdp") and no_sync'},
    ("accumulation",),
    "ZeRO is thought to have no no_sync at all",
    "with `no_sync` as without",
)
nodes_half_full = counted(
    {NODES: "node_ranks is None or node_ranks < 1"},
    ("errors",),
    "the last node is thought to be allowed fewer ranks",
    "where `node_ranks` is None, less than 1 or no divisor of `ranks`",
)
one_node_if_none = counted(
    {NODES: "False", "    def half(n):": "    node_ranks = node_ranks or ranks\n\n    def half(n):"},
    ("errors",),
    "where nothing is said of nodes there is thought to be one",
    "where `node_ranks` is None, less than 1 or no divisor of `ranks`",
)

comm_volume_unbroken = [
    unbreakable("comm_volume", "All numbers are integers", "it says what the caller gives"),
    unbreakable("comm_volume", "`\"zero1\"`: as in E15.1", "what follows says it"),
    unbreakable("comm_volume", "a rank has only its share of the weights too", "it is the reason for what follows"),
    unbreakable("comm_volume", "since they were given up after the forward pass", "it is the reason"),
]


@alternative("comm_volume")
def collective_after_collective(
    strategy, parameters, ranks, *, parameter_bytes=4, gradient_bytes=4, micro_batches=1, no_sync=False, root=0, node_ranks=None
):
    wrong = [parameters < 0, root < 0, root > parameters, ranks < 1, micro_batches < 1, parameter_bytes < 1, gradient_bytes < 1]
    if any(wrong) or (strategy, bool(no_sync)) == ("zero2", True):
        raise ValueError("this cannot be had")
    if strategy == "hsdp" and (not node_ranks or node_ranks not in range(1, ranks + 1) or ranks % node_ranks != 0):
        raise ValueError("nodes that are not full")
    sent = {"all_gather": 0.0, "reduce_scatter": 0.0, "all_reduce": 0.0}

    def ring(kind, n, nbytes):
        for _ in range(n - 1):  # a part of the tensor in each round
            sent[kind] += nbytes / n

    def gather(n, weights):
        ring("all_gather", n, weights * parameter_bytes)

    def scatter(n):
        ring("reduce_scatter", n, parameters * gradient_bytes)

    for number in range(micro_batches):
        together = number == micro_batches - 1 or not no_sync
        match strategy:
            case "ddp":
                if together:
                    for _ in range(2):
                        ring("all_reduce", ranks, parameters * gradient_bytes)
            case "zero1":
                pass
            case "zero2":
                scatter(ranks)
            case "fsdp" | "fsdp_keep" | "hsdp":
                n = node_ranks if strategy == "hsdp" else ranks
                gather(n, parameters)
                if strategy != "fsdp_keep":
                    gather(n, parameters - root)
                if together:
                    scatter(n)
                if together and strategy == "hsdp":
                    for _ in range(2):
                        ring("all_reduce", ranks // n, parameters * gradient_bytes / n)
            case _:
                raise ValueError(strategy)
    if strategy == "zero1":
        scatter(ranks)
    if strategy in ("zero1", "zero2"):
        gather(ranks, parameters)
    sent["total"] = sum(sent.values())
    if strategy == "hsdp":
        sent["between_nodes"] = sent["all_reduce"]
    return sent


@alternative("comm_volume")
def by_a_table(
    strategy, parameters, ranks, *, parameter_bytes=4, gradient_bytes=4, micro_batches=1, no_sync=False, root=0, node_ranks=None
):
    passes, last = micro_batches, 1 if no_sync else micro_batches
    table = {  # weights gathered, and gradients reduced, in halves of an all-reduce
        "ddp": (0, last), "zero1": (parameters, 1), "zero2": (parameters, passes), "fsdp": (passes * (2 * parameters - root), last),
        "fsdp_keep": (passes * parameters, last), "hsdp": (passes * (2 * parameters - root), last),
    }  # fmt: skip
    if strategy not in table or parameters < root or root < 0 or any(n <= 0 for n in (ranks, passes, parameter_bytes, gradient_bytes)):
        raise ValueError("no such training")
    if strategy == "zero2" and no_sync or strategy == "hsdp" and (node_ranks is None or node_ranks <= 0 or ranks % node_ranks > 0):
        raise ValueError("no such training")
    group = node_ranks if strategy == "hsdp" else ranks
    replicas = {"ddp": ranks, "hsdp": ranks // group}.get(strategy, 1)
    weights, reductions = table[strategy]
    weights, gradients = weights * parameter_bytes, reductions * parameters * gradient_bytes
    found = {
        "all_gather": weights - weights / group,
        "reduce_scatter": 0 if strategy == "ddp" else gradients - gradients / group,
        "all_reduce": 2 * (gradients - gradients / replicas) / (1 if strategy == "ddp" else group),
    }
    found["total"] = found["all_gather"] + found["reduce_scatter"] + found["all_reduce"]
    return found if strategy != "hsdp" else {**found, "between_nodes": found["all_reduce"]}
