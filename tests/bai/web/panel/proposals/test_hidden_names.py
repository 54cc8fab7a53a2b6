"""Whoever writes a session and sees one project is told nothing of the others by what is wrong with it: what
is hidden from them is, word for word, what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.web.auth.roles import Principal
from bai.web.dependencies import project_view
from bai.web.panel.proposals.desk import OpenedDocuments
from bai.web.panel.proposals.drafts import draft_of
from bai.web.panel.proposals.views import draft_preview
from providers.fake import FakeProvider
from reconciler.gitops.submit import FileChange
from schemas.files.sources import SourceFile
from schemas.kinds.session import Session
from schemas.problems.errors.repository import InvalidRepository
from tests.bai.web.lab import WHO, Lab
from tests.bai.web.panel.rendering import LABELLED_NODE, SECRET, texts_of, theirs, two_projects, view_of
from tests.reconciler.lab import session

NOWHERE = "zebru"
"""As near to names of ours as the other project's; there is no such thing."""
MORE = f"""
apiVersion: bai/v1
kind: User
metadata: {{name: ada}}
spec: {{projects: [p]}}
---
apiVersion: bai/v1
kind: User
metadata: {{name: {SECRET}-user}}
spec: {{projects: [{SECRET}], email: mail@{SECRET}.example}}
---
apiVersion: bai/v1
kind: Quota
metadata: {{name: {SECRET}-quota}}
spec: {{subject: {{project: {SECRET}}}, total: {{cpu: 100}}}}
---
apiVersion: bai/v1
kind: SessionTemplate
metadata: {{name: {SECRET}-template, project: {SECRET}}}
spec: {{session: {{command: [run]}}}}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: disk}}
spec: {{root: /srv/disk, node: n1}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: {SECRET}-volume, project: {SECRET}}}
spec: {{}}
"""
INVALID = (
    "dependsOn: [Session/NAME/NAME-run]",
    "dependsOn: [Session/NAME/none]",
    "dependsOn: [Session/p/NAME]",
    "dependsOn: [NAME]",
    "mounts: [{volume: NAME-volume, path: /d}]",
    "mounts: [{volume: NAME/NAME-volume, path: /d}]",
    "from: {template: NAME-template}",
    "from: {template: NAME}",
    "owner: NAME-user",
    "owner: mail@NAME.example",
    "owner: NAME",
    "resourceGroup: NAME",
    "placement: {nodes: [NAME]}",
    "secrets: [{env: A, from: NAME/key}]",
    "resources: {NAME: 1}",
    "timeout: NAME",
    "NAME: 1",
)
WAITING = (
    "placement: {nodeSelector: {rack: NAME}}",
    "placement: {nodeSelector: {NAME: rack}}",
    "placement: {gpuModel: [NAME]}, resources: {cuda.device: 1}",
    "resources: {NAME.device: 1}",
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two projects, of which the other has documents of each kind that a session names."""
    lab = Lab(tmp_path_factory.mktemp("shop"), node=LABELLED_NODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("providers.registry.open_provider", lambda *_, **__: FakeProvider(lab.world))
        two_projects(lab)
        lab.write("more", MORE)
        assert lab.once(), lab.lines
        yield lab
        lab.close()


def told(lab: Lab, text: str, who: str = "operator-of-p") -> list[str]:
    desk = lab.app.state.proposals.by_cluster["here"]
    found = draft_preview(view_of(lab, who), desk, Principal(who, WHO[who]), text)
    return [each for each in texts_of(found) if each]


@pytest.mark.parametrize("who", ["ours", "operator-of-p"])
@pytest.mark.parametrize("spec", [*INVALID, *WAITING])
def test_a_name_of_others_is_answered_as_one_that_nobody_has(shop: Lab, spec: str, who: str) -> None:
    hidden, nobodys = (
        told(shop, session("new", spec.replace("NAME", name)), who) for name in (SECRET, NOWHERE)
    )
    assert hidden == [each.replace(NOWHERE, SECRET) for each in nobodys]
    assert hidden[0] == ("It would wait" if spec in WAITING else "This is not valid yet")


@pytest.mark.parametrize("spec", INVALID)
def test_nor_is_a_name_of_theirs_offered_for_another_one(shop: Lab, spec: str) -> None:
    assert SECRET not in "".join(told(shop, session("new", spec.replace("NAME", NOWHERE))))


def test_who_sees_everything_may_name_all_of_it(shop: Lab) -> None:
    text = session("new", f"dependsOn: [Session/{SECRET}/{SECRET}-run]")
    assert told(shop, text, "operator")[0] != "This is not valid yet"
    assert f"known are ada, mail@{SECRET}.example, {SECRET}-user" in told(
        shop, session("new", "owner: x"), "operator"
    )


def test_mistakes_of_others_are_not_told(shop: Lab) -> None:
    """Not even where they stand: their files may be called as they like."""
    shop.write(f"{SECRET}-broken", theirs("broken", f"{SECRET}: 1"))
    try:
        desk = shop.app.state.proposals.by_cluster["here"]
        who = Principal("operator-of-p", WHO["operator-of-p"])
        opened = desk.newest(who)
        broken = (shop.folder / f"{SECRET}-broken.yaml").read_bytes()
        theirs_too = SourceFile(f"{SECRET}-broken.yaml", broken)
        change = FileChange("sessions/p/new.yaml", None, session("new").encode())
        with_theirs = OpenedDocuments(
            opened.source, opened.commit, (*opened.given, theirs_too), opened.repository
        )
        with pytest.raises(InvalidRepository) as found:
            desk.desired_with(with_theirs, change, who)
        assert [each.message for each in found.value.problems] == [
            "documents that are not yours have mistakes"
        ]
        assert SECRET not in str(found.value.problems)
        with pytest.raises(InvalidRepository) as every:
            desk.desired_with(with_theirs, change, Principal("admin", WHO["admin"]))
        assert SECRET in str(every.value.problems)
    finally:
        shop.drop(f"{SECRET}-broken")


def test_what_a_document_named_before_its_author_may_go_on_naming(tmp_path: Path) -> None:
    """Written in git by who sees both, changed on a page by who sees one of them."""
    lab = Lab(tmp_path)
    two_projects(lab)
    lab.write("after", session("after", f"dependsOn: [Session/{SECRET}/{SECRET}-run]"))
    assert lab.once(), lab.lines
    who = Principal("operator-of-p", WHO["operator-of-p"])
    desk = lab.app.state.proposals.by_cluster["here"]
    opened = desk.newest(who)
    before = (lab.folder / "after.yaml").read_bytes()
    change = FileChange("after.yaml", before, before.replace(b"[sleep, inf]", b"[sleep, 1h]"))
    assert isinstance(desk.desired_with(opened, change, who).sessions()["Session/p/after"], Session)
    other = f"Session/{SECRET}/{SECRET}-too".encode()
    worse = before.replace(f"Session/{SECRET}/{SECRET}-run".encode(), other)
    with pytest.raises(InvalidRepository, match="1 problem"):
        desk.desired_with(opened, FileChange("after.yaml", before, worse), who)
    draft = draft_of(project_view(lab.hub.clusters["here"], who), opened.repository, change)
    assert draft is not None and draft.file == "after.yaml"
    lab.close()
