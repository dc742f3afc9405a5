"""What Sphinx, the theme and MyST-NB write, made light: no script before the first paint."""

import base64
import re
from pathlib import Path

from sphinx.jinja2glue import BuiltinTemplateLoader

from offline_site import icons, widgets

FONT_AWESOME = re.compile(r'\s*<script defer src="[^"]*scripts/fontawesome\.js[^"]*"></script>')
PRELOAD = re.compile(r'\s*<link rel="preload" as="script"[^>]*/>')
BLOCKING = re.compile(r'<script (?![^>]*\b(?:defer|async)\b)([^>]*\bsrc=")')
# It names what a deferred script defines, so it must wait for that.
WAITING = re.compile(r"<script>((?:(?!</script>).)*\bDOCUMENTATION_OPTIONS\..*?)</script>", re.S)
# A server may call a notebook JSON, which opens in a tab.
SOURCE = re.compile(r'(<a href="[^"]*_sources/[^"]*") target="_blank"')


class LeanTemplates(BuiltinTemplateLoader):
    """Sphinx's own template loader, whose whole pages are made light."""

    def init(self, builder, theme=None, dirs=None):
        super().init(builder, theme, dirs)
        self.outdir = Path(builder.outdir)

    def render(self, template, context):
        html = super().render(template, context)
        if not html.lstrip()[:9].lower() == "<!doctype":
            return html
        return widgets.shared(deferred(downloaded(icons.drawn(html))), self.outdir, context["content_root"])


def deferred(html: str) -> str:
    """The page with its scripts in the same order, all after the text."""
    html = PRELOAD.sub("", FONT_AWESOME.sub("", html))
    html = WAITING.sub(lambda found: f'<script defer src="{as_address(found[1])}"></script>', html)
    return BLOCKING.sub(r"<script defer \1", html)


def downloaded(html: str) -> str:
    """The page whose notebook and source are taken home, and not opened."""
    return SOURCE.sub(r"\1 download", html)


def as_address(script: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(script.encode()).decode()
