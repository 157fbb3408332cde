"""The nodes of a dataflow's file: which kind each is, and the operators in it, as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from dagster_operators.api.events.noted import Noted
from dagster_operators.api.events.operator_files import OperatorFiles
from dagster_operators.api.events.python_files import PythonFiles
from dagster_operators.api.events.settings_of_dora import check_outputs, check_settings
from dagster_operators.api.events.value_types import value_type
from dagster_operators.api.events.written import Env, WrittenInput, WrittenOperator
from dagster_operators.api.queries.located import Located
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.events.routes import LEAST, ROUTED
from dagster_operators.time.watermark import parse_duration

KINDS: Final = ("operator", "operators", "source", "path", "table", "ros2", "module", "from")
"""The keys that say what a node is."""

_SHARED: Final = ("id", "name", "description", "env", "deploy", "cpu_affinity")
_TOLD: Final = (
    "name", "description", "output_framing", "output_metadata", "pattern", "min_log_level", "max_log_size",
    "max_rotated_files", "restart_policy", "max_restarts", "restart_delay",
)  # fmt: skip
"""Keys of an operator that change nothing here: what is told to people, or done anyway."""

_OPERATOR: Final = (
    "id", "python", "shared-library", "inputs", "outputs", "output_types", "input_types", "env", "state", "time_limit",
    "partition_by", "restart",
)  # fmt: skip
_LANGUAGES: Final = {"shared-library": "library", "path": "script", "python": "python"}
"""What the key with an operator's file says."""

_STATES: Final = {"python": ("plain", "pickle"), "library": ("replay", "none"), "script": ("replay", "none", "live")}
"""How the state of an operator can be kept, what it is by default first."""

_REFUSED: Final = {
    "wasm": ("operators in WebAssembly are not run here, nor by dora", "write it in Python"),
    "git": ("nothing is downloaded here", "download it, and give its path"),
    "hub": ("nothing is downloaded here", "download it, and give its path"),
}
_OF_GIT: Final = ("branch", "tag", "rev")
"""Keys beside ``git``, which is refused."""

_BUILD: Final = "build"
_OF_SCRIPTS: Final = (
    "path_sha256", "max_restart_delay", "restart_window", "health_check_timeout", "finish_grace_secs", "shared_memory_pool_size",
)  # fmt: skip
"""More keys of nodes that are scripts: what their file must be, and what changes nothing here."""

_INPUT: Final = ("source", "queue_size", "queue_policy", "delay")
_NODE_ID: Final = re.compile(r"(?!\.)[A-Za-z0-9_.-]+")
_DATA_ID: Final = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")


class NodeReader:
    """Reads the nodes of a file.

    Args:
        noted: Collects what is wrong.
        files: Takes the operators' files.

    Attributes:
        unsure: The ids of nodes whose outputs are not known, as something is wrong with them: nothing is told of who reads them.
    """

    def __init__(self, noted: Noted, files: PythonFiles) -> None:
        self._noted = noted
        self._files = OperatorFiles(noted, files)
        self._ids: set[str] = set()
        self.unsure: set[str] = set()

    def nodes(self, root: Located) -> Iterator[tuple[str, str, Located]]:
        """The id, the kind and the content of each node that is one."""
        given = root.data.get("nodes")
        if given is None or not isinstance(given.data, tuple) or not given.data:
            self._noted.wrong(given or root, "the dataflow has no list of nodes", "write nodes: with a node in each '- id: ...'")
            return
        for node in given.data:
            name = self._id(node, "node", self._ids)
            kinds = [kind for kind in KINDS if isinstance(node.data, dict) and kind in node.data]
            if name is not None and len(kinds) != 1:
                told = "multiple exclusive fields set" if kinds else "says nothing of what it is"
                self._noted.wrong(node, f"the node {name!r}: {told}", f"give it one of: {', '.join(KINDS[:5])}")
                self.unsure.add(name)
            elif name is not None and kinds[0] == "from":
                yield from self._of_stream(name, node)
            elif name is not None:
                yield name, kinds[0], node

    def _of_stream(self, name: str, node: Located) -> Iterator[tuple[str, str, Located]]:
        """A node that names its rows with ``from``, as queries do, as one that names them with ``source``."""
        stream = node.data["from"]
        if not isinstance(stream.data, str):
            remedy = "write from: and the name of a stream or source; a source of the file's own stands under source:"
            self._noted.wrong(stream, f"the node {name!r}: from is {stream.text or stream.plain()!r}, not a name", remedy)
            self.unsure.add(name)
            return
        yield name, "source", replace(node, data={"source" if key == "from" else key: of for key, of in node.data.items()})

    def operators(self, name: str, kind: str, node: Located) -> Iterator[WrittenOperator]:
        """The operators of a node."""
        self._check_node(name, kind, node)
        given = node.data[kind]
        if kind == "operator":
            if not self._is_mapping(given, f"the operator of {name!r}"):
                self.unsure.add(name)
            else:
                yield self._operator(name, "op", given, alone=True, env=self.env(node))
            return
        ids: set[str] = set()
        if not isinstance(given.data, tuple) or not given.data:
            told = "are no list" if given.data else "are none"
            self._noted.wrong(given, f"the operators of {name!r} {told}", "begin each with '- id: ...'")
            self.unsure.add(name)
            return
        for one in given.data:
            own = self._id(one, f"operator of {name!r}", ids)
            if own is None:
                self.unsure.add(name)
            else:
                yield self._operator(name, own, one, alone=False, env=self.env(node))

    def script(self, name: str, node: Located) -> WrittenOperator:
        """A node that is a script, which is read like its only operator."""
        return self._operator(name, "op", node, alone=True, env=self.env(node))

    def env(self, given: Located) -> Env:
        """The variables of the environment that a mapping gives under ``env``."""
        found = given.data.get("env")
        if found is None or not self._is_mapping(found, "env"):
            return ()
        for name, value in found.data.items():
            if isinstance(value.data, dict | tuple):
                self._noted.wrong(value, f"the variable {name!r} is no text or number", "write NAME: value")
        return tuple((name, _text(value)) for name, value in found.data.items())

    def _check_node(self, name: str, kind: str, node: Located) -> None:
        for key in node.data:
            if key in (*_OPERATOR, *_TOLD) and key not in (*_SHARED, kind):
                self._noted.wrong(
                    node.data[key], f"the node {name!r} has {key!r} beside its {kind}", f"move it into the {kind}: block"
                )
        self._noted.unknown_keys(f"the node {name!r}", node, (*_SHARED, kind, *_OPERATOR, *_TOLD), told=(*_SHARED, kind))
        check_settings(f"the node {name!r}", node, self._noted)

    def _operator(self, node: str, own: str, given: Located, *, alone: bool, env: Env) -> WrittenOperator:
        is_script = "path" in given.data
        what = f"the {'node' if is_script else 'operator'} {node!r}" if alone else f"the operator '{node}/{own}'"
        if _misspelt(given, "outputs"):
            self.unsure.add(node)
        for key, (problem, remedy) in _REFUSED.items():
            if key in given.data:
                self._noted.wrong(given.data[key], f"{what}: {problem}", remedy)
        self._note_build(given, what)
        of_git = _OF_GIT if "git" in given.data else ()
        if is_script:
            known = (*_SHARED, "path", "args", *_OPERATOR[3:])
            self._noted.unknown_keys(what, given, (*known, *_TOLD, *ROUTED, *_OF_SCRIPTS, *_REFUSED, *of_git, _BUILD), told=known)
        else:
            self._noted.unknown_keys(what, given, (*_OPERATOR, *_TOLD, *ROUTED, *_REFUSED, _BUILD), told=_OPERATOR)
            own = self._text_of(given, "id", own, what)
        check_settings(what, given, self._noted)
        language = self._language(given, what)
        state = self._text_of(given, "state", _STATES[language][0], what)
        if state not in _STATES[language]:
            told = " or ".join(_STATES[language])
            self._noted.wrong(given.data["state"], f"{what}: its state cannot be saved as {state!r}", f"write {told}")
        inputs, outputs, types = self._inputs(given, what), self._outputs(given, what), self._types(given, what)
        said = self._said(given, "output_types", outputs, what)
        wanted = self._said(given, "input_types", tuple(_keys_of(given, "inputs")), what)
        check_outputs(what, given, outputs, self._noted)
        file = self._file(language, given, what) or ""
        if not is_script and not has_inputs(given):
            self._noted.wrong(given, f"{what} has no inputs, so that it is told of nothing", "give it a timer: dora/timer/secs/1")
        own_env = (*env, *(() if is_script else self.env(given)))
        limit = self._duration(given, "time_limit", 600_000_000, what)
        by = given.data.get("partition_by")
        if by is not None and not (isinstance(by.data, str) and by.data):
            self._noted.wrong(by, f"{what}: partition_by is no column", "write partition_by: column")
            by = None
        again = self._text_of(given, "restart", "", what)
        args = tuple(self._text_of(given, "args", "", what).split()) if is_script else ()
        routes = self._routes(given, language, outputs, what)
        settings = (types, own_env, state, language, limit, by, again, said, wanted, args, routes)
        return WrittenOperator(node, own, alone, file, given, inputs, outputs, *settings)

    def _routes(self, given: Located, language: str, outputs: tuple[str, ...], what: str) -> tuple[tuple[str, str], ...]:
        """Where what it prints and logs is sent."""
        found = [(key, self._text_of(given, key, "", what)) for key in ROUTED if key in given.data]
        for key, output in found:
            if key != LEAST and language == "library":
                self._noted.wrong(given.data[key], f"{what}: what a library prints is no output here", "send it as a message")
            elif key != LEAST and output not in outputs:
                self._noted.wrong(given.data[key], f"{what}: {key} names no output of it: {output!r}", "declare it in outputs:")
        return tuple(found) if any(key != LEAST for key, _ in found) else ()

    def _note_build(self, given: Located, what: str) -> None:
        """Note the commands that build an operator or node: a line each."""
        found = given.data.get(_BUILD)
        if found is None or found.data is None:
            return
        if not isinstance(found.data, str):
            self._noted.wrong(found, f"{what}: build is no text", "write build: with a command in each line")
            return
        self._noted.remark(found, f"{what} is built by dagster-operators run --build alone: {found.data.strip()}")

    def _language(self, given: Located, what: str) -> str:
        """In what an operator is written."""
        found = [language for key, language in _LANGUAGES.items() if key in given.data]
        if not found and not _REFUSED.keys() & given.data.keys():
            self._noted.wrong(given, f"{what} has no source", "write python: with the name of its file")
        return found[0] if found else "python"

    def _file(self, language: str, given: Located, what: str) -> str | None:
        """The file that it is in."""
        if language == "library":
            return self._files.shared_library(given, what)
        if language == "script":
            return self._files.script(given, what)
        return self._files.python(given, what) if "python" in given.data else None

    def _duration(self, given: Located, key: str, default: int, what: str) -> int:
        """The microseconds that a value has."""
        found = given.data.get(key)
        if found is None:
            return default
        try:
            micros = parse_duration(found.text)
        except ValueError:
            micros = 0
        if micros <= 0:
            self._noted.wrong(found, f"{what}: its {key} is {found.text!r}", "write '10 seconds', say")
        return max(micros, 1)

    # --- inputs and outputs ------------------------------------------------------------------------------------------

    def _inputs(self, given: Located, what: str) -> list[WrittenInput]:
        found = given.data.get("inputs")
        if found is None or not self._is_mapping(found, f"inputs of {what}"):
            return []
        made = []
        for name, value in found.data.items():
            if not _DATA_ID.fullmatch(name):
                self._noted.wrong(value, f"{name!r} is no id for an input", "use letters, digits, _, - and .")
            one = self._input(name, value, f"the input {name!r} of {what}")
            if one is not None:
                made.append(one)
        return made

    def _input(self, name: str, value: Located, what: str) -> WrittenInput | None:
        if not isinstance(value.data, dict):
            return WrittenInput(name, value) if self._is_text(value, what) else None
        self._noted.unknown_keys(what, value, (*_INPUT, "input_timeout"), told=_INPUT)
        if "input_timeout" in value.data:
            problem = f"{what}: it cannot time out, since here an input is closed when what it reads is, and not by a clock"
            remedy = "leave input_timeout out; let the operator read a timer, too, and see at a tick how old the last message is"
            self._noted.wrong(value.data["input_timeout"], problem, remedy)
        source, size, policy, _ = (value.data.get(key) for key in _INPUT)
        if source is None:
            self._noted.wrong(value, f"{what} has no source", "write source: node/output")
            return None
        if policy is not None and policy.data not in ("drop_oldest", "backpressure"):
            self._noted.wrong(policy, f"{what}: there is no queue_policy {policy.text!r}", "write drop_oldest or backpressure")
        if size is not None and (type(size.data) is not int or size.data < 0):
            self._noted.wrong(size, f"{what}: its queue_size is {size.text!r}", "write a whole number from 1 on")
            size = None
        keeps = (size is None and policy is None) or (policy is not None and policy.data == "backpressure")
        dropped = None if keeps else max(1, 10 if size is None else size.data)
        delay = self._duration(value, "delay", 0, what)
        return WrittenInput(name, source, dropped, delay) if self._is_text(source, what) else None

    def _outputs(self, given: Located, what: str) -> tuple[str, ...]:
        found = given.data.get("outputs")
        if found is None or found.data is None:
            return ()
        if not isinstance(found.data, tuple):
            self._noted.wrong(found, f"outputs of {what} are no list", "write one after another with '- '")
            return ()
        for value in found.data:
            self.check_output(value, what)
        return tuple(dict.fromkeys(value.text for value in found.data))

    def check_output(self, value: Located, what: str) -> None:
        """See that a value is an id for an output."""
        if isinstance(value.data, dict | tuple) or not _DATA_ID.fullmatch(value.text):
            self._noted.wrong(
                value, f"{what}: {value.text or value.plain()!r} is no id for an output", "use letters, digits, _, - and ."
            )

    def _types(self, given: Located, what: str) -> tuple[tuple[str, str], ...]:
        found = given.data.get("output_types")
        if found is None or not self._is_mapping(found, f"output_types of {what}"):
            return ()
        made = []
        for name, value in found.data.items():
            kind = self._type(value, what)
            if kind is not None:
                made.append((name, kind))
        return tuple(made)

    def _type(self, value: Located, what: str) -> str | None:
        """The type of values; None if it has but a name, or there is no such type."""
        try:
            return value_type(value.text)
        except OperatorsError as error:
            self._noted.wrong(value, f"{what}: {error.problem}", error.remedy)
            return None

    def _said(self, given: Located, key: str, of: tuple[str, ...], what: str) -> Mapping[str, Located]:
        """The types of outputs or inputs as they are written, which have to be there."""
        found = given.data.get(key)
        if found is None or not isinstance(found.data, dict):
            if found is not None and key != "output_types":
                self._is_mapping(found, f"{key} of {what}")
            return {}
        kind = key.partition("_")[0]
        for name, value in found.data.items():
            if name not in of:
                self._noted.wrong(found, f"{what} has no {kind} {name!r} for its type", f"declare it in {kind}s:")
            elif key != "output_types":
                self._type(value, what)
        return found.data

    # --- small things ------------------------------------------------------------------------------------------------

    def _id(self, given: Located, what: str, taken: set[str]) -> str | None:
        value = given.data.get("id") if isinstance(given.data, dict) else None
        if value is None or isinstance(value.data, dict | tuple):
            self._noted.wrong(value or given, f"a {what} has no id", "write id: name")
            return None
        name = str(value.text)
        if not _NODE_ID.fullmatch(name) or name == "dora":
            self._noted.wrong(value, f"{name!r} is no id for a {what}", "use letters, digits, _, - and .; 'dora' is taken")
            return None
        if name in taken:
            self._noted.wrong(value, f"there is another {what} with the id {name!r}", "give it another one")
            return None
        taken.add(name)
        return name

    def _is_mapping(self, given: Located, what: str) -> bool:
        if not isinstance(given.data, dict):
            self._noted.wrong(given, f"{what} is no mapping of keys to values", "write key: value")
        return isinstance(given.data, dict)

    def _is_text(self, given: Located, what: str) -> bool:
        if not isinstance(given.data, str):
            self._noted.wrong(given, f"{what} reads {given.text or given.plain()!r}", "write node/output")
        return isinstance(given.data, str)

    def _text_of(self, given: Located, key: str, default: str, what: str) -> str:
        found = given.data.get(key)
        if found is not None and isinstance(found.data, dict | tuple):
            self._noted.wrong(found, f"{what}: {key} is no text", f"write {key}: name")
            return default
        return default if found is None else found.text


def _misspelt(given: Located, key: str) -> bool:
    """Whether a key is not there, or no list, and another one may be meant as it."""
    found = given.data.get(key)
    if found is not None and found.data is not None:
        return not isinstance(found.data, tuple)
    return bool(get_close_matches(key, given.data.keys() - {*_OPERATOR, *_SHARED, *_TOLD, *_REFUSED}, n=1, cutoff=0.7))


def has_inputs(given: Located) -> bool:
    """Whether inputs are written, be there something wrong with them or not: what that is was told."""
    found = given.data.get("inputs")
    return found is not None and bool(found.data)


def _keys_of(given: Located, key: str) -> Iterable[str]:
    """The keys below a key."""
    found = given.data.get(key)
    return found.data if found is not None and isinstance(found.data, dict) else ()


def _text(value: Located) -> str:
    """A variable's value as an environment has it; a number as it is written."""
    if isinstance(value.data, str):
        return value.data
    return str(value.data).lower() if isinstance(value.data, bool) else value.text if value.data is not None else ""
