"""Chapter "Data parallelism in depth": wrong solutions, and right ones written another way."""

import itertools
import math

import torch
import torch.distributed as dist

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E14.1 mini_ddp

NO_MEANS = ("values", "unused", "mixed")
NOTHING_RIGHT = ("values", "buckets", "launched", "no_waiting", "unused", "mixed")

BROADCAST = "            dist.broadcast(first, 0)\n"
LAID_OUT = """\
            first = tensor.contiguous()
            dist.broadcast(first, 0)
            tensor.copy_(first)
"""
EVERYTHING = "[*model.parameters(), *model.buffers()]"
BACKWARDS = "reversed([p for p in model.parameters() if p.requires_grad])"
TOO_FULL = "parameter.nbytes > room"
OF_ANOTHER_DTYPE = " or parameter.dtype != buckets[-1][0].dtype"
FLAT = "flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in bucket])"
SENT = "dist.all_reduce(flat, async_op=True)"
AS_SOON_AS = """\
        while len(launched) < len(buckets) and awaited[len(launched)] == 0:
            launch()
"""
THE_REST = """\
        while len(launched) < len(buckets):
            launch()
"""
WAITED = "            work.wait()\n"
MEAN = "flat / dist.get_world_size()"
GIVEN = "                parameter.grad = mean.view(parameter.shape)\n"
CLEARED = "        launched.clear()\n"
COUNTED_ANEW = "        awaited[:] = [len(bucket) for bucket in buckets]\n"
HOOKED = "            parameter.register_post_accumulate_grad_hook(lambda _, number=number: ready(number))\n"


def parallel(edits, loses, because, breaks):
    return edited("mini_ddp", edits, loses=loses, because=because, breaks=breaks)


after_the_backward_pass = parallel(
    {AS_SOON_AS: "        pass\n"},
    ("launched", "no_waiting"),
    "gradients are thought to be sent when all of them are there",
    "is **launched as soon as** the last of its gradients is ready",
)
every_gradient_alone = parallel(
    {TOO_FULL: "True"},
    ("buckets",),
    "the sooner a gradient leaves the better, whatever a message costs",
    "each parameter joins the current bucket if that bucket then holds at most `bucket_bytes`",
)
a_sum = parallel(
    {MEAN: "flat"},
    NO_MEANS,
    "an all-reduce is thought to average",
    "**`.grad` of every parameter is the mean** over all ranks' gradients",
)
divided_twice = parallel(
    {SENT: "dist.all_reduce(flat.div_(dist.get_world_size()), async_op=True)"},
    NO_MEANS,
    "each side of the sum is thought to have its own division",
    "divided by the number of ranks before or after the all-reduce",
)
halved = parallel(
    {MEAN: "flat / 2"},
    ("values", "unused"),
    "it was tried with two ranks",
    "over all ranks' gradients",
)
first_layers_first = parallel(
    {BACKWARDS: "[p for p in model.parameters() if p.requires_grad]"},
    ("buckets", "launched", "no_waiting"),
    "buckets are thought to be filled in the order of the forward pass",
    "from the last of `model.parameters()` to the first",
)
waits_in_the_hook = parallel(
    {SENT: "dist.all_reduce(flat)", WAITED: ""},
    ("no_waiting",),
    "a collective inside the backward pass is thought to overlap with it by being there",
    "**no rank waits** in the backward pass",
)
waits_for_the_bucket_before = parallel(
    {"        bucket = buckets[len(launched)]\n": "        if launched:\n            launched[-1][1].wait()\n        bucket = buckets[len(launched)]\n"},
    ("no_waiting",),
    "one all-reduce is thought to have to end before another begins",
    "inside the backward pass, which it overlaps with",
)
waits_for_the_last_one = parallel(
    {AS_SOON_AS: AS_SOON_AS + "        if len(launched) == len(buckets):\n            for _, work in launched:\n                work.wait()\n"},
    ("no_waiting",),
    "the last hook is thought to be the end of the backward pass",
    "`finish` waits",
)
does_not_wait = parallel(
    {WAITED: ""},
    NO_MEANS,
    "an asynchronous all-reduce is thought to be over when its result is looked at",
    "`finish` waits",
)
at_the_first_gradient = parallel(
    {"awaited[len(launched)] == 0": "awaited[len(launched)] < len(buckets[len(launched)])"},
    NOTHING_RIGHT,
    "a bucket is thought to be ready when one of its gradients is",
    "the last of its gradients is ready",
)
at_the_hook_of_its_last_one = parallel(
    {
        HOOKED: "            if parameter is bucket[-1]:\n                parameter.register_post_accumulate_grad_hook(lambda _, number=number: ready(number))\n",
        "awaited[number] -= 1": "awaited[number] = 0",
    },
    ("values", "buckets", "launched"),
    "gradients are thought to be ready in the order of the parameters, backwards",
    "whatever the order in which gradients become ready",
)
whichever_is_ready = parallel(
    {
        "    def launch():\n        bucket = buckets[len(launched)]\n": "    def launch(number):\n        bucket = buckets[number]\n",
        "launched.append((flat, dist.all_reduce(flat, async_op=True)))": "launched.append((flat, dist.all_reduce(flat, async_op=True), number))",
        AS_SOON_AS: "        if awaited[number] == 0:\n            launch(number)\n",
        THE_REST: "        for number in range(len(buckets)):\n            if awaited[number] > 0:\n                launch(number)\n        launched.sort(key=lambda one: one[2])\n",
        "(flat, work) in zip": "(flat, work, _) in zip",
    },
    ("buckets", "unused"),
    "a bucket is thought to be matched with the same one of the other ranks, whenever it comes",
    "Every rank launches the buckets in bucket order",
)
one_bucket_a_hook = parallel(
    {"        while len(launched) < len(buckets) and": "        if len(launched) < len(buckets) and"},
    ("launched",),
    "a gradient is thought to make one bucket ready at most",
    "and all buckets before it were launched",
)
one_hook_late = parallel(
    {"        awaited[number] -= 1\n": "", AS_SOON_AS: AS_SOON_AS + "        awaited[number] -= 1\n"},
    ("launched", "no_waiting"),
    "the next hook is thought to come soon enough",
    "the last of its gradients is ready and all buckets before it were launched",
)
counts_of_the_last_step = parallel(
    {COUNTED_ANEW: ""},
    ("values", "buckets", "launched", "no_waiting"),
    "what is counted in one step is forgotten in the next",
    "Many steps follow each other",
)
counts_of_what_was_unused = parallel(
    {COUNTED_ANEW: "        awaited[:] = [len(bucket) if left == 0 else left for bucket, left in zip(buckets, awaited)]\n"},
    ("unused",),
    "a count is thought to begin anew when it has come to its end",
    "ranks may use different parts of the model",
)
handles_of_the_last_step = parallel(
    {CLEARED: ""},
    NOTHING_RIGHT,
    "the list of what is under way is thought to empty itself",
    "Many steps follow each other",
)
everyones_own_weights = parallel(
    {BROADCAST: ""},
    ("values", "mixed"),
    "ranks with the same seed are thought to have the same weights",
    "all **parameters and buffers** hold rank 0's values in every rank",
)
no_buffers = parallel(
    {EVERYTHING: "model.parameters()"},
    ("values",),
    "what no optimizer changes is thought to be the same everywhere",
    "all **parameters and buffers** hold rank 0's values",
)
the_state_dictionary = parallel(
    {EVERYTHING: "model.state_dict().values()"},
    ("values",),
    "a state dictionary is thought to hold every buffer",
    "all **parameters and buffers** hold rank 0's values",
)
frozen_ones_keep_theirs = parallel(
    {EVERYTHING: "[*[p for p in model.parameters() if p.requires_grad], *model.buffers()]"},
    ("mixed",),
    "what is not trained is thought to be the same everywhere",
    "all **parameters and buffers** hold rank 0's values",
)
averaged_weights = parallel(
    {BROADCAST: "            if first.is_floating_point():\n                dist.all_reduce(first)\n                first /= dist.get_world_size()\n            else:\n                dist.broadcast(first, 0)\n"},
    NOTHING_RIGHT,
    "the mean of all ranks' weights is thought to be as good a beginning as any",
    "hold rank 0's values in every rank",
)
averaged_counts = parallel(
    {BROADCAST: BROADCAST + "            if first.dtype == torch.int64:\n                first *= 3\n                dist.all_reduce(first)\n                first //= 3 * dist.get_world_size() + 1\n"},
    ("values",),
    "a count of batches is thought to be averaged like a gradient",
    "buffers of any dtype",
)
counts_in_single_precision = parallel(
    {"first = tensor.contiguous()": "first = tensor.contiguous() if tensor.is_floating_point() else tensor.float()"},
    ("values",),
    "every tensor of a model is thought to hold floating-point numbers",
    "buffers of any dtype",
)
zeros_of_the_others = parallel(
    {BROADCAST: "            if dist.get_rank():\n                first.zero_()\n            dist.all_reduce(first)\n"},
    ("values",),
    "a sum with zeros is thought to cost what a broadcast costs",
    "This is a broadcast: no other rank contributes anything",
)
new_storage = parallel(
    {LAID_OUT: "            first = tensor.clone(memory_format=torch.contiguous_format)\n            dist.broadcast(first, 0)\n            tensor.data = first\n"},
    ("values",),
    "a parameter is thought to be its name, not its memory",
    "written in place",
)
as_they_lie = parallel(
    {".reshape(-1) for p in bucket": ".view(-1) for p in bucket"},
    NOTHING_RIGHT,
    "every gradient is thought to lie in one piece",
    "of any shape and strides",
)
single_precision = parallel(
    {"for p in bucket])\n        launched": "for p in bucket]).float()\n        launched"},
    ("values", "buckets", "launched", "mixed"),
    "gradients are thought to be float32",
    "a module with parameters of `float32` or `float64`",
)
a_full_one_is_too_full = parallel(
    {TOO_FULL: "parameter.nbytes >= room"},
    ("buckets",),
    "a limit is thought to be out of reach",
    "gradients are all-reduced in **buckets**: from the last of `model.parameters()` to the first, each parameter joins the current bucket "
    "if that bucket then holds at most `bucket_bytes`",
)
closed_when_it_is_full = parallel(
    {TOO_FULL: "room <= 0"},
    ("buckets",),
    "a bucket is thought to be closed by the parameter that overfills it",
    "and otherwise starts the next bucket. So a parameter larger than `bucket_bytes` has a bucket to itself",
)
elements_for_bytes = parallel(
    {TOO_FULL: "parameter.numel() > room", "room -= parameter.nbytes": "room -= parameter.numel()"},
    ("buckets", "launched", "no_waiting"),
    "elements are counted for bytes",
    "`bucket_bytes`: an integer, 1 or more",
)
whole_lines = parallel(
    {"        launched.append((flat": "        flat = torch.cat([flat, flat.new_zeros(-len(flat) % 16)])\n        launched.append((flat",
     ".split([p.numel() for p in bucket])": "[: sum(p.numel() for p in bucket)].split([p.numel() for p in bucket])"},
    ("buckets", "mixed"),
    "a message is rounded up, as an allocator rounds up",
    "in the bucket's dtype and without padding",
)
in_double_precision = parallel(
    {"for p in bucket])\n        launched": "for p in bucket]).double()\n        launched",
     GIVEN: "                parameter.grad = mean.view(parameter.shape).to(parameter.dtype)\n"},
    ("buckets", "mixed"),
    "a sum over ranks is thought to need more digits than its parts",
    "in the bucket's dtype",
)
in_half_the_bytes = parallel(
    {"for p in bucket])\n        launched": "for p in bucket]).bfloat16()\n        launched",
     GIVEN: "                parameter.grad = mean.view(parameter.shape).to(parameter.dtype)\n"},
    NOTHING_RIGHT,
    "gradients are thought to be as good with eight bits",
    "in the bucket's dtype",
)
gathered_and_added = parallel(
    {
        SENT: "dist.all_gather(parts, flat, async_op=True)",
        "        launched.append((flat": "        parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]\n        launched.append((parts",
        MEAN: "sum(flat) / dist.get_world_size()",
    },
    ("buckets", "launched", "no_waiting"),
    "whatever brings the sum is thought to be an all-reduce",
    "each bucket is reduced by **one all-reduce of one flat tensor**",
)
two_dtypes_in_one = parallel(
    {OF_ANOTHER_DTYPE: "", GIVEN: "                parameter.grad = mean.view(parameter.shape).to(parameter.dtype)\n"},
    ("buckets", "mixed"),
    "what is concatenated is thought to keep its dtypes",
    "a bucket holds one dtype",
)
frozen_ones_as_zeros = parallel(
    {
        BACKWARDS: "reversed(list(model.parameters()))",
        "[len(bucket) for bucket in buckets], []": "[sum(p.requires_grad for p in bucket) for bucket in buckets], []",
        COUNTED_ANEW: "        awaited[:] = [sum(p.requires_grad for p in bucket) for bucket in buckets]\n",
        HOOKED: "            if parameter.requires_grad:\n    " + HOOKED,
    },
    ("buckets", "mixed"),
    "a gradient that is always zero is thought to do no harm",
    "a **frozen** parameter, one that does not require gradients when `mini_ddp` is called, is in no bucket",
)
frozen_ones_get_zeros = parallel(
    {COUNTED_ANEW: COUNTED_ANEW + "        for p in model.parameters():\n            p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n"},
    ("mixed",),
    "every parameter is thought to have a gradient in the end",
    "and its `.grad` stays `None`",
)
frozen_ones_take_room = parallel(
    {
        BACKWARDS: "reversed(list(model.parameters()))",
        "        buckets[-1].append(parameter)\n": "        if parameter.requires_grad:\n            buckets[-1].append(parameter)\n",
        "if not buckets or": "if not buckets or (buckets[-1] == [] and False) or",
        OF_ANOTHER_DTYPE: " or (buckets[-1] and parameter.dtype != buckets[-1][0].dtype)",
        "    awaited, launched": "    buckets = [bucket for bucket in buckets if bucket]\n    awaited, launched",
    },
    ("buckets",),
    "a bucket is thought to be measured by parameters, whatever crosses",
    "is in no bucket",
)
nobody_launches_the_rest = parallel(
    {THE_REST: ""},
    ("unused",),
    "every gradient is thought to come in every step",
    "a bucket that cannot be launched earlier is launched by `finish`",
)
who_has_none_gets_none = parallel(
    {GIVEN: "                if parameter.grad is not None:\n    " + GIVEN},
    ("unused",),
    "a rank that did not use a parameter is thought to have nothing to learn about it",
    "and that rank gets the mean like every other rank, also where no rank has the gradient",
)
mean_of_the_last_step = parallel(
    {
        "torch.zeros_like(p) if p.grad is None": "last.get(p, torch.zeros_like(p)) if p.grad is None",
        "    buckets, room = [], bucket_bytes\n": "    last, buckets, room = {}, [], bucket_bytes\n",
        GIVEN: GIVEN + "                last[parameter] = parameter.grad.clone()\n",
    },
    ("unused",),
    "what is not written anew is thought to do no harm",
    "A gradient that a rank does not have in a step **counts as zeros**",
)
a_barrier_at_the_end = parallel(
    {CLEARED: "        dist.barrier()\n" + CLEARED},
    ("buckets",),
    "ranks are thought to need a barrier beside their all-reduces",
    "nothing else is communicated in a step",
)
in_the_order_of_arrival = parallel(
    {
        "    awaited, launched": "    came = []\n    awaited, launched",
        "        bucket = buckets[len(launched)]\n": (
            "        bucket = buckets[len(launched)]\n"
            "        bucket.sort(key=lambda p: next((i for i, one in enumerate(came) if one is p), len(came)))\n"
        ),
        "lambda _, number=number: ready(number)": "lambda p, number=number: (came.append(p), ready(number))[1]",
        CLEARED: CLEARED + "        came.clear()\n",
    },
    ("buckets", "unused"),
    "gradients are thought to be ready in the same order in every rank",
    "in any order that is the same in all ranks",
)
by_those_who_have = parallel(
    {
        THE_REST: "        have = torch.tensor([p.grad is not None and bool(p.grad.any()) for bucket in buckets for p in bucket], dtype=torch.int64)\n"
        + "        dist.all_reduce(have) if buckets else None\n        having = iter(have.clamp(min=1).tolist())\n" + THE_REST,
        MEAN: "flat",
        GIVEN: "                parameter.grad = mean.view(parameter.shape) / next(having)\n",
    },
    ("buckets", "unused"),
    "the mean is thought to be taken over those ranks that have a gradient",
    "nothing else is communicated in a step",
)


@mistake(
    "mini_ddp",
    loses=("buckets",),
    because="every dtype is thought to have an open bucket of its own",
    breaks="a parameter whose dtype differs from that of the parameter before it starts the next bucket",
)
def a_bucket_of_each_dtype(model, bucket_bytes):
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor, 0)
    buckets, opened = [], {}
    for p in reversed([p for p in model.parameters() if p.requires_grad]):
        bucket = opened.get(p.dtype)
        if bucket is None or sum(q.nbytes for q in bucket) + p.nbytes > bucket_bytes:
            bucket = opened[p.dtype] = []
            buckets.append(bucket)
        bucket.append(p)
    done, sent = set(), []

    def launch():
        flat = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in buckets[len(sent)]])
        sent.append((buckets[len(sent)], flat, dist.all_reduce(flat, async_op=True)))

    def hook(p):
        done.add(id(p))
        while len(sent) < len(buckets) and all(id(q) in done for q in buckets[len(sent)]):
            launch()

    for bucket in buckets:
        for p in bucket:
            p.register_post_accumulate_grad_hook(hook)

    def finish():
        while len(sent) < len(buckets):
            launch()
        for bucket, flat, work in sent:
            work.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = part.view(p.shape) / dist.get_world_size()
        done.clear()
        sent.clear()

    return finish


@mistake(
    "mini_ddp",
    loses=NOTHING_RIGHT,
    because="a gradient that is a view of the bucket is thought to stay one",
    breaks="whose `set_to_none` is `True` or `False`",
)
def gradients_that_are_views(model, bucket_bytes):
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor, 0)
    buckets = []
    for p in reversed([p for p in model.parameters() if p.requires_grad]):
        if not buckets or sum(q.nbytes for q in buckets[-1]) + p.nbytes > bucket_bytes or p.dtype != buckets[-1][0].dtype:
            buckets.append([])
        buckets[-1].append(p)
    flats, left, works = [], [len(bucket) for bucket in buckets], []
    for bucket in buckets:
        flats.append(torch.zeros(sum(p.numel() for p in bucket), dtype=bucket[0].dtype))
        for p, part in zip(bucket, flats[-1].split([p.numel() for p in bucket])):
            p.grad = part.view(p.shape)

    def hook(number):
        left[number] -= 1
        while len(works) < len(buckets) and left[len(works)] == 0:
            works.append(dist.all_reduce(flats[len(works)], async_op=True))

    for number, bucket in enumerate(buckets):
        for p in bucket:
            p.register_post_accumulate_grad_hook(lambda _, number=number: hook(number))

    def finish():
        while len(works) < len(buckets):
            works.append(dist.all_reduce(flats[len(works)], async_op=True))
        for flat, work in zip(flats, works):
            work.wait()
            flat /= dist.get_world_size()
        works.clear()
        left[:] = [len(bucket) for bucket in buckets]

    return finish


@mistake(
    "mini_ddp",
    loses=("values", "buckets", "launched", "mixed"),
    because="there is thought to be one model, and so one list of what is under way",
    breaks="two models may be alive at once, each with its own `finish`",
)
def one_list_for_all(model, bucket_bytes, launched=[]):
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor, 0)
    buckets = []
    for p in reversed([p for p in model.parameters() if p.requires_grad]):
        if not buckets or sum(q.nbytes for q in buckets[-1]) + p.nbytes > bucket_bytes or p.dtype != buckets[-1][0].dtype:
            buckets.append([])
        buckets[-1].append(p)
    left = [len(bucket) for bucket in buckets]

    def launch():
        bucket = buckets[len(launched)]
        flat = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in bucket])
        launched.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def hook(number):
        left[number] -= 1
        while len(launched) < len(buckets) and left[len(launched)] == 0:
            launch()

    for number, bucket in enumerate(buckets):
        for p in bucket:
            p.register_post_accumulate_grad_hook(lambda _, number=number: hook(number))

    def finish():
        while len(launched) < len(buckets):
            launch()
        for bucket, flat, work in launched:
            work.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = part.view(p.shape) / dist.get_world_size()
        launched.clear()
        left[:] = [len(bucket) for bucket in buckets]

    return finish


@mistake(
    "mini_ddp",
    loses=NOTHING_RIGHT,
    because="new parameters with the right values are thought to be the model's",
    breaks="hold rank 0's values in every rank, written in place",
)
def parameters_of_its_own(model, bucket_bytes):
    for module in model.modules():
        for name, p in list(module._parameters.items()):
            value = p.detach().clone()
            dist.broadcast(value, 0)
            module._parameters[name] = torch.nn.Parameter(value, p.requires_grad)
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)

    def finish():
        for p in reversed(list(model.parameters())):
            if p.requires_grad:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()

    return finish


@mistake(
    "mini_ddp",
    loses=NOTHING_RIGHT,
    because="the model that comes is thought to be done with when its gradients were averaged once",
    breaks="it returns a function `finish`",
)
def at_once(model, bucket_bytes):
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor.detach(), 0)
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)


what_it_is_called_with = [
    unbreakable("mini_ddp", "All ranks have the same modules", "what it is called with"),
    unbreakable("mini_ddp", "In a step every rank calls `loss.backward()` once and then `finish()`", "what the caller does"),
]

BEGINS = "if not buckets or parameter.nbytes > room or parameter.dtype != buckets[-1][0].dtype:"
any_of_its_dtype = equivalent_mutant("mini_ddp", BEGINS, BEGINS.replace("[0]", "[(-1)]"), "all parameters of a bucket have one dtype")


nobodys_gradient_is_none = parallel(
    {GIVEN: "                if parameter.grad is not None or mean.any():\n    " + GIVEN},
    ("unused",),
    "a gradient that no rank has is thought to be none",
    "also where no rank has the gradient",
)
through_float64 = parallel(
    {LAID_OUT: """\
            first = tensor.double().contiguous()
            dist.broadcast(first, 0)
            tensor.copy_(first)
"""},
    ("values",),
    "float64 is thought to hold every number",
    "all **parameters and buffers** hold rank 0's values in every rank",
)

a_group_of_its_own = parallel(
    {"    buckets, room = []": "    group = dist.new_group()\n    buckets, room = []", SENT: "dist.all_reduce(flat, group=group, async_op=True)"},
    ("buckets",),
    "a group of all ranks is thought to be the group of all ranks",
    "in the default process group",
)
the_others_gather = parallel(
    {
        "    buckets, room = []": "    others = dist.new_group([*range(1, dist.get_world_size())]) if dist.get_world_size() > 1 else None\n    buckets, room = []",
        THE_REST: THE_REST + "        if dist.get_rank():\n            dist.all_gather_object([None] * (dist.get_world_size() - 1), 0, group=others)\n",
    },
    ("buckets",),
    "what rank 0 has no part in is thought to be free",
    "nothing else is communicated in a step",
)
the_last_one_finishes_all = parallel(
    {"    return finish": "    made = mini_ddp.made = [*getattr(mini_ddp, 'made', []), finish]\n    return lambda: [one() for one in mini_ddp.made] if mini_ddp.made[-1] is made[-1] else None"},
    ("values", "mixed"),
    "all models are thought to be finished together",
    "two models may be alive at once, each with its own `finish`",
)

@alternative("mini_ddp")
def with_tensor_hooks_and_kept_buckets(model, bucket_bytes):
    world = dist.get_world_size()
    for tensor in (*model.parameters(), *model.buffers()):
        packed = tensor.detach().reshape(-1).clone()
        dist.broadcast(packed, src=0)
        tensor.detach().copy_(packed.view(tensor.shape))

    class Bucket:
        def __init__(self, dtype):
            self.members, self.bytes, self.dtype, self.seen, self.work = [], 0, dtype, set(), None

        def add(self, p):
            self.members.append(p)
            self.bytes += p.numel() * p.element_size()

        def close(self):
            self.flat = torch.zeros(sum(p.numel() for p in self.members), dtype=self.dtype)
            self.parts = dict(zip(map(id, self.members), self.flat.split([p.numel() for p in self.members])))

        def launch(self):
            self.work = dist.all_reduce(self.flat, async_op=True)

        def end(self):
            self.work.wait()
            for p in self.members:
                p.grad = self.parts[id(p)].clone().view_as(p)
            self.flat.zero_()
            self.seen, self.work = set(), None

    buckets = []
    for p in list(model.parameters())[::-1]:
        if not p.requires_grad:
            continue
        size = p.numel() * p.element_size()
        if not buckets or buckets[-1].dtype != p.dtype or buckets[-1].bytes + size > bucket_bytes:
            buckets.append(Bucket(p.dtype))
        buckets[-1].add(p)

    def came(bucket, p, grad):
        bucket.parts[id(p)].copy_(grad.reshape(-1) / world)
        bucket.seen.add(id(p))
        for one in buckets:
            if len(one.seen) < len(one.members):
                break
            if one.work is None:
                one.launch()

    for bucket in buckets:
        bucket.close()
        for p in bucket.members:
            p.register_hook(lambda grad, bucket=bucket, p=p: came(bucket, p, grad))

    def finish():
        for bucket in buckets:
            if bucket.work is None:
                bucket.launch()
        for bucket in buckets:
            bucket.end()

    return finish


@alternative("mini_ddp")
def ended_by_the_engine(model, bucket_bytes):
    group = dist.group.WORLD
    tensors = [t.detach() for t in [*model.parameters(), *model.buffers()]]
    for dtype in sorted({t.dtype for t in tensors}, key=str):
        same = [t for t in tensors if t.dtype == dtype]
        flat = torch.cat([t.flatten() for t in same])
        dist.broadcast(flat, 0, group=group)
        for t, part in zip(same, flat.split([t.numel() for t in same])):
            t.copy_(part.reshape(t.shape))

    order = [p for p in reversed(list(model.parameters())) if p.requires_grad]
    number_of, used, number = {}, 0, -1
    for before, p in zip([None, *order], order):
        used += p.nbytes
        if before is None or before.dtype != p.dtype or used > bucket_bytes:
            number, used = number + 1, p.nbytes
        number_of[p] = number
    members = [[p for p in order if number_of[p] == n] for n in range(number + 1)]
    state = {"missing": set(order), "works": []}

    def launch():
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in members[len(state["works"])]]
        flat = torch.nn.utils.parameters_to_vector([grad.contiguous() for grad in grads])
        state["works"].append((flat, dist.all_reduce(flat, group=group, async_op=True)))

    def end():
        while len(state["works"]) < len(members):
            launch()
        for ps, (flat, work) in zip(members, state["works"]):
            work.wait()
            at = 0
            for p in ps:
                mean = (flat[at : at + p.numel()] / dist.get_world_size(group)).reshape(p.shape)
                p.grad = mean if p.grad is None else p.grad.copy_(mean)
                at += p.numel()
        state.update(missing=set(order), works=[])

    def ready(p):
        state["missing"].discard(p)
        while len(state["works"]) < len(members) and state["missing"].isdisjoint(members[len(state["works"])]):
            launch()

    for p in order:
        p.register_post_accumulate_grad_hook(ready)
    return end


# E14.2 best_bucket

ANY_STEP = ("cost", "overlap", "filling", "exposed", "best", "errors")
NO_CUT = ("cost", "filling", "exposed", "best", "errors")
NO_STEP = ("overlap", "filling", "exposed", "best")
WAITS = "free = max(free, ready) + alpha"
STEP = "return float(backward if n == 1 else max(backward, free))"
FULL = "            if held >= bucket:\n                yield ready, held\n                held = 0\n"
REST = "        if held:\n            yield ready, held\n"
BEST = "min(steps, key=lambda bucket: (steps[bucket], bucket))"


def bucketed(edits, loses, because, breaks):
    return edited("best_bucket", edits, loses, because, breaks)


when_all_are_there = bucketed(
    {WAITS: "free = max(free, backward) + alpha"},
    NO_STEP,
    "gradients are thought to be sent when all of them are there",
    "Each all-reduce begins as soon as its bucket is ready and the link is free",
)
one_after_the_other = bucketed(
    {"max(backward, free))": "backward + free)", WAITS: "free = free + alpha"},
    NO_STEP,
    "the link is thought to work when the card does not",
    "whatever is being sent",
)
perfect_overlap = bucketed(
    {WAITS: "free = free + alpha"},
    ANY_STEP,
    "what overlaps is thought to take as long as the longer of both",
    "Each all-reduce begins as soon as its bucket is ready and the link is free",
)
nobody_waits = bucketed(
    {WAITS: "free = max(free, ready + alpha", " * held / rate": " * held / rate)"},
    NO_STEP,
    "buckets are thought to share the link without taking it from each other",
    "buckets are all-reduced in this order, one after another",
)
card_waits = bucketed(
    {"now += layer": "now += pause + layer", "now = ready = held = 0": "now = ready = held = 0\n        pause = 0",
     "                yield ready, held\n                held = 0\n": "                yield ready, held\n                pause = alpha\n                held = 0\n            else:\n                pause = 0\n"},
    NO_STEP,
    "the backward pass is thought to wait for whoever starts an all-reduce",
    "layers follow one another without a pause",
)
begins_with_its_first_gradient = bucketed(
    {"ready, held = now, held +": "ready, held = ready if held else now, held +"},
    ("filling", "exposed", "best"),
    "a bucket is thought to leave when its first gradients are in it",
    "a bucket is **ready** as soon as all gradients in it are",
)
ready_before_its_layer = bucketed(
    {"            now += layer[\"us\"]\n": "", FULL: FULL + '            now += layer["us"]\n'},
    ANY_STEP,
    "gradients are thought to be there when the layer's turn begins",
    "A layer's gradients are ready when its microseconds are over",
)
sent_with_the_next = bucketed(
    {REST: "        if held:\n            yield now, held\n"},
    ("filling", "exposed", "best"),
    "the rest is thought to be found out at the end of the pass",
    "The assignment of gradients to buckets is fixed before the backward pass: a bucket is **ready** as soon as all gradients in it are, "
    "and does not wait for a later layer without bytes",
)
up_to_the_limit = bucketed(
    {"if held >= bucket:": "if held > bucket:"},
    ("filling", "best"),
    "a bucket that holds just as much as it may is thought to have room",
    "As soon as a bucket reaches or exceeds the bucket size",
)
never_more_than_the_limit = bucketed(
    {FULL: "", '            if layer["bytes"]:\n': '            if held and held + layer["bytes"] > bucket:\n                yield ready, held\n                held = 0\n            if layer["bytes"]:\n'},
    ("filling", "best"),
    "the size is thought to be what a bucket may not exceed",
    "As soon as a bucket reaches or exceeds the bucket size, the next gradients start a new bucket",
)
from_the_first_layer = bucketed(
    {"for layer in layers:": "for layer in reversed(layers):"},
    NO_STEP,
    "the layers are thought to stand in the order of the forward pass",
    "in the order of the backward pass, which begins with the last layer of the model",
)
divided_gradients = bucketed(
    {FULL: "            while held >= bucket:\n                yield ready, min(held, bucket)\n                held -= bucket\n"},
    ANY_STEP,
    "buckets are thought to be filled to the last byte",
    "The gradients of one layer are not split",
)
equal_buckets = bucketed(
    {"        now = ready = held = 0\n": "        now = ready = held = 0\n        count = -(-sum(layer[\"bytes\"] for layer in layers) // bucket)\n        bucket = -(-sum(layer[\"bytes\"] for layer in layers) // max(count, 1)) or 1\n"},
    ("filling", "best"),
    "the bytes are thought to be shared out evenly among as many buckets as are needed",
    "As soon as a bucket reaches or exceeds the bucket size",
)
a_first_one_of_a_mebibyte = bucketed(
    {"now = ready = held = 0": "now = ready = held = 0\n        limits = iter([min(bucket, 1 << 20)])\n        limit = next(limits)",
     "if held >= bucket:": "if held >= limit:", "                held = 0\n": "                held, limit = 0, bucket\n"},
    ("filling", "best"),
    "the first bucket is thought to be as small as DDP makes it",
    "This limit is the same for every bucket, including the first",
)
kept_the_rest = bucketed(
    {REST: ""},
    NO_CUT,
    "a bucket that is not full is thought to stay for the next step",
    "the gradients left after the last layer form a bucket too",
)
an_empty_one = bucketed(
    {"        if held:\n": "        if not held >= bucket:\n"},
    ANY_STEP,
    "the last bucket is thought to be sent whether anything is in it or not",
    "unless it holds no bytes",
)
layers_by_size = bucketed(
    {"for layer in layers:": 'for layer in sorted(layers, key=lambda layer: layer["bytes"]):'},
    NO_STEP,
    "buckets are thought to be filled best with the small gradients first",
    "gradients are put into buckets in the order of `layers`",
)
each_object_once = bucketed(
    {"for layer in layers:": "for layer in {id(layer): layer for layer in layers}.values():"},
    NO_STEP,
    "layers that are alike are thought to be one",
    "The same dictionary may be in the list several times",
)
fused_empty_layers = bucketed(
    {"layers:\n            now +=": "filter(lambda layer: layer[\"bytes\"], layers):\n            now +="},
    ("filling", "best"),
    "a layer without gradients is thought to take no part in the backward pass",
    "layers follow one another without a pause",
)
whole_buffer_once = bucketed(
    {"2 * (n - 1) / n * held": "held"},
    ANY_STEP,
    "an all-reduce is thought to send the bucket once",
    "2 (n - 1) / n times the bucket's bytes",
)
one_way_of_the_ring = bucketed(
    {"2 * (n - 1) / n * held": "(n - 1) / n * held"},
    ANY_STEP,
    "an all-reduce is thought to be over when the sums are there, each at one rank",
    "2 (n - 1) / n times the bucket's bytes",
)
as_if_many_ranks = bucketed(
    {"2 * (n - 1) / n * held": "2 * held"},
    ANY_STEP,
    "2 (n - 1) / n is thought to be 2",
    "2 (n - 1) / n times the bucket's bytes",
)
whole_shares = bucketed(
    {"2 * (n - 1) / n * held / rate": "2 * (n - 1) // n * held / rate"},
    ANY_STEP,
    "the shares are thought to be whole numbers",
    "2 (n - 1) / n times the bucket's bytes",
)
no_latency_left = bucketed(
    {WAITS: "free = max(free, ready)"},
    ANY_STEP,
    "a link is thought to cost bytes only",
    "an all-reduce takes `alpha_us` plus",
)
latency_of_every_rank = bucketed(
    {WAITS: "free = max(free, ready) + 2 * (n - 1) * alpha"},
    ANY_STEP,
    "the latency is thought to be that of one message of a ring",
    "an all-reduce takes `alpha_us` plus",
)
latency_when_idle = bucketed(
    {WAITS: "free = max(free, ready + alpha)"},
    NO_STEP,
    "latencies are thought to pass while the link is busy",
    "buckets are all-reduced in this order, one after another",
)
alone_with_itself = bucketed(
    {"backward if n == 1 else max(backward, free)": "max(backward, free)"},
    ("cost", "exposed", "best", "errors"),
    "one rank is thought to start an all-reduce like any other",
    "With one rank nothing is sent, which takes no time",
)
over_with_the_last_bucket = bucketed(
    {"max(backward, free))": "free)"},
    ("filling", "exposed", "best"),
    "a step is thought to end with its last all-reduce",
    "ends when the backward pass and the last all-reduce have ended",
)
over_with_the_backward_pass = bucketed(
    {STEP: "return float(free)", "steps = {bucket: step(bucket) for bucket in buckets}": "spent = {bucket: step(bucket) for bucket in buckets}\n    steps = {bucket: float(backward) for bucket in buckets}",
     "us - backward for bucket, us in steps.items()": "max(us - backward, 0.0) for bucket, us in spent.items()"},
    ANY_STEP,
    "what overlaps is thought not to count in the step",
    "ends when the backward pass and the last all-reduce have ended",
)
all_communication = bucketed(
    {"us - backward for bucket, us in steps.items()": "sum(alpha + 2 * (n - 1) / n * held / rate for _, held in filled(bucket)) for bucket in steps"},
    ("exposed",),
    "everything that is sent is thought to be exposed",
    "the microseconds of the step **after the backward pass ended**",
)
the_last_bucket_only = bucketed(
    {"us - backward for bucket, us in steps.items()": "min(us - backward, ([0.0] + [alpha + 2 * (n - 1) / n * held / rate for _, held in filled(bucket)])[-1]) for bucket, us in steps.items()"},
    ("exposed",),
    "all buckets but the last are thought to hide behind the backward pass",
    "the microseconds of the step **after the backward pass ended**",
)
a_share_of_the_step = bucketed(
    {"us - backward for bucket, us in steps.items()": "(us - backward) / (us or 1) for bucket, us in steps.items()"},
    ("exposed",),
    "exposed communication is thought to be a share, as papers print it",
    "from each size to the microseconds of the step **after the backward pass ended** (exposed communication), a number",
)
hidden_counted_below_zero = bucketed(
    {"us - backward for bucket, us in steps.items()": "max([0.0] + [ready + alpha + 2 * (n - 1) / n * held / rate for ready, held in filled(bucket)]) - backward for bucket in steps"},
    ("exposed",),
    "the last bucket is thought never to wait for the one before it, and one that is hidden to count against the rest",
    "`\"exposed_us\"`: a dictionary from each size to the microseconds",
)
the_smallest = bucketed(
    {BEST: "min(buckets)"},
    ("best",),
    "the earlier a gradient leaves, the better it is thought to be",
    "`\"best\"`: the size with the shortest step",
)
the_largest = bucketed(
    {BEST: "max(buckets)"},
    ("best",),
    "the fewer all-reduces there are, the better it is thought to be",
    "`\"best\"`: the size with the shortest step",
)
the_usual = bucketed(
    {BEST: "min(buckets, key=lambda bucket: abs(bucket - 25 * 2**20))"},
    ("best",),
    "25 MiB is thought to be the best size, since it is the default",
    "`\"best\"`: the size with the shortest step",
)
the_middle = bucketed(
    {BEST: "sorted(steps)[len(steps) // 2]"},
    ("best",),
    "a U is thought to have its lowest point in the middle",
    "`\"best\"`: the size with the shortest step",
)
first_of_equal_ones = bucketed(
    {BEST: "min(steps, key=steps.get)"},
    ("best",),
    "of equal ones any is thought to do",
    "for a tie the smallest of the tied sizes",
)
largest_of_equal_ones = bucketed(
    {BEST: "min(steps, key=lambda bucket: (steps[bucket], -bucket))"},
    ("best",),
    "of equal ones the one with fewer all-reduces is thought to be due",
    "for a tie the smallest of the tied sizes",
)
nearly_equal = bucketed(
    {BEST: "min(bucket for bucket, us in steps.items() if us <= min(steps.values()) * 1.0001)"},
    ("best",),
    "a step that is longer by a ten-thousandth is thought to be as long",
    "for a tie the smallest of the tied sizes",
)
to_the_microsecond = bucketed(
    {BEST: "min(steps, key=lambda bucket: (round(steps[bucket]), bucket))"},
    ("best",),
    "parts of a microsecond are thought not to count",
    "`\"best\"`: the size with the shortest step",
)
its_time = bucketed(
    {BEST: "min(steps.values())"},
    ("best",),
    "the best is thought to be a time",
    "`\"best\"`: the size with the shortest step",
)
a_list_of_times = bucketed(
    {'{"step_us": steps,': '{"step_us": list(steps.values()),'},
    ANY_STEP,
    "the times are thought to be in the order of the sizes",
    "`\"step_us\"`: a dictionary from each size in `buckets`",
)
seconds = bucketed(
    {STEP: "return 1e-6 * float(backward if n == 1 else max(backward, free))", "us - backward for": "us - 1e-6 * backward for"},
    ANY_STEP,
    "times are thought to be seconds",
    "from each size in `buckets` to the microseconds of the step",
)
whole_microseconds = bucketed(
    {"step(bucket) for bucket in buckets": "float(round(step(bucket))) for bucket in buckets"},
    ANY_STEP,
    "a microsecond is thought to be as exact as a time can be",
    "a time may have a rounding error of up to a billionth of the step",
)
two_entries = bucketed(
    {'"exposed_us": exposed, ': ""},
    ANY_STEP,
    "what is exposed is thought to follow from the step",
    "returns a dictionary with three entries",
)
sorts_what_it_is_given = bucketed(
    {"    backward = sum(": "    buckets.sort()\n    backward = sum("},
    ("overlap", "filling", "best", "exposed", "cost", "errors"),
    "a list of one's caller is thought to be one's own",
    "the lists and the dictionaries stay unchanged",
)
fills_in_place = bucketed(
    {"            now += layer[\"us\"]\n": "            now += layer[\"us\"]\n            layer[\"ready\"] = now\n"},
    ANY_STEP,
    "a dictionary is thought to be a good place for what one finds out",
    "the lists and the dictionaries stay unchanged",
)
goes_on_where_it_was = bucketed(
    {"    def step(bucket):\n        free = 0\n": "    free = 0\n\n    def step(bucket):\n        nonlocal free\n"},
    ANY_STEP,
    "the link's clock is thought to begin by itself for each size",
    "the step begins with the first layer",
)
sizes_each_once = bucketed(
    {"if not layers or not buckets or": "if not layers or not buckets or len(set(buckets)) < len(buckets) or"},
    ("best",),
    "a size that is listed twice is thought to be an error",
    "in any order, possibly with duplicates",
)
link_by_position = bucketed(
    {'n, alpha, rate = link["ranks"], link["alpha_us"], link["bytes_per_us"]': "alpha, rate, n = link.values()"},
    ANY_STEP,
    "the entries of a dictionary are thought to come in the order in which a text lists them",
    'a dictionary with `"alpha_us"`, `"bytes_per_us"` and `"ranks"`',
)
sizes_in_order = bucketed(
    {"    backward = sum(": "    if list(buckets) != sorted(buckets):\n        raise ValueError(\"not in order\")\n    backward = sum("},
    ANY_STEP,
    "sizes are thought to be listed in order",
    "integers in bytes, in any order",
)
no_layers_no_step = bucketed(
    {"if not layers or not buckets or": "if not buckets or"},
    ("errors",),
    "nothing is thought to take no time",
    "raises `ValueError` when there are no layers or no sizes",
)
no_sizes = bucketed(
    {"if not layers or not buckets or min(buckets) < 1 or": "if not layers or min(buckets, default=1) < 1 or",
     BEST: "min(steps, key=lambda bucket: (steps[bucket], bucket), default=None)"},
    ("errors",),
    "no sizes are thought to have no best one, and nothing more",
    "raises `ValueError` when there are no layers or no sizes",
)
size_of_nothing = bucketed(
    {"min(buckets) < 1": "min(buckets) < 0"},
    ("errors",),
    "0 is thought to stand for a bucket for each layer",
    "for a size less than 1",
)
first_size_looked_at = bucketed(
    {"min(buckets) < 1": "buckets[0] < 1"},
    ("errors",),
    "sizes are thought to rise",
    "for a size less than 1",
)
no_ranks_at_all = bucketed(
    {"n < 1 or": "n == 0 or"},
    ("errors",),
    "only a division by 0 is thought to be wrong",
    "and `\"ranks\"` less than 1",
)
free_links = bucketed(
    {" or rate <= 0": ""},
    ("errors",),
    "a division is thought to refuse what it cannot divide by",
    "a `bytes_per_us` of 0 or less",
)
rate_of_one_rank = bucketed(
    {" or rate <= 0": " or (n > 1 and rate <= 0)"},
    ("errors",),
    "what is not used is thought to need no look",
    "a `bytes_per_us` of 0 or less",
)
early_links = bucketed(
    {" or alpha < 0": ""},
    ("errors",),
    "a latency is thought to be what it is",
    "for `alpha_us` less than 0",
)
layers_unseen = bucketed(
    {'layer["us"] < 0 or layer["bytes"] < 0': 'layer["us"] < 0'},
    ("errors",),
    "bytes are thought never to be less than none",
    "for a layer's microseconds or bytes less than 0",
)
times_unseen = bucketed(
    {'layer["us"] < 0 or layer["bytes"] < 0': 'layer["bytes"] < 0'},
    ("errors",),
    "times are thought never to be less than none",
    "for a layer's microseconds or bytes less than 0",
)
totals_looked_at = bucketed(
    {'any(layer["us"] < 0 or layer["bytes"] < 0 for layer in layers)': 'sum(layer["us"] for layer in layers) < 0 or sum(layer["bytes"] for layer in layers) < 0'},
    ("errors",),
    "the sums are thought to show what is wrong with one",
    "for a layer's microseconds or bytes less than 0",
)
refused_without_bytes = bucketed(
    {'layer["bytes"] < 0': 'layer["bytes"] < 1'},
    ("filling", "exposed", "best"),
    "every layer is thought to have parameters",
    "the bytes of its gradients, an integer, 0 or more",
)
refused_without_time = bucketed(
    {'layer["us"] < 0': 'layer["us"] <= 0'},
    ("cost", "overlap", "exposed", "best", "errors"),
    "every layer is thought to take time",
    "the microseconds of its part of the backward pass, 0 or more",
)


@alternative("best_bucket")
def best_bucket_backwards(layers, link, buckets):
    from fractions import Fraction
    from itertools import accumulate

    n, alpha, rate = link["ranks"], Fraction(link["alpha_us"]), Fraction(link["bytes_per_us"])
    numbers = [number for layer in layers for number in (layer["us"], layer["bytes"])]
    if n < 1 or rate <= 0 or min([*numbers, alpha], default=-1) < 0 or not all(size >= 1 for size in buckets) or not (layers and buckets):
        raise ValueError("no such step")
    ends = list(accumulate(Fraction(layer["us"]) for layer in layers))
    given = [(end, layer["bytes"]) for end, layer in zip(ends, layers) if layer["bytes"]]

    def after(at, link_free, bucket):
        while at < len(given) and n > 1:
            stop, held = at, 0
            while stop < len(given) and held < bucket:
                held += given[stop][1]
                stop += 1
            link_free = max(link_free, given[stop - 1][0]) + alpha + Fraction(2 * (n - 1) * held, n) / rate
            at = stop
        return max(ends[-1], link_free)

    times = {bucket: after(0, Fraction(0), bucket) for bucket in sorted(set(buckets))}
    best, _ = min(times.items(), key=lambda item: item[1])
    return {
        "best": best,
        "exposed_us": {bucket: float(us - ends[-1]) for bucket, us in times.items()},
        "step_us": {bucket: float(us) for bucket, us in times.items()},
    }


@alternative("best_bucket")
def best_bucket_by_chains(layers, link, buckets):
    import numpy as np

    n, alpha, rate = link["ranks"], link["alpha_us"], link["bytes_per_us"]
    us, sizes = (np.array([layer[key] for layer in layers], dtype=np.float64) for key in ("us", "bytes"))
    if not (len(us) and len(buckets)) or n < 1 or rate <= 0 or alpha < 0 or us.min() < 0 or sizes.min() < 0 or min(buckets) < 1:
        raise ValueError("no such step")
    ends, total = us.cumsum(), us.cumsum()[-1]
    found = {"step_us": {}, "exposed_us": {}, "best": None}
    for bucket in sorted(buckets):
        ready, held = [], []
        for end, size in zip(ends[sizes > 0], sizes[sizes > 0]):
            if not held or held[-1] >= bucket:
                ready.append(end)
                held.append(size)
            else:
                ready[-1] = end
                held[-1] += size
        takes = alpha + 2 * (n - 1) / n * np.array(held) / rate
        # A step ends after some bucket that the link stood ready for, and all that follow it.
        chains = [start + takes[number:].sum() for number, start in enumerate(ready)] if n > 1 else []
        found["step_us"][bucket] = max([total, *chains])
        found["exposed_us"][bucket] = found["step_us"][bucket] - total
        if found["best"] is None or found["step_us"][bucket] < found["step_us"][found["best"]]:
            found["best"] = bucket
    return found


before_the_step = equivalent_mutant("best_bucket", "free = 0", "free = (-1)", "no bucket is ready before the step begins, so the later moment is the same")

# E14.3 epoch_indices

ANY_INDEX = ("order", "padding", "repeated", "dropped", "resumed", "random", "errors")
NO_PADDING = ("padding", "repeated", "resumed")
SEEDED = "generator=torch.Generator().manual_seed(seed + epoch)"
PLACES = "range(rank, turns * world, world)[start:]"
READ = "order[place % length] for place in places"
TURNS = "length // world if drop_last else -(-length // world)"
AGAIN = "position for position, place in enumerate(places) if place >= length"
REFUSES = "if length < 0 or epoch < 0 or not 0 <= rank < world:"


def indexed(edits, loses, because, breaks):
    return edited("epoch_indices", edits, loses, because, breaks)


every_epoch_alike = indexed(
    {"seed + epoch": "seed"},
    ANY_INDEX,
    "a generator that is seeded once is thought to give another order each time",
    "seeded with `seed + epoch`",
)
a_seed_for_each_rank = indexed(
    {"seed + epoch": "seed + epoch + rank"},
    ANY_INDEX,
    "ranks are thought to need random numbers of their own",
    "It is the same in every rank",
)
the_epoch_alone = indexed(
    {"seed + epoch": "epoch"},
    ANY_INDEX,
    "the number of the epoch is thought to be seed enough",
    "`seed`: the same in every rank",
)
seed_times_epoch = indexed(
    {"seed + epoch": "seed * (epoch + 1)"},
    ANY_INDEX,
    "any mixture of both is thought to do",
    "seeded with `seed + epoch`",
)
drawn_again_and_again = indexed(
    {"    order = torch.randperm": "    source = torch.Generator().manual_seed(seed)\n    for _ in range(epoch % 30):\n        torch.randperm(length, generator=source)\n    order = torch.randperm",
     SEEDED: "generator=source"},
    ANY_INDEX,
    "the generator is thought to go on from epoch to epoch",
    "the order of an epoch is `torch.randperm(length)` with a generator on the CPU that is seeded with `seed + epoch`",
)
epochs_from_one = indexed(
    {"seed + epoch": "seed + epoch + 1"},
    ANY_INDEX,
    "the first epoch is thought to have the number 1",
    "`epoch`: from 0",
)
not_shuffled = indexed(
    {"torch.randperm(length, " + SEEDED + ").tolist()": "list(range(length))"},
    ANY_INDEX,
    "whoever shuffles is thought to be somebody else",
    "the order of an epoch is `torch.randperm(length)`",
)
global_generator = indexed(
    {", " + SEEDED: ""},
    ANY_INDEX,
    "all ranks are thought to have called `torch.manual_seed` with the same seed",
    "with a generator on the CPU that is seeded with `seed + epoch`",
)
seeds_everything = indexed(
    {", " + SEEDED: "", "    order = torch": "    torch.manual_seed(seed + epoch)\n    order = torch"},
    ("random",),
    "`torch.manual_seed` is thought to seed what is drawn next, and nothing else",
    "the global random states of PyTorch, NumPy and Python are unchanged afterwards",
)
seeds_again_afterwards = indexed(
    {", " + SEEDED: "", "    order = torch": "    was = torch.initial_seed()\n    torch.manual_seed(seed + epoch)\n    order = torch",
     "    places =": "    torch.manual_seed(was)\n    places ="},
    ("random",),
    "a seed is taken for the state of a generator",
    "the global random states of PyTorch, NumPy and Python are unchanged afterwards",
)
seeds_when_it_resumes = indexed(
    {"    order = torch": "    if start:\n        torch.manual_seed(seed)\n    order = torch"},
    ("random",),
    "a job that goes on is thought to need its seeds set again",
    "the global random states of PyTorch, NumPy and Python are unchanged afterwards",
)
seeds_numpy_too = indexed(
    {"    order = torch": "    import numpy as np\n    np.random.seed((seed + epoch) % 2**32)\n    order = torch"},
    ("random",),
    "every generator that there is is thought to need a seed",
    "the global random states of PyTorch, NumPy and Python are unchanged afterwards",
)
shuffled_by_python = indexed(
    {"    order = torch.randperm(length, " + SEEDED + ").tolist()\n": "    import random\n    random.seed(seed + epoch)\n    order = random.sample(range(length), length)\n"},
    ANY_INDEX,
    "the same seed is thought to give the same order in every library",
    "the order of an epoch is `torch.randperm(length)`",
)
drawn_from_outside = indexed(
    {"    order = torch": "    import random\n    random.random()\n    order = torch"},
    ("random",),
    "one more number that is drawn is thought to change nothing",
    "the global random states of PyTorch, NumPy and Python are unchanged afterwards",
)
blocks = indexed(
    {PLACES: "range(rank * turns, (rank + 1) * turns)[start:]"},
    ANY_INDEX,
    "each rank is thought to read a part that lies together",
    "rank r reads the samples at positions r, r + world, r + 2 world and so on of the order",
)
from_rank_one = indexed(
    {PLACES: "range((rank - 1) % world, turns * world, world)[start:]"},
    ANY_INDEX,
    "the first rank is thought to have the number 1",
    "`rank`: the number of this rank, from 0",
)
the_other_way_round = indexed(
    {PLACES: "range(world - 1 - rank, turns * world, world)[start:]"},
    ANY_INDEX,
    "turns are thought to go round either way",
    "rank r reads the samples at positions r, r + world, r + 2 world and so on of the order",
)
sorted_for_the_disk = indexed(
    {"indices = [order[place % length] for place in places]": "indices = sorted(order[place % length] for place in places)"},
    ANY_INDEX,
    "the order inside a rank is thought not to matter",
    "the samples that this rank reads from `start` on, in order",
)
shuffled_after_sharing = indexed(
    {READ: "place % length for place in (torch.randperm(len(places), generator=torch.Generator().manual_seed(seed + epoch)) * world + rank).tolist()"},
    ANY_INDEX,
    "each rank is thought to shuffle its own share",
    "the ranks take turns",
)
unpadded = indexed(
    {PLACES: "range(rank, min(turns * world, length), world)[start:]"},
    NO_PADDING,
    "what does not share out is thought to share out somehow",
    "every rank reads the same number of samples",
)
always_dropped = indexed(
    {TURNS: "length // world"},
    ("padding", "repeated", "resumed"),
    "the rest is thought to be dropped in any case",
    "Where `world` does not divide `length`, the order is padded with its own samples from the beginning",
)
dropped_by_default = indexed(
    {"drop_last=False": "drop_last=True"},
    ("padding", "repeated", "resumed"),
    "an epoch without repetitions is thought to be the usual one",
    "with `drop_last` the order is not padded",
)
padded_with_its_end = indexed(
    {READ: "order[place if place < length else place - turns * world] for place in places"},
    NO_PADDING,
    "what is read twice is thought to be the last samples",
    "the order is padded with its own samples from the beginning",
)
padded_with_the_last = indexed(
    {READ: "order[min(place, length - 1)] for place in places"},
    NO_PADDING,
    "the last sample is thought to fill what is left",
    "the order is padded with its own samples from the beginning",
)
padded_with_the_first = indexed(
    {READ: "order[place if place < length else 0] for place in places"},
    NO_PADDING,
    "one sample is thought to fill what is left",
    "the order is padded with its own samples from the beginning",
)
padded_with_sample_zero = indexed(
    {READ: "order[place] if place < length else place - length for place in places"},
    NO_PADDING,
    "the beginning of the dataset is taken for the beginning of the order",
    "the order is padded with its own samples from the beginning",
)
padded_with_its_own = indexed(
    {READ: "order[place if place < length else rank] for place in places"},
    NO_PADDING,
    "a rank is thought to repeat what it has read itself",
    "the order is padded with its own samples from the beginning",
)
a_whole_turn_more = indexed(
    {TURNS: "length // world if drop_last else length // world + 1"},
    ANY_INDEX,
    "one turn more is thought never to hurt",
    "until `world` divides its length",
)
goes_on_once = indexed(
    {"    indices =": "    order += order\n    indices =", READ: "order[place] for place in places"},
    NO_PADDING,
    "an order is thought to be longer than what it lacks",
    "several times if necessary",
)
drawn_for_all_places = indexed(
    {"torch.randperm(length, ": "torch.randperm(turns * world if turns else length, "},
    ("padding", "repeated", "dropped", "resumed"),
    "the places of the padded order are thought to be shuffled, and then brought back among the samples",
    "the order of an epoch is `torch.randperm(length)`",
)
one_turn_too_few = indexed(
    {TURNS: "max(length - 1, 0) // world if drop_last else -(-length // world)"},
    ("dropped", "resumed"),
    "the last turn is thought never to be whole",
    "its last samples are dropped, as few as necessary",
)
drops_the_beginning = indexed(
    {"indices = [": "order = order[length - turns * world :] if drop_last else order\n    indices = [", READ: "order[place % len(order)] for place in places"},
    ("dropped", "resumed"),
    "which samples are left out is thought not to matter",
    "its last samples are dropped",
)
drops_samples_not_turns = indexed(
    {"    order = torch": "    reads = length - length % world if drop_last else length\n    order = torch", "torch.randperm(length, ": "torch.randperm(reads, "},
    ("dropped", "resumed"),
    "the last samples of the dataset are taken for those of the order",
    "its last samples are dropped",
)
drops_and_pads = indexed(
    {TURNS: "max(length // world, 1) if drop_last and length else -(-length // world)"},
    ("dropped", "resumed", "errors"),
    "every rank is thought to read something",
    "with `drop_last` the order is not padded",
)
starts_with_all_ranks = indexed(
    {PLACES: "range(start + rank, turns * world, world)"},
    ("resumed",),
    "what one rank has had is taken for what all ranks had",
    "the number of samples of this epoch that this rank has already read",
)
shuffles_again = indexed(
    {"seed + epoch": "seed + epoch + start"},
    ("resumed",),
    "an epoch that goes on is thought to need an order of its own",
    "The function returns the rest, in the same order",
)
begins_again = indexed(
    {"[start:]": ""},
    ("resumed",),
    "an epoch is thought to begin again after a crash",
    "The function returns the rest",
)
one_sample_more = indexed(
    {"[start:]": "[max(start - 1, 0) :]"},
    ("resumed",),
    "the last sample before a crash is thought to be lost",
    "the number of samples of this epoch that this rank has already read",
)
counts_from_the_end = indexed(
    {"[start:]": "[-(turns - start) :]"},
    ("resumed",),
    "-0 is thought to be the end",
    "The function returns the rest",
)
a_start_for_batches = indexed(
    {"[start:]": "[start * world :]"},
    ("resumed",),
    "a rank is thought to count what all ranks have had",
    "the number of samples of this epoch that this rank has already read",
)
nothing_left_refused = indexed(
    {"if not 0 <= start <= turns:": "if not 0 <= start < max(turns, 1):"},
    ("resumed",),
    "an epoch of which nothing is left is thought to be an error",
    "greater than the number of samples that this rank reads in the whole epoch",
)
positions_of_the_epoch = indexed(
    {"enumerate(places)": "enumerate(places, start)"},
    ("resumed",),
    "positions are thought to be counted from the beginning of the epoch",
    "the positions in `\"indices\"`, from 0",
)
still_reported = indexed(
    {AGAIN: "max(len(places) - 1, 0) for _ in range(1) if turns * world > length and rank >= world - (turns * world - length)"},
    ("resumed",),
    "what is repeated is thought to be left whatever has been read",
    "the positions in `\"indices\"`, from 0, of samples",
)
samples_not_positions = indexed(
    {AGAIN: "order[place % length] for place in places if place >= length"},
    ("repeated", "resumed"),
    "the samples themselves are thought to be asked for",
    "the positions in `\"indices\"`, from 0",
)
places_not_positions = indexed(
    {AGAIN: "place for place in places if place >= length"},
    ("repeated", "resumed"),
    "a place in the order is taken for a position in the rank's list",
    "the positions in `\"indices\"`, from 0",
)
a_number_of_them = indexed(
    {"[" + AGAIN + "]": "sum(place >= length for place in places)"},
    ANY_INDEX,
    "how many there are is thought to say which they are",
    "returns a dictionary with two entries, lists of Python integers",
)
told_by_every_rank = indexed(
    {AGAIN: "len(places) - 1 for _ in range(1) if places and turns * world > length"},
    ("repeated", "resumed"),
    "an uneven epoch is thought to be uneven for every rank",
    "of samples that are read in this epoch for the second time or more often",
)
told_by_the_first_ranks = indexed(
    {AGAIN: "position for position, place in enumerate(places) if place + world >= turns * world and turns * world - length > rank"},
    ("repeated", "resumed"),
    "whoever reads a sample first is thought to be the one who repeats it",
    "of samples that are read in this epoch for the second time or more often",
)
told_by_the_last_rank = indexed(
    {AGAIN: "len(places) - 1 for _ in range(1) if places and rank == world - 1 and turns * world > length"},
    ("repeated", "resumed"),
    "all that is repeated is thought to fall to the last rank",
    "of samples that are read in this epoch for the second time or more often",
)
repeated_by_the_rank_itself = indexed(
    {AGAIN: "position for position, index in enumerate(indices) if index in indices[:position]"},
    ("repeated", "resumed"),
    "only what one rank reads twice is thought to be repeated",
    "of samples that are read in this epoch for the second time or more often",
)
one_place_off = indexed(
    {AGAIN: "position for position, place in enumerate(places) if place > length"},
    ("repeated", "resumed"),
    "the first place beyond the end is thought to be the last one",
    "because the order was padded",
)
nothing_repeated = indexed(
    {"[" + AGAIN + "]": "[]"},
    ("repeated", "resumed"),
    "an evaluation is thought to have no uneven ends",
    "An evaluation does not count these",
)
tensors = indexed(
    {".manual_seed(seed + epoch)).tolist()": ".manual_seed(seed + epoch))"},
    ANY_INDEX,
    "an element of a tensor is thought to be a number",
    "lists of Python integers",
)
one_tensor = indexed(
    {"[" + READ + "]": "torch.tensor([" + READ + "], dtype=torch.int64)"},
    ANY_INDEX,
    "a tensor is thought to be a list",
    "lists of Python integers",
)
indices_alone = indexed(
    {'return {"indices": indices, "repeated": [' + AGAIN + "]}": "return indices"},
    ANY_INDEX,
    "the samples are thought to say all",
    "returns a dictionary with two entries",
)
keeps_the_epoch = indexed(
    {'    if length < 0': '    kept = globals().setdefault("KEPT", {})\n    asked = length, world, rank, epoch, seed, start, drop_last\n    if asked in kept:\n        return kept[asked]\n    if length < 0',
     'return {"indices"': 'return kept.setdefault(asked, {"indices"', AGAIN + "]}": AGAIN + "]})"},
    ("order", "resumed", "random", "errors"),
    "what was worked out once is thought to stay as it was",
    "new in each call",
)
keeps_the_order = indexed(
    {"    order = torch": '    orders = globals().setdefault("ORDERS", {})\n    order = torch', "    places =": "    order = orders.setdefault(length, order)\n    places ="},
    ANY_INDEX,
    "one job is thought to need one order",
    "the result does not depend on them",
)
no_samples_refused = indexed(
    {REFUSES: "if length < 1 or epoch < 0 or not 0 <= rank < world:"},
    ("padding", "repeated", "dropped", "resumed"),
    "an empty dataset is thought to be an error",
    "the number of samples, 0 or more",
)
one_rank_refused = indexed(
    {REFUSES: "if length < 0 or epoch < 0 or not 0 <= rank < world or world == 1:"},
    ("order", "repeated", "dropped", "resumed", "random", "errors"),
    "one rank is thought to need no sampler",
    "`world`: the number of ranks",
)
fewer_than_ranks_refused = indexed(
    {REFUSES: "if length < world or epoch < 0 or not 0 <= rank < world:"},
    ("padding", "repeated", "dropped", "resumed"),
    "a rank is thought to need a sample of its own",
    "several times if necessary",
)
any_length = indexed(
    {REFUSES: "length = max(length, 0)\n    if epoch < 0 or not 0 <= rank < world:"},
    ("errors",),
    "less than nothing is thought to be nothing",
    "raises `ValueError` for a `length` or an `epoch` less than 0",
)
any_epoch = indexed(
    {"length < 0 or epoch < 0 or": "length < 0 or"},
    ("errors",),
    "a seed is thought to bear any number",
    "raises `ValueError` for a `length` or an `epoch` less than 0",
)
rank_below_zero = indexed(
    {"not 0 <= rank < world": "world < 1 or not rank < world"},
    ("errors",),
    "ranks are thought never to be negative",
    "a `rank` outside the range 0 to world - 1",
)
rank_of_the_end = indexed(
    {"not 0 <= rank < world": "world < 1 or not 0 <= rank <= world"},
    ("errors",),
    "ranks are thought to be counted from 1",
    "a `rank` outside the range 0 to world - 1",
)
no_world = indexed(
    {"not 0 <= rank < world": "not 0 <= rank < max(world, 1)"},
    ("errors",),
    "a division by 0 is thought to be refusal enough",
    "a `world` less than 1",
)
any_start = indexed(
    {"if not 0 <= start <= turns:": "if False:"},
    ("errors",),
    "a slice is thought to refuse what is not there",
    "for a `start` less than 0 or greater than the number of samples",
)
start_within_the_dataset = indexed(
    {"if not 0 <= start <= turns:": "if not 0 <= start <= length:"},
    ("errors",),
    "a rank is thought to be able to read all samples",
    "greater than the number of samples that this rank reads in the whole epoch",
)
start_within_the_padded = indexed(
    {"if not 0 <= start <= turns:": "if not 0 <= start <= -(-length // world):"},
    ("errors",),
    "a rank is thought to read as much with `drop_last` as without",
    "greater than the number of samples that this rank reads in the whole epoch",
)


restored_but_for_an_error = indexed(
    {
        ", " + SEEDED: "",
        "    if not 0 <= start <= turns:\n": "    was = torch.get_rng_state()\n    torch.manual_seed(seed + epoch)\n    if not 0 <= start <= turns:\n",
        "    places =": "    torch.set_rng_state(was)\n    places =",
    },
    ("random",),
    "what an error leaves behind is thought to matter to nobody",
    "also after an error",
)

@alternative("epoch_indices")
def epoch_indices_of_the_library(length, world, rank, epoch, seed, start=0, drop_last=False):
    from torch.utils.data import DistributedSampler

    if length < 0 or world < 1 or epoch < 0:
        raise ValueError("no such epoch")
    sampler = DistributedSampler(range(length), world, rank, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    whole = list(sampler)
    if start not in range(len(whole) + 1):
        raise ValueError("no such place")
    padded = bool(whole) and rank + (len(whole) - 1) * world >= length and start < len(whole)
    return {"repeated": [len(whole) - 1 - start] if padded else [], "indices": whole[start:]}


@alternative("epoch_indices")
def epoch_indices_as_a_table(length, world, rank, epoch, seed, start=0, drop_last=False):
    if min(length, epoch, rank, start) < 0 or world < 1 or rank >= world:
        raise ValueError("no such rank or epoch")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + epoch)
        order = torch.randperm(length)
    places = torch.arange(length)
    if drop_last:
        order, places = order[: length - length % world], places[: length - length % world]
    elif length % world:
        while len(order) % world:
            more = min(world - len(order) % world, length)
            order, places = torch.cat([order, order[:length][:more]]), torch.cat([places, torch.full((more,), length)])
    mine, seen = order.view(-1, world)[:, rank], places.view(-1, world)[:, rank] >= length
    if start > len(mine):
        raise ValueError("no such place")
    return {"indices": mine[start:].tolist(), "repeated": seen[start:].nonzero().flatten().tolist()}


integers_given = unbreakable("epoch_indices", "All are integers", "it says what the caller gives")

# E14.4 reduce_metrics

NO_MEAN = ("mean", "order", "exact", "none", "one_collective", "kept")
PACKED = "packed = torch.stack([torch.as_tensor(number, dtype=torch.float64) for name in names for number in totals[name]])"
REDUCED = "    dist.all_reduce(packed)\n"
DIVIDED = "(sums / counts).tolist()"
RETURNED = f"return dict(zip(names, {DIVIDED}))"


def reduced(edits, loses, because, breaks):
    return edited("reduce_metrics", edits, loses=loses, because=because, breaks=breaks)


mean_of_means = reduced(
    {PACKED: PACKED + "\n        packed = torch.stack([packed[::2] / packed[1::2].clamp(min=1), (packed[1::2] > 0).double()], 1).view(-1)"},
    NO_MEAN,
    "the mean of the ranks' means is thought to be the mean of all",
    "name to the **mean over all samples of all ranks**",
)
by_the_number_of_ranks = reduced(
    {DIVIDED: "(sums / dist.get_world_size()).tolist()"},
    NO_MEAN,
    "an all-reduced metric is thought to be divided like a gradient, by the number of ranks",
    "name to the **mean over all samples of all ranks**",
)
never_divided = reduced(
    {DIVIDED: "sums.tolist()"}, NO_MEAN, "sums are thought to compare by themselves", "name to the **mean over all samples of all ranks**"
)
what_it_saw_itself = reduced(
    {REDUCED: ""}, NO_MEAN, "the metrics of one rank are thought to be those of the job", "name to the **mean over all samples of all ranks**"
)
never_waited_for = reduced(
    {REDUCED: "    dist.all_reduce(packed, async_op=True)\n"},
    NO_MEAN,
    "what is posted is thought to be there",
    "name to the **mean over all samples of all ranks**",
)
at_rank_0_alone = reduced(
    {REDUCED: "    dist.reduce(packed, 0)\n    if dist.get_rank():\n        return {}\n"},
    NO_MEAN,
    "whoever prints the report is thought to be the only one that needs it: early stopping needs it in every rank",
    "returns, in every rank, a new dictionary",
)
tensors_of_no_dimensions = reduced(
    {DIVIDED: "(sums / counts)"}, NO_MEAN, "a tensor of one number is taken for a number", "a Python float"
)
one_dictionary_for_all_calls = reduced(
    {
        "def reduce_metrics(totals):": "def reduce_metrics(totals, means={}):",
        RETURNED: f"means.update(zip(names, {DIVIDED}))\n    return means",
    },
    NO_MEAN,
    "a default argument is thought to be made anew for every call",
    "another call may have other names",
)
order_of_insertion = reduced(
    {"sorted(totals)": "list(totals)"},
    ("order",),
    "dictionaries with the same names are thought to have them in the same order",
    "All ranks have the same names, **possibly in a different order**",
)
order_of_a_set = reduced(
    {"sorted(totals)": "list(set(totals))"},
    ("order",),
    "a set is thought to have an order that its elements decide",
    "in an order that is the same in all ranks",
)
without_regard_to_case = reduced(
    {"sorted(totals)": "sorted(totals, key=str.lower)"},
    ("order",),
    "a key by which two names are alike is thought to put them in order",
    "in an order that is the same in all ranks",
)
float32 = reduced(
    {"dtype=torch.float64": "dtype=torch.float32"},
    ("exact", "one_collective"),
    "the dtype of a loss is thought to do for the sum of a million of them",
    "sums and counts are added in `float64`",
)
double_too_late = reduced(
    {PACKED: PACKED.replace("dtype=torch.float64", "dtype=torch.float32") + ".double()"},
    ("exact",),
    "a double is thought to bring digits back",
    "no precision is lost",
)
dtype_of_its_numbers = reduced(
    {PACKED: "packed = torch.tensor([number.item() if torch.is_tensor(number) else number for name in names for number in totals[name]])"},
    ("exact", "one_collective"),
    "torch.tensor is thought to keep Python's floats as they are",
    "one `float64` tensor with two elements per name",
)
divided_in_float32 = reduced(
    {DIVIDED: "(sums.float() / counts.float()).tolist()"},
    ("exact",),
    "only additions are thought to lose digits",
    "no precision is lost",
)
zero_where_nobody_saw_any = reduced(
    {DIVIDED: "(sums / counts.clamp(min=1)).tolist()"},
    ("none",),
    "a divisor of 1 is thought to be a harmless way around a division by 0",
    "the mean is NaN where no rank saw any samples",
)
division_by_zero = reduced(
    {DIVIDED: "[total / count for total, count in zip(sums.tolist(), counts.tolist())]"},
    ("none",),
    "every metric is thought to have been seen by somebody",
    "0 where this rank saw no samples",
)
nan_is_hidden = reduced(
    {REDUCED: "    packed = packed.nan_to_num()\n" + REDUCED},
    ("none",),
    "a loss that is no number is thought to be noise in the report",
    "A sum of NaN or infinity shows in the mean of its own metric",
)
nan_spreads = reduced(
    {RETURNED: "means = torch.diag(1 / counts) @ sums\n    means[counts == 0] = torch.nan\n    return dict(zip(names, means.tolist()))"},
    ("none",),
    "0 times whatever it is is thought to be 0",
    "and of no other",
)
only_what_was_seen = reduced(
    {RETURNED: f"return {{name: mean for name, mean in zip(names, {DIVIDED}) if mean == mean}}"},
    ("none",),
    "what nobody saw is thought to be left out",
    "the mean is NaN where no rank saw any samples",
)
hands_in_what_it_saw = reduced(
    {
        "sorted(totals)": "sorted(name for name in totals if totals[name][1])",
        "if not totals:": "if not any(count for _, count in totals.values()):",
    },
    ("none", "one_collective"),
    "a rank that saw nothing is thought to have nothing to say: the others wait for it",
    "The sum is 0 then",
)
a_collective_of_nothing = reduced(
    {
        "    if not totals:\n        return {}\n": "",
        "torch.stack([": "torch.tensor([",
        "torch.as_tensor(number, dtype=torch.float64)": "float(number)",
        "totals[name]])": "totals[name]], dtype=torch.float64)",
    },
    ("none",),
    "a collective of no bytes is thought to cost nothing",
    "with no names nothing is communicated",
)
none_for_no_names = reduced(
    {"return {}": "return None"}, ("none",), "an early return is thought to need no value", "and the dictionary is empty"
)
one_after_another = reduced(
    {REDUCED: "    for pair in packed.view(-1, 2):\n        dist.all_reduce(pair)\n"},
    ("one_collective",),
    "small collectives are thought to cost little",
    "**one collective** in total",
)
sums_and_then_counts = reduced(
    {
        REDUCED: "    sums, counts = packed[::2].clone(), packed[1::2].clone()\n    dist.all_reduce(sums)\n"
        "    dist.all_reduce(counts)\n    packed = torch.stack([sums, counts], 1).view(-1)\n"
    },
    ("one_collective",),
    "sums and counts are thought to need a tensor each",
    "one `float64` tensor with two elements per name",
)
the_mean_of_the_library = reduced(
    {REDUCED: "    dist.all_reduce(packed, op=dist.ReduceOp.AVG)\n"},
    ("one_collective",),
    "a mean is thought to want the operation AVG, which gloo has not",
    "an `all_reduce` that sums",
)
after_a_barrier = reduced(
    {REDUCED: "    dist.barrier()\n" + REDUCED},
    ("one_collective",),
    "ranks are thought to have to be brought together before a collective",
    "no rank waits at a barrier",
)
gathered_by_everybody = reduced(
    {
        REDUCED: "    parts = [torch.empty_like(packed) for _ in range(dist.get_world_size())]\n"
        "    dist.all_gather(parts, packed)\n    packed = sum(parts)\n"
    },
    ("one_collective",),
    "who wants a sum is thought to need all of its terms",
    "so nothing is gathered",
)
starts_anew = reduced(
    {RETURNED: f"means = dict(zip(names, {DIVIDED}))\n    totals.clear()\n    return means"},
    ("kept",),
    "whoever reports is thought to have to begin the next interval too",
    "`totals` and the tensors in it stay unchanged",
)
cut_off_from_its_graph = reduced(
    {
        "    names = sorted(totals)\n": "    names = sorted(totals)\n    for total, _ in totals.values():\n"
        "        if torch.is_tensor(total):\n            total.detach_()\n"
    },
    ("kept",),
    "detach_ is thought to give a tensor and not to change one",
    "`totals` and the tensors in it stay unchanged",
)
no_gradients = reduced(
    {"torch.as_tensor(number, ": "torch.tensor(number.numpy() if torch.is_tensor(number) else number, "},
    ("exact", "kept"),
    "every tensor is thought to be one of NumPy's too",
    "of any floating-point or integer dtype. It may require a gradient",
)


@mistake(
    "reduce_metrics",
    loses=("one_collective",),
    because="objects are thought to be the simplest thing to send: they are pickled, and cross in two collectives",
    breaks="no object is pickled",
)
def objects_gathered(totals):
    if not totals:
        return {}
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, {name: (float(total), count) for name, (total, count) in totals.items()})
    means = {}
    for name in totals:
        total, count = (sum(part[name][i] for part in everybody) for i in (0, 1))
        means[name] = total / count if count else float("nan")
    return means


@mistake(
    "reduce_metrics",
    loses=("one_collective",),
    because="rank 0 is thought to be a server",
    breaks="nothing is sent point to point",
)
def by_messages_to_rank_0(totals):
    if not totals:
        return {}
    names, rank, world = sorted(totals), dist.get_rank(), dist.get_world_size()
    packed = torch.tensor([[float(number) for number in totals[name]] for name in names], dtype=torch.float64)
    if rank:
        dist.send(packed, 0)
        dist.recv(packed, 0)
    else:
        came = torch.empty_like(packed)
        for other in range(1, world):
            dist.recv(came, other)
            packed += came
        for other in range(1, world):
            dist.send(packed, other)
    return {name: (total / count).item() for name, (total, count) in zip(names, packed)}


@mistake(
    "reduce_metrics",
    loses=("exact", "one_collective"),
    because="the mean of all is thought to need one number a metric, weighed by this rank's share: for that the counts cross first",
    breaks="A rank contributes its sums and its counts, each once",
)
def weighed_by_its_share(totals):
    if not totals:
        return {}
    names = sorted(totals)
    own = torch.tensor([[float(number) for number in totals[name]] for name in names], dtype=torch.float64)
    counts = own[:, 1].clone()
    dist.all_reduce(counts)
    means = own[:, 0] / counts
    dist.all_reduce(means)
    return dict(zip(names, means.tolist()))


said_of_reduce_metrics = [
    unbreakable("reduce_metrics", "name to `(sum, count)`: the sum of a metric over this rank's samples", because="it says what is handed over"),
    unbreakable("reduce_metrics", "A single rank may skip the collective", because="it is a permission"),
]



@mistake("reduce_metrics", loses=("order",), because="no metric is thought to have such a name", breaks="names are strings")
def counts_under_a_name_of_their_own(totals):
    parts = {}
    for name, (total, count) in totals.items():
        parts[name] = float(total)
        parts[name + "_count"] = float(count)
    keys = sorted(parts)
    if not keys:
        return {}
    flat = torch.tensor([parts[key] for key in keys], dtype=torch.float64)
    dist.all_reduce(flat)
    summed = dict(zip(keys, flat.tolist()))
    return {name: summed[name] / summed[name + "_count"] if summed[name + "_count"] else math.nan for name in totals}


alone_in_its_own_dtype = reduced(
    {"    names = sorted": """\
    if dist.get_world_size() == 1:
        return {name: float(total / count) if count else math.nan for name, (total, count) in totals.items()}
    names = sorted"""},
    ("exact",),
    "one rank alone is thought to add nothing up",
    "sums and counts are added in `float64`",
)

names_of_digits_are_numbers = reduced(
    {"dict(zip(names, ": "dict(zip([int(name) if name.isdigit() else name for name in names], "},
    ("order",),
    "a name of digits is thought to be a number",
    "names are strings",
)

@alternative("reduce_metrics")
def a_row_of_sums_and_a_row_of_counts(totals):
    table = torch.zeros(2, len(totals), dtype=torch.double)
    names = sorted(totals, reverse=True)
    for column, name in enumerate(names):
        total, count = totals[name]
        table[0, column] = total.detach() if isinstance(total, torch.Tensor) else total
        table[1, column] = count
    if names:
        dist.all_reduce(table, async_op=True).wait()
    means = {}
    for name in totals:
        total, count = table[:, names.index(name)].tolist()
        means[name] = total / count if count > 0 else float("nan")
    return means


@alternative("reduce_metrics")
def all_counts_behind_all_sums(totals):
    if len(totals) == 0:
        return dict()
    order = [name for name, _ in sorted(totals.items(), key=lambda item: item[0])]
    numbers = [float(totals[name][0]) for name in order] + [float(totals[name][1]) for name in order]
    flat = torch.DoubleTensor(numbers)
    if dist.get_world_size() > 1:
        dist.all_reduce(flat, dist.ReduceOp.SUM)
    return {name: float(flat[i]) / float(flat[i + len(order)]) if flat[i + len(order)] else math.nan for i, name in enumerate(order)}


# E14.5 find_desync

NO_INDEX = ("index", "agree", "ended", "culprits", "lines", "errors")
WALK = "itertools.zip_longest(*logs)"
KEY = '(entry["op"], entry["bytes"], entry["dtype"])'
LARGEST = "max(filter(None, posted), key=posted.count)"
CULPRITS = "[rank for rank, what in enumerate(posted) if what != largest]"
LINES = '{rank: entry and entry["line"] for rank, entry in enumerate(entries)}'
REPORTED = 'return {"index": index, "culprits": culprits, "lines": lines}'


def compared(edits, loses, because, breaks):
    return edited("find_desync", edits, loses=loses, because=because, breaks=breaks)


op_alone = compared(
    {KEY: 'entry["op"]'},
    NO_INDEX,
    "the name of a collective is thought to be all that ranks have to agree about",
    "the same op, the same bytes and the same dtype",
)
no_bytes = compared(
    {KEY: '(entry["op"], entry["dtype"])'}, NO_INDEX, "sizes are thought to be the library's affair", "the same bytes and the same dtype"
)
no_dtype = compared(
    {KEY: '(entry["op"], entry["bytes"])'}, NO_INDEX, "as many bytes are thought to be the same numbers", "and the same dtype"
)
lines_too = compared(
    {KEY: '(entry["op"], entry["bytes"], entry["dtype"], entry["line"])'},
    NO_INDEX,
    "ranks are thought to post a collective from one line only",
    "Their lines and times may differ",
)
all_of_an_entry = compared(
    {KEY: "tuple(entry.values())"}, NO_INDEX, "entries that agree are thought to be equal", "Their lines and times may differ"
)
in_one_of_the_three = compared(
    {"len(set(posted)) > 1": "all(len(set(column)) > 1 for column in zip(*[what or (None, None, None) for what in posted]))"},
    NO_INDEX,
    "what disagrees is thought to disagree in everything",
    "entries **agree** when they have the same op, the same bytes and the same dtype",
)
counted_from_one = compared(
    {"enumerate(itertools.zip_longest(*logs))": "enumerate(itertools.zip_longest(*logs), 1)"},
    NO_INDEX,
    "positions are thought to begin with 1",
    "the **first** position, from 0",
)
one_after_the_difference = compared(
    {REPORTED: REPORTED.replace('"index": index', '"index": index + 1')},
    NO_INDEX,
    "the position is thought to be the first that was never reached",
    "at which not all ranks have entries that agree",
)
as_far_as_the_shortest = compared(
    {WALK: "zip(*logs)"},
    ("ended", "culprits", "lines"),
    "logs are thought to end together, as zip does",
    "A rank whose log has ended there has no entry",
)
says_nothing_of_lengths = compared(
    {"posted = [": "if None in entries:\n            return None\n        posted = ["},
    ("ended", "culprits", "lines"),
    "a rank that posts no more is thought to be done",
    "may be empty: a rank that hangs or has exited posts no more",
)
an_empty_log_is_left_out = compared(
    {"    for index": "    logs = [log for log in logs if log] or [[]]\n    for index"},
    ("ended", "culprits", "lines"),
    "a rank that never posted is thought to be no rank",
    "Logs may be of different lengths, and may be empty",
)
rank_0_is_right = compared(
    {LARGEST: "posted[0]"},
    ("ended", "culprits"),
    "rank 0 is thought to be the one that does as it should",
    "a list of the ranks, ascending, that are not in the largest group of agreeing ranks at that position",
)
who_is_alone = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if posted.count(what) == 1]"},
    ("ended", "culprits"),
    "a culprit is thought to be alone",
    "that are not in the largest group of agreeing ranks at that position",
)
smallest_party = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if what == min(posted, key=posted.count)]"},
    ("ended", "culprits"),
    "the smallest party is thought to be to blame, and no other",
    "that are not in the largest group of agreeing ranks at that position",
)
no_party_without_a_majority = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if what != largest or 2 * posted.count(largest) <= len(posted)]"},
    ("ended", "culprits"),
    "without a majority all are thought to be to blame",
    "the one that has the lowest rank counts as the largest",
)
largest_by_op_alone = compared(
    {LARGEST: "max(filter(None, posted), key=lambda one: [what and what[0] for what in posted].count(one[0]))"},
    ("culprits",),
    "ranks of the same op are thought to be of one party, whatever its bytes",
    "Ranks whose entries agree form a group",
)
the_last_of_equal_ones = compared(
    {LARGEST: "max(filter(None, posted[::-1]), key=posted.count)"},
    ("culprits",),
    "it is thought not to matter which of two equally large parties is kept",
    "the one that has the lowest rank counts as the largest",
)
the_first_by_the_alphabet = compared(
    {LARGEST: "max(sorted(filter(None, posted)), key=posted.count)"},
    ("culprits",),
    "parties are thought to be in order when they are sorted",
    "the one that has the lowest rank counts as the largest",
)
the_party_of_lowest_rank = compared(
    {LARGEST: "next(filter(None, posted))"},
    ("culprits",),
    "the lowest rank that posted is thought to decide, however few are with it",
    "Of several groups of equal size",
)
those_that_ended_are_a_party = compared(
    {LARGEST: "max(posted, key=posted.count)"},
    ("ended", "culprits"),
    "most ranks are thought to be right even where they have stopped",
    "ranks whose logs have ended there form no group",
)
the_others_of_those_that_posted = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if what and what != largest]"},
    ("ended", "culprits"),
    "who has posted nothing is thought to have done nothing wrong",
    "all of them are culprits, however many they are: the ranks that have posted wait for them",
)
the_ended_ones_alone = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if (what is None if None in posted else what != largest)]"},
    ("culprits",),
    "where a rank is missing, nobody else is thought to be to blame",
    "that are not in the largest group of agreeing ranks at that position",
)
party_by_party = compared(
    {CULPRITS: "sorted(" + CULPRITS + ", key=lambda rank: str(posted[rank]))"},
    ("culprits",),
    "culprits are thought to belong together by what they posted",
    "a list of the ranks, ascending",
)
sorted_as_words = compared(
    {CULPRITS: "sorted(" + CULPRITS + ", key=str)"}, ("culprits",), "10 is thought to come before 2", "a list of the ranks, ascending"
)
a_set_of_culprits = compared(
    {CULPRITS: "{rank for rank, what in enumerate(posted) if what != largest}"},
    ("ended", "culprits"),
    "a set is thought to be as good as a list",
    "a list of the ranks, ascending",
)
lines_of_the_culprits = compared(
    {LINES: '{rank: entries[rank] and entries[rank]["line"] for rank in culprits}'},
    ("lines",),
    "only the lines of the culprits are thought to be of interest",
    "from every rank to the line of its entry there",
)
lines_of_those_that_posted = compared(
    {LINES: '{rank: entry["line"] for rank, entry in enumerate(entries) if entry}'},
    ("lines",),
    "a rank that has posted nothing is thought to need no entry",
    "or to None where its log has ended",
)
where_they_wait_now = compared(
    {LINES: '{rank: log[-1]["line"] if log else None for rank, log in enumerate(logs)}'},
    ("lines",),
    "the line on which a rank waits is thought to be that on which they parted",
    "from every rank to the line of its entry there",
)
a_list_of_lines = compared(
    {LINES: '[entry and entry["line"] for entry in entries]'},
    ("lines",),
    "a list by rank is taken for a dictionary",
    "a dictionary from every rank to the line of its entry there",
)
an_empty_report = compared(
    {"return None": "return {}"}, ("agree",), "nothing found is thought to be an empty dictionary", "returns None where all logs have the same length"
)
alone_there_is_nobody = compared(
    {"if not logs:": "if len(logs) < 2:"},
    ("agree",),
    "one rank is thought to have nothing that one could compare",
    "A single rank always agrees",
)
never_posted_is_no_rank = compared(
    {"if not logs:": "if not any(logs):"},
    ("agree",),
    "ranks that posted nothing are thought not to be there",
    "returns None where all logs have the same length and agree at every position",
)
no_ranks_agree = compared(
    {'    if not logs:\n        raise ValueError("there are no ranks")\n': ""},
    ("errors",),
    "of no ranks all are thought to agree",
    "raises `ValueError` where there are no ranks",
)
another_error = compared(
    {"raise ValueError(": "raise IndexError("},
    ("errors",),
    "whatever is refused is thought to be refused by any exception",
    "raises `ValueError` where there are no ranks",
)
lines_are_taken_out = compared(
    {LINES: '{rank: entry and entry.pop("line") for rank, entry in enumerate(entries)}'},
    NO_INDEX,
    "an entry is thought not to be needed any more",
    "the logs stay unchanged",
)
filled_up = compared(
    {"    for index": "    for log in logs:\n        log.extend([None] * (max(map(len, logs)) - len(log)))\n    for index"},
    NO_INDEX,
    "the logs are thought to be one's own to be filled up",
    "the logs stay unchanged",
)


@mistake(
    "find_desync",
    loses=NO_INDEX,
    because="a rank that posted less is thought to be the only way to part",
    breaks="agree at every position",
)
def by_their_lengths(logs):
    if not logs:
        raise ValueError("no ranks")
    shortest = min(map(len, logs))
    if all(len(log) == shortest for log in logs):
        return None
    lines = {rank: log[shortest]["line"] if len(log) > shortest else None for rank, log in enumerate(logs)}
    return {"index": shortest, "culprits": [rank for rank, log in enumerate(logs) if len(log) == shortest], "lines": lines}


@mistake(
    "find_desync",
    loses=NO_INDEX,
    because="what the ranks wait for now is thought to be where they parted",
    breaks='`"index"`: the **first** position',
)
def the_last_that_differs(logs):
    if not logs:
        raise ValueError("no ranks")
    found = None
    for index, entries in enumerate(itertools.zip_longest(*logs)):
        posted = [entry and (entry["op"], entry["bytes"], entry["dtype"]) for entry in entries]
        if len(set(posted)) > 1:
            largest = max(filter(None, posted), key=posted.count)
            culprits = [rank for rank, what in enumerate(posted) if what != largest]
            lines = {rank: entry and entry["line"] for rank, entry in enumerate(entries)}
            found = {"index": index, "culprits": culprits, "lines": lines}
    return found


@mistake(
    "find_desync",
    loses=NO_INDEX,
    because="a collective is thought to occur once in a log, so that it can be looked up in it",
    breaks="in the order of posting",
)
def looked_up(logs):
    if not logs:
        raise ValueError("no ranks")
    rows = [[(entry["op"], entry["bytes"], entry["dtype"]) for entry in log] for log in logs]
    for row in rows:
        for what in row:
            index = row.index(what)
            posted = [other[index] if index < len(other) else None for other in rows]
            if any(what not in other for other in rows):
                largest = max(filter(None, posted), key=posted.count)
                return {
                    "index": index,
                    "culprits": [rank for rank, one in enumerate(posted) if one != largest],
                    "lines": {rank: log[index]["line"] if index < len(log) else None for rank, log in enumerate(logs)},
                }
    return None


said_of_find_desync = [
    equivalent_mutant("find_desync", "return None", "pass", because="a function that comes to its end returns None"),
    unbreakable("find_desync", "a list, `logs[rank]` is the log of a rank", because="it says what is handed over"),
    unbreakable("find_desync", 'an entry is a dictionary: `"op"`, `"dtype"` and `"line"` are', because="it says what is handed over"),
    unbreakable("find_desync", "otherwise returns a dictionary with three entries", because="its entries follow, and mistakes break each of them"),
]


written_behind_each_other = compared(
    {'(entry["op"], entry["bytes"], entry["dtype"])': """f'{entry["op"]}{entry["bytes"]}{entry["dtype"]}'"""},
    NO_INDEX,
    "what is one text is thought to be one collective",
    "the same op, the same bytes and the same dtype",
)
bytes_as_floats = compared(
    {'entry["bytes"], entry["dtype"]': 'float(entry["bytes"]), entry["dtype"]'},
    NO_INDEX,
    "a float is thought to hold every number of bytes",
    "the same op, the same bytes and the same dtype",
)

@alternative("find_desync")
def by_hand(logs):
    world = len(logs)
    if world == 0:
        raise ValueError("nobody is there")
    longest = max(len(log) for log in logs)
    index = 0
    while index < longest:
        parties = {}
        missing = []
        for rank in range(world):
            if index >= len(logs[rank]):
                missing.append(rank)
                continue
            entry = logs[rank][index]
            parties.setdefault(f"{entry['op']} {entry['bytes']} {entry['dtype']}", []).append(rank)
        if missing or len(parties) > 1:
            largest = sorted(parties.values(), key=lambda party: (-len(party), party[0]))[0]
            lines = dict.fromkeys(range(world))
            for party in parties.values():
                lines.update((rank, logs[rank][index]["line"]) for rank in party)
            return {"lines": lines, "culprits": sorted(set(range(world)) - set(largest)), "index": index}
        index += 1


@alternative("find_desync")
def each_against_the_first(logs):
    if not len(logs):
        raise ValueError("a group has one rank at least")

    def same(one, other):
        return all(one[what] == other[what] for what in ("dtype", "op", "bytes"))

    def parting(log):
        shorter = min(len(log), len(logs[0]))
        for at in range(shorter):
            if not same(log[at], logs[0][at]):
                return at
        return math.inf if len(log) == len(logs[0]) else shorter

    index = min(parting(log) for log in logs)
    if index == math.inf:
        return None
    there = {rank: log[index] for rank, log in enumerate(logs) if len(log) > index}
    friends = {rank: sum(same(entry, other) for other in there.values()) for rank, entry in there.items()}
    kept = there[min(rank for rank in friends if friends[rank] == max(friends.values()))]
    return {
        "index": index,
        "culprits": [rank for rank in range(len(logs)) if rank not in there or not same(there[rank], kept)],
        "lines": {rank: there[rank]["line"] if rank in there else None for rank in range(len(logs))},
    }
