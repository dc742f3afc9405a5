"""What a unit of an audit found: tests passed and failed, by the chapter or room that they belong to."""

from dataclasses import dataclass, field


@dataclass
class Found:
    """Tests, or exercises, that passed and failed; attempts with every seed, mutants; of each failure its name and a sentence."""

    passed: int = 0
    failed: int = 0
    attempts: int = 0
    mutants: int = 0
    failures: list[str] = field(default_factory=list)
