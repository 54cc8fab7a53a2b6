"""A node that lies about itself, and wants the machine that provisions it, or the other nodes' sessions."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.base import Observation
from providers.docker.engine.engine import Engine as DockerEngine
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.machines.base import LARGEST
from providers.machines.local import LocalMachine
from providers.machines.ssh.machine import SshMachine
from reconciler.apply.steps import action_steps
from reconciler.observe.observe import actual_state
from reconciler.plan.pipeline import make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.plan import Plan
from schemas.problems.errors.node import MachineRefused
from schemas.problems.errors.provider import ProviderError
from tests.lab.docker import Engine, Engines
from tests.lab.sshd import SshdNodes
from tests.providers.docker.specs import LABELS, script
from tests.reconciler.lab import REPO, Lab, session, summary
from tests.security.hostile_engine import HostileEngine, truth, whole
from tests.waiting import until

ROLES = Path(__file__).parents[2] / "roles"
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {{cacheable: true, os_family: "{path}"}}
    - ansible.builtin.include_role: {{name: {role}}}
"""
PATH = re.compile(
    r"(?:include_vars|include_tasks|import_tasks|include_role|import_role):((?:\n? .*)(?:\n {4,}.*)*)"
)


@pytest.mark.slow
@pytest.mark.skipif(not ANSIBLE.is_file(), reason="ansible is not installed")
def test_what_a_node_says_of_itself_names_no_file_here(tmp_path: Path) -> None:
    """What is in a file of variables is a template here, and runs programs. Any module's answer may change a
    node's facts, at any time."""
    (tmp_path / "evil.yml").write_text("evil: \"{{ lookup('pipe', 'id') }}\"\n")
    (tmp_path / "play.yml").write_text(PLAY.format(path=tmp_path / "evil", role="storage_client"))
    found = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_ROLES_PATH": str(ROLES),
    }
    words = [str(ANSIBLE), "--check", "-v", "-i", "localhost,", str(tmp_path / "play.yml")]
    done = subprocess.run(words, env=found, capture_output=True, text=True, check=False, timeout=150)
    loaded = re.findall(r'"ansible_included_var_files": \[\s*"([^"]+)"', done.stdout)
    assert [Path(each).name for each in loaded] == ["redhat.yml"], done.stdout[-2000:] + done.stderr


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir() if (path / "tasks").is_dir()))
def test_no_role_takes_the_name_of_a_file_from_a_node(role: str) -> None:
    for task in (ROLES / role / "tasks").glob("*.yml"):
        for named in PATH.findall(task.read_text()):
            told = named.replace("ansible_facts.os_family == 'Debian'", "").replace("ansible_check_mode", "")
            assert "ansible_" not in told.partition("when:")[0], f"{task}: {named}"


# What answers for its engine.


def machine() -> LocalMachine:
    return LocalMachine("n2")


def opened(*engines: DockerEngine) -> DockerProvider:
    return DockerProvider({each.node: each for each in engines})


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "a body": (CHUNKED, b"10000\r\n" + b" " * 65_536 + b"\r\n"),
    "a body without a length": (b"HTTP/1.0 200 OK\r\n\r\n", b"x" * 65_536),
    "an error": (CHUNKED.replace(b"200 OK", b"500 No"), b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
    "a line of its head": (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536),
    "its head": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 10_000),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_an_answer_without_end_takes_no_memory(what: str) -> None:
    hostile = HostileEngine({})
    head, piece = ENDLESS[what]
    hostile.answers = {"version": hostile.endless(head, itertools.repeat(piece))}
    seen = opened(hostile.engine("n2", machine)).observe()
    assert set(seen.unreachable) == {"n2"} and len(seen.unreachable["n2"]) < 5000
    assert hostile.sent < LARGEST + 2**24


@pytest.mark.parametrize("what", ENDLESS)
def test_an_answer_that_drips_is_not_waited_for(what: str) -> None:
    """A byte now and then is no silence."""
    head, piece = ENDLESS[what]
    hostile = HostileEngine({})
    hostile.answers = {"version": hostile.endless(head, (bytes([each]) for each in piece), pause=0.05)}
    with pytest.raises(TimeoutError):
        hostile.engine("n2", machine).http.call("GET", "/version", timeout=0.5)


def test_events_without_end_are_read_no_faster_than_they_are_heard() -> None:
    event = {"Action": "die", "Actor": {"Attributes": {"bai.id": "k"}}}
    lines = (json.dumps({**event, "timeNano": 2**62 + n}).encode() + b"\n" for n in itertools.count())
    hostile = HostileEngine({})
    known = {name: whole(value) for name, value in truth("k", LABELS).items()}
    chunks = (f"{len(line):x}\r\n".encode() + line + b"\r\n" for line in lines)
    hostile.answers = {**known, "inspect": hostile.endless(CHUNKED, chunks)}
    over = threading.Event()
    events = opened(hostile.engine("n2", machine)).events(over.is_set)
    assert next(events).kernel == "k"
    until(lambda: _stands(hostile), "nothing more is read")
    over.set()
    assert len(list(events)) < 2000 and hostile.sent < 2**24


def _stands(hostile: HostileEngine) -> bool:
    before = hostile.sent
    return not threading.Event().wait(0.3) and hostile.sent == before


def test_a_line_of_events_without_end_takes_no_memory() -> None:
    hostile = HostileEngine({})
    known = {name: whole(value) for name, value in truth("k", LABELS).items()}
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    hostile.answers = {**known, "inspect": hostile.endless(CHUNKED, itertools.repeat(chunk))}
    over = threading.Event()
    listener = threading.Thread(
        target=lambda: list(opened(hostile.engine("n2", machine)).events(over.is_set)), daemon=True
    )
    listener.start()
    until(lambda: hostile.sent > 2**20, "it is read")
    until(lambda: _stands(hostile), "nothing more is read")
    over.set()
    listener.join(120)
    assert not listener.is_alive() and hostile.sent < LARGEST


# What it says.

RAW = [
    *("null", "true", "-1", "1e400", "-Infinity", "NaN", "[]", "{}", '""', '"x"', '"\\u0000"', '"\\ud800"'),
    *(str(2**70), "9" * 5000, '"0-65535"', '"0-99999999"', '"9999-12-31T23:59:59-23:59"', '"2026-01-01"'),
    *("[" * 100_000, '"' + "x" * 100_000 + '"', '["x", ["y"]]', '{"x": {"y": 1}}', '"Session/p/a"'),
]
MARK = "what is exchanged"


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in steps:
        yield from _places(each, (*at, key))


def _exchanged(value: Any, at: tuple[Any, ...]) -> Any:
    if not at:
        return MARK
    copy = value.copy()
    copy[at[0]] = _exchanged(value[at[0]], at[1:])
    return copy


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Session a runs on node n1, session b on n2."""
    made = Lab(tmp_path_factory.mktemp("lab"), nodes=2)
    made.write({"a": session("a", "placement: {nodes: [n1]}")})
    made.apply()
    made.write({"b": session("b", "placement: {nodes: [n2]}")})
    made.apply()
    return made


def planned(lab: Lab, seen: Observation) -> Plan:
    """What is to be done where the world is as it was, but for node n2, which says something else."""
    real = [each for each in lab.provider.observe().kernels if each.labels.node == "n1"]
    merged = replace(seen, kernels=(*real, *seen.kernels))
    actual = actual_state(
        lab.store.cluster_records("here").recorded, merged, lab.provider.capabilities(),
        repo=REPO, cluster="here", hardware={},
    )  # fmt: skip
    return make_plan(PlanRequest(lab.desired(), actual, lab.world.clock.now()))


def undisturbed(lab: Lab, plan: Plan) -> None:
    """Session a stays as it is; what else bears its name is removed."""
    mine = lab.kernel("a")
    changed = next((each for each in plan.changes if each.id == "Session/p/a"), None)
    if changed is not None:
        assert changed.verb == "update" and changed.before and changed.after
        assert changed.after.placement == changed.before.placement
        assert changed.after.generation == 1 and not changed.after.specs
        assert changed.after.kernels == (mine,)


def test_what_is_true_of_it_is_believed(lab: Lab) -> None:
    """Else what follows would show nothing."""
    kernel = lab.kernel("b")
    labels = lab.world.kernels[kernel].spec.labels
    said = {name: whole(value) for name, value in truth(kernel, labels).items()}
    seen = opened(HostileEngine(said).engine("n2", machine)).observe()
    assert [(each.id, each.state) for each in seen.kernels] == [(kernel, "running")]


def exchanged(data: st.DataObject, value: Any) -> str:
    """The JSON of a value, with one place of it exchanged."""
    at = data.draw(st.sampled_from(list(_places(value))))
    raw = data.draw(st.sampled_from(RAW) | st.text(max_size=40).map(json.dumps))
    return json.dumps(_exchanged(value, at)).replace(json.dumps(MARK), raw)


@given(data=st.data())
@settings(deadline=None)
def test_whatever_it_says_of_itself_others_are_seen_as_before(lab: Lab, data: st.DataObject) -> None:
    kernel = lab.kernel("b")
    labels = lab.world.kernels[kernel].spec.labels
    what = data.draw(st.sampled_from([*truth(kernel, labels), "document", "placement"]))
    if what in ("document", "placement"):
        # Of its own session and another node's, as on record and newer, and one that nobody knows.
        labels = replace(labels, generation=data.draw(st.sampled_from((1, 7))))
        labels = replace(labels, resource=data.draw(st.sampled_from([f"Session/p/{x}" for x in "abx"])))
        labels = replace(labels, **{what: exchanged(data, json.loads(getattr(labels, what)))})
    answers = truth(kernel, labels)
    texts = {name: json.dumps(value) for name, value in answers.items()}
    if what in answers:
        texts[what] = exchanged(data, answers[what])
    said = {name: whole(text.encode()) for name, text in texts.items()}
    nobody = {name: whole([] if name == "list" else value) for name, value in answers.items()}
    provider = opened(HostileEngine(nobody).engine("n1", machine), HostileEngine(said).engine("n2", machine))
    seen = provider.observe()
    provider.capabilities()
    for use in provider.usage():
        assert all(type(each) in (int, NoneType) for each in (use.memory, use.memory_limit, use.pids))
    provider.images(frozenset({"n1", "n2"}))
    provider.close()
    assert set(seen.unreachable) <= {"n2"} and seen.complete
    assert "n1" not in {each.labels.node for each in seen.kernels}
    undisturbed(lab, planned(lab, seen))


# What it claims.

ID = "s-main1-0-g1"


def test_a_kernel_of_another_node_is_not_believed(lab: Lab) -> None:
    """Neither where its labels name the other node, nor where they name this one."""
    kernel = lab.kernel("a")
    labels = lab.world.kernels[kernel].spec.labels
    empty = {name: whole([] if name == "list" else each) for name, each in truth(kernel, labels).items()}
    for mine in (labels, replace(labels, node="n2")):
        said = {name: whole(value) for name, value in truth(kernel, mine).items()}
        provider = opened(
            HostileEngine(empty).engine("n1", machine), HostileEngine(said).engine("n2", machine)
        )
        plan = planned(lab, provider.observe())
        assert "Session/p/a" not in summary(plan)
        (warning,) = (each for each in plan.warnings if "not believed" in each)
        assert warning.endswith(f"{kernel} on n2")


def test_a_container_with_anothers_id_takes_nothing_from_it(lab: Lab) -> None:
    """Ids of containers are no secrets: whoever repeats one hides nobody, and is not taken for him."""
    one, two = lab.kernel("a"), lab.kernel("b")
    said = [truth(name, lab.world.kernels[name].spec.labels) for name in (one, two)]
    also = truth(one, replace(lab.world.kernels[one].spec.labels, node="n2"))
    for second in (said[1], also):
        answers = [{name: whole(value) for name, value in each.items()} for each in (said[0], second)]
        first, other = (
            HostileEngine(each).engine(node, machine)
            for node, each in zip(("n1", "n2"), answers, strict=True)
        )
        provider = opened(first, other)
        assert one in {each.id for each in provider.observe().kernels if each.labels.node == "n1"}
    with pytest.raises(ProviderError, match="is said to be on several nodes"):
        opened(first, other).find(one)


def test_what_is_seen_only_on_another_node_is_not_started_a_second_time(lab: Lab) -> None:
    """The names of two nodes may have been exchanged: then it runs, and is not where bai looks for it."""
    kernel = lab.kernel("a")
    said = {name: whole(each) for name, each in truth(kernel, lab.world.kernels[kernel].spec.labels).items()}
    empty = {**said, "list": whole([])}
    provider = opened(HostileEngine(empty).engine("n1", machine), HostileEngine(said).engine("n2", machine))
    actual = actual_state(
        lab.store.cluster_records("here").recorded, provider.observe(), lab.provider.capabilities(),
        repo=REPO, cluster="here", hardware={},
    )  # fmt: skip
    plan = make_plan(PlanRequest(lab.desired(), actual, lab.world.clock.now()))
    assert "Session/p/a" not in summary(plan)
    assert any(warning.endswith(f"{kernel} on n2") for warning in plan.warnings)


def test_a_node_with_another_name_keeps_what_it_has(lab: Lab) -> None:
    kernel = lab.kernel("b")
    labels = lab.world.kernels[kernel].spec.labels
    said = {name: whole(each) for name, each in truth(kernel, labels).items()}
    provider = opened(HostileEngine(said).engine("n9", machine))
    provider.locate({kernel: "n2"})
    assert [(each.id, each.labels.node) for each in provider.observe().kernels] == [(kernel, "n2")]
    assert provider.find(kernel).node == "n9"
    assert [use.kernel for use in provider.usage()] == [kernel]


def test_a_newer_kernel_elsewhere_takes_no_session_over(lab: Lab) -> None:
    """It would count where the store was restored from a backup: what was on record has ended then. Here it
    lives, or its node cannot be asked."""
    kernel = lab.kernel("a")
    newer = replace(lab.world.kernels[kernel].spec.labels, node="n2", generation=9)
    theirs = "a-main1-theirs-g9"
    said = {name: whole(value) for name, value in truth(theirs, newer).items()}
    seen = opened(HostileEngine(said).engine("n2", machine)).observe()
    plan = planned(lab, seen)
    undisturbed(lab, plan)
    removed = {
        step.kernel_id for each in plan.changes for step in action_steps(each, plan) if step.kind == "remove"
    }
    assert theirs in removed and kernel not in removed
    away = actual_state(
        lab.store.cluster_records("here").recorded, replace(seen, unreachable={"n1": "no route"}),
        lab.provider.capabilities(), repo=REPO, cluster="here", hardware={},
    )  # fmt: skip
    assert away.existing["Session/p/a"].recorded.kernels == (kernel,)


def test_a_placement_on_another_node_takes_no_room_there(lab: Lab) -> None:
    """Of a session that nobody knows; its labels say that it has all of n1."""
    kernel = lab.world.kernels[lab.kernel("a")].spec
    foreign = replace(kernel.labels, repo="0" * 16, resource="Session/p/x", node="n2")
    said = {name: whole(value) for name, value in truth("x-main1-0-g1", foreign).items()}
    seen = opened(HostileEngine(said).engine("n2", machine)).observe()
    actual = actual_state({}, seen, None, repo=REPO, cluster="here", hardware={})
    assert {hold.placement.node for hold in actual.holds} == {"n2"}
    ours = actual_state({}, seen, None, repo="0" * 16, cluster="here", hardware={})
    placement = ours.existing["Session/p/x"].recorded.placement
    assert placement and {each.node for each in placement.kernels} == {"n2"}


@pytest.fixture
def real(engines: Engines) -> Iterator[Engine]:
    (found,) = engines(1)
    yield found
    found.wipe()


@pytest.mark.xdist_group("docker")
def test_nobody_is_led_to_a_node_that_claims_a_session(real: Engine) -> None:
    """What is asked of a session reaches the node that it was placed on, whoever else claims to have it."""
    labels = replace(LABELS, node=real.name)
    mine = open_docker({}, machines=[real.endpoint()])
    mine.create(replace(script("echo true; sleep 1000"), labels=labels))
    until(lambda: b"".join(mine.logs(ID)) == b"true\n", "it runs")
    forged = {name: whole(value) for name, value in truth(ID, replace(labels, node="a0")).items()}
    evil = HostileEngine(forged).engine("a0", machine)
    other = HostileEngine({**forged, "list": whole(_listed("z9"))}).engine("z9", machine)
    for before in ((evil,), (evil, other)):
        both = opened(*before, *mine.engines.values())
        with pytest.raises(ProviderError, match="is said to be on several nodes"):
            both.logs(ID)
        both.locate({ID: real.name})
        both.observe()
        assert b"".join(both.logs(ID)) == b"true\n"
        (use,) = both.usage()
        assert use.memory_limit != 2**30, "not what the other node says of it"
        assert both.find(ID).node == real.name
    mine.remove(ID)
    mine.close()


def _listed(node: str) -> Any:
    return truth(ID, replace(LABELS, node=node))["list"]


@pytest.mark.xdist_group("sshd")
def test_a_command_that_never_ends_its_answer_takes_no_memory(sshd_nodes: SshdNodes) -> None:
    (node,) = sshd_nodes(1)
    reached = SshMachine(node.endpoint())
    for words in ("yes", "yes >&2"):
        with pytest.raises(MachineRefused, match="more than 64 MiB"):
            reached.run(["sh", "-c", words], timeout=240)
    assert reached.run(["echo", "x"]).out == b"x\n"
    reached.close()
