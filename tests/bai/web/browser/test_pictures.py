"""The pictures of the panel in README and docs: made of the demo, at a time that is always the same.

make screens-panel      makes them anew
"""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from bai.web.app import create_app
from bai.web.auth.roles import AnonymousAuthenticator, Role, StaticAccess
from bai.web.cluster_loops import ClusterLoops, Simulation
from bai.web.demo.demo_cluster import DemoCluster
from bai.web.demo.serve_demo import SEED
from tests.bai.web.browser.site import Visit
from tests.bai.web.browser.test_looks import violations
from tests.bai.web.lab import serving
from tests.lab.browser import Chromium

pytestmark = pytest.mark.xdist_group("browser")
ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "docs" / "images"
WIDTH = 1280
MOST_BYTES = 150 * 1024
NOW = 1_800_000_000.0
MOST_DIFFERENCE = 12.0
"""Of 255, on average over a small copy: other fonts differ less, other pages more."""
_DIFFERENCE = """async (sources) => {
  const [width, height] = [64, 40];
  const smaller = async (source) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height);
    return context.getImageData(0, 0, width, height).data;
  };
  const [one, other] = await Promise.all(sources.map(smaller));
  return one.reduce((sum, value, at) => sum + Math.abs(value - other[at]), 0) / (width * height * 3);
}"""


@dataclass(frozen=True)
class Picture:
    """One of docs/images: what of the cluster's pages it shows, and what must be read there."""

    name: str
    page: str
    shows: str
    dark: bool = False
    height: int = 800


PICTURES = (
    Picture("panel-cluster", "", "dgx-12", height=1200),
    Picture("panel-cluster-dark", "", "dgx-12", dark=True),
    Picture("panel-node", "nodes/dgx-11", "row remapping failed"),
    Picture("panel-queue", "queue", "starts by", height=720),
    Picture("panel-waiting", "sessions/robotics/world-model", "may borrow 8 GPUs"),
    Picture("panel-review", "review?commit=vision-40-gpus", "detector-xl"),
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, chromium: Chromium) -> Iterator[Visit]:
    """The demo as it is when its past is over, where time stands still."""
    made = DemoCluster(tmp_path_factory.mktemp("demo"), NOW, SEED)
    (loop,) = made.loop_settings.open_loops(made.settings, made.origin)
    made.take_over(loop)
    loops = ClusterLoops()
    loops.add(loop)
    made.live_past(loop)
    loops.clusters["dgx"].simulation = Simulation(0)
    with serving(
        create_app(loops, StaticAccess([AnonymousAuthenticator(Role.viewer)])), chromium.listening()
    ) as address:
        page = chromium.page(reduced_motion="reduce", locale="en-GB", timezone_id="UTC")
        yield Visit(page, address)
        page.context.close()
    loops.close()


def difference(page: Page, one: bytes, other: bytes) -> float:
    blank = page.context.new_page()
    sources = [f"data:image/png;base64,{base64.b64encode(each).decode()}" for each in (one, other)]
    found = blank.evaluate(_DIFFERENCE, sources)
    blank.close()
    return float(found)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_of_its_page(demo: Visit, picture: Picture) -> None:
    page, file = demo.page, FOLDER / f"{picture.name}.png"
    page.set_viewport_size({"width": WIDTH, "height": picture.height})
    page.emulate_media(color_scheme="dark" if picture.dark else "light")
    assert demo.go(f"/clusters/dgx/{picture.page}".rstrip("/")) == 200
    expect(page.locator("main")).to_contain_text(picture.shows)
    demo.waits_for_news()
    made = page.screenshot()
    if os.environ.get("BAI_RECORD"):
        FOLDER.mkdir(exist_ok=True)
        file.write_bytes(made)
    kept = file.read_bytes()
    assert struct.unpack(">2I", kept[16:24]) == (WIDTH, picture.height)
    assert len(kept) <= MOST_BYTES
    assert difference(page, made, kept) <= MOST_DIFFERENCE, "make screens-panel"
    assert not demo.problems
    assert violations(page) == []


def test_every_picture_is_shown() -> None:
    shown = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/panel.md"))
    assert [file.name for file in sorted(FOLDER.glob("panel-*.png")) if file.name not in shown] == []
    assert {each.name for each in PICTURES} == {file.stem for file in FOLDER.glob("panel-*.png")}
