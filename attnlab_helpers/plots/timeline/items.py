"""What a timeline accepts: Runs and Traces, each made into a label, a trace and a provenance."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Item:
    """One thing to draw; ``time`` (``median_ns``, ``p20_ns``, ``p80_ns``) may be None."""

    label: str
    trace: Any
    provenance: str
    time: Any = None


def as_item(thing: Any) -> Item:
    """A Run (its call of median CPU time) or a Trace as an ``Item``.

    Raises ``TypeError`` for anything else.
    """
    if hasattr(thing, "call_trace") and hasattr(thing, "label"):
        return Item(
            label=str(thing.label),
            trace=thing.call_trace,
            provenance=str(thing.provenance),
            time=getattr(thing, "time", None),
        )
    if all(hasattr(thing, name) for name in ("operators", "launches", "kernels")):
        source = str(thing.source)
        live = source == "live capture"
        return Item(source, thing, "live capture" if live else f"from the file {source}")
    raise TypeError(
        f"timeline() draws Runs and Traces, not {type(thing).__name__}: "
        "make a Run with run(implementation, problem), "
        "or a Trace with read_trace(path) or capture(fn)."
    )
