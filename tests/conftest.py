"""Settings of the unit tests: a browser for all of them; tests marked `gpu` skip without one."""

import offline_browser
import pytest


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all pages of the session; the network is cut."""
    yield from offline_browser.start(tmp_path_factory.mktemp("profile"))


def pytest_collection_modifyitems(items):
    """Gives every test marked `gpu` a reason to skip on a machine without one."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))
