"""What a notebook says to whoever opens it alone, in Colab or a bare kernel: what to install, and which page it is of."""

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.core.cell_id import cell_id
from autograder.core.layout import ROOT
from autograder.core.published import site_address, version, wheel

CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
TEXT = """\
**If `import gpulab` fails**, {first}run `%pip install --extra-index-url {cpu} {wheel}` in a cell above it, with Python
3.11 to 3.13; with an NVIDIA GPU, leave out the index. `gpulab` comes from the book and from no package index. This
notebook is that of the page {page}. Each chapter's page has, under *Exercises*, the lines that
make such an environment. JupyterLite cannot run it: PyTorch has no release for it."""
FIRST = "put `{wheel}`, which each chapter's page offers, beside this notebook and "
ON_DISK = "`{page}.html` (`make serve` in the book's repository shows it at <http://localhost:8000/{page}.html>)"


def with_what_to_install(notebook: NotebookNode, page: str, root: Path = ROOT) -> NotebookNode:
    """The notebook, with a cell of text before its first code that names gpulab. ``page``: as ``chapters/tensors/views``."""
    code = [place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code" and "gpulab" in cell.source]
    if code:
        cell = nbformat.v4.new_markdown_cell(what_to_install(page, root), id=cell_id("what_to_install"))
        notebook.cells.insert(code[0], cell)
    return notebook


def what_to_install(page: str, root: Path) -> str:
    """Where the book is published, a line that runs as it stands; else one that needs the wheel beside the notebook."""
    site, gpulab = site_address(root).rstrip("/"), wheel("gpulab", version(root))
    if site:
        return TEXT.format(first="", cpu=CPU_WHEELS, wheel=f"{site}/exercises/{gpulab}", page=f"<{site}/{page}.html>")
    first, at = FIRST.format(wheel=gpulab), ON_DISK.format(page=page)
    return TEXT.format(first=first, cpu=CPU_WHEELS, wheel=f"./{gpulab}", page=at)
