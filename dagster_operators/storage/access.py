"""Access to object stores: one reading of ``storage_options`` and of the environment for all libraries that open files.

Options have the names that deltalake and object stores know them by, in upper or lower case, with or without ``AWS_``, ``AZURE_``
or ``GOOGLE_``; one that is none of the store's is refused. What they do not say comes from the environment. On S3 Arrow reads
credentials and the region there by itself, but neither the endpoint nor how to talk to it, which it is told here; on Azure and
Google Cloud Storage it opens files through obstore, which takes every credential that they know. Engines are told where their own
way of being told allows it: Sail by the environment of the process, Spark by settings of one bucket.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import PipelineError, StorageError
from dagster_operators.storage.shipped_access import name_of, restored
from dagster_operators.storage.store_settings import AMAZON, AZURE, CLIENT, service_of
from dagster_operators.storage.uri import S3, is_local, masked, public_uri, secrets_within, split_uri

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_SECRET = re.compile(r"secret|token|key(?!_enabled)|password|credential|sas", re.IGNORECASE)

SHORTEST_SECRET: Final = 6
"""Shorter is no secret: ``a`` and ``minio`` are words of messages, and no store takes so short a key."""

_LONG: Final = 16
"""So long a text is in no message by chance, also within a word."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Of a terminal, which libraries put into their errors."""

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

_FROM_ENVIRONMENT: Final = frozenset({"region", "endpoint", "allow_http", "virtual_hosted_style_request", "skip_signature"})


def is_secret(name: str) -> bool:
    """Whether the value of an option of that name is not to be shown.

    >>> is_secret("aws_secret_access_key"), is_secret("aws_region")
    (True, False)
    """
    return _SECRET.search(name) is not None


def holds_secret(name: str, value: str) -> bool:
    """Whether an option is a secret by its name, or has one in its value: a password or a signature of a URL.

    >>> holds_secret("proxy_url", "http://me:hidden@proxy:80"), holds_secret("proxy_url", "http://proxy:80")
    (True, False)
    """
    return is_secret(name) or masked(value) != value


def shown_setting(name: str, value: str) -> str:
    """The value of an option, or of a setting of an engine, for people: without what is secret in it.

    >>> shown_setting("fs.s3a.secret.key", "hidden"), shown_setting("proxy_url", "http://me:hidden@proxy:80")
    ('***', 'http://***@proxy:80')
    """
    return "***" if is_secret(name) else masked(value)


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
        return any(holds_secret(name, value) for name, value in self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keys are in no pickle."""
        if not self.has_keys:
            return Access, (self.options,)
        return restored, (name_of(self), tuple(option for option in self.options if not holds_secret(*option)))

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

        >>> Access.of({"AWS_ENDPOINT_URL": "http://localhost:9000", "allow_http": "true", "max_retries": "1"}).for_obstore("s3://b")
        ({'endpoint': 'http://localhost:9000'}, {'allow_http': 'true'})
        """
        service = service_of(split_uri(uri)[0])
        if service is None:
            return {}, {}
        settings = self._settings() if service is AMAZON else service.plain(dict(self.options))
        known = {name: value for name, value in settings.items() if name in service.settings}
        return known, {name: value for name, value in settings.items() if name in CLIENT}

    def check(self, uri: str) -> None:
        """See that each option is one of the store's.

        Raises:
            PipelineError: One is not; it would be of no use, and what it was meant to say would be left out.
        """
        service = service_of(split_uri(uri)[0])
        if service is None or not (unknown := service.unknown(dict(self.options))):
            return
        plural = "s" if len(unknown) > 1 else ""
        raise PipelineError(
            f"{service.name} has no setting{plural} {', '.join(unknown)}, as storage_options have it",
            file=public_uri(uri),
            remedy=f"{service.meant(unknown)}leave the option{plural} out, or correct the name; "
            "docs/object_stores.md says which there are",
        )

    def for_environment(self, uri: str) -> dict[str, str]:
        """The options as variables of the environment, which is where Sail looks.

        >>> Access.of({"endpoint_url": "http://localhost:9000", "timeout": "9s"}).for_environment("s3://lake/flights")
        {'AWS_ENDPOINT': 'http://localhost:9000'}
        >>> Access.of({"account_name": "shop", "azure_tenant_id": "t"}).for_environment("az://lake/flights")
        {'AZURE_STORAGE_ACCOUNT_NAME': 'shop', 'AZURE_TENANT_ID': 't'}
        """
        service = service_of(split_uri(uri)[0])
        return {service.variable(name): value for name, value in self._own(uri).items()} if service else {}

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
        service = service_of(split_uri(uri)[0])
        if service is None:
            return ""
        told = service.of_environment(os.environ)
        return next((service.variable(name) for name, value in self._own(uri).items() if told.get(name, value) != value), "")

    def open(self, uri: str) -> tuple[FileSystem, str]:
        """The file system of a path or URI, and what stands for the URI's authority in paths on it.

        Raises:
            OSError: The store cannot be reached.
            StorageError: There is no such kind of file system, or a package for it is missing.
            PipelineError: An option is none of the store's.
        """
        from pyarrow import fs

        if is_local(uri):
            return fs.LocalFileSystem(), ""
        scheme, authority, _ = split_uri(uri)
        self.check(uri)
        if scheme in S3:
            arguments = {} if "@" in authority else self.for_arrow()
            return (_s3(tuple(arguments.items())), authority) if arguments else _by_uri(f"s3://{authority}/")
        return (_by_obstore(scheme, authority, self), authority) if service_of(scheme) else _by_uri(f"{scheme}://{authority}/")

    def reaches(self, home: str, uri: str) -> bool:
        """Whether these settings, which are those of one URI, are the settings of another one, too.

        With an endpoint they are those of all buckets there; without one (on Amazon's own S3, or Google's) each bucket may have
        an owner and a region of its own. On Azure they are those of an account.

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
        if service_of(scheme) is service_of(other_scheme) is AZURE:
            return self._account(bucket) == self._account(other_bucket)
        return (scheme, bucket) == (other_scheme, other_bucket)

    def redact(self, text: str) -> str:
        """The text without colours and any secret of the options; of a short one, where it is a word of its own.

        >>> Access.of({"AWS_SECRET_ACCESS_KEY": "hidden"}).redact("hidden is not the key")
        '*** is not the key'
        """
        values = [value for name, value in self.options if is_secret(name)]
        values += [secret for _, value in self.options for secret in secrets_within(value)]
        secrets = {value for value in values if len(value) >= SHORTEST_SECRET}
        for value in sorted(secrets, key=len, reverse=True):
            found = re.escape(value) if len(value) >= _LONG else rf"(?<!\w){re.escape(value)}(?!\w)"
            text = re.sub(found, "***", text)
        return masked(_COLOURS.sub("", text))

    def _own(self, uri: str) -> dict[str, str]:
        """Which store it is and who asks, as far as the options say it, by plain names."""
        service = service_of(split_uri(uri)[0])
        plain = service.plain(dict(self.options)) if service else {}
        return {name: value for name, value in plain.items() if service and name in service.settings | {"allow_http"}}

    def _account(self, authority: str) -> str:
        """Azure's account, of ``container@account.dfs.core.windows.net`` or of the options; if neither tells, one of its own."""
        host = authority.partition("@")[2].partition(".")[0]
        return host or AZURE.plain(dict(self.options)).get("account_name") or f"of {authority}"

    def _settings(self) -> dict[str, str]:
        """S3's options, and what only the environment says, by their plain names."""
        told = {name: value for name, value in AMAZON.of_environment(os.environ).items() if name in _FROM_ENVIRONMENT}
        return told | AMAZON.plain(dict(self.options))


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
def _by_obstore(scheme: str, authority: str, access: Access) -> FileSystem:
    from dagster_operators.storage.store_files import store_files

    return store_files(f"{scheme}://{authority}", access)


@functools.lru_cache(maxsize=64)
def _by_uri(uri: str) -> tuple[FileSystem, str]:
    """Of a URI without a path; nothing is told, so Arrow looks where the store is."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        files, base = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid:
        scheme = split_uri(uri)[0]
        raise StorageError(
            f"there is no file system for {scheme}://", file=public_uri(uri),
            remedy="name a local path, or a URI that begins with s3://, gs://, az://, abfss:// or hdfs://",
        ) from None  # fmt: skip
    return files, base.rstrip("/")
