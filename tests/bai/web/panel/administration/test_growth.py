"""What pages ask the store does not grow with the cluster, and no page is work for each pair of its sessions
and nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import pytest
from sqlalchemy import event

from bai.web.panel.administration.audit import AuditPageQuery, audit_page
from bai.web.panel.administration.groups import group_list, group_page
from bai.web.panel.administration.images import images_page
from bai.web.panel.administration.nodes import NodeListQuery, node_list
from bai.web.panel.administration.notifications import notification_rows
from bai.web.panel.administration.projects import project_list, project_page
from bai.web.panel.administration.storage import StorageQuery, storage_page
from bai.web.panel.administration.users import user_list
from bai.web.panel.administration.waves import waves_page
from bai.web.pass_view import PassView
from schemas.files import file_memory
from tests.bai.web.panel.rendering import bench_view
from tests.harness.work import Count, instructions, instructions_per_pair, just_do

MOST = 0.2
"""Instructions for each pair, as in the API's test of growth."""
SESSIONS, NODES = 16, 4
PAGES: Mapping[str, Callable[[PassView], object]] = {
    "projects": project_list,
    "project": lambda view: project_page(view, "p"),
    "users": user_list,
    "groups": group_list,
    "group": lambda view: group_page(view, "all"),
    "nodes": lambda view: node_list(view, NodeListQuery(state="active")),
    "waves": waves_page,
    "storage": lambda view: storage_page(view, StorageQuery()),
    "images": images_page,
    "notifications": notification_rows,
    "audit": lambda view: audit_page(view, AuditPageQuery(verb="create")),
    "audit of one": lambda view: audit_page(view, AuditPageQuery(resource="Session/p/s1")),
}
Found = dict[str, tuple[int, int]]


@contextmanager
def questions(view: PassView) -> Iterator[list[str]]:
    """What the store is asked."""
    asked: list[str] = []
    assert view.store is not None
    engine = view.store._engine

    def note(connection: object, cursor: object, statement: str, *more: object) -> None:
        asked.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(engine, "before_cursor_execute", note)


def ask_all(sessions: int, count: Count = instructions) -> Found:
    """By page, instructions and questions to the store."""
    found = {}
    with bench_view(NODES * sessions // SESSIONS, sessions) as view:
        for name, page in PAGES.items():
            with questions(view) as asked:
                page(view)
            found[name] = (count(partial(page, view)), len(asked))
    return found


@pytest.fixture(scope="module")
def found() -> Mapping[int, Found]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_memory, "SETTLED", -60.0)
        ask_all(SESSIONS, just_do)
        return {size: ask_all(size) for size in (SESSIONS, 2 * SESSIONS, 4 * SESSIONS)}


@pytest.mark.parametrize("page", PAGES)
def test_pages(page: str, found: Mapping[int, Found]) -> None:
    assert instructions_per_pair(lambda size: found[size][page][0], SESSIONS) <= MOST
    assert {each[page][1] for each in found.values()} == {found[SESSIONS][page][1]}
    assert found[SESSIONS][page][1] <= 8
