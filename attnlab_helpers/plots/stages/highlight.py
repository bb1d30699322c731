"""Lines as HTML: keywords and comments of a source, the instructions that matter of a stage."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from html import escape

LEXERS = {"Triton": "python", "CUDA C++": "cuda"}
# Memory, tensor cores, barriers and special functions: what one looks for first in machine code.
# Names after "PTX ISA" and "CUDA Binary Utilities", and Triton's dialects tt, ttg and ttng.
MATTERS = {
    "PTX": re.compile(
        r"\b(?:(?:ld|st|red|atom)\.(?:global|shared|local|async)|cp\.async|cp\.reduce|mma\.|wmma\.|"
        r"wgmma\.|tcgen05\.|ldmatrix|stmatrix|bar\.|barrier\.|mbarrier\.|ex2\.)[\w.:]*"
    ),
    "SASS": re.compile(
        r"\b(?:LDG|STG|LDS|STS|LDL|STL|LDSM|STSM|LDGSTS|LDTM|STTM|ATOMG?|ATOMS|REDG?|UTMA\w+|UBLK\w+|"
        r"UTC\w*MMA|[HIQDBO]G?MMA|BAR|SYNCS|WARPSYNC|MUFU)\b[\w.]*"
    ),
    "TTIR": (_TRITON := re.compile(r"\b(?:tt\.(?:load|store|dot|atomic|descriptor|reduce)\w*)")),
    "TTGIR": re.compile(_TRITON.pattern + r"|\b(?:ttg\.(?:local|async)|ttng\.)\w+"),
}


def source_html(lines: Sequence[str], language: str) -> list[str]:
    """One piece of HTML a line: keywords in <b>, comments in <i>, which also mark without a sheet.

    Plain escaped text for another language or without Pygments (it comes with IPython).
    """
    plain = [escape(line) for line in lines]
    if language not in LEXERS or importlib.util.find_spec("pygments") is None:
        return plain
    from pygments.lexers import get_lexer_by_name
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    marks = {
        Keyword: ("<b>", "</b>"),
        Operator.Word: ("<b>", "</b>"),
        Comment: ("<i>", "</i>"),
        String: ('<span class="s">', "</span>"),
        Number: ('<span class="n">', "</span>"),
        Name.Decorator: ('<span class="n">', "</span>"),
    }
    lexer = get_lexer_by_name(LEXERS[language], stripnl=False, ensurenl=False)
    marked = [""]
    for kind, text in lexer.get_tokens("\n".join(lines)):
        before, after = next((mark for group, mark in marks.items() if kind in group), ("", ""))
        for number, piece in enumerate(text.split("\n")):
            if number:
                marked.append("")
            if piece:
                marked[-1] += f"{before if piece.strip() else ''}{escape(piece)}"
                marked[-1] += after if piece.strip() else ""
    return marked if len(marked) == len(plain) else plain


def machine_html(lines: Sequence[str], stage: str) -> list[str]:
    """One piece of HTML a line, with the instructions that matter in <b> where they are known."""
    pattern = MATTERS.get(stage)
    if pattern is None:
        return [escape(line) for line in lines]
    # Escaping first is safe: it adds no letter that a pattern could begin with inside a word.
    return [pattern.sub(r"<b>\g<0></b>", escape(line)) for line in lines]
