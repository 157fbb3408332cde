"""S3Proxy, an S3 server of other people's in Java, in memory: what it makes of requests is not what moto does.

It is one jar, which is downloaded once.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.storage.jars import retrieve
from tests.storage.programs import free_port, lacks, program
from tests.storage.s3_server import S3Server, s3_server

_VERSION: Final = "4.1.0"
_JAR: Final = f"s3proxy-{_VERSION}-jar-with-dependencies.jar"
_DEPENDENCY: Final = f"""<dependency org="org.gaul" name="s3proxy" rev="{_VERSION}" transitive="false" conf="*->default">
<artifact name="s3proxy" type="jar" ext="jar" m:classifier="jar-with-dependencies"/></dependency>"""
_SHA256: Final = "a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d"
_KEPT: Final = Path(__file__).parents[2] / ".cache"

_SETTINGS: Final = """\
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={aws_access_key_id}
s3proxy.credential={aws_secret_access_key}
jclouds.provider=transient-nio2
jclouds.identity=unused
jclouds.credential=unused
"""


@contextmanager
def s3proxy(folder: Path) -> Iterator[S3Server]:
    """S3Proxy, behind a server that counts, and is slow, busy or loses answers when it is told to."""
    java = shutil.which("java")
    if java is None:
        lacks("S3Proxy needs java")
    port = free_port()
    settings = folder / "s3proxy.conf"
    settings.write_text(_SETTINGS.format(port=port, **S3Server(port).options()))
    command = [java, "-Xmx512m", "-jar", str(_jar()), "--properties", str(settings)]
    with program(command, port, folder / "s3proxy.log"), s3_server(port) as server:
        yield server


def _jar() -> Path:
    """The jar, as it was when this was written."""
    kept = _KEPT / _JAR
    if not kept.exists():
        _KEPT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_KEPT) as folder:
            try:
                retrieve(_DEPENDENCY, Path(folder))
            except subprocess.CalledProcessError as error:
                lacks(f"S3Proxy cannot be downloaded: {error.stdout[-1000:]!r}")
            (jar,) = Path(folder, "lib").iterdir()
            jar.rename(kept)
    found = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert found == _SHA256, f"{kept} is another one: {found}"
    return kept
