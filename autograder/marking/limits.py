"""How many times each learner may have a chapter's notebook marked."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """``usual``: for a chapter that ``by_chapter`` does not name."""

    usual: int
    by_chapter: dict[str, int] = field(default_factory=dict)

    def of(self, chapter: str) -> int:
        return self.by_chapter.get(chapter, self.usual)


def limits(given: list[str], chapters: list[str], usual: int = 5) -> Limits:
    """From ``["5", "views=3"]``. Raises ValueError, in a sentence."""
    by_chapter = {}
    for text in given:
        chapter, named, number = text.rpartition("=")
        if not number.isdecimal():
            raise ValueError(f"{text!r}: a number of tries, or CHAPTER=NUMBER, is needed.")
        if named and chapter not in chapters:
            raise ValueError(f"{text!r}: there is no chapter {chapter!r}. There are {', '.join(chapters)}.")
        if named:
            by_chapter[chapter] = int(number)
        else:
            usual = int(number)
    return Limits(usual, by_chapter)
