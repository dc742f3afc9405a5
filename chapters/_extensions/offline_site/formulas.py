"""Formulas as MathML, written when the book is built: a page that shows one loads no script for it."""

import re

from latex2mathml.converter import convert
from sphinx.errors import ExtensionError

UNKNOWN = re.compile(r"\\[a-zA-Z]+")


def mathml(latex: str, display: str = "inline") -> str:
    """``latex`` as a ``<math>`` element; ExtensionError names a command that has no MathML."""
    found = convert(latex, display=display)
    unknown = UNKNOWN.search(re.sub(r"<annotation.*?</annotation>", "", found))
    if unknown:
        raise ExtensionError(f"the formula {latex!r} uses {unknown[0]}, which has no MathML")
    return found


def inline(translator, node):
    translator.body.append(f'<span class="math">{mathml(node.astext())}</span>')
    skip()


def block(translator, node):
    translator.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    skip()


def skip():
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
