"""The Formgrader's Content-Security-Policy: of a page's scripts run those that nbgrader's own templates name, whatever else stands in it."""

import base64
import hashlib
import secrets
from pathlib import Path

from jinja2.ext import Extension
from nbgrader.server_extensions.formgrader.handlers import template_path

_HANDLERS = (
    "toggle_name(true);",
    "toggle_name(false);",
    "toggleAllNames()",
    "createAssignmentModal();",
    "createStudentModal();",
)
"""What nbgrader's templates say in onclick; a test clicks on each page."""
_HEAD = """<style>
#notebook a[href^="http"]::after { content: " (" attr(href) ")"; font-family: monospace; overflow-wrap: anywhere; }
</style>
<script>
// formgrade.js waits for MathJax, which would come from another host: formulas are shown as they were typed.
var MathJax = {Hub: {Startup: {signal: {Interest: function (told) { $(function () { setTimeout(told, 0, "End"); }); }}}}};
</script>"""
"""In the place of nbconvert's MathJax. Links show where they lead."""
FILES = "sandbox; default-src 'none'"
"""Of a file that lies in a submission's folder and is opened by itself."""


def new_nonce() -> str:
    return secrets.token_urlsafe(18)


def policy(nonce: str) -> str:
    hashes = " ".join(f"'sha256-{_sha256(handler)}'" for handler in _HANDLERS)
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'nonce-{nonce}'",
            f"script-src-attr 'unsafe-hashes' {hashes}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'self'",
        ]
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class WithNonces(Extension):
    """Gives the scripts in the sources of nbgrader's templates the page's nonce; never those in what a template is filled with."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        if filename is None or not Path(filename).is_relative_to(template_path):
            return source
        nonce = "resources.nonce" if filename.endswith(".j2") else "nonce"
        return source.replace("{{ mathjax() }}", _HEAD).replace("<script", f'<script nonce="{{{{ {nonce} }}}}"')
