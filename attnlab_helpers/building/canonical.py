"""The one canonical form of an executed notebook, so that equal results are equal bytes."""

from __future__ import annotations

import base64
import copy
import json
import struct

import nbformat
from nbformat import NotebookNode

from attnlab_helpers.building.tracebacks import without_machine_paths

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# Text, time and Exif chunks say which program drew a picture and when, not what it shows.
PNG_NOTES = {b"tEXt", b"zTXt", b"iTXt", b"tIME", b"eXIf"}


def png_without_notes(png: bytes) -> bytes:
    """The PNG without its text, time and Exif chunks; pixels, resolution and palette stay.

    Format: PNG specification, third edition, section 5.3 (chunk layout).
    """
    signature = b"\x89PNG\r\n\x1a\n"
    if not png.startswith(signature):
        return png
    kept, at = [signature], len(signature)
    while at + 8 <= len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        end = at + 12 + length
        if kind not in PNG_NOTES:
            kept.append(png[at:end])
        at = end
    return b"".join(kept)


def without_widgets(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs without live widget views, which need a kernel that a saved notebook lacks.

    A view that came with a picture or HTML leaves those behind. One that came with nothing but
    its Python repr disappears: a notebook shows the picture of its default state beside it.
    """
    kept = []
    for output in outputs:
        data = output.get("data", {})
        if WIDGET_VIEW not in data:
            kept.append(output)
            continue
        rest = {kind: value for kind, value in data.items() if kind != WIDGET_VIEW}
        if set(rest) - {"text/plain"}:
            output = copy.deepcopy(output)
            output.data = nbformat.from_dict(rest)
            kept.append(output)
    return kept


def merge_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Printed text in one piece: how a kernel cuts it up depends on the machine's load."""
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if (
            output.output_type == "stream"
            and last is not None
            and last.output_type == "stream"
            and last.name == output.name
        ):
            last.text += output.text
        else:
            merged.append(copy.deepcopy(output))
    return merged


def _canonical_output(output: NotebookNode) -> NotebookNode:
    if output.output_type == "error":
        output.traceback = [without_machine_paths(line) for line in output.traceback]
    png = output.get("data", {}).get("image/png")
    if png is not None:
        stripped = png_without_notes(base64.b64decode(png))
        output.data["image/png"] = base64.b64encode(stripped).decode("ascii")
    return output


def canonical(notebook: NotebookNode) -> NotebookNode:
    """A copy in canonical form: only tags as cell metadata, numbered from 1, outputs tidied."""
    notebook = copy.deepcopy(notebook)
    notebook.metadata.pop("widgets", None)
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {"tags": list(cell.metadata["tags"])} if cell.metadata.get("tags") else {}
        )
        if cell.cell_type != "code":
            continue
        executed = cell.execution_count is not None
        count += executed
        cell.execution_count = count if executed else None
        outputs = merge_streams(without_widgets(cell.outputs))
        cell.outputs = [_canonical_output(output) for output in outputs]
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count
    return notebook


def to_bytes(notebook: NotebookNode) -> bytes:
    """The notebook file: UTF-8 JSON, keys sorted, one space of indent, text as lists of lines."""
    split = nbformat.v4.rwbase.split_lines(copy.deepcopy(notebook))
    text = json.dumps(split, sort_keys=True, indent=1, ensure_ascii=False)
    return (text + "\n").encode("utf-8")
