"""memory.plan against peaks that others measured on GPUs."""

from gpulab.memory.validation import WHY, reasons, rows, table

FOUND = rows()
NEAR = {row.measurement.id for row in FOUND if row.near}


def test_published_peaks_of_five_sources_are_met_within_a_tenth():
    assert NEAR >= {
        "mem-infer-l2-7b", "mem-infer-l2-13b", "mem-infer-l2-13b-nf4dq", "mem-lora-l2-7b-mb1", "mem-lora-l2-13b-mb1",
        "mem-bertlarge-acc4", "mem-bertlarge-acc4-ckpt", "mem-bertlarge-amp-acc4-ckpt", "mem-bertlarge-amp-acc4-ckpt-adam8",
        "titan-8b-fsdp128-compile-mem", "ao-8b-bf16-mem", "tune-ladder-packed",
    }  # fmt: skip
    assert len({row.measurement.source.title for row in FOUND if row.near}) >= 5


def test_each_that_is_further_off_has_a_reason_and_no_other_has():
    assert set(reasons(FOUND)) == set(WHY) == {row.measurement.id for row in FOUND} - NEAR


def test_the_table_shows_every_row_in_eighty_columns():
    lines = table(FOUND).splitlines()
    assert len(lines) == len(FOUND) + 2 and max(map(len, lines)) <= 80
    assert lines[-1] == f"{len(NEAR)} of {len(FOUND)} are within 10 %"
