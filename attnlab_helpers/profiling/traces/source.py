"""The bytes of a trace: plain or gzip whatever the file is called, as UTF-8, up to a limit."""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from attnlab_helpers.profiling.traces.notes import NoteCollector, TraceError, counted

BLOCK = 4 * 1024 * 1024
GZIP = b"\x1f\x8b"

# First bytes of files that people take for a trace, and what to do with each.
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive", "Unpack it and read the .json file inside."),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "Unpack it first: zstd -d FILE."),
    (b"\xfd7zXZ\x00", "compressed with xz", "Unpack it first: xz -d FILE."),
    (b"BZh", "compressed with bzip2", "Unpack it first: bzip2 -d FILE."),
    (GZIP, "gzip inside gzip", "Unpack it once: gzip -d FILE."),
    (
        b"SQLite format 3\x00",
        "an SQLite database, as Nsight Systems exports it",
        "This reader takes the JSON of torch.profiler's export_chrome_trace.",
    ),
    (
        b"<",
        "an HTML or XML page",
        "Download the trace itself: a page came in its place.",
    ),
    (
        b"version https://git-lfs",
        "a Git LFS pointer, not the file it stands for",
        "Fetch the file first: git lfs pull.",
    ),
)


def open_blocks(
    stream: BinaryIO, notes: NoteCollector, max_bytes: int, source: str
) -> Iterator[bytes]:
    """Yield the text of `stream` as UTF-8, some megabytes at a time.

    Unpacks gzip (several members too), removes a byte order mark, converts UTF-16 and UTF-32.
    An unfinished or damaged gzip file yields what could be unpacked and leaves a note.

    Raises:
        TraceError: more than `max_bytes` bytes came out.
    """
    first = stream.read(BLOCK)
    blocks = _plain(first, stream)
    if first.startswith(GZIP):
        blocks = _unzipped(blocks, notes)
    total = 0
    for block in _as_utf8(blocks):
        total += len(block)
        if total > max_bytes:
            raise TraceError(too_large(source, max_bytes))
        yield block


def too_large(source: str, max_bytes: int) -> str:
    """The text of the refusal of a trace above the limit."""
    return (
        f"{source!r} holds more than {max_bytes / 2**20:,.0f} MiB of text. Profile fewer steps "
        "(torch.profiler.schedule(wait=1, warmup=1, active=1)), leave out with_stack, or, with "
        "memory to spare, raise the limit: read_trace(path, max_bytes=...)."
    )


def not_a_trace(source: str, head: bytes) -> str:
    """A sentence that says what `head`, the first bytes of a file, look like, and what to do."""
    for magic, what, advice in _FOREIGN:
        if head.startswith(magic):
            return f"{source!r} is not a trace: it is {what}. {advice}"
    if not head.strip():
        return (
            f"{source!r} is empty. Was the profile exported? Call "
            "prof.export_chrome_trace(path) once, after the profile block has ended."
        )
    return (
        f"{source!r} is not a trace: it does not begin with the {{ or [ of JSON. This reader "
        "takes what torch.profiler's export_chrome_trace writes, plain or gzip."
    )


def other_list(source: str, text: bytes) -> str:
    """What to say of a list that is sound JSON and holds no object at all; "" for any other.

    `text` is what follows the list's opening bracket.
    """
    text = text.lstrip()
    if text[:1] in (b"{", b"]", b"", b","):
        return ""
    try:
        # Latin-1 reads any byte.
        entries, _ = json.JSONDecoder().raw_decode("[" + text.decode("latin-1"))
    except (ValueError, RecursionError):
        return ""  # damaged: what can be read of it is read event by event
    if any(isinstance(entry, dict) for entry in entries):
        return ""
    return (
        f"{source!r} is JSON but no trace: its list holds {counted(len(entries), 'entry')} and no "
        "event, which would be an object in braces. This reader takes what export_chrome_trace "
        "writes."
    )


def _plain(first: bytes, stream: BinaryIO) -> Iterator[bytes]:
    while first:
        yield first
        first = stream.read(BLOCK)


def _unzipped(blocks: Iterator[bytes], notes: NoteCollector) -> Iterator[bytes]:
    lost = "of the gzip file could be unpacked; what comes after is missing."
    unpacker = zlib.decompressobj(wbits=31)
    total = 0
    for block in blocks:
        while block:
            if unpacker.eof:
                # Only another member may follow; some writers pad the file with zeros.
                if not block.startswith(GZIP[: len(block)]):
                    return
                unpacker = zlib.decompressobj(wbits=31)
            before = unpacker.copy()
            try:
                text = unpacker.decompress(block, BLOCK)
            except zlib.error:
                # The error swallows what came before it: unpack again, up to the very byte.
                text = _until_error(before, block)
                notes.add("dropped", lost, noun="byte", count=total + len(text))
                if text:
                    yield text
                return
            total += len(text)
            if text:
                yield text
            block = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    # The last bytes may still sit in the unpacker.
    rest = unpacker.flush()
    if rest:
        yield rest
    if not unpacker.eof:
        notes.add("dropped", lost, noun="byte", count=total + len(rest))


def _until_error(unpacker: zlib._Decompress, block: bytes) -> bytes:
    texts = []
    for step in (4096, 1):
        while block:
            before = unpacker.copy()
            try:
                texts.append(unpacker.decompress(block[:step]))
            except zlib.error:
                unpacker = before
                break
            block = block[step:]
    return b"".join(texts)


def _as_utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(blocks, b"")
    if first.startswith(codecs.BOM_UTF8):
        first = first[len(codecs.BOM_UTF8) :]
    encoding = _encoding(first)
    if encoding is None:
        if first:
            yield first
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    block = first
    while block:
        text = decoder.decode(block).removeprefix("\ufeff")
        # An empty block would mean the end.
        if text:
            yield text.encode("utf-8")
        block = next(blocks, b"")
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest.encode("utf-8")


def _encoding(head: bytes) -> str | None:
    """The encoding of a text that is not UTF-8, from its mark or from the zeros around its `{`."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head[:2] in (b"{\x00", b"[\x00"):
        return "utf-16-le"
    if head[:2] in (b"\x00{", b"\x00["):
        return "utf-16-be"
    return None
