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
# # Capstone: fix a slow, unstable job: exercises
#
# A job that you have not written is slow, takes too much memory or learns something else, and you may change little. What is
# graded is what the machine does after your changes, and whether a measurement stands behind each of them. The second
# exercise is the same on paper: a plan for a large model, which somebody else will check.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import torch
from gpulab import capstone

# %% [markdown]
# ## E22.1 `triage`
#
# A TinyVLA is trained and then serves requests, on a modelled H100. Since last month parts of the job are broken. The chapter's
# table says what can be wrong and in which figures it shows; `capstone.FAULTS` holds it as data (`part`, `shows`, `says`), and
# `capstone.OPTIONS` what can be changed (`parts`, `does`). Some of what is offered is no repair.
#
# Write `triage(job)`:
#
# - [c1] `job` is a `capstone.Ticket`. [c2] `job.run(changes)` runs the job with a list of changes made, by their names, and no others, and
#   returns a `capstone.Report`: [c3] `report["step_us"]` is a figure, `report.losses` what it learned. [c4] A run with the same changes gives
#   the same figures. [c5] More than `job.runs` runs raise `capstone.OutOfRuns`;
# - [c6] `job.targets` is a dictionary from every figure to the most that it may be, `job.losses` are the losses that were asked for,
#   and `job.offered` are the names of all changes;
# - [c7] up to four parts are broken, each in one way. [c8] Three runs more are allowed than it takes to measure the broken job once and
#   each repair once, so **changes cannot be tried out one after the other**: [c9] the figures say where to look;
# - [c10] returns a list of tuples `(change, figure, before, after)`, in the order in which changes are made. [c11] With all of them made
#   **every figure is at most its target**: [c12] those of training, of memory and of serving;
# - [c13] and with all of them made **each loss differs from the one that was asked for by a five-hundredth of it at most**. [c14] Fewer updates,
#   smaller batches or gradients without clipping are faster, and do other work;
# - [c15] at most `job.changes` changes are made, which is as many as there are broken parts. [c16] A change that leaves the job as it was,
#   because that part is right, is one too many;
# - [c17] `figure` is the name of a figure that the change lowers. [c18] `before` is its value in a report with all changes that stand
#   before this one made, `after` with this one made too: [c19] **both from runs of the job**. [c20] `before` is more than 1.02 times `after`;
# - [c21] a job whose first report meets all targets and losses gets an empty list.

# %% nbgrader={"grade": false, "grade_id": "triage", "locked": false, "schema_version": 3, "solution": true, "task": false}
def triage(job):
    """The changes that mend a job, in order, each with the figure that it lowers."""
    ### BEGIN SOLUTION
    # A figure stands behind those whose faults raise it too: reads behind clipping, cached bytes behind a batch of one.
    remedies = [
        ("input_us", "workers read ahead"), ("races", "pinned buffers"), ("repeated_samples", "next batch of the epoch"),
        ("stale_bytes", "clear the gradients"), ("other_format_layers", "bf16 autocast"), ("softmaxes", "fused attention"),
        ("flops", "keep the activations"), ("unscalings", "plain backward pass"), ("collectives", "one all-reduce"),
        ("updates", "fused optimizer"), ("synchronizes", "leave the allocator alone"), ("growth_bytes", "losses stay on the card"),
        ("reads", "clip by one norm"), ("reads", "losses stay on the card"), ("to_host_bytes", "save at the end"),
        ("pageable_copies", "pinned buffers"), ("late_us", "pinned buffers"), ("evaluation_bytes", "evaluate without a graph"),
        ("served_launches", "one batch of requests"), ("served_waits", "read tokens at the end"), ("concatenated_bytes", "cache in buffers"),
    ]  # fmt: skip
    found, report = [], job.run()
    for figure, change in remedies:
        made = [name for name, *_ in found]
        if report[figure] > job.targets[figure] and change not in made:
            after = job.run([*made, change])
            if report[figure] > 1.02 * after[figure]:
                found.append((change, figure, report[figure], after[figure]))
                report = after
    return found
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "triage_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_triage():
    """A job with three broken parts: what its figures are, what was changed, and what is left."""
    planted = ["no workers", "clipped tensor by tensor", "requests one by one"]
    ticket = capstone.Ticket(planted, changes=3, runs=7)
    print("broken:")
    print(capstone.Job(planted).run().table(ticket.targets))
    found = triage(ticket)
    print(f"\nchanged, after {len(ticket.made)} runs of {ticket.runs}:")
    for change, figure, before, after in found:
        print(f"  {change:26}{figure:18}{before:10,.0f} ->{after:10,.0f}")
    mended = capstone.Job(planted).run([change for change, *_ in found])
    print("\nwhat is still above its target:")
    print(mended.table(ticket.targets))

    assert len(found) <= 3, "three parts are broken, and three changes are allowed"
    assert not mended.above(ticket.targets), "figures are still above their targets: see the last table"
    assert capstone.same_losses(mended.losses, ticket.losses), f"the losses that were asked for are {ticket.losses}"
    runs = {frozenset(changes): report for changes, report in ticket.made}
    names = [change for change, *_ in found]
    for number, (change, figure, before, after) in enumerate(found):
        pair = frozenset(names[:number]), frozenset(names[: number + 1])
        assert all(made in runs for made in pair), f"{change} was not measured by itself, behind the changes before it"
        assert [before, after] == [runs[made][figure] for made in pair], f"{change}: {figure} was not {before} and then {after}"
        assert before > 1.02 * after, f"{change} does not lower {figure} by more than 2 %"
    assert triage(capstone.Ticket([], changes=1, runs=5)) == [], "nothing is wrong with this job"


_see_triage()

# %% nbgrader={"grade": true, "grade_id": "triage_hidden", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of triage: targets 4, losses 3, changes 2, justified 4, healthy 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("capstone.triage")
### END HIDDEN TESTS

# %% [markdown]
# ## E22.2 `design_review`
#
# A customer names a model, machines, days and dollars. A table on the internet says "7B: 8 A100, 1 to 3 days". Your plan is
# computed, and somebody computes it again.
#
# Write `design_review(spec)`. Every `spec` is a dictionary with
#
# - [c1] `"shape"`, a `gpulab.memory.Shape` (`parameters`, `layers`, `kv_heads`, `cached` ...), and `"card"`, a card of `gpulab.cuda.CARDS`
#   (`memory_bytes`, `bytes_per_s`, and `flops_per_s["bf16"]`, which is dense). [c2] `"sheet_flops_per_s"` is what the card's page prints
#   in large type: [c3] it holds for 2:4-sparse matrices, and these are none;
# - [c4] `"nodes"` with `"node_gpus"` GPUs each, `"dollars_per_gpu_hour"`, and `"reserve_bytes"` that nothing of what follows may use;
# - [c5] `"mode"`. **Where it is `"train"`**, the plan is a dictionary with `"tensor"`, `"pipeline"`, `"data"`, `"stage"`, `"micro_batch"`,
#   `"save_every_s"`, `"days"`, `"dollars"`. [c6] The first three are degrees T, P, D of T · P · D GPUs, which are to be there. [c7] A
#   tensor-parallel group stays in its node: [c8] T divides `node_gpus`, and `kv_heads`. [c9] P divides the layers, and D times the
#   micro-batch divides `"batch"`, the sequences of `"sequence"` tokens in a step, so each GPU has m micro-batches in a step;
# - [c10] `"stage"` is ZeRO's, 0 to 3, and at most 1 where P is more than 1. [c11] A parameter takes 2 bytes of weights, 2 of gradients and
#   12 of optimizer (a float32 copy and two moments), each divided by T · P. [c12] D divides the 12 from stage 1 on, the gradients from
#   stage 2 on, the weights in stage 3. [c13] Activations take `"layer_bytes"` for each token of a micro-batch and each layer, divided by T:
#   [c14] a GPU has layers/P layers, and the smaller one of P and m micro-batches under way at once;
# - [c15] a step computes 6 FLOPs for each parameter and each token, on all GPUs, at `"mfu"` of the dense peak. [c16] The pipeline stretches
#   it by (m + P − 1)/m. [c17] For data parallelism each GPU sends twice the bytes of its weights, T · P being divided out, times (D − 1)/D
#   in a step; [c18] in stage 3 not twice but 2m + 1 times. [c19] At `"port_bytes_per_s"` that takes no longer than the step, or it cannot be hidden;
# - [c20] a save takes `"save_s"`. [c21] A GPU fails every `"gpu_mtbf_s"`, so the job fails T · P · D times as often, and loses half an
#   interval each time. [c22] With `save_every_s` = τ the job takes 1 + save_s/τ + τ · T · P · D/(2 gpu_mtbf_s) times what its steps
#   take for `"tokens"`. [c23] τ is such that the two terms after the 1 are together at most 1.05 times the least that they can be;
# - [c24] `days` and `dollars` are right to 1 %, and within `"max_days"` and `"max_dollars"`. [c25] No plan that meets everything costs less
#   than 1/1.01 of yours;
# - [c26] **where the mode is `"serve"`**, the plan has `"tensor"` (T as above), `"replicas"`, `"batch"`, `"between_tokens_s"` and
#   `"dollars_per_hour"`. [c27] Each replica is T GPUs and answers up to `batch` sequences at once, and all replicas together at least `"users"`.
#   [c28] On each GPU lie a T-th of the weights, and of keys and values for `"context"` tokens of every sequence of the batch, 2 bytes each;
# - [c29] a token takes `gpulab.serving.costs.least_seconds(shape, decode(batch, context), card, "bf16")`, divided by T and by
#   `"share"`, what the engine reaches of it, and where T is more than 1, two times `"all_reduce_s"` for each layer. [c30] That is at most
#   `"max_between_tokens_s"`, the GPUs of all replicas are there, and their dollars an hour are at most `"max_dollars_per_hour"`. [c31] Both
#   numbers are right to 1 %, and no plan that meets everything costs less than 1/1.01 of yours;
# - [c32] a specification that no plan meets gets `{"refused": [c33] constraint}` with the **first** constraint that no legal plan meets together
#   with all before it: [c34] for training `"memory"`, `"network"`, `"time"`, `"cost"` in this order, for serving `"memory"`, `"latency"`,
#   `"gpus"`, `"cost"`. [c35] A legal plan for training has its degrees, its micro-batch and its GPUs as said above and the best τ; [c36] one
#   for serving has T and as few replicas as its batch allows.

# %% nbgrader={"grade": false, "grade_id": "design_review", "locked": false, "schema_version": 3, "solution": true, "task": false}
def design_review(spec):
    """The cheapest plan that meets a specification, or the constraint that binds."""
    ### BEGIN SOLUTION
    plans = list(services_of(spec) if spec["mode"] == "serve" else layouts_of(spec))
    within = {
        "memory": lambda plan: plan["bytes"] + spec["reserve_bytes"] <= spec["card"].memory_bytes,
        "network": lambda plan: plan["crossing_s"] <= plan["step_s"],
        "time": lambda plan: plan["days"] <= spec["max_days"],
        "latency": lambda plan: plan["between_tokens_s"] <= spec["max_between_tokens_s"],
        "gpus": lambda plan: plan["tensor"] * plan["replicas"] <= spec["nodes"] * spec["node_gpus"],
        "cost": lambda plan: plan["cost"] <= spec["max_dollars_per_hour" if spec["mode"] == "serve" else "max_dollars"],
    }
    for constraint in ("memory", "latency", "gpus", "cost") if spec["mode"] == "serve" else ("memory", "network", "time", "cost"):
        plans = [plan for plan in plans if within[constraint](plan)]
        if not plans:
            return {"refused": constraint}
    best = min(plans, key=lambda plan: (plan["cost"], -plan.get("micro_batch", 0)))
    said = ("tensor", "replicas", "batch", "between_tokens_s", "dollars_per_hour")
    if spec["mode"] == "train":
        said = ("tensor", "pipeline", "data", "stage", "micro_batch", "save_every_s", "days", "dollars")
    return {name: best[name] for name in said}


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def tensor_degrees(spec):
    return [t for t in divisors(spec["node_gpus"]) if spec["shape"].kv_heads % t == 0]


def layouts_of(spec):
    """Every way to lay out the training, with what it takes."""
    shape, there = spec["shape"], spec["nodes"] * spec["node_gpus"]
    for t in tensor_degrees(spec):
        for p in divisors(shape.layers):
            for d in divisors(spec["batch"]):
                if t * p * d <= there:
                    for stage in range(4 if p == 1 else 2):
                        for micro in divisors(spec["batch"] // d):
                            layout = {"tensor": t, "pipeline": p, "data": d, "stage": stage, "micro_batch": micro}
                            yield layout | taken_by(spec, t, p, d, stage, micro)


def taken_by(spec, t, p, d, stage, micro):
    shape, gpus, m = spec["shape"], t * p * d, spec["batch"] // (d * micro)
    weights, gradients, optimizer = 2 / (d if stage > 2 else 1), 2 / (d if stage > 1 else 1), 12 / (d if stage > 0 else 1)
    own = shape.parameters / (t * p)
    kept = micro * spec["sequence"] * spec["layer_bytes"] * (shape.layers / p) * min(p, m) / t
    flops = 6 * shape.parameters * spec["batch"] * spec["sequence"]
    step_s = flops / (gpus * spec["card"].flops_per_s["bf16"] * spec["mfu"]) * (m + p - 1) / m
    crossing_s = (2 if stage < 3 else 2 * m + 1) * 2 * own * (d - 1) / d / spec["port_bytes_per_s"]
    every_s = (2 * spec["save_s"] * spec["gpu_mtbf_s"] / gpus) ** 0.5
    lost = spec["save_s"] / every_s + every_s * gpus / (2 * spec["gpu_mtbf_s"])
    days = spec["tokens"] / (spec["batch"] * spec["sequence"]) * step_s * (1 + lost) / 86_400
    dollars = 24 * days * gpus * spec["dollars_per_gpu_hour"]
    return {
        "bytes": own * (weights + gradients + optimizer) + kept, "step_s": step_s, "crossing_s": crossing_s,
        "save_every_s": every_s, "days": days, "dollars": dollars, "cost": dollars,
    }  # fmt: skip


def services_of(spec):
    """Every way to serve, with what it takes."""
    from gpulab.serving.costs import decode, least_seconds

    shape = spec["shape"]
    for t in tensor_degrees(spec):
        for batch in range(1, spec["users"] + 1):
            replicas = -(-spec["users"] // batch)
            cached = batch * spec["context"] * shape.cached
            least = least_seconds(shape, decode(batch, spec["context"]), spec["card"], "bf16")
            talking = 2 * shape.layers * spec["all_reduce_s"] if t > 1 else 0
            dollars = t * replicas * spec["dollars_per_gpu_hour"]
            yield {
                "tensor": t, "replicas": replicas, "batch": batch, "bytes": 2 * (shape.parameters + cached) / t,
                "between_tokens_s": least / (t * spec["share"]) + talking, "dollars_per_hour": dollars, "cost": dollars,
            }  # fmt: skip
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "design_review_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_design_review():
    """The customer's question for a 7B model, and the table's answer; then a service, and what cannot be."""
    from gpulab.memory import SHAPES

    machines = {"node_gpus": 8, "dollars_per_gpu_hour": 2.0, "reserve_bytes": 6 << 30, "sheet_flops_per_s": 624e12}
    machines |= {"shape": SHAPES["Llama 2 7B"], "card": gpulab.cuda.CARDS["A100"]}
    training = machines | {
        "mode": "train", "nodes": 16, "tokens": 2 * 10**12, "batch": 1024, "sequence": 4096, "layer_bytes": 186_504, "mfu": 0.4,
        "port_bytes_per_s": 24e9, "save_s": 60.0, "gpu_mtbf_s": 1.8e8, "max_days": 90.0, "max_dollars": 400_000.0,
    }
    plan = design_review(training)
    print("2T tokens on up to 128 A100:", *(f"{name} {value:,.4g}" for name, value in plan.items()), sep="\n  ")
    assert "refused" not in plan, "128 A100 are enough for 2T tokens in 90 days"
    assert plan["tensor"] <= 8 and plan["tensor"] * plan["pipeline"] * plan["data"] <= 128, "these GPUs are not there"
    assert 50 < plan["days"] <= 90, "on 128 A100, 2T tokens take two months and more"
    hours = plan["dollars"] / 2.0
    assert 160_000 < hours < 200_000, f"the published run took 184,320 GPU hours; the plan takes {hours:,.0f}"

    table = design_review(training | {"nodes": 1, "max_days": 3.0})
    print("the same on 8 A100 in 3 days:", table)
    assert table == {"refused": "time"}
    assert design_review(training | {"max_dollars": 200_000.0}) == {"refused": "cost"}

    serving = machines | {
        "mode": "serve", "nodes": 4, "users": 64, "context": 4096, "share": 0.7, "all_reduce_s": 1e-5,
        "max_between_tokens_s": 0.05, "max_dollars_per_hour": 64.0,
    }
    service = design_review(serving)
    print("64 users with 4,096 tokens each:", *(f"{name} {value:,.4g}" for name, value in service.items()), sep="\n  ")
    assert service["replicas"] * service["batch"] >= 64 and service["between_tokens_s"] <= 0.05
    each = 2 * (SHAPES["Llama 2 7B"].parameters + service["batch"] * 4096 * SHAPES["Llama 2 7B"].cached) / service["tensor"]
    assert each + (6 << 30) <= machines["card"].memory_bytes, "weights, keys and values do not fit"
    assert service["dollars_per_hour"] == 2.0 * service["tensor"] * service["replicas"]
    assert design_review(serving | {"max_between_tokens_s": 0.001}) == {"refused": "latency"}


_see_design_review()

# %% nbgrader={"grade": true, "grade_id": "design_review_hidden", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of design_review: legal 2, memory 3, network 1, time 3, cost 1, interval 1, serving 2, refusals 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("capstone.design_review")
### END HIDDEN TESTS
