"""Every exercise in exercises/ passes every gate."""

import pytest

from autograder.authoring.bench import readable
from autograder.authoring.gates import GATES, attempts_were_tried_with_many_seeds, mutants_were_tried
from tests.costs import was_spent_elsewhere
from tests.gates.small import EXERCISES, SmallProcess

BENCHES, UNREADABLE = readable(EXERCISES)
# Every attempt at these is still to be tried with thirty seeds: python -m autograder mutate.
NOT_YET_WITH_MANY_SEEDS = {
    f"{chapter}.{function}"
    for chapter, functions in {
        "transfers": "overlapped move_to",
        "streams": "honest_time train run_two_models",
        "memory": "fits lora_memory",
        "kernels": "fused_gate row_softmax linear_silu squash",
        "precision": "round_to dynamic_scaler amp_step training_drift",
        "collectives": "ring_all_reduce",
        "data_parallel": "mini_ddp reduce_metrics",
        "sharding": "zero_adam mini_fsdp comm_volume",
        "inference": "cached_attention kv_bytes intensity",
        "engines": "continuous_batcher block_allocator chunked_prefill place_phases prefix_cache paged_attention",
        "profiling": "self_times diagnose profile_steps mfu",
        "trading": "choose_segments accumulate classify_growth caching_allocator",
        "feeding": "pipeline_throughput pick_workers tar_shards make_loader",
        "stability": "lr_at clip_global spike_guard save_state",
        "parallelism": "tensor_parallel_mlp validate_schedule schedule_1f1b mesh_plan",
        "platforms": "cold_start warm_pool audit_network mig_pack",
        "operating": "gang_schedule checkpoint_interval find_straggler chargeback",
        "capstone": "triage design_review",
    }.items()
    for function in functions.split()
}
# And every mutant of these: python -m autograder mutate --mutants.
NOT_YET_MUTATED = NOT_YET_WITH_MANY_SEEDS - {
    *("transfers.overlapped", "transfers.move_to", "memory.fits", "memory.lora_memory", "streams.honest_time", "streams.train"),
    *("kernels.fused_gate", "kernels.row_softmax", "kernels.linear_silu", "kernels.squash"),
    *("feeding.pipeline_throughput", "feeding.pick_workers", "feeding.tar_shards", "feeding.make_loader"),
    *("profiling.self_times", "profiling.diagnose", "profiling.profile_steps", "profiling.mfu"),
}
NOT_YET = {mutants_were_tried: NOT_YET_MUTATED, attempts_were_tried_with_many_seeds: NOT_YET_WITH_MANY_SEEDS}


@pytest.fixture(scope="module")
def small():
    process = SmallProcess()
    yield process
    process.close()


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.name)
@pytest.mark.parametrize("check", GATES, ids=lambda check: check.__name__)
def test_gate(check, bench, small, request):
    if bench.name in NOT_YET.get(check, ()):
        assert list(check(bench)), f"{bench.name} has been tried: take it from the list"
        return
    found, cpu_s = small.found_by(check.__name__, bench.name)
    was_spent_elsewhere(request.node, cpu_s)
    assert found == []


def test_every_chapters_files_can_be_read():
    assert UNREADABLE == {}


def test_what_was_not_yet_tried_is_an_exercise():
    assert {bench.name for bench in BENCHES} >= NOT_YET_WITH_MANY_SEEDS | NOT_YET_MUTATED


def test_every_chapter_with_a_notebook_is_on_the_bench():
    chapters = {path.parent.name for path in EXERCISES.glob("*/*.py") if path.stem == path.parent.name}
    assert chapters and chapters == {bench.name.partition(".")[0] for bench in BENCHES}


def test_every_solution_cell_is_graded():
    for bench in BENCHES:
        solutions = {
            cell.metadata["nbgrader"]["grade_id"]
            for cell in bench.notebook.cells
            if cell.metadata.get("nbgrader", {}).get("solution")
        }
        chapter = bench.name.partition(".")[0]
        assert solutions == {other.function for other in BENCHES if other.name.startswith(f"{chapter}.")}


def test_every_attempt_belongs_to_an_exercise():
    from autograder.authoring.mistakes import load_attempts

    for path in EXERCISES.glob("*/mistakes.py"):
        functions = {bench.function for bench in BENCHES if bench.name.startswith(f"{path.parent.name}.")}
        assert {attempt.exercise for attempt in load_attempts(path)} <= functions
