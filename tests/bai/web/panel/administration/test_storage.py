"""Volumes and their trash, as `bai volumes` has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from bai.render.resources.volumes import volume_rows
from bai.web.panel.administration.storage import (
    NOT_OURS,
    StorageQuery,
    look_at_storage,
    storage_page,
)
from providers.storage.nodes import NodeStorage
from reconciler.values.volume_folders import volume_folders
from schemas.problems.errors.provider import ProviderUnavailable
from tests.bai.web.lab import Lab
from tests.bai.web.panel.administration.world import STORAGE
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render, texts_of, view_of
from tests.bai.web.panel.test_pages import logged_in
from tests.reconciler.lab import session

ASKED = StorageQuery()


def test_rows_have_the_words_of_the_command(world: Lab) -> None:
    view = view_of(world)
    page = storage_page(view, ASKED)
    told = volume_rows(volume_folders(view.desired), view.actual.volumes or {})
    shown = [[r.name, r.host, r.node, r.folder, r.used, r.quota, r.note] for r in page.rows]
    assert shown == told and len(told) == 2
    first = page.rows[0]
    assert (first.mounts, first.mounted, first.quota) == (("Session/p/adas",), 1, "1GiB")
    (host,) = page.hosts
    assert (host.name, host.type, host.node, host.volumes) == ("disk", "local", "n1", 2)
    assert page.trash is None


def test_a_viewer_of_one_project_sees_its_volumes(world: Lab) -> None:
    page = storage_page(view_of(world, "ours"), ASKED)
    assert [row.name for row in page.rows] == ["p/data"] and page.hosts == ()
    assert page.projects_known == ("p",)
    assert SECRET not in "".join(texts_of(page))


@pytest.mark.parametrize(
    ("asked", "names"),
    [({"q": "DATA"}, 2), ({"q": "p/d"}, 1), ({"host": "none"}, 0), ({"project": SECRET}, 1)],
)
def test_they_are_chosen(world: Lab, asked: dict[str, str], names: int) -> None:
    page = storage_page(view_of(world), StorageQuery(**asked))  # type: ignore[arg-type]
    assert len(page.rows) == names
    assert page.query() == asked


def volume_lab(folder: Path) -> Lab:
    lab = Lab(folder)
    (folder / "disk").mkdir()
    lab.workspace.storage = NodeStorage(lambda name: None)
    documents = STORAGE.format(root=folder / "disk").replace(SECRET, "p")
    lab.write("storage", documents)
    lab.write("s", session("s", "mounts: [{volume: data, path: /data}]"))
    assert lab.once(), lab.lines
    lab.once()
    return lab


def test_a_look_counts_and_finds_what_was_deleted(tmp_path: Path) -> None:
    lab = volume_lab(tmp_path)
    (tmp_path / "disk" / "p" / "data" / "file").write_bytes(bytes(100_000))
    lab.write("storage", STORAGE.format(root=tmp_path / "disk").replace(SECRET, "p").rpartition("---")[0])
    assert lab.once(), lab.lines
    view = view_of(lab)
    looked = look_at_storage(lab.workspace.storage, view.desired)
    page = storage_page(view, ASKED, looked)
    (row,) = page.rows
    assert row.used != "-" and looked.seen[row.identity].used >= 100_000  # type: ignore[operator]
    assert page.trash is not None
    (gone,) = page.trash
    storage = lab.workspace.storage
    assert storage is not None
    (entry,) = storage.trashed(looked.trash[0][0])
    assert (gone.volume, gone.entry, gone.host) == ("Volume/p/p-data", entry.entry, "disk")
    text = render("administration/storage.html", page=page, may_look=True)
    assert gone.entry in text and "Look again" in text
    assert_harmless(render("administration/storage.html", page=hostile(page), may_look=True))
    lab.close()


def test_who_does_not_answer_is_named(world: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ProviderUnavailable(provider="node n1", why="no route")

    monkeypatch.setattr(world.workspace.storage, "trashed", refuse)
    looked = look_at_storage(world.workspace.storage, view_of(world).desired)
    assert looked.problems[0].startswith("the trash of disk could not be looked at") and looked.seen
    assert look_at_storage(None, view_of(world).desired).problems == (NOT_OURS,)


@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("ours", 403), ("operator-of-p", 403),
                                             ("operator", 200), ("admin", 200)])  # fmt: skip
def test_only_operators_have_nodes_asked(world: Lab, who: str, status: int) -> None:
    visitor: TestClient = logged_in(world, who)
    shown = visitor.get("/clusters/here/storage/look")
    assert shown.status_code == status
    page = visitor.get("/clusters/here/storage")
    assert page.status_code == 200 and ("storage/look" in page.text) is (status == 200)
    if status == 200:
        assert "data-live" not in shown.text and "The trash is empty." in shown.text
