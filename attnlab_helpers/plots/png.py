"""A figure as bytes: a small PNG in the style's own colours, or SVG, the same on each run."""

import io
from functools import lru_cache

from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

from attnlab_helpers.plots import style

_BLENDS = (0.5,)  # steps of a text's smooth edge between ink and ground


def to_png(figure: Figure, *, shades: bool = False) -> bytes:
    """PNG bytes of ``figure``, the same on each run; about a quarter of the full-colour size.

    ``shades`` keeps all colours, for pictures whose colours are a scale.

    The palette is fixed because one made from the picture gives small areas, such as the bar of a
    rare kind of work, their neighbour's colour.
    """
    raw = io.BytesIO()
    figure.savefig(raw, format="png", metadata={"Software": None})
    image = Image.open(raw).convert("RGB")
    if shades:
        out = io.BytesIO()
        image.save(out, format="png", optimize=True)
        return out.getvalue()
    small = image.quantize(palette=_palette(), dither=Image.Dither.NONE)
    used = sorted(color for _, color in small.getcolors())
    small = small.remap_palette(used)
    out = io.BytesIO()
    small.save(out, format="png", optimize=True)
    return out.getvalue()


def to_svg(figure: Figure) -> bytes:
    """SVG bytes of ``figure``; ids and date are fixed so that equal pictures give equal files."""
    out = io.BytesIO()
    with rc_context({"svg.hashsalt": "attnlab"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


@lru_cache(maxsize=1)
def _palette() -> Image.Image:
    grounds = [style.CARD, style.LANE, style.WAIT_FILL, style.HIDDEN_FILL, *style.OPERATOR_FILLS]
    inks = [
        style.INK,
        style.MUTED_INK,
        style.FAINT_INK,
        style.GRID,
        style.OPERATOR_EDGE,
        style.LAUNCH,
    ]
    pairs = [(style.CARD, style.INK), (style.CARD, style.MUTED_INK), (style.LANE, style.IDLE_INK)]
    pairs += [(ground, style.INK) for ground in style.OPERATOR_FILLS]
    for look in style.WORK_STYLES.values():
        grounds.append(look.fill)
        inks.append(look.color)
        pairs += [(look.fill, look.color), (look.fill, style.INK)]
    colors = [_rgb(color) for color in [*grounds, *inks, style.IDLE_INK]]
    colors += [_blend(ground, ink, share) for ground, ink in pairs for share in _BLENDS]
    colors = list(dict.fromkeys(colors))[:256]
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for color in colors for channel in color])
    return palette


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _blend(ground: str, ink: str, share: float) -> tuple[int, ...]:
    return tuple(round(a + (b - a) * share) for a, b in zip(_rgb(ground), _rgb(ink), strict=True))
