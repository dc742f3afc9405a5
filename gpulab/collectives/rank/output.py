"""What a rank prints: whole lines, shown by the process that started the ranks."""


class Lines:
    """In the place of ``sys.stdout``."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, session) -> None:
        self._session, self._rest = session, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._say(line)
        return len(text)

    def writelines(self, lines) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Of a line that has begun, what there is stays until it ends: ranks' lines are not mixed."""

    def close(self) -> None:
        if self._rest:
            self.write("\n")

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("a rank's output has no descriptor")

    def _say(self, line: str) -> None:
        self._session.tell({"do": "print"}, [line.encode("utf-8", "replace")])
