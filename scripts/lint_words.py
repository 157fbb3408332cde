"""Checks names and sentences: ``python scripts/lint_words.py``, which ``make lint`` calls.

A name in code says what it holds, so ``found``, ``told`` or ``one`` are none. A sentence of a docstring, of the documentation
or of ``CHANGELOG.md`` has at most 25 words. ``scripts/words_allowed.txt`` has the number of exceptions of each file.
A file has neither more nor fewer: after mending some, ``--lower`` takes the numbers down.
``--list FILE`` shows the exceptions of a file.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[1]
ALLOWED: Final = Path(__file__).with_name("words_allowed.txt")
CACHE: Final = REPOSITORY / ".cache" / "lint_words.json"
"""What each content had, so that only changed files are parsed."""

VAGUE: Final = frozenset(
    {"found", "told", "one", "made", "given", "others", "other", "known", "before", "after", "now", "then", "there", "own"}
    | {"kept", "what", "wanted"}
)
"""Names that say nothing about what they hold."""

MOST_WORDS: Final = 25
"""How many words a sentence may have."""

PAGES: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
GENERATED: Final = frozenset({"docs/engines_compared.md"})

_CODE: Final = re.compile(r"``.+?``|`[^`]+`|:\w+:`[^`]+`", re.DOTALL)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END: Final = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][)*\"'])|(?<=[.!?]\*\*))\s+")
_ITEM: Final = re.compile(r"\s*(?:[-*]|\d+\.)\s+")


class Finding(NamedTuple):
    """A vague name or a long sentence."""

    line: int
    text: str


def sentences(text: str) -> Iterator[str]:
    """The sentences of a paragraph; code and links count as a word, or as their words.

    >>> list(sentences("One `a b.` here. Two [of them](x.md)."))
    ['One CODE here.', 'Two of them.']
    """
    plain = _LINK.sub(r"\1", _CODE.sub("CODE", text))
    yield from (part for part in _END.split(" ".join(plain.split())) if part)


def words(sentence: str) -> int:
    """How many words a sentence has.

    >>> words("a - b, c")
    3
    """
    return sum(any(map(str.isalnum, word)) for word in sentence.split())


def long_sentences(paragraphs: Iterator[tuple[int, str]]) -> list[Finding]:
    """The sentences with too many words, with the line in which their paragraph begins."""
    return [
        Finding(line, f"{words(sentence)} words: {sentence}")
        for line, paragraph in paragraphs
        for sentence in sentences(paragraph)
        if words(sentence) > MOST_WORDS
    ]


def of_markdown(text: str) -> Iterator[tuple[int, str]]:
    r"""The paragraphs, items and cells of a page, without its code.

    >>> list(of_markdown("a\nb\n\n- c\n  d\n- e\n\n| f | g |"))
    [(1, 'a b'), (4, 'c d'), (6, 'e'), (8, 'f'), (8, 'g')]
    """
    start, lines, fenced = 0, list[str](), False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence, item, row = line.lstrip().startswith("```"), _ITEM.match(line), line.startswith("|")
        if lines and (fence or item or row or not line.strip() or line.startswith("#")):
            yield start, " ".join(lines)
            lines = []
        fenced ^= fence
        if fenced or fence or line.startswith("#"):
            continue
        if row:
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip("| ")) if cell.strip())
        elif line.strip():
            start = start if lines else number
            lines.append(line[item.end() :] if item and not lines else line.strip())


def of_docstring(text: str, first: int) -> Iterator[tuple[int, str]]:
    r"""The paragraphs and arguments of a docstring, without its examples and code.

    >>> list(of_docstring("a\n>>> b\n1\n\nArgs:\n    c: d", 1))
    [(1, 'a'), (6, 'c: d')]
    """
    start, lines, example, block = first, list[str](), False, -1
    for number, line in enumerate([*text.splitlines(), ""], first):
        stripped, depth = line.strip(), len(line) - len(line.lstrip())
        example = bool(stripped) and (example or stripped.startswith(">>>"))
        if stripped and depth <= block:
            block = -1
        entry = re.match(r"[\w`][\w, *`]*(?: \([^)]*\))?: |\w+:$|[-*] |\|", stripped)
        if lines and (not stripped or entry or example or block >= 0):
            yield start, " ".join(lines)
            lines = []
        if stripped and not example and block < 0 and not re.fullmatch(r"\w+:", stripped):
            start = start if lines else number
            lines.append(stripped)
            block = depth if stripped.endswith("::") else -1


def of_module(text: str) -> tuple[list[Finding], list[Finding]]:
    """The vague names and the long sentences of a module."""
    names, prose = list[Finding](), list[Finding]()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in VAGUE:
                names.append(Finding(node.lineno, name))
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                prose += long_sentences(of_docstring(docstring, node.lineno))
            case _:
                pass
    return names, prose


def findings_of(file: Path) -> tuple[list[Finding], list[Finding]]:
    """The vague names and the long sentences of a file."""
    text = file.read_text(encoding="utf-8")
    return of_module(text) if file.suffix == ".py" else ([], long_sentences(of_markdown(text)))


def checked_files() -> Iterator[Path]:
    """All files with names or sentences to check."""
    pages = [*(REPOSITORY / page for page in PAGES), *(REPOSITORY / "docs").rglob("*.md")]
    modules = [file for folder in ("dagster_operators", "scripts") for file in (REPOSITORY / folder).rglob("*.py")]
    for file in sorted({*pages, *modules}):
        if file.exists() and file.relative_to(REPOSITORY).as_posix() not in GENERATED and not file.stem.endswith("_pb2"):
            yield file


def counts() -> dict[str, tuple[int, int]]:
    """How many vague names and long sentences each file has, of those that have any."""
    version = Path(__file__).read_bytes()
    cached = json.loads(CACHE.read_text(encoding="utf-8")) if CACHE.exists() else {}
    used, result = {}, {}
    for file in checked_files():
        content = hashlib.sha256(version + file.suffix.encode() + file.read_bytes()).hexdigest()
        used[content] = cached.get(content) or [len(findings) for findings in findings_of(file)]
        if any(used[content]):
            result[file.relative_to(REPOSITORY).as_posix()] = (used[content][0], used[content][1])
    if used != cached:
        CACHE.parent.mkdir(exist_ok=True)
        CACHE.write_text(json.dumps(used), encoding="utf-8")
    return result


def allowed() -> dict[str, tuple[int, int]]:
    """The exceptions of each file."""
    lines = ALLOWED.read_text(encoding="utf-8").splitlines()
    return {path: (int(names), int(prose)) for names, prose, path in (line.split() for line in lines if not line.startswith("#"))}


def write(exceptions: dict[str, tuple[int, int]]) -> None:
    """Write the list of exceptions."""
    head = "# vague names, long sentences, file: scripts/lint_words.py reads it, and only --lower changes it\n"
    rows = (f"{names} {prose} {path}\n" for path, (names, prose) in sorted(exceptions.items()) if names or prose)
    ALLOWED.write_text(head + "".join(rows), encoding="utf-8")


def check(*, lower: bool) -> int:
    """Compare all files with their exceptions; the exit code."""
    current, exceptions, none = counts(), allowed(), (0, 0)
    more = {path for path, count in current.items() if any(map(int.__gt__, count, exceptions.get(path, none)))}
    fewer = {path for path, most in exceptions.items() if path not in more and current.get(path, none) != most}
    for path in sorted(more):
        show(REPOSITORY / path, exceptions.get(path, none))
    if lower:
        write(exceptions | {path: current.get(path, none) for path in fewer})
    elif fewer:
        say(f"fewer exceptions than listed, thank you: run scripts/lint_words.py --lower ({', '.join(sorted(fewer))})")
    return int(bool(more) or (bool(fewer) and not lower))


def show(file: Path, most: tuple[int, int]) -> None:
    """Print the exceptions of a file."""
    names, prose = findings_of(file)
    path = file.relative_to(REPOSITORY)
    say(f"{path}: {len(names)} vague names, {most[0]} allowed")
    say(f"{path}: {len(prose)} sentences of over {MOST_WORDS} words, {most[1]} allowed")
    for finding in sorted([*names, *prose]):
        say(f"  {path}:{finding.line}: {finding.text}")


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Read the arguments; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lower", action="store_true", help="take the numbers down to what there is")
    parser.add_argument("--list", type=Path, metavar="FILE", help="show the exceptions of a file")
    arguments = parser.parse_args()
    if arguments.list:
        show(arguments.list.resolve(), allowed().get(arguments.list.resolve().relative_to(REPOSITORY).as_posix(), (0, 0)))
        return 0
    return check(lower=arguments.lower)


if __name__ == "__main__":
    sys.exit(main())
