"""A laptop in another network, without any file of the server: everything over TLS, by a token and by a login
at an identity provider; documents through a git server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.bai.conftest import CLUSTER, TOP, WHO, Repo, Said
from tests.lab.cache import LabUnavailable
from tests.lab.identity_provider import IdentityProviderLab
from tests.lab.serve import TOKEN, Serve
from tests.lab.spaces import Spaces, inside, what_lacks, within
from tests.lab.tls_end import TlsEnd, write_certificate
from tests.reconciler.gitops.repositories import git
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]
USERS = """\
apiVersion: bai/v1
kind: User
metadata: {name: ada}
spec: {email: ada@cluster.example, projects: [demo]}
"""


@dataclass
class Office:
    """The server's network: `bai serve --mode approve`, a proxy that ends TLS, an identity provider, git."""

    folder: Path
    spaces: Spaces
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def open(self) -> None:
        self.namespace, self.address = self.spaces.add()
        bare = self.folder / "git" / "cluster.git"
        bare.mkdir(parents=True)
        git(bare, "init", "--quiet", "--bare", "--initial-branch=main")
        self.bare = bare
        daemon = subprocess.Popen(
            within(self.namespace, ["git", "daemon", "--reuseaddr", "--export-all",
            "--enable=receive-pack", f"--base-path={bare.parent}", f"--listen={self.address}"]),
            env={**os.environ, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
                 "GIT_CONFIG_VALUE_0": "*"},
        )  # fmt: skip
        self.stack.callback(daemon.wait)
        self.stack.callback(daemon.terminate)
        until(self._git_answers, "git's server listens")
        self.remote = f"git://{self.address}/cluster.git"
        self.work = self.folder / "work"
        git(self.folder, "clone", "--quiet", str(bare), str(self.work))
        (self.work / "cluster.yaml").write_text(CLUSTER + "---\n" + USERS)
        self.push("The cluster")
        keys = write_certificate(self.folder / "login", self.address)
        self.login_certificate = keys[0]
        with inside(self.namespace):
            self.provider = IdentityProviderLab(self.address, keys)
            self.stack.callback(self.provider.close)
            # What is approved is carried out; the first commit is what it begins with.
            self.server = Serve(
                self.folder / "serve", self.remote, self.environment, "--mode", "approve", interval="2s"
            )
        self.stack.callback(self._destroy)
        self._write_access()
        port = urlsplit(self.server.url).port
        assert port is not None
        self.proxy = TlsEnd(self.namespace, self.address, port, self.folder / "proxy")
        self.stack.callback(self.proxy.close)

    def _git_answers(self) -> bool:
        with inside(self.namespace), contextlib.suppress(OSError):
            socket.create_connection((self.address, 9418), timeout=60).close()
            return True
        return False

    @property
    def environment(self) -> dict[str, str]:
        return {
            "BAI_PROCESS_ROOT": str(self.folder / "machine"),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }

    def push(self, message: str) -> str:
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--message", message)
        git(self.work, "push", "--quiet", "origin", "HEAD:main")
        return git(self.work, "rev-parse", "HEAD")

    def on_the_server(self, *words: str) -> Said:
        return Repo(self.work, self.environment)("--state", self.server.state, *words)

    def _write_access(self) -> None:
        file = self.folder / "serve" / "access.yaml"
        access = yaml.safe_load(file.read_text())
        access["oidc"] = [
            {
                "issuer": self.provider.issuer, "audience": self.provider.client_id,
                "clientId": self.provider.client_id, "user": "email", "ca": self.login_certificate,
                "grants": [{"role": "admin", "users": ["ada@cluster.example"]}],
            }
        ]  # fmt: skip
        file.write_text(yaml.safe_dump(access))

    def _destroy(self) -> None:
        self.server.kill()
        (self.work / "cluster.yaml").write_text(CLUSTER)
        shutil.rmtree(self.work / "sessions", ignore_errors=True)
        for words in (("state", "unlock", "--yes"), ("destroy", "--yes")):
            said = self.on_the_server(*words)
            assert said.code == 0, said.err


@dataclass
class Laptop:
    """Another network; of files, it has the two certificates to believe."""

    folder: Path
    namespace: str

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BAI_", "XDG_"))}
        return {**kept, **WHO, "HOME": str(self.folder), "COLUMNS": "200"}

    def start(self, *words: str, cwd: Path | None = None, **options: Any) -> subprocess.Popen[str]:
        code = f"import sys; sys.path.insert(0, {str(TOP)!r}); from bai.cli.main import main; main()"
        argv = within(self.namespace, [sys.executable, "-c", code, *words])
        streams: dict[str, Any] = {
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
        }  # fmt: skip
        return subprocess.Popen(argv, env=self.environment, cwd=cwd or self.folder, **{**streams, **options})

    def __call__(self, *words: str, stdin: str | None = None, cwd: Path | None = None) -> Said:
        process = self.start(*words, cwd=cwd, stdin=subprocess.PIPE)
        out, err = process.communicate(stdin or "", timeout=300)
        return Said(process.returncode, out, err)

    def follow(self, *words: str) -> tuple[subprocess.Popen[str], Path]:
        """A command that goes on, and the file with what it says."""
        path = self.folder / f"{words[0]}.said"
        with path.open("w") as file:
            return self.start(*words, stdout=file, stderr=file), path

    def ok(self, *words: str, **options: Any) -> Said:
        said = self(*words, **options)
        assert said.code == 0, said.out + said.err
        return said


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    if lacks := what_lacks("git"):
        pytest.skip(f"namespaces: {lacks}")
    try:
        spaces = Spaces()
    except LabUnavailable as error:
        pytest.skip(f"namespaces: {error}")
    with contextlib.closing(spaces):
        made = Office(tmp_path / "office", spaces)
        made.folder.mkdir()
        with made.stack:
            made.open()
            yield made


@pytest.fixture
def laptop(office: Office, tmp_path: Path) -> Laptop:
    folder = tmp_path / "laptop"
    folder.mkdir()
    shutil.copyfile(office.proxy.files[0], folder / "server.pem")
    shutil.copyfile(office.login_certificate, folder / "login.pem")
    namespace, _ = office.spaces.add()
    return Laptop(folder, namespace)


def log_in(laptop: Laptop, office: Office) -> None:
    process = laptop.start(
        "login", office.proxy.url, "--name", "office", "--ca", "server.pem", "--issuer-ca", "login.pem"
    )
    until(lambda: office.provider.waiting() or process.poll() is not None, "a code was asked for")
    assert process.poll() is None, process.communicate()
    [code] = office.provider.waiting()
    office.provider.people[code] = {"sub": "u1", "email": "ada@cluster.example"}
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "as ada@cluster.example (admin). Context office, cluster here." in out and code in err


def test_by_a_login_from_another_network(office: Office, laptop: Laptop) -> None:
    said = laptop("login", office.proxy.url, "--token", "-", stdin=TOKEN)
    assert said.code == 1 and "TLS" in said.err and "--ca FILE" in said.err
    log_in(laptop, office)
    assert office.remote.rpartition("/")[2] and laptop.ok("status").out.startswith("cluster    here at ")

    followers = (laptop.follow("get", "-w"), laptop.follow("events", "-f"))
    until(followers[0][1].read_text, "it watches")  # The other one tells what was before, too.
    clone = laptop.folder / "clone"
    subprocess.run(
        within(laptop.namespace, ["git", "clone", "--quiet", office.remote, str(clone)]),
        check=True, env=laptop.environment,
    )  # fmt: skip
    told = laptop.folder / "run.said"
    run = laptop.start(
        "run", "--name", "count", "--batch", "--cpu", "100m", "--memory", "64MiB", "--",
        "sh", "-c", "echo counted; exit 3", cwd=clone, stderr=told.open("w"),
    )  # fmt: skip
    commit = until(lambda: _new_commit(office), "the session was pushed")
    until(lambda: "waits for" in laptop.ok("status").out, "the loop waits for the commit to be approved")
    until(lambda: "nobody has taken it up yet" in told.read_text(), "and so does who runs")
    laptop.ok("approve", commit[:12], "--why", "looked at")
    out, _ = run.communicate(timeout=300)
    assert (run.returncode, out) == (3, "counted\n"), out + told.read_text()

    explained = laptop.ok("explain", "count").out
    assert "Session/demo/count" in explained and "localhost" in explained
    assert laptop.ok("logs", "count").out == "counted\n"
    assert "approved (looked at)" in laptop.ok("history").out
    audit = laptop.ok("audit", "--format", "json").json["entries"]
    [approval] = [each for each in audit if each["verb"] == "approve"]
    assert (approval["actor"], approval["commit"]) == ("ada@cluster.example", commit)
    for process, said_there in followers:
        until(lambda at=said_there: "-> TERMINATED" in at.read_text(), said_there.read_text)
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0 and "Session/demo/count" in said_there.read_text()

    first = git(office.bare, "rev-list", "--max-parents=0", "main")
    said = laptop("rollback", first)
    assert said.code == 1 and "Session/demo/count" in said.out + said.err and "--yes" in said.err
    assert f"is held at {first[:12]}" in laptop.ok("rollback", first, "--yes", "--why", "too early").out
    assert "held at" in laptop.ok("get").err
    assert "follows its documents again" in laptop.ok("resume").out


def test_logs_go_on_by_a_token(office: Office, laptop: Laptop) -> None:
    laptop.ok("login", office.proxy.url, "--ca", "server.pem", "--token", "-", stdin=TOKEN)
    beat = "apiVersion: bai/v1\nkind: Session\nmetadata: {name: beat, project: demo}\nspec:\n"
    command = "echo first; until test -e go; do sleep 0.3; done; echo last"
    beat += f"  type: batch\n  command: [sh, -c, '{command}']\n  resources: {{cpu: 100m, memory: 64MiB}}\n"
    (office.work / "beat.yaml").write_text(beat)
    commit = office.push("A beat")
    until(lambda: laptop("approve", commit[:12]).code == 0, "the commit is known and may be approved")
    until(lambda: "RUNNING" in laptop.ok("get").out, "it runs")
    logs = laptop.start("logs", "-f", "beat")
    assert logs.stdout is not None
    assert logs.stdout.readline() == "first\n"
    said = office.on_the_server("exec", "beat", "touch", "go")
    assert said.code in (0, 137), said.err  # The session ends by it, and what runs in it then.
    out, err = logs.communicate(timeout=300)
    assert (logs.returncode, out) == (0, "last\n"), err


def _new_commit(office: Office) -> str:
    """The second one of the remote's branch."""
    found = git(office.bare, "rev-list", "main").split()
    return found[0] if len(found) > 1 else ""
