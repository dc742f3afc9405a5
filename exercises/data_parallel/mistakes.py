"""Chapter "Data parallelism in depth": wrong solutions, and right ones written another way."""

import torch
import torch.distributed as dist

from autograder.authoring import alternative, edited, harmless, mistake, unbreakable  # noqa: F401

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
    "each joins the bucket of the one before it while that holds at most `bucket_bytes` then",
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
    "divided by the number of ranks before or after",
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
    "**nobody waits** in the backward pass",
)
waits_for_the_bucket_before = parallel(
    {"        bucket = buckets[len(launched)]\n": "        if launched:\n            launched[-1][1].wait()\n        bucket = buckets[len(launched)]\n"},
    ("no_waiting",),
    "one all-reduce is thought to have to end before another begins",
    "inside the backward pass, which goes on meanwhile",
)
waits_for_the_last_one = parallel(
    {AS_SOON_AS: AS_SOON_AS + "        if len(launched) == len(buckets):\n            for _, work in launched:\n                work.wait()\n"},
    ("no_waiting",),
    "the last hook is thought to be the end of the backward pass",
    "`finish` does",
)
does_not_wait = parallel(
    {WAITED: ""},
    NO_MEANS,
    "an asynchronous all-reduce is thought to be over when its result is looked at",
    "`finish` does",
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
    "whatever the order of the gradients",
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
    "Buckets are launched in their order in every rank",
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
    "ranks may use unlike parts of the model",
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
    "This is broadcast: no other rank hands in anything",
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
    "gradients cross in **buckets**: from the last of `model.parameters()` to the first, each joins the bucket of the one before it while "
    "that holds at most `bucket_bytes` then",
)
closed_when_it_is_full = parallel(
    {TOO_FULL: "room <= 0"},
    ("buckets",),
    "a bucket is thought to be closed by the parameter that overfills it",
    "and otherwise begins the next bucket. So a larger parameter is alone",
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
    "each bucket crosses in **one all-reduce of one flat tensor**",
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
    "what cannot be launched earlier is launched by `finish`",
)
who_has_none_gets_none = parallel(
    {GIVEN: "                if parameter.grad is not None:\n    " + GIVEN},
    ("unused",),
    "a rank that did not use a parameter is thought to have nothing to learn about it",
    "and the rank gets the mean like any other, also where no rank has one",
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
    "nothing else crosses in a step",
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
    "nothing else crosses in a step",
)


@mistake(
    "mini_ddp",
    loses=("buckets",),
    because="every dtype is thought to have an open bucket of its own",
    breaks="a parameter of another dtype than the one before it begins the next bucket",
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
any_of_its_dtype = harmless("mini_ddp", BEGINS, BEGINS.replace("[0]", "[(-1)]"), "all parameters of a bucket have one dtype")


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
    group = dist.new_group()
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


@mistake(
    "best_bucket",
    loses=("values",),
    because="WRITE(best_bucket): the misconception, as half a sentence",
    breaks="WRITE(best_bucket): the words of the statement that it breaks",
)
def best_bucket_misunderstood(layers, link, buckets):
    return x.clone()  # WRITE(best_bucket): what someone with this misconception writes; one function for each


@alternative("best_bucket")
def best_bucket_another_way(layers, link, buckets):
    raise NotImplementedError("WRITE(best_bucket): a right solution, as unlike yours as can be")

# E14.3 epoch_indices


@mistake(
    "epoch_indices",
    loses=("values",),
    because="WRITE(epoch_indices): the misconception, as half a sentence",
    breaks="WRITE(epoch_indices): the words of the statement that it breaks",
)
def epoch_indices_misunderstood(length, world, rank, epoch, seed):
    return x.clone()  # WRITE(epoch_indices): what someone with this misconception writes; one function for each


@alternative("epoch_indices")
def epoch_indices_another_way(length, world, rank, epoch, seed):
    raise NotImplementedError("WRITE(epoch_indices): a right solution, as unlike yours as can be")

# E14.4 reduce_metrics


@mistake(
    "reduce_metrics",
    loses=("values",),
    because="WRITE(reduce_metrics): the misconception, as half a sentence",
    breaks="WRITE(reduce_metrics): the words of the statement that it breaks",
)
def reduce_metrics_misunderstood(totals):
    return x.clone()  # WRITE(reduce_metrics): what someone with this misconception writes; one function for each


@alternative("reduce_metrics")
def reduce_metrics_another_way(totals):
    raise NotImplementedError("WRITE(reduce_metrics): a right solution, as unlike yours as can be")

# E14.5 find_desync


@mistake(
    "find_desync",
    loses=("values",),
    because="WRITE(find_desync): the misconception, as half a sentence",
    breaks="WRITE(find_desync): the words of the statement that it breaks",
)
def find_desync_misunderstood(logs):
    return x.clone()  # WRITE(find_desync): what someone with this misconception writes; one function for each


@alternative("find_desync")
def find_desync_another_way(logs):
    raise NotImplementedError("WRITE(find_desync): a right solution, as unlike yours as can be")
