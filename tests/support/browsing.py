"""One real Chromium for all tests that need one: Debian's, or that of DPGM_CHROMIUM."""

import os
import re
import shutil
from functools import cache

import pytest

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-component-update", "--no-first-run"]
IN_CI = bool(os.environ.get("CI"))


def chromium() -> str:
    """The browser's path; without one the test is skipped, and fails in CI."""
    found = os.environ.get("DPGM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        (pytest.fail if IN_CI else pytest.skip)("there is no chromium; install Debian's or set DPGM_CHROMIUM")
    return found


@cache
def _driver():
    from playwright.sync_api import sync_playwright

    return sync_playwright().start()


@cache
def shared_browser():
    """The browser of this test process; pytest ends it with the process."""
    return _driver().chromium.launch(executable_path=chromium(), args=FLAGS)


def close() -> None:
    """End the browser, if one was started."""
    if shared_browser.cache_info().currsize:
        shared_browser().close()
    if _driver.cache_info().currsize:
        _driver().stop()


def pages_of(pdf: bytes) -> int:
    """The number of pages of a PDF that Chromium printed."""
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))
