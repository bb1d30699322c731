"""Pictures and tables in one style; matplotlib is imported with the first of them."""

from attnlab_helpers.plots.atlas import atlas_map
from attnlab_helpers.plots.attention_maps import attention_map, head_grid
from attnlab_helpers.plots.attention_picker import attention_picker
from attnlab_helpers.plots.curves import curves
from attnlab_helpers.plots.hardware import hardware
from attnlab_helpers.plots.head_distances import head_distances
from attnlab_helpers.plots.matrices import matrices
from attnlab_helpers.plots.photograph import apart, photographs
from attnlab_helpers.plots.picture import Picture
from attnlab_helpers.plots.roofline import roofline
from attnlab_helpers.plots.stages import StagesView, stages
from attnlab_helpers.plots.stairs import memory_stairs
from attnlab_helpers.plots.table import Table
from attnlab_helpers.plots.tile_walk import TileWalk, tile_walk
from attnlab_helpers.plots.timeline import Timeline, timeline

__all__ = [
    "Picture",
    "StagesView",
    "Table",
    "TileWalk",
    "Timeline",
    "apart",
    "atlas_map",
    "attention_map",
    "attention_picker",
    "curves",
    "hardware",
    "head_distances",
    "head_grid",
    "matrices",
    "memory_stairs",
    "photographs",
    "roofline",
    "stages",
    "tile_walk",
    "timeline",
]
