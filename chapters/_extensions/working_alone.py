"""Sphinx extension: ``{working-alone}``, what a chapter's exercises ask, how to take them home and have them marked.

The one copy of the lines that a learner types, in either edition; ``:extras:`` names further extras of gpulab's.
"""

from pathlib import Path

import edition
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from autograder.authoring.alone import CPU_WHEELS
from autograder.core.edition import Edition, of_this_build
from autograder.core.published import site_address, version, wheel
from autograder.core.report import points, with_code
from autograder.instructor.effort import efforts
from autograder.selfcheck.chapters import anchor_of

ROOT = Path(__file__).parents[2]
TEXT = """\
| Exercise | Points | Minutes | Needs |
| --- | ---: | ---: | --- |
{efforts}

Minutes are estimated from the lengths of statement and reference solution and the number of criteria; nobody was timed.

{{download}}`Download the exercises <{folder}/{chapter}.ipynb>`, a Jupyter notebook, and
{{download}}`gpulab <{folder}/{gpulab}>`, which it imports{marker}. With Python
3.11 to 3.13 on Linux, macOS or WSL (Windows' Linux: `wsl --install` in PowerShell), in the folder where they lie:

```sh
{lines}
```

{then} The index is that of PyTorch's builds without CUDA: with an NVIDIA GPU, leave it out.
"""
MARKS_HERE = ", with {{download}}`gpulab-mark <{folder}/{mark}>`, which runs the hidden tests on your own machine"
MARKS_THERE = ", with {{download}}`gpulab-mark <{folder}/{mark}>`, which asks your course's marking service"
MARKED_HERE = """\
The last line, whenever you have saved the notebook, opens a page with the points of each function, a sentence for each
lost one, the section to read again, two hints, and the solution after full marks. On Linux your code is marked in a
sandbox (Debian: `apt-get install bubblewrap`), on macOS without one."""
MARKED_THERE = """\
The last line, whenever you have saved the notebook, sends it to your course's marking service ({service}), which runs the
hidden tests, and opens a page with the points of each function, a sentence for each lost one, the section to read again
and two hints. It asks once for the token that your instructor gave you. How often you may ask is limited; a notebook that is
sent again as it was costs nothing."""
NOT_MARKED = """\
The cells below each function check it on one example. The hidden tests run when your instructor grades what you hand in."""
ELSEWHERE = """
Without an installation: [{names[0]}]({addresses[0]}), where a cell before the first one has to say
`%pip install {wheel}`, or [{names[1]}]({addresses[1]}), where all is installed; both forget your work when you leave.
"""


def wheels() -> tuple[str, str]:
    """The files' names of gpulab and of its marker."""
    return wheel("gpulab", version(ROOT)), wheel("gpulab_mark", of_this_build().version(version(ROOT)))


def lines(chapter: str, extras: tuple[str, ...] = ()) -> list[str]:
    """What is typed, from an empty environment to a marked notebook, in an edition that has a marker."""
    gpulab, mark = wheels()
    has_marker = of_this_build().has_marker
    goes_on = " \\" if has_marker else ""
    return [
        "python3 -m venv tokens",
        "source tokens/bin/activate",
        f"pip install --extra-index-url {CPU_WHEELS} \\",
        f'  "./{gpulab}[{",".join(("lab", *extras))}]"{goes_on}',
        *[f"  ./{mark}"] * has_marker,
        f"jupyter lab {chapter}.ipynb",
        *[f"gpulab-mark {chapter}.ipynb"] * has_marker,
    ]


def marking(edition: Edition) -> tuple[str, str]:
    """What the page says of the marker: what it is, and what its line does."""
    if not edition.has_marker:
        return "", NOT_MARKED
    return (MARKS_THERE, MARKED_THERE) if edition.graded else (MARKS_HERE, MARKED_HERE)


def said(chapter: str, extras: tuple[str, ...] = ()) -> str:
    """The section's text, in MyST."""
    made, (gpulab, mark) = of_this_build(), wheels()
    folder = f"../../{(made.built(ROOT) / 'exercises').relative_to(ROOT)}"
    marker, then = marking(made)
    return TEXT.format(
        efforts="\n".join(rows(chapter)),
        folder=folder,
        chapter=chapter,
        gpulab=gpulab,
        marker=marker.format(folder=folder, mark=mark),
        lines="\n".join(lines(chapter, extras)),
        then=then.format(service=made.service),
    )


def rows(chapter: str) -> list[str]:
    """Of the table: what each exercise is worth, takes and needs."""
    return [
        f"| `{one.name.partition('.')[2]}` | {points(one.points)} | {one.minutes} | "
        f'<a href="#{anchor_of(one.needs)}">{with_code(one.needs)}</a> |'
        for one in efforts(ROOT / "exercises" / chapter)
    ]


class WorkingAlone(SphinxDirective):
    option_spec = {"extras": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        chapter = Path(self.env.docname).name
        text = said(chapter, tuple(self.options.get("extras", "").split()))
        for known in ("pyproject.toml", f"exercises/{chapter}/notebook.py", f"exercises/{chapter}/hints.yml"):
            self.env.note_dependency(str(ROOT / known))
        if launches := edition.launches(self.env.app, chapter):
            names, addresses = zip(*launches.items(), strict=True)
            wheel = f"{site_address(ROOT)}/exercises/{wheels()[0]}"
            text += ELSEWHERE.format(names=names, addresses=addresses, wheel=wheel)
        held = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), source=self.env.docname), self.content_offset, held)
        return held.children


def setup(app):
    app.add_directive("working-alone", WorkingAlone)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
