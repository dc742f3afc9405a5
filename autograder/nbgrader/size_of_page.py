"""How much of one notebook a page shows."""

import html

from nbformat import NotebookNode

from autograder.core.printable import visible

MOST_OF_A_TEXT = 256 * 1024
"""Characters of a cell's source, or of one output, that are shown."""
MOST_OF_A_PAGE = 8 * 1024**2
"""Characters of all sources, outputs and pictures of a page together as plain text, and as many of what is rendered."""
_MOST_FOR_ONE = 6
"""Characters of HTML for one of text, as in ``&quot;``."""


class Room:
    """What a page still has place for."""

    def __init__(self, characters: int = MOST_OF_A_PAGE) -> None:
        self.left = characters

    def takes(self, text: str) -> bool:
        """Whether it finds place; then it has it."""
        fits = len(text) <= self.left
        self.left -= len(text) if fits else 0
        return fits


class SizeOfPage:
    """What is left of a page's size while its cells are shortened, one by one."""

    def __init__(self, most: int = MOST_OF_A_PAGE) -> None:
        self._room = Room(most)

    def bound(self, cell: NotebookNode) -> None:
        """Shorten a cell's texts; pictures that find no place are left out."""
        cell.source = self._text(cell.source)
        if "attachments" in cell:
            cell.attachments = self._pictures(cell.attachments)
        for output in cell.get("outputs", []):
            self._output(output)

    def _output(self, output: NotebookNode) -> None:
        if output.output_type == "stream":
            output.text = self._text(output.text)
        elif output.output_type == "error":
            output.traceback = [self._text("\n".join(output.traceback))]
        else:
            output.data = NotebookNode(
                {kind: self._text(data) for kind, data in output.data.items() if self._finds_place(kind, data)}
            )

    def _text(self, text: str) -> str:
        shown = text[:MOST_OF_A_TEXT]
        if not self._room.takes(html.escape(visible(shown))):
            shown = shown[: self._room.left // _MOST_FOR_ONE]
            self._room.takes(html.escape(visible(shown)))
        return shown if shown == text else f"{shown}\n[{len(text) - len(shown)} more characters are not shown.]"

    def _pictures(self, attachments: NotebookNode) -> NotebookNode:
        return NotebookNode(
            {
                name: kinds
                for name, kinds in attachments.items()
                if all(self._finds_place(kind, data) for kind, data in kinds.items())
            }
        )

    def _finds_place(self, kind: str, data: str) -> bool:
        return self._room.takes(data) if kind.startswith("image/") else True
