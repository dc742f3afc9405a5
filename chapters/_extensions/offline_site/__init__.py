"""Sphinx extension: pages that are light, need no network, and can be read before any script runs.

A chapter that is a notebook gets it as a download, also where no repository is configured.
"""

from pathlib import Path

import nbformat

from autograder.authoring.alone import with_what_to_install
from offline_site import formulas, icons, widgets


def offer_notebook(app, pagename, templatename, context, doctree):
    """Put the page's notebook, as MyST-NB wrote it, and what it needs, behind the page's download button."""
    outdir = Path(app.outdir)
    notebook = outdir.parent / "jupyter_execute" / f"{pagename}.ipynb"
    if doctree is None or not notebook.is_file():
        return
    download = outdir / "_sources" / f"{pagename}.ipynb"
    download.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(with_what_to_install(nbformat.read(notebook, as_version=4), pagename), download)
    context["ipynb_source"] = f"{pagename}.ipynb"


def setup(app):
    # The theme turns ipynb_source into a button at priority 501.
    app.connect("html-page-context", offer_notebook, priority=500)
    for part in (formulas, icons, widgets):
        part.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
