"""Sphinx extension: what the site needs from other packages, copied into it.

MathJax comes from the package ``sphinx-mathjax-offline``. Loaded as an extension, that
package copies all of MathJax (24 MB); the site needs the part named here.
A chapter that is a notebook gets it as a download, also where no repository is configured.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path

from sphinx.errors import ExtensionError
from sphinx.util.fileutil import copy_asset

MATHJAX_PARTS = (
    "tex-chtml.js",
    "input/tex/extensions",
    "output/chtml/fonts",
)


def mathjax_folder():
    """The folder with MathJax's files; ExtensionError where the package is missing."""
    package = find_spec("sphinx-mathjax-offline")
    if package is None:
        raise ExtensionError(
            "MathJax is missing: install the package sphinx-mathjax-offline (make does it)."
        )
    return Path(package.submodule_search_locations[0]) / "static" / "mathjax"


def copy_mathjax(app):
    if app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in MATHJAX_PARTS:
        source = mathjax_folder() / part
        copy_asset(source, (target / part) if source.is_dir() else (target / part).parent)


def offer_notebook(app, pagename, templatename, context, doctree):
    """Put the page's notebook, as MyST-NB wrote it, behind the page's download button."""
    outdir = Path(app.outdir)
    notebook = outdir.parent / "jupyter_execute" / f"{pagename}.ipynb"
    if doctree is None or not notebook.is_file():
        return
    download = outdir / "_sources" / f"{pagename}.ipynb"
    download.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(notebook, download)
    context["ipynb_source"] = f"{pagename}.ipynb"


def setup(app):
    app.connect("builder-inited", copy_mathjax)
    # The theme turns ipynb_source into a button at priority 501.
    app.connect("html-page-context", offer_notebook, priority=500)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
