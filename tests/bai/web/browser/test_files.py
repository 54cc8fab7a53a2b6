"""Files of a session in a real browser, over a real native session."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from providers.machines.files.folder_listing import FolderListing
from providers.process.provider import ProcessProvider
from tests.bai.web.browser.site import Shots, Site, SpokenLogs
from tests.bai.web.browser.test_looks import VIEWS, WIDE, is_too_wide, violations
from tests.bai.web.lab import Lab, serving
from tests.bai.web.panel.rendering import LABELLED_NODE, two_projects
from tests.lab.browser import Chromium
from tests.providers.process.kernels import script
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.real]
MADE = """
mkdir -p data/inner && printf 'of the session' >data/result.txt && head -c 300000 /dev/zero >data/zeros.bin
printf x >'data/<img src=x onerror=alert(1)>.txt'; printf y >"data/$(printf 'raw\\377')"
ln -s inner data/latest; mkfifo data/pipe; echo ready; exec sleep 3000
"""
ADDRESS = "/clusters/here/sessions/p/own/files"


class ProcessFiles(SpokenLogs):
    """Sessions of the lab have the files of one that really runs."""

    real: ProcessProvider
    kernel: str

    def list_files(self, kernel_id: str, path: str, most: int) -> FolderListing:
        return self.real.list_files(self.kernel, path, most)

    def write_file(self, kernel_id: str, path: str, size: int, data: Iterator[bytes]) -> None:
        self.real.write_file(self.kernel, path, size, data)

    def copy_out(self, kernel_id: str, path: str) -> Iterator[bytes]:
        return self.real.copy_out(self.kernel, path)

    def copy_in(self, kernel_id: str, path: str, archive: Iterator[bytes]) -> None:
        self.real.copy_in(self.kernel, path, archive)


@dataclass
class FilesSite:
    site: Site
    provider: ProcessFiles

    def content(self, path: str) -> bytes:
        """Of a file of the session, without a page."""
        return b"".join(self.provider.real.copy_out(self.provider.kernel, path))


@pytest.fixture
def served(tmp_path: Path, chromium: Chromium) -> Iterator[FilesSite]:
    root = Path(tempfile.mkdtemp(prefix="bai-process-"))  # Where other users can reach it.
    real, lab = ProcessProvider(root / "root"), Lab(tmp_path, node=LABELLED_NODE)
    made = ProcessFiles(lab.world)
    spec = script(MADE)
    made.real, made.kernel = real, spec.id
    real.create(spec)
    try:
        until(lambda: b"ready" in b"".join(real.logs(spec.id)), "the session has its files")
        lab.workspace.provider = made
        two_projects(lab)
        with serving(lab.app, chromium.listening()) as address:
            yield FilesSite(Site(lab, address, made, chromium), made)
            made.end()
    finally:
        lab.close()
        real.remove(spec.id)
        shutil.rmtree(root, ignore_errors=True)


def test_somebody_looks_at_fetches_and_sends_files(served: FilesSite, tmp_path: Path) -> None:
    visit = served.site.visit("operator-of-p", viewport=WIDE, reduced_motion="reduce")
    page = visit.page
    visit.in_cluster("sessions/p/own")
    page.get_by_role("link", name="Files").click()
    page.get_by_role("link", name="data/").click()
    expect(page.locator("td.name")).to_have_text(
        [
            "<img src=x onerror=alert(1)>.txt",
            "inner/",
            "latest",
            "pipe",
            r"raw\xff",
            "result.txt",
            "zeros.bin",
        ]
    )
    assert page.locator("main img").count() == 0

    with page.expect_download() as begun:
        page.get_by_role("link", name="Download result.txt").click()
    assert Path(begun.value.path()).read_bytes() == b"of the session"
    assert begun.value.suggested_filename == "result.txt"
    with page.expect_download() as begun:
        page.get_by_role("link", name="Download <img src=x onerror=alert(1)>.txt").click()
    assert Path(begun.value.path()).read_bytes() == b"x" and "/" not in begun.value.suggested_filename
    with page.expect_download() as begun:
        page.get_by_role("link", name=r"Download raw\xff").click()
    assert Path(begun.value.path()).read_bytes() == b"y"

    page.get_by_role("link", name="inner/").click()
    expect(page.locator(".empty")).to_have_text("There is nothing in this folder.")
    large, hostile = tmp_path / "large.bin", tmp_path / "<img src=y>.txt"
    large.write_bytes(bytes(range(256)) * 40_000)
    hostile.write_bytes(b"sent")
    page.get_by_label("Files to send here").set_input_files([large, hostile])
    page.get_by_role("button", name="Send", exact=True).click()
    # All of it is there: the page is opened anew.
    expect(page.locator("td.name")).to_have_text(["<img src=y>.txt", "large.bin"])
    assert bytes(range(256)) * 40_000 in served.content("data/inner/large.bin")
    assert b"sent" in served.content("data/inner/<img src=y>.txt")
    assert not visit.problems
    page.context.close()


def test_a_file_on_its_way_shows_how_far_it_is_and_can_be_stopped(served: FilesSite, tmp_path: Path) -> None:
    visit = served.site.visit("operator", viewport=WIDE)
    page = visit.page
    visit.go(f"{ADDRESS}?path=data/inner")
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 500_000},
    )
    large = tmp_path / "large.bin"
    large.write_bytes(b"x" * 30_000_000)
    page.get_by_label("Files to send here").set_input_files(large)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".uploads progress")).not_to_have_attribute("value", "0")
    expect(page.locator(".uploads .state")).to_have_text(re.compile(r"(KiB|MiB) of 28\.6 MiB"))
    page.screenshot(path=tmp_path / "upload.png")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".uploads .state")).to_have_text("cancelled")
    until(lambda: served.site.lab.app.state.transfers.count == 0, "its place is free")
    found = served.provider.real.list_files(served.provider.kernel, "data/inner", 10)
    assert found.entries == ()
    page.context.close()


def test_what_is_refused_is_said(served: FilesSite, tmp_path: Path) -> None:
    visit = served.site.visit("operator", viewport=WIDE)
    page = visit.page
    visit.go(f"{ADDRESS}?path=data")
    sent = tmp_path / "inner"
    sent.write_bytes(b"x")
    page.on("dialog", lambda dialog: dialog.accept())  # It would take the place of something.
    page.get_by_label("Files to send here").set_input_files(sent)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".uploads .state")).to_contain_text("directory")
    assert visit.go(f"{ADDRESS}?path=data/result.txt") == 404
    expect(page.locator("main")).to_contain_text("Not a directory")
    page.context.close()


def test_the_page_can_be_read_by_everybody(served: FilesSite, shots: Shots) -> None:
    visit = served.site.visit("operator", viewport=WIDE, reduced_motion="reduce")
    page, wrong = visit.page, list[str]()
    visit.go(f"{ADDRESS}?path=data")
    for view, scheme, size, rules in VIEWS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        shots.take(page, f"files-{view}")
        wrong += [f"{view}: {each}" for each in violations(page, **rules)]
        if is_too_wide(page):
            wrong.append(f"{view}: the page is wider than its window")
    page.context.close()
    assert not wrong, "\n".join(wrong)
