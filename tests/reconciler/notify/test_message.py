"""The same news, the same bytes; and nobody is called by what a file is named."""

from __future__ import annotations

import json

from reconciler.notify.message import build_message
from reconciler.notify.state import Batch
from tests.reconciler.notify.support import news, notification

HTTP = {"http": {"urlFrom": "env/HOOK"}}


def test_slack_is_sent_what_incoming_webhooks_take() -> None:
    made = json.loads(build_message(notification(), Batch((news(1),))).body)
    assert made == {
        "text": "*error: Session/vision/s1: session failed*",
        "attachments": [
            {
                "color": "#da3633",
                "text": "2027-01-15T08:00:01Z main1 exited with 1",
                "fallback": "error: Session/vision/s1: session failed",
                "mrkdwn_in": ["text"],
            }
        ],
    }


def test_what_is_told_cannot_call_people() -> None:
    evil = news(1, actor="<!channel> & <@U1>")
    body = build_message(notification(template={"text": "by {{ actor }} <https://x|y>"}), Batch((evil,))).body
    assert json.loads(body)["attachments"][0]["text"] == (
        "by &lt;!channel&gt; &amp; &lt;@U1&gt; <https://x|y>"
    )


def test_http_is_sent_json_with_everything() -> None:
    many = tuple(news(n) for n in range(60))
    made = build_message(notification(to=HTTP), Batch(many, left_out=3))
    body = json.loads(made.body)
    assert body["version"] == "bai.notification/v1" and body["leftOut"] == 3
    assert body["title"] == "60 events of cluster lab, 60 errors" and len(body["news"]) == 60
    assert body["text"].splitlines()[-2:] == ["and 10 more events", "3 earlier events left out"]
    assert body["news"][0] == {
        "event": "session-failed", "severity": "error", "over": False, "at": "2027-01-15T08:00:00Z",
        "cluster": "lab", "resource": "Session/vision/s0", "kind": "Session", "project": "vision",
        "name": "s0", "what": "main1 exited with 0", "actor": "", "commit": "",
    }  # fmt: skip


def test_the_same_news_have_the_same_bytes_and_other_news_another_id() -> None:
    for to in (HTTP, {"slack": {"urlFrom": "env/HOOK"}}):
        one = build_message(notification(to=to), Batch((news(1),), tries=0))
        again = build_message(notification(to=to), Batch((news(1),), tries=7, again=99.0, began=5.0))
        assert one == again and one.body == again.body
        assert build_message(notification(to=to), Batch((news(2),))).id != one.id
        assert build_message(notification("other", to=to), Batch((news(1),))).id != one.id


def test_templates() -> None:
    template = {
        "title": "{{ name }} in {{ project }}",
        "text": "{% for n in news %}{{ n.what }};{% endfor %} {{ count }}",
        "body": '{"summary": {{ title | tojson }}, "text": {{ text | tojson }}}',
    }
    made = build_message(notification(to=HTTP, template=template), Batch((news(1), news(2))))
    assert json.loads(made.body) == {
        "summary": "s2 in vision", "text": "main1 exited with 1;main1 exited with 2; 2",
    }  # fmt: skip


def test_a_template_that_fails_makes_way_and_is_said() -> None:
    template = {"title": "{{ 1 // 0 }}", "text": "{{ ''.__class__ }}"}
    made = build_message(notification(to=HTTP, template=template), Batch((news(1),)))
    body = json.loads(made.body)
    assert body["title"] == "error: Session/vision/s1: session failed"
    assert "main1 exited with 1" in body["text"] and "template.title cannot be filled in" in body["text"]
    assert "template.text cannot be filled in" in body["wrong"]


def test_a_title_is_one_line() -> None:
    made = build_message(notification(template={"title": "a\r\nBcc: x@example.org"}), Batch((news(1),)))
    assert "\n" not in made.title and "\r" not in made.title
