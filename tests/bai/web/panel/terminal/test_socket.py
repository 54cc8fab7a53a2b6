"""Terminals over a real server: who may open one, what they cost, and what becomes of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bai.web.auth.roles import Principal, StaticAccess
from bai.web.auth.static_tokens import TokenAuthenticator, hash_of
from bai.web.connection_limits import ConnectionLimits
from bai.web.panel.terminal.output_window import AHEAD
from bai.web.panel.terminal.terminals import TerminalLimits, Terminals
from bai.web.websocket_protocol import LARGEST_MESSAGE
from providers.machines.terminals.echo_shell import EchoShell
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.problems.errors.store import StoreUnavailable
from tests.bai.web.lab import WHO, Lab
from tests.bai.web.panel.rendering import SECRET, two_projects
from tests.bai.web.panel.terminal.page import OPEN, OWN, PATIENCE, SIZE, Page, Served, served
from tests.waiting import until

BRIEF = TerminalLimits(most=5, most_each=3, grace=0.2, recheck=0.02)
"""A connection that is lost ends a terminal at once, in a test's terms."""


@pytest.fixture
def site(lab: Lab) -> Iterator[Served]:
    with served(lab) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two projects; tests leave it as it is."""
    lab = Lab(tmp_path_factory.mktemp("lab"))
    two_projects(lab)
    with served(lab) as found:
        yield found
    lab.close()


def refusal(site: Served, *connect: Any, **given: Any) -> tuple[int, str]:
    """The status of a connection that is not let in, and its words."""
    with pytest.raises(InvalidStatus) as error:
        site.connect(*connect, **given)
    answer = error.value.response
    return answer.status_code, json.loads(bytes(answer.body or b""))["detail"]


def shells(site: Served) -> list[EchoShell]:
    return list(site.lab.workspace.provider.terminals)  # type: ignore[attr-defined]


def audited(site: Served) -> list[tuple[str, str, str, str]]:
    found = site.lab.get("/api/v1/clusters/here/audit")
    return [
        (each["actor"], each["verb"], each["resource"], each["cause"])
        for each in found
        if each["verb"].endswith("-terminal")
    ]


# What one does


def test_what_is_typed_is_answered_and_both_ends_stand_in_the_audit(site: Served) -> None:
    page = site.page()
    page.until(b"$ ")
    page.type(b"echo open")
    page.type(b"sesame\r")
    page.until(b"opensesame\r\nopensesame\r\n")
    page.tell({"kind": "resize", "rows": 41, "columns": 123})
    until(lambda: shells(site)[0].size == (41, 123), "its new size")
    page.type(b"stty size\r")
    page.until(b"41 123")
    assert page.heard("taken")
    page.type(b"exit 6\r")
    assert page.heard("ended")["code"] == 6
    assert page.closed() == 1000
    assert audited(site) == [
        ("operator", "open-terminal", "Session/p/own", "a shell of main1"),
        ("operator", "close-terminal", "Session/p/own", "a shell of main1: it ended with 6"),
    ]
    found = site.lab.workspace.store.audit("here", actor="operator")
    assert {each.at for each in found} == {site.lab.world.clock.now()}, "by the clock of what it is about"
    assert "sesame" not in str(site.lab.get("/api/v1/clusters/here/audit"))
    until(lambda: len(site.lab.app.state.terminals) == 0, "its place is free")


def test_the_main_program_can_be_attached_to(site: Served) -> None:
    page = site.page(first={**OPEN, "program": "attach"})
    page.until(b"$ ")
    assert [cause for *_, cause in audited(site)] == ["the main program of main1"]
    assert site.lab.world.calls[-1][0] == "execute"


def test_leaving_hangs_up(site: Served) -> None:
    page = site.page()
    page.until(b"$ ")
    page.tell({"kind": "leave"})
    assert page.closed() == 1000
    until(lambda: shells(site)[0].closed, "it is hung up")
    until(lambda: len(audited(site)) == 2, "its end is written down")
    assert audited(site)[-1][-1] == "a shell of main1: it was left"


# Who may


def test_only_operators_of_the_project_are_let_in(shared: Served) -> None:
    for who in ("operator", "admin", "operator-of-p"):
        page = shared.page(who)
        page.until(b"$ ")
        page.tell({"kind": "leave"})
        assert page.closed() == 1000
    for who in ("viewer", "ours"):
        assert refusal(shared, who) == (403, "this needs the role operator for project p")


def test_what_is_not_theirs_is_answered_as_what_is_not_there(shared: Served) -> None:
    place = "/clusters/here/sessions/{}/terminal"
    theirs, none = f"{SECRET}/{SECRET}-run", f"{SECRET}/none"
    for who in ("ours", "operator-of-p"):
        found, missing = (refusal(shared, who, place.format(each)) for each in (theirs, none))
        assert found == (404, f"there is no Session/{theirs}")
        assert missing == (404, f"there is no Session/{none}")
    for path in (place.format("p/none"), OWN.replace("here", "there")):
        assert refusal(shared, "operator", path)[0] == 404
    # Strangers hear the same, whatever they ask for.
    asked = {refusal(shared, "", path) for path in (OWN, place.format("p/none"), place.format(theirs))}
    assert asked == {(401, "log in first")}


def test_other_sites_and_other_logins_get_no_further(shared: Served) -> None:
    for origin in ("http://evil.test", "null", None, f"{shared.address}.evil.test", "http://127.0.0.1:1"):
        assert refusal(shared, origin=origin) == (403, "this was not sent by a page of this server"), origin
    other = shared.token(shared.log_in("operator"))
    for token in (other, "x", shared.token("")):
        status, words = refusal(shared, token=token)
        assert status == 403 and "another login" in words
    for sealed in ("x", shared.cookie("operator")[:-2]):
        assert refusal(shared, sealed=sealed)[0] == 401
    # A token of the API opens no page, and none of these.
    assert refusal(shared, "", bearer="operator") == (401, "log in first")


def test_a_terminal_is_found_again_by_its_own_login_on_its_own_page_alone(site: Served) -> None:
    page = site.page()
    page.until(b"$ ")
    resume = {"kind": "resume", "id": page.id, "known": None, **SIZE}
    for who, given in (("admin", {}), ("operator", {"sealed": site.log_in("operator")})):
        assert site.page(who, resume, **given).closed() == 4404, who
    for forged in ("", "x", page.id[:-1], page.id + "x", page.id.swapcase()):
        assert site.page(first={**resume, "id": forged}).closed() == 4404
    page.type(b"echo mi''ne\r")
    page.until(b"mi''ne\r\n")


def test_a_token_that_is_taken_back_ends_the_terminal(lab: Lab) -> None:
    known = [(hash_of(name), Principal(name, given)) for name, given in WHO.items()]
    doors: list[Any] = [TokenAuthenticator(known)]
    lab.app.state.access = StaticAccess(doors)
    lab.app.state.terminals = Terminals(BRIEF)
    with served(lab) as site:
        page = site.page()
        page.until(b"$ ")
        doors[0] = TokenAuthenticator([each for each in known if each[1].name != "operator"])
        assert page.closed() == 4401
        until(lambda: shells(site)[0].closed, "the program is hung up")
        assert refusal(site) == (401, "log in first")


def test_who_is_an_operator_no_more_loses_the_terminal(lab: Lab) -> None:
    roles = dict(WHO)
    doors = [TokenAuthenticator((hash_of(each), Principal(each, roles[each])) for each in ("operator",))]
    lab.app.state.access, lab.app.state.terminals = StaticAccess(doors), Terminals(BRIEF)
    with served(lab) as site:
        page = site.page()
        page.until(b"$ ")
        doors[0] = TokenAuthenticator([(hash_of("operator"), Principal("operator", WHO["viewer"]))])
        assert page.closed() == 4401
        until(lambda: len(site.lab.app.state.terminals) == 0, "it is over")


# What it costs


def test_there_are_only_so_many(site: Served) -> None:
    site.lab.app.state.terminals = terminals = Terminals(BRIEF)
    pages = [site.page() for _ in range(3)]
    for page in pages:
        page.until(b"$ ")
    refused = site.page()
    assert "you have 3 terminals open" in refused.heard("refused")["why"] and refused.closed() == 1000
    others = [site.page("admin") for _ in range(2)]
    for page in others:
        page.until(b"$ ")
    assert "5 terminals are open here" in site.page("operator-of-p").heard("refused")["why"]
    pages[0].tell({"kind": "leave"})
    assert pages[0].closed() == 1000
    until(lambda: len(terminals) == 4, "a place is free")
    site.page().until(b"$ ")


def test_a_message_that_is_too_large_or_none_of_ours_ends_the_connection(site: Served) -> None:
    page = site.page()
    page.until(b"$ ")
    page.type(b"x" * (LARGEST_MESSAGE + 1))
    assert page.closed() == 1009
    for first in ("x", {**OPEN, "argv": ["x"]}):
        made = Page(site.connect())
        made.tell(first)
        assert made.closed() == 4400
    later = site.page()
    later.until(b"$ ")
    later.tell({"kind": "reboot"})
    assert later.closed() == 4400
    binary = Page(site.connect())
    binary.type(b"x")
    assert binary.closed() == 4400


def test_a_page_that_shows_nothing_has_the_program_wait(site: Served) -> None:
    page = site.page()
    page.shows = False
    page.until(b"$ ")
    page.type(b"yes\r")
    shell = shells(site)[0]
    until(lambda: _written(site) >= AHEAD, "it has nowhere to go")
    while page.known < _written(site):
        page.step()
    page.type(b"\x03")
    until(lambda: b"\x03" in shell.typed, "keys arrive meanwhile")
    page.tell({"kind": "shown", "bytes": page.known})
    page.until(b"^C\r\n$ ")


def _written(site: Served) -> int:
    terminals = site.lab.app.state.terminals
    return int(next(iter(terminals._found.values()))[1]._output.end)


def test_who_takes_nothing_of_it_costs_little(site: Served) -> None:
    page = site.page()
    page.until(b"$ ")
    page.type(b"yes\r")
    # It says that all is shown, and reads nothing of it: the line fills up.
    for shown in range(0, 2**26, 2**16):
        page.connection.send(json.dumps({"kind": "shown", "bytes": shown}))
    with httpx.Client(verify=False, timeout=PATIENCE) as client:
        assert client.get(f"{site.address}/healthz").status_code == 200
    terminal = next(iter(site.lab.app.state.terminals._found.values()))[1]
    assert terminal._output.end - terminal._output.start < 512 * 1024
    page.lose()


def test_a_terminal_is_one_of_the_connections_of_its_address(lab: Lab) -> None:
    with served(lab, ConnectionLimits(connections=3, per_address=2)) as site:
        pages = [site.page(), site.page()]
        for page in pages:
            page.until(b"$ ")
        # Neither of them makes room, and what is let in for probes is no way in for more.
        for path, status in (("/healthz", 200), ("/login", 503)):
            assert looked_at(site, path) == status
        assert refusal(site) == (503, "there are too many connections, of this address or in all")
        pages[0].tell({"kind": "leave"})
        assert pages[0].closed() == 1000
        until(lambda: looked_at(site, "/login") == 200, "there is room")
        pages[1].type(b"echo st''ill\r")
        pages[1].until(b"st''ill\r\n")


def looked_at(site: Served, path: str) -> int:
    """The status of an answer."""
    return httpx.get(f"{site.address}{path}", verify=False, timeout=PATIENCE).status_code


def test_who_takes_nothing_at_all_is_let_go(lab: Lab) -> None:
    with served(lab, ConnectionLimits(body=0.2)) as site:
        page = site.page(max_queue=1)
        page.until(b"$ ")
        page.type(b"yes\r")
        with pytest.raises(ConnectionClosed):
            # It reads nothing, and says that it has shown all of it.
            for shown in range(0, 2**40, 2**17):
                page.connection.send(json.dumps({"kind": "shown", "bytes": shown}))
        resume = {"kind": "resume", "id": page.id, "known": None, **SIZE}
        assert site.page(first=resume).heard("opened"), "the program waits for a better line"


class Deaf(EchoShell):
    """Takes nothing that is typed, until it is closed."""

    def write(self, data: bytes) -> None:
        with self._change:
            self._change.wait_for(lambda: self.closed)


def test_a_program_that_takes_no_keys_has_the_page_wait_and_can_be_left(
    site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("providers.machines.terminals.echo_shell.EchoShell", Deaf)
    page = site.page()
    page.until(b"$ ")
    sent = 0

    def type_on() -> None:
        nonlocal sent
        try:
            while True:
                page.connection.send(b"x" * 32768)
                sent += 32768
        except ConnectionClosed:
            return

    typing = threading.Thread(target=type_on)
    typing.start()
    terminal = until(lambda: next(iter(site.lab.app.state.terminals._found.values()), None))[1]
    until(lambda: terminal._waiting >= 64 * 1024, "it waits")
    assert terminal._waiting <= 64 * 1024 + 32768
    looks = [-1]

    def waits() -> bool:
        looks.append(sent)
        return looks[-1] == looks[-2]

    until(waits, "nothing more is taken of the page", pause=0.3)
    assert sent < 2**26
    site.lab.app.state.terminals.close()
    until(lambda: shells(site)[0].closed, "it is hung up")
    typing.join(60)
    assert not typing.is_alive()


# What becomes of it


def test_a_page_that_lost_its_connection_goes_on_where_it_was(site: Served) -> None:
    page = site.page()
    page.until(b"$ ")
    page.type(b"echo one\r")
    page.until(b"one\r\none\r\n$ ")
    page.lose()
    shells(site)[0].say(b"meanwhile\r\n")
    again = site.page(first={"kind": "resume", "id": page.id, "known": page.known, **SIZE})
    opened = again.heard("opened")
    assert (opened["start"], opened["received"]) == (page.known, len(b"echo one\r"))
    again.until(b"meanwhile\r\n")
    assert again.output == b"meanwhile\r\n"
    again.type(b"echo two\r")
    again.until(b"two\r\ntwo\r\n")


def test_a_page_that_was_loaded_anew_sees_what_was_there(site: Served) -> None:
    page = site.page()
    page.until(b"$ ")
    page.type(b"echo one\r")
    page.until(b"one\r\none\r\n$ ")
    again = site.page(first={"kind": "resume", "id": page.id, "known": None, **SIZE})
    again.until(b"$ echo one\r\none\r\n$ ")
    assert again.heard("opened")["end"] == again.known
    assert page.closed() == 4409, "there is one page at a time"
    again.type(b"exit\r")
    assert again.heard("ended")["code"] == 0


def test_nobody_who_comes_back_in_time_finds_it_gone_and_nobody_later_finds_it(site: Served) -> None:
    site.lab.app.state.terminals = terminals = Terminals(BRIEF)
    page = site.page()
    page.until(b"$ ")
    page.lose()
    until(lambda: shells(site)[0].closed, "it is hung up")
    until(lambda: len(terminals) == 0, "its place is free")
    assert site.page(first={"kind": "resume", "id": page.id, "known": 0, **SIZE}).closed() == 4404
    assert audited(site)[-1][-1] == "a shell of main1: the connection was lost"


def test_the_end_of_the_server_is_the_end_of_its_terminals(lab: Lab) -> None:
    with served(lab) as site:
        page = site.page()
        page.until(b"$ ")
    assert shells(site)[0].closed and page.closed() == 1012
    until(lambda: not [each for each in threading.enumerate() if each.name.startswith("bai-terminal")])
    assert audited(site)[-1][-1] == "a shell of main1: the server ended"


def test_what_cannot_be_opened_is_told_and_takes_no_place(
    site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = ProviderUnavailable(provider="fake", why="the node is away")
    monkeypatch.setattr(type(site.lab.workspace.provider), "_open", _raising(why))
    assert "the node is away" in site.page().heard("refused")["why"]
    assert "no container none" in site.page(first={**OPEN, "kernel": "none"}).heard("refused")["why"]
    assert len(site.lab.app.state.terminals) == 0 and not audited(site)


def test_nothing_is_opened_that_cannot_be_written_down(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        site.lab.workspace.store, "record_audit", _raising(StoreUnavailable(store="here", why="away"))
    )
    assert site.page().heard("refused")["why"]
    assert shells(site)[0].closed and len(site.lab.app.state.terminals) == 0


def _raising(error: Exception) -> Any:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_replicas_that_stand_by_open_none(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.lab.loop, "leads", lambda: False)
    monkeypatch.setattr(site.lab.loop, "leader", lambda: "another one")
    status, words = refusal(site)
    assert (status, words) == (409, "another one leads: terminals are opened there")


def test_other_addresses_take_no_websockets(shared: Served) -> None:
    for path in ("/", "/clusters/here", "/api/v1/clusters", "/healthz", "/none"):
        with pytest.raises(InvalidStatus) as error:
            shared.connect(path=path)
        assert error.value.response.status_code == 403, path
