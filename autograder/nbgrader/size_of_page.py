"""How much of one notebook a page shows."""

from nbformat import NotebookNode

MOST_OF_A_TEXT = 256 * 1024
"""Characters of a cell's source, or of one output, that are shown."""
MOST_OF_A_PAGE = 8 * 1024**2
"""Characters of all sources, outputs and pictures of a page together."""


class SizeOfPage:
    """What is left of a page's size while its cells are shortened, one by one."""

    def __init__(self, most: int = MOST_OF_A_PAGE) -> None:
        self._left = most

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
        most = min(MOST_OF_A_TEXT, self._left)
        self._left -= min(len(text), most)
        return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} more characters are not shown.]"

    def _pictures(self, attachments: NotebookNode) -> NotebookNode:
        return NotebookNode(
            {
                name: kinds
                for name, kinds in attachments.items()
                if all(self._finds_place(kind, data) for kind, data in kinds.items())
            }
        )

    def _finds_place(self, kind: str, data: str) -> bool:
        if not kind.startswith("image/"):
            return True
        fits = len(data) <= self._left
        self._left -= len(data) if fits else 0
        return fits
