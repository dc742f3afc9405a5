"""Chapter "Host and device: moving bytes": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, edited, mistake

# E5.1 overlapped --------------------------------------------------------------------------

ALL_OF_OVERLAPPED = ("values", "hidden", "races", "host_memory", "device_memory", "edges")

non_blocking_from_pageable_memory = edited(
    "overlapped",
    {", pin_memory=True": ""},
    loses=("hidden",),
    because="non_blocking is thought to make any copy asynchronous",
)

one_buffer = edited(
    "overlapped",
    {"if len(slots) < 2": "if len(slots) < 1", "slots[i % 2]": "slots[0]"},
    loses=("hidden",),
    because="a second stream is thought to be enough: with one buffer the next copy waits for the step",
)

one_stream = edited(
    "overlapped",
    {"torch.cuda.current_stream(), torch.cuda.Stream()": "torch.cuda.current_stream(), torch.cuda.current_stream()"},
    loses=("hidden",),
    because="pinned memory and non_blocking are thought to overlap copies with kernels of the same stream",
)

reads_each_result_at_once = edited(
    "overlapped",
    {"results.append(step(x))": "results.append(step(x).cpu())"},
    loses=("hidden",),
    because="a small copy back is thought to cost only its bytes: it waits for the step",
)

waits_for_each_copy = edited(
    "overlapped",
    {"compute.wait_event(slot.arrived)": "torch.cuda.synchronize()"},
    loses=("hidden",),
    because="the host is made to wait where only a stream has to",
)

refills_too_early = edited(
    "overlapped",
    {"        self.arrived.synchronize()\n": ""},
    loses=("races",),
    because="a copy that was started is taken for one that has ended",
)

computes_too_early = edited(
    "overlapped",
    {"        compute.wait_event(slot.arrived)\n": ""},
    loses=("races",),
    because="streams are thought to wait for each other's data by themselves",
)

overwrites_what_a_step_reads = edited(
    "overlapped",
    {"            copies.wait_event(self.used)\n": ""},
    loses=("races",),
    because="an order of copy and step is thought to give one of step and next copy",
)

waits_for_an_event_recorded_too_early = edited(
    "overlapped",
    {"            self.arrived.record(copies)\n": "", "            copies.wait_event": "            self.arrived.record(copies)\n            copies.wait_event"},
    loses=("races",),
    because="an event is thought to stand for a stream, not for what was in it when it was recorded",
)

reads_before_arrival = edited(
    "overlapped",
    {"result.cpu() for": 'result.to("cpu", non_blocking=True) for'},
    loses=ALL_OF_OVERLAPPED,
    because="non_blocking is thought to be safe in both directions",
)

leaves_results_on_the_device = edited(
    "overlapped",
    {"[result.cpu() for result in results]": "results"},
    loses=ALL_OF_OVERLAPPED,
    because="results are thought to be wherever they are read",
)

expects_full_batches = edited(
    "overlapped",
    {"        n = len(batch)\n": "        n = len(self.host)\n"},
    loses=("edges",),
    because="every batch is thought to be as long as the first",
)


prefetches_what_is_not_there = edited(
    "overlapped",
    {
        "    slots, results = [], []\n": "    waiting, results = iter(batches), []\n"
        "    first = next(waiting)\n"
        "    slots = [Slot(first), Slot(first)]\n",
        "enumerate(batches)": "enumerate([first, *waiting])",
    },
    loses=("edges",),
    because="there is thought to be a first batch always",
)

pins_every_batch = edited(
    "overlapped",
    {"self.host[:n].copy_(batch)": "self.host = batch.pin_memory()"},
    loses=("host_memory",),
    because="pinning is thought to be free: it allocates and copies, each time",
)

A_TENSOR_FOR_EACH_BATCH = {
    '        self.device = torch.empty(like.shape, dtype=like.dtype, device="cuda")\n': "",
    "            copies.wait_event(self.used)\n": "",
    "self.device[:n].copy_(self.host[:n], non_blocking=True)": 'x = self.host[:n].to("cuda", non_blocking=True)',
    "return self.device[:n]": "return x",
}

forgets_record_stream = edited(
    "overlapped",
    A_TENSOR_FOR_EACH_BATCH,
    loses=("races",),
    because="the allocator is thought to know which streams use a tensor",
)

copies_run_ahead = edited(
    "overlapped",
    {**A_TENSOR_FOR_EACH_BATCH, "results.append(step(x))": "x.record_stream(compute)\n        results.append(step(x))"},
    loses=("device_memory",),
    because="a queue of copies is thought to hold itself back",
)


@mistake(
    "overlapped",
    loses=("hidden", "host_memory", "device_memory"),
    because="all copies are made first: the link idles during the steps, the card during the copies",
)
def copies_everything_first(batches, step):
    there = [batch.pin_memory().to("cuda", non_blocking=True) for batch in batches]
    return [result.cpu() for result in [step(x) for x in there]]


@mistake(
    "overlapped",
    loses=("hidden", "races", "host_memory", "device_memory"),
    because="the loop as it is usually written is thought to be good enough",
)
def copies_then_computes(batches, step):
    return [step(batch.to("cuda")).cpu() for batch in batches]


@alternative("overlapped")
def a_new_tensor_for_each_batch(batches, step):
    """Two page-locked buffers; the host holds the copies back, record_stream keeps what they made."""
    copies, hosts, used, results = torch.cuda.Stream(), [], [], []
    for i, batch in enumerate(batches):
        if i < 2:
            hosts.append(torch.empty(batch.size(), dtype=batch.dtype, pin_memory=True))
        else:
            used[i - 2].synchronize()
        host = hosts[i % 2].narrow(0, 0, batch.shape[0])
        host.copy_(batch)
        with torch.cuda.stream(copies):
            x = host.cuda(non_blocking=True)
        x.record_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(copies)
        results.append(step(x))
        used.append(torch.cuda.current_stream().record_event())
    return [result.cpu() for result in results]


@alternative("overlapped")
def steps_in_the_side_stream(batches, step):
    """The copies stay in the caller's stream; the steps move to another. Results come back together."""
    copies, steps = torch.cuda.current_stream(), torch.cuda.Stream()
    staged, waiting, results = [], iter(batches), []
    arrived, used = [None, None], [None, None]

    def send(i):
        batch = next(waiting, None)
        if batch is None:
            return None
        if i < 2:
            staged.append((batch.pin_memory(), torch.empty(batch.shape, dtype=batch.dtype, device="cuda")))
        host, device = (buffer[: batch.size(0)] for buffer in staged[i % 2])
        if i >= 2:
            arrived[i % 2].synchronize()
            host.copy_(batch)
            copies.wait_event(used[i % 2])
        device.copy_(host, non_blocking=True)
        arrived[i % 2] = copies.record_event()
        return device

    i, x = 0, send(0)
    while x is not None:
        ahead = send(i + 1)
        with torch.cuda.stream(steps):
            steps.wait_event(arrived[i % 2])
            results.append(step(x))
            used[i % 2] = steps.record_event()
        i, x = i + 1, ahead
    with torch.cuda.stream(steps):
        held = [torch.empty(result.shape, dtype=result.dtype, pin_memory=True) for result in results]
        for host, result in zip(held, results):
            host.copy_(result, non_blocking=True)
    steps.synchronize()
    return held


# E5.2 transfer_time -----------------------------------------------------------------------

ALL_OF_TRANSFER_TIME = ("units", "directions", "lanes", "latency", "errors")

bits_as_bytes = edited(
    "transfer_time",
    {'        return rate / 8\n': "        return rate\n"},
    loses=ALL_OF_TRANSFER_TIME,
    because="a small b is taken for a large one",
)

bytes_as_bits = edited(
    "transfer_time",
    {'"GB/s":\n        return rate\n': '"GB/s":\n        return rate / 8\n'},
    loses=ALL_OF_TRANSFER_TIME,
    because="a large B is taken for a small one",
)

binary_giga = edited(
    "transfer_time",
    {'link["rate"] * 1e9': 'link["rate"] * 2**30'},
    loses=ALL_OF_TRANSFER_TIME,
    because="links are thought to count in GiB, as memory sizes do",
)

all_of_it_one_way = edited(
    "transfer_time",
    {"ways = 2 if": "ways = 1 if"},
    loses=("directions",),
    because="a rate that adds up both directions is thought to be there for one",
)

halves_every_rate = edited(
    "transfer_time",
    {"else 1\n": "else 2\n"},
    loses=ALL_OF_TRANSFER_TIME,
    because="every datasheet is thought to count both directions",
)

one_lane = edited(
    "transfer_time",
    {' * link["lanes"]': ""},
    loses=("lanes",),
    because="transfers are thought to be counted for the whole link",
)

transfers_are_bytes = edited(
    "transfer_time",
    {"data / sent / 8": "data / sent"},
    loses=("lanes",),
    because="a transfer is thought to carry a byte: it carries a bit on each lane",
)

free_encoding = edited(
    "transfer_time",
    {" * data / sent / 8": " / 8"},
    loses=("lanes",),
    because="every bit on the wire is thought to be data",
)

no_latency = edited(
    "transfer_time",
    {'messages * link["latency_us"] * 1e-6 + ': ""},
    loses=("latency",),
    because="bandwidth is thought to be all that there is",
)

latency_once = edited(
    "transfer_time",
    {"return messages * link": "return link"},
    loses=("latency",),
    because="messages that wait for each other are thought to share one latency",
)

nothing_takes_no_time = edited(
    "transfer_time",
    {"    ways = 2": "    if nbytes == 0:\n        return 0.0\n    ways = 2"},
    loses=("latency",),
    because="a message of no bytes is thought to be no message",
)

takes_any_unit = edited(
    "transfer_time",
    {'    if link["unit"] == "GT/s":\n': "    if link['unit'] != 'GT/s':\n        return rate\n    else:\n"},
    loses=("errors",),
    because="what is spelt in another way is thought to mean the usual unit",
)

takes_any_count = edited(
    "transfer_time",
    {'not in ("one way", "both ways")': 'is None'},
    loses=("errors",),
    because="what is not both ways is thought to be one way",
)


@alternative("transfer_time")
def bits_and_a_table(nbytes, link, messages=1):
    from fractions import Fraction

    if min(nbytes, messages - 1) < 0 or not link["rate"] > 0:
        raise ValueError("too few bytes, messages or bits")
    try:
        share = {"one way": 1, "both ways": Fraction(1, 2)}[link["counts"]]
        bits = {"GB/s": 8, "Gb/s": 1, "GT/s": link.get("lanes", 1) * Fraction(*link.get("encoding", (1, 1)))}[link["unit"]]
    except KeyError as unknown:
        raise ValueError(f"{unknown} is no unit and no way of counting") from None
    rate = Fraction(link["rate"]) * 10**9 * bits * share
    return float(nbytes * 8 / rate + messages * Fraction(link["latency_us"]) / 10**6)


# E5.3 move_to -----------------------------------------------------------------------------

NOTHING_NESTED = ("nested", "as_is", "waits")

moves_parameters_only = edited(
    "move_to",
    {
        "    if isinstance(obj, (torch.Tensor": "    if isinstance(obj, torch.nn.Module):\n"
        "        for parameter in obj.parameters():\n"
        "            there = torch.nn.Parameter(parameter.detach().to(device))\n"
        "            torch.utils.swap_tensors(parameter, there)\n"
        "        return obj\n"
        "    if isinstance(obj, (torch.Tensor"
    },
    loses=("modules",),
    because="a module is thought to be its parameters: buffers stay behind",
)

moves_a_copy_of_the_module = edited(
    "move_to",
    {
        "    if isinstance(obj, (torch.Tensor": "    if isinstance(obj, torch.nn.Module):\n"
        "        import copy\n"
        "        return copy.deepcopy(obj).to(device)\n"
        "    if isinstance(obj, (torch.Tensor"
    },
    loses=("modules",),
    because="a module is thought to be moved as a tensor is: into a new one",
)

puts_new_parameters_in = edited(
    "move_to",
    {
        "    if isinstance(obj, (torch.Tensor": "    if isinstance(obj, torch.nn.Module):\n"
        "        for part in obj.modules():\n"
        "            for name, parameter in list(part._parameters.items()):\n"
        "                if parameter is not None:\n"
        "                    setattr(part, name, torch.nn.Parameter(parameter.detach().to(device)))\n"
        "            for name, buffer in list(part._buffers.items()):\n"
        "                part._buffers[name] = buffer.to(device)\n"
        "        return obj\n"
        "    if isinstance(obj, (torch.Tensor"
    },
    loses=("modules",),
    because="an optimizer is thought to find parameters by their names: it holds the objects",
)

always_copies = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "obj.to(device, non_blocking=non_blocking, **({'copy': True} if isinstance(obj, torch.Tensor) else {}))"},
    loses=("as_is",),
    because="a tensor that is there already is copied to be safe",
)

copies_each_occurrence = edited(
    "move_to",
    {"if id(obj) not in known": "if True"},
    loses=("as_is",),
    because="a tensor that occurs twice is taken for two",
)

leaves_out_what_is_no_tensor = edited(
    "move_to",
    {"for key, value in obj.items())": "for key, value in obj.items() if not isinstance(value, str))",
     "    return obj": "    return None"},
    loses=NOTHING_NESTED,
    because="a batch is thought to hold tensors alone",
)

namedtuples_become_tuples = edited(
    "move_to",
    {'    if isinstance(obj, tuple) and hasattr(obj, "_fields"):\n        return type(obj)(*map(again, obj))\n': "",
     "        return type(obj)(map(again, obj))": "        return [again(x) for x in obj] if type(obj) is list else tuple(map(again, obj))"},
    loses=NOTHING_NESTED,
    because="a namedtuple is thought to be a tuple: its fields are lost",
)

tuples_become_lists = edited(
    "move_to",
    {"        return type(obj)(map(again, obj))": "        return [again(x) for x in obj]"},
    loses=NOTHING_NESTED,
    because="the type of a sequence is thought not to matter",
)

dictionaries_become_plain = edited(
    "move_to",
    {"        return type(obj)((key, again(value)) for key, value in obj.items())": "        return {key: again(value) for key, value in obj.items()}"},
    loses=NOTHING_NESTED,
    because="every mapping is thought to be a dict",
)

writes_into_what_was_handed_in = edited(
    "move_to",
    {"        return type(obj)((key, again(value)) for key, value in obj.items())": "        for key in obj:\n            obj[key] = again(obj[key])\n        return obj"},
    loses=NOTHING_NESTED,
    because="the caller's batch is taken for one's own",
)

forgets_non_blocking = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "obj.to(device)"},
    loses=("waits",),
    because="an argument is taken and not passed on",
)

never_waits = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "obj.to(device, non_blocking=True)"},
    loses=("waits",),
    because="non_blocking is thought to be an optimisation without a contract",
)

one_level_deep = edited(
    "move_to",
    {"((key, again(value)) for": "((key, value.to(device) if isinstance(value, torch.Tensor) else value) for"},
    loses=("nested", "as_is", "waits", "modules"),
    because="a batch is thought to be a flat dictionary",
)


@alternative("move_to")
def with_pytree(obj, device, non_blocking=False):
    from torch.utils import _pytree

    leaves, spec = _pytree.tree_flatten(obj)
    moved = {}
    for leaf in leaves:
        if isinstance(leaf, (torch.Tensor, torch.nn.Module)) and id(leaf) not in moved:
            moved[id(leaf)] = leaf.to(device=device, non_blocking=non_blocking)
    return _pytree.tree_unflatten([moved.get(id(leaf), leaf) for leaf in leaves], spec)


@alternative("move_to")
def by_singledispatch(obj, device, non_blocking=False):
    from functools import singledispatch

    known = {}

    @singledispatch
    def move(item):
        return item

    @move.register(torch.Tensor)
    @move.register(torch.nn.Module)
    def _(item):
        if id(item) not in known:
            known[id(item)] = item.to(device, non_blocking=non_blocking)
        return known[id(item)]

    @move.register(dict)
    def _(item):
        new = type(item)()
        for key in item:
            new[key] = move(item[key])
        return new

    @move.register(list)
    def _(item):
        return type(item)([move(one) for one in item])

    @move.register(tuple)
    def _(item):
        moved = [move(one) for one in item]
        return item._make(moved) if hasattr(item, "_make") else type(item)(moved)

    return move(obj)
