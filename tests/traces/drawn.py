"""Random traces in Kineto's form: nested host operations, calls, kernels, copies and collectives on a few streams."""

import random


def random_document(seed: int, events: int = 60) -> dict:
    rng = random.Random(seed)
    made = [nested(rng, tid, 0.0, 1000.0, 3) for tid in (1, 2)[: rng.randint(1, 2)]]
    listed = [event for thread in made for event in thread]
    for number in range(rng.randint(1, events)):
        listed += put(rng, number)
    if rng.random() < 0.5:
        listed.append(host("user_annotation", "ProfilerStep#3", 4, rng.uniform(0, 100), rng.uniform(900, 1200)))
    rng.shuffle(listed)
    return {"schemaVersion": 1, "traceEvents": listed}


def host(cat, name, tid, start, end, **args):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": 5000.0 + start,
        "dur": end - start,
        "args": args,
    }


def nested(rng, tid, start, end, depth):
    """Operations inside one another and after one another between two moments."""
    found, at = [], start
    while depth and end - at > 20 and rng.random() < 0.8:
        begin = rng.uniform(at, at + 10)
        at = rng.uniform(begin + 5, end)
        found.append(host("cpu_op", rng.choice(["aten::mm", "aten::add", "aten::empty"]), tid, begin, at))
        found += nested(rng, tid, begin + 1, at - 1, depth - 1)
    return found


def put(rng, number):
    """A call on a thread of its own, and what it launches."""
    at, took, wait = 40.0 * number, rng.uniform(1, 30), rng.uniform(2, 200)
    cat, name = rng.choice(
        [
            ("kernel", "gemm"),
            ("kernel", "add"),
            ("kernel", "ncclDevKernel_AllReduce"),
            ("gpu_memcpy", "Memcpy HtoD"),
            ("gpu_memset", "Memset"),
        ]
    )
    stream = 9 if "nccl" in name else rng.choice([7, 7, 8])
    call = host(
        "cuda_runtime",
        rng.choice(["cudaLaunchKernel", "cudaLaunchKernel", "cudaStreamSynchronize"]),
        3,
        at,
        at + 5,
        correlation=number,
    )
    args = {"device": 0, "stream": stream, "correlation": number}
    work = {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": 5000.0 + at + wait,
        "dur": took,
        "args": args,
    }
    return [call, work] if rng.random() < 0.9 else [work]
