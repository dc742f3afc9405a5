"""Fixtures that more than one folder of tests needs."""

import os
import shutil

import pytest
import tqdm
from playwright.sync_api import sync_playwright

import gpulab.cuda

NO_CHROMIUM = (
    "the browser tests need Chromium: install Debian's package (apt-get install chromium), "
    "or set CHROMIUM to the path of a Chromium or Chrome binary"
)


# A progress bar's monitor wakes up now and then, and a witness in this process would hear of it.
tqdm.tqdm.monitor_interval = 0


@pytest.fixture(autouse=True)
def _device_off_afterwards():
    """A notebook run in this process may switch a card on for good; the next test meets none."""
    yield
    gpulab.cuda.use("off", quiet=True)


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; a machine without one fails, it does not skip."""
    binary = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if binary is None:
        pytest.fail(NO_CHROMIUM)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=binary,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield running
        running.close()
