"""The job: every fault shows, every repair removes it, and nothing else does."""

import pytest

from gpulab.capstone import (
    FAULTS,
    FIGURES,
    OPTIONS,
    Job,
    OutOfRuns,
    Ticket,
    catalogue,
    healthy,
    preflight,
    repair_of,
    same_losses,
    targets,
)

REPAIRS = {option.parts[0]: name for name, option in OPTIONS.items() if option.repairs}
DECOYS = [name for name, option in OPTIONS.items() if not option.repairs]


@pytest.fixture(scope="module")
def broken():
    """Each fault's report, run once."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = Job([name]).run()
        return found[name]

    return of


def test_the_healthy_job_is_the_same_in_every_run_and_meets_its_targets():
    again = Job().run()
    assert (again.figures, again.losses, again.answers) == (healthy().figures, healthy().losses, healthy().answers)
    assert again.above(targets()) == {}
    assert set(again.figures) == set(FIGURES)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_raises_the_figures_that_the_catalogue_names(name, broken):
    above = broken(name).above(targets())
    assert FAULTS[name].shows and set(FAULTS[name].shows) <= set(above)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_alters_the_losses_where_the_catalogue_says_so(name, broken):
    assert same_losses(broken(name).losses, healthy().losses) != FAULTS[name].alters_loss


@pytest.mark.parametrize("name", FAULTS)
def test_the_repair_of_its_part_makes_the_job_healthy(name):
    assert Job([name]).code([repair_of(FAULTS[name])]) == Job().code() != Job([name]).code()


def test_every_part_has_one_repair_and_a_fault():
    assert set(REPAIRS) == set(Job().code())
    assert {fault.part for fault in FAULTS.values()} == set(REPAIRS) - {"update"}


def test_there_are_fifteen_faults_and_more_and_some_in_every_stage():
    assert len(FAULTS) >= 15
    assert {fault.stage for fault in FAULTS.values()} == {"feeding", "training", "keeping", "serving"}


def test_four_faults_at_once_show_each_its_telling_figure_and_are_repaired_together():
    names = ["no workers", "one parameter at a time", "saved in each step", "requests one by one"]
    above = Job(names).run().above(targets())
    assert {FAULTS[name].shows[0] for name in names} <= set(above)
    mended = Job(names).run([REPAIRS[FAULTS[name].part] for name in names])
    assert mended.figures == healthy().figures and mended.losses == healthy().losses


@pytest.mark.parametrize("name", DECOYS)
def test_a_decoy_mends_no_job_with_a_fault_in_its_parts(name, broken):
    for fault in FAULTS.values():
        if fault.part in OPTIONS[name].parts:
            found = Job([fault.name]).run([name])
            assert found.above(targets()) or not same_losses(found.losses, healthy().losses)


def test_what_looks_like_a_speed_up_lowers_the_step_and_changes_the_losses():
    for name in ("accumulate over two batches", "no clipping"):
        found = Job().run([name])
        assert found["step_us"] < healthy()["step_us"]
        assert not same_losses(found.losses, healthy().losses)


def test_sharding_sends_half_as_much_again_and_is_no_remedy_for_communication():
    sharded = Job(["every gradient on its own"]).run(["shard the model"])
    assert sharded["collectives"] > healthy()["collectives"]


def test_a_later_change_replaces_an_earlier_one_of_the_same_part():
    assert Job(["pageable batches"]).code(["pinned buffers"]) == Job().code()
    assert Job().code(["no clipping", "clip by one norm"]) == Job().code()


def test_what_cannot_be_planted_or_changed_is_refused():
    for planted in (["no such fault"], ["pageable batches", "pinned in the loop"]):
        with pytest.raises(ValueError):
            Job(planted)
    with pytest.raises(ValueError):
        Job().code(["no such change"])


def test_the_profile_of_a_job_that_waits_for_its_loader_says_input():
    assert Job(["no workers"]).profile().verdict.kind == "input"
    assert Job().profile().verdict.kind == "launch"


def test_a_ticket_allows_so_many_runs_and_no_more():
    ticket = Ticket(["gradients kept"], changes=1, runs=2)
    assert ticket.run().above(ticket.targets) and not ticket.run(["clear the gradients"]).above(ticket.targets)
    with pytest.raises(OutOfRuns):
        ticket.run()
    assert [made for made, _ in ticket.made] == [(), ("clear the gradients",)]


@pytest.mark.parametrize("name", FAULTS)
def test_the_checklist_finds_every_fault(name, broken):
    assert any(not check.passed for check in preflight(broken(name), targets()))


def test_the_checklist_lets_the_healthy_job_start():
    assert all(check.passed for check in preflight(healthy(), targets()))


def test_the_catalogue_names_every_fault_with_its_repair_and_its_page():
    pages = {fault.page: f"chapter {number}" for number, fault in enumerate(FAULTS.values())}
    shown = catalogue(pages)
    for fault in FAULTS.values():
        assert fault.name in repr(shown) and repair_of(fault) in repr(shown)
        assert f'<a href="../{fault.page}.html">{pages[fault.page]}</a>' in shown._repr_html_()
