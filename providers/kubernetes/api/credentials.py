"""Who we are to an API server: a token, a token's file that is renewed beside us, a certificate, or a plugin
that is asked (`client.authentication.k8s.io`)."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from schemas.problems.errors.provider import ProviderUnavailable

NAME = "kubernetes"
PLUGIN_PATIENCE = 60.0
"""Seconds for a plugin to answer."""
_RENEWED_BEFORE = 30.0
"""Seconds before it ends, in which a token is no longer used."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """As PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


class Credentials(Protocol):
    def token(self) -> str:
        """Of `Authorization: Bearer`; empty: none. Raises ProviderUnavailable."""
        ...

    def certificate(self) -> ClientCertificate | None:
        """Raises ProviderUnavailable."""
        ...

    def forget(self) -> None:
        """The server did not take them: what can be renewed is, when it is asked for again."""
        ...


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """What the kubeconfig itself holds, or a file that it names."""

    bearer: str = field(default="", repr=False)
    bearer_file: str = ""
    """Read at each use: the kubelet renews a service account's token there."""
    client: ClientCertificate | None = None

    def token(self) -> str:
        if not self.bearer_file:
            return self.bearer
        try:
            return Path(self.bearer_file).read_text().strip()
        except OSError as error:
            raise ProviderUnavailable(provider=NAME, why=f"its token: {error}") from None

    def certificate(self) -> ClientCertificate | None:
        return self.client

    def forget(self) -> None:
        """Nothing is held that another look would renew."""


class PluginCredentials:
    """What a command of the kubeconfig's owner answers; kept until it says that it ends."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], version: str, cluster: Mapping[str, Any] | None
    ) -> None:
        self._command = tuple(command)
        self._env = dict(env)
        spec = {"interactive": False, **({"cluster": dict(cluster)} if cluster else {})}
        self._info = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": spec})
        self._lock = threading.Lock()
        self._status: Mapping[str, Any] | None = None
        self._ends = 0.0

    def token(self) -> str:
        return str(self._ask().get("token") or "")

    def certificate(self) -> ClientCertificate | None:
        said = self._ask()
        if not said.get("clientCertificateData"):
            return None
        return ClientCertificate(
            str(said["clientCertificateData"]).encode(), str(said.get("clientKeyData") or "").encode()
        )

    def forget(self) -> None:
        with self._lock:
            self._status = None

    def _ask(self) -> Mapping[str, Any]:
        with self._lock:
            if self._status is None or time.time() > self._ends - _RENEWED_BEFORE:
                self._status = self._run()
                self._ends = _expiry(self._status)
            return self._status

    def _run(self) -> Mapping[str, Any]:
        env = {**os.environ, **self._env, "KUBERNETES_EXEC_INFO": self._info}
        name = self._command[0]
        try:
            done = subprocess.run(
                self._command, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=PLUGIN_PATIENCE, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProviderUnavailable(provider=NAME, why=f"credential plugin {name}: {error}") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or "it said nothing"
            why = f"credential plugin {name} ended with {done.returncode}: {said[:300]}"
            raise ProviderUnavailable(provider=NAME, why=why)
        try:
            status = json.loads(done.stdout)["status"]
            if not isinstance(status, dict) or not (
                status.get("token") or status.get("clientCertificateData")
            ):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            why = f"credential plugin {name} did not answer with an ExecCredential"
            raise ProviderUnavailable(provider=NAME, why=why) from None
        return status


def _expiry(status: Mapping[str, Any]) -> float:
    """Seconds since the epoch; as good as never where nothing is said."""
    try:
        return datetime.fromisoformat(str(status["expirationTimestamp"])).timestamp()
    except (KeyError, ValueError):
        return float("inf")
