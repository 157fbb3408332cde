"""Files that are no text, though they are read as text: told by their first bytes, whatever their names and encodings say."""

from __future__ import annotations

import re
from typing import Final

from dagster_operators.errors import BadInputError

OF_NO_ENCODING: Final = "an input file is no text of the encoding"
LOOKED_AT: Final = 512
"""So many bytes of a file tell what it is."""
_FEWEST: Final = 4
_SHARE: Final = 0.6
"""Of text in UTF-16 that is mostly Latin, so much of every second byte is zero."""

_COMPRESSED: Final = (
    (b"\x1f\x8b\x08", "gzip", ".gz"),
    (b"BZh[1-9]1AY&SY", "bzip2", ".bz2"),
    (b"\\(\xb5/\xfd", "zstd", ".zst"),
)
_BINARY: Final = b"[\x00-\x08\x0b\x0c\x0e-\x1f]"
_OTHERS: Final = (
    (b"PK[\x03\x05][\x04\x06]", "a ZIP archive, or a workbook", "unpack it, or export it as text"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1", "a workbook", "export it as text"),
    (b"\xfd7zXZ\x00", "compressed by xz", "decompress it, or compress it by gzip"),
    (b"\x04\x22\x4d\x18", "compressed by lz4", "decompress it, or compress it by gzip"),
    (b"\xff\x06\x00\x00sNaPpY", "compressed by snappy", "decompress it, or compress it by gzip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"),
    (b"PAR1" + _BINARY, "a Parquet file", "read it by a source of format='parquet'"),
    (b"ORC" + _BINARY, "an ORC file", "write it as Parquet"),
    (b"Obj\x01", "an Avro file", "write it as Parquet"),
    (b"ARROW1\x00", "an Arrow file", "write it as Parquet"),
    (b"%PDF-[0-9]", "a PDF file", "remove it"),
    (b"SQLite format 3\x00", "an SQLite database", "export its tables as text"),
)
_BOMS: Final = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def refuse_other_content(first: bytes, file: str, encoding: str, *, is_wide: bool) -> None:
    """See that a file begins as text of its encoding does.

    Args:
        first: Its first bytes, decompressed by what its name ends in.
        file: Its name in errors.
        encoding: The encoding that it is read with.
        is_wide: Whether that has characters of several bytes each.

    Raises:
        BadInputError: It is something else: compressed under another name, of another format, or in UTF-16.
    """
    found = kind_of(first[:LOOKED_AT], is_wide=is_wide)
    if found is not None:
        problem = f"{OF_NO_ENCODING} {encoding} (it is {found[0]})"
        raise BadInputError(problem, file=file, remedy=found[1])


def kind_of(first: bytes, *, is_wide: bool = False) -> tuple[str, str] | None:
    r"""What a file is that begins with some bytes, and what to do about it; None if it may be text.

    Args:
        first: The bytes.
        is_wide: The file is read in UTF-16 or UTF-32.

    >>> kind_of(b"\x1f\x8b\x08\x00"), kind_of("id,v\n".encode("utf-16-le"))[0], kind_of(b"PKZ,v\n")
    (('compressed by gzip', 'give it a name that ends in .gz, after its format, as in rows.csv.gz'), 'text in UTF-16LE', None)
    """
    for magic, name, suffix in _COMPRESSED:
        if re.match(magic, first, re.DOTALL):
            return f"compressed by {name}", f"give it a name that ends in {suffix}, after its format, as in rows.csv{suffix}"
    for magic, what, remedy in _OTHERS:
        if re.match(magic, first, re.DOTALL):
            return what, remedy
    encoding = None if is_wide else _wide_encoding(first)
    if encoding is None:
        return None
    return f"text in {encoding}", f"write it in UTF-8, or say so: options={{'encoding': '{encoding}'}}"


def _wide_encoding(first: bytes) -> str | None:
    """The encoding of text whose characters have several bytes each, by its mark or by the zeros in it."""
    for mark, encoding in _BOMS:
        if first.startswith(mark) and 0 in first:  # without a zero it may be text of one byte a character
            return encoding
    if len(first) < _FEWEST:
        return None
    even, odd = (side.count(0) / len(side) for side in (first[::2], first[1::2]))
    if odd >= _SHARE and even == 0:
        return "UTF-16LE"
    return "UTF-16BE" if even >= _SHARE and odd == 0 else None
