"""Sphinx extension: ``{working-alone}``, what a chapter's exercises ask, how to take them home and have them marked there.

The one copy of the lines that a learner types; ``:extras:`` names further extras of gpulab's.
"""

from pathlib import Path

import edition
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from autograder.authoring.alone import CPU_WHEELS
from autograder.core.published import site_address, wheel
from autograder.core.report import points, with_code
from autograder.instructor.effort import efforts
from autograder.selfcheck.chapters import anchor_of

ROOT = Path(__file__).parents[2]
TEXT = """\
| Exercise | Points | Minutes | Needs |
| --- | ---: | ---: | --- |
{efforts}

Minutes are estimated from the lengths of statement and reference solution and the number of criteria; nobody was timed.

{{download}}`Download the exercises <../../_build/exercises/{chapter}.ipynb>`, a Jupyter notebook, and two wheels:
{{download}}`gpulab <../../_build/exercises/{gpulab}>`, which it imports, and
{{download}}`gpulab-mark <../../_build/exercises/{mark}>`, which runs the hidden tests on your own machine. With Python
3.11 to 3.13 on Linux, macOS or WSL (Windows' Linux: `wsl --install` in PowerShell), in the folder where the three lie:

```sh
{lines}
```

The last line, whenever you have saved the notebook, opens a page with the points of each function, a sentence for each
lost one, the section to read again, two hints, and the solution after full marks. On Linux your code is marked in a
sandbox (Debian: `apt-get install bubblewrap`), on macOS without one. The index is that of PyTorch's builds without
CUDA: with an NVIDIA GPU, leave it out.
"""
ELSEWHERE = """
Without an installation: [{names[0]}]({addresses[0]}), where a cell before the first one has to say
`%pip install {wheel}`, or [{names[1]}]({addresses[1]}), where all is installed; both forget your work when you leave.
"""


def wheels() -> tuple[str, str]:
    """The files' names of gpulab and of its marker."""
    return wheel("gpulab", ROOT), wheel("gpulab_mark", ROOT)


def lines(chapter: str, extras: tuple[str, ...] = ()) -> list[str]:
    """What is typed, from an empty environment to a marked notebook."""
    gpulab, mark = wheels()
    return [
        "python3 -m venv tokens",
        "source tokens/bin/activate",
        f"pip install --extra-index-url {CPU_WHEELS} \\",
        f'  "./{gpulab}[{",".join(("lab", *extras))}]" \\',
        f"  ./{mark}",
        f"jupyter lab {chapter}.ipynb",
        f"gpulab-mark {chapter}.ipynb",
    ]


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
        gpulab, mark = wheels()
        typed = "\n".join(lines(chapter, tuple(self.options.get("extras", "").split())))
        text = TEXT.format(chapter=chapter, efforts="\n".join(rows(chapter)), gpulab=gpulab, mark=mark, lines=typed)
        for known in ("pyproject.toml", f"exercises/{chapter}/notebook.py", f"exercises/{chapter}/hints.yml"):
            self.env.note_dependency(str(ROOT / known))
        if launches := edition.launches(self.env.app, chapter):
            names, addresses = zip(*launches.items(), strict=True)
            wheel = f"{site_address(ROOT)}/exercises/{gpulab}"
            text += ELSEWHERE.format(names=names, addresses=addresses, wheel=wheel)
        held = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), source=self.env.docname), self.content_offset, held)
        return held.children


def setup(app):
    app.add_directive("working-alone", WorkingAlone)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
