"""Files of volumes through pages: real folders of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.storage.nodes import NodeStorage
from tests.bai.web.lab import Lab, serving
from tests.bai.web.panel.files.folders import FilesClient
from tests.bai.web.panel.files.test_transfers import begun, count
from tests.bai.web.panel.rendering import SECRET, two_projects
from tests.waiting import until

_VOLUMES = """
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: disk}}
spec: {{root: {root}, node: n1}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: data, project: p}}
spec: {{quota: 1MiB}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: data, project: {other}}}
spec: {{}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: shared}}
spec: {{}}
"""


class VolumeSite:
    """A lab with volumes in folders of `root`."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self.lab, self.root = lab, root

    def client(self, token: str, volume: str = "p/data") -> FilesClient:
        made = FilesClient(self.lab, token)
        made.address = f"/clusters/here/volumes/{volume}/files"
        return made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VolumeSite]:
    folder = tmp_path_factory.mktemp("volumes")
    root = folder / "disk"
    root.mkdir()
    lab = Lab(folder)
    lab.workspace.storage = NodeStorage(lambda name: None)
    lab.write("volumes", _VOLUMES.format(root=root, other=SECRET))
    two_projects(lab)
    for part in ("p/data", f"{SECRET}/data", "shared"):
        (root / part).mkdir(parents=True, exist_ok=True)
        (root / part / "kept.txt").write_bytes(part.encode())
    yield VolumeSite(lab, root)
    lab.close()


def test_operators_open_fetch_and_send(site: VolumeSite) -> None:
    client = site.client("operator-of-p")
    assert "kept.txt" in client.get().text
    assert client.get("content", "path=kept.txt").content == b"p/data"
    assert 'filename="p-data.tar"' in client.get("archive").headers["content-disposition"]
    assert client.send("name=new", b"x" * 1000).status_code == 204
    assert (site.root / "p" / "data" / "new").read_bytes() == b"x" * 1000
    last = site.lab.workspace.store.audit("here", limit=1)[0]
    assert (last.verb, last.resource, last.actor) == ("upload", "Volume/p/data", "operator-of-p")
    page = client.browser.get("/clusters/here/resources/Volume/p/data").text
    assert 'href="/clusters/here/volumes/p/data/files"' in page
    shared = site.client("operator", "shared")
    assert shared.get("content", "path=kept.txt").content == b"shared"
    assert 'href="/clusters/here/resources/Volume/shared"' in shared.get().text


@pytest.mark.parametrize(
    ("token", "volume", "status"),
    [("viewer", "p/data", 403), ("ours", "p/data", 403), ("viewer", "shared", 403), ("ours", "shared", 404),
     ("operator-of-p", "shared", 404), ("operator-of-p", f"{SECRET}/data", 404), ("operator", "p/none", 404),
     ("operator", "none", 404)],
)  # fmt: skip
def test_nobody_else_does(site: VolumeSite, token: str, volume: str, status: int) -> None:
    client = site.client(token, volume)
    answers = [client.get(each, "path=kept.txt") for each in ("", "content", "archive")]
    answers.append(client.send("name=forged"))
    assert [each.status_code for each in answers] == [status] * 4
    assert not any("forged" in each.name for each in site.root.rglob("*"))
    page = client.browser.get("/clusters/here/resources/Volume/p/data").text
    assert ("/files" in page) == (token in ("operator", "operator-of-p"))


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "%2e%2e/%2e%2e",
        "../shared",
        "%2e%2e%2fshared%2fkept.txt",
        "/etc",
        "link",
        "link/passwd",
        "%252e",
    ],
)
def test_no_path_leads_out(site: VolumeSite, path: str) -> None:
    client, link = site.client("operator"), site.root / "p" / "data" / "link"
    if not link.is_symlink():
        link.symlink_to("/etc")
    answers = [client.get(each, f"path={path}") for each in ("", "content", "archive")]
    assert [each.status_code for each in answers] == [404] * 3
    assert client.send(f"path={path}&name=x").status_code == 409
    assert client.send("name=fine", **{"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_a_quota_refuses_what_has_no_room_and_says_so(site: VolumeSite) -> None:
    refused = site.client("operator").send("name=large", b"x" * 2_000_000)
    assert refused.status_code == 409 and "its quota has room for" in refused.json()["detail"]
    assert not (site.root / "p" / "data" / "large").exists()


def test_what_breaks_off_leaves_nothing(site: VolumeSite) -> None:
    client = site.client("operator", "shared")
    with serving(site.lab.app) as address:
        request = "POST /clusters/here/volumes/shared/files?name=half"
        with begun(client, address, request, **{"Content-Length": "1000000"}) as connection:
            connection.sendall(b"x" * 300_000)
            until(lambda: len(list((site.root / "shared").iterdir())) == 2, "it has begun")
        until(lambda: count(site.lab) == 0, "its place is free")
    assert [each.name for each in (site.root / "shared").iterdir()] == ["kept.txt"]
