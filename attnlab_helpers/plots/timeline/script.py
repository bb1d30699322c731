"""Our script in one piece, without comments and idle spaces, since every figure carries it."""

import re
from functools import lru_cache
from pathlib import Path

FILES = ("numbers.js", "leaders.js", "scene.js", "drawing.js", "look.js", "live.js")
# Strings stay as they are. The files hold no regular expression and no `a - -b`, and end
# statements with a semicolon, so that these rules are enough; the browser test runs the result.
_TOKENS = re.compile(r'("(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`)|//[^\n]*')
_AROUND_SIGNS = re.compile(r"\s*([{}()\[\],;:=<>?&|*/!+-])\s*")


@lru_cache(maxsize=1)
def script() -> str:
    """The JavaScript that turns the page's figures live; asks for nothing but what the page has."""
    folder = Path(__file__).parent
    source = "\n".join((folder / name).read_text(encoding="utf-8") for name in FILES)
    pieces, last = [], 0
    for match in _TOKENS.finditer(source):
        pieces += [_squeeze(source[last : match.start()]), match[1] or ""]
        last = match.end()
    pieces.append(_squeeze(source[last:]))
    return f'(()=>{{"use strict";{"".join(pieces)}}})();'


def _squeeze(code: str) -> str:
    return _AROUND_SIGNS.sub(r"\1", re.sub(r"\s+", " ", code))
