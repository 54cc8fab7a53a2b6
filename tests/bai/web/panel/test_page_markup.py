"""The HTML of all pages that a server gives, of a cluster with a session that runs and one that waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.bai.web.lab import Lab, asking
from tests.bai.web.panel.markup import check_names, check_policy, parsed
from tests.reconciler.lab import session

PAGES = (
    "", "/nodes", "/nodes/n1", "/queue", "/sessions", "/sessions?q=o&sort=phase", "/sessions/p/ours",
    "/sessions/p/waits", "/sessions/p/ours/logs", "/resources", "/resources/Project/p", "/plan", "/review",
    "/reviews", "/compare", "/history", "/audit", "/events", "/usage", "/capacity",
    "/projects", "/projects/p",
    "/users", "/users/ada", "/groups", "/groups/default", "/waves",
    "/storage", "/images", "/notifications", "/audit?verb=create",
    "/numbers", "/numbers/showback",
)  # fmt: skip
USER = "apiVersion: bai/v1\nkind: User\nmetadata: {name: ada}\nspec: {projects: [p]}\n"
SAME = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    lab = Lab(tmp_path_factory.mktemp("markup"))
    lab.write("ours", session("ours", "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}"))
    lab.write("waits", session("waits", "resources: {cpu: 4000, memory: 1GiB}"))
    lab.write("ada", USER)
    lab.once()
    lab.once()
    made = asking(lab.app, base_url="http://panel.test", follow_redirects=False)
    assert made.post("/login", data={"credential": "viewer"}, headers=SAME).status_code == 303
    yield made
    lab.close()


@pytest.mark.parametrize("page", PAGES)
def test_every_page_keeps_the_policy_and_can_be_heard(visitor: TestClient, page: str) -> None:
    shown = visitor.get(f"/clusters/here{page}")
    assert shown.status_code == 200
    seen = parsed(shown.text)
    check_policy(seen)
    check_names(seen)


def test_what_is_not_there_is_said_on_such_a_page(visitor: TestClient) -> None:
    shown = visitor.get("/clusters/here/sessions/p/nobody")
    assert shown.status_code == 404
    seen = parsed(shown.text)
    check_policy(seen)
    check_names(seen)


@pytest.mark.parametrize("page", PAGES[:7])
def test_what_comes_as_news_is_the_page_that_is_there(visitor: TestClient, page: str) -> None:
    """Nothing is morphed where nothing changed."""

    def main(text: str) -> str:
        return "".join(text.partition('<main id="main"')[2].partition("</main>")[0].split())

    address = f"/clusters/here{page}"
    news = visitor.get(address, headers={"HX-Request": "true"}).text
    assert "<html" not in news
    assert main(news) == main(visitor.get(address).text) != ""
