"""What a server answers is what the machine with the repository would print, to whom it is to be told."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from bai.cli.inspect.session_watch import ServerNews, SessionWatch
from bai.queries import models
from bai.queries.answers import MODULES, answer
from bai.queries.view import WorkspaceView
from bai.remote.client import ApiClient
from bai.remote.cluster import RemoteCluster
from bai.render.printout import Printout
from bai.render.resources.history import history_entry, history_json
from providers.fake import SimulatedLoad
from reconciler.gitops.directives import read_directives
from schemas.problems.errors.server import ServerRefused
from tests.bai.remote.conftest import Laptop
from tests.bai.web.lab import Lab
from tests.reconciler.lab import session
from tests.waiting import until

BIG = "resources: {cuda.device: 2}"
QUERIES = (
    models.GetQuery(),
    models.GetQuery(kind="Session", form="wide"),
    models.GetQuery(kind="Session", form="json"),
    models.GetQuery(kind="Session", phase="pending", sort="gpus"),
    models.GetQuery(kind="Node", form="json"),
    models.StatusQuery(),
    models.StatusQuery(form="json"),
    models.DescribeQuery(resource="a"),
    models.DescribeQuery(resource="c", form="json"),
    models.DescribeQuery(resource="Node/n1"),
    models.ExplainQuery(session="a"),
    models.ExplainQuery(session="c"),
    models.ExplainQuery(session="c", form="json"),
    models.CapacityQuery(),
    models.CapacityQuery(form="json"),
    models.NodesQuery(form="wide"),
    models.NodesQuery(name="n1", form="json"),
    models.UsageQuery(),
    models.UsageQuery(since=1000, until=1e11, by="session", form="json"),
    models.EfficiencyQuery(session="a", form="json"),
    models.HistoryQuery(),
    models.HistoryQuery(form="json"),
    models.EventsQuery(resource="b"),
    models.EventsQuery(form="json"),
    models.AuditQuery(changes=True),
    models.AuditQuery(resource="a", form="json"),
)


@pytest.fixture
def full(lab: Lab) -> Lab:
    """Two sessions run, one waits."""
    return filled(lab)


@pytest.fixture(scope="module")
def asked(shared_lab: Lab) -> Lab:
    """The same, for tests that only ask."""
    return filled(shared_lab)


def filled(lab: Lab) -> Lab:
    for name in ("a", "b", "c"):
        lab.write(name, session(name, BIG))
    for _ in range(3):
        lab.once()
    return lab


def closing(request: pytest.FixtureRequest, news: ServerNews) -> ServerNews:
    """Closed before the server, which would wait for it."""
    request.addfinalizer(news.close)
    return news


def of(server: str, token: str = "admin") -> RemoteCluster:
    return RemoteCluster(ApiClient(server, token=lambda: token), "here")


@pytest.mark.parametrize("query", QUERIES, ids=lambda each: f"{each.command}-{each.form}")
def test_the_server_answers_as_the_repository_does(
    asked: Lab, shared_server: str, query: models.Query
) -> None:
    view = WorkspaceView.of(asked.loop.workspace)
    view.now = asked.world.clock.now()
    values = TypeAdapter(Printout)
    here, there = answer(view, query), of(shared_server).read(query)
    assert values.dump_python(there, mode="json") == values.dump_python(here, mode="json")
    assert here.document or any(values.dump_python(here)["blocks"])


def test_history_is_whole_though_the_audit_is_read_in_part(full: Lab) -> None:
    full.drop("a")
    full.once()
    full.write("d", session("d", BIG))
    full.once()
    view = WorkspaceView.of(full.loop.workspace)
    entries = full.workspace.store.audit("here")
    actions = {
        each.apply: Counter(one.verb for one in entries if one.resource and one.apply == each.apply)
        for each in entries
    }
    whole = [history_entry(each, actions[each.apply]) for each in reversed(entries) if not each.resource]
    assert len(whole) >= 3 and any(sum(each.done.values()) > 2 for each in whole)
    for tail in (1, 2, 3, 100):
        items = answer(view, models.HistoryQuery(tail=tail, form="json")).document["items"]
        assert items == [history_json(each) for each in whole[:tail]], tail


def test_every_question_has_a_route(asked: Lab) -> None:
    described = asked.client.get("/openapi.json").json()["paths"]
    routes = {path.rpartition("/")[2] for path in described if "/commands/" in path}
    kinds = {each.command for each in models.Query.__subclasses__()}
    assert routes == set(MODULES) == kinds


def test_commands_ask_the_server(asked: Lab, shared_server: str, laptop: Laptop) -> None:
    laptop.log_in(shared_server, "admin")
    said = laptop.ok("get")
    lines = said.out.splitlines()
    assert lines[0].split()[:2] == ["SESSION", "PHASE"]
    assert [line.split()[1] for line in lines[1:]] == ["RUNNING", "RUNNING", "PENDING"]
    assert "1 session waits: 1 no-capacity" in laptop.ok("status").out
    assert "Waits at position 1" in laptop.ok("describe", "c").out
    assert "Why it waits" in laptop.ok("explain", "c").out
    assert "## Why it waits" in laptop.ok("explain", "c", "--format", "markdown").out.replace("###", "##")
    assert laptop.ok("nodes", "list", "--format", "json").json["version"] == "bai.nodes/v1"
    assert {each["resource"] for each in laptop.ok("events", "--format", "json").json["events"]} >= {
        "Session/p/a"
    }
    assert "create" in laptop.ok("audit", "a").out and "+" in laptop.ok("history").out
    assert "fit" in laptop.ok("capacity").out
    # The server's time stands still.
    period = ("--since", "2027-01-01", "--until", "2038-01-01")
    assert laptop.ok("report", "usage", *period).out.startswith("PROJECT")
    assert laptop.ok("report", "usage", "-o", "csv").out.startswith("project,sessions,starts,gpuHours")
    assert "generation 1" in laptop.ok("report", "efficiency", "a").out
    for kernel in asked.world.kernels:
        asked.world.use(kernel, SimulatedLoad(cores=2.0))
    table = laptop.ok("top", "--once", "--interval", "0.2").out
    assert "p/a" in table and "p/b" in table
    (only,) = laptop.ok("top", "a", "-i", "0.2", "--format", "json").json["kernels"]
    assert (only["session"], only["kernel"], only["pids"] or 0) == ("Session/p/a", "main1", 0)
    wrong = laptop("describe", "cc")
    assert wrong.code == 1 and "did you mean Session/p/c" in wrong.err and "Traceback" not in wrong.err


def test_logs_of_a_server(full: Lab, server: str, laptop: Laptop) -> None:
    laptop.log_in(server, "viewer")
    for number, kernel in enumerate(full.world.kernels.values()):
        kernel.log += [f"{kernel.spec.labels.resource} {number}\n".encode(), b"\xff\x1b[31m\n"]
    assert "Session/p/a" in laptop.ok("logs", "a", "--tail", "2").out
    assert laptop.ok("logs", "p/a/main1").out == laptop.ok("logs", "a").out
    assert laptop.ok("logs", "a", "--all").out.startswith("main1 | ")
    for words, why in (
        (("logs", "a/main7"), "no kernel in Session/p/a"),
        (("logs", "nobody"), "no session named nobody"),
        (("logs", "c"), "has no kernel"),
    ):
        said = laptop(*words)
        assert said.code == 1 and why in said.err.replace("There is ", ""), said.err


def test_orders_are_given_by_the_server_in_the_persons_name(full: Lab, server: str, laptop: Laptop) -> None:
    laptop.log_in(server, "operator")
    laptop.ok("suspend", "--why", "a move")
    told = read_directives(full.workspace.store, "here").suspend
    assert told is not None and (told.actor, told.why) == ("operator", "a move")
    assert "suspended by operator" in laptop.ok("get").err
    assert "is suspended no longer" in laptop.ok("resume").out
    assert "neither suspended nor held" in laptop.ok("resume").out
    said = laptop("rollback", "abcdef", "--yes")
    assert said.code == 1 and read_directives(full.workspace.store, "here").pin is None
    laptop.log_in(server, "viewer")
    said = laptop("suspend")
    assert said.code == 1 and "needs the role operator" in said.err


def test_who_sees_one_project_is_not_told_of_others_nor_by_whom_orders_are(
    full: Lab, server: str, laptop: Laptop
) -> None:
    full.write("other", "apiVersion: bai/v1\nkind: Project\nmetadata: {name: zebra}\nspec: {}\n")
    full.write("z", session("z", "resources: {cpu: 1, memory: 1GiB}").replace("project: p", "project: zebra"))
    laptop.log_in(server, "operator")
    laptop.ok("suspend", "--why", "zebra is angry")
    full.once()
    laptop.log_in(server, "ours")
    for words in (("get",), ("get", "all"), ("status",), ("events",), ("audit",), ("explain", "c")):
        said = laptop.ok(*words)
        assert "zebra" not in said.out + said.err and "operator" not in (said.out + said.err).replace(
            "an operator", ""
        )
    for words in (("describe", "z"), ("explain", "z"), ("logs", "zebra/z"), ("history",)):
        said = laptop(*words)
        assert said.code == 1 and "Session/zebra" not in said.err


def test_a_watch_misses_nothing_from_before_the_table(full: Lab, server: str) -> None:
    watch = SessionWatch(ServerNews(of(server)), models.GetQuery(kind="Session", project="p"))
    full.write("d", session("d", "resources: {cpu: 1, memory: 1GiB}"))
    full.once()
    news = watch.news.batches()
    seen: list[str] = []

    def listen() -> None:
        for found in news:
            seen.extend(f"{event.resource} {event.after}" for event in watch.chosen(found))
            if "Session/p/d RUNNING" in seen:
                return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    until(lambda: "Session/p/d RUNNING" in seen, "the new session was seen to run")


WATCHED = (
    (models.GetQuery(kind="Session", selector="team=a"), {"Session/p/d"}),
    (models.GetQuery(kind="Session", mine=True, owners=("Ada@X",)), {"Session/p/e"}),
    (models.GetQuery(kind="Session", name="p/d"), {"Session/p/d"}),
    (models.GetQuery(kind="Session", phase="running"), {"Session/p/d", "Session/p/e"}),
)


def test_a_watch_shows_what_was_asked_for(lab: Lab, server: str, request: pytest.FixtureRequest) -> None:
    user = "apiVersion: bai/v1\nkind: User\nmetadata: {name: ada}\n"
    lab.write("ada", f"{user}spec: {{email: ada@x, projects: [p]}}\n")
    assert lab.once()
    watches = [SessionWatch(closing(request, ServerNews(of(server))), query) for query, _ in WATCHED]
    lab.write("d", session("d", "resources: {cpu: 1, memory: 1GiB}", meta="labels: {team: a}"))
    lab.write("e", session("e", "resources: {cpu: 1, memory: 1GiB}, owner: ada"))
    lab.write("f", session("f", "resources: {cuda.device: 99}"))
    assert lab.once(), lab.lines[-1]
    last = lab.workspace.store.events("here", limit=1)[-1].seq
    for watch, (query, expected) in zip(watches, WATCHED, strict=True):
        chosen: set[str] = set()
        for found in watch.news.batches():
            chosen |= {event.resource for event in watch.chosen(found)}
            if found[-1].seq == last:
                break
        assert chosen == expected, query


def test_what_is_gone_or_not_ours_is_refused(asked: Lab, shared_server: str) -> None:
    for query in (models.DescribeQuery(resource="zzz"), models.GetQuery(kind="Wolf")):
        with pytest.raises(ServerRefused):
            of(shared_server).read(query)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nodes", "list", "--offline"), "--offline is not for a server"),
        (("events", "-f", "--live"), "--live is not for a server"),
        (("get", "volumes", "--usage", "--context", "127.0.0.1"), "not done by a server"),
        (("plan", "--context", "127.0.0.1"), "not done by a server"),
        (("apply", "--context", "127.0.0.1"), "not done by a server"),
        (("get", "--context", "elsewhere"), "there is no context 'elsewhere'"),
        (("get", "--cluster", "there"), "does not look after a cluster"),
        (("audit", "--tail", "99999"), "--tail"),
    ],
)
def test_what_a_server_does_not_do(
    asked: Lab, shared_server: str, laptop: Laptop, words: tuple[str, ...], why: str
) -> None:
    laptop.log_in(shared_server, "viewer")
    said = laptop(*words)
    assert said.code == 1 and why in said.err and "Traceback" not in said.err, said.err


def test_a_folder_with_a_store_of_its_own_is_asked_first(
    full: Lab, server: str, laptop: Laptop, tmp_path: Path
) -> None:
    laptop.log_in(server, "viewer")
    (laptop.folder / ".bai").mkdir()
    (laptop.folder / ".bai" / "store.db").write_bytes(b"")
    assert laptop("get").code == 1
    assert "RUNNING" in laptop.ok("get", "--context", "127.0.0.1").out
    (laptop.folder / ".bai" / "store.db").unlink()
    assert "RUNNING" in laptop.ok("get").out
    assert laptop("get", "--context", "local").code == 1
    assert laptop("-C", str(tmp_path / "nowhere"), "get").code == 1
