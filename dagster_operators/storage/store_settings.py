"""What each kind of object store calls its settings: in ``storage_options``, in the environment, and for obstore.

deltalake, obstore and Sail read options and variables by way of the same library, which has several names for one setting. Here
each setting has one, its plain name, which is also the one that obstore takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from dagster_operators.storage.uri import AZURE as AZURE_SCHEMES
from dagster_operators.storage.uri import S3

CLIENT: Final = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url", "user_agent", "default_content_type",
    "http1_only", "http2_only", "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "randomize_addresses",
})  # fmt: skip
"""How requests are made, whatever the store."""

_DELTALAKE: Final = frozenset({
    "max_retries", "retry_timeout", "backoff_config.init_backoff", "backoff_config.max_backoff", "backoff_config.base",
    "object_store_concurrency_limit", "mount_allow_unsafe_rename",
})  # fmt: skip
"""What deltalake alone takes, whatever the store."""


@dataclass(frozen=True)
class Service:
    """A kind of object store.

    Args:
        name: What people call it.
        prefixes: How its options and its variables of the environment may begin; the last one in capitals begins
            those that are told.
        settings: The plain names that obstore takes.
        synonyms: Other plain names for them.
        variables: Variables of the environment whose names are not the prefix and the plain name.
        deltalake: What deltalake alone takes.
    """

    name: str
    prefixes: tuple[str, ...]
    settings: frozenset[str]
    synonyms: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    deltalake: frozenset[str] = frozenset()

    def plain(self, options: Mapping[str, str]) -> dict[str, str]:
        """Options, or variables of the environment, by plain names; of two names for one setting the usual one counts.

        >>> service_of("az").plain({"AZURE_STORAGE_ACCESS_KEY": "k", "account_name": "shop"})
        {'account_key': 'k', 'account_name': 'shop'}
        """
        bare = {self._bare(name): value for name, value in options.items()}
        usual = {name: value for name, value in bare.items() if name not in self.synonyms}
        return {self.synonyms[name]: value for name, value in bare.items() if name in self.synonyms} | usual

    def of_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What variables of the environment say, by plain names."""
        starts = tuple(prefix.upper() for prefix in self.prefixes)
        return self.plain({name: value for name, value in environment.items() if value and name.startswith(starts)})

    def variable(self, setting: str) -> str:
        """The variable of the environment for a setting."""
        return self.variables.get(setting) or f"{self.prefixes[-1]}{setting}".upper()

    def unknown(self, options: Mapping[str, str]) -> list[str]:
        """The options that are none of this kind of store.

        >>> service_of("gs").unknown({"aws_region": "eu", "service_account": "/keys.json", "timeout": "9s"})
        ['aws_region']
        """
        return [name for name in options if self._bare(name) not in self._known]

    def meant(self, unknown: Sequence[str]) -> str:
        """What options that are none are likely to be meant for.

        >>> service_of("gs").meant(["service_acount", "nothing_like_it"])
        "did you mean 'service_account'? else "
        """
        known = sorted(self._known)
        alike = (get_close_matches(self._bare(name), known, n=1, cutoff=0.75) for name in unknown)
        found = [close[0] for close in alike if close]
        return f"did you mean {' and '.join(map(repr, found))}? else " if found else ""

    @property
    def _known(self) -> frozenset[str]:
        return frozenset(self.settings | self.synonyms.keys() | CLIENT | _DELTALAKE | self.deltalake)

    def _bare(self, name: str) -> str:
        lower = name.lower()
        prefix = next((prefix for prefix in self.prefixes if lower.startswith(prefix)), "")
        return lower.removeprefix(prefix)


AMAZON: Final = Service(
    "S3",
    ("aws_",),
    frozenset({
        "access_key_id", "secret_access_key", "session_token", "region", "endpoint", "virtual_hosted_style_request",
        "skip_signature", "unsigned_payload", "checksum_algorithm", "request_payer", "role_arn", "role_session_name",
        "sts_endpoint", "web_identity_token_file", "metadata_endpoint", "server_side_encryption", "sse_kms_key_id",
        "sse_bucket_key_enabled", "disable_tagging",
    }),
    {"endpoint_url": "endpoint", "default_region": "region", "token": "session_token"},
    deltalake=frozenset({
        "s3_allow_unsafe_rename", "s3_locking_provider", "s3_express", "conditional_put", "copy_if_not_exists",
        "imdsv1_fallback", "bucket", "bucket_name", "sse_customer_key_base64", "endpoint_url_sts", "endpoint_url_s3",
        "container_credentials_relative_uri", "container_credentials_full_uri", "container_authorization_token_file",
        "s3_assume_role_arn", "s3_role_session_name", "s3_pool_idle_timeout_seconds", "s3_get_internal_server_error_retries",
        "ec2_metadata_disabled", "force_credential_load", "profile", "iam_role_arn", "iam_role_session_name",
        "dynamo_lock_table_name", "delta_dynamo_table_name", "dynamo_endpoint_url", "endpoint_url_dynamodb",
    }),
)  # fmt: skip

AZURE: Final = Service(
    "Azure",
    ("azure_storage_", "azure_"),
    frozenset({
        "account_name", "account_key", "client_id", "client_secret", "tenant_id", "authority_host", "sas_key", "token",
        "use_emulator", "endpoint", "msi_endpoint", "object_id", "msi_resource_id", "federated_token_file",
        "use_fabric_endpoint", "use_azure_cli", "skip_signature", "container_name", "disable_tagging",
        "fabric_token_service_url", "fabric_workload_host", "fabric_session_token", "fabric_cluster_identifier",
    }),
    {
        "access_key": "account_key", "master_key": "account_key", "authority_id": "tenant_id", "sas_token": "sas_key",
        "bearer_token": "token", "identity_endpoint": "msi_endpoint",
    },
    {name: f"AZURE_STORAGE_{name.upper()}" for name in ("account_name", "account_key", "sas_key", "token", "use_emulator")},
)  # fmt: skip

GOOGLE: Final = Service(
    "Google Cloud Storage",
    ("google_",),
    frozenset({
        "service_account", "service_account_key", "application_credentials", "bearer_token", "base_url", "skip_signature",
        "bucket",
    }),
    {"service_account_path": "service_account", "bucket_name": "bucket"},
)  # fmt: skip

_SERVICES: Final = {
    **dict.fromkeys(S3, AMAZON),
    **dict.fromkeys(("gs", "gcs"), GOOGLE),
    **dict.fromkeys(AZURE_SCHEMES, AZURE),
}


def service_of(scheme: str) -> Service | None:
    """The kind of store that URIs of a scheme are on; None for other file systems.

    >>> service_of("abfss").name, service_of("hdfs")
    ('Azure', None)
    """
    return _SERVICES.get(scheme)
