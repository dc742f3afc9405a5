"""Sphinx extension: the pages of drafts are no part of the site. A page with neither number nor place stays an error."""

from pathlib import Path

from gpulab.book.contents import Contents

ROOT = Path(__file__).parents[2]


def leave_out(app, config):
    config.exclude_patterns += [f"{page}.md" for page in Contents.read(ROOT).draft_pages]


def setup(app):
    app.connect("config-inited", leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
