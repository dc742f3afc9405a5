"""Writes what a course needs to be hosted. Called by make, once the site is built: ``tools/release.py [EDITION [SERVICE]]``.

The site as a zip that opens from disk (its ``exercises`` folder holds what Colab and pip fetch from the published
site), the learners' notebooks as a zip, the wheels, and the checksums of them all: the open edition's in _build/release,
the graded one's, whose pages and wheels are built here, in _build/graded/release.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.core.edition import Edition, edition
from autograder.core.published import version

ROOT = Path(__file__).parents[1]
JUPYTER_BOOK = Path(sys.executable).with_name("jupyter-book")
KEPT = ".jupyter_cache"
"""What cells put out: pages of both editions run the same ones."""
NOT_SERVED = (".buildinfo", "objects.inv")
TIME = (1980, 1, 1, 0, 0, 0)
"""Of every file in a zip, so that equal contents make equal zips."""


@dataclass(frozen=True)
class Built:
    """The folders that an edition is released from."""

    site: Path
    exercises: Path


def main(arguments: list[str]) -> None:
    try:
        made = edition(*arguments)
    except ValueError as why:
        sys.exit(f"make release: {why}")
    folder = made.built(ROOT)
    built = build(made) if made.graded else Built(folder / "html", folder / "exercises")
    draft, release = folder / ".release", folder / "release"
    write(built, draft, f"tensors-to-tokens-{version(ROOT)}{'-graded' * made.graded}")
    if made.graded:
        search(draft)
    shutil.rmtree(release, ignore_errors=True)
    for path in sorted(draft.rename(release).iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.3f} MB")


def search(release: Path) -> None:
    """Ends with what a graded release is not to hold, and before it is one."""
    from autograder.grading.shipped import shipped
    from autograder.selfcheck.chapters import chapters_in_the_book

    if found := shipped(release, chapters_in_the_book()):
        lines = "".join(f"\n  {one.what}: {one.where}" for one in found)
        sys.exit(f"make release: nothing is released, for this is in it:{lines}")
    print("No solution and no hidden test is in it.")


def build(made: Edition) -> Built:
    """The pages, notebooks and wheels of an edition that `make book` does not build."""
    folder, environment = made.built(ROOT), os.environ | made.environment()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "_build" / KEPT, folder / "_build" / KEPT)
    print(f"-- Building the {made.name} edition", flush=True)
    downloads = [sys.executable, "-m", "autograder", "downloads"]
    book = [JUPYTER_BOOK, "build", "--quiet", "--all", "-W", "-n", "--keep-going", "--path-output", folder, ROOT]
    for command in (downloads, book):
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return Built(folder / "_build" / "html", folder / "exercises")


def write(built: Built, release: Path, name: str) -> None:
    """The files of a release, into its folder."""
    shutil.rmtree(release, ignore_errors=True)
    release.mkdir(parents=True)
    notebooks, wheels = sorted(built.exercises.glob("*.ipynb")), sorted(built.exercises.glob("*.whl"))
    if not (notebooks and wheels) or not (built.site / "index.html").is_file():
        sys.exit("There is no site to release: run make release, which builds it first.")
    pages = {f"{name}-site/{path.relative_to(built.site)}": path for path in _files(built.site)}
    pages |= {f"{name}-site/exercises/{path.name}": path for path in [*notebooks, *wheels]}
    write_zip(release / f"{name}-site.zip", pages)
    write_zip(release / f"{name}-notebooks.zip", {f"{name}-notebooks/{path.name}": path for path in notebooks})
    for path in wheels:
        shutil.copy(path, release)
    written = sorted(release.iterdir())
    (release / "SHA256SUMS").write_text("".join(f"{digest(path)}  {path.name}\n" for path in written))


def _files(folder: Path) -> Iterator[Path]:
    yield from (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in NOT_SERVED)


def write_zip(target: Path, files: dict[str, Path]) -> None:
    """``files``: what to hold, by its name in the zip."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
