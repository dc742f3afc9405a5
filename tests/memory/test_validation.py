"""memory.plan against peaks that others measured on GPUs."""

from gpulab.memory import plan
from gpulab.memory.validation import WHY, reasons, rows, table

FOUND = rows()
NEAR = {row.measurement.id for row in FOUND if row.near}


def test_published_peaks_of_five_sources_are_met_within_a_tenth():
    assert NEAR >= {
        "mem-infer-l2-7b", "mem-infer-l2-13b", "mem-infer-l2-13b-nf4dq", "mem-lora-l2-7b-mb1", "mem-lora-l2-13b-mb1",
        "mem-bertlarge-acc4", "mem-bertlarge-acc4-ckpt", "mem-bertlarge-amp-acc4-ckpt", "mem-bertlarge-amp-acc4-ckpt-adam8",
        "titan-8b-fsdp128-compile-mem", "mem-openvla-lora-4090", "tune-ladder-packed",
    }  # fmt: skip
    assert len({row.measurement.source.title for row in FOUND if row.near}) >= 5


def test_each_that_is_further_off_has_a_reason_and_no_other_has():
    assert set(reasons(FOUND)) == set(WHY) == {row.measurement.id for row in FOUND} - NEAR


def test_what_torchtitan_logs_is_reserved_bytes_in_gib_and_each_reason_says_so():
    logged = {row.measurement.id: row for row in FOUND if row.measurement.id.startswith(("titan-", "ao-"))}
    assert {(row.counted, row.measurement.unit) for row in logged.values()} == {("reserved", "GiB")}
    assert all("max_reserved" in WHY[name] for name, row in logged.items() if not row.near)


def test_openvlas_own_script_on_24_gb_is_met_within_a_twentieth():
    row = next(row for row in FOUND if row.measurement.id == "mem-openvla-lora-4090")
    work = row.measurement.workload
    assert row.job.adapters == work["trainable_parameters"]
    assert row.job.shape.parameters == work["all_parameters"] - work["trainable_parameters"]
    assert abs(row.ratio - 1) < 0.05 and plan(row.job, "RTX4090").fits


def test_the_table_shows_every_row_in_eighty_columns():
    lines = table(FOUND).splitlines()
    assert len(lines) == len(FOUND) + 2 and max(map(len, lines)) <= 80
    assert lines[-1] == f"{len(NEAR)} of {len(FOUND)} are within 10 %"
