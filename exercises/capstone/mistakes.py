"""Chapter "Capstone: fix a slow, unstable job": wrong solutions, and right ones written another way."""

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable  # noqa: F401

# E22.1 triage

ALL = ("targets", "losses", "changes", "justified", "healthy")


@mistake(
    "triage",
    loses=ALL,
    because="a checklist that helped once is worked off from the top",
    breaks="the figures say where to look",
)
def the_usual_order(job):
    usual = ["workers read ahead", "pinned buffers", "bf16 autocast", "fused attention", "fused optimizer", "one batch of requests"]
    found, report = [], job.run()
    if not report.above(job.targets):
        return []
    for change in usual[: job.changes]:
        after = job.run([*(name for name, *_ in found), change])
        found.append((change, "step_us", report["step_us"], after["step_us"]))
        report = after
    return found


@mistake(
    "triage",
    loses=("changes", "justified", "healthy"),
    because="all repairs at once are thought to be safe, since the job is right afterwards",
    breaks="at most `job.changes` changes are made, which is as many as there are broken parts. A change that leaves the job as it was, because that part is right, is one too many",
)
def all_at_once(job):
    repairs = [name for name, option in capstone.OPTIONS.items() if option.repairs]
    before, after = job.run(), job.run(repairs)
    return [(name, "step_us", before["step_us"], after["step_us"]) for name in repairs]


@mistake(
    "triage",
    loses=ALL,
    because="only the time of a step is looked at",
    breaks="every figure is at most its target: those of training, of memory and of serving",
)
def only_the_step(job):
    fast = {
        "input_us": "workers read ahead", "softmaxes": "fused attention", "flops": "keep the activations", "collectives": "one all-reduce",
        "updates": "fused optimizer", "late_us": "pinned buffers", "to_host_bytes": "save at the end",
    }
    found, report = [], job.run()
    for figure, change in fast.items():
        if report["step_us"] > job.targets["step_us"] and report[figure] > job.targets[figure]:
            after = job.run([*(name for name, *_ in found), change])
            if report["step_us"] > 1.02 * after["step_us"]:
                found.append((change, "step_us", report["step_us"], after["step_us"]))
                report = after
    return found


@mistake(
    "triage",
    loses=ALL,
    because="every change that is offered is tried, and what helps is kept",
    breaks="changes cannot be tried out one after the other",
)
def one_after_the_other(job):
    found, report = [], job.run()
    for change in job.offered:
        after = job.run([*(name for name, *_ in found), change])
        lower = [name for name in report.figures if report[name] > 1.02 * after[name]]
        if lower:
            found.append((change, lower[0], report[lower[0]], after[lower[0]]))
            report = after
    return found


shard_for_communication = edited(
    "triage",
    {'("collectives", "one all-reduce")': '("collectives", "shard the model")'},
    loses=ALL,
    because="FSDP is taken for a remedy against communication, and sends half as much again",
    breaks="Some of what is offered is no repair",
)

accumulation_as_speed = edited(
    "triage",
    {'        ("input_us", "workers read ahead"),': '        ("step_us", "accumulate over two batches"), ("input_us", "workers read ahead"),'},
    loses=ALL,
    because="accumulation is taken for a speed-up: the step without an update is shorter",
    breaks="Fewer updates, smaller batches or gradients without clipping are faster, and do other work",
)

no_clipping = edited(
    "triage",
    {'"clip by one norm"': '"no clipping"'},
    loses=("losses",),
    because="clipping that reads numbers is taken out, and not mended",
    breaks="each loss differs from the one that was asked for by a five-hundredth of it at most",
)

scaled_bf16 = edited(
    "triage",
    {'"plain backward pass"': '"scale the loss"'},
    loses=ALL,
    because="bf16 is thought to need a loss scale as fp16 does",
    breaks="and with all of them made",
)

fp16_for_bf16 = edited(
    "triage",
    {'"bf16 autocast"': '"fp16 autocast"'},
    loses=ALL,
    because="any 16-bit format is thought to be the one that was asked for",
    breaks="the most that it may be",
)

serving_forgotten = edited(
    "triage",
    {
        '        ("served_launches", "one batch of requests"), ("served_waits", "read tokens at the end"), ("concatenated_bytes", "cache in buffers"),\n': ""
    },
    loses=ALL,
    because="the job is thought to be its training",
    breaks="those of training, of memory and of serving",
)

stability_forgotten = edited(
    "triage",
    {' ("repeated_samples", "next batch of the epoch"),': ""},
    loses=ALL,
    because="a job that is fast is thought to be mended, whatever it learns",
    breaks="`report.losses` what it learned",
)

hoped_for = edited(
    "triage",
    {"report[figure], after[figure]))": "report[figure], job.targets[figure]))"},
    loses=("justified",),
    because="what a change ought to reach is written down for what it was measured to reach",
    breaks="`before` is its value in a report with all changes that stand before this one made, `after` with this one made too: both from runs of the job",
)

one_figure_for_all = edited(
    "triage",
    {"(change, figure, report[figure], after[figure])": '(change, "step_us", report["step_us"], after["step_us"])'},
    loses=("justified",),
    because="every change is justified by the time of a step",
    breaks="`figure` is the name of a figure that the change lowers",
)

in_another_order = edited(
    "triage",
    {"    return found": "    return found[::-1]"},
    loses=("justified",),
    because="the order in which changes were measured is thought not to matter",
    breaks="in the order in which changes are made",
)

kept_though_useless = edited(
    "triage",
    {"            if report[figure] > 1.02 * after[figure]:": "            if True:"},
    loses=("changes", "justified"),
    because="a change that was tried is kept, whether it helped or not",
    breaks="`before` is more than 1.02 times `after`",
)

as_a_precaution = edited(
    "triage",
    {"    return found": '    return found or [("leave the allocator alone", "synchronizes", 1.0, 0.0)]'},
    loses=("healthy",),
    because="whoever is called is thought to have to change something",
    breaks="a job whose first report meets all targets and losses gets an empty list",
)


@alternative("triage")
def by_the_catalogue(job):
    """Whichever fault has all of its figures behind it, and the more of them the better, is the next suspect."""
    repair = {option.parts[0]: name for name, option in capstone.OPTIONS.items() if option.repairs}
    names, found, cleared = [], [], set()
    report = job.run()
    while above := report.above(job.targets):

        def evidence(fault):
            telling = above.get(fault.shows[0], 0)
            return all(figure in above for figure in fault.shows), telling > 1.2, len(fault.shows), telling

        accused = max((fault for fault in capstone.FAULTS.values() if fault.part not in cleared), key=evidence)
        cleared.add(accused.part)
        figure, after = accused.shows[0], job.run([*names, repair[accused.part]])
        if report[figure] > 1.02 * after[figure]:
            names.append(repair[accused.part])
            found.append((names[-1], figure, report[figure], after[figure]))
            report = after
    return found


@alternative("triage")
def training_first_then_serving(job):
    """All suspects of training are named from one report, and measured; those of serving from the report after that."""
    found, report = [], job.run()

    def suspects_of_training(seen, most):
        high = {name for name in seen.figures if seen[name] > most[name]}
        clipping_reads = seen["reads"] > 5
        yield from (("workers read ahead", "input_us") for _ in {"input_us"} & high)
        if seen["races"]:
            yield "pinned buffers", "races"
        if seen["repeated_samples"]:
            yield "next batch of the epoch", "repeated_samples"
        if seen["stale_bytes"]:
            yield "clear the gradients", "stale_bytes"
        if seen["other_format_layers"]:
            yield "bf16 autocast", "other_format_layers"
        if seen.kernels["aten._softmax"]:
            yield "fused attention", "softmaxes"
        if "flops" in high:
            yield "keep the activations", "flops"
        if seen["unscalings"]:
            yield "plain backward pass", "unscalings"
        if seen["collectives"] > 1:
            yield "one all-reduce", "collectives"
        if seen["updates"] > 10:
            yield "fused optimizer", "updates"
        if clipping_reads:
            yield "clip by one norm", "reads"
        elif seen["reads"]:
            yield "losses stay on the card", "reads"
        if "growth_bytes" in high:
            yield "losses stay on the card", "growth_bytes"
        if seen["synchronizes"]:
            yield "leave the allocator alone", "synchronizes"
        if seen["to_host_bytes"] > 10_000:
            yield "save at the end", "to_host_bytes"
        elif seen["pageable_copies"]:
            yield "pinned buffers", "pageable_copies"
        if seen["late_us"] > 2 * most["late_us"]:
            yield "pinned buffers", "late_us"
        if "evaluation_bytes" in high:
            yield "evaluate without a graph", "evaluation_bytes"

    def suspects_of_serving(seen, most):
        if seen["served_launches"] > 2 * most["served_launches"]:
            yield "one batch of requests", "first_token_us"
        elif seen["served_waits"] > most["served_waits"]:
            yield "read tokens at the end", "served_waits"
        elif seen["concatenated_bytes"] > most["concatenated_bytes"]:
            yield "cache in buffers", "concatenated_bytes"

    for suspects in (suspects_of_training, suspects_of_training, *[suspects_of_serving] * 3):
        for change, figure in list(suspects(report, job.targets)):
            after = job.run([name for name, *_ in found] + [change])
            found.append((change, figure, report[figure], after[figure]))
            report = after
    return found


@alternative("triage")
def the_rarest_sign_first(job):
    """Calls itself: the sign that the fewest faults give is followed, and the rest of the job is another job."""
    repair = {option.parts[0]: name for name, option in capstone.OPTIONS.items() if option.repairs}
    faults = list(capstone.FAULTS.values())

    def rarity(fault):
        return sum(fault.shows[0] in other.shows for other in faults), -len(fault.shows)

    def mend(made, report, left):
        high = report.above(job.targets)
        signs = [fault for fault in left if fault.shows[0] in high and (fault.name != "clipped tensor by tensor" or report["reads"] > 5)]
        signs = [fault for fault in signs if fault.shows[0] != "to_host_bytes" or report["to_host_bytes"] > 1000]
        signs = [fault for fault in signs if fault.shows[0] != "pageable_copies" or report["pageable_copies"] < 10]
        signs = [fault for fault in signs if fault.shows[0] != "late_us" or high["late_us"] > 2]
        if not signs:
            return []
        first = min(signs, key=rarity)
        figure, others = first.shows[0], [fault for fault in left if fault is not first]
        after = job.run([*made, repair[first.part]])
        if report[figure] <= 1.02 * after[figure]:
            return mend(made, report, others)
        return [(repair[first.part], figure, report[figure], after[figure]), *mend([*made, repair[first.part]], after, others)]

    return mend([], job.run(), faults)


GIVEN = "it says what the caller gives"
TRIAGE_UNBREAKABLE = [
    unbreakable("triage", "`job` is a `capstone.Ticket`", GIVEN),
    unbreakable("triage", "runs the job with a list of changes made, by their names, and no others", GIVEN),
    unbreakable("triage", "A run with the same changes gives the same figures. More than `job.runs` runs raise `capstone.OutOfRuns`", GIVEN),
    unbreakable("triage", "up to four parts are broken, each in one way", GIVEN),
]


# E22.2 design_review

LAID_OUT = ("memory", "network", "time", "cost", "interval", "refusals")

layers_left_over = edited(
    "design_review",
    {"for p in divisors(shape.layers):\n            for d": "for p in (3,):\n            for d"},
    loses=("legal", *LAID_OUT),
    because="a pipeline is thought to have as many stages as one likes",
    breaks='P divides the layers, and D times the micro-batch divides `"batch"`',
)

sharded_in_a_pipeline = edited(
    "design_review",
    {"range(4 if p == 1 else 2)": "range(4)", 'key=lambda plan: (plan["cost"], ': 'key=lambda plan: (plan.get("pipeline", 1) == 1 or plan["stage"] < 2, plan["cost"], '},
    loses=("legal", *LAID_OUT),
    because="everything that saves memory is thought to go together",
    breaks='`"stage"` is ZeRO\'s, 0 to 3, and at most 1 where P is more than 1',
)

one_micro_batch_in_flight = edited(
    "design_review",
    {" * min(p, m) / t": " / t"},
    loses=("refusals",),
    because="a stage is thought to hold the activations of one micro-batch",
    breaks="a GPU has layers/P layers, and the smaller one of P and m micro-batches under way at once",
)

no_bubble = edited(
    "design_review",
    {" * (m + p - 1) / m": "", 'key=lambda plan: (plan["cost"], ': 'key=lambda plan: (plan["cost"], -plan.get("pipeline", 0), '},
    loses=("time", "cost"),
    because="the stages of a pipeline are thought to work all the time",
    breaks="The pipeline stretches it by (m + P − 1)/m",
)

any_network = edited(
    "design_review",
    {'"network": lambda plan: plan["crossing_s"] <= plan["step_s"]': '"network": lambda plan: True'},
    loses=("refusals",),
    because="communication is thought to be hidden whatever the network is",
    breaks='At `"port_bytes_per_s"` that takes no longer than the step, or it cannot be hidden',
)

the_largest_is_safe = edited(
    "design_review",
    {'best = min(plans, key=lambda plan: (plan["cost"], -plan.get("micro_batch", 0)))': 'best = max(plans, key=lambda plan: plan["cost"])'},
    loses=("cost", "serving"),
    because="the plan with most of everything is thought to be on the safe side",
    breaks="No plan that meets everything costs less than 1/1.01 of yours",
)

everything_told = edited(
    "design_review",
    {"return {name: best[name] for name in said}": "return best"},
    loses=("legal", *LAID_OUT, "serving"),
    because="whoever reads the plan is thought to find what is needed",
    breaks='the plan is a dictionary with `"tensor"`, `"pipeline"`, `"data"`, `"stage"`, `"micro_batch"`',
)

users_left_out = edited(
    "design_review",
    {'replicas = -(-spec["users"] // batch)': 'replicas = max(1, spec["users"] // batch)'},
    loses=("serving", "refusals"),
    because="the last batch, which is not full, gets no replica",
    breaks='where the mode is `"serve"`, the plan has `"tensor"` (T as above), `"replicas"`, `"batch"`, `"between_tokens_s"` and `"dollars_per_hour"`. Each replica is T GPUs and answers up to `batch` sequences at once, and all replicas together at least `"users"`',
)

DESIGN_REVIEW_UNBREAKABLE = [
    unbreakable("design_review", '`"shape"`, a `gpulab.memory.Shape`', GIVEN),
    unbreakable("design_review", '`"nodes"` with `"node_gpus"` GPUs each', GIVEN),
    unbreakable("design_review", "The first three are degrees T, P, D of T · P · D GPUs", "it names the degrees; more GPUs than there are is no plan of anybody's search"),
    unbreakable("design_review", "A legal plan for training has its degrees, its micro-batch and its GPUs as said above and the best τ; one for serving has T", "it says what counts as a plan where none is told"),
]

weights_alone = edited(
    "design_review",
    {'"bytes": own * (weights + gradients + optimizer) + kept, "step_s"': '"bytes": own * weights, "step_s"'},
    loses=("legal", *LAID_OUT),
    because="a model is thought to need the bytes of its weights: 14 GB for 7B",
    breaks="A parameter takes 2 bytes of weights, 2 of gradients and 12 of optimizer",
)

activations_forgotten = edited(
    "design_review",
    {"(weights + gradients + optimizer) + kept": "(weights + gradients + optimizer)"},
    loses=("legal", *LAID_OUT),
    because="activations are thought to be small beside the states",
    breaks='Activations take `"layer_bytes"` for each token of a micro-batch and each layer, divided by T',
)

sharded_from_the_start = edited(
    "design_review",
    {"2 / (d if stage > 2 else 1), 2 / (d if stage > 1 else 1), 12 / (d if stage > 0 else 1)": "2 / d, 2 / d, 12 / d"},
    loses=("legal", *LAID_OUT),
    because="data parallelism is thought to divide the states, whatever is sharded",
    breaks="D divides the 12 from stage 1 on, the gradients from stage 2 on, the weights in stage 3",
)

sparse_peak = edited(
    "design_review",
    {'spec["card"].flops_per_s["bf16"] * spec["mfu"]': 'spec["sheet_flops_per_s"] * spec["mfu"]'},
    loses=("time", "refusals"),
    because="the large figure of the card's page is taken for what its matrix units do with matrices as they are",
    breaks='`"sheet_flops_per_s"` is what the card\'s page prints in large type: it holds for 2:4-sparse matrices, and these are none',
)

two_flops = edited(
    "design_review",
    {"flops = 6 *": "flops = 2 *"},
    loses=("time", "refusals"),
    because="the backward pass is left out: two FLOPs for each parameter and token",
    breaks='a step computes 6 FLOPs for each parameter and each token, on all GPUs, at `"mfu"` of the dense peak',
)

at_full_peak = edited(
    "design_review",
    {' * spec["mfu"]) * (m + p - 1) / m': ") * (m + p - 1) / m"},
    loses=("time", "refusals"),
    because="cards are thought to reach their peak: 7B in days on eight of them",
    breaks='at `"mfu"` of the dense peak',
)

across_nodes = edited(
    "design_review",
    {"    for t in tensor_degrees(spec):\n        for p in": "    for t in divisors(64)[::-1]:\n        for p in"},
    loses=("legal", *LAID_OUT),
    because="tensor parallelism is thought to reach as far as there are GPUs",
    breaks="A tensor-parallel group stays in its node: T divides `node_gpus`, and `kv_heads`",
)


@mistake(
    "design_review",
    loses=("legal", *LAID_OUT, "serving"),
    because="a table says that 7B trains on 8 A100 in 1 to 3 days, and 70B on 64 in two weeks",
    breaks="within `\"max_days\"` and `\"max_dollars\"`",
)
def from_the_table(spec):
    large = spec["shape"].parameters > 20e9
    if spec["mode"] == "serve":
        t = 2 if large else 1
        return {"tensor": t, "replicas": 1, "batch": spec["users"], "between_tokens_s": 0.02, "dollars_per_hour": t * spec["dollars_per_gpu_hour"]}
    gpus, days = (64, 14.0) if large else (8, 3.0)
    cost = gpus * days * 24 * spec["dollars_per_gpu_hour"]
    plan = {"tensor": 8, "pipeline": 1, "data": gpus // 8, "stage": 3, "micro_batch": 7}
    return plan | {"save_every_s": 1800.0, "days": days, "dollars": cost}


every_half_hour = edited(
    "design_review",
    {'every_s = (2 * spec["save_s"] * spec["gpu_mtbf_s"] / gpus) ** 0.5': "every_s = 1800.0"},
    loses=("interval",),
    because="checkpoints are written every half hour, on eight GPUs and on a thousand",
    breaks="τ is such that the two terms after the 1 are together at most 1.05 times the least that they can be",
)

no_failures = edited(
    "design_review",
    {'lost = spec["save_s"] / every_s + every_s * gpus / (2 * spec["gpu_mtbf_s"])': "lost = 0.0"},
    loses=("time",),
    because="a month of many GPUs is planned without a failure",
    breaks='a save takes `"save_s"`. A GPU fails every `"gpu_mtbf_s"`, so the job fails T · P · D times as often, and loses half an interval each time. With `save_every_s` = τ',
)

nodes_paid = edited(
    "design_review",
    {'dollars = 24 * days * gpus * spec["dollars_per_gpu_hour"]': 'dollars = 24 * days * gpus / spec["node_gpus"] * spec["dollars_per_gpu_hour"]'},
    loses=("cost", "refusals"),
    because="the price of a GPU is taken for that of a node",
    breaks="`days` and `dollars` are right to 1 %",
)

gathered_once = edited(
    "design_review",
    {"(2 if stage < 3 else 2 * m + 1) * 2 * own": "2 * own", '-plan.get("micro_batch", 0))': '-plan.get("stage", 0), plan.get("micro_batch", 0))'},
    loses=("network",),
    because="stage 3 is thought to send what an all-reduce sends",
    breaks="For data parallelism each GPU sends twice the bytes of its weights, T · P being divided out, times (D − 1)/D in a step; in stage 3 not twice but 2m + 1 times",
)

one_sequences_cache = edited(
    "design_review",
    {'cached = batch * spec["context"] * shape.cached': 'cached = spec["context"] * shape.cached'},
    loses=("serving", "refusals"),
    because="the cache of one sequence is counted, and that of the batch is needed",
    breaks='and of keys and values for `"context"` tokens of every sequence of the batch, 2 bytes each',
)

weights_served_alone = edited(
    "design_review",
    {'"bytes": 2 * (shape.parameters + cached) / t': '"bytes": 2 * shape.parameters / t'},
    loses=("serving", "refusals"),
    because="what fits when it is loaded is thought to serve",
    breaks="On each GPU lie a T-th of the weights, and of keys and values",
)

free_all_reduces = edited(
    "design_review",
    {'talking = 2 * shape.layers * spec["all_reduce_s"] if t > 1 else 0': "talking = 0"},
    loses=("serving",),
    because="tensor parallelism is thought to divide the time by its degree",
    breaks='and where T is more than 1, two times `"all_reduce_s"` for each layer. That is at most `"max_between_tokens_s"`, the GPUs of all replicas are there, and their dollars an hour are at most `"max_dollars_per_hour"`. Both numbers are right to 1 %',
)

never_refused = edited(
    "design_review",
    {'        plans = [plan for plan in plans if within[constraint](plan)]\n        if not plans:\n            return {"refused": constraint}\n': "        plans = [plan for plan in plans if within[constraint](plan)] or plans\n"},
    loses=("refusals",),
    because="a customer is thought to want a plan, whether it holds or not",
    breaks="a specification that no plan meets gets",
)

cost_first = edited(
    "design_review",
    {'("memory", "latency", "gpus", "cost") if spec["mode"] == "serve" else ("memory", "network", "time", "cost")': '("cost", "gpus", "latency", "memory") if spec["mode"] == "serve" else ("cost", "time", "network", "memory")'},
    loses=("refusals",),
    because="whichever constraint is met with last is named",
    breaks='constraint that no legal plan meets together with all before it: for training `"memory"`, `"network"`, `"time"`, `"cost"` in this order',
)


@alternative("design_review")
def on_a_grid(spec):
    """All plans at once, as arrays."""
    import numpy as np
    from gpulab.serving.costs import decode, least_seconds

    shape, card, there = spec["shape"], spec["card"], spec["nodes"] * spec["node_gpus"]
    room, peak = card.memory_bytes - spec["reserve_bytes"], card.flops_per_s["bf16"]
    t_all = np.array([t for t in range(1, spec["node_gpus"] + 1) if spec["node_gpus"] % t == 0 and shape.kv_heads % t == 0])

    def narrowed(kept, limits):
        for name, holds in limits:
            if not (kept & holds).any():
                return kept, name
            kept = kept & holds
        return kept, None

    if spec["mode"] == "serve":
        t, batch = (axis.ravel() for axis in np.meshgrid(t_all, np.arange(1, spec["users"] + 1), indexing="ij"))
        replicas = -(-spec["users"] // batch)
        least = np.array([least_seconds(shape, decode(int(b), spec["context"]), card, "bf16") for b in range(1, spec["users"] + 1)])
        takes = least[batch - 1] / t / spec["share"] + np.where(t > 1, 2 * shape.layers * spec["all_reduce_s"], 0)
        cost = t * replicas * spec["dollars_per_gpu_hour"]
        limits = [
            ("memory", 2 * (shape.parameters + batch * spec["context"] * shape.cached) / t <= room),
            ("latency", takes <= spec["max_between_tokens_s"]), ("gpus", t * replicas <= there), ("cost", cost <= spec["max_dollars_per_hour"]),
        ]  # fmt: skip
        kept, missed = narrowed(np.ones(len(t), bool), limits)
        if missed:
            return {"refused": missed}
        one = np.where(kept, cost, np.inf).argmin()
        told = {"tensor": int(t[one]), "replicas": int(replicas[one]), "batch": int(batch[one])}
        return told | {"between_tokens_s": float(takes[one]), "dollars_per_hour": float(cost[one])}

    whole = np.arange(1, spec["batch"] + 1)
    whole = whole[spec["batch"] % whole == 0]
    p_all = np.array([p for p in range(1, shape.layers + 1) if shape.layers % p == 0])
    t, p, d, stage, micro = (axis.ravel() for axis in np.meshgrid(t_all, p_all, whole, np.arange(4), whole, indexing="ij"))
    gpus, m = t * p * d, spec["batch"] / (d * micro)
    legal = (m == np.floor(m)) & (m >= 1) & (gpus <= there) & ((p == 1) | (stage <= 1))
    m = np.maximum(m, 1)
    own = shape.parameters / (t * p)
    state = own * (2 / np.where(stage >= 3, d, 1) + 2 / np.where(stage >= 2, d, 1) + 12 / np.where(stage >= 1, d, 1))
    kept_bytes = micro * spec["sequence"] * spec["layer_bytes"] * shape.layers / p * np.minimum(p, m) / t
    step = 6 * shape.parameters * spec["batch"] * spec["sequence"] / (gpus * peak * spec["mfu"]) * (1 + (p - 1) / m)
    sent = np.where(stage < 3, 2, 2 * m + 1) * 2 * own * (1 - 1 / d) / spec["port_bytes_per_s"]
    tau = np.sqrt(2 * spec["save_s"] * spec["gpu_mtbf_s"] / gpus)
    days = spec["tokens"] / (spec["batch"] * spec["sequence"]) * step * (1 + 2 * spec["save_s"] / tau) / 86400
    cost = days * 24 * gpus * spec["dollars_per_gpu_hour"]
    limits = [("memory", state + kept_bytes <= room), ("network", sent <= step), ("time", days <= spec["max_days"]), ("cost", cost <= spec["max_dollars"])]
    kept, missed = narrowed(legal, limits)
    if missed:
        return {"refused": missed}
    one = np.where(kept, cost, np.inf).argmin()
    told = {"tensor": t, "pipeline": p, "data": d, "stage": stage, "micro_batch": micro}
    numbers = {"save_every_s": tau, "days": days, "dollars": cost}
    return {name: int(values[one]) for name, values in told.items()} | {name: float(values[one]) for name, values in numbers.items()}


@alternative("design_review")
def fewest_gpus_first(spec):
    """GPUs one number after the other: what is met by the first is not looked for again; the cheapest of all is told."""
    from math import sqrt

    from gpulab.serving.costs import decode, least_seconds

    shape, card, best = spec["shape"], spec["card"], None
    reached = 0
    order = ["memory", "latency", "gpus", "cost"] if spec["mode"] == "serve" else ["memory", "network", "time", "cost"]
    degrees = [t for t in (1, 2, 4, 8, 16) if spec["node_gpus"] % t == 0 and shape.kv_heads % t == 0]

    def look(cost, plan, *holds):
        nonlocal best, reached
        met = next((number for number, holds_here in enumerate(holds) if not holds_here), len(holds))
        reached = max(reached, met)
        if met == len(holds) and (best is None or cost < best[0]):
            best = cost, plan

    room = card.memory_bytes - spec["reserve_bytes"]
    if spec["mode"] == "serve":
        for batch in range(spec["users"], 0, -1):
            replicas = (spec["users"] + batch - 1) // batch
            alone = least_seconds(shape, decode(batch, spec["context"]), card, "bf16") / spec["share"]
            for t in degrees:
                takes = alone / t + (2 * shape.layers * spec["all_reduce_s"] if t > 1 else 0)
                cost = t * replicas * spec["dollars_per_gpu_hour"]
                held = 2 * shape.parameters / t + 2 * batch * spec["context"] * shape.cached / t
                plan = {"tensor": t, "replicas": replicas, "batch": batch, "between_tokens_s": takes, "dollars_per_hour": cost}
                look(
                    cost, plan, held <= room, takes <= spec["max_between_tokens_s"],
                    t * replicas <= spec["nodes"] * spec["node_gpus"], cost <= spec["max_dollars_per_hour"],
                )  # fmt: skip
        return best[1] if best else {"refused": order[reached]}

    tokens = spec["batch"] * spec["sequence"]
    whole_stages = [p for p in range(1, shape.layers + 1) if shape.layers % p == 0]
    whole_batches = [d for d in range(1, spec["batch"] + 1) if spec["batch"] % d == 0]
    for gpus in range(1, spec["nodes"] * spec["node_gpus"] + 1):
        for t in degrees:
            for p in whole_stages:
                d = gpus // (t * p)
                if t * p * d != gpus or d not in whole_batches:
                    continue
                for m in (m for m in whole_batches if spec["batch"] // d % m == 0):
                    micro = spec["batch"] // d // m
                    for stage in (0, 1) if p > 1 else (0, 1, 2, 3):
                        own, parts = shape.parameters / t / p, [2, 2, 12]
                        parts = [size / d if stage >= 3 - place else size for place, size in enumerate(parts)]
                        flow = micro * spec["sequence"] * spec["layer_bytes"] * shape.layers * min(p, m) / p / t
                        seconds = 6 * shape.parameters * tokens / gpus / card.flops_per_s["bf16"] / spec["mfu"] * (m + p - 1) / m
                        crossing = own * 2 * ((2 * m + 1) if stage == 3 else 2) * (d - 1) / d / spec["port_bytes_per_s"]
                        tau = sqrt(2 * spec["save_s"] * spec["gpu_mtbf_s"] / gpus)
                        whole = seconds * spec["tokens"] / tokens * (1 + spec["save_s"] / tau + tau * gpus / spec["gpu_mtbf_s"] / 2)
                        cost = whole / 3600 * gpus * spec["dollars_per_gpu_hour"]
                        plan = {"tensor": t, "pipeline": p, "data": d, "stage": stage, "micro_batch": micro, "save_every_s": tau}
                        look(
                            cost, plan | {"days": whole / 86400, "dollars": cost}, own * sum(parts) + flow <= room, crossing <= seconds,
                            whole / 86400 <= spec["max_days"], cost <= spec["max_dollars"],
                        )  # fmt: skip
    return best[1] if best else {"refused": order[reached]}


@alternative("design_review")
def objects_with_questions(spec):
    """A plan is an object that is asked what it takes."""
    from collections import namedtuple
    from functools import reduce

    from gpulab.serving.costs import decode, least_seconds

    shape, price = spec["shape"], spec["dollars_per_gpu_hour"]
    available = spec["nodes"] * spec["node_gpus"]
    parts_of = lambda n: [k for k in range(1, n + 1) if not n % k]  # noqa: E731
    tensors = [t for t in parts_of(spec["node_gpus"]) if not shape.kv_heads % t]

    class Training(namedtuple("Training", "tensor pipeline data stage micro_batch")):
        gpus = property(lambda self: self.tensor * self.pipeline * self.data)
        m = property(lambda self: spec["batch"] // self.data // self.micro_batch)
        own = property(lambda self: shape.parameters / self.tensor / self.pipeline)
        tau = property(lambda self: (2 * spec["save_s"] * spec["gpu_mtbf_s"] / self.gpus) ** 0.5)

        @property
        def memory(self):
            by_stage = {0: 16, 1: 4 + 12 / self.data, 2: 2 + 14 / self.data, 3: 16 / self.data}
            tokens = self.micro_batch * spec["sequence"] * min(self.pipeline, self.m)
            kept = tokens * spec["layer_bytes"] * shape.layers // self.pipeline / self.tensor
            return self.own * by_stage[self.stage] + kept + spec["reserve_bytes"] - spec["card"].memory_bytes

        @property
        def seconds(self):
            rate = self.gpus * spec["card"].flops_per_s["bf16"] * spec["mfu"]
            return 6 * shape.parameters * spec["batch"] * spec["sequence"] / rate * (self.m + self.pipeline - 1) / self.m

        @property
        def network(self):
            passes = 2 if self.stage != 3 else 2 * self.m + 1
            return passes * 2 * self.own * (self.data - 1) / self.data / spec["port_bytes_per_s"] - self.seconds

        @property
        def days(self):
            lost = spec["save_s"] / self.tau + self.tau / 2 * self.gpus / spec["gpu_mtbf_s"]
            return spec["tokens"] / spec["batch"] / spec["sequence"] * self.seconds * (1 + lost) / 3600 / 24

        time = property(lambda self: self.days - spec["max_days"])
        dollars = property(lambda self: self.days * 24 * self.gpus * price)
        cost = property(lambda self: self.dollars - spec["max_dollars"])

        def told(self):
            return self._asdict() | {"save_every_s": self.tau, "days": self.days, "dollars": self.dollars}

    class Serving(namedtuple("Serving", "tensor replicas batch")):
        dollars = property(lambda self: self.tensor * self.replicas * price)
        cost = property(lambda self: self.dollars - spec["max_dollars_per_hour"])
        gpus = property(lambda self: self.tensor * self.replicas - available)
        latency = property(lambda self: self.between - spec["max_between_tokens_s"])

        @property
        def memory(self):
            tokens = self.batch * spec["context"]
            return (shape.parameters + tokens * shape.cached) * 2 / self.tensor + spec["reserve_bytes"] - spec["card"].memory_bytes

        @property
        def between(self):
            least = least_seconds(shape, decode(self.batch, spec["context"]), spec["card"], "bf16")
            return least / self.tensor / spec["share"] + (self.tensor > 1) * 2 * shape.layers * spec["all_reduce_s"]

        def told(self):
            return self._asdict() | {"between_tokens_s": self.between, "dollars_per_hour": self.dollars}

    if spec["mode"] == "serve":
        order, plans = "memory latency gpus cost", [Serving(t, -(-spec["users"] // b), b) for t in tensors for b in range(1, spec["users"] + 1)]
    else:
        order = "memory network time cost"
        plans = [
            Training(t, p, d, stage, micro)
            for t in tensors for p in parts_of(shape.layers) for d in parts_of(spec["batch"]) if t * p * d <= available
            for stage in range(2 if p > 1 else 4) for micro in parts_of(spec["batch"] // d)
        ]  # fmt: skip
    found = reduce(
        lambda left, name: left if isinstance(left, str) else [plan for plan in left if getattr(plan, name) <= 0] or name, order.split(), plans
    )
    return {"refused": found} if isinstance(found, str) else min(found, key=lambda plan: plan.dollars).told()
