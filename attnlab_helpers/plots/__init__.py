"""Pictures and tables in one style; matplotlib is imported with the first of them."""

from attnlab_helpers.plots.curves import curves
from attnlab_helpers.plots.picture import Picture
from attnlab_helpers.plots.stairs import memory_stairs
from attnlab_helpers.plots.table import Table
from attnlab_helpers.plots.timeline import Timeline, timeline

__all__ = ["Picture", "Table", "Timeline", "curves", "memory_stairs", "timeline"]
