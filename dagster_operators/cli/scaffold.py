"""What ``dagster-operators`` writes to begin with: a package that brings one operator, and a small pipeline."""

from __future__ import annotations

import keyword
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Final, Literal, TypeAlias

import dagster_operators
from dagster_operators import plugins
from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import check_name

Way: TypeAlias = Literal["relational", "batch"]
"""What does the operator's work: DataFrames that the engine compiles, or Python over Arrow batches in its workers."""

WAYS: Final[tuple[Way, ...]] = ("relational", "batch")

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SUFFIX: Final = ".tmpl"


def new_operator(name: str, into: Path, way: Way = "relational") -> list[Path]:
    """Write a package that brings an operator, with three files for it, a test, a page and the entry point.

    Args:
        name: What the operator's kind and its method are called, as ``drop_nulls``.
        into: The folder that the package's folder is made in.
        way: What does the work.

    Returns:
        The files.

    Raises:
        PipelineError: The name is none, or taken; or the folder is there already.
    """
    _check_name(name)
    words = names(name)
    folder = into / words["distribution"]
    if folder.exists():
        raise PipelineError(f"{str(folder)!r} is there already", remedy="choose another name, or another folder: --into FOLDER")
    written = []
    for relative, text in _rendered(words, way):
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(path)
    return written


def add_operator(name: str, package: Path, way: Way = "relational") -> list[Path]:
    """Write an operator into a package that exists: a folder with its three files, a test, a page, and its entry point.

    Args:
        name: The operator's kind, and its method.
        package: The folder with the package's ``pyproject.toml``.
        way: What does the work.

    Returns:
        The files; the last one is ``pyproject.toml``, which has one line more.

    Raises:
        PipelineError: The name is none, or taken; the folder has no package; or a file is there already.
    """
    _check_name(name)
    project = package / "pyproject.toml"
    source = _source_of(package)
    words = names(name) | {"package": f"{source.name}.{name}"}
    made = {}
    for relative, text in _rendered(words, way, parts=(way,)):
        inside, _, rest = relative.partition(f"src/{words['package']}/")
        made[package / relative if inside else source / name / rest] = text
    made[source / name / "__init__.py"] = f'"""The operator {name}."""\n'
    page = files("dagster_operators.cli") / "templates" / "package" / "docs" / f"@name.md{_SUFFIX}"
    made[package / "docs" / f"{name}.md"] = Template(page.read_text()).substitute(words)
    if there := next((path for path in made if path.exists()), None):
        raise PipelineError(f"{str(there)!r} is there already", remedy="choose another name")
    settings = _with_entry_point(project.read_text(), f'{name} = "{words["package"]}.lowering:register"', project)
    for path, text in {**made, project: settings}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [*made, project]


def _source_of(package: Path) -> Path:
    """The folder of the Python package, of which a project has one."""
    if not (package / "pyproject.toml").is_file():
        raise PipelineError(f"{str(package)!r} has no pyproject.toml", remedy="give the folder of the package: --add-to FOLDER")
    base = package / "src" if (package / "src").is_dir() else package
    found = [part.parent for part in sorted(base.glob("*/__init__.py")) if part.parent.name != "tests"]
    if len(found) != 1:
        told = ", ".join(part.name for part in found) or "none"
        raise PipelineError(f"{str(base)!r} has not one Python package: {told}", remedy="give the folder of a package with one")
    return found[0]


def _with_entry_point(text: str, line: str, project: Path) -> str:
    """The text of a ``pyproject.toml`` with an entry point more."""
    header = '[project.entry-points."dagster_operators.operators"]'
    if header in text.splitlines():
        changed = text.replace(f"{header}\n", f"{header}\n{line}\n", 1)
    else:
        changed = f"{text.rstrip()}\n\n{header}\n{line}\n"
    try:
        tomllib.loads(changed)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(
            f"the entry point cannot be added to {str(project)!r}: {error}", remedy=f"write the section {header} in that form"
        ) from error
    return changed


def new_pipeline(name: str, into: Path) -> list[Path]:
    """Write a small pipeline with Dagster's definitions and some input.

    Args:
        name: The pipeline's name.
        into: The folder; made if need be.

    Returns:
        The files.

    Raises:
        PipelineError: The name is none, or one of the files is there already.
    """
    check_name("pipeline", name)
    template = files("dagster_operators.cli") / "templates" / "init"
    made = {
        into / place.removesuffix(_SUFFIX): Template(part.read_text()).substitute(name=name)
        for place, part in _templates(template)
    }
    if there := next((path for path in made if path.exists()), None):
        raise PipelineError(f"{str(there)!r} is there already", remedy="name another folder: dagster-operators init FOLDER")
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(made)


def names(name: str) -> dict[str, str]:
    """What the package and what is in it are called.

    >>> names("drop_nulls")["distribution"], names("drop_nulls")["package"], names("drop_nulls")["class"]
    ('dagster-operators-drop-nulls', 'dagster_operators_drop_nulls', 'DropNulls')
    """
    return {
        "name": name,
        "class": _class_name(name),
        "package": f"dagster_operators_{name}",
        "distribution": f"dagster-operators-{name.replace('_', '-')}",
        "version": dagster_operators.__version__,
    }


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        remedy = "write small letters and digits with _ between: drop_nulls"
        raise PipelineError(f"{name!r} is no name for an operator", remedy=remedy)
    owner = catalog().owner_of(name)
    if owner is not None:
        raise PipelineError(f"the name {name!r} is taken by {owner!r}", kind=name, remedy="choose another name")
    made = _class_name(name)
    if made in {*plugins.__all__, *dagster_operators.__all__}:
        problem = f"a class {made!r} would be mistaken for the one of this package"
        raise PipelineError(problem, kind=name, remedy="choose another name")


def _rendered(words: Mapping[str, str], way: Way, parts: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """The files by their place in the package's folder."""
    templates = files("dagster_operators.cli") / "templates"
    for folder in parts or ("package", way):
        for relative, template in _templates(templates / folder):
            where = Template(relative.replace("@", "$")).substitute(words)
            yield where.removesuffix(_SUFFIX), Template(template.read_text()).substitute(words)


def _templates(folder: Traversable, place: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _templates(entry, f"{place}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield f"{place}{entry.name}", entry
