"""From notebooks/source/*.md to the executed notebooks that readers open: convert, execute, write.

`python -m attnlab_helpers.building` does it for all of them; see `__main__.py`.
"""
