"""Where the API server is and who we are there: from the kubeconfig of whoever runs bai, or from the service
account of the pod that it runs in. Repositories name a context of that file, never a file: it may run
programs.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from providers.kubernetes.api.credentials import (
    NAME,
    ClientCertificate,
    Credentials,
    PluginCredentials,
    StaticCredentials,
)
from schemas.problems.errors.provider import ProviderUnavailable

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ENTRIES = {"contexts": "context", "clusters": "cluster", "users": "user"}
_PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    server: str
    """`https://host:port`, with a path where the kubeconfig has one."""
    credentials: Credentials
    ca: bytes = b""
    """PEM; empty: the machine's own authorities."""
    insecure: bool = False
    """The owner of the kubeconfig wants no look at the server's certificate."""
    server_name: str = ""
    """That the certificate must have, where it is not the host's."""
    context: str = field(default="", compare=False)


def find_access(context: str, env: Mapping[str, str] = os.environ) -> ClusterAccess:
    """By `KUBECONFIG` or `~/.kube/config`; without a context and such a file, the pod's own service account.
    Raises ProviderUnavailable."""
    named = [Path(each) for each in env.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = named or [Path(env.get("HOME") or Path.home()) / ".kube" / "config"]
    there = [path for path in files if path.is_file()]
    if not there and not context and (SERVICE_ACCOUNT / "token").is_file():
        return service_account_access(env)
    if not there:
        why = f"there is no kubeconfig at {', '.join(map(str, files))}"
        raise ProviderUnavailable(provider=NAME, why=why, hint="set KUBECONFIG, as for kubectl")
    return kubeconfig_access(there, context)


def service_account_access(env: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> ClusterAccess:
    """Of the pod that we run in. Raises ProviderUnavailable."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        why = "there is a service account's token, but KUBERNETES_SERVICE_HOST is not set"
        raise ProviderUnavailable(provider=NAME, why=why)
    host = f"[{host}]" if ":" in host else host
    credentials = StaticCredentials(bearer_file=str(folder / "token"))
    return ClusterAccess(
        f"https://{host}:{port}", credentials, _read_file(folder / "ca.crt"), context="in-cluster"
    )


def kubeconfig_access(files: Iterable[Path], context: str = "") -> ClusterAccess:
    """`context`: its current one when empty. Of several files, the first one that names something counts.
    Raises ProviderUnavailable."""
    loaded = [(path, _load(path)) for path in files]
    current = context or next(
        (str(each["current-context"]) for _, each in loaded if each.get("current-context")), ""
    )
    if not current:
        raise ProviderUnavailable(provider=NAME, why="the kubeconfig has no current context")
    chosen, _ = _entry(loaded, "contexts", current)
    cluster, beside = _entry(loaded, "clusters", str(chosen.get("cluster", "")))
    user, home = _entry(loaded, "users", str(chosen.get("user", "")))
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith("https://"):
        why = f"context {current}: the server must be https://..., not {server or 'left out'}"
        raise ProviderUnavailable(provider=NAME, why=why)
    if cluster.get("proxy-url"):
        raise ProviderUnavailable(provider=NAME, why=f"context {current}: proxy-url is not supported")
    return ClusterAccess(
        server=server,
        credentials=_credentials(user, home, cluster),
        ca=_data(cluster, "certificate-authority", beside),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        context=current,
    )


def _load(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.load(path.read_bytes(), yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise ProviderUnavailable(provider=NAME, why=f"kubeconfig {path}: {error}") from None
    if not isinstance(found, dict):
        raise ProviderUnavailable(provider=NAME, why=f"kubeconfig {path} is no mapping")
    for plural, singular in _ENTRIES.items():
        entries = found.get(plural) or []
        if not isinstance(entries, list) or not all(_is_entry(each, singular) for each in entries):
            why = f"kubeconfig {path}: `{plural}` is no list of names, each with a `{singular}`"
            raise ProviderUnavailable(provider=NAME, why=why)
    return found


def _is_entry(found: Any, singular: str) -> bool:
    return isinstance(found, dict) and isinstance(found.get(singular) or {}, dict)


def _entry(
    loaded: list[tuple[Path, Mapping[str, Any]]], plural: str, name: str
) -> tuple[Mapping[str, Any], Path]:
    """What a list of the kubeconfig says under a name, and the folder that its relative paths begin at."""
    singular = _ENTRIES[plural]
    for path, each in loaded:
        for item in each.get(plural) or ():
            if item.get("name") == name:
                return item.get(singular) or {}, path.parent
    known = sorted(str(item.get("name")) for _, each in loaded for item in each.get(plural) or ())
    why = f"the kubeconfig has no {singular} {name!r}; it has {', '.join(known) or 'none'}"
    raise ProviderUnavailable(provider=NAME, why=why)


def _credentials(user: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any]) -> Credentials:
    plugin = user.get("exec")
    if plugin:
        _require_plugin(plugin)
        version = str(plugin.get("apiVersion", ""))
        if version not in _PLUGIN_VERSIONS:
            why = f"credential plugins of {version or 'no version'} are not supported"
            raise ProviderUnavailable(provider=NAME, why=why, hint=f"known are {', '.join(_PLUGIN_VERSIONS)}")
        command = str(plugin.get("command") or "")
        command = str(folder / command) if "/" in command else command
        words = [command, *map(str, plugin.get("args") or ())]
        env = {str(each["name"]): str(each["value"]) for each in plugin.get("env") or ()}
        told = _told_cluster(cluster) if plugin.get("provideClusterInfo") else None
        return PluginCredentials(words, env, version, told)
    if user.get("auth-provider") or user.get("username"):
        why = "auth-provider and passwords are no longer taken by Kubernetes"
        raise ProviderUnavailable(
            provider=NAME, why=why, hint="use a credential plugin, a token or a certificate"
        )
    certificate, key = _data(user, "client-certificate", folder), _data(user, "client-key", folder)
    token_file = str(user.get("tokenFile") or "")
    return StaticCredentials(
        bearer=str(user.get("token") or ""),
        bearer_file=str(folder / token_file) if token_file else "",
        client=ClientCertificate(certificate, key) if certificate else None,
    )


def _require_plugin(found: Any) -> None:
    """Raises ProviderUnavailable for an `exec` that is none."""
    env = found.get("env") or [] if isinstance(found, dict) else None
    if not isinstance(env, list) or not all(
        isinstance(e, dict) and {"name", "value"} <= e.keys() for e in env
    ):
        why = "`exec` of the kubeconfig is no mapping of command, args and env (names and values)"
        raise ProviderUnavailable(provider=NAME, why=why)


def _told_cluster(cluster: Mapping[str, Any]) -> dict[str, Any]:
    names = ("server", "certificate-authority-data", "tls-server-name", "insecure-skip-tls-verify")
    return {name: cluster[name] for name in names if name in cluster}


def _data(entry: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """`NAME-data` in base64, or the file that `NAME` names."""
    inline = entry.get(f"{name}-data")
    if inline:
        try:
            return base64.b64decode(str(inline), validate=True)
        except binascii.Error:
            raise ProviderUnavailable(
                provider=NAME, why=f"the kubeconfig's {name}-data is no base64"
            ) from None
    return _read_file(folder / str(entry[name])) if entry.get(name) else b""


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProviderUnavailable(provider=NAME, why=str(error)) from None
