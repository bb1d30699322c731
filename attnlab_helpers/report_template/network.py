"""Finds what an HTML page does not bring along: what it would load from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

LOADING_ATTRIBUTES = {"src", "srcset", "poster", "data", "xlink:href"}
REMOTE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
WITHIN_PAGE = re.compile(r"^\s*(?:data|blob):", re.IGNORECASE)
REMOTE_IN_STYLE = re.compile(r"(?:url\(\s*|@import\s+)[\"']?\s*((?:https?:)?//[^\"')\s;]+)", re.I)


class _ResourceFinder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.local: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        for name, value in attrs:
            # An <a href> waits for a click; the href of these is fetched while the page loads.
            loads = name in LOADING_ATTRIBUTES or (
                name == "href" and tag in ("link", "image", "use", "script")
            )
            if loads and value and REMOTE.match(value):
                self.found.append(value.strip())
            elif tag == "img" and name == "src" and value and not WITHIN_PAGE.match(value):
                self.local.append(value.strip())
            if name == "style" and value:
                self.found += REMOTE_IN_STYLE.findall(value)

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += REMOTE_IN_STYLE.findall(data)


def external_resources(html: str) -> list[str]:
    """Addresses that a page would load by itself: scripts, styles, pictures, fonts, frames."""
    finder = _ResourceFinder()
    finder.feed(html)
    finder.close()
    return finder.found


def missing_pictures(html: str) -> list[str]:
    """Pictures that a page names as files beside it, which it does not bring along."""
    finder = _ResourceFinder()
    finder.feed(html)
    finder.close()
    return finder.local
