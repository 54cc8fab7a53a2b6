"""Files of sessions through pages: who gets them, what they may be called, and what others try with them."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Iterator
from html import unescape
from operator import itemgetter
from pathlib import Path

import pytest

from bai.web.panel.files.addresses import attachment
from tests.bai.web.lab import Lab
from tests.bai.web.panel.files.folders import FilesClient, FolderFiles
from tests.bai.web.panel.logins import browser
from tests.bai.web.panel.rendering import HOSTILE, SECRET, two_projects

NAMES = (
    b"plain.txt", b"a b&c=d#e?f+g%20h", b"<img src=x onerror=alert(1)>", b"line\r\nSet-Cookie: a=b",
    b"raw\xff\xfe",
    b"quote\"'\\", "\u202egpj.exe".encode(), "\u65e5\u672c".encode(), b"{{ 7777 * 7777 }}", b"..%2f..%2fetc",
    b"-rf", b".hidden",
)  # fmt: skip
shortened = itemgetter(slice(20))
NOBODYS = ("viewer", "ours")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderFiles]:
    """Of a lab with two projects; tests leave its folder `kept` as it is."""
    lab, root = Lab(tmp_path_factory.mktemp("lab")), tmp_path_factory.mktemp("files") / "within" / "root"
    root.mkdir(parents=True)
    made = FolderFiles(lab.world, root)
    lab.workspace.provider = made
    two_projects(lab)
    kept = root / "kept"
    kept.mkdir()
    for number, name in enumerate(NAMES):
        Path(os.fsdecode(os.path.join(os.fsencode(kept), name))).write_bytes(b"%d" % number * 1000)
    (kept / "folder").mkdir()
    (kept / "folder" / "inner").write_bytes(b"inner")
    (kept / "folder-link").symlink_to("folder")
    (root / "up").mkdir()
    made.lab = lab  # type: ignore[attr-defined]
    yield made
    lab.close()


def lab_of(files: FolderFiles) -> Lab:
    found: Lab = files.lab  # type: ignore[attr-defined]
    return found


def links(page: str, part: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'href="([^"]*)"', page) if part in each]


@pytest.mark.parametrize("token", ["operator", "admin", "operator-of-p"])
def test_operators_of_the_project_open_fetch_and_send(files: FolderFiles, token: str) -> None:
    client = FilesClient(lab_of(files), token)
    page = client.get(query="path=kept")
    assert (
        page.status_code == 200 and "plain.txt" in page.text and page.headers["cache-control"] == "no-store"
    )
    got = client.get("content", "path=kept/plain.txt")
    assert (got.status_code, got.content) == (200, b"0" * 1000)
    assert client.send(f"path=up&name=of-{token}", b"new" * 1000).status_code == 204
    assert (files.root / "up" / f"of-{token}").read_bytes() == b"new" * 1000
    session = client.browser.get("/clusters/here/sessions/p/own").text
    assert links(session, "/files") == ["/clusters/here/sessions/p/own/files"]


@pytest.mark.parametrize("token", NOBODYS)
def test_viewers_get_none_and_are_offered_none(files: FolderFiles, token: str) -> None:
    client, before = FilesClient(lab_of(files), token), len(files.asked)
    for action in ("", "content", "archive"):
        answer = client.get(action, "path=kept")
        assert answer.status_code == 403 and "operator for project p" in answer.text
    assert client.send("path=up&name=x").status_code == 403
    assert len(files.asked) == before
    assert not links(client.browser.get("/clusters/here/sessions/p/own").text, "/files")


def test_another_projects_sessions_are_not_there(files: FolderFiles) -> None:
    before = len(files.asked)
    for session in (f"{SECRET}/{SECRET}-run", "p/none", "none/none"):
        client = FilesClient(lab_of(files), "operator-of-p", session)
        answers = [client.get(each, "path=kept") for each in ("", "content", "archive")]
        answers.append(client.send("path=up&name=x"))
        assert [each.status_code for each in answers] == [404] * 4
    assert FilesClient(lab_of(files), "operator").get(query="kernel=other").status_code == 404
    assert len(files.asked) == before


def test_who_is_not_logged_in_is_led_to_the_login(files: FolderFiles) -> None:
    stranger = browser(lab_of(files))
    for action in ("", "/content", "/archive"):
        answer = stranger.get(f"/clusters/here/sessions/p/own/files{action}?path=kept")
        assert answer.status_code == 303 and answer.headers["location"].startswith("/login?")
    client = FilesClient(lab_of(files), "operator")
    client.browser.cookies.clear()
    client.token = lab_of(files).app.state.panel.sealer.form_token("")
    assert client.send("path=up&name=x").status_code == 401
    # The API's tokens open no page, and a page's login no API.
    bearer = {"Authorization": "Bearer operator"}
    assert stranger.get("/clusters/here/sessions/p/own/files", headers=bearer).status_code == 303


def test_every_name_is_text_and_leads_to_its_very_file(files: FolderFiles) -> None:
    client = FilesClient(lab_of(files), "operator")
    page = client.get(query="path=kept").text
    assert "<img src=x" not in page and "&lt;img src=x" in page and "60481729" not in page
    assert "\u202e" not in page and "raw\\xff\\xfe" in page and "\r" not in page
    found = links(page, "/content")
    assert len(found) == len(NAMES)
    contents = {client.browser.get(each).content for each in found}
    assert contents == {b"%d" % number * 1000 for number in range(len(NAMES))}
    (inner,) = [
        each for each in links(page, "path=kept%2Ffolder") if "archive" not in each and "-link" not in each
    ]
    assert "inner" in client.browser.get(inner).text
    assert "inner" in client.get(query="path=kept/folder-link").text
    assert page.count(">link<") == 1 and "kept%2Ffolder-link" not in "".join(links(page, "/archive"))


def test_what_is_fetched_is_kept_and_never_shown(files: FolderFiles) -> None:
    client = FilesClient(lab_of(files), "operator")
    for action in ("content", "archive"):
        for href in links(client.get(query="path=kept").text, f"/{action}"):
            answer = client.browser.get(href)
            assert answer.status_code == 200
            assert answer.headers["content-type"] in ("application/octet-stream", "application/x-tar")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in answer.headers["content-security-policy"]
            assert answer.headers["content-disposition"].startswith("attachment; ")
            assert "set-cookie" not in answer.headers and answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "name", [os.fsdecode(name) for name in NAMES] + [HOSTILE, "", "...", "a/b", "\0", "%41"]
)
def test_a_disposition_names_one_file_and_nothing_else(name: str) -> None:
    found = attachment(name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
    match = re.fullmatch(
        r"attachment; filename=\"([ !#-$&-.0-\[\]-~]+)\"; filename\*=UTF-8''([\w.~%-]+)", found
    )
    assert match, found
    for banned in ("%2F", "%5C", "%00", "%0D", "%0A", "%22", "%E2%80%AE"):
        assert banned not in match[2].upper()


def test_a_folder_comes_as_a_tar_file(files: FolderFiles) -> None:
    client = FilesClient(lab_of(files), "operator")
    answer = client.get("archive", "path=kept/folder")
    assert 'filename="folder.tar"' in answer.headers["content-disposition"]
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert archive.getnames() == ["folder", "folder/inner"]
    assert 'filename="p-own.tar"' in client.get("archive").headers["content-disposition"]


@pytest.mark.parametrize(
    "path",
    ["..", "../..", "kept/../../..", "%2e%2e/%2e%2e", "%2e%2e%2f", "kept%2f..%2f..%2f..", "..%5c..",
     "%252e%252e%252f",      "/../../etc", "//etc/passwd", "....//....//", "%c0%ae%c0%ae/", "%ff/..", "none"],
)  # fmt: skip
def test_no_path_leads_out_and_each_is_asked_for_as_it_is(files: FolderFiles, path: str) -> None:
    client = FilesClient(lab_of(files), "operator")
    answer = client.get(query=f"path={path}")
    assert answer.status_code == 404, answer.text
    assert client.get("content", f"path={path}").status_code == 404
    assert client.send(f"path={path}&name=x").status_code == 409
    assert not any(each.name == "x" for each in files.root.parent.parent.rglob("x"))


@pytest.mark.parametrize(
    "query",
    ["path=a%00b", f"path={'a' * 5000}", "&".join(["a=b"] * 100), f"kernel={'k' * 999}"],
    ids=shortened,
)
def test_what_no_file_can_be_called_is_not_asked_for(files: FolderFiles, query: str) -> None:
    client, before = FilesClient(lab_of(files), "operator"), len(files.asked)
    for action in ("", "content", "archive"):
        assert client.get(action, query).status_code == 400
    assert client.send(f"{query}&name=x").status_code == 400
    assert len(files.asked) == before


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a%2Fb", "..%2Fx", "%2Fetc%2Fpasswd", "a%00", "n" * 256, "%ff" * 256]
)
def test_a_file_comes_into_the_folder_and_nowhere_else(files: FolderFiles, name: str) -> None:
    client, before = FilesClient(lab_of(files), "operator"), len(files.asked)
    assert client.send(f"path=up&name={name}").status_code == 400
    assert len(files.asked) == before


def test_a_file_of_any_name_comes_in_and_leaves_a_link_alone(files: FolderFiles) -> None:
    client, outside = FilesClient(lab_of(files), "operator"), files.root / "outside"
    outside.write_bytes(b"kept")
    (files.root / "up" / "link").symlink_to(outside)
    for name in ("link", "raw%ff", "%3Cimg%20src%3Dx%3E", "line%0Afeed", "..%252f"):
        assert client.send(f"path=up&name={name}", b"new").status_code == 204
    assert outside.read_bytes() == b"kept"
    there = set(os.listdir(os.fsencode(files.root / "up")))
    assert {b"raw\xff", b"<img src=x>", b"line\nfeed", b"..%2f"} <= there


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"},
     {"Sec-Fetch-Site": "", "Origin": "http://evil.test"}, {"Bai-Form-Token": ""},
     {"Bai-Form-Token": "0" * 64}],
)  # fmt: skip
def test_no_other_site_sends_a_file(files: FolderFiles, headers: dict[str, str]) -> None:
    client, before = FilesClient(lab_of(files), "operator"), len(files.asked)
    other = FilesClient(lab_of(files), "admin").token
    assert client.send("path=up&name=forged", **headers).status_code == 403
    assert client.send("path=up&name=forged", **{"Bai-Form-Token": other}).status_code == 403
    assert len(files.asked) == before


def test_a_file_is_no_larger_than_it_may_be_and_no_other_request_is_larger_for_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.app.user_middleware[0].kwargs["largest_upload"] = 200_000
    lab.workspace.provider = made = FolderFiles(lab.world, tmp_path)
    two_projects(lab)
    client = FilesClient(lab, "operator")
    assert client.send("name=fits", b"x" * 200_000).status_code == 204
    assert client.send("name=large", b"x" * 200_001).status_code == 413
    for address in ("/login", "/clusters/here/sessions/p/own/files/content", "/api/v1/clusters/here/suspend"):
        assert client.browser.post(address, content=b"x" * 70_000).status_code == 413
    unsaid = client.browser.post(
        f"{client.address}?name=unsaid", content=iter([b"x"]),
        headers={"Sec-Fetch-Site": "same-origin", "Bai-Form-Token": client.token},
    )  # fmt: skip
    assert unsaid.status_code == 411
    assert [each for each in made.asked if each[0] == "write"] == [("write", "fits")]
    lab.close()


def test_who_fetches_and_sends_what_is_written_down(files: FolderFiles) -> None:
    client, lab = FilesClient(lab_of(files), "operator-of-p"), lab_of(files)
    client.get("content", "path=kept/raw%ff%fe")
    client.get("archive", "path=kept/folder")
    client.send("path=up&name=noted", b"x" * 5)
    last = sorted(lab.workspace.store.audit("here", limit=3), key=lambda each: each.seq)
    assert [(each.verb, each.resource, each.actor) for each in last] == [
        ("download", "Session/p/own", "operator-of-p"), ("download", "Session/p/own", "operator-of-p"),
        ("upload", "Session/p/own", "operator-of-p"),
    ]  # fmt: skip
    assert (
        last[0].cause == "kept/raw\\xff\\xfe, 1000 bytes (1000B)"
        and last[2].cause == "up/noted, 5 bytes (5B)"
    )
    assert last[1].cause.startswith("kept/folder, ") and "broken off" not in last[1].cause
    page = client.browser.get("/clusters/here/audit").text
    assert "up/noted, 5 bytes" in page
