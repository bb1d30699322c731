"""Our scripts in one piece, without comments and idle spaces: every live figure carries one."""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

# Strings stay as they are. The files hold no regular expression and no `a - -b`, and end
# statements with a semicolon, and no loop without a body (whose semicolon must stay before a
# brace), so that these rules are enough; the browser tests run the result.
_STRINGS = re.compile(r'("(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`)')
_TOKENS = re.compile(_STRINGS.pattern + r"|//[^\n]*")
_AROUND_SIGNS = re.compile(r"\s*([{}()\[\],;:=<>?&|*/%!+-])\s*")
_CONST = re.compile(r"\bconst\b")  # a shorter `let` does the same for what already runs


def squeezed(folder: Path, files: Iterable[str]) -> str:
    """The files of a folder, in this order, as one script in a scope of its own."""
    return _squeezed(folder, tuple(files))


@lru_cache(maxsize=8)
def _squeezed(folder: Path, files: tuple[str, ...]) -> str:
    source = "\n".join((folder / name).read_text(encoding="utf-8") for name in files)
    source = _TOKENS.sub(lambda token: token[1] or "", source)  # comments are gone
    # Strings stand at the odd places.
    pieces = _STRINGS.split(source)
    pieces[::2] = map(_squeeze, pieces[::2])
    return f'(()=>{{"use strict";{"".join(pieces)}}})();'


def _squeeze(code: str) -> str:
    code = _CONST.sub("let", re.sub(r"\s+", " ", code))
    return _AROUND_SIGNS.sub(r"\1", code).replace(";}", "}")
