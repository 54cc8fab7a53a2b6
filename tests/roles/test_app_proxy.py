"""The proxy of a node where browsers come in to apps, from a bare machine to requests of a session's app that
`bai serve` elsewhere lets through; and everybody who may end on that way.

The machine goes through all of it, in this order."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from bai.web.apps.proxy import node_link
from bai.web.apps.proxy.node_link import NodeLink
from tests.harness.processes import child_called
from tests.roles.apps_site import DOMAIN, HOST, PATIENCE, TOKEN, Site
from tests.roles.role_site import fine, refused
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nspawn-apps"), pytest.mark.timeout(1800)]
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


def test_check_mode_changes_nothing_on_a_fresh_machine(site: Site) -> None:
    before = site.node.must("ls /etc /etc/systemd/system /opt; dpkg -l | wc -l")
    checked = fine(site.check(site.proxy()))
    assert "app_proxy" in {change.role for change in checked.changed}
    assert site.node.must("ls /etc /etc/systemd/system /opt; dpkg -l | wc -l") == before


def test_one_run_brings_it_up_and_the_next_one_changes_nothing(site: Site) -> None:
    fine(site.provision(site.proxy()))
    assert fine(site.provision(site.proxy())).changed == ()
    assert site.drift(site.proxy()) == []


def test_it_has_no_more_than_it_needs(site: Site) -> None:
    must = site.node.must
    pid = must("systemctl show --property=MainPID --value bai-apps.service").strip()
    status = dict(line.split(":\t") for line in must(f"cat /proc/{pid}/status").splitlines() if ":\t" in line)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {1 << 10}
    as_it = f"nsenter --target {pid} --mount setpriv --reuid bai-apps --regid bai-apps --clear-groups"
    for path in ("/etc/bai/apps.json", "/opt/bai-apps/x", "/run/bai-apps/x", "/etc/x"):
        assert site.node.run(f"{as_it} sh -c 'echo x >>{path}'").returncode != 0, path
    assert must("stat -c '%U %G %a' /etc/bai/apps.json /run/bai-apps /var/lib/bai-apps").splitlines() == [
        "root bai-apps 640", "root root 711", "bai-apps bai-apps 700",
    ]  # fmt: skip
    listening = must("ss -Htlnp | grep caddy").splitlines()
    assert len(listening) == 1 and ":8443" in listening[0]


def test_where_no_bai_is_it_says_so_by_itself(site: Site) -> None:
    until(lambda: site.status() == 503, "there is a certificate")
    page = site.ask(Accept="text/html,*/*;q=0.8")
    assert page.status_code == 503 and page.headers["Retry-After"] == "5"
    assert "Apps are not reached just now" in page.text and 'http-equiv="refresh"' in page.text
    assert ":root{color-scheme:light dark;" in page.text
    assert "not reached just now" in site.ask().json()["detail"]


def test_what_was_changed_by_hand_is_seen_and_repaired(site: Site) -> None:
    site.node.must("sed -i s/2000000/1/ /etc/bai/apps.json; systemctl stop bai-apps.service")
    found = site.drift(site.proxy())
    assert "file /etc/bai/apps.json" in found and any("bai-apps.service" in each for each in found)
    fine(site.provision(site.proxy()))
    assert site.drift(site.proxy()) == []
    until(lambda: site.status() == 503, "it serves again")


def test_an_app_is_opened_through_it(site: Site) -> None:
    site.serve()
    site.is_open()
    told = dict(site.ask(**ALLOWED, **{"X-Forwarded-For": "6.6.6.6"}).json())
    assert told["X-Forwarded-For"] == site.nodes.address
    assert (told["Host"], told["X-Forwarded-Proto"]) == (HOST, "https")
    assert "Authorization" not in told
    assert site.status() == 401
    assert site.ask(host=HOST.replace("lab", "other"), **ALLOWED).status_code == 404


def test_who_is_on_the_node_gets_no_more_than_who_comes_to_it(site: Site) -> None:
    """Root of it stands where its proxy does: it is asked who it is like anybody else, and names nothing."""
    for headers in ("", "Bai-Upstream: unix//run/x\r\nBai-Cookie: a\r\n", "X-Forwarded-Host: x\r\n"):
        said = site.say(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n{headers}\r\n")
        assert said.startswith("HTTP/1.1 401 "), said
    for path in ("/check", "/unanswered", "/"):
        said = site.say(f"GET {path} HTTP/1.1\r\nHost: permission.bai.internal\r\nConnection: close\r\n\r\n")
        assert said.split()[1] in ("404", "421"), said
    asked = (
        "GET /certificate?domain={} HTTP/1.1\r\nHost: permission.bai.internal\r\nConnection: close\r\n\r\n"
    )
    assert site.say(asked.format(f"web--lab--demo.{DOMAIN}")).startswith("HTTP/1.1 200 ")
    assert site.say(asked.format(f"web--none--demo.{DOMAIN}")).startswith("HTTP/1.1 404 ")
    assert site.node.must("find /run/bai-apps -type s").split() == ["/run/bai-apps/apps"]


def test_other_users_of_the_node_have_no_way_in(site: Site) -> None:
    assert site.node.must("stat -c '%U %G %a' /run/bai-apps/apps").split() == ["root", "bai-apps", "660"]
    done = site.node.run("runuser -u nobody -- python3 /srv/lab/say.py /run/bai-apps/apps x")
    assert done.returncode != 0 and "PermissionError" in done.stderr
    assert site.node.run("runuser -u nobody -- ls /run/bai-apps").returncode != 0


def test_nothing_of_bais_lies_on_the_node(site: Site) -> None:
    """No key, no way back: what the login left is the socket."""
    key = (site.nodes.key).read_text().splitlines()[2]
    assert site.node.run(f"grep -rlF -- '{key}' /run /tmp /var/lib/bai-apps /etc/bai").stdout == ""
    assert list(site.temporary.glob("bai-apps-*"))
    until(lambda: not list(site.temporary.glob("bai-apps-*/link-*")), "its login leaves no key here")


def test_a_bai_that_is_killed_and_comes_back(site: Site) -> None:
    with site.stopped():
        until(lambda: site.status(**ALLOWED) == 503, "nobody is there", seconds=PATIENCE)
        until(lambda: site.node.must("ls /run/bai-apps") == "", "the socket is gone")
    site.is_open()


def test_a_connection_that_is_lost_is_made_again(site: Site) -> None:
    assert site.server is not None
    bai = site.server.pid
    before = child_called(bai, "ssh")
    assert before is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: child_called(bai, "ssh") not in (None, before), "there is another one", seconds=PATIENCE)
    site.is_open()
    site.node.must("rm /run/bai-apps/apps")
    until(lambda: site.node.must("ls /run/bai-apps") == "apps\n", "it is there again", seconds=PATIENCE)
    site.is_open()
    site.node.must("pkill -f 'sshd: [r]oot@'")
    site.is_open()


def test_its_proxy_is_begun_anew(site: Site) -> None:
    show = "systemctl show --property=MainPID --value bai-apps.service"
    before = site.node.must(show).strip()
    site.node.must("systemctl kill --signal=KILL bai-apps.service")
    until(lambda: site.node.must(show).strip() not in ("0", before), "there is another one")
    site.is_open()


def test_a_node_that_was_rebooted(site: Site) -> None:
    site.node.reboot()
    site.is_open()


class Entry:
    """Says its name to whoever comes."""

    def __init__(self, path: Path, name: bytes) -> None:
        self.path, self._name = path, name
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            stream, _ = self._listener.accept()
            stream.sendall(self._name)
            stream.close()


def test_of_two_bais_the_one_that_leads_has_the_place(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who came last has it, and whoever is not to have it leaves it alone."""
    # While both lead, who has lost the place takes it back once it has seen that: here none looks.
    monkeypatch.setattr(node_link, "SIGN_OF_LIFE", 600.0)
    monkeypatch.setattr(node_link, "SILENCE", 1200.0)
    with site.stopped():
        leading, said = {"one"}, list[str]()
        links = {}
        for name in ("one", "two"):
            entry = Entry(tmp_path / name, name.encode())
            links[name] = NodeLink(
                site.node.endpoint(), entry.path, tmp_path, lambda name=name: name in leading, said.append
            )
            links[name].start()
        try:
            until(lambda: links["one"].up and "one" in site.say(""), "it is the first one's")
            leading.add("two")
            until(lambda: links["two"].up and "two" in site.say(""), "it is the second one's")
            leading.discard("one")
            until(lambda: not links["one"].up, "the first one has heard")
            assert "two" in site.say("")
            leading.clear()
            until(lambda: site.node.must("ls /run/bai-apps") == "", "it is nobody's")
        finally:
            for link in links.values():
                link.close()
        assert said


def test_one_that_does_not_come_up_says_why(site: Site) -> None:
    files = {"tls": "files", "certificate": "/etc/hosts", "key": "/etc/hosts"}
    refused(site.provision(site.proxy(**files)), "bai-apps.service does not come up")
