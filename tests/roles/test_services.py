"""A whole control plane on a bare machine without any way out: mirror, PostgreSQL, registry, and this very
bai, installed from the mirror's index, which then follows a repository over SSH and provisions a second
machine.

The machines go through all of it, in this order."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from tests.roles.role_site import KEYRING, fine, refused
from tests.roles.service_site import ACCESS, HOME, INDEX, PASSWORD, TOKEN, WEBHOOK, Site
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nspawn-services"), pytest.mark.timeout(1800)]
ACCESS_FILE = "/etc/bai/access.yaml"
FETCH = 'python3 -c "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())"'
MIRRORED = {
    "name": "mirrored", "uri": "http://127.0.0.1:8080/apt/lab", "suites": ["stable"], "components": ["main"],
}  # fmt: skip


def test_check_mode_changes_nothing_on_a_fresh_machine(site: Site) -> None:
    before = site.node.must("ls /etc /etc/apt/sources.list* /opt; dpkg -l | wc -l")
    checked = fine(site.check(site.services()))
    assert {change.role for change in checked.changed} >= {"repositories", "control_plane", "mirror"}
    assert site.node.must("ls /etc /etc/apt/sources.list* /opt; dpkg -l | wc -l") == before


def test_one_run_brings_up_all_and_the_next_one_changes_nothing(site: Site) -> None:
    site.make_remote()
    commit = site.push(4096)
    fine(site.provision(site.services()))
    assert site.ask("/healthz").status_code == 200
    until(lambda: site.ask("/readyz").status_code == 200)
    assert commit_in_force(site) == commit
    assert site.ask("/api/v1/clusters", token="bai_another").status_code == 401
    again = fine(site.provision(site.services()))
    assert again.changed == ()
    assert site.drift(site.services()) == []


def commit_in_force(site: Site) -> str:
    [cluster] = site.ask("/api/v1/clusters").json()
    return str(cluster["commit"])


def changes(site: Site) -> list[str] | None:
    """What the last pass had to do; None while there was none."""
    answer = site.ask("/api/v1/clusters/lab/plan")
    if answer.status_code == 503:
        return None
    return [each["id"] for each in answer.json()["plan"]["actions"] if each["verb"] != "no-op"]


def test_the_service_provisions_the_other_machine(site: Site) -> None:
    """With Ansible, SSH, under all that its unit forbids."""
    until(lambda: site.queue() == "4096", seconds=300, pause=0.5)
    until(lambda: "provisioned Node/worker" in site.log())
    assert "worker" in site.worker.must("cat /var/lib/bai/seal.json")
    assert "-worker-" in site.node.must(f"ls {HOME}/runs")


def test_a_push_that_the_forge_tells_of_is_taken_up(site: Site) -> None:
    """The service itself would look in an hour only, once the pass after the last wave is over, too."""
    until(lambda: changes(site) == [])
    commit = site.push(2048)
    body = json.dumps({"ref": "refs/heads/main", "after": commit}).encode()
    headers = {"X-GitHub-Event": "push", "Content-Type": "application/json"}
    wrong = {**headers, "X-Hub-Signature-256": "sha256=" + "0" * 64}
    assert site.post("/hooks/git", body, wrong).status_code == 401
    assert commit_in_force(site) != commit
    signature = hmac.new(WEBHOOK.encode(), body, hashlib.sha256).hexdigest()
    told = site.post("/hooks/git", body, {**headers, "X-Hub-Signature-256": f"sha256={signature}"})
    assert told.json()["verdict"] == "moved"
    until(lambda: commit_in_force(site) == commit)
    until(lambda: site.queue() == "2048", seconds=300, pause=0.5)


def test_the_service_has_no_more_than_it_needs(site: Site) -> None:
    must = site.node.must
    pid = must("systemctl show --property=MainPID --value bai.service").strip()
    status = dict(line.split(":\t") for line in must(f"cat /proc/{pid}/status").splitlines() if ":\t" in line)
    assert (status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16)) == ("1", "2", 0)
    as_it = f"nsenter --target {pid} --mount --user --preserve-credentials setpriv --reuid bai --clear-groups"
    for path in ("/etc/bai/bai.env", "/opt/bai/current/bin/bai", "/var/lib/bai/seal.json"):
        assert site.node.run(f"{as_it} sh -c 'echo x >>{path}'").returncode != 0, path
    assert must("stat -c '%U %a' /var/lib/bai/service/.ssh/id").split() == ["bai", "600"]
    assert must(f"stat -c '%U %G %a' {ACCESS_FILE}").split() == ["root", "bai", "640"]


def test_its_store_is_the_database(site: Site) -> None:
    login = "psql -h 127.0.0.1 -U bai -tAc 'SELECT current_user' bai"
    assert site.node.must(f"PGPASSWORD={PASSWORD} {login}").strip() == "bai"
    assert site.node.run(f"PGPASSWORD=wrong {login}").returncode != 0
    tables = site.node.must("runuser -u bai -- psql -tAc '\\dt' bai")
    assert "journal" in tables and "standings" in tables
    assert site.node.run(f"find {HOME} -name '*.db'").stdout == ""


def test_who_may_do_what_is_watched_and_checked_before_it_counts(site: Site) -> None:
    whole = site.services()["controlPlane"]
    only, less = ({"controlPlane": each} for each in (whole, without_others(whole)))
    site.node.must(f"echo 'anonymous: admin' >>{ACCESS_FILE}")
    assert site.ask("/api/v1/clusters", token="").status_code == 200
    assert f"file {ACCESS_FILE}" in site.drift(only)
    site.access = f"{ACCESS}  - {{name: bob, role: emperor}}\n"
    refused(site.provision(less), "accessFrom:3:", "emperor", "viewer, operator, admin")
    assert "emperor" not in site.node.must(f"cat {ACCESS_FILE}")
    site.access = ACCESS
    fine(site.provision(only))
    assert site.drift(only) == []
    assert site.ask("/api/v1/clusters", token="").status_code == 401
    assert site.ask("/api/v1/clusters").status_code == 200


def without_others(section: dict[str, Any]) -> dict[str, Any]:
    """bai's own service alone, to be quick where nothing else is looked at."""
    names = ("bai", "sshKeyFrom", "accessFrom", "webhookSecretFrom")
    return {name: section[name] for name in names}


def test_secrets_are_in_no_log(site: Site) -> None:
    key = site.key.read_text().splitlines()[2]
    kept = [path.read_text(errors="replace") for path in site.state.rglob("*") if path.is_file()]
    journal = "journalctl --no-pager --quiet --output=export | tr -cd '[:print:]\\n'"
    said = site.node.must(f"{journal}; ps -ef e; cat /var/lib/bai/seal.json") + site.worker.must(journal)
    assert kept and "bai" in said
    for secret in (PASSWORD, WEBHOOK, TOKEN, key):
        assert not any(secret in text for text in kept)
        assert secret not in said
        found = site.node.must(
            f"grep -rlF -- '{secret}' /var/log /var/lib/bai /etc /opt/bai/current/bin || :"
        )
        assert set(found.split()) <= {"/etc/bai/webhook-secret", f"{HOME}/.ssh/id"}


def test_a_service_that_does_not_come_up_says_why(site: Site) -> None:
    other = without_others(site.services()["controlPlane"])
    other["bai"]["repository"] = site.remote.replace("cluster.git", "missing.git")
    refused(site.provision({"controlPlane": other}), "bai.service does not come up", "missing.git")


def test_the_mirror_serves_signed_packages_a_python_index_and_images(site: Site) -> None:
    key = site.node.must(f"{FETCH} http://127.0.0.1:8080/key.asc")
    fine(site.provision({"repositories": {"apt": [*site.repositories()["apt"], {**MIRRORED, "key": key}]}}))
    offered = site.node.must("apt-cache madison bai-tool")
    found = {line.split("|")[1].strip() for line in offered.splitlines() if ":8080/" in line}
    assert found == {"1.0-1", "2.0-1"}
    assert site.node.run("cat /etc/pip.conf").returncode != 0  # no index is declared any more
    got = (
        f"/opt/bai/current/bin/pip download -q --no-deps -d /tmp/got --index-url {INDEX} bai=={site.version}"
    )
    site.node.must(got)
    assert site.node.must(f"{FETCH} http://127.0.0.1:5000/v2/").strip() == "{}"
    assert site.node.must(f"{FETCH} http://127.0.0.1:5001/v2/").strip() == "{}"


def test_a_mirror_with_another_key_is_refused(site: Site) -> None:
    refused(site.provision({"repositories": {"apt": [{**MIRRORED, "keyring": KEYRING}]}}), "update apt cache")


def test_sources_that_were_put_aside_come_back(site: Site) -> None:
    """And those alone: what somebody else put aside stays, and what was written anew meanwhile counts."""
    must, folder = site.node.must, "/etc/apt/sources.list.d"
    assert "sources.list.bai.disabled" in must("ls /etc/apt").split()
    must(f"echo '# of somebody' >{folder}/mine.list.bai.disabled; echo '# off' >{folder}/off.list.disabled")
    must(f"echo '# written anew' >{folder}/mine.list")
    beside = {"repositories": {"apt": [site.own()], "only": False}}
    fine(site.provision(beside))
    assert "sources.list.bai.disabled" not in must("ls /etc/apt").split()
    assert site.nodes.mirror.url in must("apt-cache policy less")
    assert must(f"cat {folder}/mine.list") == "# written anew\n"
    assert must(f"cat {folder}/mine.list.bai.disabled") == "# of somebody\n"
    assert must(f"cat {folder}/off.list.disabled") == "# off\n"
    assert fine(site.provision(beside)).changed == ()
