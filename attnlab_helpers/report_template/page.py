"""One notebook as one self-contained HTML page: nothing in it is loaded from anywhere else."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from bs4 import BeautifulSoup
from jinja2 import pass_context
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from attnlab_helpers.report_template.formulas import FormulaError, tex_to_mathml
from attnlab_helpers.report_template.network import REMOTE, external_resources, missing_pictures

TEMPLATES = Path(__file__).parent
SHARED_PICTURES = "figures"
MANY_HEADINGS = 60


@dataclass
class Page:
    """An exported page: its HTML, title, first paragraph, and what could not be kept.

    summary is HTML, as it stands on the page; notes are sentences.
    """

    html: str
    title: str
    summary: str
    notes: list[str]


@dataclass
class _Gathered:
    """What the text of one page brings up while it is rendered."""

    headings: list[tuple[int, str, str]] = field(default_factory=list)  # level, id, inner HTML
    ids: set[str] = field(default_factory=set)
    summary: str = ""
    notes: list[str] = field(default_factory=list)


class _Renderer(IPythonRenderer):
    """Markdown to HTML with MathML formulas, unique heading anchors and links between pages."""

    def __init__(self, gathered: _Gathered, pages: frozenset[str], **options: Any) -> None:
        super().__init__(**options)
        self._gathered = gathered
        self._pages = pages

    def _formula(self, tex: str, *, display: bool) -> str:
        try:
            return tex_to_mathml(tex, display=display)
        except FormulaError as error:
            self._gathered.notes.append(f"a formula is shown as its source, {error}")
            return f'<code class="formula-not-drawn">{escape(tex.strip())}</code>'

    def inline_math(self, body: str) -> str:
        return self._formula(body, display=False)

    def block_math(self, body: str) -> str:
        return self._formula(body, display=True)

    def latex_environment(self, name: str, body: str) -> str:
        return self._formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        # The anchor that JupyterLab gives, so that links between notebooks work in both.
        soup = BeautifulSoup(text, "html.parser")
        for annotation in soup.find_all("annotation"):
            annotation.decompose()
        plain = soup.get_text()
        base = anchor = plain.strip().replace(" ", "-")
        number = 1
        while anchor in self._gathered.ids:
            number += 1
            anchor = f"{base}-{number}"
        self._gathered.ids.add(anchor)
        self._gathered.headings.append((level, anchor, escape(plain)))
        name = escape(anchor)
        link = f'<a class="anchor-link" href="#{name}" aria-label="Link to this heading">¶</a>'
        return f'<h{level} id="{name}">{text}{link}</h{level}>\n'

    def paragraph(self, text: str) -> str:
        if self._gathered.headings and not self._gathered.summary:
            self._gathered.summary = text
        return super().paragraph(text)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        target, hash_sign, anchor = url.partition("#")
        other = Path(unquote(target))
        # A text beside the notebooks, such as the glossary, is a page like theirs.
        beside = other.suffix == ".md" and str(other) == other.name
        if (other.suffix == ".ipynb" or beside) and not REMOTE.match(url):
            if other.stem not in self._pages:
                # A page travels without the notebooks, so a link to one would lead nowhere.
                return f'<span title="{escape(other.name)}: not among these pages">{text}</span>'
            url = f"{quote(other.stem)}.html{hash_sign}{anchor}"
        return super().link(text, url, title)

    def _html_embed_images(self, html: str) -> str:
        # nbconvert parses each piece of HTML by itself and closes what is open in it: a hint's
        # <details> would end before the hint. Where there is no picture, nothing is to be done.
        return super()._html_embed_images(html) if "<img" in html.lower() else html

    def _src_to_base64(self, src: str) -> str | None:
        # nbconvert embeds files beside the notebook only, so that a notebook cannot pull a
        # private file into a page. Our own pictures lie one folder up, in figures/.
        shared = os.path.normpath(Path(self.path).parent / SHARED_PICTURES)
        wanted = Path(os.path.normpath(Path(self.path) / src))
        if not REMOTE.match(src) and wanted.is_relative_to(shared):
            here, self.path = self.path, shared
            try:
                return super()._src_to_base64(str(wanted.relative_to(shared)))
            finally:
                self.path = here
        return super()._src_to_base64(src)


class _Exporter(HTMLExporter):
    def __init__(self, gathered: _Gathered, pages: frozenset[str]) -> None:
        self._gathered = gathered
        self._pages = pages
        settings = Config()
        # HTML before a bare picture: ours holds the same picture with its table and its text.
        settings.NbConvertBase.display_data_priority = [
            "text/html",
            "text/markdown",
            "image/svg+xml",
            "text/latex",
            "image/png",
            "image/jpeg",
            "text/plain",
        ]
        super().__init__(
            config=settings,
            template_name="attnlab",
            extra_template_basedirs=[str(TEMPLATES)],
            embed_images=True,
            exclude_input_prompt=True,
            exclude_output_prompt=True,
        )

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        renderer = _Renderer(
            self._gathered,
            self._pages,
            escape=False,
            embed_images=True,
            attachments=context.get("cell", {}).get("attachments", {}),
            path=context.get("resources", {}).get("metadata", {}).get("path", ""),
        )
        return MarkdownWithMath(renderer=renderer).render(source)

    def latex_output(self, text: str) -> str:
        """An output of type text/latex, whose formula stands between dollar signs or not."""
        renderer = _Renderer(self._gathered, self._pages)
        return renderer._formula(text.strip().strip("$"), display=True)

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield ("latex_output", self.latex_output)


def _contents(headings: list[tuple[int, str, str]]) -> str:
    """A list of the second and third level headings; nothing when there are fewer than two.

    A page with very many, such as the glossary, gets the second level only.
    """
    shown = [heading for heading in headings if heading[0] in (2, 3)]
    if len(shown) > MANY_HEADINGS:
        shown = [heading for heading in shown if heading[0] == 2]
    if len(shown) < 2:
        return ""
    parts, deep = ["<ul>"], False
    for level, anchor, text in shown:
        if level == 3 and not deep:
            parts.append("<li><ul>")
        if level == 2 and deep:
            parts.append("</ul></li>")
        deep = level == 3
        parts.append(f'<li><a href="#{escape(anchor)}">{text}</a></li>')
    parts.append("</ul></li></ul>" if deep else "</ul>")
    return f'<nav aria-label="Contents" class="contents">{"".join(parts)}</nav>'


def _highlight_css() -> str:
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    # The panel's own colour is the background in both.
    rules = f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}"
    return re.sub(r"background(-color)?: #[0-9a-fA-F]{3,6};?", "", rules)


def title_of(notebook: NotebookNode, default: str) -> str:
    """The text of the notebook's first top-level heading, or `default`."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = re.search(r"^# (.+)$", cell.source, re.MULTILINE)
            if heading:
                return re.sub(r"[`*]", "", heading[1]).strip()
    return default


def make_page(
    notebook: NotebookNode,
    *,
    name: str,
    folder: Path,
    pages: frozenset[str] = frozenset(),
    index: bool = False,
    foot: str = "",
) -> Page:
    """The page of a notebook as it is: its outputs are shown, nothing is executed.

    folder: where its pictures lie. pages: names of the notebooks whose pages stand beside this
    one; links to them lead there, links to others become plain text. index: whether index.html
    stands there too, to be linked. foot: one line at the end of the page.
    """
    gathered = _Gathered()
    title = title_of(notebook, name)
    resources = {
        "metadata": {"path": str(folder), "name": name},
        "highlight_css": _highlight_css(),
        "page_title": title,
        "page_foot": foot,
        "page_index": index,
    }
    html, _ = _Exporter(gathered, pages).from_notebook_node(notebook, resources)
    # Below the title, or on top without one; known only now that the text has been rendered.
    place = "</h1>" if "</h1>" in html else "<main>"
    html = html.replace(place, place + _contents(gathered.headings), 1)
    for address in external_resources(html):
        gathered.notes.append(f"not loaded, because the page must work offline: {address[:200]}")
    for source in dict.fromkeys(missing_pictures(html)):
        gathered.notes.append(
            f"a picture is missing on the page: {source[:200]} is not beside the notebook (nor in "
            "figures/); files from elsewhere are not taken"
        )
    return Page(html.lstrip(), title, gathered.summary, gathered.notes)
