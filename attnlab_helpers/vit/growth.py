"""How tokens, bytes and FLOPs grow with a picture's size, counted by formula."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..problem import DTYPES
from .model import VIT_B16_CONFIG, ViTConfig
from .patches import patch_grid
from .whole import whole_number


def growth(
    sizes: Sequence[int] = (224, 384, 1024, 4096),
    patches: Sequence[int] = (16,),
    *,
    config: ViTConfig = VIT_B16_CONFIG,
    dtype: str = "float32",
) -> pd.DataFrame:
    """One row for each picture size (pixels a side) and patch size, for one picture.

    Width, heads and blocks are `config`'s; its class token, if it has one, is not counted in
    `patches` but in everything else. Columns:

    image, patch: pixels a side. patches: how many, (image / patch)^2. tokens: N.
    matrix_bytes: the N x N matrix of one head; layer_bytes: of all heads of one block.
    linear_flops: the four projections and the MLP of all blocks, 2 N (4 D^2 + 2 m D^2) each
    with m the MLP's ratio. attention_flops: q k^T and the product with v, 4 N^2 D a block.
    attention_share: attention_flops of both together. A multiplication and an addition count as
    two; patch projection, softmax, norms and the head are left out.

    Raises ValueError for a size that its patches do not divide, no list of sizes, or an unknown
    dtype.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}.")
    asked = {"sizes": sizes, "patches": patches}
    for name, values in asked.items():
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise ValueError(
                f"{name} must be a list of whole numbers, such as [224], not {values!r}."
            )
        # As Python's integers: numpy's small ones overflow where N x N is counted.
        asked[name] = [whole_number(f"a number in {name}", value) for value in values]
    rows = []
    for patch in asked["patches"]:
        for size in asked["sizes"]:
            down, across = patch_grid(size, size, patch)
            tokens = down * across + int(config.class_token)
            width, hidden = config.width, config.hidden
            linear = config.depth * 2 * tokens * (4 * width**2 + 2 * width * hidden)
            attention = config.depth * 4 * tokens**2 * width
            matrix = tokens**2 * DTYPES[dtype].itemsize
            rows.append(
                {
                    "image": size,
                    "patch": patch,
                    "patches": down * across,
                    "tokens": tokens,
                    "matrix_bytes": matrix,
                    "layer_bytes": matrix * config.heads,
                    "linear_flops": linear,
                    "attention_flops": attention,
                    "attention_share": attention / (attention + linear),
                }
            )
    return pd.DataFrame(rows)
