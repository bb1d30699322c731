"""The texts as one book: spelling, links and anchors, the glossary, from one to the next.

Links to the network are looked at for their form only; nothing here opens a connection.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from attnlab_helpers import reports

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
GLOSSARY = NOTEBOOKS / "GLOSSARY.md"
SOURCES = sorted((NOTEBOOKS / "source").glob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "benchmarks" / "NOTES.md", GLOSSARY, *SOURCES]
EACH = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)

# Also words of everyday language, or of the title of the series: no reader stops at them.
EVERYDAY = {"attention", "block", "copy", "CUDA", "grid", "key", "program", "value", "weights"}
OF_TWO_SPELLINGS = "color|neighbor|behavior|center|gray|favor|fiber|" + (
    "(?:normal|optim|recogn|organ|real|special|vector|summar|initial)iz"
)


def prose(text):
    """A Markdown text without its header, fenced code, code in lines, and formulas."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`|\$[^$]*\$", " ", text)


def links(text):
    """(text, target) of every link and picture in the prose."""
    found = re.findall(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)", prose(text))
    return [(words.strip(), target) for words, target in found]


def home(path):
    """The folder from which a text's links are followed: a source is read as its notebook."""
    return NOTEBOOKS if path in SOURCES else path.parent


def anchors(path):
    """The anchors that JupyterLab and our exported pages give to the headings of a text."""
    source = NOTEBOOKS / "source" / f"{path.stem}.md" if path.suffix == ".ipynb" else path
    text = re.sub(r"^```.*?^```", "", source.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[`*]", "", heading).strip().replace(" ", "-") for heading in headings}


def terms():
    """Every term of the glossary with its text, in order, and the group it stands in."""
    group, found = "", []
    for part in re.split(r"^(?=##)", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE):
        heading, _, body = part.partition("\n")
        if heading.startswith("### "):
            found.append((heading[4:].strip(), body.strip(), group))
        elif heading.startswith("## "):
            group = heading[3:]
    return found


def word(term):
    """A pattern that finds a term as a word of its own, in the singular or the plural."""
    ending = r"(?:y|ies)" if term.endswith("y") else r"(?:s|es)?"
    stem = re.escape(term.removesuffix("y"))
    return re.compile(rf"(?<![\w-]){stem}{ending}(?![\w])", re.IGNORECASE)


# --- spelling -----------------------------------------------------------------------------------


def misspelt(*paths):
    command = [sys.executable, "-m", "codespell_lib", "--toml", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True)
    return [line.replace(str(ROOT), "") for line in done.stdout.splitlines() if "==>" in line]


def test_nothing_is_misspelt():
    pytest.importorskip("codespell_lib")
    code = sorted((ROOT / "attnlab_helpers").rglob("*.py"))
    assert misspelt(*TEXTS, *code, *sorted((ROOT / "benchmarks").glob("*.py"))) == []


def test_a_misspelt_word_would_be_found(tmp_path):
    pytest.importorskip("codespell_lib")
    path = tmp_path / "text.md"
    path.write_text("A kernel is seperate from its launch.")
    assert len(misspelt(path)) == 1


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_one_spelling_of_english(path):
    text = re.sub(r"\]\([^)]*\)", "]", prose(path.read_text(encoding="utf-8")))
    assert re.findall(rf"\b\w*(?:{OF_TWO_SPELLINGS})\w*", text) == []


# --- links --------------------------------------------------------------------------------------


def wrong_links(path):
    """What is wrong with each link of a text that leads nowhere."""
    wrong = []
    for _, target in links(path.read_text(encoding="utf-8")):
        parts = urlsplit(target)
        if parts.scheme:
            if parts.scheme != "https" or "." not in parts.netloc.strip("."):
                wrong.append(f"{target}: not the address of a page")
            continue
        there = home(path) / unquote(parts.path) if parts.path else path
        if not there.is_file():
            wrong.append(f"{target}: no such file")
        elif parts.fragment and unquote(parts.fragment) not in anchors(there):
            wrong.append(f"{target}: no such heading")
    return wrong


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    assert wrong_links(path) == []


def test_wrong_links_would_be_found(tmp_path):
    path = tmp_path / "text.md"
    path.write_text(
        "# A b\n\n[x](other.md) [y](#A-c) [good](#A-b) [z](http://example.org)"
        " [w](https://nowhere) `[v](u)`\n\n```\n[t](s)\n```\n"
    )
    assert wrong_links(path) == [
        "other.md: no such file",
        "#A-c: no such heading",
        "http://example.org: not the address of a page",
        "https://nowhere: not the address of a page",
    ]


# --- from one notebook to the next --------------------------------------------------------------


@EACH
def test_the_top_says_what_one_needs_how_long_it_takes_and_where_it_leads(path):
    top = path.read_text(encoding="utf-8").split("```{code-cell}")[0]
    assert re.search(r"^# (attnlab: |\d\d · )", top, re.MULTILINE)
    assert "**You will need** " in top
    if path != SOURCES[0]:
        assert "**The question.** " in top and "**What is live here.** " in top
    time = r"^\*About \d+ minutes to read; \d+ seconds to run on two cores without a GPU\.\*$"
    assert len(re.findall(time, top, re.MULTILINE)) == 1
    way = re.split(time, top, flags=re.MULTILINE)[1].strip().splitlines()[0]
    wanted = [GLOSSARY.name]
    here = SOURCES.index(path)
    if here:
        wanted.insert(0, f"{SOURCES[here - 1].stem}.ipynb")
    if path != SOURCES[-1]:
        wanted.append(f"{SOURCES[here + 1].stem}.ipynb")
    assert [target for _, target in links(way)] == wanted


@EACH
def test_reading_times_follow_one_rule(path):
    """180 words or 15 lines of code a minute, without the exercises; within a third."""
    text = path.read_text(encoding="utf-8")
    (minutes,) = re.findall(r"About (\d+) minutes to read", text)
    text = text.split("\n## Try it\n")[0]
    code = re.findall(r"^```.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = sum(bool(line.strip()) for cell in code for line in cell.splitlines())
    by_rule = len(prose(text).split()) / 180 + lines / 15
    assert abs(int(minutes) - by_rule) <= max(5, by_rule / 3), f"{by_rule:.0f} by the rule"


@EACH
def test_a_notebook_is_called_by_its_title_everywhere(path):
    title = re.search(r"^# (\d\d · .+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if title is None:
        assert path == SOURCES[0]
        return
    number = title[1].split(" · ")[0]
    for text in TEXTS:
        for words, _ in links(text.read_text(encoding="utf-8")):
            named = words.strip("← →")
            if named.startswith(f"{number} · "):
                assert named == title[1], f"{text.name} calls {path.stem} {named!r}"


@EACH
def test_the_end_leads_to_the_next_one(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("**Next:**") == (path != SOURCES[-1])
    if path != SOURCES[-1]:
        following = SOURCES[SOURCES.index(path) + 1]
        (last,) = re.findall(r"^\*\*Next:\*\* (.+)$", text, re.MULTILINE)
        assert text.rstrip().endswith(last)
        assert links(last)[0][1] == f"{following.stem}.ipynb"


# --- the glossary -------------------------------------------------------------------------------


def test_terms_are_sorted_and_stand_there_once():
    found = terms()
    assert len(found) > 80
    names = [term.lower() for term, _, _ in found]
    assert len(set(names)) == len(names)
    for group in {group for _, _, group in found}:
        inside = [term.lower() for term, _, its in found if its == group]
        assert inside == sorted(inside), group


def test_a_term_is_said_shortly_and_its_notebook_has_it():
    problems = []
    for term, text, _ in terms():
        said, _, place = text.rpartition(" Explained in ")
        sentences = len(re.findall(r"[.!?)](?: |$)", said))
        if not (1 <= sentences <= 4 and len(said) < 300):
            problems.append(f"{term}: {sentences} sentences, {len(said)} characters")
        ((_, target),) = links(place)
        source = NOTEBOOKS / "source" / f"{Path(urlsplit(target).path).stem}.md"
        if not word(term).search(source.read_text(encoding="utf-8")):
            problems.append(f"{term}: not in {source.stem}")
    assert problems == []


@EACH
def test_words_that_are_explained_later_lead_to_the_glossary(path):
    text = path.read_text(encoding="utf-8")
    # A table of contents names what is to come.
    read = "\n".join(line for line in prose(text).splitlines() if not line.startswith("|"))
    read = re.sub(r"\[[^\]]*\]\([^)]*\.ipynb[^)]*\)", "", read)
    linked = " ".join(words for words, target in links(text) if GLOSSARY.name in target)
    later = [
        term
        for term, explained, _ in terms()
        if re.search(r"\]\((\w+)\.ipynb", explained)[1] > path.stem and term not in EVERYDAY
    ]
    missing = [term for term in later if word(term).search(read) and not word(term).search(linked)]
    assert missing == []


def test_the_glossary_is_a_page_beside_the_exported_notebooks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebooks").mkdir()
    shutil.copy(GLOSSARY, tmp_path / "notebooks")
    shutil.copy(NOTEBOOKS / f"{SOURCES[0].stem}.ipynb", tmp_path / "notebooks")
    assert reports.main(["--no-execute"]) == 0
    assert "1 of 1 notebooks exported" in capsys.readouterr().out
    pages = {path.stem: path.read_text(encoding="utf-8") for path in Path("reports").iterdir()}
    assert set(pages) == {"index", "GLOSSARY", SOURCES[0].stem}
    assert 'href="GLOSSARY.html">Glossary</a>' in pages["index"]
    named = re.findall(r'href="GLOSSARY\.html#([^"]+)"', pages[SOURCES[0].stem])
    assert named
    for anchor in named:
        assert f'id="{anchor}"' in pages["GLOSSARY"]
    assert f'href="{SOURCES[0].stem}.html#' in pages["GLOSSARY"]
    assert "not among these pages" in pages["GLOSSARY"]
    contents = pages["GLOSSARY"].split("</nav>")[0]
    assert "The GPU" in contents and "tensor core" not in contents
