"""A page of Dagster in a real browser, as a person uses it: open, see, click, take a picture."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.end_to_end.dagster_server import ends_with_children

_ARGUMENTS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--force-prefers-reduced-motion",
)  # fmt: skip

_BOX: Final = """
const [selector, margin] = arguments, parts = [...document.querySelectorAll(selector)];
const boxes = parts.map(part => part.getBoundingClientRect()).filter(box => box.width > 100);
const left = Math.min(...boxes.map(box => box.left)), right = Math.max(...boxes.map(box => box.right));
const top = Math.min(...boxes.map(box => box.top)), bottom = Math.max(...boxes.map(box => box.bottom));
return {x: left - margin, y: top - margin, width: right - left + 2 * margin, height: bottom - top + 2 * margin};
"""
"""The part of the page that is taken up by what a selector finds, with a margin."""


class Page:
    """What the browser shows."""

    def __init__(self, browser: Chrome, address: str) -> None:
        self._browser = browser
        self._address = address

    def open(self, path: str) -> None:
        """Go to a page of the server."""
        self._browser.get(self._address + path)

    def sees(self, *lines: str, times: int = 1, seconds: float = 60) -> None:
        """Wait until each line of text is on the page, at least that often."""
        self._until(lambda: all(self._lines().count(line) >= times for line in lines), f"{lines} not seen", seconds)

    def click(self, text: str) -> None:
        """Click what has exactly this text, once it can be clicked."""

        def clicked() -> bool:
            self._browser.find_element(By.XPATH, f"//*[normalize-space(text())='{text}']").click()
            return True

        self._until(clicked, f"{text!r} cannot be clicked")

    def picture(self, file: Path, selector: str, *, margin: int = 0, scale: float = 1) -> None:
        """Write a picture of the larger things that a CSS selector finds, and of nothing around them."""
        clip = {**self._browser.execute_script(_BOX, selector, margin), "scale": scale}
        shot = self._browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
        file.write_bytes(base64.b64decode(shot["data"]))

    def _lines(self) -> list[str]:
        return str(self._browser.execute_script("return document.body.innerText")).splitlines()

    def _until(self, condition: Callable[[], bool], message: str, seconds: float = 60) -> None:
        """Dagster draws its pages anew all the time, so whatever the driver says on the way is no failure."""
        wait = WebDriverWait(self._browser, seconds, poll_frequency=0.5, ignored_exceptions=[WebDriverException])
        try:
            wait.until(lambda _: condition())
        except TimeoutException:
            raise AssertionError(f"{message} in {seconds} s; the page says: {' | '.join(self._lines())}") from None


@contextmanager
def browser(address: str, size: str = "1600,1000") -> Iterator[Page]:
    """Chromium without a window, on a profile that is gone afterwards. Without Chromium the test is skipped, but not in CI."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        reason = "chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    options = ChromeOptions()
    options.binary_location = chromium
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # pytest's paths are too long for its socket
        for argument in (*_ARGUMENTS, f"--user-data-dir={folder}/profile", f"--window-size={size}"):
            options.add_argument(argument)
        service = ChromeService(driver, env={**os.environ, "TMPDIR": folder})
        with ends_with_children(lambda: service.process):
            opened = Chrome(options=options, service=service)
            opened.set_page_load_timeout(60)
            yield Page(opened, address)
            opened.quit()
