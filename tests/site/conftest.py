"""The built site, served on loopback. Set SITE to test one that was built elsewhere."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "_build" / "html"
SOURCES = ("_config.yml", "_toc.yml", "chapters", "gpulab")


def newest(*names):
    """The latest modification under ``names``, in seconds since the epoch."""
    tops = [ROOT / name for name in names]
    # A folder changes when Python keeps what it compiled in it: files alone say that the site is old.
    files = [
        file for top in tops for file in [top, *top.rglob("*")] if file.is_file() and "__pycache__" not in file.parts
    ]
    return max(file.stat().st_mtime for file in files)


def is_current():
    # Sphinx writes the one with every change, make touches the other.
    stamps = [BUILT / "searchindex.js", BUILT / "index.html"]
    return all(file.is_file() for file in stamps) and newest(*stamps) > newest(*SOURCES)


def build():
    # The notebook cache does not see imported modules, nor a plain rebuild static files.
    cache = ROOT / "_build" / ".jupyter_cache"
    if cache.is_dir() and newest("gpulab") > cache.stat().st_mtime:
        shutil.rmtree(cache)
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    command = [jupyter_book, "build", "-W", "-n", "--keep-going", "--all", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        (BUILT / "searchindex.js").unlink(missing_ok=True)  # what a failed build left is not current
        pytest.fail(f"the site does not build:\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}")


@pytest.fixture(scope="session")
def site():
    """The folder of the built site: as it is if it is newer than its sources, else built."""
    if "SITE" in os.environ:
        return Path(os.environ["SITE"]).resolve()
    with FileLock(BUILT.parent / ".tests-lock"):  # the tests run in more than one process
        if not is_current():
            build()
    return BUILT


@pytest.fixture(scope="session")
def pages(site):
    """Every page that a reader can open, relative to the site; redirects are left out."""
    found = [file.relative_to(site) for file in sorted(site.rglob("*.html")) if "_static" not in file.parts]
    readable = [page for page in found if 'http-equiv="Refresh"' not in (site / page).read_text()]
    assert readable, f"no page in {site}"
    return readable


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def serve():
    """A function: folder -> address at which it is served on loopback."""
    servers = []

    def start(folder):
        handler = functools.partial(QuietHandler, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def address(site, serve):
    return serve(site)
