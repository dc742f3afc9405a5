"""A widget's code once for the whole site, and the widget itself in the page before any script runs."""

import hashlib
import json
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path

from offline_site.stills import still

# Loaded as a file: importing gpulab would import PyTorch.
FILE = Path(__file__).parents[3] / "gpulab" / "widgets" / "_source.py"
source = SourceFileLoader("widget_source", str(FILE)).load_module()

STATE = re.compile(r'(<script type="application/vnd\.jupyter\.widget-state\+json">)(.*?)(</script>)', re.S)
VIEW = re.compile(r'<script type="application/vnd\.jupyter\.widget-view\+json">(.*?)</script>', re.S)
CODE = re.compile(r"_static/widgets/([\w-]+\.(?:js|css))")
FOLDER = Path("_static") / "widgets"
WITHOUT_SCRIPT = """\
<noscript><style>
.anywidget-view.still :is(button, input, select) { pointer-events: none; opacity: 0.6; }
.anywidget-view.still button { display: none; }
</style></noscript>
"""


def shared(html: str, outdir: Path, root: str) -> str:
    """The page with its widgets' code in files under ``outdir``, and each widget drawn where it will stand."""
    found = STATE.search(html)
    if not found:
        return html
    state = json.loads(found[2])
    models = {key: current(entry["state"]) for key, entry in state["state"].items() if "_esm" in entry["state"]}
    html = VIEW.sub(lambda view: drawn(view, models), html)
    files = sorted({file for model in models.values() for file in moved(model, outdir / FOLDER)})
    plain = json.dumps(state, ensure_ascii=False).replace("</", "<\\/")
    html = STATE.sub(lambda tag: tag[1] + plain + tag[3], html)
    return html.replace("</head>", f"{''.join(tag(file, root) for file in files)}{WITHOUT_SCRIPT}</head>", 1)


def current(model: dict) -> dict:
    """The model with its code as the files hold it now: a page is not executed again for a change of JavaScript."""
    package, _, name = model.get("_anywidget_id", "").rpartition(".")[0].rpartition(".")
    if package == "gpulab.widgets":
        model |= {"_esm": source.module(name), "_css": source.style(name)}
    return model


def drawn(view: re.Match, models: dict[str, dict]) -> str:
    """The view with its picture in front, which the live widget replaces."""
    model = models.get(json.loads(view[1])["model_id"])
    if model is None:
        return view[0]
    return f'<div class="anywidget-view still">{still(model, number=view.start())}</div>\n{view[0]}'


def moved(model: dict, folder: Path) -> list[str]:
    """Move a model's code and style into files named for their content; the files' names."""
    folder.mkdir(parents=True, exist_ok=True)
    code, style = model["_esm"], model.pop("_css", "")
    kind = model.get("_anywidget_id", "widget").rpartition(".")[2].lower()
    name = f"{kind}-{hashlib.sha256((code + style).encode()).hexdigest()[:8]}"
    model["_esm"] = f"shared:{name}"
    # A classic script: a page opened from disk may load no module.
    line = f"(globalThis.sharedModules ??= {{}})[{json.dumps(name)}] = {json.dumps(code, ensure_ascii=False)};\n"
    (folder / f"{name}.js").write_text(line, "utf-8")
    (folder / f"{name}.css").write_text(style, "utf-8")
    return [f"{name}.css", f"{name}.js"]


def tag(file: str, root: str) -> str:
    address = f"{root}{FOLDER.as_posix()}/{file}"
    if file.endswith(".css"):
        return f'<link rel="stylesheet" href="{address}"/>\n'
    return f'<script defer src="{address}"></script>\n'


def forget(app, error):
    """Remove code that no page names any more."""
    folder = Path(app.outdir) / FOLDER
    if error or app.builder.format != "html" or not folder.is_dir():
        return
    pages = [page for page in Path(app.outdir).rglob("*.html") if "_static" not in page.parts]
    named = {name for page in pages for name in CODE.findall(page.read_text("utf-8"))}
    for file in folder.iterdir():
        if file.name not in named:
            file.unlink()


def setup(app):
    app.connect("build-finished", forget)
