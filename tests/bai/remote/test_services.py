"""Services as commands show them, here and of a server; orders about them; logs of all their replicas."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from pydantic import TypeAdapter

from bai.cli.services.local_replicas import LocalReplicas
from bai.cli.services.log_choice import LogChoice
from bai.cli.services.replica_logs import FollowedReplicas, ReplicaLog, each_in_turn
from bai.cli.services.rollout_orders import ServerRollouts, StoreRollouts
from bai.cli.sessions.find import find_kernel, observe_sessions
from bai.cli.sessions.logs import LogRequest
from bai.queries import models
from bai.queries.answers import answer
from bai.queries.view import WorkspaceView
from bai.render.printout import Printout
from bai.render.resources.services import COLUMNS
from schemas.problems.errors.command import CommandError, NoSuchResource
from schemas.problems.errors.provider import ProviderError
from schemas.problems.errors.store import StoreError
from tests.bai.remote.conftest import Laptop
from tests.bai.remote.test_remote_commands import of
from tests.bai.services import (
    CHAT,
    NEW,
    NEW_COMMIT,
    OLD,
    OLD_COMMIT,
    REPLICAS,
    STATUS,
    complete,
    plan_services,
    publish,
    run_replicas,
)
from tests.bai.web.lab import Lab, bearer
from tests.waiting import until

QUERIES = (
    models.GetQuery(kind="Service"),
    models.GetQuery(kind="Service", name="chat", form="json"),
    models.GetQuery(kind="Service", project="p", form="wide"),
    models.DescribeQuery(resource="service/chat"),
    models.DescribeQuery(resource="svc/p/chat", form="json"),
    models.ExplainQuery(session="service/chat"),
    models.ExplainQuery(session="Service/p/chat", form="json"),
)


@pytest.fixture
def served(lab: Lab) -> Lab:
    """A service in the midst of a rollout."""
    run_replicas(lab)
    publish(lab)
    return lab


def here(lab: Lab, patch: pytest.MonkeyPatch) -> WorkspaceView:
    plan_services(patch)
    view = WorkspaceView.of(lab.loop.workspace)
    view.now = lab.world.clock.now()
    return view


def test_a_server_shows_services_as_the_repository_does(
    served: Lab, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = TypeAdapter(Printout)
    view = here(served, monkeypatch)
    for query in QUERIES:
        mine, theirs = answer(view, query), of(server).read(query)
        assert values.dump_python(theirs, mode="json") == values.dump_python(mine, mode="json"), query


def test_services_are_listed_described_and_explained(served: Lab, server: str, laptop: Laptop) -> None:
    laptop.log_in(server, "viewer")
    for words in (("services",), ("service",), ("svc",), ("service/chat",), ("svc/p/chat",)):
        head, line = laptop.ok("get", *words).out.splitlines()
        assert head.split() == [each.upper() for each in COLUMNS]
        assert line.split() == ["chat", "p", "1/2", "2", "-", NEW, OLD, "progressing", "-", "-"]
    (item,) = laptop.ok("get", "services", "-o", "json").json["items"]
    assert item["id"] == CHAT and item["status"]["ready"] == 1 and item["status"]["target"] == NEW
    assert [each["name"] for each in item["generations"]] == ["0badcafe", OLD, NEW]
    assert item["replicas"][0]["node"] in ("n1", "n2") and item["replicas"][3]["node"] == ""
    told = laptop.ok("describe", "service/chat").out
    for part in (
        f"{REPLICAS[0]}  ready on n", "100 % of requests", "not ready: HTTP status 503", "no GPU is free",
        f"{OLD}  commit {OLD_COMMIT[:12]}", "given up: no replica got ready in 10m", "Traffic",
    ):  # fmt: skip
        assert part in told, told
    why = laptop.ok("explain", "service/chat").out
    assert why.startswith(f"{CHAT}: progressing\n    2 of 2 updated, 1 ready"), "each thing is said once"
    assert "no GPU is free" in why and "0badcafe was given up" in why
    wrong = laptop("get", "service/chatt")
    assert wrong.code == 1 and "did you mean" in wrong.err


def test_rollout_status_says_how_far_it_is_and_ends_with_it(served: Lab, server: str, laptop: Laptop) -> None:
    laptop.log_in(server, "viewer")
    once = laptop.ok("rollout", "status", "service/chat", "--no-wait").out
    assert once == f"{CHAT}  {OLD} → {NEW}: 2 of 2 updated, 1 ready; waits: no GPU is free\n"
    late = laptop("rollout", "status", "chat", "--timeout", "1s")
    assert late.code == 1 and "the time is over" in late.err and late.out == once
    publish(served, complete())
    assert laptop.ok("rollout", "status", "svc/p/chat").out == f"{CHAT}  {NEW}: 2 of 2 updated, 2 ready\n"
    publish(served, replace(STATUS, phase="failed", why="no replica got ready in 10m"))
    failed = laptop("rollout", "status", "chat")
    assert failed.code == 1 and f"generation {NEW} was given up: no replica got ready in 10m" in failed.err
    assert laptop("rollout", "status", "nothing").code == 1


def test_undo_is_ordered_by_operators_of_the_project(served: Lab, server: str, laptop: Laptop) -> None:
    store = served.workspace.store
    for name in ("viewer", "ours"):
        laptop.log_in(server, name)
        said = laptop("rollout", "undo", "service/chat")
        assert said.code == 1 and "needs the role operator" in said.err
    assert store.rollout_orders("here") == {}
    laptop.log_in(server, "operator-of-p")
    said = laptop.ok("rollout", "undo", "service/chat", "--why", "it is slow")
    assert f"goes back to generation {OLD} (commit {OLD_COMMIT[:12]})" in said.out
    assert f"Git still says {NEW}" in said.out and f"`git revert {NEW_COMMIT[:12]}`" in said.out
    order = store.rollout_orders("here")[CHAT]
    assert (order.generation, order.against, order.actor) == (OLD, NEW, "operator-of-p")
    (entry,) = store.audit("here", verb="undo-rollout")
    assert (entry.resource, entry.actor, entry.commit) == (CHAT, "operator-of-p", OLD_COMMIT)
    assert "it is slow" in entry.cause
    publish(served)
    assert "bai rollout resume service/p/chat" in laptop.ok("describe", "service/chat").out
    laptop.ok("rollout", "undo", "service/chat", "--to", "0badcafe")
    assert store.rollout_orders("here")[CHAT].generation == "0badcafe"
    for to, why in (("5eedf00d", f"known are {NEW}, {OLD}, 0badcafe"), (NEW, "is what the document")):
        wrong = laptop("rollout", "undo", "service/chat", "--to", to)
        assert wrong.code == 1 and why in wrong.err, wrong.err
    assert laptop("rollout", "undo", "service/chat", "--to", "../../x").code == 1
    assert "by its document again" in laptop.ok("rollout", "resume", "service/chat").out
    assert store.rollout_orders("here") == {}
    assert "there is no order to end" in laptop.ok("rollout", "resume", "service/chat").out


def test_an_order_about_a_service_of_another_project_finds_nothing(served: Lab) -> None:
    """Neither whether it is there, nor which generations it had."""
    served.write("q", "apiVersion: bai/v1\nkind: Project\nmetadata: {name: q}\nspec: {}\n")
    for path in ("services/q/chat/undo", "services/q/chat/resume", "services/p/nothing/undo"):
        answer_ = served.client.post(f"/api/v1/clusters/here/{path}", headers=bearer("operator-of-p"))
        assert answer_.status_code == 404, path
        assert NEW not in answer_.text and OLD not in answer_.text
    body = {"generation": "0" * 8, "document": {"command": ["evil"]}}
    path = "/api/v1/clusters/here/services/p/chat/undo"
    assert served.client.post(path, json=body, headers=bearer("operator")).status_code == 422
    assert served.client.post(path, json={"generation": OLD}).status_code == 401
    assert served.workspace.store.rollout_orders("here") == {}


def test_who_sees_one_project_hears_nothing_of_services_of_others(
    lab: Lab, server: str, laptop: Laptop
) -> None:
    """Neither by name nor in the reasons of their own sessions, whose room those hold."""
    lab.write("zebra", "apiVersion: bai/v1\nkind: Project\nmetadata: {name: zebra}\nspec: {}\n")
    theirs = SERVICE.format(word="1").replace("name: web, project: p", "name: stripes, project: zebra")
    lab.write("theirs", theirs.replace("replicas: 2", "replicas: 200"))
    lab.write("web", SERVICE.format(word="1"))
    settled(lab)
    laptop.log_in(server, "viewer")
    assert "stripes" in laptop.ok("get", "services").out and "stripes" in laptop.ok("get", "all").out
    laptop.log_in(server, "ours")
    told = (
        ("get", "services"), ("get", "services", "-o", "json"), ("get", "all"), ("get",), ("status",),
        ("describe", "service/web"), ("explain", "service/web"), ("events",),
        ("explain", "service/web", "--format", "json"), ("audit",),
        ("rollout", "status", "service/web", "--no-wait"),
    )  # fmt: skip
    for words in told:
        said = laptop.ok(*words)
        assert "zebra" not in said.out + said.err and "stripes" not in said.out + said.err, words
    for words in (
        ("get", "service/stripes"), ("describe", "service/zebra/stripes"), ("explain", "service/stripes"),
        ("logs", "service/zebra/stripes"), ("rollout", "status", "service/zebra/stripes"),
    ):  # fmt: skip
        said = laptop(*words)
        assert said.code == 1 and "Service/zebra" not in said.err and "did you mean" not in said.err, words


def test_the_api_lists_services_as_resources(served: Lab) -> None:
    (found,) = served.get("/api/v1/clusters/here/resources?kind=Service")
    assert found["id"] == CHAT and found["status"]["phase"] == "progressing"
    assert len(found["replicas"]) == 4


def test_pages_list_services_and_lead_to_each(served: Lab) -> None:
    same = {"Sec-Fetch-Site": "same-origin"}
    assert served.client.post("/login", data={"credential": "ours"}, headers=same).status_code == 200
    page = served.client.get("/clusters/here/resources?kind=Service").text
    assert 'href="/clusters/here/resources/Service/p/chat"' in page and "progressing" in page
    one = served.client.get("/clusters/here/resources/Service/p/chat").text
    assert "no replica got ready in 10m" in one and REPLICAS[0] in one


def test_an_order_here_is_written_and_wakes_whoever_leads(
    served: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconciler.gitops.directives import read_directives

    store = served.workspace.store
    orders = StoreRollouts(here(served, monkeypatch), store)
    before = read_directives(store, "here")
    found = orders.undo("chat", "", "because")
    assert (found.generation, found.latest, found.latest_commit) == (OLD, NEW, NEW_COMMIT)
    assert read_directives(store, "here").reconcile_request != before.reconcile_request
    assert served.workspace.actual().rollout_orders[CHAT].generation == OLD
    assert orders.resume("p/chat", "") == (CHAT, True) and orders.resume("chat", "") == (CHAT, False)
    with pytest.raises(NoSuchResource, match="generation of Service/p/chat"):
        orders.undo("chat", "12345678", "")


def test_without_another_generation_there_is_nothing_to_go_back_to(
    served: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = StoreRollouts(here(served, monkeypatch), served.workspace.store)
    plan_services(monkeypatch, replace(STATUS, latest=OLD, target=OLD, stable=OLD))
    view = WorkspaceView.of(served.loop.workspace)
    with pytest.raises(CommandError, match="no generation of Service/p/chat was complete before"):
        StoreRollouts(view, served.workspace.store).undo("chat", "", "")
    assert orders.store.rollout_orders("here") == {}


def test_a_loop_is_woken_by_an_order(served: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by directives: whichever process it is written in."""
    woken = threading.Event()
    monkeypatch.setattr(served.loop, "wake", woken.set)
    listening = threading.Thread(target=served.loop._wake_on_directives, daemon=True)
    orders = StoreRollouts(here(served, monkeypatch), served.workspace.store)
    listening.start()

    def order() -> bool:
        orders.undo("chat", "", "")
        return woken.is_set()

    until(order)
    served.loop.halt()
    listening.join()


def test_commands_for_sessions_name_the_replicas_of_a_service(served: Lab) -> None:
    actual = observe_sessions(served.workspace)
    with pytest.raises(CommandError, match="is a service") as caught:
        find_kernel(actual, "service/chat")
    assert caught.value.hint == f"these are {', '.join(REPLICAS)}"
    with pytest.raises(NoSuchResource, match="no service named nothing"):
        find_kernel(actual, "service/nothing")
    assert find_kernel(actual, REPLICAS[2])[0].id == f"Session/p/{REPLICAS[2]}"


def write_logs(lab: Lab) -> None:
    for kernel in lab.world.kernels.values():
        name = kernel.spec.labels.resource.rpartition("/")[2]
        kernel.log += [f"{name} begins\n".encode(), b"\x1b[31mred\xff\n"]


def test_logs_of_all_replicas_have_their_names(served: Lab, server: str, laptop: Laptop) -> None:
    write_logs(served)
    laptop.log_in(server, "ours")
    lines = laptop.ok("logs", "service/chat").out.splitlines()
    assert [line for line in lines if "begins" in line] == [f"{name} | {name} begins" for name in REPLICAS]
    assert len(lines) == 2 * len(REPLICAS)
    short = laptop.ok("logs", "svc/p/chat", "--tail", "1", "--all").out.splitlines()
    assert [line.partition(" | ")[0] for line in short] == [f"{name}/main1" for name in REPLICAS]
    assert laptop("logs", "service/nothing").code == 1
    mine = LocalReplicas.find(served.workspace, "service/chat", LogChoice(LogRequest(tail=1), False))
    assert mine is not None
    assert [name for name, _ in each_in_turn(mine)] == list(REPLICAS)
    assert LocalReplicas.find(served.workspace, REPLICAS[0], LogChoice(LogRequest(), False)) is None


@dataclass
class Changing:
    """Replicas that come and go; outputs end when they are told to."""

    outputs: dict[str, list[bytes]] = field(default_factory=dict)
    ended: dict[str, threading.Event] = field(default_factory=dict)
    broken: dict[str, Exception] = field(default_factory=dict)
    came: dict[str, list[bool]] = field(default_factory=dict)
    gone: bool = False
    failures: int = 0

    def add(self, name: str, *lines: bytes, error: Exception | None = None) -> None:
        self.ended[name] = threading.Event()
        if error is not None:
            self.broken[name] = error
        self.outputs[name] = list(lines)

    def look(self) -> Sequence[ReplicaLog]:
        if self.failures:
            self.failures -= 1
            raise StoreError(store="s", why="away")
        if self.gone:
            raise NoSuchResource(what="service", name="chat")
        return [ReplicaLog(name, name, partial(self._read, name)) for name in list(self.outputs)]

    def _read(self, name: str, came: bool) -> Iterator[bytes]:
        self.came.setdefault(name, []).append(came)
        yield from self.outputs[name]
        if name in self.broken:
            raise self.broken[name]
        self.ended[name].wait()


def test_followed_replicas_come_and_go(capsys: pytest.CaptureFixture[str]) -> None:
    source = Changing()
    source.add("one", b"a\nb")
    lines = FollowedReplicas(source, pause=0.01).lines()
    assert next(lines) == ("one", b"a")
    source.failures = 2
    source.add("two", b"c\n")
    assert next(lines) == ("two", b"c")
    assert source.came == {"one": [False], "two": [True]}
    source.ended["one"].set()
    assert next(lines) == ("one", b"b")
    source.gone = True
    source.ended["two"].set()
    assert list(lines) == []
    assert capsys.readouterr().err.count("not seen just now") == 1


def test_an_output_that_fails_is_told_once_while_its_replica_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = ProviderError(provider="fake", why="its node is away")
    source = Changing()
    source.add("one", b"a\n", error=lost)
    source.add("full", error=lost)
    lines = FollowedReplicas(source, pause=0.01).lines()
    assert next(lines) == ("one", b"a")
    told: list[str] = []

    def all_told() -> bool:
        told.extend(capsys.readouterr().err.splitlines())
        return len(told) >= 2 and len(source.came["full"]) >= 3

    until(all_told, "both are told, and one was read again")
    source.gone = True
    assert list(lines) == []
    told += capsys.readouterr().err.splitlines()
    assert len(source.came["one"]) == 1
    assert sorted(line.split(": ")[1] for line in told) == ["full", "one"]


SERVICE = """
apiVersion: bai/v1
kind: Service
metadata: {{name: web, project: p}}
spec:
  replicas: 2
  template: {{command: [sleep, "{word}"], resources: {{cpu: 1, memory: 1GiB}}}}
"""


def settled(lab: Lab) -> None:
    """After passes enough for a rollout, which takes four, and ones that see its end."""
    for _ in range(6):
        lab.once()


def test_a_real_rollout_is_undone_and_resumed(lab: Lab, server: str, laptop: Laptop) -> None:
    lab.write("web", SERVICE.format(word="1"))
    settled(lab)
    laptop.log_in(server, "operator-of-p")
    assert laptop.ok("rollout", "status", "service/web").out.endswith("2 of 2 updated, 2 ready\n")
    (item,) = laptop.ok("get", "service/web", "-o", "json").json["items"]
    first = item["status"]["latest"]
    lab.write("web", SERVICE.format(word="2"))
    settled(lab)
    (item,) = laptop.ok("get", "service/web", "-o", "json").json["items"]
    second = item["status"]["latest"]
    assert first != second == item["status"]["stable"]
    said = laptop.ok("rollout", "undo", "service/web").out
    assert f"goes back to generation {first}" in said and f"Git still says {second}" in said
    settled(lab)
    (item,) = laptop.ok("get", "service/web", "-o", "json").json["items"]
    assert (item["status"]["target"], item["status"]["latest"]) == (first, second)
    assert {each["generation"] for each in item["replicas"]} == {first}
    assert item["order"]["by"] == "operator-of-p"
    assert f"web-{first}-1" in laptop.ok("describe", "service/web").out
    assert laptop.ok("logs", "service/web").out == ""
    laptop.ok("rollout", "resume", "service/web")
    settled(lab)
    (item,) = laptop.ok("get", "service/web", "-o", "json").json["items"]
    assert item["status"]["target"] == second and item["order"] is None
    said = laptop.ok("rollout", "undo", "service/web").out
    assert f"goes back to generation {first}" in said
    settled(lab)
    said = laptop.ok("rollout", "undo", "service/web").out
    assert f"goes by its document again: generation {second}" in said
    settled(lab)
    (item,) = laptop.ok("get", "service/web", "-o", "json").json["items"]
    assert item["status"]["target"] == second and item["order"] is None
    laptop.ok("rollout", "undo", "service/web")
    lab.write("web", SERVICE.format(word="3"))
    settled(lab)
    (item,) = laptop.ok("get", "service/web", "-o", "json").json["items"]
    assert item["status"]["target"] == item["status"]["latest"] not in (first, second)
    assert item["order"] is None


def test_a_server_that_answers_an_undo_with_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it names as a commit becomes a part of a command only where it is the name of one."""
    from bai.cli.commands.rollout import _undo_lines

    said = {"service": CHAT, "generation": "\x1b[2J", "commit": 7, "latest": NEW, "latestCommit": "$(evil)"}
    remote = of("https://nobody.example")
    monkeypatch.setattr(remote, "service", lambda name: {"id": CHAT})
    monkeypatch.setattr(remote, "order_rollout", lambda identity, order, body: said)
    lines = "\n".join(_undo_lines(ServerRollouts(remote).undo("chat", "", "")))
    assert "evil" not in lines and "\x1b" not in lines and "bring its document back" in lines
