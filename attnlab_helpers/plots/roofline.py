"""The roofline: how fast kernels could be at their traffic, how fast they are, what bounds them.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model"
(Communications of the ACM 52(4), 2009): a kernel does FLOPs on bytes; below the ridge the memory's
bandwidth bounds its rate, above it the arithmetic does.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from ..gpus import numbers_for
from .picture import Picture
from .roofline_drawing import draw_roofline
from .roofline_plane import Ceiling, Mark, Slope, rate_text, speed_text

NEEDED = ("label", "flops", "bytes", "time_ns")
PEAKS = {"bfloat16": "bf16_flops", "float16": "fp16_flops", "float32": "fp32_flops"}
MOST_POINTS, MOST_GROUPS = 20, 7
WIDTH = 900


@dataclass(frozen=True)
class _Roofs:
    """What bounds the points: the memory, and the arithmetic by dtype, as far as it is known."""

    slope: Slope
    ceilings: dict[str, Ceiling]

    def above(self, intensity: float, dtype: str) -> float:
        """The roof in FLOP/s above an intensity in FLOP/byte."""
        top = self.ceilings[dtype].top
        slope = self.slope.speed * intensity
        return slope if top is None else min(top, slope)

    def bound(self, intensity: float, dtype: str) -> str:
        """What bounds a point: "memory", "compute (dtype)", or that nobody knows."""
        top = self.ceilings[dtype].top
        if top is None:
            return "unknown (no compute roof)"
        return "memory" if intensity < top / self.slope.speed else f"compute ({dtype})"


def roofline(
    points: pd.DataFrame | Iterable[Mapping[str, Any]],
    gpu: Any,
    *,
    dtype: str = "bfloat16",
    measured_bandwidth: float | None = None,
    measured_flops: float | None = None,
    measured_provenance: object = "",
    title: str = "Roofline",
    provenance: object,
) -> Picture:
    """Points under the roofs of a GPU, on logarithmic axes.

    points: label, flops, bytes (through the GPU's memory), time_ns; where wanted group (marker and
    colour) and dtype ("bfloat16", "float16", "float32": whose roof; default `dtype`). A point
    without FLOPs, such as a copy, has no place on a logarithmic axis: it becomes a bar below,
    its share of the bandwidth. gpu: the vendor's peaks as `gpus.GpuNumbers`, or a card's name
    (`gpus.numbers_for`). measured_bandwidth (bytes/s, of a copy) and measured_flops (FLOP/s, of a
    matrix product in `dtype`): drawn dashed. provenance: of the points.

    A roof that the vendor's numbers lack is the measured one, and left out where nothing was
    measured; the memory's must be known one way or the other.

    The table's share_% is the rate over the roof at that intensity, in percent: the vendor's, or
    the measured one where the vendor's is not known. More than 100 means that the bytes were
    counted too high or came from a cache. share_of_measured_%: over the measured roofs.

    TypeError or ValueError for points that lack something, are no numbers above 0, or are too
    many (20; 7 groups), and for a GPU whose memory's bandwidth nobody knows.
    """
    gpu = numbers_for(gpu) if isinstance(gpu, str) else gpu
    if not hasattr(gpu, "memory_bandwidth"):
        raise TypeError(
            f"gpu must be a card of gpus.GPUS, what gpus.numbers_for(name) gives, or a name, not "
            f"{gpu!r}."
        )
    dtype = str(dtype).removeprefix("torch.")
    rows = _checked(points, dtype)
    if not rows:
        raise ValueError("roofline needs at least one point.")
    roofs = _roofs(gpu, rows, dtype, measured_bandwidth, measured_flops)
    table = pd.DataFrame([_table_row(row, roofs) for row in rows])
    groups = list(dict.fromkeys(row["group"] for row in rows))
    if len(rows) > MOST_POINTS or len(groups) > MOST_GROUPS:
        raise ValueError(
            f"{len(rows)} points in {len(groups)} groups cannot be told apart: up to {MOST_POINTS} "
            f"and {MOST_GROUPS} can. Draw two pictures."
        )
    if all(row["group"] is None for row in table.to_dict("records")):
        table = table.drop(columns="group")
    said = f"Points: {provenance}. Ceilings: {gpu.name}, {gpu.source}"
    if measured_bandwidth or measured_flops:
        said += f"; dashed: measured{f', {measured_provenance}' if measured_provenance else ''}"
    marks = [
        Mark(row["label"], row["flops"] / row["bytes"], 1e9 * row["flops"] / row["time_ns"],
             groups.index(row["group"]))
        for row in rows if row["flops"]
    ]  # fmt: skip
    copies = [
        (row["label"], 1e9 * row["bytes"] / row["time_ns"]) for row in rows if not row["flops"]
    ]

    def draw() -> Figure:
        return draw_roofline(
            marks, copies, list(roofs.ceilings.values()), roofs.slope,
            groups=[str(group) for group in groups if group is not None],
            title=title, provenance=said,
        )  # fmt: skip

    return Picture(
        draw, title=title, alt=_alt(title, table, roofs, gpu), table=table, provenance=said,
        width=WIDTH,
    )  # fmt: skip


def _checked(points: Any, dtype: str) -> list[dict[str, Any]]:
    if isinstance(points, pd.DataFrame):
        points = points.to_dict("records")
    if not isinstance(points, Iterable):
        raise TypeError(f"points must be a DataFrame or a list of dictionaries, not {points!r}.")
    rows = []
    for place, point in enumerate(points):
        if not isinstance(point, Mapping):
            raise TypeError(
                f"point {place} is a {type(point).__name__}; a dictionary or a row of a DataFrame "
                f"with {', '.join(NEEDED)} is needed."
            )
        missing = [name for name in NEEDED if point.get(name) is None]
        if missing:
            raise ValueError(f"point {place} ({point.get('label')}) has no {', '.join(missing)}.")
        row = {name: _number(point["label"], name, point[name]) for name in NEEDED[1:]}
        for name, value in row.items():
            if not math.isfinite(value) or value < 0 or (value == 0 and name != "flops"):
                least = "0 or more" if name == "flops" else "above 0"
                raise ValueError(
                    f"point {point['label']!r} has {name}={value:g}: {least} it must be."
                )
        own, group = point.get("dtype"), point.get("group")
        row |= {"label": str(point["label"]), "group": None if _absent(group) else str(group)}
        row["dtype"] = dtype if _absent(own) else str(own).removeprefix("torch.")
        if row["dtype"] not in PEAKS:
            raise ValueError(
                f"point {row['label']!r} has dtype {row['dtype']!r}: one of {', '.join(PEAKS)}."
            )
        rows.append(row)
    return rows


def _number(label: object, name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"point {str(label)!r} has {name}={value!r}: a number it must be."
        ) from error


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _roofs(
    gpu: Any, rows: list[dict[str, Any]], dtype: str, bandwidth: float | None, flops: float | None
) -> _Roofs:
    for name, value in (("measured_bandwidth", bandwidth), ("measured_flops", flops)):
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value < math.inf):
            raise ValueError(f"{name}={value!r} must be a number above 0, or None.")
    if gpu.memory_bandwidth is None and bandwidth is None:
        raise ValueError(
            f"the memory bandwidth of {gpu.name} is not known: hand in measured_bandwidth (bytes a "
            "second, of a copy), or dataclasses.replace(gpu, memory_bandwidth=bytes a second)."
        )
    if dtype not in PEAKS:
        raise ValueError(f"dtype {dtype!r} has no roof: one of {', '.join(PEAKS)}.")
    names = dict.fromkeys((*(row["dtype"] for row in rows if row["flops"]), dtype))
    ceilings = {
        name: Ceiling(name, getattr(gpu, PEAKS[name]), flops if name == dtype else None)
        for name in names
    }
    return _Roofs(Slope(gpu.memory_bandwidth, bandwidth), ceilings)


def _table_row(row: dict[str, Any], roofs: _Roofs) -> dict[str, Any]:
    intensity = row["flops"] / row["bytes"]
    rate, moved = (1e9 * row[name] / row["time_ns"] for name in ("flops", "bytes"))
    known = {key: row[key] for key in ("label", "group", "time_ns")}
    known |= {"GFLOP": row["flops"] / 1e9, "traffic_bytes": row["bytes"]}
    known |= {"FLOP/byte": intensity, "TFLOP/s": rate / 1e12, "TB/s": moved / 1e12}
    if row["flops"]:
        roof = roofs.above(intensity, row["dtype"])
        known |= {"roof TFLOP/s": roof / 1e12, "share_%": 100 * rate / roof}
        known["bound by"] = roofs.bound(intensity, row["dtype"])
    else:
        known |= {"roof TFLOP/s": None, "share_%": 100 * moved / roofs.slope.speed}
        known["bound by"] = "memory"
    reached = [ceiling.measured for ceiling in roofs.ceilings.values()]
    if roofs.slope.measured is not None or any(reached):
        known["share_of_measured_%"] = _measured_share(row, roofs, intensity, rate, moved)
    return known


def _measured_share(
    row: dict[str, Any], roofs: _Roofs, intensity: float, rate: float, moved: float
) -> float:
    """Against the measured ceilings; the vendor's stands in for one that nobody measured."""
    bandwidth = roofs.slope.measured or roofs.slope.speed
    if not row["flops"]:
        return 100 * moved / bandwidth
    ceiling = roofs.ceilings[row["dtype"]]
    top = ceiling.measured or ceiling.peak
    slope = bandwidth * intensity
    return 100 * rate / (slope if top is None else min(top, slope))


def _alt(title: str, table: pd.DataFrame, roofs: _Roofs, gpu: Any) -> str:
    slope = roofs.slope
    tops = "; ".join(
        f"no compute roof known in {name}"
        if ceiling.top is None
        else f"{rate_text(ceiling.top)} in {name}{_measured(ceiling.peak)}, from "
        f"{ceiling.top / slope.speed:.3g} FLOP/byte on"
        for name, ceiling in roofs.ceilings.items()
    )
    points = "; ".join(
        f"{row['label']}: {row['FLOP/byte']:.3g} FLOP/byte, {rate_text(1e12 * row['TFLOP/s'])}, "
        f"{row['share_%']:.3g} % of the roof, bound by {row['bound by']}"
        if row["GFLOP"]
        else f"{row['label']}: no arithmetic, {row['share_%']:.3g} % of the memory's bandwidth"
        for row in table.to_dict("records")
    )
    return (
        f"{title}. Rate over arithmetic intensity, both logarithmic, under the roofs of "
        f"{gpu.name}: memory at {speed_text(slope.speed)}{_measured(slope.vendor)}; {tops}. "
        f"{points}."
    )


def _measured(vendors: float | None) -> str:
    return " (measured)" if vendors is None else ""
