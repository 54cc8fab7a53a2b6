"""Commands that run nothing: validate, fmt, schema, init, plan, nodes, doctor, version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bai.cli.doctor import machine, provider
from bai.cli.repository.scaffold import node_name
from tests.bai.conftest import CLUSTER, PATIENCE, Repo

pytestmark = pytest.mark.slow

LOCATED = re.compile(r"^[^\s:][^:]*:\d+:\d+: BAI-V\d+", re.MULTILINE)
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {name: web, project: demo, labels: {team: a}}
spec:
  type: interactive
  resources: {cpu: 500m, memory: 64MiB}
  command: [sleep, "60"]
  env: {A: "1"}
"""


def test_validate_counts_what_is_there(repo: Repo) -> None:
    assert "5 resources (1 Cluster, 1 Domain, 1 Node, 1 Project, 1 ResourceGroup)" in repo.ok("validate").out


def test_validate_says_where_every_mistake_is(repo: Repo) -> None:
    repo.write("a.yaml", SESSION.replace("command", "comand"))
    repo.write("b.yaml", SESSION.replace("web", "other").replace("64MiB", "64Mib"))
    said = repo("validate")
    assert said.code == 1 and not said.out
    assert re.search(r"^a\.yaml:7:\d+: BAI-V\d+.*command", said.err, re.MULTILINE)
    assert re.search(r"^b\.yaml:6:\d+: BAI-V\d+", said.err, re.MULTILINE)
    plain = repo("validate", "--format", "json")
    assert plain.code == 1 and plain.json["version"] == "bai.validation/v1" and not plain.json["valid"]
    assert {problem["file"] for problem in plain.json["problems"]} == {"a.yaml", "b.yaml"}


def test_validate_reads_any_commit(repo: Repo) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
        subprocess.run(["git", *identity, *words], cwd=repo.root, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    repo.write("a.yaml", "kind: Nonsense\n")
    assert repo("validate").code == 1
    assert repo.ok("validate", "--revision", "HEAD").out.startswith("Valid: 5 resources")
    assert repo("validate", "--revision", "nowhere").code == 1


@pytest.mark.parametrize("command", ["validate", "plan", "apply", "destroy", "get", "events"])
def test_a_folder_that_is_not_there_is_an_error(repo: Repo, command: str) -> None:
    said = repo(command, "-C", "/nowhere/at/all")
    assert said.code == 1 and said.err.startswith("error: ") and "Traceback" not in said.err


MUTANTS = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        ["", "{", "- a", "&a [*a]", "a: 1\na: 2", "\ttab: 1", "!!python/object:os.system {}", "---\n---\n"]
    ).map(str.encode),
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
@given(at=st.integers(0, len(SESSION)), cut=st.integers(0, 12), new=MUTANTS)
def test_mutated_documents_give_located_errors(repo: Repo, at: int, cut: int, new: bytes) -> None:
    text = SESSION.encode()
    (repo.root / "session.yaml").write_bytes(text[:at] + new + text[at + cut :])
    said = repo("validate")
    assert "Traceback" not in said.err and "defect" not in said.err
    if said.code:
        assert said.code == 1 and LOCATED.search(said.err), said.err


def test_fmt_checks_shows_and_writes(repo: Repo) -> None:
    path = repo.write(
        "a.yaml", "# a comment\nkind: Session\napiVersion: bai/v1\n" + "\n".join(SESSION.splitlines()[2:])
    )
    os.chmod(path, 0o640)
    before = path.read_text()
    said = repo("fmt", "--check")
    assert said.code == 1 and str(path) in said.out and path.read_text() == before
    assert "+apiVersion: bai/v1" in repo.ok("fmt", "--diff").out and path.read_text() == before
    repo.ok("fmt")
    assert "# a comment" in path.read_text() and path.stat().st_mode & 0o777 == 0o640
    assert repo.ok("fmt", "--check").out == ""
    assert yaml.safe_load(path.read_text()) == yaml.safe_load(before)


def test_fmt_writes_nothing_when_a_file_is_broken(repo: Repo) -> None:
    good = repo.write("a.yaml", "kind: Domain\napiVersion: bai/v1\nmetadata: {name: d}\nspec: {}\n")
    repo.write("b.yaml", "a: [\n")
    before = good.read_text()
    said = repo("fmt")
    assert said.code == 1 and LOCATED.search(said.err) and good.read_text() == before


def test_schema_of_one_and_of_all(repo: Repo, tmp_path: Path) -> None:
    import jsonschema

    union = repo.ok("schema").json
    jsonschema.Draft202012Validator.check_schema(union)
    document = yaml.safe_load(SESSION)
    jsonschema.validate(document, union)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {**document, "spec": {**document["spec"], "nonsense": 1}}, repo.ok("schema", "sessions").json
        )
    repo.ok("schema", "--out", str(tmp_path / "s.json"))
    assert json.loads((tmp_path / "s.json").read_text()) == union
    assert "Session" in repo.ok("schema", "--list").out.splitlines()
    said = repo("schema", "sesion")
    assert said.code == 1 and "did you mean Session?" in said.err


def test_init_gives_a_repository_that_plans_at_once(repo: Repo, tmp_path: Path) -> None:
    new = Repo(tmp_path / "new", repo.env)
    repo.ok("init", str(new.root))
    assert new.ok("validate").out.startswith("Valid: 6 resources")
    assert "Session/demo/hello" in new.ok("plan").out
    assert new.ok("fmt", "--check").out == ""
    assert ".bai/" in (new.root / ".gitignore").read_text()
    for path in new.root.rglob("*.yaml"):
        schema = re.search(r"\$schema=(\S+)", path.read_text().splitlines()[0])
        assert schema and (path.parent / schema[1]).is_file()


def test_init_overwrites_nothing(repo: Repo) -> None:
    before = {path: path.read_bytes() for path in repo.root.rglob("*")}
    said = repo("init")
    assert said.code == 1 and "not overwritten" in said.err
    assert {path: path.read_bytes() for path in repo.root.rglob("*")} == before


def test_init_keeps_what_git_ignores_already(repo: Repo, tmp_path: Path) -> None:
    root = tmp_path / "new"
    root.mkdir()
    (root / ".gitignore").write_text("*.tmp")
    repo.ok("init", str(root))
    assert (root / ".gitignore").read_text().startswith("*.tmp\n") and ".bai/" in (
        root / ".gitignore"
    ).read_text()


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("gpu1.example.org", "gpu1"),
        ("GPU-2", "gpu-2"),
        ("", "localhost"),
        ("1x", "localhost"),
        ("a_b", "localhost"),
    ],
)
def test_node_name(hostname: str, name: str) -> None:
    assert node_name(hostname) == name


def test_plan_without_a_store_makes_none(repo: Repo) -> None:
    repo.write("a.yaml", SESSION)
    assert "Plan: 6 to create." in repo.ok("plan").out
    assert not (repo.root / ".bai").exists()


def test_plan_is_plain_when_piped(repo: Repo) -> None:
    repo.write("a.yaml", SESSION)
    text = repo.ok("plan").out
    assert text.isascii() and "\x1b" not in text
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_plan_formats(repo: Repo, tmp_path: Path) -> None:
    repo.write("a.yaml", SESSION)
    made = repo.ok("plan", "--format", "json").json
    assert made["version"] == "bai.plan/v1"
    assert {action["id"] for action in made["plan"]["actions"]} >= {"Session/demo/web", "Node/localhost"}
    assert repo.ok("plan", "--format", "markdown").out.startswith("## bai plan: cluster here")
    saved = tmp_path / "plan.json"
    assert "Saved" in repo.ok("plan", "--out", str(saved)).out
    assert json.loads(saved.read_text())["version"] == "bai.plan/v1" and saved.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("format", ["text", "json", "markdown"])
def test_a_locale_without_letters_is_no_reason_to_fail(repo: Repo, format: str) -> None:
    repo.write("a.yaml", SESSION.replace('A: "1"', 'A: "h\u00e9llo"'))
    repo.env |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    said = repo.process("plan", "--format", format)
    assert said.code == 0, said.err
    assert repo.process("describe", "web").code == 0


def test_detailed_exitcode(repo: Repo) -> None:
    assert repo("plan", "--detailed-exitcode").code == 2
    assert repo("plan").code == 0
    repo.write("a.yaml", "kind: Nonsense\n")
    assert repo("plan", "--detailed-exitcode").code == 1


def test_plan_of_an_unknown_target_is_an_error(repo: Repo) -> None:
    said = repo("plan", "--target", "Session/demo/nobody")
    assert said.code == 1 and "nobody" in said.err


def test_a_target_may_be_named_shortly(repo: Repo) -> None:
    repo.session("a", "sleep", "1")
    repo.session("b", "sleep", "1")
    for name in ("a", "demo/a", "session/a", "Session/demo/a", "Session/*/a"):
        plan = repo.ok("plan", "--target", name, "--format", "json").json["plan"]
        sessions = [each["id"] for each in plan["actions"] if each["id"].startswith("Session/")]
        assert sessions == ["Session/demo/a"], name
    said = repo("plan", "--target", "nobody")
    assert said.code == 1 and "target nobody names no resource" in said.err


def test_a_plan_made_without_looking_says_so_when_it_is_saved(repo: Repo, tmp_path: Path) -> None:
    repo.session("a", "sleep", "1")
    saved = str(tmp_path / "plan.json")
    assert "carries out exactly this.\n" in repo.ok("plan", "--out", saved).out
    assert "unless something runs" in repo.ok("plan", "--offline", "--out", saved).out
    said = repo("apply", str(repo.root / "a.yaml"), "--yes")
    assert said.code == 1 and "no saved plan" in said.err and "bai plan --out" in said.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("get", "sesions", "a"), "There is no kind named sesions"),
        (("get", "sessions", "--project", "nope"), "There is no project named nope"),
        (("audit", "--actor", "nobody"), "There is no such entry"),
        (("history",), "Nothing was applied yet"),
    ],
)
def test_what_is_not_there_is_said(repo: Repo, words: tuple[str, ...], complaint: str) -> None:
    repo.session("a", "sleep", "1")
    said = repo(*words)
    assert complaint in said.err and not said.out
    assert said.code == (1 if "named" in complaint else 0)


def test_a_template_is_a_kind_by_its_short_name_too(repo: Repo) -> None:
    head = "apiVersion: bai/v1\nkind: SessionTemplate\nmetadata: {name: t}\n"
    repo.write("t.yaml", f"{head}spec: {{session: {{}}}}\n")
    assert "SessionTemplate/t" in repo.ok("get", "templates").out


def test_offline_plan_of_declared_nodes_loads_no_provider(repo: Repo) -> None:
    examples = Path(__file__).parents[2] / "examples" / "clusters" / "dgx-h100"
    said = repo.process("plan", "--offline", "-C", str(examples), "--state", str(repo.root / "s.db"))
    assert said.code == 0, said.err
    assert "numa0 [" in said.out and "gpu 0" in said.out


@pytest.mark.parametrize("words", [("plan", "--offline"), ("validate",)])
def test_only_the_provider_in_use_is_loaded(repo: Repo, words: tuple[str, ...]) -> None:
    code = (
        "import sys, contextlib, io\nfrom bai.cli.main import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    assert run(['-C', {str(repo.root)!r}, *{words!r}]) == 0\n"
        "print([name for name in sys.modules if name == 'sqlalchemy' or 'providers.process' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **repo.env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_several_clusters_must_be_told_apart(repo: Repo) -> None:
    repo.write(
        "other.yaml",
        "apiVersion: bai/v1\nkind: Cluster\nmetadata: {name: there}\nspec: {provider: process}\n",
    )
    repo.write(
        "cluster.yaml",
        CLUSTER.replace("spec: {resourceGroup", "spec: {cluster: here, resourceGroup").replace(
            "queue: fifo", "cluster: here, queue: fifo"
        ),
    )
    said = repo("plan")
    assert said.code == 1 and "--cluster" in said.err
    assert repo("plan", "--cluster", "here").code == 0


def test_probe_prints_this_machine_and_its_file_can_be_used(repo: Repo, tmp_path: Path) -> None:
    assert repo.ok("nodes", "probe").json["numaNodes"]
    repo.ok("nodes", "probe", "--out", str(repo.root / "m.json"))
    repo.write(
        "node.yaml",
        "apiVersion: bai/v1\nkind: Node\nmetadata: {name: n}\n"
        "spec: {resourceGroup: local, hardwareFrom: m.json}\n",
    )
    assert "n " in repo.ok("nodes", "list", "--offline").out
    drawn = repo.ok("nodes", "show", "n", "--offline", "--svg", str(tmp_path / "n.svg"))
    assert "numa0 [" in drawn.out and (tmp_path / "n.svg").read_text().startswith("<svg")
    assert repo.ok("nodes", "import", str(repo.root / "m.json"), "--format", "json").json["numaNodes"]


def test_import_of_what_is_no_capture_is_an_error(repo: Repo) -> None:
    path = repo.write("odd.txt", "nonsense")
    said = repo("nodes", "import", str(path))
    assert said.code == 1 and "BAI-V" in said.err


def test_nodes_alone_lists(repo: Repo) -> None:
    assert repo.ok("nodes").out == repo.ok("nodes", "list").out
    assert repo.ok("nodes", "list", "--format", "json").json["nodes"][0]["name"] == "localhost"
    assert repo("nodes", "show", "lokalhost").code == 1
    assert "numa0 [" in repo.ok("nodes", "show", ".").out


def test_doctor_finds_what_is_broken(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (machine, provider):
        monkeypatch.setattr(module, "SECONDS", PATIENCE)  # A loaded machine is slow, not broken.
    found = {item["name"]: item for item in repo("doctor", "--format", "json").json["findings"]}
    assert found["python"]["status"] == found["git"]["status"] == found["a session"]["status"] == "ok"
    assert found["documents"]["status"] == "ok" and found["store"]["status"] == "skipped"
    repo.write("a.yaml", "kind: Nonsense\n")
    repo.write(".bai/store.db", "this is no database, and long enough to be read as a broken one" * 20)
    said = repo("doctor")
    assert said.code == 1
    assert re.search(r"^failed +documents", said.out, re.MULTILINE) and re.search(
        r"^failed +store", said.out, re.MULTILINE
    )
    (repo.root / "a.yaml").unlink()
    (repo.root / ".bai" / "store.db").unlink()


def test_version(repo: Repo) -> None:
    assert repo.ok("version").out.startswith("bai ")
    assert repo.ok("version", "--format", "json").json["version"] == "bai.version/v1"


@pytest.mark.parametrize(
    "words", [("state", "list"), ("state", "backup", "x.db"), ("state", "restore", "x.db")]
)
def test_state_without_a_store_says_so(repo: Repo, words: tuple[str, ...]) -> None:
    said = repo(*words)
    assert said.code == 1 and "Traceback" not in said.err and "defect" not in said.err
    assert not (repo.root / ".bai" / "store.db").exists()


def test_a_topology_for_nccl(repo: Repo, tmp_path: Path) -> None:
    from schemas.hardware.capture_reader import read_hardware

    captured = Path(__file__).parents[1] / "data/topology/nccl-xml/oci-H100-topology.xml"
    repo.write(
        "node.yaml",
        "apiVersion: bai/v1\nkind: Node\nmetadata: {name: n}\n"
        f"spec: {{resourceGroup: local, hardwareFrom: {captured.name}}}\n"
        "---\napiVersion: bai/v1\nkind: Node\nmetadata: {name: bare}\n"
        "spec: {resourceGroup: local, hardware: {numaNodes: [{id: 0, cpus: 0-3}]}}\n",
    )
    repo.write(captured.name, captured.read_text())
    written = tmp_path / "n.xml"
    assert str(written) in repo.ok("nodes", "show", "n", "--offline", "--nccl", str(written)).out
    assert len(read_hardware("n.xml", written.read_bytes()).gpus) == 8
    refused = repo("nodes", "show", "bare", "--offline", "--nccl", str(tmp_path / "no.xml"))
    assert refused.code == 1 and "no GPU" in refused.err and not (tmp_path / "no.xml").exists()


def test_import_tells_what_was_understood(repo: Repo) -> None:
    captures = Path(__file__).parents[1] / "data/topology"
    said = repo.ok("nodes", "import", str(captures / "hwloc-xml-mpibind/g4dnmetal.xml"))
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "numa1 24 24-47, 72-95 188GiB dram 21 10" in lines
    assert any(line.startswith("gpu 7 Tesla T4 0000:f5:00.0 1 14.7GiB GPU-") for line in lines)
    assert "gpu 0 x PHB NODE NODE SYS SYS SYS SYS" in lines
    assert any(line.startswith("unknown: NVLinks between GPUs") for line in lines)
    wide = repo.ok("nodes", "import", str(captures / "nccl-xml/oci-H100-topology.xml")).out
    assert max(map(len, wide.splitlines())) <= 120 and "…" not in wide
    assert "gpu 7 NV18 NV18 NV18 NV18 NV18 NV18 NV18 x" in " ".join(wide.split())


def test_a_profile_is_shown_with_its_roles_and_nodes(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[2] / "examples" / "profiles", tmp_path / "profiles")
    repo = Repo(tmp_path / "profiles")
    found = repo.ok("describe", "profile/hgx-h100", "--format", "json").json
    assert found["roles"][:2] == ["repositories", "base"]
    assert found["nodes"] == [f"hgx-0{number}" for number in range(1, 9)]
    assert found["filledIn"] == {
        "nvidia_driver.flavour": "open",
        "nvidia_fabricmanager.version": "570.133.20",
    }
    assert "nodes       old-1" in repo.ok("describe", "v100").out
    node = repo.ok("describe", "node/hgx-03", "--format", "json").json
    assert (node["profile"], node["document"]["spec"]) == ("hgx-h100", {"address": "10.20.0.13"})
    assert node["place"].startswith("cluster.yaml:")
    assert "NodeProfile/v100" in repo.ok("get", "profiles").out
