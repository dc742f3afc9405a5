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
# # Platforms: serverless, tenancy, compliance: exercises
#
# A platform's answers are plans: when a model is ready, how many instances wait for work, who reaches what, which slice of a GPU
# is whose. What is graded is whether a plan holds, and what it costs. All times here are modelled: no GPU takes part.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab

# %% [markdown]
# ## E20.1 `cold_start`
#
# A new instance pulls an image, starts a runtime, loads weights and captures graphs before it answers. Some of this goes on at
# once, and the weights cross several tiers. Which of them would it pay to make faster?
#
# Write `cold_start(plan)`:
#
# - [c1] `plan` is a dictionary. [c2] `plan["tiers"]` has the **bytes a second** of each tier by its name. [c3] `plan["stages"]` has the stages by
#   their names, in any order, each a dictionary. [c4] No stage has a tier's name. [c5] Seconds, bytes and bytes a second are integers or
#   floats;
# - [c6] `"after"` is a list of stages. [c7] A stage begins as soon as **all** of these are done, at 0 where the list is empty, and whatever
#   else goes on;
# - [c8] a stage with `"seconds"` is done so many seconds after it began;
# - [c9] a stage with `"bytes"` is a **load**. [c10] Its `"path"` is a list of tiers, each there once. [c11] All bytes cross all of them, in
#   the list's order. [c12] Loads do not disturb each other, not even on one tier;
# - [c13] a load goes in chunks of `"chunk"` bytes, the last of which may be smaller. [c14] Where `"chunk"` is None all bytes are one chunk. [c15] A
#   chunk enters a tier as soon as it has **all** come through the tier before, and the chunk before it has left this one. [c16] To cross
#   a tier takes a chunk its bytes divided by the tier's bytes a second;
# - [c17] `"needed"` of a load, where it is there, says how many bytes, from the first on, the stages after it wait for: [c18] it is done when
#   these have crossed the last tier, and they are cut into chunks as if they were all. [c19] The rest follows in the background and holds
#   nobody up. [c20] Where `"needed"` is not there, all bytes are needed;
# - [c21] returns a dictionary of `"spans"`, `"critical"`, `"saves"` and `"bottleneck"`;
# - [c22] `"spans"`: of each stage a pair of when it begins and when it is done, in seconds. [c23] The instance is **ready** when all stages are
#   done;
# - [c24] `"critical"`: a list of stages. [c25] The first begins at 0, each other one waits for the one before it in the list and begins when
#   that is done, and the last is done when the instance is ready. [c26] Where there are several such lists, any of them will do;
# - [c27] `"saves"`: by how many seconds the instance would be ready earlier, if alone a tier carried all at once, or if alone a
#   stage with `"seconds"` took none. [c28] It has an entry for each tier that is in some load's path, and for each stage with
#   `"seconds"`, and no others;
# - [c29] `"bottleneck"`: the tier or the stage that saves most. [c30] Of several that save equally much any will do;
# - [c31] times may be wrong by a billionth of the time until ready. [c32] `plan` is left as it is;
# - [c33] raises `ValueError` where there is no stage; [c34] where a stage waits for one that is not there, or over any number of others for itself; [c35] where a
#   path is empty or names a tier that is not there; [c36] where a tier's bytes a second are not greater than 0; [c37] where `"seconds"` or `"bytes"` are less than 0;
#   [c38] where `"chunk"` is a number not greater than 0; [c39] and where `"needed"` is less than 0 or greater than `"bytes"`;
# - [c40] you write it without gpulab, which has such a timeline too: [c41] a call of it loses the points.

# %% nbgrader={"grade": false, "grade_id": "cold_start", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cold_start(plan):
    """When each stage of a cold start begins and is done, what is critical, and what would save how much."""
    ### BEGIN SOLUTION
    stages, tiers = plan["stages"], plan["tiers"]
    require_plan(stages, tiers)
    spans = spans_of(stages, tiers)
    ready = max(done for _, done in spans.values())

    def ready_without(name):
        faster = {**stages, name: {**stages[name], "seconds": 0}} if name in stages else stages
        return max(done for _, done in spans_of(faster, {**tiers, name: float("inf")}).values())

    crossed = {tier for stage in stages.values() for tier in stage.get("path", ())}
    works = [name for name, stage in stages.items() if "seconds" in stage]
    saves = {name: ready - ready_without(name) for name in (*crossed, *works)}
    return {
        "spans": spans,
        "critical": critical(stages, spans),
        "saves": saves,
        "bottleneck": max(saves, key=saves.get),
    }


def require_plan(stages, tiers):
    if not stages or any(rate <= 0 for rate in tiers.values()):
        raise ValueError("a plan has stages, and every tier carries something")
    for name, stage in stages.items():
        if "seconds" in stage:
            sound = stage["seconds"] >= 0
        else:
            nbytes, chunk = stage["bytes"], stage["chunk"]
            sound = stage["path"] and set(stage["path"]) <= set(tiers) and (chunk is None or chunk > 0)
            sound = sound and 0 <= stage.get("needed", 0) <= nbytes
        if not sound:
            raise ValueError(f"{name} is no stage")


def spans_of(stages, tiers):
    spans = {}
    while len(spans) < len(stages):
        free = [name for name in stages if name not in spans and all(other in spans for other in stages[name]["after"])]
        if not free:
            raise ValueError("stages wait for each other, or for one that is not there")
        for name in free:
            begins = max((spans[other][1] for other in stages[name]["after"]), default=0)
            spans[name] = (begins, begins + seconds_of(stages[name], tiers))
    return spans


def seconds_of(stage, tiers):
    if "seconds" in stage:
        return stage["seconds"]
    left = stage.get("needed", stage["bytes"])
    free = [0] * len(stage["path"])  # when each tier has let the last chunk through
    while left > 0:
        size = min(left, stage["chunk"] or left)
        left -= size
        came = 0
        for hop, tier in enumerate(stage["path"]):
            came = free[hop] = max(came, free[hop]) + size / tiers[tier]
    return free[-1]


def critical(stages, spans):
    chain = [max(spans, key=lambda name: spans[name][1])]
    while stages[chain[0]]["after"]:
        chain.insert(0, max(stages[chain[0]]["after"], key=lambda name: spans[name][1]))
    return chain
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "cold_start_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_cold_start():
    """A 13B model on a machine with 100 Gb/s to an object store, and what becomes of it in chunks and with a lazy image."""
    from gpulab.platforms import bandwidths

    tiers = bandwidths("network, 100 Gb/s", "NVMe, PCIe 4", "PCIe 4 x16")
    stages = {
        "image": {"after": [], "bytes": 10e9, "path": ["network, 100 Gb/s"], "chunk": None},
        "runtime": {"after": ["image"], "seconds": 2.0},
        "weights": {"after": [], "bytes": 26e9, "path": list(tiers), "chunk": None},
        "graphs": {"after": ["runtime", "weights"], "seconds": 1.0},
    }
    plans = {
        "weights in one piece": stages,
        "weights in chunks": {**stages, "weights": {**stages["weights"], "chunk": 0.25e9}},
    }
    lazy = {**stages["image"], "needed": 0.6e9}
    plans["and a lazy image"] = {**plans["weights in chunks"], "image": lazy}
    found = {title: cold_start({"tiers": tiers, "stages": plan}) for title, plan in plans.items()}
    for title, timeline in found.items():
        ready = max(done for _, done in timeline["spans"].values())
        print(f"\n{title}: ready after {ready:.2f} s, critical: {', '.join(timeline['critical'])}")
        for name, (begin, done) in timeline["spans"].items():
            print(f"  {name:10}{begin:6.2f} to {done:5.2f} s")
        for name, saved in sorted(timeline["saves"].items(), key=lambda pair: -pair[1]):
            print(f"  {name:20} would save {saved:5.2f} s{'   <- bottleneck' * (name == timeline['bottleneck'])}")

    whole, chunks, _ = found.values()
    hops = [26e9 / rate for rate in tiers.values()]
    assert abs(whole["spans"]["weights"][1] - sum(hops)) < 1e-6, "in one piece each tier waits for the one before"
    due = max(hops) + 0.25e9 * sum(1 / rate for rate in tiers.values()) - 0.25e9 / 6e9
    assert abs(chunks["spans"]["weights"][1] - due) < 1e-6, "in chunks the slowest tier is busy all the time"
    assert whole["critical"] == ["weights", "graphs"], "the runtime is up before the weights are there"
    assert whole["bottleneck"] == "NVMe, PCIe 4", "of three tiers one after the other the slowest saves most"
    assert found["and a lazy image"]["saves"]["runtime"] == 0, "what is not critical saves nothing"


_see_cold_start()

# %% nbgrader={"grade": true, "grade_id": "cold_start_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of cold_start: order 2, pipeline 3, critical 2, bottleneck 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("platforms.cold_start")
### END HIDDEN TESTS

# %% [markdown]
# ## E20.2 `warm_pool`
#
# An instance that waits for work costs as much as one that works, and a request that finds none waits for a cold start. How many
# are to be ready is decided every second, by someone who does not know what comes. The cell below has the replay that counts
# both, and four loads.

# %% nbgrader={"grade": false, "grade_id": "warm_pool_given", "locked": true, "schema_version": 3, "solution": false, "task": false}
from gpulab.platforms import day, fixed, keeping, pulses, quiet_nights, replay, steady

SETTLE = 300  # seconds at the beginning that are played and not counted


def four_loads(returns, seed):
    """Arrivals in each second."""
    return {
        "steady": steady(2700, 0.8, seed),
        "day": day(2700, 1.3, seed),
        "nights": quiet_nights(3300, 1.3, seed, busy=600, quiet=600),
        "pulses": pulses(2700, 0.15, seed, every=returns - 4, size=8),
    }


MOST = {"steady": 1.5, "day": 0.85, "nights": 0.7, "pulses": 1.5}

# %% [markdown]
# Write `warm_pool(cold, service, returns)`:
#
# - [c1] a request keeps an instance for `service` seconds, and an instance that is started is ready `cold` seconds later. [c2] What has
#   come once in some second may come again within the next `returns` seconds: [c3] a job by the clock does. [c4] All three are integers;
# - [c5] it returns `decide`, a function or any object that can be called, which `gpulab.platforms.replay` asks once in each second, in order. [c6] It
#   is handed a dictionary of integers: [c7] `second`, from 0 on; [c8] `arrived`, requests that came in this second; [c9] and what is there after idle
#   instances have taken what they can: [c10] `busy`, `idle` and `starting` instances, and `waiting` requests;
# - [c11] `decide` returns an **integer**, 0 or more: [c12] how many instances there are to be, busy, idle and starting together. [c13] What is
#   missing is started, and idle ones that are too many are stopped. [c14] Busy and starting ones are not;
# - [c15] what happens without being asked: [c16] a waiting request for which none is starting starts an instance of its own;
# - [c17] **waits**: on every load, 99 of 100 requests or more begin within `cold // 2` seconds;
# - [c18] **unused** is what is paid for nothing: [c19] instance-seconds in which one is idle or starting. [c20] `keeping` finds the smallest pool of
#   fixed size in which 99 of 100 begin at once, on the same load, in hindsight. [c21] Of its unused seconds you may have
#   1.5 times on `steady` and `pulses`, 0.85 on a `day`, and 0.7 with quiet `nights`;
# - [c22] **starts**: no more than one instance is started for 12 requests. [c23] What is stopped in one second and started in the next
#   costs a cold start each time;
# - [c24] the loads are drawn as in the cell above, with means, seeds, times and sizes of their own. [c25] The first 300 seconds are not counted;
# - [c26] several pools may be asked in turn, each about its own load: [c27] what one has seen is nothing to another, and one that sees
#   the same decides the same. [c28] The dictionary is left as it is;
# - [c29] raises `ValueError` where `cold`, `service` or `returns` is less than 1.

# %% nbgrader={"grade": false, "grade_id": "warm_pool", "locked": false, "schema_version": 3, "solution": true, "task": false}
def warm_pool(cold, service, returns):
    """A policy for the number of instances: the most that was needed lately, and two more."""
    ### BEGIN SOLUTION
    if min(cold, service, returns) < 1:
        raise ValueError("a start, a request and a return take a second or more")
    needed = deque(maxlen=returns)

    def decide(seen):
        needed.append(seen["busy"] + seen["waiting"])
        return max(needed) + 2

    return decide


from collections import deque
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "warm_pool_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_warm_pool():
    """Your policy on four loads, beside the fixed pool that is chosen in hindsight, and two extremes."""
    cold, service, returns = 20, 8, 90
    for load, arrivals in four_loads(returns, seed=5).items():
        size = keeping(arrivals, cold, service, 0, SETTLE)
        policies = {"none ready": fixed(0), f"always {size}": fixed(size), "yours": warm_pool(cold, service, returns)}
        found = {name: replay(policy, arrivals, cold, service, SETTLE) for name, policy in policies.items()}
        unused = found[f"always {size}"].unused
        print(f"\n{load}: {len(found['yours'].waits)} requests")
        for name, one in found.items():
            each = one.starts / len(one.waits)
            print(f"  {name:12} p99 waits {one.percentile(99):3} s   unused {one.unused / unused:5.2f}   starts {each:.3f} a request")
        yours = found["yours"]
        assert yours.percentile(99) <= cold // 2, f"{load}: requests wait for cold starts"
        assert yours.unused <= MOST[load] * unused, f"{load}: too much is paid for nothing"
        assert 12 * yours.starts <= len(yours.waits), f"{load}: instances are stopped and started again"


_see_warm_pool()

# %% nbgrader={"grade": true, "grade_id": "warm_pool_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of warm_pool: waits 3, unused 3, starts 2, apart 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("platforms.warm_pool")
### END HIDDEN TESTS

# %% [markdown]
# ## E20.3 `audit_network`
#
# "The data does not leave the VPC" is a sentence about all routes, all roles and all endpoints together. An auditor draws the
# graph and evaluates the policies. (The rules here are AWS's within one account, without conditions.)
#
# Write `audit_network(graph, policies)`:
#
# - [c1] `graph["routes"]` is a dictionary: [c2] from a place, which is a string, to a list of the places that its traffic may go to next. [c3] A place that is no key
#   sends nothing on. [c4] Routes may lead in circles. [c5] `"internet"` is a place;
# - [c6] `graph["workloads"]` is a dictionary from a place where something runs to the name of its role. [c7] Traffic may also come through it;
# - [c8] `graph["endpoints"]` is a dictionary from a place to a list of statements, the endpoint's own policy. [c9] An endpoint leads to
#   its service and **nowhere else**, whatever routes say;
# - [c10] `policies["roles"]` is a dictionary from a role to a list of statements. [c11] A **statement** is a dictionary: [c12] `"effect"` is `"Allow"` or
#   `"Deny"`, `"actions"` and `"resources"` are lists of patterns. [c13] In a pattern `*` stands for any characters, none too, and everything
#   else for itself;
# - [c14] a statement **covers** an action on a resource if one of its actions' patterns stands for the action, and one of its resources' for the
#   resource. [c15] Statements **allow** an action on a resource if one with `"Allow"` covers it and none with `"Deny"` does, in
#   whatever order they stand;
# - [c16] `policies["actions"]` lists all actions that there are, and `policies["resources"]` is a dictionary of all resources: [c17] True for the customer's own, False
#   for those of **others**. [c18] `policies["log"]` is a list of what was done: [c19] role, action and resource;
# - [c20] returns a dictionary of five entries, each a set but the last;
# - [c21] `"internet"`: the workloads whose traffic can come to `"internet"`, over any number of places;
# - [c22] `"leaks"`: pairs of a workload and a resource of others, such that one action on it is allowed by the role's statements, and by those of an endpoint that
#   the workload's traffic can come to. [c23] Endpoints alone are asked: [c24] what goes over the internet is a finding already;
# - [c25] `"wildcards"`: pairs of a role and a pattern with a `*` among the actions of its statements with `"Allow"`;
# - [c26] `"unused"`: pairs of a role and an action that its statements allow on some resource, and that the log does not have of this role;
# - [c27] `"least"`: a dictionary from every role to the set of actions that the log has of it **and** that its statements still allow on the resource
#   that they were done on;
# - [c28] graph and policies are left as they are;
# - [c29] raises `ValueError` where an effect is neither `"Allow"` nor `"Deny"`, in a role or an endpoint, and where a workload or the log names a role
#   that is not there;
# - [c30] you write it without gpulab, which has such an audit too: [c31] a call of it loses the points.

# %% nbgrader={"grade": false, "grade_id": "audit_network", "locked": false, "schema_version": 3, "solution": true, "task": false}
def audit_network(graph, policies):
    """Who reaches the internet, what can leak through endpoints, and which permissions are too many."""
    ### BEGIN SOLUTION
    roles, workloads, endpoints = policies["roles"], graph["workloads"], graph["endpoints"]
    require_sound(graph, policies)
    reached = {workload: places_from(graph, workload) for workload in workloads}
    actions, resources = policies["actions"], policies["resources"]
    done, least = {role: set() for role in roles}, {role: set() for role in roles}
    for role, action, resource in policies["log"]:
        done[role].add(action)
        if allow(roles[role], action, resource):
            least[role].add(action)

    def leaks(workload, resource):
        doors = [endpoints[place] for place in reached[workload] if place in endpoints]
        ways = [action for action in actions if allow(roles[workloads[workload]], action, resource)]
        return any(allow(door, action, resource) for door in doors for action in ways)

    return {
        "internet": {workload for workload in workloads if "internet" in reached[workload]},
        "leaks": {(w, r) for w in workloads for r, ours in resources.items() if not ours and leaks(w, r)},
        "wildcards": {
            (role, pattern)
            for role, statements in roles.items()
            for statement in statements
            for pattern in statement["actions"]
            if statement["effect"] == "Allow" and "*" in pattern
        },
        "unused": {
            (role, action)
            for role, statements in roles.items()
            for action in actions
            if action not in done[role] and any(allow(statements, action, resource) for resource in resources)
        },
        "least": least,
    }


import re


def require_sound(graph, policies):
    statements = [one for part in (policies["roles"], graph["endpoints"]) for some in part.values() for one in some]
    named = {*graph["workloads"].values(), *(role for role, _, _ in policies["log"])}
    if not {one["effect"] for one in statements} <= {"Allow", "Deny"} or not named <= set(policies["roles"]):
        raise ValueError("an effect or a role that there is not")


def places_from(graph, start):
    reached, ahead = set(), [start]
    while ahead:
        place = ahead.pop()
        if place not in graph["endpoints"]:
            new = set(graph["routes"].get(place, ())) - reached
            reached |= new
            ahead += new
    return reached


def allow(statements, action, resource):
    covering = {one["effect"] for one in statements if stands(one["actions"], action) and stands(one["resources"], resource)}
    return covering == {"Allow"}


def stands(patterns, name):
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) for pattern in patterns)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "audit_network_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_audit_network():
    """A bank's network: no workload has a gateway beside it, and yet."""

    def allow(actions, resources=("*",)):
        return {"effect": "Allow", "actions": list(actions), "resources": list(resources)}

    deny_delete = {"effect": "Deny", "actions": ["s3:Delete*"], "resources": ["*"]}
    graph = {
        "routes": {
            "trainer": ["proxy", "s3 endpoint"], "scorer": ["s3 endpoint", "kms endpoint"], "proxy": ["nat"], "nat": ["internet"],
            "s3 endpoint": ["internet"],
        },
        "workloads": {"trainer": "train", "scorer": "score"},
        "endpoints": {"s3 endpoint": [allow(["*"])], "kms endpoint": [allow(["kms:Decrypt"])]},
    }  # fmt: skip
    policies = {
        "roles": {
            "train": [allow(["s3:*"], ["bank-*"]), deny_delete],
            "score": [allow(["s3:GetObject", "s3:PutObject"]), allow(["kms:Decrypt"], ["bank-key"])],
        },
        "actions": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "kms:Decrypt"],
        "resources": {"bank-data": True, "bank-key": True, "strangers-bucket": False},
        "log": [("train", "s3:GetObject", "bank-data"), ("score", "s3:GetObject", "bank-data"), ("score", "kms:Decrypt", "bank-key")],
    }
    found = audit_network(graph, policies)
    for kind, what in found.items():
        print(f"{kind:10}", *(map(str, sorted(what.items() if isinstance(what, dict) else what))), sep="\n   ")
    assert found["internet"] == {"trainer"}, "the trainer gets out over two others; an endpoint lets nobody through"
    assert found["leaks"] == {("scorer", "strangers-bucket")}, "an endpoint that allows everything serves a stranger's bucket"
    assert found["wildcards"] == {("train", "s3:*")}, "a wildcard that denies is no finding"
    assert ("train", "s3:DeleteObject") not in found["unused"], "what a statement denies is not allowed by another"
    assert found["unused"] == {("train", "s3:PutObject"), ("score", "s3:PutObject")}
    assert found["least"] == {"train": {"s3:GetObject"}, "score": {"s3:GetObject", "kms:Decrypt"}}


_see_audit_network()

# %% nbgrader={"grade": true, "grade_id": "audit_network_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of audit_network: internet 2, leaks 3, wildcards 1, unused 2, least 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("platforms.audit_network")
### END HIDDEN TESTS

# %% [markdown]
# ## E20.4 `mig_pack`
#
# A GPU with MIG is cut into instances, each with memory, cache and multiprocessors of its own. It has eight slices of memory and
# seven of compute, and a profile may begin at few places. Here are NVIDIA's tables: who knows them knows why two
# instances of three sevenths leave a seventh that nobody can have.

# %% nbgrader={"grade": false, "grade_id": "mig_pack_given", "locked": true, "schema_version": 3, "solution": false, "task": false}
from collections import namedtuple as _namedtuple

from gpulab.platforms import GEOMETRY as _TABLES, NO_MIG

_Profile = _namedtuple("Profile", ("name", "compute", "memory", "gb", "starts"))
GEOMETRY = {gpu: {name: _Profile(**vars(one)) for name, one in table.items()} for gpu, table in _TABLES.items()}
for _name in ("A100-40GB", "H200-141GB"):
    print(f"{_name:12}compute memory  GB   may begin at")
    for _profile in GEOMETRY[_name].values():
        print(f"  {_profile.name:9}{_profile.compute:7}{_profile.memory:7}{_profile.gb:6}   {_profile.starts}")
print("no MIG:", *NO_MIG)

# %% [markdown]
# Write `mig_pack(jobs, gpus)`:
#
# - [c1] `jobs` is a list of pairs: [c2] the gigabytes that a job needs, an integer or a float, and the least number of compute slices that it needs, an integer.
#   [c3] `gpus` is a list of GPUs' names, as in `GEOMETRY`; [c4] two may have the same name. [c5] There are at most 8 jobs and 2 GPUs, and of either there may be none;
# - [c6] returns a list with one entry for each job, in the order of `jobs`: [c7] None where the job gets no place, else a triple of the GPU's number, counted
#   from 0, the **name** of a profile of that GPU, and the memory slice at which it begins;
# - [c8] every job has an instance of its own, and no two share one. [c9] An instance takes `profile.memory` slices of memory from where it begins. [c10] It may
#   begin at `profile.starts` alone, and no slice is in two instances;
# - [c11] a profile is enough for a job if its `gb` are at least what the job needs, **and** its `compute` slices are too. [c12] Larger ones may be
#   taken. [c13] Gigabytes are those of the profile's name;
# - [c14] **as many jobs** get a place as can have one at once, whichever they are. [c15] What a greedy rule finds is at times fewer;
# - [c16] a job that no profile is enough for gets none, and the others do. [c17] `jobs` and `gpus` are left as they are;
# - [c18] raises `ValueError` where a GPU has no MIG, or is not in `GEOMETRY`, **even if** no job needs it; [c19] where a job needs less than 1 compute slice, or
#   gigabytes that are not greater than 0;
# - [c20] `GEOMETRY` is there to be read. [c21] You write the rest yourself: [c22] a call of gpulab's functions loses the points.

# %% nbgrader={"grade": false, "grade_id": "mig_pack", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mig_pack(jobs, gpus):
    """An instance for as many jobs as can have one: GPU, profile and first memory slice, or None."""
    ### BEGIN SOLUTION
    if not set(gpus) <= set(GEOMETRY) or any(gb <= 0 or compute < 1 for gb, compute in jobs):
        raise ValueError("a GPU without MIG, or a job that needs nothing")

    @cache
    def best(number, taken):
        """Of the jobs from this one on: how many get a place beside the slices that are taken, and which."""
        if number == len(jobs):
            return 0, ()
        count, places = best(number + 1, taken)
        found = count, (None, *places)
        for gpu, profile, start in instances(gpus, *jobs[number]):
            slices = ((1 << profile.memory) - 1) << start
            if found[0] < len(jobs) - number and not taken[gpu] & slices:
                count, places = best(number + 1, (*taken[:gpu], taken[gpu] | slices, *taken[gpu + 1 :]))
                found = max(found, (count + 1, ((gpu, profile.name, start), *places)), key=lambda one: one[0])
        return found

    return list(best(0, (0,) * len(gpus))[1])


from functools import cache


def instances(gpus, gb, compute):
    """Every place that is enough for a job, those of few memory slices first."""
    enough = [(gpu, one) for gpu, name in enumerate(gpus) for one in GEOMETRY[name].values() if one.gb >= gb and one.compute >= compute]
    smallest_first = sorted(enough, key=lambda pair: pair[1].memory)
    return [(gpu, profile, start) for gpu, profile in smallest_first for start in profile.starts]
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "mig_pack_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_mig_pack():
    """Packings by slice: a letter for each job, a dot for what is free."""
    tasks = {
        "seven jobs of a slice": ([(5, 1)] * 8, ["A100-40GB"]),
        "three, three and one": ([(20, 3), (20, 3), (5, 1)], ["A100-40GB"]),
        "three before four": ([(40, 3), (40, 4)], ["H100-80GB"]),
        "memory for two, compute for one": ([(15, 1)] * 4, ["A100-80GB"]),
        "two GPUs": ([(60, 2), (30, 2), (30, 3), (9, 1)], ["A100-80GB", "H200-141GB"]),
    }
    most = {}
    for title, (jobs, gpus) in tasks.items():
        placed = mig_pack(jobs, gpus)
        most[title] = sum(place is not None for place in placed)
        print(f"\n{title}: {most[title]} of {len(jobs)}")
        rows = [["."] * 8 for _ in gpus]
        for letter, place in zip("abcdefghij", placed):
            if place is not None:
                gpu, name, start = place
                profile = GEOMETRY[gpus[gpu]][name]
                assert start in profile.starts, f"{name} cannot begin at {start}"
                for memory_slice in range(start, start + profile.memory):
                    assert rows[gpu][memory_slice] == ".", "two instances have a slice in common"
                    rows[gpu][memory_slice] = letter
        for gpu, row in zip(gpus, rows):
            print(f"  {gpu:12}{''.join(row)}")
    assert list(most.values()) == [7, 2, 2, 4, 4], "as many as can be have a place"
    try:
        mig_pack([(5, 1)], ["A100-40GB", "L40S"])
    except ValueError as error:
        print(f"\nL40S: ValueError: {error}")
    else:
        assert False, "an L40S has no MIG"


_see_mig_pack()

# %% nbgrader={"grade": true, "grade_id": "mig_pack_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of mig_pack: legal 3, enough 2, most 3, errors 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("platforms.mig_pack")
### END HIDDEN TESTS
