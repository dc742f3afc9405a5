"""E16.3 schedule_1f1b: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.parallelism.run import answer_to, as_it_is


def run(learner: Learner, case: dict) -> dict:
    """Ask for every table, and spoil what came back before the next is asked for."""

    def ask(question: dict) -> object:
        table = learner.schedule_1f1b(question["stages"], question["microbatches"])
        copied = as_it_is(table)
        for row in table if isinstance(table, list) else ():
            if isinstance(row, list):
                row.clear()
        return copied

    return answer_to(case, ask)
