"""Real registries: Debian's `docker-registry`, open, with passwords, with tokens, with TLS.

    def test_something(registry: StartRegistry) -> None:
        lab = registry(password="secret", tls=True)
        lab.push("team/tool:1", labels={"bai.min.mem": "1g"})

One process and one folder per registry, gone with the test; `namespace` starts it inside a node of the lab.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.lab.cache import LabUnavailable, tool
from tests.lab.certificates import Certificate
from tests.lab.spaces import PATIENCE, pid_namespace, started, within
from tests.lab.token_server import TokenServer

USER = "bai"
_PREFIX = "bai-registry-"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass
class LabRegistry:
    """One registry. `address` is how names of images begin."""

    folder: Path
    process: subprocess.Popen[bytes]
    address: str
    tls: bool
    ca: str = ""
    password: str = ""
    tokens: TokenServer | None = None
    namespace: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def push(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        architectures: tuple[str, ...] = ("amd64",),
        layers: tuple[bytes, ...] = (),
        single: bool = False,
    ) -> str:
        """Put an image there, straight into the storage's API; gives the digest of its tag."""
        path, _, tag = name.partition(":")
        entries = []
        for architecture in architectures:
            content, digest = self._image(path, architecture, labels or {}, layers or (tar_of({}),))
            platform = {"architecture": architecture, "os": "linux"}
            entries.append(
                {"mediaType": MANIFEST, "digest": digest, "size": len(content), "platform": platform}
            )
            if single:
                return self._manifest(path, tag, content, MANIFEST)
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        return self._manifest(path, tag, json.dumps(index).encode(), INDEX)

    def _image(
        self, path: str, architecture: str, labels: Mapping[str, str], layers: tuple[bytes, ...]
    ) -> tuple[bytes, str]:
        packed = [gzip.compress(layer, 1, mtime=0) for layer in layers]
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"Labels": dict(labels), "Cmd": ["/bin/sh"], "Env": ["PATH=/bin:/usr/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [sha256(layer) for layer in layers]},
            "history": [{"created_by": "the lab"}] * len(layers),
        }
        content = json.dumps(config).encode()
        kind = "application/vnd.oci.image"
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._blob(path, content, f"{kind}.config.v1+json"),
            "layers": [self._blob(path, layer, f"{kind}.layer.v1.tar+gzip") for layer in packed],
        }
        body = json.dumps(manifest).encode()
        return body, self._manifest(path, sha256(body), body, MANIFEST)

    def _blob(self, path: str, content: bytes, kind: str) -> dict[str, Any]:
        digest = sha256(content)
        where = self.request("POST", f"/v2/{path}/blobs/uploads/", scope=path)
        target = where + ("&" if "?" in where else "?") + f"digest={digest}"
        self.request("PUT", target, content, "application/octet-stream", scope=path)
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    def _manifest(self, path: str, tag: str, content: bytes, kind: str) -> str:
        self.request("PUT", f"/v2/{path}/manifests/{tag}", content, kind, scope=path)
        return sha256(content)

    def request(self, method: str, target: str, body: bytes = b"", kind: str = "", *, scope: str = "") -> str:
        """Send a request as somebody who may do everything; gives the `Location` of the answer."""
        base = f"{'https' if self.tls else 'http'}://{self.address}"
        argv = ["curl", "-sS", "-k", "-f", "-X", method, "-D", "-", "-o", "/dev/null", "--data-binary", "@-"]
        argv += ["-H", f"Content-Type: {kind}", "-H", "Expect:"]
        if self.tokens is not None:
            argv += ["-H", f"Authorization: Bearer {self.tokens.token(scope, ('pull', 'push'))}"]
        elif self.password:
            argv += ["-u", f"{USER}:{self.password}"]
        argv.append(target if target.startswith("http") else base + target)
        done = subprocess.run(
            within(self.namespace, argv) if self.namespace else argv,
            input=body, capture_output=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{method} {target}: {done.stderr.decode()}"
        found = re.search(rb"(?im)^location: *(\S+)", done.stdout)
        return found[1].decode() if found else ""

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        if self.tokens is not None:
            self.tokens.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class StartRegistry(Protocol):
    def __call__(
        self, *, password: str = "", tls: bool = False, tokens: bool = False, namespace: str = ""
    ) -> LabRegistry: ...


@pytest.fixture
def registry() -> Iterator[StartRegistry]:
    """Starts registries that end with the test."""
    with contextlib.ExitStack() as stack:

        def begin(
            *, password: str = "", tls: bool = False, tokens: bool = False, namespace: str = ""
        ) -> LabRegistry:
            try:
                found = start(password=password, tls=tls, tokens=tokens, namespace=namespace)
            except LabUnavailable as error:
                pytest.skip(f"registry lab: {error}")
            stack.callback(found.close)
            return found

        yield begin


def start(
    *,
    password: str = "",
    tls: bool = False,
    tokens: bool = False,
    namespace: str = "",
    listen: str = "127.0.0.1:0",
) -> LabRegistry:
    """Start one on a free port of the loopback, or where it shall listen. Raises LabUnavailable."""
    program = tool("docker-registry")
    tool("curl")
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{pid_namespace()}-{os.getpid()}-"))
    issuer = TokenServer(USER, password) if tokens else None
    config = _config(folder, password, tls, issuer, listen)
    (folder / "config.yml").write_text(json.dumps(config))
    argv = ["setpriv", "--pdeathsig", "KILL", program, "serve", str(folder / "config.yml")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            within(namespace, argv) if namespace else argv,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    made = LabRegistry(folder, process, "", tls, password=password, tokens=issuer, namespace=namespace)
    made.ca = str(folder / "ca.pem") if tls else ""
    try:
        host = listen.partition(":")[0]
        made.address = f"{host}:{_port(made, host)}"
    except BaseException:
        made.close()
        raise
    return made


def _sweep() -> None:
    """Remove the folders of test processes that were killed; their registries ended with them."""
    ours = f"{_PREFIX}{pid_namespace()}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{ours}*"):
        pid = folder.name.removeprefix(ours).partition("-")[0]
        if pid.isdecimal() and not started(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _config(
    folder: Path, password: str, tls: bool, issuer: TokenServer | None, listen: str
) -> dict[str, Any]:
    http: dict[str, Any] = {"addr": listen, "secret": "lab"}
    if tls:
        certificate = Certificate.make("127.0.0.1")
        (folder / "ca.pem").write_bytes(certificate.pem)
        (folder / "key.pem").write_bytes(certificate.key)
        http["tls"] = {"certificate": str(folder / "ca.pem"), "key": str(folder / "key.pem")}
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "info"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": http,
    }
    if issuer is not None:
        (folder / "issuer.pem").write_bytes(issuer.certificate.pem)
        config["auth"] = {
            "token": {
                "realm": issuer.realm,
                "service": issuer.service,
                "issuer": issuer.issuer,
                "rootcertbundle": str(folder / "issuer.pem"),
            }
        }
    elif password:
        import bcrypt

        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"{USER}:{hashed}\n")
        config["auth"] = {"htpasswd": {"realm": "lab", "path": str(folder / "htpasswd")}}
    return config


def _port(made: LabRegistry, host: str) -> int:
    """The port that it took, as its log tells; once it is told, it listens."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        text = (made.folder / "log").read_text(errors="replace")
        found = re.search(rf"listening on {re.escape(host)}:(\d+)", text)
        if found:
            return int(found[1])
        if made.process.poll() is not None:
            raise LabUnavailable(f"docker-registry ended: {(text.splitlines() or ['no word'])[-1]}")
        time.sleep(0.02)
    raise LabUnavailable("docker-registry said nothing")


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """A layer with these files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
