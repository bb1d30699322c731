"""The legend of the still picture: the kinds of work that occur, the links, the idle marks."""

from attnlab_helpers.plots import style
from attnlab_helpers.plots.timeline.labels import ruler
from attnlab_helpers.plots.timeline.layout import Picture
from attnlab_helpers.plots.timeline.plan import EDGE, SMALL_PT
from attnlab_helpers.plots.timeline.sheet import Sheet


def has_legend(picture: Picture) -> bool:
    """Whether there is anything to explain."""
    kinds = bool(picture.kinds) and not picture.guess
    return kinds or any(len(panel.links) or len(panel.gaps) for panel in picture.panels)


def draw_legend(sheet: Sheet, picture: Picture, y: float) -> None:
    measure = ruler(SMALL_PT)
    x = EDGE
    kinds = () if picture.guess else picture.kinds
    for kind in kinds:
        look = style.work_style(kind)
        sheet.bar(x, y - 0.06, 0.26, 0.12, look.fill, look.color, look.hatch)
        sheet.text(x + 0.31, y, kind, size=SMALL_PT)
        x += 0.31 + measure(kind) + 0.16
    if any(len(panel.links) for panel in picture.panels):
        sheet.line([(x, y - 0.05), (x + 0.22, y + 0.05)], style.MUTED_INK, 0.7)
        text = "launch to what it started"
        sheet.text(x + 0.27, y, text, size=SMALL_PT, color=style.MUTED_INK)
        x += 0.27 + measure(text) + 0.16
    if any(len(panel.gaps) for panel in picture.panels):
        sheet.line([(x, y), (x + 0.22, y)], style.IDLE_INK, 0.7)
        for end in (x, x + 0.22):
            sheet.line([(end, y - 0.05), (end, y + 0.05)], style.IDLE_INK, 0.7)
        sheet.text(x + 0.27, y, "stream idle", size=SMALL_PT, color=style.IDLE_INK)
