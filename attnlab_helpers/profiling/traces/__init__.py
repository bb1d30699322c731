"""Trace files: what they hold as tables, and the reader that survives damaged ones."""
