"""Choose a patch, a layer and a head, and see the map; a picture where widgets are missing."""

from __future__ import annotations

import importlib.util
from functools import cached_property
from typing import Any

import torch

from ..vit.heads import rollout
from ..vit.patches import patch_grid
from ..vit.pixels import check_picture
from ..vit.shares import check_shares, check_weights, place
from ..vit.whole import whole
from .attention_maps import attention_map
from .picture import Picture

MEAN = "mean of the heads"
ROLLOUT = "rollout up to the layer"
VIEW = "application/vnd.jupyter.widget-view+json"


class AttentionPicker:
    """What `attention_picker` returns. Show it in a cell; `.choose(...)` does without widgets."""

    def __init__(
        self,
        image: torch.Tensor,
        weights: torch.Tensor,
        *,
        title: str,
        provenance: object,
        query: tuple[int, int],
        layer: int,
        head: int | str,
        patch: int,
    ) -> None:
        check_picture(image)
        self.grid = patch_grid(image.shape[-2], image.shape[-1], patch)
        check_weights(weights, self.grid, ahead=("layers", "heads"))
        check_shares(weights)
        self.image, self.weights, self.patch = image, weights, patch
        self.title, self.provenance = title, provenance
        query, layer, head = place(query, self.grid), self._layer(layer), self._head(head)
        self._start = (query, layer, head)
        self.picture = self.choose(query, layer, head)  # and a wrong start is an error at once

    def choose(self, query: tuple[int, int], layer: int, head: int | str = MEAN) -> Picture:
        """The map of the patch in (row, column), in one head of one layer (both from 0).

        head: a number, "mean of the heads" or "rollout up to the layer" (`vit.rollout` of all
        layers up to this one). ValueError for what does not exist.
        """
        query, layer, head = place(query, self.grid), self._layer(layer), self._head(head)
        if head == ROLLOUT:
            chosen, name = rollout(self.weights[: layer + 1]), f"rollout of layers 0 to {layer}"
        elif head == MEAN:
            chosen, name = self.weights[layer].mean(dim=0), f"layer {layer}, {MEAN}"
        else:
            chosen, name = self.weights[layer, head], f"layer {layer}, head {head}"
        title = f"{self.title}: {name}, patch in row {query[0]}, column {query[1]}"
        return attention_map(
            self.image, chosen, query, title=title, provenance=self.provenance, patch=self.patch
        )

    @cached_property
    def widget(self) -> Any:
        """The sliders and the map as one widget, or None where ipywidgets is not installed."""
        if importlib.util.find_spec("ipywidgets") is None:
            return None
        import ipywidgets

        (row, column), layer, head = self._start
        rows, columns = self.grid
        layers, heads = self.weights.shape[:2]

        def slider(name: str, value: int, count: int) -> Any:
            return ipywidgets.IntSlider(
                value=value, min=0, max=count - 1, description=name, continuous_update=False
            )

        controls = [
            slider("row", row, rows),
            slider("column", column, columns),
            slider("layer", layer, layers),
            ipywidgets.Dropdown(
                options=[*range(heads), MEAN, ROLLOUT], value=head, description="head"
            ),
        ]
        shown = ipywidgets.HTML(_html(self.picture))

        def redraw(change: Any) -> None:
            row, column, layer, head = (control.value for control in controls)
            shown.value = _html(self.choose((row, column), layer, head))

        for control in controls:
            control.observe(redraw, names="value")
        return ipywidgets.VBox([*controls, shown])

    def _layer(self, layer: int) -> int:
        layers = self.weights.shape[0]
        number = whole(layer)
        if number is None or not 0 <= number < layers:
            raise ValueError(
                f"layer {layer!r} does not exist: there are the whole numbers 0 to {layers - 1}."
            )
        return number

    def _head(self, head: int | str) -> int | str:
        heads = self.weights.shape[1]
        if isinstance(head, str) and head in (MEAN, ROLLOUT):
            return head
        number = whole(head)
        if number is None or not 0 <= number < heads:
            raise ValueError(
                f"head {head!r} does not exist: there are 0 to {heads - 1}, {MEAN!r} and "
                f"{ROLLOUT!r}."
            )
        return number

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # A live notebook takes the widget; an exported one, or one without ipywidgets, the picture.
        bundle = self.picture._repr_mimebundle_()
        if self.widget is not None:
            bundle[VIEW] = self.widget._repr_mimebundle_()[VIEW]
        return bundle

    def __repr__(self) -> str:
        return str(self.picture)


def attention_picker(
    image: torch.Tensor,
    weights: torch.Tensor,
    *,
    title: str = "What a patch attends to",
    provenance: object,
    query: tuple[int, int] = (0, 0),
    layer: int = 0,
    head: int | str = MEAN,
    patch: int = 16,
) -> AttentionPicker:
    """Sliders for patch and layer, a list of heads, and the map of what is chosen.

    image (3, H, W), values 0 to 1; weights (layers, heads, N, N) among patches. query (row,
    column), layer and head are where it starts, and what the still picture shows that stays
    when a page is exported or ipywidgets is missing.
    """
    return AttentionPicker(
        image, weights, title=title, provenance=provenance, query=query, layer=layer, head=head,
        patch=patch,
    )  # fmt: skip


def _html(picture: Picture) -> str:
    return picture._repr_mimebundle_()["text/html"]
