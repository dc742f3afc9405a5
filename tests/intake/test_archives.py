"""Archives of every usual kind are read, and no more of them than a learner's work ever takes."""

import gzip
import io
import tarfile
import zipfile

import pytest

from autograder.intake import archives, found
from autograder.intake.archives import MAX_DEPTH, notebooks_in, unpack_beside
from autograder.intake.files import handed_in
from autograder.intake.found import found_in
from autograder.intake.refused import NotGradable


def zipped(**files: bytes) -> bytes:
    with zipfile.ZipFile(out := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return out.getvalue()


def tarred(content: bytes, name: str = "views.ipynb") -> bytes:
    with tarfile.open(fileobj=(out := io.BytesIO()), mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def names_in(path) -> list[str]:
    return [name for name, _ in notebooks_in(path)]


@pytest.mark.parametrize("pack", [tarred, lambda content: gzip.compress(tarred(content))], ids=["tar", "tar.gz"])
def test_tar_files_are_archives_whatever_they_are_called(tmp_path, pack):
    (tmp_path / "work").write_bytes(pack(b"{}"))
    assert handed_in(tmp_path).archives() == [tmp_path / "work"]
    assert list(notebooks_in(tmp_path / "work")) == [("views.ipynb", b"{}")]


def test_archives_in_archives_are_opened_to_a_depth(tmp_path):
    content = zipped(views__ipynb=b"{}")
    for _ in range(MAX_DEPTH - 1):
        content = zipped(inner__zip=content)
    (tmp_path / "a.zip").write_bytes(content)
    (tmp_path / "b.zip").write_bytes(zipped(inner__zip=content))
    assert names_in(tmp_path / "a.zip") == ["inner.zip/" * (MAX_DEPTH - 1) + "views.ipynb"]
    assert names_in(tmp_path / "b.zip") == []


def test_a_zip_file_in_a_tar_file(tmp_path):
    (tmp_path / "a.tgz").write_bytes(gzip.compress(tarred(zipped(views__ipynb=b"{}", data__csv=b"1"), "in.zip")))
    assert names_in(tmp_path / "a.tgz") == ["in.zip/views.ipynb"]
    unpack_beside(tmp_path / "a.tgz", "in.zip/views.ipynb", tmp_path / "to")
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["data.csv"]


def test_what_leads_out_of_an_archive_is_left(tmp_path):
    (tmp_path / "a.tar").write_bytes(tarred(b"x", "../evil.py"))
    unpack_beside(tmp_path / "a.tar", "views.ipynb", tmp_path / "to" / "here")
    assert not list(tmp_path.rglob("evil.py"))


def test_links_in_a_tar_file_are_left(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        entry = tarfile.TarInfo("views.ipynb")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(entry)
    assert names_in(tmp_path / "a.tar") == []


def test_files_are_counted_over_all_archives(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_FILES", 8)
    inner = zipped(**{f"{number}__ipynb": b"{}" for number in range(3)})
    (tmp_path / "a.zip").write_bytes(zipped(a__zip=inner, b__zip=inner, c__zip=inner))
    assert len(names_in(tmp_path / "a.zip")) == 6


def test_what_unpacks_to_more_than_any_work_is_not_unpacked(tmp_path, views, monkeypatch):
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(archives, "MAX_NOTEBOOK_BYTES", 1 << 20)
    (tmp_path / "a.tgz").write_bytes(gzip.compress(tarred(b"\0" * (1 << 22), "zeros") + tarred(b"{}")))
    (tmp_path / "b.zip").write_bytes(zipped(inner__zip=zipped(views__ipynb=b" " * (1 << 21))))
    assert names_in(tmp_path / "a.tgz") == names_in(tmp_path / "b.zip") == []


def test_what_gzip_unpacks_is_counted_over_all_archives(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 1 << 19)
    monkeypatch.setattr(archives, "MAX_NOTEBOOK_BYTES", 1 << 19)
    one = tarred(b"{}")
    packed = gzip.compress(one + bytes((1 << 18) - len(one)))
    (tmp_path / "a.zip").write_bytes(zipped(**{f"{number}__tgz": packed for number in range(9)}))
    assert len(names_in(tmp_path / "a.zip")) == 4


def test_no_more_than_a_few_archives_are_opened(tmp_path, views, monkeypatch):
    opened = []
    monkeypatch.setattr(found, "notebooks_in", lambda path: opened.append(path) or iter(()))
    for number in range(30):
        (tmp_path / f"{number}.zip").write_bytes(zipped(readme__md=b"x"))
    with pytest.raises(NotGradable):
        found_in(handed_in(tmp_path), "views", views)
    assert len(opened) == found.MOST_ARCHIVES


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b", gzip.compress(b"x" * 99), gzip.compress(tarred(b"{}"))[:-60], b"PK\3\4"]
)
def test_a_broken_one_is_no_notebook_and_is_named(tmp_path, views, content):
    (tmp_path / "work.tgz").write_bytes(content)
    with pytest.raises(NotGradable, match="found `work.tgz`"):
        found_in(handed_in(tmp_path), "views", views)


def test_a_kind_that_is_not_opened_is_named(tmp_path, views):
    (tmp_path / "work.rar").write_bytes(b"Rar!\x1a\x07")
    with pytest.raises(NotGradable, match="found `work.rar`"):
        found_in(handed_in(tmp_path), "views", views)
