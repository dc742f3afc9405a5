"""Chapter "Host and device: moving bytes": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E5.1 overlapped --------------------------------------------------------------------------

ALL_OF_OVERLAPPED = ("values", "hidden", "races", "host_memory", "device_memory", "edges")

non_blocking_from_pageable_memory = edited(
    "overlapped",
    {", pin_memory=True": ""},
    loses=("hidden", "edges"),
    because="non_blocking is thought to make any copy asynchronous",
    breaks="The batches are sent from pinned (page-locked) memory",
)

one_buffer = edited(
    "overlapped",
    {"if len(slots) < 2": "if len(slots) < 1", "slots[i % 2]": "slots[0]"},
    loses=("hidden",),
    because="a second stream is thought to be enough: with one buffer the next copy waits for the step",
    breaks="each takes the time of its copy or of its step, whichever is longer",
)

one_stream = edited(
    "overlapped",
    {"torch.cuda.current_stream(), torch.cuda.Stream()": "torch.cuda.current_stream(), torch.cuda.current_stream()"},
    loses=("hidden",),
    because="pinned memory and non_blocking are thought to overlap copies with kernels of the same stream",
    breaks="while one step runs, the next batch is copied to the device",
)

reads_each_result_at_once = edited(
    "overlapped",
    {"results.append(step(x))": "results.append(step(x).cpu())"},
    loses=("hidden",),
    because="a small copy back is thought to cost only its bytes: it waits for the step",
    breaks="each takes the time of its copy or of its step, whichever is longer",
)

waits_for_each_step = edited(
    "overlapped",
    {"slot.used.record(compute)": "torch.cuda.synchronize()"},
    loses=("hidden",),
    because="the host is made to wait where only a stream has to",
    breaks="each takes the time of its copy or of its step, whichever is longer",
)

refills_too_early = edited(
    "overlapped",
    {"        self.arrived.synchronize()\n": ""},
    loses=("races", "edges"),
    because="a copy that was started is taken for one that has ended",
    breaks="overwritten or reused by the caching allocator while a copy or a kernel may still need it",
)

refills_too_early_when_a_batch_is_shorter = edited(
    "overlapped",
    {"        self.arrived.synchronize()\n": "        if n == len(self.host):\n            self.arrived.synchronize()\n"},
    loses=("edges",),
    because="the last, shorter batch is thought to find its buffer free",
    breaks="overwritten or reused by the caching allocator while a copy or a kernel may still need it",
)

stages_through_numpy = edited(
    "overlapped",
    {"self.host[:n].copy_(batch)": "self.host[:n].numpy()[:] = batch.numpy()"},
    loses=("edges",),
    because="a host tensor is thought to be an array: NumPy has no bfloat16",
    breaks="All have the same dtype, any",
)

computes_too_early = edited(
    "overlapped",
    {"        compute.wait_event(slot.arrived)\n": ""},
    loses=("races", "edges"),
    because="streams are thought to wait for each other's data by themselves",
    breaks="no memory is read before it is written",
)

overwrites_what_a_step_reads = edited(
    "overlapped",
    {"            copies.wait_event(self.used)\n": ""},
    loses=("races", "edges"),
    because="an order of copy and step is thought to give one of step and next copy",
    breaks="overwritten or reused by the caching allocator while a copy or a kernel may still need it",
)

waits_for_an_event_recorded_too_early = edited(
    "overlapped",
    {"            self.arrived.record(copies)\n": "", "            copies.wait_event": "            self.arrived.record(copies)\n            copies.wait_event"},
    loses=("races", "edges"),
    because="an event is thought to stand for a stream, not for what was in it when it was recorded",
    breaks="no memory is read before it is written",
)

reads_before_arrival = edited(
    "overlapped",
    {"result.cpu() for": 'result.to("cpu", non_blocking=True) for'},
    loses=ALL_OF_OVERLAPPED,
    because="non_blocking is thought to be safe in both directions",
    breaks="host tensors that can be read immediately",
)

leaves_results_on_the_device = edited(
    "overlapped",
    {"[result.cpu() for result in results]": "results"},
    loses=ALL_OF_OVERLAPPED,
    because="results are thought to be wherever they are read",
    breaks="host tensors that can be read immediately",
)

expects_full_batches = edited(
    "overlapped",
    {"        n = len(batch)\n": "        n = len(self.host)\n"},
    loses=("edges",),
    because="every batch is thought to be as long as the first",
    breaks="the last one may have fewer rows",
)


prefetches_what_is_not_there = edited(
    "overlapped",
    {
        "    slots, results = [], []\n": "    waiting, results = iter(batches), []\n"
        "    first = next(waiting)\n"
        "    slots = [Slot(first), Slot(first)]\n",
        "enumerate(batches)": "enumerate([first, *waiting])",
    },
    loses=("host_memory", "edges"),
    because="there is thought to be a first batch always",
    breaks="it may be empty",
)

pins_every_batch = edited(
    "overlapped",
    {"self.host[:n].copy_(batch)": "self.host = batch.pin_memory()"},
    loses=("host_memory", "edges"),
    because="pinning is thought to be free: it allocates and copies, each time",
    breaks="memory is bounded, whatever the number of batches",
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
    loses=("races", "edges"),
    because="the allocator is thought to know which streams use a tensor",
    breaks="overwritten or reused by the caching allocator while a copy or a kernel may still need it",
)

copies_run_ahead = edited(
    "overlapped",
    {**A_TENSOR_FOR_EACH_BATCH, "results.append(step(x))": "x.record_stream(compute)\n        results.append(step(x))"},
    loses=("device_memory",),
    because="a queue of copies is thought to hold itself back",
    breaks="on the device at most three batches are alive at a time",
)


@mistake(
    "overlapped",
    loses=("hidden", "host_memory", "device_memory", "edges"),
    because="all copies are made first: the link idles during the steps, the card during the copies",
    breaks="while one step runs, the next batch is copied to the device",
)
def copies_everything_first(batches, step):
    there = [batch.pin_memory().to("cuda", non_blocking=True) for batch in batches]
    return [result.cpu() for result in [step(x) for x in there]]


@mistake(
    "overlapped",
    loses=("hidden", "races", "host_memory", "device_memory", "edges"),
    because="the loop as it is usually written is thought to be good enough",
    breaks="After the first batch, each takes the time of its copy or of its step",
)
def copies_then_computes(batches, step):
    return [step(batch.to("cuda")).cpu() for batch in batches]


first_copy_waits_for_nothing = edited(
    "overlapped",
    {"        self.used.record()\n": ""},
    loses=("races", "edges"),
    because="new memory is thought to be nobody's: what was freed in the caller's stream may still be in use there",
    breaks="memory that the function allocates may have been freed while that work still uses it",
)

takes_the_default_stream = edited(
    "overlapped",
    {"compute, copies = torch.cuda.current_stream()": "compute, copies = torch.cuda.default_stream()"},
    loses=("races", "edges"),
    because="the default stream is thought to be where everybody works",
    breaks="Any stream may be current at the call, with work still pending in it",
)

a_third_for_a_shorter_batch = edited(
    "overlapped",
    {"        self.arrived.synchronize()\n": "        self.arrived.synchronize()\n        if self.host.shape != batch.shape:\n"
     "            self.host = torch.empty(batch.shape, dtype=batch.dtype, pin_memory=True)\n"},
    loses=("edges",),
    because="a buffer is thought to be due to each shape",
    breaks="**two** pinned buffers of one batch each, once",
)

three_page_locked_buffers = edited(
    "overlapped",
    {"if len(slots) < 2": "if len(slots) < 3", "slots[i % 2]": "slots[i % 3]"},
    loses=("host_memory", "edges"),
    because="more buffers are thought to hide more",
    breaks="at most two pinned buffers of one batch each, once",
)

reads_the_iterable_first = edited(
    "overlapped",
    {"enumerate(batches)": "enumerate(list(batches))"},
    loses=("host_memory",),
    because="a generator is thought to be a list that is not written out",
    breaks="it never has more than three batches taken from `batches` on which `step` has not been called",
)

indexes_the_batches = edited(
    "overlapped",
    {"for i, batch in enumerate(batches):\n": "for i in range(len(batches)):\n        batch = batches[i]\n"},
    loses=ALL_OF_OVERLAPPED,
    because="every iterable is thought to be a list",
    breaks="a generator that can be read once",
)

expects_float32 = edited(
    "overlapped",
    {"torch.empty(like.shape, dtype=like.dtype, pin_memory=True)": "torch.empty(like.shape, pin_memory=True)",
     'torch.empty(like.shape, dtype=like.dtype, device="cuda")': 'torch.empty(like.shape, device="cuda")'},
    loses=("edges",),
    because="batches are thought to be float32",
    breaks="All have the same dtype, any",
)

expects_matrices = edited(
    "overlapped",
    {"torch.empty(like.shape, dtype=like.dtype, pin_memory=True)": "torch.empty(like.shape[0], like.shape[1], dtype=like.dtype, pin_memory=True)"},
    loses=("edges",),
    because="batches are thought to be matrices",
    breaks="the same shape, of two dimensions or more",
)

expects_no_gaps = edited(
    "overlapped",
    {"self.host[:n].copy_(batch)": "self.host[:n].view(-1).copy_(batch.view(-1))"},
    loses=("edges",),
    because="every tensor is thought to lie without gaps",
    breaks="They may be non-contiguous, with gaps",
)

warms_the_step_up = edited(
    "overlapped",
    {"        compute.wait_event(slot.arrived)\n": "        compute.wait_event(slot.arrived)\n        if i == 0:\n            step(x)\n"},
    loses=ALL_OF_OVERLAPPED,
    because="a call more is thought to cost only time",
    breaks="Call it once for each batch, in order",
)

returns_a_tuple_of_arrays = edited(
    "overlapped",
    {"[result.cpu() for result in results]": "[result.cpu().numpy() for result in results]"},
    loses=ALL_OF_OVERLAPPED,
    because="whatever holds the numbers is thought to be a tensor",
    breaks="returns the list of results as host tensors",
)

keeps_its_buffers = edited(
    "overlapped",
    {"    slots, results = [], []\n": "    slots, results = overlapped.__dict__.setdefault('slots', []), []\n"},
    loses=ALL_OF_OVERLAPPED,
    because="the next call is thought to have batches of the same shape",
    breaks="everything it needs (streams, events, buffers) is created inside the call",
)


keeps_its_buffers_by_shape = edited(
    "overlapped",
    {"slots.append(Slot(batch))": "slots.append(Slot(batch, len(slots)))",
     "def __init__(self, like):": "KEPT = {}\n\n    def __init__(self, like, number):",
     "        self.host = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)\n":
     "        key = (like.shape, like.dtype, number)\n"
     "        if key not in self.KEPT:\n"
     "            self.KEPT[key] = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)\n"
     "        self.host = self.KEPT[key]\n"},
    loses=("edges",),
    because="page-locked memory is dear, so it is kept for the next call",
    breaks="everything it needs (streams, events, buffers) is created inside the call",
)

sends_a_short_batch_as_it_is = edited(
    "overlapped",
    {"self.device[:n].copy_(self.host[:n], non_blocking=True)": "self.device[:n].copy_(self.host[:n] if n == len(self.host) else batch, non_blocking=True)"},
    loses=("edges",),
    because="what is small is thought not to be worth a page-locked buffer",
    breaks="The batches are sent from pinned (page-locked) memory",
)

returns_a_tuple = edited(
    "overlapped",
    {"[result.cpu() for result in results]": "tuple(result.cpu() for result in results)"},
    loses=ALL_OF_OVERLAPPED,
    because="any sequence is thought to be a list",
    breaks="returns the list of results",
)

@alternative("overlapped")
def copies_ahead_and_fetches_at_once(batches, step):
    """Batch i + 1 is sent while step i runs; then the result of step i is fetched."""
    here, side = torch.cuda.current_stream(), torch.cuda.Stream()
    hosts, sent, results, out = [], [], [], None
    for i, batch in enumerate(batches):
        if not hosts:
            hosts = [torch.empty(batch.shape, dtype=batch.dtype, pin_memory=True) for _ in range(2)]
        host = hosts[i % 2][: len(batch)]
        if i >= 2:
            sent[i - 2].synchronize()
        host.copy_(batch)
        with torch.cuda.stream(side):
            x = host.to("cuda", non_blocking=True)
            sent.append(side.record_event())
        if out is not None:
            results.append(out.cpu())
        here.wait_event(sent[-1])
        x.record_stream(here)
        out = step(x)
    return results + ([] if out is None else [out.cpu()])


@alternative("overlapped")
def a_barrier_each_round(batches, step):
    """Step i and copy i + 1 are started; then the host waits until both are over."""
    here, side, hosts, rooms, results, x = torch.cuda.current_stream(), torch.cuda.Stream(), [], [], [], None
    for i, batch in enumerate(batches):
        if i < 2:
            hosts.append(batch.new_empty(batch.shape, pin_memory=True))
            rooms.append(torch.empty(batch.shape, dtype=batch.dtype, device="cuda"))
        host, room = hosts[i % 2][: len(batch)].copy_(batch), rooms[i % 2][: len(batch)]
        side.wait_stream(here)
        if x is not None:
            results.append(step(x))
        with torch.cuda.stream(side):
            x = room.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
    return [result.cpu() for result in results + ([] if x is None else [step(x)])]


@alternative("overlapped")
def results_go_home_in_a_third_stream(batches, step):
    """Each result is fetched behind the next step, into page-locked memory of its own; one wait in the end."""
    here, there, home = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()
    slots, kept, results = [], [], []
    for i, batch in enumerate(batches):
        if i < 2:
            there.wait_stream(here)
            slots.append((batch.pin_memory(), torch.empty(batch.shape, dtype=batch.dtype, device="cuda"), torch.cuda.Event(), torch.cuda.Event()))
        host, room, arrived, used = slots[i % 2]
        arrived.synchronize()
        host[: len(batch)].copy_(batch)
        there.wait_event(used)
        with torch.cuda.stream(there):
            x = room[: len(batch)].copy_(host[: len(batch)], non_blocking=True)
        arrived.record(there)
        here.wait_event(arrived)
        kept.append(step(x))
        used.record(here)
        home.wait_event(used)
        results.append(torch.empty(kept[-1].shape, dtype=kept[-1].dtype, pin_memory=True))
        with torch.cuda.stream(home):
            results[-1].copy_(kept[-1], non_blocking=True)
    home.synchronize()
    return results


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
    breaks='`"Gb/s"` (10^9 bits a second)',
)

bytes_as_bits = edited(
    "transfer_time",
    {'"GB/s":\n        return rate\n': '"GB/s":\n        return rate / 8\n'},
    loses=ALL_OF_TRANSFER_TIME,
    because="a large B is taken for a small one",
    breaks='`"GB/s"` (10^9 bytes a second)',
)

binary_giga = edited(
    "transfer_time",
    {'link["rate"] * 1e9': 'link["rate"] * 2**30'},
    loses=ALL_OF_TRANSFER_TIME,
    because="links are thought to count in GiB, as memory sizes do",
    breaks="10^9 bytes a second",
)

all_of_it_one_way = edited(
    "transfer_time",
    {"ways = 2 if": "ways = 1 if"},
    loses=("directions",),
    because="a rate that adds up both directions is thought to be there for one",
    breaks="when the rate is the sum of the two directions",
)

halves_every_rate = edited(
    "transfer_time",
    {"else 1\n": "else 2\n"},
    loses=ALL_OF_TRANSFER_TIME,
    because="every datasheet is thought to count both directions",
    breaks='`"one way"`',
)

one_lane = edited(
    "transfer_time",
    {' * link["lanes"]': ""},
    loses=("lanes",),
    because="transfers are thought to be counted for the whole link",
    breaks="10^9 transfers a second on each lane",
)

transfers_are_bytes = edited(
    "transfer_time",
    {"data / sent / 8": "data / sent"},
    loses=("directions", "lanes", "latency"),
    because="a transfer is thought to carry a byte: it carries a bit on each lane",
    breaks="one bit each",
)

free_encoding = edited(
    "transfer_time",
    {" * data / sent / 8": " / 8"},
    loses=("lanes",),
    because="every bit on the wire is thought to be data",
    breaks="wire `encoding[0]` are data",
)

no_latency = edited(
    "transfer_time",
    {'messages * link["latency_us"] * 1e-6 + ': ""},
    loses=("latency",),
    because="bandwidth is thought to be all that there is",
    breaks="microseconds that every message takes before its first byte arrives",
)

latency_once = edited(
    "transfer_time",
    {"return messages * link": "return link"},
    loses=("latency",),
    because="messages that wait for each other are thought to share one latency",
    breaks="each sent when the previous one has arrived",
)

nothing_takes_no_time = edited(
    "transfer_time",
    {"    ways = 2": "    if nbytes == 0:\n        return 0.0\n    ways = 2"},
    loses=("latency", "errors"),
    because="a message of no bytes is thought to be no message",
    breaks="A message of zero bytes still takes its latency",
)

takes_any_unit = edited(
    "transfer_time",
    {'    if link["unit"] == "GT/s":\n': "    if link['unit'] != 'GT/s':\n        return rate\n    else:\n"},
    loses=("errors",),
    because="what is spelt in another way is thought to mean the usual unit",
    breaks="raises `ValueError` for an unknown unit",
)

takes_any_count = edited(
    "transfer_time",
    {'not in ("one way", "both ways")': 'is None'},
    loses=("errors",),
    because="what is not both ways is thought to be one way",
    breaks="an unknown `counts`",
)


halves_bytes_only = edited(
    "transfer_time",
    {'if link["counts"] == "both ways" else': 'if link["counts"] == "both ways" and link["unit"] == "GB/s" else'},
    loses=("directions",),
    because="only bytes are thought to be counted both ways",
    breaks="which are equally fast",
)

halves_the_latency_too = edited(
    "transfer_time",
    {"messages * link": "ways * messages * link"},
    loses=("latency",),
    because="what is slower is thought to be late as well",
    breaks="microseconds that every message takes before its first byte arrives",
)

writes_into_the_link = edited(
    "transfer_time",
    {"    ways = 2 if": '    if link["counts"] == "both ways":\n        link["rate"] /= 2\n    ways = 1 if'},
    loses=("directions", "latency"),
    because="the caller's dictionary is taken for one's own",
    breaks="which is not modified",
)

halves_the_rate_in_the_link = edited(
    "transfer_time",
    {"    ways = 2 if": '    if link["counts"] == "both ways":\n        link["rate"], link["counts"] = link["rate"] / 2, "one way"\n    ways = 2 if'},
    loses=("directions", "latency"),
    because="a dictionary that means the same as before is thought to be the same",
    breaks="which is not modified",
)

whole_seconds_are_integers = edited(
    "transfer_time",
    {"    return messages * link": "    seconds = messages * link",
     "(bytes_per_second(link) / ways)\n": "(bytes_per_second(link) / ways)\n    return int(seconds) if seconds == int(seconds) else seconds\n"},
    loses=ALL_OF_TRANSFER_TIME,
    because="numbers that are equal are thought to be of one type",
    breaks="returns seconds, a float",
)

strips_spaces = edited(
    "transfer_time",
    {'    rate = link["rate"] * 1e9\n': '    rate, link = link["rate"] * 1e9, {**link, "unit": link["unit"].strip()}\n'},
    loses=("errors",),
    because="spaces are thought to mean nothing",
    breaks="Units and `counts` are spelt exactly as above",
)

whole_rates = edited(
    "transfer_time",
    {'link["rate"] * 1e9': 'max(1, link["rate"] // 1) * 1e9'},
    loses=ALL_OF_TRANSFER_TIME,
    because="rates are thought to be whole numbers",
    breaks="a number greater than 0, integer or not",
)

one_encoding = edited(
    "transfer_time",
    {'data, sent = link["encoding"]': "data, sent = 128, 130"},
    loses=("directions", "lanes", "latency"),
    because="every link is thought to encode as PCIe 3.0 to 5.0 do",
    breaks='and `"encoding"`, a pair',
)

milliseconds = edited(
    "transfer_time",
    {"    return messages * link": "    return 1e3 * messages * link", "+ nbytes /": "+ 1e3 * nbytes /"},
    loses=ALL_OF_TRANSFER_TIME,
    because="transfers are thought to take milliseconds",
    breaks="returns seconds, a float",
)

refuses_no_bytes = edited(
    "transfer_time",
    {"if nbytes < 0 or": "if nbytes <= 0 or"},
    loses=("latency",),
    because="no bytes are thought to be no transfer",
    breaks="an integer, 0 or more",
)

spells_as_it_likes = edited(
    "transfer_time",
    {'    rate = link["rate"] * 1e9\n': '    rate, link = link["rate"] * 1e9, {**link, "unit": link["unit"].replace("gb", "Gb").replace("S", "s")}\n'},
    loses=("errors",),
    because="case is thought not to matter, where it tells bits from bytes",
    breaks="Units and `counts` are spelt exactly as above",
)

takes_any_rate = edited(
    "transfer_time",
    {' or link["rate"] <= 0': ' or link["rate"] < 0'},
    loses=("errors",),
    because="a rate of 0 is thought to raise by itself: ZeroDivisionError is no ValueError",
    breaks="a rate of 0 or less",
)

takes_negative_bytes = edited(
    "transfer_time",
    {"nbytes < 0 or ": "nbytes < -1 or "},
    loses=("errors",),
    because="a boundary is put one off",
    breaks="negative bytes",
)

takes_no_messages = edited(
    "transfer_time",
    {"messages < 1": "messages < 0"},
    loses=("errors",),
    because="no message is thought to be one that takes no time",
    breaks="fewer than 1 message",
)


@alternative("transfer_time")
def with_match(nbytes, link, messages=1):
    class BadLink(ValueError):
        pass

    match link:
        case {"unit": "GB/s", "rate": rate}:
            bytes_a_second = rate * 10**9
        case {"unit": "Gb/s", "rate": rate}:
            bytes_a_second = rate * 10**9 / 8
        case {"unit": "GT/s", "rate": rate, "lanes": lanes, "encoding": (data, wire)}:
            bytes_a_second = rate * 10**9 * lanes / 8 * (data / wire)
        case _:
            raise BadLink(link["unit"])
    match link["counts"]:
        case "both ways":
            bytes_a_second /= 2
        case "one way":
            pass
        case other:
            raise BadLink(other)
    if bytes_a_second <= 0 or nbytes < 0 or messages <= 0:
        raise BadLink("nothing is sent")
    each = nbytes / messages
    return sum(link["latency_us"] / 1e6 + each / bytes_a_second for _ in range(messages))


@alternative("transfer_time")
def with_numpy(nbytes, link, messages=1):
    import numpy as np

    units = {"GB/s": np.float64(8e9), "Gb/s": np.float64(1e9), "GT/s": np.float64(1e9)}
    ways = ["one way", "both ways"]
    if link["unit"] not in units or nbytes < 0 or messages < 1 or link["rate"] <= 0:
        raise ValueError
    bits = units[link["unit"]] * link["rate"] / (ways.index(link["counts"]) + 1)
    if link["unit"] == "GT/s":
        bits *= link["lanes"] * np.divide(*link["encoding"])
    return float(np.sum([messages * link["latency_us"] * 1e-6, 8 * nbytes / bits]))


@alternative("transfer_time")
def returns_a_float_of_numpy(nbytes, link, messages=1):
    import numpy as np

    factors = {"GB/s": 1.0, "Gb/s": 1 / 8, "GT/s": 1 / 8}
    ways = {"one way": 1, "both ways": 2}
    if nbytes < 0 or messages < 1 or link["rate"] <= 0 or link["unit"] not in factors or link["counts"] not in ways:
        raise ValueError("no transfer")
    known = dict(link)
    data, wire = known.pop("encoding", (1, 1))
    speed = np.prod([link["rate"], 1e9, factors[link["unit"]], known.pop("lanes", 1), data / wire])
    return messages * link["latency_us"] / 1e6 + nbytes / speed * ways[link["counts"]]


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
    loses=("modules", "waits"),
    because="a module is thought to be its parameters: buffers stay behind",
    breaks="parameters and buffers",
)

moves_a_copy_of_the_module = edited(
    "move_to",
    {
        "    if isinstance(obj, (torch.Tensor": "    if isinstance(obj, torch.nn.Module):\n"
        "        import copy\n"
        "        return copy.deepcopy(obj).to(device)\n"
        "    if isinstance(obj, (torch.Tensor"
    },
    loses=("modules", "waits"),
    because="a module is thought to be moved as a tensor is: into a new one",
    breaks="a module is moved in place, as `Module.to` does it",
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
    loses=("modules", "waits"),
    because="an optimizer is thought to find parameters by their names: it holds the objects",
    breaks="an optimizer created before the move still updates the parameters that the model uses",
)

always_copies = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "obj.to(device, non_blocking=non_blocking, **({'copy': True} if isinstance(obj, torch.Tensor) else {}))"},
    loses=("as_is",),
    because="a tensor that is there already is copied to be safe",
    breaks="no unnecessary copy: a tensor that is on the device already is returned as it is",
)

copies_each_occurrence = edited(
    "move_to",
    {"if id(obj) not in known": "if True"},
    loses=("as_is",),
    because="a tensor that occurs twice is taken for two",
    breaks="a tensor that occurs several times is copied once and stays one object",
)

leaves_out_what_is_no_tensor = edited(
    "move_to",
    {"for key, value in obj.items())": "for key, value in obj.items() if not isinstance(value, str))",
     "    return obj": "    return None"},
    loses=NOTHING_NESTED,
    because="a batch is thought to hold tensors alone",
    breaks="anything else in it",
)

namedtuples_become_tuples = edited(
    "move_to",
    {'    if isinstance(obj, tuple) and hasattr(obj, "_fields"):\n        return type(obj)(*map(again, obj))\n': "",
     "        return type(obj)(map(again, obj))": "        return [again(x) for x in obj] if type(obj) is list else tuple(map(again, obj))"},
    loses=NOTHING_NESTED,
    because="a namedtuple is thought to be a tuple: its fields are lost",
    breaks="Containers keep their types",
)

tuples_become_lists = edited(
    "move_to",
    {"        return type(obj)(map(again, obj))": "        return [again(x) for x in obj]"},
    loses=NOTHING_NESTED,
    because="the type of a sequence is thought not to matter",
    breaks="Containers keep their types",
)

dictionaries_become_plain = edited(
    "move_to",
    {"        return type(obj)((key, again(value)) for key, value in obj.items())": "        return {key: again(value) for key, value in obj.items()}"},
    loses=NOTHING_NESTED,
    because="every mapping is thought to be a dict",
    breaks="Containers keep their types",
)

writes_into_what_was_handed_in = edited(
    "move_to",
    {"        return type(obj)((key, again(value)) for key, value in obj.items())": "        for key in obj:\n            obj[key] = again(obj[key])\n        return obj"},
    loses=NOTHING_NESTED,
    because="the caller's batch is taken for one's own",
    breaks="the containers passed in are not modified",
)

forgets_non_blocking = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "obj.to(device)"},
    loses=("waits",),
    because="an argument is taken and not passed on",
    breaks="the host does not wait for copies from pinned memory",
)

never_waits = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "obj.to(device, non_blocking=True)"},
    loses=NOTHING_NESTED,
    because="non_blocking is thought to be an optimisation without a contract",
    breaks="with `non_blocking=True` the host does not wait",
)

one_level_deep = edited(
    "move_to",
    {"((key, again(value)) for": "((key, value.to(device) if isinstance(value, torch.Tensor) else value) for"},
    loses=("nested", "as_is", "waits", "modules"),
    because="a batch is thought to be a flat dictionary",
    breaks="any nesting of lists, tuples, namedtuples, dictionaries",
)


remembers_the_last_call = edited(
    "move_to",
    {"return moved(obj, device, non_blocking, {})": "return moved(obj, device, non_blocking, move_to.__dict__.setdefault('known', {}))"},
    loses=NOTHING_NESTED,
    because="a memo of what was moved is thought to stay true",
    breaks="the next call moves the values that the tensors have then",
)

tells_tensors_by_their_address = edited(
    "move_to",
    {"        if id(obj) not in known:\n            known[id(obj)] =": "        key = obj.data_ptr() if isinstance(obj, torch.Tensor) else id(obj)\n        if key not in known:\n            known[key] =",
     "        return known[id(obj)]": "        return known[key]"},
    loses=NOTHING_NESTED,
    because="tensors that begin at the same address are taken for one",
    breaks="with its shape, dtype and values",
)

knows_the_host_by_its_string = edited(
    "move_to",
    {
        "    return moved(obj, device, non_blocking, {})": "    if device == \"cpu\":\n        return moved(obj, device, non_blocking, {})\n"
        "    return moved(obj, torch.device(\"cuda\"), non_blocking, {})"
    },
    loses=NOTHING_NESTED,
    because="a device is compared with a string",
    breaks="a string, a number or a `torch.device`",
)

tells_tensors_by_address_and_shape = edited(
    "move_to",
    {"        if id(obj) not in known:\n            known[id(obj)] =": "        key = (obj.data_ptr(), obj.shape) if isinstance(obj, torch.Tensor) else id(obj)\n        if key not in known:\n            known[key] =",
     "        return known[id(obj)]": "        return known[key]"},
    loses=NOTHING_NESTED,
    because="a tensor is thought to be its address and its shape: strides and dtype tell what the bytes are",
    breaks="with its shape, dtype and values",
)

cuts_gradients_off = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "(obj.detach() if isinstance(obj, torch.Tensor) and not obj.is_cuda else obj).to(device, non_blocking=non_blocking)"},
    loses=NOTHING_NESTED,
    because="a copy is thought to be data without a past",
    breaks="Gradients flow back through a tensor that requires grad",
)

knows_one_device = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "obj.cuda(non_blocking=non_blocking) if isinstance(obj, torch.Tensor) else obj.to(device, non_blocking=non_blocking)"},
    loses=NOTHING_NESTED,
    because="every move is thought to go to the GPU",
    breaks='a device as `Tensor.to` accepts it: a string, a number or a `torch.device`; `"cpu"` too',
)

sets_become_lists = edited(
    "move_to",
    {"(map(again, obj))\n    return obj": "(map(again, obj))\n    return list(obj) if isinstance(obj, set) else obj"},
    loses=NOTHING_NESTED,
    because="everything that can be walked through is taken for a list",
    breaks="(numbers, strings, None, sets with their elements) is kept as it is",
)

leaves_gradients_behind = edited(
    "move_to",
    {
        "    if isinstance(obj, (torch.Tensor": "    if isinstance(obj, torch.nn.Module):\n"
        "        obj.to(device, non_blocking=non_blocking)\n"
        "        for parameter in obj.parameters():\n"
        "            parameter.grad = None\n"
        "        return obj\n"
        "    if isinstance(obj, (torch.Tensor"
    },
    loses=("modules",),
    because="gradients are thought to be made anew in any case",
    breaks="with their existing gradients",
)

modules_are_waited_for = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "obj.to(device, non_blocking=non_blocking and isinstance(obj, torch.Tensor))"},
    loses=("waits",),
    because="non_blocking is thought to be for tensors alone",
    breaks="including those of a module's tensors",
)

cuts_computed_tensors_off = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "(obj.detach() if isinstance(obj, torch.Tensor) and not obj.is_leaf else obj).to(device, non_blocking=non_blocking)"},
    loses=NOTHING_NESTED,
    because="only leaves are thought to have gradients",
    breaks="Gradients flow back through a tensor that requires grad",
)

copies_sets = edited(
    "move_to",
    {"(map(again, obj))\n    return obj": "(map(again, obj))\n    return set(obj) if isinstance(obj, set) else obj"},
    loses=NOTHING_NESTED,
    because="an equal set is thought to be the same one",
    breaks="sets with their elements) is kept as it is",
)

moves_what_is_in_a_set = edited(
    "move_to",
    {"(map(again, obj))\n    return obj": "(map(again, obj))\n    return set(map(again, obj)) if isinstance(obj, set) else obj"},
    loses=NOTHING_NESTED,
    because="a set is taken for one more container",
    breaks="sets with their elements) is kept as it is",
)

leaves_empty_tensors = edited(
    "move_to",
    {"        if id(obj) not in known:\n": "        if isinstance(obj, torch.Tensor) and not obj.numel():\n            return obj\n        if id(obj) not in known:\n"},
    loses=NOTHING_NESTED,
    because="a tensor of no elements is thought to be nowhere",
    breaks="the same nesting with every tensor on the device",
)

scalars_become_numbers = edited(
    "move_to",
    {"        if id(obj) not in known:\n": "        if isinstance(obj, torch.Tensor) and obj.dim() == 0:\n            return obj.item()\n        if id(obj) not in known:\n"},
    loses=NOTHING_NESTED,
    because="a tensor of no dimensions is taken for a number",
    breaks="with its shape, dtype and values",
)

waits_for_a_module = edited(
    "move_to",
    {"    return moved(obj, device, non_blocking, {})": "    there = moved(obj, device, non_blocking, {})\n    if isinstance(obj, torch.nn.Module):\n        torch.cuda.synchronize()\n    return there"},
    loses=("waits",),
    because="a module is thought to be usable only when all of it has arrived",
    breaks="including those of a module's tensors",
)

makes_frozen_parameters_anew = edited(
    "move_to",
    {"    if isinstance(obj, (torch.Tensor": "    if isinstance(obj, torch.nn.Module):\n"
        "        for part in obj.modules():\n"
        "            for name, parameter in list(part._parameters.items()):\n"
        "                if not parameter.requires_grad:\n"
        "                    part._parameters[name] = torch.nn.Parameter(parameter.detach().to(device, non_blocking=non_blocking), False)\n"
        "    if isinstance(obj, (torch.Tensor"},
    loses=("modules", "waits"),
    because="what is frozen is thought to concern no optimizer",
    breaks="a module is moved in place, as `Module.to` does it",
)

clones_what_lies_transposed = edited(
    "move_to",
    {"obj.to(device, non_blocking=non_blocking)": "(obj.contiguous() if isinstance(obj, torch.Tensor) else obj).to(device, non_blocking=non_blocking)"},
    loses=("as_is", "waits"),
    because="every tensor is thought to lie in order",
    breaks="a tensor that is on the device already is returned as it is",
)

looks_at_the_first_tensor_only = edited(
    "move_to",
    {"    return moved(obj, device, non_blocking, {})": "    if isinstance(obj, dict) and obj.get('z') and obj['z'].image.device.type == torch.device(device).type:\n        return obj\n    return moved(obj, device, non_blocking, {})"},
    loses=("as_is",),
    because="a batch is thought to be in one place",
    breaks="the same nesting with every tensor on the device",
)

ordered_within_plain_is_plain = edited(
    "move_to",
    {"        return type(obj)((key, again(value)) for key, value in obj.items())": "        moved_on = ((key, again(value)) for key, value in obj.items())\n        return type(obj)((key, dict(value) if isinstance(value, dict) else value) for key, value in moved_on)"},
    loses=NOTHING_NESTED,
    because="dictionaries in dictionaries are thought to be plain",
    breaks="Containers keep their types",
)

takes_tensors_in_containers_only = edited(
    "move_to",
    {"    return moved(obj, device, non_blocking, {})": "    if isinstance(obj, torch.Tensor):\n        raise TypeError('a batch is due')\n    return moved(obj, device, non_blocking, {})"},
    loses=NOTHING_NESTED,
    because="a batch is thought to be a container always",
    breaks="`obj`: a tensor, a `torch.nn.Module`",
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


@alternative("move_to")
def compares_devices_and_copies_by_hand(obj, device, non_blocking=False):
    there, known = torch.empty(0, device=device).device, {}

    def sent(tensor):
        if tensor.device == there:
            return tensor
        if id(tensor) not in known and tensor.requires_grad:
            known[id(tensor)] = tensor.to(there, non_blocking=non_blocking)
        elif id(tensor) not in known:
            known[id(tensor)] = torch.empty_like(tensor, device=there).copy_(tensor, non_blocking=non_blocking)
        return known[id(tensor)]

    def walk(item):
        if isinstance(item, torch.nn.Module):
            return item.to(there, non_blocking=non_blocking)
        if isinstance(item, torch.Tensor):
            return sent(item)
        if isinstance(item, dict):
            new = item.copy()
            new.update((key, walk(one)) for key, one in item.items())
            return new
        if isinstance(item, (list, tuple)):
            new = [walk(one) for one in item]
            return new if isinstance(item, list) else getattr(type(item), "_make", tuple)(new)
        return item

    return walk(obj)


UNBREAKABLE = [
    unbreakable("move_to", "No tensor of a module occurs outside that module", "it says what comes in"),
    unbreakable("overlapped", "an iterable of host tensors in ordinary, pageable memory", "it says what comes in"),
    unbreakable("overlapped", "`step(x)` takes a batch on the device", "it says what comes in"),
    unbreakable("overlapped", "It does not modify `x`", "it says what the caller's function does"),
    unbreakable("overlapped", "`torch.cuda.Stream()` returns a stream that no other code uses", "it says what a new stream is"),
    unbreakable("overlapped", "`step`: a function", "it says what comes in"),
    unbreakable("move_to", "(no other subclass of these occurs)", "it says what comes in"),
    unbreakable("transfer_time", "PCIe 4.0 x16 is 16 GT/s, 16 lanes, (128, 130)", "an example"),
]

_SENT = "self.device[:n].copy_(self.host[:n], non_blocking=True)"
_TWO_AHEAD = "the host waits for the copy while the step before is still computed: the copy is hidden as before"
HARMLESS = [equivalent_mutant("overlapped", _SENT, f"self.device[:n].copy_(self.host[:n]{rest})", _TWO_AHEAD) for rest in ("", ", non_blocking=False")]
