"""A real browser without a network, for pages from files: what they ask for and complain about."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")


def start(profile: Path) -> Iterator[Any]:
    """The browser, for a fixture; skips where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--window-size=1200,900",
        "--proxy-server=127.0.0.1:1",  # nobody answers there: the network is cut
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=DRIVER)
    )
    driver.get("about:blank")  # else the browser's own first page is still loading
    yield driver
    driver.quit()


class Page:
    """A file in the browser, and what it asked for since it was opened."""

    def __init__(self, browser: Any, path: Path) -> None:
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(path.as_uri())
        self.browser, self.path = browser, path

    def requests(self) -> list[str]:
        """Addresses beside the page itself; asking forgets them."""
        asked = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return [url for url in asked if url != self.path.as_uri() and not url.startswith("data:")]
