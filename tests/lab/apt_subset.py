"""A small part of Debian's index: what tests install, and all that this needs, signed with the lab's key.

apt and python3-apt read the whole index each time they begin. With Debian's 63,000 packages that was a sixth
of all computing while nodes were provisioned. The packages are Debian's own, from its own pool.
"""

from __future__ import annotations

import contextlib
import hashlib
import lzma
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tests.lab.cache import LabUnavailable, command, kept, tool

OFFERED = (
    "apt-utils aptly ca-certificates chrony curl dbus debian-archive-keyring docker-registry docker.io "
    "git gnupg ibverbs-utils infiniband-diags iproute2 iptables jq kmod less libpam-systemd locales "
    "logrotate lsb-release nfs-common nginx numactl openssh-client openssh-server openssl pciutils "
    "perftest postgresql postgresql-client procps prometheus-node-exporter python3 python3-apt "
    "python3-minimal python3-psycopg2 python3-venv rdma-core rdmacm-utils sudo systemd systemd-sysv "
    "tini tree tzdata unattended-upgrades xz-utils"
)
"""Another package that a test installs from Debian is named here."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_INDEX = "main/binary-amd64/Packages"
_KEPT_FIELDS = ("Origin", "Label", "Suite", "Version", "Codename", "Date", "Valid-Until", "Description")

Stanzas = dict[str, list[str]]
"""Name of a package → its paragraphs, one for each version."""


def public_key() -> Path:
    """The key that signs, as gpgv reads it. Raises LabUnavailable."""
    return _keys() / "public.gpg"


def keyring() -> Path:
    """That key and Debian's own ones. Raises LabUnavailable."""
    return _keys() / "all.gpg"


def subset(suites: Iterable[str], fetch: Callable[[str], bytes]) -> Path:
    """A folder with `InRelease` and what that names, for each suite (`debian/dists/bookworm`); `fetch` gives
    what Debian has at such a path. Raises LabUnavailable."""
    releases = {suite: fetch(f"{suite}/InRelease") for suite in suites}
    made_of = repr((Path(__file__).read_text(), sorted(releases.items()), public_key().read_bytes()))
    name = f"apt-index-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    return kept(name, lambda draft: _make(draft, releases, fetch))


def _make(folder: Path, releases: Mapping[str, bytes], fetch: Callable[[str], bytes]) -> None:
    found: dict[str, Stanzas] = {}
    for suite, release in releases.items():
        folder.joinpath(suite).mkdir(parents=True)
        folder.joinpath(suite, "InRelease").write_bytes(release)
        command([tool("gpgv"), "-q", "--keyring", str(KEYRING), str(folder / suite / "InRelease")])
        packed = fetch(f"{suite}/{_INDEX}.xz")
        if hashlib.sha256(packed).hexdigest() not in release.decode():
            raise LabUnavailable(f"the index of {suite} is not the one that its InRelease names")
        found[suite] = _stanzas(lzma.decompress(packed).decode())
    wanted = _needed(OFFERED.split(), found.values())
    with _signer() as sign:
        for suite, stanzas in found.items():
            texts = [text for name in sorted(wanted & stanzas.keys()) for text in stanzas[name]]
            index = "".join(f"{text}\n\n" for text in texts).encode()
            release = _written(folder / suite, releases[suite].decode(), index)
            (folder / suite / "InRelease").write_bytes(sign(release))


def _stanzas(text: str) -> Stanzas:
    found: Stanzas = defaultdict(list)
    for paragraph in text.strip().split("\n\n"):
        found[paragraph.partition("\n")[0].removeprefix("Package: ")].append(paragraph)
    return found


def _needed(seeds: Iterable[str], found: Iterable[Stanzas]) -> set[str]:
    """Names of the seeds, of what every Debian has, and of all that these depend on."""
    stanzas: Stanzas = defaultdict(list)
    for each in found:
        for name, texts in each.items():
            stanzas[name] += texts
    providers: dict[str, set[str]] = defaultdict(set)
    queue = list(seeds)
    for name, texts in stanzas.items():
        for text in texts:
            if re.search(r"^(Essential: yes|Priority: (required|important))$", text, re.M):
                queue.append(name)
            for virtual in _names(text, "Provides"):
                providers[virtual].add(name)
    wanted: set[str] = set()
    while queue:
        name = queue.pop()
        if name in wanted:
            continue
        wanted.add(name)
        queue += [] if name in stanzas else providers[name]
        for text in stanzas.get(name, ()):
            queue += [*_names(text, "Pre-Depends"), *_names(text, "Depends")]
    return wanted


def _names(text: str, field: str) -> list[str]:
    line = re.search(rf"^{field}: (.*)$", text, re.M)
    words = re.split(r"[,|]", line[1]) if line else []
    return [re.split(r"[\s:(]", word.strip(), maxsplit=1)[0] for word in words]


def _written(folder: Path, release: str, index: bytes) -> str:
    """Writes the indexes of one suite; what describes them."""
    lines = [line for line in release.splitlines() if line.partition(":")[0] in _KEPT_FIELDS]
    lines += ["Architectures: amd64", "Components: main", "SHA256:"]
    for name, content in ((_INDEX, index), (f"{_INDEX}.xz", lzma.compress(index, preset=1))):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}")
    return "".join(f"{line}\n" for line in lines)


def _keys() -> Path:
    return kept("apt-keys", _make_keys)


def _make_keys(draft: Path) -> None:
    if not KEYRING.exists():
        raise LabUnavailable("Debian's keys are missing: apt-get install debian-archive-keyring")
    draft.mkdir(mode=0o700)
    owner = "the lab <lab@localhost>"
    with _home() as home:
        _gpg(home, "--passphrase", "", "--quick-generate-key", owner, "ed25519", "sign", "0")
        (draft / "public.gpg").write_bytes(_gpg(home, "--export"))
        (draft / "secret.gpg").write_bytes(_gpg(home, "--export-secret-keys"))
    (draft / "all.gpg").write_bytes(KEYRING.read_bytes() + (draft / "public.gpg").read_bytes())


@contextlib.contextmanager
def _signer() -> Iterator[Callable[[str], bytes]]:
    """Signs a text, as apt reads it."""
    with _home() as home:
        _gpg(home, "--import", str(_keys() / "secret.gpg"))
        yield lambda text: _gpg(home, "--clear-sign", text=text)


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """A folder of gpg's own; its agent ends with it."""
    with tempfile.TemporaryDirectory(prefix="bai-gpg-", dir="/tmp") as folder:
        try:
            yield Path(folder)
        finally:
            command([tool("gpgconf"), "--homedir", folder, "--kill", "all"])


def _gpg(home: Path, *words: str, text: str = "") -> bytes:
    done = subprocess.run(
        [tool("gpg"), "--homedir", str(home), "--batch", "--quiet", "--no-tty", *words],
        input=text.encode(), check=False, capture_output=True, env=os.environ | {"LC_ALL": "C"},
    )  # fmt: skip
    if done.returncode:
        raise LabUnavailable(f"gpg: {done.stderr.decode().strip()}")
    return done.stdout
