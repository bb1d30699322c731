"""README's figures: every one is drawn, has the name that README links, and is kept."""

import re
from pathlib import Path

from attnlab_helpers.figures import FIGURES, main

ROOT = Path(__file__).parent.parent


def test_every_figure_is_drawn(tmp_path, capsys) -> None:
    assert main(["--folder", str(tmp_path)]) == 0
    drawn = {path.stem for path in tmp_path.iterdir()}
    assert drawn == set(FIGURES) and len(list(tmp_path.iterdir())) == 2 * len(FIGURES)
    assert all(path.stat().st_size < 600_000 for path in tmp_path.iterdir())


def test_what_the_readme_shows_is_kept() -> None:
    linked = re.findall(r"!\[([^\]]+)\]\((figures/[^)]+)\)", (ROOT / "README.md").read_text())
    assert linked and all(len(words) > 40 for words, _ in linked)
    assert all((ROOT / path).is_file() for _, path in linked)
    kept = {path.stem for path in (ROOT / "figures").iterdir()}
    assert kept == set(FIGURES)
