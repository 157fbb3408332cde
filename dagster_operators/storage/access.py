"""Access to object stores: one reading of ``storage_options`` and of the environment for all libraries that open files.

Options have the names that deltalake and object stores know them by, in upper or lower case, with or without ``AWS_``. What they
do not say comes from the environment. Arrow reads credentials and the region there by itself, but neither the endpoint nor how to
talk to it, which it is told here. Engines are told where their own way of being told allows it: Sail by the environment of the
process, Spark by settings of one bucket.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.storage.shipped_access import name_of, restored
from dagster_operators.storage.uri import S3, is_local, split_uri, without_user

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_SECRET = re.compile(r"secret|token|key(?!_enabled)|password|credential|sas", re.IGNORECASE)

_SHORTEST: Final = 6
"""Shorter is no secret: ``a`` and ``minio`` are words of messages, and no store takes so short a key."""

_LONG: Final = 16
"""So long a text is in no message by chance, also within a word."""

_SYNONYMS: Final = {"endpoint_url": "endpoint", "default_region": "region", "token": "session_token"}

_ARROW_NAMES: Final = {
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "session_token": "session_token",
    "region": "region",
}

_S3A_NAMES: Final = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
    "region": "endpoint.region",
    "endpoint": "endpoint",
}

_S3_SETTINGS: Final = frozenset({
    "access_key_id", "secret_access_key", "session_token", "region", "endpoint", "virtual_hosted_style_request",
    "skip_signature", "unsigned_payload", "checksum_algorithm", "request_payer", "role_arn", "role_session_name",
    "sts_endpoint", "web_identity_token_file", "metadata_endpoint", "server_side_encryption", "sse_kms_key_id",
    "sse_bucket_key_enabled", "disable_tagging",
})  # fmt: skip
"""What obstore takes for S3."""

_PREFIXES: Final = {"gs": "google_", "gcs": "google_", "az": "azure_", "abfs": "azure_", "abfss": "azure_", "adl": "azure_"}
"""How the options of other stores begin, by scheme; those of S3 begin with ``aws_``."""

_CLIENT: Final = frozenset({"allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url", "user_agent"})
"""How requests are made, whatever the store."""

_FROM_ENVIRONMENT: Final = frozenset({"region", "endpoint", "allow_http", "virtual_hosted_style_request", "skip_signature"})


def is_secret(name: str) -> bool:
    """Whether the value of an option of that name is not to be shown.

    >>> is_secret("aws_secret_access_key"), is_secret("aws_region")
    (True, False)
    """
    return _SECRET.search(name) is not None


@dataclass(frozen=True, repr=False)
class Access:
    """Settings and credentials of an object store.

    Args:
        options: Names and values, sorted. The values are kept out of errors and of everything that is written or shown.

    >>> Access.of({"AWS_REGION": "eu-central-1", "AWS_SECRET_ACCESS_KEY": "hidden"})
    Access(AWS_REGION, AWS_SECRET_ACCESS_KEY)
    """

    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str] | None) -> Access:
        """What ``storage_options`` say."""
        return cls(tuple(sorted((options or {}).items())))

    @property
    def has_keys(self) -> bool:
        """Whether there is a secret among the options."""
        return any(is_secret(name) for name, _ in self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keys are in no pickle."""
        if not self.has_keys:
            return Access, (self.options,)
        return restored, (name_of(self), tuple(option for option in self.options if not is_secret(option[0])))

    def __repr__(self) -> str:
        return f"Access({', '.join(name for name, _ in self.options)})"

    def for_deltalake(self) -> dict[str, str] | None:
        """The options as deltalake takes them; it reads the environment by itself."""
        return dict(self.options) or None

    def for_arrow(self) -> dict[str, Any]:
        """The arguments of Arrow's S3 file system.

        >>> Access.of({"AWS_ENDPOINT_URL": "http://localhost:9000", "region": "eu-central-1"}).for_arrow()
        {'region': 'eu-central-1', 'endpoint_override': 'localhost:9000', 'scheme': 'http'}
        """
        given = self._settings()
        arguments: dict[str, Any] = {arrow: given[name] for name, arrow in _ARROW_NAMES.items() if name in given}
        if endpoint := given.get("endpoint"):
            scheme = split_uri(endpoint)[0]
            arguments["endpoint_override"] = endpoint.removeprefix(f"{scheme}://").rstrip("/")
            arguments["scheme"] = scheme or ("http" if _is_true(given.get("allow_http")) else "https")
        if _is_true(given.get("virtual_hosted_style_request")):
            arguments["force_virtual_addressing"] = True
        if _is_true(given.get("skip_signature")):
            arguments["anonymous"] = True
        return arguments

    def for_obstore(self, uri: str) -> tuple[dict[str, str], dict[str, str]]:
        """The settings and the client options of obstore's store of a URI; it does not take names that it does not know.

        >>> Access.of({"AWS_ENDPOINT_URL": "http://localhost:9000", "allow_http": "true", "unheard_of": "1"}).for_obstore("s3://b")
        ({'endpoint': 'http://localhost:9000'}, {'allow_http': 'true'})
        """
        if split_uri(uri)[0] in S3:
            settings = self._settings()
            known = {name: value for name, value in settings.items() if name in _S3_SETTINGS}
        else:
            prefix = _PREFIXES.get(split_uri(uri)[0], "")
            settings = {name.lower(): value for name, value in self.options}
            known = {name: value for name, value in settings.items() if prefix and name.startswith(prefix)}
        return known, {name: value for name, value in settings.items() if name in _CLIENT}

    def for_environment(self, uri: str) -> dict[str, str]:
        """The options as variables of the environment, which is where Sail looks.

        >>> Access.of({"endpoint_url": "http://localhost:9000", "timeout": "9s"}).for_environment("s3://lake/flights")
        {'AWS_ENDPOINT': 'http://localhost:9000'}
        """
        if split_uri(uri)[0] in S3:
            return {f"AWS_{name.upper()}": value for name, value in self._own().items()}
        return {name.upper(): value for name, value in self.options}

    def for_spark(self, uri: str) -> dict[str, str]:
        """The settings of Hadoop's file system for the bucket of a URI, and of no other; none for what is not S3.

        >>> Access.of({"AWS_ENDPOINT_URL": "http://localhost:9000", "AWS_REGION": "eu"}).for_spark("s3://lake/flights")
        ... # doctest: +NORMALIZE_WHITESPACE
        {'fs.s3a.bucket.lake.endpoint.region': 'eu', 'fs.s3a.bucket.lake.endpoint': 'http://localhost:9000',
         'fs.s3a.bucket.lake.path.style.access': 'true', 'fs.s3a.bucket.lake.connection.ssl.enabled': 'false'}
        """
        scheme, bucket, _ = split_uri(uri)
        if scheme not in S3:
            return {}
        given = self._settings()
        found = {f"fs.s3a.bucket.{bucket}.{spark}": given[name] for name, spark in _S3A_NAMES.items() if name in given}
        if endpoint := given.get("endpoint"):
            virtual = _is_true(given.get("virtual_hosted_style_request"))
            plain = endpoint.startswith("http://") or ("://" not in endpoint and _is_true(given.get("allow_http")))
            found[f"fs.s3a.bucket.{bucket}.path.style.access"] = str(not virtual).lower()
            found[f"fs.s3a.bucket.{bucket}.connection.ssl.enabled"] = str(not plain).lower()
        return found

    def clash(self, uri: str) -> str:
        """The name of an option that the environment has another value for; empty if there is none."""
        if split_uri(uri)[0] not in S3:
            return next((name for name, value in self.for_environment(uri).items() if os.environ.get(name, value) != value), "")
        environment = _plain_names({name: value for name, value in os.environ.items() if name.startswith("AWS_") and value})
        return next((f"AWS_{name.upper()}" for name, value in self._own().items() if environment.get(name, value) != value), "")

    def open(self, uri: str) -> tuple[FileSystem, str]:
        """The file system of a path or URI, and what stands for the URI's authority in paths on it.

        Raises:
            OSError: The store cannot be reached.
        """
        from pyarrow import fs

        if is_local(uri):
            return fs.LocalFileSystem(), ""
        scheme, authority, _ = split_uri(uri)
        if scheme in S3 and "@" not in authority and (arguments := self.for_arrow()):
            return _s3(tuple(arguments.items())), authority
        return _by_uri(f"{'s3' if scheme in S3 else scheme}://{authority}/")

    def reaches(self, home: str, uri: str) -> bool:
        """Whether these settings, which are those of one URI, are the settings of another one, too.

        With an endpoint they are those of all buckets there; without one (on Amazon's own S3, or another cloud) each bucket may
        have an owner and a region of its own.

        >>> Access.of({"endpoint": "http://localhost:9000"}).reaches("s3://lake/flights", "s3a://input/weather")
        True
        >>> Access.of({"region": "eu-central-1"}).reaches("s3://lake/flights", "s3://input/weather")
        False
        """
        if is_local(home) or is_local(uri):
            return False
        (scheme, bucket, _), (other_scheme, other_bucket, _) = split_uri(home), split_uri(uri)
        if scheme in S3 and other_scheme in S3:
            return bucket == other_bucket or "endpoint" in self._settings()
        return (scheme, bucket) == (other_scheme, other_bucket)

    def redact(self, text: str) -> str:
        """The text without any secret of the options; of a short one, where it is a word of its own.

        >>> Access.of({"AWS_SECRET_ACCESS_KEY": "hidden"}).redact("hidden is not the key")
        '*** is not the key'
        """
        secrets = {value for name, value in self.options if is_secret(name) and len(value) >= _SHORTEST}
        for value in sorted(secrets, key=len, reverse=True):
            found = re.escape(value) if len(value) >= _LONG else rf"(?<!\w){re.escape(value)}(?!\w)"
            text = re.sub(found, "***", text)
        return without_user(text)

    def _own(self) -> dict[str, str]:
        """Which S3 it is and who asks, as far as the options say it, by plain names."""
        return {name: value for name, value in _plain_names(dict(self.options)).items() if name in _S3_SETTINGS | {"allow_http"}}

    def _settings(self) -> dict[str, str]:
        """The options, and what only the environment says, by their plain names."""
        environment = _plain_names({name: value for name, value in os.environ.items() if name.startswith("AWS_") and value})
        told = {name: value for name, value in environment.items() if name in _FROM_ENVIRONMENT}
        return told | _plain_names(dict(self.options))


def _plain_names(options: Mapping[str, str]) -> dict[str, str]:
    """Options in lower case without ``aws_``; of two names for one thing the usual one counts."""
    plain = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    synonyms = {_SYNONYMS[name]: value for name, value in plain.items() if name in _SYNONYMS}
    return synonyms | {name: value for name, value in plain.items() if name not in _SYNONYMS}


def _is_true(value: str | None) -> bool:
    return (value or "").lower() in {"true", "1", "yes", "on", "y"}


class ShippedFiles:
    """A file system that is opened where it gets to: what is pickled is how."""

    def __init__(self, uri: str, access: Access) -> None:
        self._place = (uri, access)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, self._place


def _opened(uri: str, access: Access) -> FileSystem:
    return access.open(uri)[0]


@functools.lru_cache(maxsize=64)
def _s3(arguments: tuple[tuple[str, Any], ...]) -> FileSystem:
    from pyarrow import fs

    return fs.S3FileSystem(**dict(arguments), allow_delayed_open=True)  # a small file is one request then, and not three


@functools.lru_cache(maxsize=64)
def _by_uri(uri: str) -> tuple[FileSystem, str]:
    """Of a URI without a path; nothing is told, so Arrow looks where the store is."""
    from pyarrow import fs

    files, base = fs.FileSystem.from_uri(uri)
    return files, base.rstrip("/")
