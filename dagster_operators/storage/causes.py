"""Ways out of errors of storage: of the file system by their number, of stores by the words that they answer."""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Mapping
from typing import Final

from dagster_operators.storage.uri import public_uri

_RUN: Final = "then run again"

_NUMBER: Final = re.compile(r"(?:\[Errno |os error )(\d+)")
"""How Arrow and deltalake tell the number of an error of the file system."""

_BY_NUMBER: Final[Mapping[int, str]] = {
    errno.ENOSPC: "free some megabytes on the root's disk first, then more by `{clean}`",
    errno.EDQUOT: "raise the quota of the storage root's disk, or free some megabytes first, then more by `{clean}`",
    errno.EACCES: "let this user read and write there (owner and mode of the file and of its folders)",
    errno.EPERM: "let this user read and write there (owner, mode and attributes of the file)",
    errno.EROFS: "mount the file system so that it can be written",
    errno.ENAMETOOLONG: "choose shorter names, or a root that is less deep",
    errno.ENOTDIR: "move away the file that is where a folder has to be",
    errno.EISDIR: "move away the folder that is where a file has to be",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files",
    errno.EIO: "see the machine's log for the disk, which failed",
    errno.ESTALE: "mount the network file system anew",
    errno.ENOTCONN: "mount the network file system anew",
    errno.ENOENT: "have `{doctor}` say what is missing",
}

_BY_WORDS: Final = (
    (r"NoSuchBucket|ContainerNotFound|bucket does not exist", "create the bucket, or correct its name in the root"),
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken|\b401\b|Unauthorized|[Cc]redential",
        "give the store's keys that hold now (storage_options, or the environment)",
    ),
    (r"AccessDenied|\b403\b|Forbidden|[Pp]ermission", "give these keys the right to list, read, write and delete in the root"),
    (r"SlowDown|\b429\b|\b503\b|Too Many Requests", "wait until the store takes requests again"),
    (
        r"[Tt]imed? ?out|[Cc]onnect|dns|resolve|[Nn]etwork|unreachable",
        "see that the store's endpoint is reached from this machine",
    ),
    (r"No space left", _BY_NUMBER[errno.ENOSPC]),
    (
        r"[Kk]ernel|[Pp]arquet|[Ss]chema|[Jj]son|Invalid table|log segment",
        "have `{doctor}` say what is damaged, and what settles it",
    ),
)

_ELSE: Final = "have `{doctor}` look at the root"


def of_damage(uri: str) -> str:
    """What to do about a damaged log below a storage root.

    >>> of_damage("s3://me:secret@bucket/lake")
    'have `dagster-operators doctor s3://bucket/lake` say what is damaged, and what settles it; then run again'
    """
    return way_out(ValueError("Invalid table"), public_uri(uri))


def way_out(error: BaseException, root: str) -> str:
    """What to do about an error of a storage root.

    Args:
        error: Of the file system, of Arrow or of deltalake.
        root: The storage root, as it may be shown.

    >>> way_out(OSError(errno.ENOSPC, "No space left on device"), "lake")
    "free some megabytes on the root's disk first, then more by `dagster-operators clean lake`; then run again"
    >>> way_out(ValueError("Kernel error: Schema error"), "my lake")
    "have `dagster-operators doctor 'my lake'` say what is damaged, and what settles it; then run again"
    """
    told = _NUMBER.search(str(error))
    number = getattr(error, "errno", None) or (int(told[1]) if told else None)
    found = _BY_NUMBER.get(number) if isinstance(number, int) else None
    found = found or next((way for pattern, way in _BY_WORDS if re.search(pattern, str(error))), _ELSE)
    commands = {name: shlex.join(["dagster-operators", name, root]) for name in ("clean", "doctor")}
    return f"{found.format(**commands)}; {_RUN}"
