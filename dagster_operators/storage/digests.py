"""Digests that files carry of their own content, so that a flipped bit which leaves valid JSON or Parquet is seen all the same.

An entry of a log has its digest among the fields of its commitInfo, where readers pass over what they do not know. The hint that
names a checkpoint has the checkpoint's among its tags. Files of earlier versions, and of other writers, have none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, Final

_FIELD: Final = "dagster_operators.digest"
LENGTH: Final = 32
"""Hexadecimal digits of a digest: the first 128 bits of a SHA-256."""

_BLANK: Final = "0" * LENGTH
_NAME: Final = f'"{_FIELD}":'.encode()
_DIGEST: Final = re.compile(rf'{re.escape(_NAME.decode())}"([0-9a-f]{{{LENGTH}}})"'.encode())


def digest_of(content: bytes) -> str:
    """The digest of some bytes.

    >>> digest_of(b"")
    'e3b0c44298fc1c149afbf4c8996fb924'
    """
    return hashlib.sha256(content).hexdigest()[:LENGTH]


def sealed(actions: Sequence[dict[str, Any]]) -> bytes:
    """The content of an entry of a log, with its digest in the commitInfo, if it has one.

    >>> sealed([{"commitInfo": {"timestamp": 1}}])
    b'{"commitInfo":{"timestamp":1,"dagster_operators.digest":"11273f4fdce227ff2bc2b4aaed6fb05f"}}'
    """
    info = next((at for at, action in enumerate(actions) if "commitInfo" in action), None)
    if info is None:
        return _lines(actions)
    content = _lines([
        *actions[:info], {"commitInfo": {**actions[info]["commitInfo"], _FIELD: _BLANK}}, *actions[info + 1 :]
    ])  # fmt: skip
    return content.replace(_NAME + f'"{_BLANK}"'.encode(), _NAME + f'"{digest_of(content)}"'.encode(), 1)


def _lines(actions: Sequence[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()


def is_altered(content: bytes) -> bool:
    """Whether an entry of a log is not what its digest says it was; one without a digest is not judged.

    >>> entry = sealed([{"commitInfo": {}}, {"add": {"path": "a"}}])
    >>> is_altered(entry), is_altered(entry.replace(b'"a"', b'"b"')), is_altered(b'{"commitInfo":{}}')
    (False, True, False)
    """
    if _NAME not in content:
        return False
    named = _DIGEST.search(content)
    if named is None:
        return True
    return digest_of(content[: named.start(1)] + _BLANK.encode() + content[named.end(1) :]).encode() != named[1]


def hint_with_digest(hint: bytes, checkpoint: bytes) -> bytes:
    """A hint that has the digest of the checkpoint that it names among its tags.

    >>> hint_with_digest(b'{"version":20,"size":7}', b"")
    b'{"version":20,"size":7,"tags":{"dagster_operators.digest":"e3b0c44298fc1c149afbf4c8996fb924"}}'
    """
    return json.dumps({**json.loads(hint), "tags": {_FIELD: digest_of(checkpoint)}}, separators=(",", ":")).encode()


def hinted_digest(hint: bytes) -> str:
    """The digest of a checkpoint that its hint has; empty when it has none.

    >>> hinted_digest(hint_with_digest(b'{"version":20}', b"")), hinted_digest(b"{"), hinted_digest(b'{"tags": 1}')
    ('e3b0c44298fc1c149afbf4c8996fb924', '', '')
    """
    try:
        return str(json.loads(hint)["tags"][_FIELD])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
