"""One style for every picture: a colour and a hatch for each kind of work, inks, the font."""

from dataclasses import dataclass

FONT = "DejaVu Sans"  # ships with matplotlib, so no machine lacks it and no warning is printed

INK = "#1b1f24"
MUTED_INK = "#57606a"
FAINT_INK = "#8c959f"
GRID = "#e4e7eb"
LANE = "#f6f8fa"
CARD = "#ffffff"
OPERATOR_FILLS = ("#c9d1d9", "#dde2e7", "#e9edf0", "#f3f5f7")  # outermost first
OPERATOR_EDGE = "#6e7781"
LAUNCH = "#32383f"
WAIT_FILL = "#eef0f2"
HIDDEN_FILL = "#e6e8eb"
IDLE_INK = "#a40e26"


@dataclass(frozen=True)
class KindStyle:
    """How one kind of work looks.

    ``color`` draws edges and hatches, ``fill`` the face behind dark text (contrast with ``INK`` at
    least 4.5), ``hatch`` is matplotlib's pattern and ``pattern`` the name the live canvas knows.
    """

    color: str
    fill: str
    hatch: str
    pattern: str


# Colours after Okabe and Ito's palette for colour-blind readers ("Color Universal Design", 2008),
# with a pale face of the same hue so that the label on top stays readable. Neighbours in hue differ
# in hatch, so the picture also reads in grey.
WORK_STYLES: dict[str, KindStyle] = {
    "matmul": KindStyle("#0072b2", "#a9d3ee", "", "solid"),
    "attention": KindStyle("#007a58", "#a5e0cc", "++", "grid"),
    "softmax": KindStyle("#b36f00", "#fbd78f", "\\\\\\", "back"),
    "elementwise": KindStyle("#2b8cc4", "#d9effb", "///", "forward"),
    "reduce": KindStyle("#8a8000", "#f6f0a0", "...", "dots"),
    "copy": KindStyle("#c04a00", "#f8c3a0", "xxx", "cross"),
    "fill": KindStyle("#a8527f", "#f0cfe1", "---", "horizontal"),
    "mask": KindStyle("#6a4fa3", "#d8cff0", "|||", "vertical"),
    "communication": KindStyle("#1b1f24", "#cfd4d9", "oo", "rings"),
    "other": KindStyle("#6e7781", "#e9ebee", "", "dashed"),
}


def work_style(kind: str) -> KindStyle:
    """The style of a kind of work; a kind nobody knows looks like "other"."""
    return WORK_STYLES.get(kind, WORK_STYLES["other"])
