"""Writes what a course needs to be hosted into _build/release. Called by make, once the site is built.

The site as a zip that opens from disk (its ``exercises`` folder holds what Colab and pip fetch from the published
site), the learners' notebooks as a zip, the two wheels, and the checksums of them all.
"""

import hashlib
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE, EXERCISES, RELEASE = (ROOT / "_build" / name for name in ("html", "exercises", "release"))
NOT_SERVED = (".buildinfo", "objects.inv")
TIME = (1980, 1, 1, 0, 0, 0)
"""Of every file in a zip, so that equal contents make equal zips."""


def main() -> None:
    shutil.rmtree(RELEASE, ignore_errors=True)
    RELEASE.mkdir(parents=True)
    notebooks, wheels = sorted(EXERCISES.glob("*.ipynb")), sorted(EXERCISES.glob("*.whl"))
    if not (notebooks and wheels) or not (SITE / "index.html").is_file():
        sys.exit("There is no site to release: run make release, which builds it first.")
    name = f"tensors-to-tokens-{wheels[0].name.split('-')[1]}"  # the wheels' version is the course's
    pages = {f"{name}-site/{path.relative_to(SITE)}": path for path in _files(SITE)}
    pages |= {f"{name}-site/exercises/{path.name}": path for path in [*notebooks, *wheels]}
    write_zip(RELEASE / f"{name}-site.zip", pages)
    write_zip(RELEASE / f"{name}-notebooks.zip", {f"{name}-notebooks/{path.name}": path for path in notebooks})
    for path in wheels:
        shutil.copy(path, RELEASE)
    written = sorted(RELEASE.iterdir())
    (RELEASE / "SHA256SUMS").write_text("".join(f"{digest(path)}  {path.name}\n" for path in written))
    for path in written:
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")


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
    main()
