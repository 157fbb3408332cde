"""An environment of its own: all that the tests run with, and the package of ``examples/limit``, installed from its folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "examples" / "limit"


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    Attributes:
        folder: Where it is.
    """

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def packages(self) -> Path:
        paths = {"base": str(self.folder), "platbase": str(self.folder)}
        return Path(sysconfig.get_path("purelib", "venv", vars=paths))

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """An environment that sees what this one has installed, and has nothing of its own yet."""
        made = cls(folder)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (made.packages / "running.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        return made

    def install(self, package: Path) -> None:
        """Install a package from its folder, without a network; the folder is left as it is."""
        copy = self.folder / "sources" / package.name
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        options = ["--offline", "--no-deps", "--no-build-isolation", "--cache-dir", str(self.folder / "cache")]
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", *options, "--python", self.python, str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def run(self, *arguments: str, timeout: float = 200, **variables: str) -> subprocess.CompletedProcess[bytes]:
        """Run its Python from the repository's folder, where the tests' own modules are."""
        environment = {
            **os.environ, "PYTHONPATH": str(REPOSITORY), "DAGSTER_OPERATORS_CACHE": str(self.folder / "copies"), **variables
        }  # fmt: skip
        command = [self.python, *arguments]
        return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, timeout=timeout, check=False)

    def told(self, *arguments: str, **variables: str) -> bytes:
        """What a program that succeeds there writes."""
        done = self.run(*arguments, **variables)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return done.stdout


@pytest.fixture(scope="session")
def outside(tmp_path_factory):
    """The environment with the package; the environment of the tests does not have it."""
    made = Environment.make(tmp_path_factory.mktemp("outside") / "environment")
    made.install(PACKAGE)
    return made
