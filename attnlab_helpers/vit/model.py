"""The vision transformer: patches in, blocks of attention and MLP, a prediction out.

"An image is worth 16x16 words" (arXiv 2010.11929), in its pre-norm form: each block adds what
attention says, then what its MLP says, to the tokens that pass through it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from .multihead import Attention, MultiHeadAttention
from .patches import PatchEmbedding, patch_grid
from .positions import sine_positions
from .whole import whole_number


@dataclass(frozen=True)
class ViTConfig:
    """The sizes of one vision transformer.

    image, patch: pixels a side. channels: colours. width: D, numbers a token. depth: blocks.
    heads: in each block. mlp_ratio: the MLP's hidden width over D. outputs: numbers predicted.
    readout: "class" (one prediction a picture, from the class token) or "patches" (one a patch).
    class_token: an extra learned token in front. positions: "learned", "sine" or "none".
    marks: a learned vector that can be added to chosen patches (see `ViT.tokens`). epsilon: of
    the layer norms.

    Raises ValueError for sizes that do not fit together.
    """

    image: int = 224
    patch: int = 16
    channels: int = 3
    width: int = 768
    depth: int = 12
    heads: int = 12
    mlp_ratio: float = 4.0
    outputs: int = 1000
    readout: Literal["class", "patches"] = "class"
    class_token: bool = True
    positions: Literal["learned", "sine", "none"] = "learned"
    marks: bool = False
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("image", "patch", "channels", "width", "depth", "heads", "outputs"):
            # The class is frozen; numpy's integers become Python's, which cannot overflow.
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        patch_grid(self.image, self.image, self.patch)
        ratio = self.mlp_ratio
        if isinstance(ratio, bool) or not (isinstance(ratio, int | float) and math.isfinite(ratio)):
            raise ValueError(f"mlp_ratio must be a finite number, not {ratio!r}.")
        if self.hidden < 1:
            raise ValueError(f"mlp_ratio={ratio!r} leaves the MLP without a number in its middle.")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be shared out over {self.heads} heads.")
        if self.readout not in ("class", "patches"):
            raise ValueError(f"readout={self.readout!r} is not one of 'class', 'patches'.")
        if self.readout == "class" and not self.class_token:
            raise ValueError("readout='class' reads the class token, so class_token must be True.")
        if self.positions not in ("learned", "sine", "none"):
            raise ValueError(
                f"positions={self.positions!r} is not one of 'learned', 'sine', 'none'."
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return patch_grid(self.image, self.image, self.patch)

    @property
    def patches(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def tokens(self) -> int:
        """N: the patches, and the class token if there is one."""
        return self.patches + int(self.class_token)

    @property
    def hidden(self) -> int:
        """Numbers a token in the middle of the MLP."""
        return int(self.width * self.mlp_ratio)


# ViT-B/16 with ImageNet's 1000 classes (arXiv 2010.11929, table 1): 86,567,656 parameters.
VIT_B16_CONFIG = ViTConfig()


class MLP(nn.Module):
    """Two linear layers with a GELU between them, for every token on its own."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(nn.functional.gelu(self.widen(x)))


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): (batch, N, width) in and out."""

    def __init__(self, config: ViTConfig, attention: Attention) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(config.width, eps=config.epsilon)
        self.attention = MultiHeadAttention(config.width, config.heads, attention=attention)
        self.norm_mlp = nn.LayerNorm(config.width, eps=config.epsilon)
        self.mlp = MLP(config.width, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_attention(x))
        return x + self.mlp(self.norm_mlp(x))

    def with_weights(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The same, and the attention weights (batch, heads, N, N)."""
        told, weights = self.attention.with_weights(self.norm_attention(x))
        x = x + told
        return x + self.mlp(self.norm_mlp(x)), weights


class ViT(nn.Module):
    """A vision transformer of the sizes in `config`.

    attention: what computes every block's heads, as in `MultiHeadAttention`. Weights are drawn
    from PyTorch's global generator; `small_vit` and `load_pretrained` give trained ones.
    """

    def __init__(
        self, config: ViTConfig = VIT_B16_CONFIG, *, attention: Attention = "naive"
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = PatchEmbedding(config.patch, config.channels, config.width)
        self.class_token = self._vector() if config.class_token else None
        self.mark = self._vector() if config.marks else None
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.zeros(1, config.tokens, config.width))
        elif config.positions == "sine":
            # The class token lies nowhere: its position is zero.
            sines = sine_positions(*config.grid, config.width)
            nowhere = torch.zeros(int(config.class_token), config.width)
            self.register_buffer("positions", torch.cat([nowhere, sines])[None], persistent=False)
        else:
            self.positions = None
        self.blocks = nn.ModuleList(Block(config, attention) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.head = nn.Linear(config.width, config.outputs)
        self._draw()

    def forward(self, images: torch.Tensor, marked: torch.Tensor | None = None) -> torch.Tensor:
        """images (batch, channels, image, image) -> predictions.

        (batch, outputs) for the readout "class", (batch, patches, outputs) for "patches".
        marked: see `tokens`.
        """
        x = self.tokens(images, marked)
        for block in self.blocks:
            x = block(x)
        return self._read(x)

    def with_weights(
        self, images: torch.Tensor, marked: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The predictions, and all attention weights: (batch, depth, heads, N, N)."""
        x = self.tokens(images, marked)
        maps = []
        for block in self.blocks:
            x, weights = block.with_weights(x)
            maps.append(weights)
        return self._read(x), torch.stack(maps, dim=1)

    def tokens(self, images: torch.Tensor, marked: torch.Tensor | None = None) -> torch.Tensor:
        """X, what the first block sees: (batch, N, width).

        The patches' projections, in front of them the class token, plus the positions. marked:
        boolean (batch, patches); the learned mark is added where True (needs config.marks).
        ValueError for pictures of another size.
        """
        side = self.config.image
        expected = (self.config.channels, side, side)
        if not isinstance(images, torch.Tensor):
            raise TypeError(f"images must be a torch tensor, not {type(images).__name__}.")
        if images.dim() != 4 or tuple(images.shape[1:]) != expected:
            raise ValueError(
                f"images has shape {tuple(images.shape)}, but this model takes (batch, "
                f"{', '.join(map(str, expected))}). Resize the pictures, and add a missing batch "
                "dimension with images[None]."
            )
        x = self.embedding(images)
        if marked is not None:
            if self.mark is None:
                raise ValueError("this model has no mark: its config says marks=False.")
            x = x + marked[..., None] * self.mark
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return x if self.positions is None else x + self.positions

    def _read(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        if self.config.readout == "class":
            return self.head(x[:, 0])
        return self.head(x[:, int(self.config.class_token) :])

    def _vector(self) -> nn.Parameter:
        return nn.Parameter(torch.zeros(1, 1, self.config.width))

    def _draw(self) -> None:
        # Truncated normal numbers with deviation 0.02 and zero biases, as is usual for ViTs.
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for vector in (self.class_token, self.mark, self.positions):
            if isinstance(vector, nn.Parameter):
                nn.init.trunc_normal_(vector, std=0.02)
