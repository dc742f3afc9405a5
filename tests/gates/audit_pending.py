"""Allowlist: exercises in the book whose attempts ``make audit`` has not yet all tried with thirty seeds.

It tries them and keeps the record; then they leave these lists.
"""

from collections.abc import Iterator


def _named(**chapters: str) -> Iterator[str]:
    return (f"{chapter}.{function}" for chapter, functions in chapters.items() for function in functions.split())


NOT_YET_MUTATED: set[str] = set()
NOT_YET_WITH_MANY_SEEDS = NOT_YET_MUTATED | {*_named(data_parallel="mini_ddp", collectives="ring_all_reduce")}
