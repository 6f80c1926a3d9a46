"""A PostgreSQL server of Debian's package, on a socket in a folder of its own, run by a user without privileges."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

USER, PASSWORD = "curator", "mark5er-pass%word"  # searched for in all that is written
_FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
_SETTINGS = ("listen_addresses=", "fsync=off", "autovacuum=off", "log_min_messages=fatal")


@dataclass
class PostgresServer:
    """A running server; `process` may be ended by a test."""

    folder: Path
    process: subprocess.Popen

    @property
    def url(self) -> str:
        """Its address, without a password."""
        return f"postgresql://{USER}@/people?host={self.folder}"

    @property
    def url_with_password(self) -> str:
        return self.url.replace("@", f":{PASSWORD.replace('%', '%25')}@", 1)


def _user() -> str | None:
    """Whom the server belongs to: root may not run it."""
    if os.getuid():
        return None
    return next(name for name in ("postgres", "nobody") if name in {one.pw_name for one in pwd.getpwall()})


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Starts a server with an empty database `people`; skips the test where the package is not installed."""
    if not _FOUND:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    tools, user = _FOUND[-1].parent, _user()
    folder = Path(tempfile.mkdtemp(prefix="dpgm-pg-"))
    as_user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
    try:
        (folder / "password").write_text(PASSWORD)
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, user)
        words = ["-U", USER, "-A", "scram-sha-256", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        words += [f"--pwfile={folder / 'password'}"]
        made = subprocess.run(
            [tools / "initdb", "-D", folder / "data", *words],
            capture_output=True,
            cwd=folder,
            check=False,
            **as_user,
        )
        assert made.returncode == 0, made.stderr.decode()
        options = [word for one in _SETTINGS for word in ("-c", one)]
        process = subprocess.Popen(
            [tools / "postgres", "-D", folder / "data", "-k", folder, *options],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **as_user,
        )
        try:
            server = PostgresServer(folder, process)
            _wait_until_ready(tools, folder)
            subprocess.run(
                [tools / "createdb", "-h", folder, "-U", USER, "people"],
                check=True,
                env=os.environ | {"PGPASSWORD": PASSWORD},
            )
            yield server
        finally:
            process.send_signal(signal.SIGINT)  # without waiting for clients
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(tools: Path, folder: Path) -> None:
    for _ in range(600):
        if not subprocess.run([tools / "pg_isready", "-h", folder, "-q"], check=False).returncode:
            return
        time.sleep(0.1)
    raise RuntimeError("PostgreSQL did not start within a minute")
