"""Browsers at pages of a lab."""

from __future__ import annotations

from fastapi.testclient import TestClient

from tests.bai.web.lab import Lab, asking

SAME = {"Sec-Fetch-Site": "same-origin"}


def browser(lab: Lab) -> TestClient:
    return asking(lab.app, base_url="http://panel.test", follow_redirects=False)


def logged_in(lab: Lab, token: str = "viewer") -> TestClient:
    made = browser(lab)
    answer = made.post("/login", data={"credential": token}, headers=SAME)
    assert answer.status_code == 303, answer.text
    return made
