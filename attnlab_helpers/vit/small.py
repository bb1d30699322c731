"""Our small model, as it was trained or as it was before, and what it says about a picture."""

from __future__ import annotations

import importlib.resources

import torch

from .colours import SMALL_CONFIG, hide_colours, paint
from .model import ViT
from .multihead import Attention

WEIGHTS = "weights/small_vit.pt"


def small_vit(*, trained: bool = True, seed: int = 0, attention: Attention = "naive") -> ViT:
    """The small vision transformer that ships with the package, ready to be looked at.

    14 x 14 patches of 16 pixels, no class token, width 128, six blocks of four heads; it guesses
    the colours of patches (see `colours`). Trained by `python -m attnlab_helpers.vit.train`, on
    photographs among which the cat is not; NOTICE beside the weights names them. trained=False:
    the numbers it started from, or with another `seed` others. The global generator is left alone.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ViT(SMALL_CONFIG, attention=attention)
    if trained:
        with importlib.resources.files(__package__).joinpath(WEIGHTS).open("rb") as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
        # On disk in half precision, to ship half the bytes.
        model.load_state_dict({name: values.float() for name, values in state.items()})
    return model.eval()


def recolour(model: ViT, image: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """The picture as the model sees its colours, (3, H, W), when only some patches show theirs.

    image (3, H, W), values 0 to 1; shown boolean (patches,), True = the colour is given.
    """
    with torch.no_grad():
        grey = hide_colours(image[None], shown[None], patch=model.config.patch)
        return paint(image[None], model(grey, ~shown[None]), model.config.patch)[0]


def attention_weights(
    model: ViT, image: torch.Tensor, shown: torch.Tensor | None = None
) -> torch.Tensor:
    """All of the model's attention on one picture: (layers, heads, N, N), rows sum to one.

    image (3, H, W), values 0 to 1. shown: as in `recolour`; None shows all colours. N counts a
    class token if the model has one.
    """
    with torch.no_grad():
        if shown is None:
            return model.with_weights(image[None])[1][0]
        grey = hide_colours(image[None], shown[None], patch=model.config.patch)
        return model.with_weights(grey, ~shown[None])[1][0]
