"""Sphinx extension: ``{syllabus}``, the courses of syllabus.yml with the hours that they take."""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from autograder.instructor.syllabus import COURSES, ROOT, Course, Unit, courses
from gpulab.book.contents import FILE, in_words


def table(course: Course) -> list[str]:
    """A course as MyST: its sentence, a row for each unit, and which chapters are left out since they are not there yet."""
    rows = [_row(unit) for unit in course.units]
    head = ["| When | About | Read | Exercises | Hours |", "| --- | --- | --- | --- | ---: |"]
    total = f"| | | | | {course.hours:.0f} in all |"
    missing = f"Left out until they are in the book: {in_words(course.waits_for)}." if course.waits_for else ""
    return [course.says, "", *head, *rows, total, "", missing, ""]


def _row(unit: Unit) -> str:
    read = ", ".join(f"[](../{page}.md)" for page in unit.read)
    do = ", ".join(f"`{one.name.partition('.')[2]}`" for one in unit.exercises)
    without = f", without {in_words(unit.waits_for)}" if unit.waits_for else ""
    return f"| {unit.title} | {unit.about}{without} | {read} | {do} | {unit.hours:.1f} |"


class Syllabus(SphinxDirective):
    """The course whose title is the argument."""

    required_arguments, final_argument_whitespace = 1, True

    def run(self) -> list[nodes.Node]:
        (course,) = [one for one in courses() if one.title == self.arguments[0]]
        for known in (COURSES, ROOT / FILE):
            self.env.note_dependency(str(known))
        held = nodes.container()
        self.state.nested_parse(StringList(table(course), source=self.env.docname), self.content_offset, held)
        return held.children


def setup(app):
    app.add_directive("syllabus", Syllabus)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
