"""How an exported page is made: formulas, links, pictures, widgets, and what it may not load."""

import base64
import re
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlab_helpers import reports
from attnlab_helpers.report_template.formulas import FormulaError, tex_to_mathml
from attnlab_helpers.report_template.network import external_resources
from attnlab_helpers.report_template.page import make_page

# One black pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)


def text(source):
    return new_markdown_cell(source)


def shown(**data):
    kinds = {"html": "text/html", "png": "image/png", "plain": "text/plain", "latex": "text/latex"}
    output = new_output("display_data", {kinds[key]: value for key, value in data.items()})
    return new_code_cell("show()", outputs=[output], execution_count=1)


def page_of(*cells, folder=Path(), **options):
    return make_page(new_notebook(cells=list(cells)), name="demo", folder=folder, **options)


# --- formulas -----------------------------------------------------------------------------------


def test_formulas_become_mathml_in_text_and_tables_but_not_in_code():
    page = page_of(
        text(
            "# T\n\nInline $\\sqrt{d}$ and `$a_1$`.\n\n| q |\n|---|\n| $x_i \\le y$ |\n\n"
            "$$\\frac{QK^\\top}{\\sqrt{d}}$$\n\n"
            "\\begin{align*} a &= b \\\\ c &= d \\end{align*}\n\n"
            "```python\ncost = '$5$'\n```\n"
        )
    )
    assert page.html.count("<math ") == 4
    assert page.html.count('<math display="block"') == 2
    assert "<code>$a_1$</code>" in page.html and "$5$" in page.html
    assert re.search(r"<td>\s*<math", page.html)
    outside = re.sub(r"<(code|pre|annotation)\b.*?</\1>", "", page.html, flags=re.S)
    assert "$" not in outside and "\\frac" not in outside
    assert page.notes == []


@pytest.mark.parametrize(
    "tex",
    [
        r"\begin{aligned} a &= b \\ c &= d \end{aligned}",
        r"\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}",
        r"\begin{cases} 1 & x < y \\ 0 & \text{else} \end{cases}",
        r"\operatorname{softmax}\left(\frac{QK^\top}{\sqrt{d}}\right) V",
        r"\text{a < b & c}",
        r"\mathbb{R}^{N \times d}, \mathbf{x}, \hat{y}, 10\%, \max_{j \le i} x_j",
    ],
)
def test_what_the_series_writes_is_understood(tex):
    mathml = tex_to_mathml(tex, display=True)
    drawn = re.sub(r"<annotation.*?</annotation>", "", mathml, flags=re.S)
    assert mathml.startswith("<math ") and "\\" not in drawn
    if r"\begin" in tex:
        assert drawn.count("<mtr>") == 2


@pytest.mark.parametrize(
    "tex",
    [
        r"\left( a",
        r"\nosuchcommand x",
        r"a & b",
        "",
        r"\text{\href{javascript:alert(1)}{x}}",
    ],
)
def test_what_is_not_understood_raises(tex):
    with pytest.raises(FormulaError):
        tex_to_mathml(tex)


def test_a_formula_cannot_bring_html_along():
    mathml = tex_to_mathml(r"\text{<script>alert(1)</script>}")
    assert "<script" not in mathml
    page = page_of(text(r"A $\mathrm{<img src=x onerror=alert(1)>}$ here."))
    assert "<img" not in page.html


def test_an_unknown_formula_is_shown_as_its_source_with_a_note():
    page = page_of(text(r"See $\nosuchcommand x$."))
    assert r"\nosuchcommand x</code>" in page.html
    assert any("nosuchcommand" in note for note in page.notes)


def test_latex_outputs_are_drawn_too():
    page = page_of(shown(latex=r"$\displaystyle x^{2}$", plain="x**2"))
    assert "<msup>" in page.html and page.notes == []


# --- the page -----------------------------------------------------------------------------------


def test_headings_have_anchors_and_a_list_of_contents():
    page = page_of(
        text("# The *title*\n\nWhat it is about, with `code`."), text("## One part\n\n## One part")
    )
    assert page.title == "The title"
    assert page.summary == "What it is about, with <code>code</code>."
    assert 'id="One-part"' in page.html and 'id="One-part-2"' in page.html
    contents = re.search(r"<nav.*?</nav>", page.html, re.S)[0]
    assert 'href="#One-part"' in contents and 'href="#One-part-2"' in contents
    assert page.html.index("</h1>") < page.html.index("<nav") < page.html.index("What it is about")
    untitled = page_of(text("## One\n\n## Two")).html
    assert untitled.index("<nav") < untitled.index("<h2")
    assert "<nav" not in page_of(text("# The title\n\n## One")).html


def test_links_between_exported_notebooks_lead_to_pages():
    source = "[a](04_masking.ipynb#Where) [b](mine.ipynb) [c](../README.md) [d](https://x.org/)"
    source += " [e](https://x.org/far.ipynb) [f](my%20own.ipynb)"
    html = page_of(text(source), pages=frozenset({"04_masking", "my own"})).html
    for href in (
        *("04_masking.html#Where", "../README.md", "https://x.org/", "https://x.org/far.ipynb"),
        "my%20own.html",
    ):
        assert f'href="{href}"' in html
    assert 'href="mine' not in html and ">b</span>" in html


def test_the_index_is_linked_where_there_is_one():
    assert 'href="index.html"' not in page_of(text("# T")).html
    assert 'href="index.html"' in page_of(text("# T"), index=True).html


def test_an_error_says_what_went_wrong_before_how_it_came_to_that():
    lines = ["-" * 75, "Traceback", "File \x1b[32mx.py:1\x1b[39m", "ValueError: <b> & c"]
    error = new_output("error", ename="ValueError", evalue="<b> & c", traceback=lines)
    html = page_of(new_code_cell("f()", outputs=[error], execution_count=1)).html
    box = BeautifulSoup(html, "html.parser").select_one(".output_error")
    assert box.find(["pre", "details"]).get_text() == "ValueError: <b> & c"
    assert "open" not in box.details.attrs and "File x.py:1" in box.details.get_text()
    assert "<b>" not in html and "\x1b" not in html
    bare = new_output("error", ename="SystemExit", evalue="", traceback=[])
    html = page_of(new_code_cell("f()", outputs=[bare], execution_count=1)).html
    box = BeautifulSoup(html, "html.parser").select_one(".output_error")
    assert box.get_text(strip=True) == "SystemExit" and box.details is None


def test_local_pictures_are_embedded_and_private_files_are_not(tmp_path):
    notebooks = tmp_path / "notebooks"
    for folder in (notebooks, tmp_path / "figures", tmp_path / "private"):
        folder.mkdir()
        (folder / "a.png").write_bytes(base64.b64decode(PIXEL))
    source = "![here](a.png)\n\n![shared](../figures/a.png)\n\n![other](../private/a.png)"
    page = page_of(text(source), folder=notebooks)
    assert page.html.count("data:image/png;base64,") == 2
    assert '<img alt="other" src="../private/a.png"' in page.html
    (note,) = page.notes
    assert "../private/a.png" in note and "a picture is missing" in note


def test_what_is_folded_stays_inside_its_details():
    page = page_of(text("<details><summary>Hint</summary>\n\nRound *up*.\n\n</details>\n\nAfter."))
    soup = BeautifulSoup(page.html, "html.parser")
    folded = soup.find("details")
    assert folded.find("em").get_text() == "up" and "After" not in folded.get_text()


def test_a_missing_picture_is_told_wherever_it_was_wanted(tmp_path):
    page = page_of(
        text("![x](none.png) ![x](none.png) <img alt='y' src='gone.jpg'>"),
        shown(html="<img alt='z' src='out.png'><img alt='d' src='data:,'>"),
        folder=tmp_path,
    )
    assert [re.search(r"[a-z]+\.\w+", note)[0] for note in page.notes] == [
        *("none.png", "gone.jpg", "out.png")
    ]


def test_every_picture_has_an_alternative_text():
    described = shown(png=PIXEL)
    described.outputs[0].metadata = {"image/png": {"alt": 'two "lanes"'}}
    html = page_of(described, shown(png=PIXEL), shown(html="<img src='data:,'>")).html
    images = re.findall(r"<img\b[^>]*>", html)
    assert len(images) == 3
    assert all(BeautifulSoup(image, "html.parser").img["alt"] for image in images)
    assert BeautifulSoup(images[0], "html.parser").img["alt"] == 'two "lanes"'


def test_a_widget_leaves_its_static_picture(tmp_path):
    path = tmp_path / "w.ipynb"
    both = shown(html="<img alt='default' src='data:,'>", plain="IntSlider()")
    both.outputs[0].data["application/vnd.jupyter.widget-view+json"] = {"model_id": "1"}
    nbformat.write(new_notebook(cells=[both]), path)
    reports.export(path, tmp_path / "w.html", run=False, pages=frozenset(), foot="")
    html = (tmp_path / "w.html").read_text()
    assert 'alt="default"' in html or "alt='default'" in html
    assert "IntSlider" not in html and "model_id" not in html


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', 1),
        ('<img src="http://a.example/x.png" srcset="https://a.example/2.png 2x">', 2),
        ("<style>@import 'https://a.example/x.css'; p {background: url(//b.example/i)}</style>", 2),
        ('<p style="background: url(https://a.example/i.png)">', 1),
        ('<a href="https://example.org">a link waits for a click</a>', 0),
        ('<math xmlns="http://www.w3.org/1998/Math/MathML"></math>', 0),
        ("<pre>&lt;script src='https://cdn.example/x.js'&gt;</pre>", 0),
        ('<img src="data:image/png;base64,AAAA">', 0),
    ],
)
def test_the_search_for_outside_resources_finds_what_loads(html, found):
    assert len(external_resources(html)) == found
