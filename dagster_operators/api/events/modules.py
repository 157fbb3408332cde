"""Modules of a dataflow: a node that is a file with nodes of its own, which come in its place, as in dora.

The nodes of the module ``pipeline`` are ``pipeline.doubler`` and so on. Within the file ``_mod/name`` is an input of the module,
and what others read as ``pipeline/name`` is the output of that name of a node within.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from dagster_operators.api.events.noted import Noted
from dagster_operators.api.queries.located import Located, read_yaml
from dagster_operators.errors import QueryError

_NODE: Final = ("id", "name", "description", "module", "inputs", "params", "env", "deploy")
_HEADER: Final = ("name", "inputs", "inputs_optional", "outputs")
_INPUT: Final = "_mod/"
_MOST_NESTED: Final = 8
_FILES: Final = ("path", "python", "shared-library")
_PARAM: Final = re.compile(r"\$\{_param\.([A-Za-z0-9_-]+)\}")


def expanded(root: Located, folder: Path, noted: Noted) -> tuple[Located, set[str]]:
    """A dataflow with the nodes of its modules in the place of these, and the modules whose outputs are not known.

    Args:
        root: The dataflow.
        folder: The folder of its file.
        noted: Collects what is wrong.
    """
    nodes = root.data.get("nodes")
    if nodes is None or not isinstance(nodes.data, tuple) or not any(map(_is_module, nodes.data)):
        return root, set()
    modules = _Modules(folder.resolve(), noted)
    made = modules.nodes(nodes.data, folder.resolve(), ())
    return replace(root, data={**root.data, "nodes": replace(nodes, data=tuple(made))}), modules.lost


class _Modules:
    """Puts nodes in the place of modules.

    Args:
        base: The folder of the dataflow's file, which nothing may lead out of.
        noted: Collects what is wrong.

    Attributes:
        lost: The ids of modules whose outputs are not known, as something is wrong with them.
    """

    def __init__(self, base: Path, noted: Noted) -> None:
        self.lost: set[str] = set()
        self._base = base
        self._noted = noted

    def nodes(self, given: tuple[Located, ...], folder: Path, within: tuple[Path, ...]) -> list[Located]:
        """The nodes of a file, modules replaced; ``within`` are the modules' files that it lies in."""
        outputs: dict[str, Mapping[str, str]] = {}
        made: list[Located] = []
        for node in given:
            name = _text(node, "id")
            if not _is_module(node) or not name:
                made.append(node)
                continue
            inner, outputs[name] = self._module(node, name, folder, within)
            made += inner
        return [_read_by(node, lambda source: self._address(source, outputs)) for node in made]

    def _address(self, source: Located, outputs: Mapping[str, Mapping[str, str]]) -> Located:
        """What an input reads, where that is an output of a module."""
        name, _, output = source.text.partition("/")
        if name not in outputs:
            return source
        if name in self.lost:
            return source
        if output not in outputs[name]:
            known = ", ".join(sorted(f"{name}/{one}" for one in outputs[name])) or "none"
            self._noted.wrong(source, f"the module {name!r} has no output {output!r}", f"there are: {known}")
            self.lost.add(name)  # it was told
            return source
        return replace(source, data=outputs[name][output], text=outputs[name][output])

    def _module(self, node: Located, name: str, folder: Path, within: tuple[Path, ...]) -> tuple[list[Located], dict[str, str]]:
        """The nodes of a module, and the address of each of its outputs."""
        what = f"the module {name!r}"
        self._noted.unknown_keys(what, node, _NODE)
        file = self._file(node, what, folder, within)
        read = None if file is None else self._read(node.data["module"], what, file)
        if file is None or read is None:
            self.lost.add(name)
            return [], {}
        if "build" in read.data:
            problem = f"{what}: commands of the module as a whole are not run here"
            self._noted.wrong(read.data["build"], problem, "write build: at a node of the module")
        header, at = read.data["module"], file.parent.relative_to(self._base)
        nodes = [_in_folder(one, file.parent, at) for one in read.data["nodes"].data]
        inner = self.nodes(tuple(nodes), file.parent, (*within, file))
        own = {_text(one, "id") for one in inner}
        inputs = self._inputs(node, header, what)
        made = []
        for one in inner:
            moved = _moved(one, name, _keys(node, "params"))
            if "env" in node.data and isinstance(node.data["env"].data, dict):
                env = moved.data.get("env")
                both = {**node.data["env"].data, **(env.data if env is not None and isinstance(env.data, dict) else {})}
                moved = replace(moved, data={**moved.data, "env": replace(node.data["env"], data=both)})
            made.append(_read_by(moved, lambda source: _inner_source(source, name, own, inputs)))
        return made, self._outputs(header, inner, name, what)

    def _file(self, node: Located, what: str, folder: Path, within: tuple[Path, ...]) -> Path | None:
        """The file of a module."""
        given = node.data["module"]
        if not isinstance(given.data, str) or Path(given.data).is_absolute():
            self._noted.wrong(
                given, f"{what}: its file is {given.text!r}", "write its path as seen from this file: modules/a.yml"
            )
            return None
        file = (folder / given.data).resolve()
        problem, remedy = "", "give its path as seen from this file"
        if not file.is_relative_to(self._base):
            problem, remedy = "leads out of the dataflow's folder", "put it below that folder"
        elif file in within:
            problem, remedy = "is a module within itself", "take one of the two out"
        elif len(within) >= _MOST_NESTED:
            problem, remedy = f"is nested more than {_MOST_NESTED} deep", "take some modules out"
        elif not file.is_file():
            problem = "is not there"
        if problem:
            self._noted.wrong(given, f"{what}: the file {given.data!r} {problem}", remedy)
            return None
        return file

    def _read(self, given: Located, what: str, file: Path) -> Located | None:
        """A module's file, if it is one."""
        name = str(file.relative_to(self._base))
        try:
            root = read_yaml(file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            self._noted.wrong(given, f"{what}: the file {given.data!r} cannot be read: {error}", "correct the file")
            return None
        except QueryError as error:
            self._noted.note(type(error)(error.problem, **{**error.where, "file": name}, remedy=error.remedy))
            return None
        root = in_file(root, name)
        header = root.data.get("module") if isinstance(root.data, dict) else None
        nodes = root.data.get("nodes") if isinstance(root.data, dict) else None
        if header is None or not isinstance(header.data, dict) or nodes is None or not isinstance(nodes.data, tuple):
            remedy = "write module: {name: ..., inputs: [...], outputs: [...]}, and nodes: with its nodes"
            self._noted.wrong(root, f"{what}: the file is no module", remedy)
            return None
        self._noted.unknown_keys("a module's file", root, ("module", "nodes", "build"))
        self._noted.unknown_keys("a module", header, _HEADER)
        return root

    def _inputs(self, node: Located, header: Located, what: str) -> dict[str, Located | None]:
        """What each input of a module reads; None of one that may read nothing, and does."""
        given = _keys(node, "inputs")
        wanted, may = _names(header, "inputs"), _names(header, "inputs_optional")
        for name in wanted:
            if name not in given:
                remedy = f"write {name}: node/output below its inputs:"
                self._noted.wrong(node, f"{what}: its input {name!r} reads nothing", remedy)
        for name, value in given.items():
            if name not in (*wanted, *may):
                known = ", ".join((*wanted, *may)) or "none"
                self._noted.wrong(value, f"{what} has no input {name!r}", f"there are: {known}")
        return {name: _source(given[name]) if name in given else None for name in (*wanted, *may)}

    def _outputs(self, header: Located, inner: list[Located], name: str, what: str) -> dict[str, str]:
        """The address of each output of a module."""
        made: dict[str, list[str]] = {}
        for node in inner:
            for output, address in _outputs_of(node):
                made.setdefault(output, []).append(f"{name}.{address}")
        found = {}
        for output in _names(header, "outputs"):
            by = made.get(output, [])
            if len(by) == 1:
                found[output] = by[0]
            elif by or not self.lost:
                self.lost.add(name)
                told = f"nodes within send it: {', '.join(by)}" if by else "no node within sends it"
                remedy = "give one of them another name" if by else "declare it in outputs: of a node of the module"
                self._noted.wrong(header.data["outputs"], f"{what} has the output {output!r}, and {told}", remedy)
        return found


def _moved(node: Located, module: str, params: Mapping[str, Located]) -> Located:
    """A node of a module under its own id, with the module's parameters."""
    if not isinstance(node.data, dict) or "id" not in node.data:
        return node
    own = node.data["id"]
    data = {**node.data, "id": replace(own, data=f"{module}.{own.text}", text=f"{module}.{own.text}")}
    if params:
        if "args" in data and isinstance(data["args"].data, str):
            text = _PARAM.sub(lambda one: params[one[1]].text if one[1] in params else one[0], data["args"].data)
            data["args"] = replace(data["args"], data=text, text=text)
        env = _keys(node, "env") | {re.sub(r"\W", "_", name).upper(): value for name, value in params.items()}
        data["env"] = replace(next(iter(params.values())), data=env, text="")
    return replace(node, data=data)


def in_file(value: Located, file: str) -> Located:
    """A value, and all within it, as one of a file.

    >>> in_file(read_yaml("a: 1"), "modules/a.yml").data["a"].place
    {'file': 'modules/a.yml', 'line': 1, 'character': 4}
    """
    if isinstance(value.data, dict):
        return replace(value, file=file, data={name: in_file(one, file) for name, one in value.data.items()})
    if isinstance(value.data, tuple):
        return replace(value, file=file, data=tuple(in_file(one, file) for one in value.data))
    return replace(value, file=file)


def _is_module(node: Located) -> bool:
    return isinstance(node.data, dict) and "module" in node.data


def _text(node: Located, key: str) -> str:
    value = node.data.get(key) if isinstance(node.data, dict) else None
    return "" if value is None or isinstance(value.data, dict | tuple) else value.text


def _keys(node: Located, key: str) -> dict[str, Located]:
    """What is below a key of a node, by name."""
    found = node.data.get(key)
    return dict(found.data) if found is not None and isinstance(found.data, dict) else {}


def _names(node: Located, key: str) -> tuple[str, ...]:
    """The names in a list below a key."""
    found = node.data.get(key)
    return tuple(one.text for one in found.data) if found is not None and isinstance(found.data, tuple) else ()


def _source(value: Located) -> Located | None:
    """What an input reads."""
    return value.data.get("source") if isinstance(value.data, dict) else value


def _blocks(node: Located) -> Iterator[tuple[str, ...]]:
    """The ways to what has inputs, outputs and a file in a node: the node, its operator, each of its operators."""
    yield ()
    for key in ("operator", "operators"):
        block = node.data.get(key) if isinstance(node.data, dict) else None
        if block is not None and isinstance(block.data, dict):
            yield (key,)
        elif block is not None and isinstance(block.data, tuple):
            yield from ((key, str(number)) for number in range(len(block.data)))


def _at(node: Located, way: tuple[str, ...]) -> Located:
    for key in way:
        node = node.data[int(key)] if isinstance(node.data, tuple) else node.data[key]
    return node


def _with(node: Located, way: tuple[str, ...], block: Located) -> Located:
    """A node with another block at the end of a way."""
    if not way:
        return block
    if isinstance(node.data, tuple):
        number = int(way[0])
        return replace(node, data=(*node.data[:number], _with(node.data[number], way[1:], block), *node.data[number + 1 :]))
    return replace(node, data={**node.data, way[0]: _with(node.data[way[0]], way[1:], block)})


def _outputs_of(node: Located) -> Iterator[tuple[str, str]]:
    """Each output of a node, and its address."""
    name = _text(node, "id")
    for way in _blocks(node):
        block = _at(node, way)
        between = f"{_text(block, 'id')}/" if len(way) == 2 else ""  # noqa: PLR2004 - one of several operators
        if isinstance(block.data, dict):
            yield from ((output, f"{name}/{between}{output}") for output in _names(block, "outputs"))


def _read_by(node: Located, change: Callable[[Located], Located | None]) -> Located:
    """A node whose inputs read what a function gives; None takes the input out."""
    for way in _blocks(node):
        block = _at(node, way)
        inputs = block.data.get("inputs") if isinstance(block.data, dict) else None
        if inputs is None or not isinstance(inputs.data, dict):
            continue
        made = {}
        for name, value in inputs.data.items():
            source = _source(value)
            if source is None or not isinstance(source.data, str):
                made[name] = value
                continue
            found = change(source)
            if found is not None:
                is_plain = not isinstance(value.data, dict)
                made[name] = found if is_plain else replace(value, data={**value.data, "source": found})
        block = replace(block, data={**block.data, "inputs": replace(inputs, data=made)})
        node = _with(node, way, block)
    return node


def _inner_source(source: Located, module: str, own: set[str], inputs: Mapping[str, Located | None]) -> Located | None:
    """What an input of a node within a module reads, as seen from outside."""
    if source.text.startswith(_INPUT) and source.text.removeprefix(_INPUT) in inputs:
        return inputs[source.text.removeprefix(_INPUT)]
    if source.text.partition("/")[0] in own:
        return replace(source, data=f"{module}.{source.text}", text=f"{module}.{source.text}")
    return source


def _in_folder(node: Located, folder: Path, at: Path) -> Located:
    """A node with its files as seen from the dataflow's folder."""
    for way in _blocks(node):
        block = _at(node, way)
        for key in _FILES if isinstance(block.data, dict) else ():
            value = block.data.get(key)
            if value is None:
                continue
            if isinstance(value.data, dict) and "source" in value.data:
                inner = _file_in(value.data["source"], folder, at, key)
                value = replace(value, data={**value.data, "source": inner})
            else:
                value = _file_in(value, folder, at, key)
            block = replace(block, data={**block.data, key: value})
        node = _with(node, way, block)
    return node


def _file_in(value: Located, folder: Path, at: Path, key: str) -> Located:
    """A file's path as seen from another folder; a command stays what it is."""
    if not isinstance(value.data, str) or Path(value.data).is_absolute() or "://" in value.data:
        return value
    is_command = key == "path" and "/" not in value.data and not (folder / value.data).exists()
    if is_command and not (folder / f"{value.data}.py").exists() and not value.data.endswith(".py"):
        return value
    text = (at / value.data).as_posix()
    return replace(value, data=text, text=text)
