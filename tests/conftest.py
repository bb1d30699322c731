"""Settings of the unit tests: tests marked `gpu` are skipped where there is no CUDA GPU."""

import pytest


def pytest_collection_modifyitems(items):
    """Gives every test marked `gpu` a reason to skip on a machine without one."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))
