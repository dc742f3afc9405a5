"""``gpulab-mark`` of a graded course, as a learner meets it; the service's marker gives what the test says."""

import json
import stat
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from autograder.client import command, token
from autograder.client.sent import MAX_BYTES, sent
from tests.marking.conftest import TOLD, Serving


class Learner:
    """``run`` types the command in ``folder``."""

    def __init__(self, folder: Path, notebook: str, capsys) -> None:
        self.path = folder / "views.ipynb"
        self.path.write_text(notebook, "utf-8")
        self._capsys = capsys

    def run(self, *options: str, status: int = 0) -> str:
        assert command.main([str(self.path), "--no-browser", *options]) == status
        said = self._capsys.readouterr()
        return said.err if status else said.out


@pytest.fixture
def learner(serving: Serving, tmp_path, notebook, capsys, monkeypatch) -> Learner:
    address = tmp_path / "address.txt"
    address.write_text(serving.address)
    monkeypatch.setattr(command, "ADDRESS", address)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv(token.VARIABLE, serving.token())
    return Learner(tmp_path, notebook, capsys)


def test_the_terminal_names_points_reasons_tries_and_the_page(learner):
    said = learner.run()
    assert "  patchify            3 of 8\n" in said and "11 of 16 points" in said
    assert "  patchify: The elements were copied.\n" in said and "  A note.\n" in said
    assert "Tries left: 2 of 3\n" in said and "views-marked.html" in said
    assert learner.path.with_name("views-marked.html").read_text() == TOLD


def test_what_jupyterlab_writes_of_itself_makes_no_new_notebook(learner):
    learner.run()
    notebook = json.loads(learner.path.read_text())
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code |= {"execution_count": 7, "outputs": [{"output_type": "stream", "name": "stdout", "text": ["x" * MAX_BYTES]}]}
    code["metadata"]["scrolled"] = True
    code["source"] = "".join(code["source"])
    notebook["metadata"]["language_info"] = {"version": "3.13.0"}
    learner.path.write_text(json.dumps(notebook))
    said = learner.run()
    assert "Tries left: 2 of 3" in said and "the same notebook was marked before" in said


def test_an_answer_with_a_syntax_error_is_not_sent(learner, serving):
    notebook = json.loads(learner.path.read_text())
    answer = next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution"))
    answer["source"] = "def predict_view(size:\n    return size\n"
    learner.path.write_text(json.dumps(notebook))
    said = learner.run(status=2)
    assert said.startswith("The cell `predict_view` is no Python: ") and "line 1" in said and serving.marked == []
    answer["source"] = "%timeit 1 +"
    learner.path.write_text(json.dumps(notebook))
    learner.run()


def test_a_token_is_typed_once_and_kept_for_its_owner_alone(learner, serving, monkeypatch):
    asked = []
    monkeypatch.delenv(token.VARIABLE)
    monkeypatch.setattr(token, "_is_asked", lambda: True)
    monkeypatch.setattr(token.getpass, "getpass", lambda prompt: asked.append(prompt) or f" {serving.token()} ")
    learner.run()
    learner.run()
    assert len(asked) == 1 and stat.S_IMODE(token.kept_at().stat().st_mode) == 0o600
    learner.run("--new-token")
    assert len(asked) == 2


def test_a_token_that_is_not_known_is_not_kept(learner, monkeypatch):
    monkeypatch.delenv(token.VARIABLE)
    monkeypatch.setattr(token, "_is_asked", lambda: True)
    monkeypatch.setattr(token.getpass, "getpass", lambda prompt: "mistyped")
    assert "Then: gpulab-mark --new-token NOTEBOOK" in learner.run(status=2) and not token.kept_at().exists()


def test_a_variable_s_token_is_changed_where_it_stands(learner, monkeypatch):
    monkeypatch.setenv(token.VARIABLE, "old")
    assert f"It stands in {token.VARIABLE}." in learner.run(status=2)
    assert f"{token.VARIABLE} is set" in learner.run("--new-token", status=2)


def test_without_a_terminal_the_variable_is_named(learner, monkeypatch):
    monkeypatch.delenv(token.VARIABLE)
    monkeypatch.setattr(token, "_is_asked", lambda: False)
    assert f"set {token.VARIABLE}" in learner.run(status=2)


def test_used_tries_are_said(learner, serving, notebook):
    for count in range(3):
        learner.path.write_text(notebook.replace("Tensors", f"Tensors {count}", 1))
        learner.run()
    learner.path.write_text(notebook)
    assert learner.run(status=2) == "No tries are left at `views`, of 3: your grade comes from what you hand in.\n"


def test_a_service_that_is_not_there_is_said(learner):
    command.ADDRESS.write_text("http://127.0.0.1:9")
    assert "The marking service at http://127.0.0.1:9 does not answer" in learner.run(status=2)


class Odd(BaseHTTPRequestHandler):
    """Answers whatever a test says."""

    status, headers_, body = 200, {}, b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self) -> None:
        asked.append(self.headers["Authorization"])
        self.send_response(self.status)
        for name, value in self.headers_.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *about) -> None:
        pass


asked: list[str] = []
TAKEN = {"ask": "marks/views/00", "chapter": "views", "marked": False}


@pytest.fixture
def odd(learner):
    with ThreadingHTTPServer(("127.0.0.1", 0), type("One", (Odd,), {})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command.ADDRESS.write_text(f"http://127.0.0.1:{server.server_port}")
        yield server.RequestHandlerClass
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b"[1]"),
        (200, b"{}"),
        (200, b"[" * 100_000),
        (200, b"\xff"),
        (200, json.dumps(TAKEN | {"chapter": 3}).encode()),
        (200, json.dumps(TAKEN | {"ask": "a b\r\nc"}).encode()),
        (202, json.dumps(TAKEN).encode()),
        (500, b"[" * 100_000),
        (502, b"<html>"),
    ],
)
def test_what_is_no_marking_service_is_said_in_a_sentence(learner, odd, status, body):
    odd.status, odd.body = status, body
    said = learner.run(status=2)
    assert said.count("\n") == 1 and "Tell your instructor." in said


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_other_address_is_told_the_token(learner, odd, serving, status):
    odd.status, odd.headers_ = status, {"Location": f"http://localhost:{urlsplit(serving.address).port}/notebooks"}
    asked.clear()
    assert f"answers with HTTP {status}" in learner.run(status=2) and len(asked) == 1 and serving.marked == []


def test_what_a_service_says_does_nothing_to_the_terminal(learner, odd):
    odd.status, odd.body = 403, json.dumps({"error": "\x1b[2Jgone\r"}).encode()
    assert learner.run(status=2) == "\\x1b[2Jgone\\r\n"


def test_before_a_try_is_used_the_page_has_a_place(learner, serving):
    assert "name another place with --page" in learner.run("--page", "/nowhere/page.html", status=2)
    assert serving.marked == []


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (None, "There is no file"),
        (b"not JSON", "is no Jupyter notebook"),
        (b'{"cells": 3}', "is no Jupyter notebook"),
        (b'{"cells": ["text"]}', "is no Jupyter notebook"),
        (b"\xff\xfe", "is no Jupyter notebook"),
        (json.dumps({"cells": [{"cell_type": "markdown", "source": " " * MAX_BYTES}]}).encode(), "8 MiB can be sent"),
    ],
)
def test_what_cannot_be_sent_is_said_in_a_sentence(tmp_path, raw, says):
    path = tmp_path / "views.ipynb"
    if raw is not None:
        path.write_bytes(raw)
    with pytest.raises(Exception, match=says):
        sent(path)
