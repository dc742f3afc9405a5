"""The service over HTTP, without the program that learners use."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from autograder.marking.limits import Limits
from tests.marking.conftest import Serving


def ask(serving: Serving, path: str, body: bytes | None = None, token: str | None = None) -> tuple[int, dict]:
    where = urlsplit(serving.address)
    connection = http.client.HTTPConnection(where.netloc, timeout=30)
    given = {"Authorization": f"Bearer {serving.token() if token is None else token}"}
    connection.request("POST" if body is not None else "GET", f"{where.path}/{path}", body, given)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def finished(serving: Serving, path: str, token: str | None = None) -> tuple[int, dict]:
    while (found := ask(serving, path, token=token))[0] == 202:
        pass
    return found


def test_what_was_sent_is_marked_once_however_often_it_is_sent(serving, notebook):
    status, taken = ask(serving, "notebooks", notebook.encode())
    assert (status, taken["chapter"], taken["used"], taken["of"]) == (202, "views", 0, 3)
    status, found = finished(serving, taken["ask"])
    assert status == 200 and found["used"] == 1 and found["marks"]["of"][0]["function"] == "patchify"
    again = ask(serving, "notebooks", notebook.encode())[1]
    assert again["ask"] == taken["ask"] and finished(serving, again["ask"])[1] == found
    assert len(serving.marked) == 1


def test_another_notebook_uses_another_try_until_none_is_left(serving, notebook):
    for count in range(3):
        _, taken = ask(serving, "notebooks", notebook.replace("Tensors", f"Tensors {count}", 1).encode())
        assert finished(serving, taken["ask"])[1]["used"] == count + 1
    status, said = ask(serving, "notebooks", notebook.encode())
    assert status == 403 and said["error"].startswith("Your 3 tries at `views` are used")
    assert len(serving.marked) == 3


def test_tries_are_a_learners_own(serving, notebook):
    for student in ("ada", "bob"):
        _, taken = ask(serving, "notebooks", notebook.encode(), serving.token(student))
        assert finished(serving, taken["ask"], serving.token(student))[1]["used"] == 1
    status, said = ask(serving, taken["ask"], token=serving.token("eve"))
    assert status == 404 and "marks" not in said


def test_a_try_given_back_is_one_folder_less(serving, notebook):
    import shutil

    _, taken = ask(serving, "notebooks", notebook.encode())
    finished(serving, taken["ask"])
    shutil.rmtree(serving.marked[0].folder)
    assert finished(serving, ask(serving, "notebooks", notebook.encode())[1]["ask"])[1]["used"] == 1


def test_a_chapter_without_tries_is_not_marked(tmp_path, notebook):
    with Serving(tmp_path / "marking").running(Limits(3, {"views": 0})) as serving:
        status, said = ask(serving, "notebooks", notebook.encode())
    assert status == 403 and said["error"] == "`views` is not marked here: your grade comes from what you hand in."


@pytest.mark.parametrize("keeps", [lambda record: record.refuse("It cannot be run."), lambda record: None])
def test_what_is_refused_or_does_not_end_costs_no_try_and_can_be_sent_again(serving, notebook, keeps):
    works, serving.keeps = serving.keeps, keeps
    status, said = finished(serving, ask(serving, "notebooks", notebook.encode())[1]["ask"])
    assert status in (404, 422) and ("no try" in said["error"] or said["error"] == "It cannot be run.")
    serving.keeps = works
    assert finished(serving, ask(serving, "notebooks", notebook.encode())[1]["ask"])[1]["used"] == 1


def test_one_notebook_of_a_learner_is_marked_at_a_time_and_others_wait_their_turn(serving, notebook):
    serving.goes_on.clear()
    first = ask(serving, "notebooks", notebook.encode())[1]["ask"]
    status, said = ask(serving, "notebooks", notebook.replace("Tensors", "Tensor", 1).encode())
    assert status == 409 and "Another notebook of yours" in said["error"]
    second = ask(serving, "notebooks", notebook.encode(), serving.token("bob"))[1]["ask"]
    assert ask(serving, first) == (202, {"ahead": 0})
    assert ask(serving, second, token=serving.token("bob")) == (202, {"ahead": 1})
    serving.goes_on.set()
    assert finished(serving, second, serving.token("bob"))[0] == 200


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1]", b'{"cells": []}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_notebook_of_a_chapter_is_refused_in_a_sentence(serving, raw):
    status, said = ask(serving, "notebooks", raw)
    assert status == 422 and said["error"].endswith(".") and serving.marked == []


@pytest.mark.parametrize("path", ["marks/../00", "marks/%2e%2e/00", "marks/views%2f..%2f../00", "marks/views/00"])
def test_a_path_leads_to_no_other_folder(serving, path):
    (serving.records.folder / "result.json").write_text('{"marks": 1}')
    status, said = ask(serving, path)
    assert status == 404 and "marks" not in said


def test_who_is_not_known_is_told_so_after_whatever_was_sent(serving):
    status, said = ask(serving, "notebooks", b" " * (7 * 1024**2), "somebody")
    assert status == 401 and "does not know this token" in said["error"]
    assert ask(serving, "marks/views/00", token="")[0] == 401
