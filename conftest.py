"""Settings of the notebooks' tests; here and not in tests/, because nbval runs in notebooks/."""

# HTML holds pictures whose bytes depend on versions, and other people's warnings go to stderr:
# neither says that a notebook is wrong. Printed text and plain results are compared.
NOT_COMPARED = ("text/html", "stderr")


def pytest_collectstart(collector):
    """nbval's notebooks carry the list of what is not compared; add ours to it."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += NOT_COMPARED
