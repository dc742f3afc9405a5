"""Every fault with its signs, its repair and the chapter that teaches it, as HTML."""

import html
from dataclasses import dataclass

from gpulab.capstone.registry import FAULTS, OPTIONS, Fault


@dataclass(frozen=True)
class Catalogue:
    """HTML for a page or a notebook; as text, a line for each fault."""

    text: str
    markup: str

    def _repr_html_(self) -> str:
        return self.markup

    def __repr__(self) -> str:
        return self.text


def repair_of(fault: Fault) -> str:
    """The name of the change that repairs its part."""
    return next(name for name, option in OPTIONS.items() if option.repairs and option.parts == (fault.part,))


def catalogue(pages: dict[str, str]) -> Catalogue:
    """pages: for each chapter's page where it is, seen from the page that shows this, without ``.html``, and its title."""
    lines = [f"{fault.name:32}{', '.join(fault.shows):46}{repair_of(fault)}" for fault in FAULTS.values()]
    stages = dict.fromkeys(fault.stage for fault in FAULTS.values())
    return Catalogue("\n".join(lines), "".join(_stage(stage, pages) for stage in stages))


def _stage(stage: str, pages: dict[str, str]) -> str:
    rows = "".join(_fault(fault, pages) for fault in FAULTS.values() if fault.stage == stage)
    return f"<h3>{stage.capitalize()}</h3><dl>{rows}</dl>"


def _fault(fault: Fault, pages: dict[str, str]) -> str:
    signs = ", ".join(f"<code>{name}</code>" for name in fault.shows)
    taught = f'<a href="../{fault.page}.html">{html.escape(pages[fault.page])}</a>'
    alters = " It alters what is learned." if fault.alters_loss else ""
    return (
        f"<dt>{html.escape(fault.name)}</dt><dd>{html.escape(_sentence(fault.says))}.{alters}<br>"
        f"Shows in {signs}. Repair: {html.escape(repair_of(fault))}. Taught in {taught}.</dd>"
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] if text[0].isalpha() and "(" not in text.split()[0] else text
