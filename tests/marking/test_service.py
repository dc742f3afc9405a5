"""The service over HTTP, without the program that learners use."""

import http.client
import json
import socket
import time
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
    assert status == 403 and said["error"].startswith("No tries are left at `views`, of 3:")
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


@pytest.mark.parametrize(
    ("keeps", "status", "says"),
    [
        (lambda record: (record.give_back(), record.refuse("There is no sandbox.")), 422, "There is no sandbox."),
        (lambda record: record.give_back(), 404, "used no try"),
    ],
)
def test_what_was_not_run_uses_no_try_and_can_be_sent_again(serving, notebook, keeps, status, says):
    works, serving.keeps = serving.keeps, keeps
    found, said = finished(serving, ask(serving, "notebooks", notebook.encode())[1]["ask"])
    assert found == status and says in said["error"] and not serving.marked[0].notebook.exists()
    serving.keeps = works
    assert finished(serving, ask(serving, "notebooks", notebook.encode())[1]["ask"])[1]["used"] == 1


@pytest.mark.parametrize("keeps", [lambda record: None, lambda record: record.refuse("It could not be run.")])
def test_what_was_run_uses_a_try_whatever_became_of_it_and_is_not_run_again(serving, notebook, keeps):
    works, serving.keeps = serving.keeps, keeps
    for _ in range(2):
        status, said = finished(serving, ask(serving, "notebooks", notebook.encode())[1]["ask"])
        assert status in (410, 422) and ("used a try" in said["error"] or said["error"] == "It could not be run.")
    serving.keeps = works
    assert len(serving.marked) == 1 and not serving.marked[0].notebook.exists()
    _, taken = ask(serving, "notebooks", notebook.replace("Tensors", "Tensor", 1).encode())
    assert finished(serving, taken["ask"])[1]["used"] == 2


def test_a_service_that_stops_gives_back_the_try_that_it_was_at(tmp_path, notebook):
    service = Serving(tmp_path / "marking")
    service.goes_on.clear()
    with service.running(Limits(1)):
        path = ask(service, "notebooks", notebook.encode())[1]["ask"]
        while not service.marked:
            time.sleep(0.01)
    with service.running(Limits(1)):
        assert ask(service, path)[0] == 404
        assert finished(service, ask(service, "notebooks", notebook.encode())[1]["ask"])[1]["used"] == 1


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


def test_a_learner_sends_one_notebook_at_a_time(serving, notebook):
    where = urlsplit(serving.address)
    with socket.create_connection((where.hostname, where.port)) as half:
        head = f"POST {where.path}/notebooks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {serving.token()}\r\n"
        half.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        while ask(serving, "notebooks", b"{}")[0] != 429:
            time.sleep(0.01)
        assert ask(serving, "notebooks", b"{}", serving.token("bob"))[0] == 422
    while ask(serving, "notebooks", b"{}")[0] != 422:
        time.sleep(0.01)


def test_connections_beyond_its_bound_are_closed_and_the_service_answers_on(serving, monkeypatch):
    monkeypatch.setattr("autograder.marking.server.MOST_CONNECTIONS", 5)
    where = urlsplit(serving.address)
    idle = [socket.create_connection((where.hostname, where.port)) for _ in range(5)]
    time.sleep(0.1)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(serving, "marks/views/00")
    for one in idle:
        one.close()
    time.sleep(0.1)
    assert ask(serving, "marks/views/00")[0] == 404
