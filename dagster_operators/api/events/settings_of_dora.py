"""The keys of a dataflow's file by which dora runs its processes: they change nothing here, but their values are looked at."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Final, TypeAlias

from dagster_operators.api.events.noted import Noted
from dagster_operators.api.queries.located import Located

Test: TypeAlias = Callable[[Located], bool]

_SIZE: Final = re.compile(r"[0-9]+|[0-9]*\.?[0-9]+ *([KMG]?B|[KMG])", re.IGNORECASE)


def _one_of(*texts: str) -> Test:
    return lambda given: isinstance(given.data, str) and given.data in texts


def _is_text(given: Located) -> bool:
    return isinstance(given.data, str)


def _is_truth(given: Located) -> bool:
    return isinstance(given.data, bool)


def _is_number(given: Located) -> bool:
    return type(given.data) in (int, float) and isfinite(given.data)


def _is_seconds(given: Located) -> bool:
    return _is_number(given) and given.data >= 0


def _is_positive(given: Located) -> bool:
    return _is_number(given) and given.data > 0


def _whole(least: int, most: int = 2**32 - 1) -> Test:
    return lambda given: type(given.data) is int and least <= given.data <= most


def _is_size(given: Located) -> bool:
    return _whole(0, 2**63)(given) or (_is_text(given) and _SIZE.fullmatch(given.data.strip()) is not None)


def _is_level(given: Located) -> bool:
    return _is_text(given) and given.data.lower() in ("error", "warn", "info", "debug", "trace", "stdout")


def _list(of: Test) -> Test:
    return lambda given: isinstance(given.data, tuple) and all(map(of, given.data))


def _each(of: Test) -> Test:
    return lambda given: isinstance(given.data, dict) and all(map(of, given.data.values()))


def _keys(needed: bool = False, **tests: Test) -> Test:  # noqa: FBT001, FBT002 - whether all keys have to be there
    def fits(given: Located) -> bool:
        if not isinstance(given.data, dict) or (needed and given.data.keys() != tests.keys()):
            return False
        return all(key in tests and tests[key](value) for key, value in given.data.items())

    return fits


_SECONDS: Final = (_is_seconds, "seconds, from 0 on")
_TRUTH: Final = (_is_truth, "true or false")
_DEPLOY: Final = _keys(machine=_is_text, working_dir=_is_text, labels=_each(_is_text), distribute=_one_of("local", "scp", "http"))

_SETTINGS: Final[dict[str, tuple[Test, str]]] = {
    "name": (_is_text, "a text"),
    "description": (_is_text, "a text"),
    "deploy": (_DEPLOY, "machine, working_dir, labels (texts by name) or distribute (local, scp or http)"),
    "debug": (_keys(enable_debug_inspection=_is_truth), "enable_debug_inspection: true or false"),
    "health_check_interval": (_is_positive, "seconds, more than 0"),
    "strict_types": _TRUTH,
    "exit_when_nodes_finish": _TRUTH,
    "type_rules": (_list(_keys(needed=True, **{"from": _is_text, "to": _is_text})), "pairs: [{from: type, to: type}]"),
    "restart_policy": (_one_of("never", "on-failure", "always"), "never, on-failure or always"),
    "max_restarts": (_whole(0), "a whole number, 0 for any"),
    **dict.fromkeys(
        ("restart_delay", "max_restart_delay", "restart_window", "health_check_timeout", "finish_grace_secs"), _SECONDS
    ),
    "cpu_affinity": (_list(_whole(0)), "the numbers of processors: [0, 2]"),
    "min_log_level": (_is_level, "error, warn, info, debug, trace or stdout"),
    "max_log_size": (_is_size, "a number of bytes, or '50MB'"),
    "max_rotated_files": (_whole(1, 100), "a whole number from 1 to 100"),
    "shared_memory_pool_size": (_is_size, "a number of bytes, or '64MB'"),
    "output_framing": (_each(_one_of("raw", "arrow-ipc")), "{output: raw} or {output: arrow-ipc}"),
    "output_metadata": (_each(_list(_is_text)), "{output: [key, key]}"),
    "pattern": (_is_text, "a text"),
}
"""What a value has to be, and how that is told."""

_BY_OUTPUT: Final = ("output_framing", "output_metadata")


def check_settings(what: str, given: Located, noted: Noted) -> None:
    """Note every setting of dora's whose value dora would refuse, too; one that is not there, or null, is right."""
    for key, value in given.data.items():
        fits, form = _SETTINGS.get(key, (None, ""))
        if fits is not None and value.data is not None and not fits(value):
            noted.wrong(value, f"{what}: {key} is {value.text or value.plain()!r}", f"write {form}")


def check_outputs(what: str, given: Located, outputs: tuple[str, ...], noted: Noted) -> None:
    """Note every setting for an output that there is not."""
    for key in _BY_OUTPUT:
        found = given.data.get(key)
        for output in found.data if found is not None and isinstance(found.data, dict) else ():
            if output not in outputs:
                noted.wrong(found, f"{what} has no output {output!r} for its {key}", "declare it in outputs:")
