"""CSV and JSON-lines files as far as they can be understood without an engine: headers, row counts, and options."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import IO, Any, AnyStr, Final, Literal

from dagster_operators.connectors.file_content import LOOKED_AT, OF_NO_ENCODING, refuse_other_content
from dagster_operators.connectors.missing_columns import MissingColumns, require_columns
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.storage.location import FileLocation, SourceFile

_REFUSED = {
    "mode": 'say corrupt="fail" or corrupt="reject"',
    "columnnameofcorruptrecord": 'say corrupt="fail" or corrupt="reject"',
    "ignorecorruptfiles": "a file that cannot be read fails the epoch",
    "ignoremissingfiles": "a file that has vanished fails the epoch",
    "enforceschema": "columns are matched by the header's names",
    "pathglobfilter": "put it into the path",
    "recursivefilelookup": "a folder is read with all below it; for one level write folder/*.csv",
    "modifiedbefore": "every file is read once",
    "modifiedafter": "every file is read once",
}
_NAMES = """
allowbackslashescapinganycharacter allowcomments allownonnumericnumbers allownumericleadingzeros
allowsinglequotes allowunquotedcontrolchars allowunquotedfieldnames charset chartoescapequoteescaping
columnpruning comment compression dateformat delimiter dropfieldifallnull emptyvalue
enabledatetimeparsingfallback encoding escape extension header ignoreleadingwhitespace
ignoretrailingwhitespace inferschema linesep locale maxcharspercolumn maxcolumns multiline nanvalue
negativeinf nullvalue positiveinf preferdate prefersdecimal primitivesasstring quote samplingratio sep
timestampformat timestampntzformat timezone unescapedquotehandling usefasttimestampparser useunsafe
"""
_KNOWN = frozenset(_NAMES.split())
"""The options of Spark's readers of text, in lower case."""

SAY_WHICH: Final = "write it again in that encoding, or say which it has, such as options={'encoding': 'ISO-8859-1'}"

_BLOCK = 1 << 20
_MOST_COLUMNS: Final = 20_480
"""So many columns a CSV file may have, as on Spark, unless its options say more."""

LONGEST_LINE: Final = 256 << 20
"""So many characters a line may have that this process reads."""
DECIMAL: Final = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
"""A decimal as text, by Spark's rules but that a comma is no sign to be left out."""


@dataclass(frozen=True)
class TextFormat:
    """How the text of a file is cut into records and values.

    Args:
        name: CSV, or JSON with one object a line.
        options: Options of Spark's reader; ``header`` is true for CSV unless it is given.
    """

    name: Literal["csv", "json"]
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for option, _ in self.options:
            if option.lower() in _REFUSED:
                raise PipelineError(f"the option {option!r} is not for a FileSource", remedy=_REFUSED[option.lower()])
            if option.lower() not in _KNOWN:
                close = get_close_matches(option.lower(), _KNOWN, n=2)
                meant = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
                raise PipelineError(
                    f"there is no option {option!r} for reading CSV or JSON, and Spark would leave it out without a word",
                    remedy=f"{meant}the options are those of Spark's CSV and JSON readers",
                )

    def option(self, *names: str, default: str) -> str:
        """The value of an option by any of its names, in any case."""
        given = {name.lower(): value for name, value in self.options}
        return next((given[name.lower()] for name in names if name.lower() in given), default)

    @property
    def encoding(self) -> str:
        """The encoding of files, in lower case.

        >>> TextFormat("csv").encoding, TextFormat("csv", (("encoding", "ISO-8859-1"),)).encoding
        ('utf-8', 'iso-8859-1')
        """
        return self.option("encoding", "charset", default="utf-8").lower()

    @property
    def is_utf8(self) -> bool:
        """Files are in UTF-8, as they are unless something else is said."""
        return self.encoding.replace("-", "").replace("_", "") == "utf8"

    @property
    def has_header(self) -> bool:
        """The first line of each file has the columns' names."""
        return self.name == "csv" and self.option("header", default="true").lower() == "true"

    def header(self, location: FileLocation, file: SourceFile) -> tuple[str, ...]:
        """The names in a CSV file's header.

        Raises:
            BadInputError: The file has no header, names a column twice, or is no text.
        """
        with decoded_lines(location, file, self) as lines:
            names = next(self.records(lines), None)
        if names is None:
            raise BadInputError(
                "a CSV file is empty: it has no header", file=location.full_path(file),
                remedy="write it with its header, or remove it; of files without headers say options={'header': False}",
            )  # fmt: skip
        given = self.option("maxColumns", default="")
        most = int(given) if given.isdecimal() else _MOST_COLUMNS
        if len(names) > most:
            raise BadInputError(
                f"the header has {len(names)} columns, and may have {most}", file=location.full_path(file),
                remedy=f"correct the file; or allow so many: options={{'maxColumns': {len(names)}}}",
            )  # fmt: skip
        times = Counter(name.lower() for name in names if name)
        for name in names:
            if times[name.lower()] > 1:
                raise BadInputError(
                    "the header names a column twice",
                    file=location.full_path(file),
                    column=name,
                    remedy="give each column of the file a name of its own",
                )
        return tuple(names)

    def records(self, lines: Iterable[str], *, strict: bool = False) -> Iterator[list[str]]:
        """The records of CSV text as lists of values, without blank lines and comments.

        Args:
            lines: The text.
            strict: Raise ``csv.Error`` for a quote that is not closed, or closed within a value.
        """
        comment = self.option("comment", default="")
        quote = self.option("quote", default='"')
        escape = self.option("escape", default=quote)
        records = csv.reader(
            (line for line in lines if not (comment and line.startswith(comment))),
            delimiter=self.option("sep", "delimiter", default=","),
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            escapechar=None if escape == quote else escape or None,
            strict=strict,
        )
        return (record for record in records if any(record) or len(record) > 1)

    def count_rows(self, location: FileLocation, file: SourceFile) -> int:
        """How many lines of data a file has; exact unless values span lines."""
        lines, last = 0, b"\n"
        with readable(location, file), location.opened(file, decompress=True) as stream:
            while block := stream.read(_BLOCK):
                lines += block.count(b"\n")
                last = block[-1:]
        return max(lines + (last != b"\n") - self.has_header, 0)

    @property
    def is_wide(self) -> bool:
        """Characters have more bytes than one, so that lines cannot be found by theirs."""
        return self.encoding.replace("-", "").replace("_", "").startswith(("utf16", "utf32"))

    @property
    def has_several_lines(self) -> bool:
        """A record may go on in the next line, on Spark."""
        return self.option("multiLine", default="false").lower() == "true"

    @property
    def is_looked_into(self) -> bool:
        """A file's first line tells something: its columns, or by how its characters begin in what order their bytes are."""
        return self.has_header or self.is_wide

    def verify(
        self, location: FileLocation, file: SourceFile, columns: Mapping[str, Any], missing: MissingColumns = "fail"
    ) -> None:
        """Look whether a CSV file's header has all columns, unless some may be missing.

        Raises:
            BadInputError: A column is not there.
        """
        if not self.has_header:
            with decoded_lines(location, file, self) as lines:
                next(lines, None)
            return
        spelt = {column.lower(): column for column in columns}
        found = {spelt.get(name.lower(), name.lower()) for name in self.header(location, file)}
        otherwise = "correct the file, or read files of the other layout with a source of their own"
        path = location.full_path(file)
        require_columns(columns, found, missing, where="file's header", file=path, otherwise=otherwise)


@contextmanager
def readable(location: FileLocation, file: SourceFile) -> Iterator[None]:
    """Turns what goes wrong while a file's bytes are read into errors that name the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"{OF_NO_ENCODING} {error.encoding} ({error.reason} at byte {error.start})",
            file=location.full_path(file),
            remedy=SAY_WHICH,
        ) from error
    except UnicodeError as error:
        raise BadInputError(
            f"{OF_NO_ENCODING} that is said ({error})", file=location.full_path(file),
            remedy="say in what order the bytes of a character are, such as options={'encoding': 'UTF-16LE'}",
        ) from error  # fmt: skip
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise BadInputError(
            f"an input file is truncated or unreadable ({error})", file=location.full_path(file),
            remedy="write it again as a whole, elsewhere first and then moved here, or remove it",
        ) from error  # fmt: skip


@contextmanager
def decoded_lines(location: FileLocation, file: SourceFile, text: TextFormat) -> Iterator[Iterator[str]]:
    """The lines of a text file, decompressed and decoded, with their line ends."""
    check_encoding(text)
    encoding = "utf-8-sig" if text.is_utf8 else text.encoding
    with readable(location, file), location.opened(file, decompress=True) as stream:
        begun = io.BufferedReader(stream)
        refuse_other_content(begun.peek(LOOKED_AT), location.full_path(file), text.encoding, is_wide=text.is_wide)
        lines = bounded_lines(io.TextIOWrapper(begun, encoding=encoding, newline=""), location.full_path(file))
        first = next(lines, "").removeprefix("\ufeff")  # it is left there where the encoding says the order of bytes
        yield itertools.chain([first] if first else [], lines)


@lru_cache(maxsize=1 << 17)
def require_text(location: FileLocation, file: SourceFile, text: TextFormat) -> None:
    """See that a file begins as text of its encoding does; it is opened once, as long as it stays what it was.

    Raises:
        BadInputError: It is something else.
    """
    with readable(location, file), location.opened(file, decompress=True) as stream:
        refuse_other_content(bytes(stream.read(LOOKED_AT)), location.full_path(file), text.encoding, is_wide=text.is_wide)


def bounded_lines(text: IO[AnyStr], file: str) -> Iterator[AnyStr]:
    """The lines of a file with their ends; no line is read that would fill the memory.

    Args:
        text: The file.
        file: Its name in errors.

    Raises:
        BadInputError: A line is too long: a few kilobytes of a compressed file may be one of gigabytes.

    >>> list(bounded_lines(io.StringIO("a;b;"), "a.csv"))
    ['a;b;']
    """
    for number, line in enumerate(iter(partial(text.readline, LONGEST_LINE + 1), text.read(0)), start=1):
        if len(line) > LONGEST_LINE:
            raise BadInputError(
                f"a line is longer than {LONGEST_LINE >> 20} MB", file=file, line=number,
                remedy="write records on lines of their own; if the file is somebody else's, trust it not",
            )  # fmt: skip
        yield line


def check_encoding(text: TextFormat) -> None:
    """Refuse an encoding that Python does not know.

    Raises:
        PipelineError: It does not.
    """
    try:
        codecs.lookup(text.encoding)
    except LookupError:
        raise PipelineError(
            f"there is no encoding {text.encoding!r}",
            option="encoding",
            remedy="say one such as 'UTF-8', 'ISO-8859-1' or 'cp1252'",
        ) from None
