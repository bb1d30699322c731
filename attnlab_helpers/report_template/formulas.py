"""TeX formulas to MathML, which browsers draw themselves, without a script from the network."""

from __future__ import annotations

import re
from html import escape
from xml.etree import ElementTree

MATHML = "http://www.w3.org/1998/Math/MathML"
# latex2mathml passes what stands in \text{...} on as it is. Formulas are other people's input:
# only what MathML itself needs may come out.
ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle mpadded mphantom menclose "
        "msub msup msubsup munder mover munderover mmultiscripts mprescripts mtable mtr mtd",
    )
)
ATTRIBUTES = frozenset(
    re.findall(
        r"\w+",
        "display mathvariant stretchy fence form separator lspace rspace accent accentunder "
        "displaystyle scriptlevel columnalign rowspacing columnspacing columnlines rowlines "
        "linebreak width height depth voffset minsize maxsize movablelimits linethickness "
        "notation symmetric mathcolor mathbackground largeop frame",
    )
)
# latex2mathml knows the environments with a number of their own, not those inside a formula.
SAME_LAYOUT = {"aligned": "align*", "gathered": "gather*", "split": "align*"}
TEXT = re.compile(r"\\(text|textbf|textit|textrm|mbox|textsf|texttt)\{([^{}]*)\}")


class FormulaError(ValueError):
    """The formula cannot be turned into MathML; the text says why."""


def _prepared(tex: str) -> str:
    for inner, outer in SAME_LAYOUT.items():
        tex = tex.replace(f"{{{inner}}}", f"{{{outer}}}")
    return TEXT.sub(lambda found: f"\\{found[1]}{{{escape(found[2], quote=False)}}}", tex)


def tex_to_mathml(tex: str, *, display: bool = False) -> str:
    """One formula, without its dollar signs, as a <math> element that also carries its TeX.

    display: on a line of its own. Raises FormulaError for TeX that is malformed or not known.
    """
    from latex2mathml.converter import convert

    try:
        text = convert(_prepared(tex), display="block" if display else "inline")
    except Exception as error:  # latex2mathml raises many kinds, some of them IndexError
        raise FormulaError(f"not understood ({type(error).__name__}): {tex.strip()}") from error
    try:
        math = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise FormulaError(f"a stray & or < in: {tex.strip()}") from error
    for element in math.iter():
        name = element.tag.removeprefix(f"{{{MATHML}}}")
        if name not in ELEMENTS or not ATTRIBUTES.issuperset(element.attrib):
            raise FormulaError(f"an element that is no mathematics ({name}) in: {tex.strip()}")
        if "\\" in (element.text or ""):
            raise FormulaError(f"the command {element.text} is not known in: {tex.strip()}")
        element.tag = name
    math.set("xmlns", MATHML)
    # The TeX source stays with the formula: for copying, and for readers' tools.
    semantics = ElementTree.Element("semantics")
    row = ElementTree.SubElement(semantics, "mrow")
    row.extend(list(math))
    for child in list(math):
        math.remove(child)
    note = ElementTree.SubElement(semantics, "annotation", {"encoding": "application/x-tex"})
    note.text = tex.strip()
    math.append(semantics)
    return ElementTree.tostring(math, encoding="unicode", short_empty_elements=False)
