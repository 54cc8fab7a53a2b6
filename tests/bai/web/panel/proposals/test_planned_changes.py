"""Changes whose plan takes longer than a page: they are shown at once, and made only once it is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.web.panel.proposals import desk
from schemas.problems.errors.plan import PlanError
from tests.bai.web.panel.held_planning import HeldPlanning
from tests.bai.web.panel.markup import check_policy, parsed
from tests.bai.web.panel.proposals.office import Office, hidden
from tests.reconciler.lab import session
from tests.waiting import until

POLL = {"HX-Request": "true", "HX-Trigger": "planning", "Sec-Fetch-Site": "same-origin"}
CHANGE = {"action": "priority", "target": "Session/p/a", "value": "7"}


class HeldOffice(HeldPlanning, Office):
    """Where it is held what changes would do."""

    def hold(self, patch: pytest.MonkeyPatch) -> None:
        self.hold_calls(patch, desk, "review_of_documents")

    def close(self) -> None:
        self.let_go()
        super().close()


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldOffice]:
    made = HeldOffice(tmp_path)
    made.hold(monkeypatch)
    yield made
    made.close()


def test_a_change_is_shown_at_once_and_made_once_it_is_known_what_it_does(office: HeldOffice) -> None:
    ada, bob = office.person("operator"), office.person("admin")
    for person in (ada, bob):
        page = person.look(**CHANGE)
        assert "priority: 7" in page and "Being planned" in page
        assert 'value="commit"' not in page, "not before it is seen what it does"
        assert ">Look again</button>" in page
        check_policy(parsed(page))
    until(lambda: office.made == 1, "it is begun")
    assert ada.get("nodes").status_code == 200
    office.free.set()

    def answer(sent: dict[str, str], headers: dict[str, str]) -> str:
        where = "/clusters/here/change"
        found = ada.client.post(where, data={"token": ada.token, **sent}, headers=headers)
        assert found.status_code == 200
        text: str = found.text
        return text

    until(lambda: "Being planned" not in answer(CHANGE, POLL), "it is there")
    page = ada.look(**CHANGE)
    assert "no running session is touched" in page
    assert "no running session is touched" in bob.look(**CHANGE) and office.made == 1
    assert ada.commit(page, reason="because").status_code == 303


def test_an_edited_document_is_kept_while_it_is_planned(office: HeldOffice) -> None:
    ada = office.person("operator")
    text = hidden(ada.look(action="edit", target="Quota/of-p"))["text"].replace("device: 3", "device: 4")
    sent = {"token": ada.token, "action": "edit", "target": "Quota/of-p", "text": text}
    page = ada.client.post("/clusters/here/change", data=sent, headers=POLL).text
    form = page[page.index('id="planning"') :]
    assert "device: 4}  # agreed in May" in form[: form.index("</form>")]
    office.wrong = PlanError(why="it cannot be")
    office.free.set()

    def is_told() -> bool:
        answer = ada.client.post("/clusters/here/change", data=sent, headers=POLL)
        assert answer.status_code == 200, "htmx shows no other"
        return "it cannot be" in answer.text and "Being planned" not in answer.text

    until(is_told, "what is wrong is told")
    plain = ada.post("change", **{key: value for key, value in sent.items() if key != "token"})
    assert plain.status_code == 422


def test_what_could_not_be_made_is_told_with_what_was_typed(office: HeldOffice) -> None:
    ada = office.person("operator")
    office.free.set()
    until(lambda: "Being planned" not in ada.look(**CHANGE), "it is there")
    page = ada.look(**CHANGE)
    office.push({"a.yaml": session("a", "priority: 3")})
    answer = ada.commit(page, reason="mine")
    assert answer.status_code == 409
    assert "Nothing was written" in answer.text and 'value="mine"' in answer.text
