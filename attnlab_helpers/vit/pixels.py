"""What a picture is here, checked once for everything that takes one."""

from __future__ import annotations

import torch

# Rounding, and what bicubic resizing steps over the ends, is no reason to refuse a picture.
SLACK = 0.01


def check_picture(image: torch.Tensor, name: str = "image", *, grey: bool = False) -> None:
    """Raise unless `image` is a floating-point tensor (3, H, W) with values 0 to 1.

    grey: (H, W) is a picture, too. TypeError for another type or dtype, ValueError for another
    shape, values outside the range or not finite; each says what to do.
    """
    wanted = "(3, height, width)" + (" or (height, width)" if grey else "")
    if not isinstance(image, torch.Tensor):
        advice = ""
        if type(image).__name__ == "ndarray":
            advice = (
                " For 8-bit pixels (height, width, 3) it is "
                "torch.from_numpy(array).permute(2, 0, 1) / 255."
            )
        raise TypeError(
            f"{name} must be a torch tensor {wanted}, not {type(image).__name__}.{advice}"
        )
    if not image.is_floating_point():
        how = f"{name}.float()" if image.dtype == torch.bool else f"divide by 255: {name} / 255"
        raise TypeError(
            f"{name} has dtype {image.dtype}, but values from 0 to 1 in floating point are needed "
            f"({how})."
        )
    shape = tuple(image.shape)
    fits = (len(shape) == 3 and shape[0] == 3) or (grey and len(shape) == 2)
    if not fits or not image.numel():
        advice = ""
        if len(shape) == 3 and shape[-1] == 3:
            advice = f" Colours come first: {name}.permute(2, 0, 1)."
        elif len(shape) == 4:
            advice = f" Take one picture of the batch: {name}[0]."
        elif len(shape) == 2 or (len(shape) == 3 and shape[0] == 1):
            advice = f" Grey becomes three equal channels with {name}.expand(3, -1, -1)."
        raise ValueError(f"{name} has shape {shape}, but {wanted} is needed.{advice}")
    low, high = (float(end) for end in image.detach().aminmax())
    if not -SLACK <= low <= high <= 1 + SLACK:  # NaN fails this, too
        if not bool(torch.isfinite(image).all()):
            raise ValueError(f"{name} holds numbers that are not finite (NaN or infinity).")
        how = f"Divide by 255: {name} / 255."
        if high <= 2:
            how = f"What lies outside is cut off by {name}.clamp(0, 1)."
        raise ValueError(
            f"{name} has values from {low:.3g} to {high:.3g}, but 0 (black) to 1 (white) is "
            f"needed. {how}"
        )
