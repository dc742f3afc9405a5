"""Fixtures that more than one folder of tests needs."""

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

NO_CHROMIUM = (
    "the browser tests need Chromium: install Debian's package (apt-get install chromium), "
    "or set CHROMIUM to the path of a Chromium or Chrome binary"
)


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
