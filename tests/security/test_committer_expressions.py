"""Who may commit writes expressions, which are read with each document and evaluated for each action of a
plan. None takes time or memory beyond its bounds, and none reaches out."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys

import pytest

from tests.fuzz.targets import ALARMING, ROOT

PROGRAM = """
import json, sys
from reconciler.guards import cel
from reconciler.guards.cel.steps import Budget
texts, values, steps = json.load(sys.stdin)
values = {
    "numbers": list(range(20_000)),
    "names": [f"n{number}" for number in range(20_000)],
    "long": "ab" * 500_000,
    "map": {str(number): number for number in range(20_000)},
    "deep": json.loads("[" * 200 + "]" * 200),
    "action": {"verb": "delete", "name": "a"},
} | values
for text in texts:
    try:
        found = cel.compile(text, values).evaluate(values, Budget(steps) if steps else None)
    except cel.InvalidExpression as error:
        found = f"refused {error.line} {error.column} {error.why} / {error.hint}"
    except cel.TooManySteps as error:
        found = f"stopped {error}"
    except cel.EvaluationError as error:
        found = f"failed {error}"
    print(found, flush=True)
"""


def outcomes(*texts: str, steps: int = 0, **values: object) -> dict[str, str]:
    """What is said to each, in a process that may have 60 s of a processor and 512 MiB for all of them.
    `steps`: what is left for each, but for the whole of what one may take."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        preexec_fn=bounded,
        input=json.dumps([texts, values, steps]),
        capture_output=True,
        text=True,
        check=False,
    )
    said = dict(zip(texts, done.stdout.split("\n"), strict=False))
    assert done.returncode == 0, f"{texts[done.stdout.count(chr(10))][:80]}: {done.stderr[-2000:]}"
    for text, each in said.items():
        assert len(each) < 400 and not ALARMING.search(each), (text, each)
        assert not re.search(r"<class|Traceback|Token\(|object at|Error\(", each), (text, each)
    return said


def outcome(text: str, **values: object) -> str:
    return outcomes(text, **values)[text]


REFUSED = [
    ("(" * 9_999, "ends too early"),
    ("a" * 10_001, "10000 characters at most"),
    ("!" * 9_000 + "true", "nested more than 50 deep"),
    ("-" * 9_000 + "1 == 1", "nested more than 50 deep"),
    ("[" * 4_000 + "]" * 4_000 + " == []", "nested more than 50 deep"),
    ("{1:" * 2_000 + "1" + "}" * 2_000 + " == {}", "nested more than 50 deep"),
    ("action" + ".a" * 4_000 + " == 1", "nested more than 50 deep"),
    ("action" + "[0]" * 3_000 + " == 1", "nested more than 50 deep"),
    ("1" + " + 1" * 2_000 + " == 1", "nested more than 50 deep"),
    ("true ? true : " * 600 + "true", "nested more than 50 deep"),
    ("numbers.all(a, " * 600 + "true" + ")" * 600, "nested more than 50 deep"),
    ("size(" * 1_500 + "names" + ")" * 1_500 + " == 1", "nested more than 50 deep"),
    ('"' + r"\n" * 4_000, "cannot stand here"),
    ('"""' + r"\n" * 4_000, "cannot stand here"),
    ("'''" + "''\\'" * 2_000, "cannot stand here"),
    ('r"""' + '""x' * 3_000, "cannot stand here"),
    ("9" * 9_990 + " > 1", "whole numbers reach to"),
    ("0x" + "f" * 9_900 + " > 1", "whole numbers reach to"),
    ("9" * 9_900 + ".0 > 1.0", "too large"),
    ("." * 9_000, "cannot stand here"),
    ("a" * 9_000, "a name has 100 characters at most"),
    ("action." + "a" * 9_000 + " == 1", "a name has 100 characters at most"),
    ("\x1b[31m\x9b\u202etrue", "u001b"),
    ("'\x1b[31m' + action.\x1b", "u001b"),
    ("long.matches('(a{90}){90}')", "repeats too much"),
    ("long.matches('a{90}{90}')", "repeats too much"),
    (r"long.matches('\\pL{999999999}')", "repeats too much"),
    ("long.matches('(?x) (a) {90} {90}')", "repeats too much|no flag x"),
    (" || ".join([r"long.matches('\\pL{90}')"] * 12), "too long, or repeat too much"),
    (" || ".join([f"long.matches('{'a' * 90}')"] * 90), "too long, or repeat too much"),
    ("long.matches('(?=a)a')", "not a regular expression"),
    (r"long.matches('(a)\\1')", "not a regular expression"),
    ("long.matches(long)", "written out, not computed"),
    ("action.name.format('{0.__class__}') == ''", "no method 'format'"),
    ("__import__('os').system('id') == 0", "no method 'system'|no function '__import__'"),
    ("eval('1') == 1", "no function 'eval'"),
    ("open('/etc/passwd').read() == ''", "no method 'read'|no function 'open'"),
]


def test_what_is_no_expression_is_refused_at_once() -> None:
    said = outcomes(*(text for text, _ in REFUSED))
    for text, why in REFUSED:
        assert said[text].startswith("refused ") and re.search(why, said[text]), (text[:80], said[text])


ENDLESS = [
    "[[0]]" + ".map(s, [s, s])" * 40 + ".all(x, x == x)",
    "numbers.all(a, numbers.all(b, numbers.all(c, true)))",
    "numbers.map(a, numbers.map(b, [a, b])).size() == 0",
    "numbers.map(a, numbers.map(b, {})).size() == 0",
    "numbers.map(a, numbers.map(b, {'a': b})).size() == 0",
    "numbers.map(a, numbers.map(b, string(b) + 'x')).size() == 0",
    "numbers.map(a, names.filter(b, true)).size() == 0",
    "numbers.exists(a, numbers.exists(b, a.x == b.x))",
    "numbers.exists(a, numbers.exists(b, a.x)) || true",
    "numbers.all(a, numbers.all(b, duration('1h1m1s1ms1us1ns') == duration('1s') || true))",
    "numbers.all(a, numbers.all(b, timestamp(b).getHours('Asia/Seoul') >= 0))",
    "['aaaaaaaaaaaaaaaa']" + ".map(s, s + s)" * 40 + ".size() == 1",
    "[[0, 0]]" + ".map(s, s + s)" * 40 + ".size() == 1",
    "[{'a': 'aaaaaaaa'}]" + ".map(s, {'a': s.a + s.a})" * 30 + ".size() == 1",
    "[long].map(s, s + s + s + s).size() == 1",
    "numbers.all(a, -1 in numbers || true)",
    "numbers.all(a, numbers == numbers && map == map)",
    "numbers.all(a, long == long && long <= long)",
    "numbers.all(a, long.startsWith(long) && long.endsWith(long))",
    "numbers.all(a, !long.contains('" + "ab" * 200 + "aa'))",
    "numbers.all(a, !long.matches('[ab]*a[ab]{900}c'))",
    "names.all(a, names.all(b, !a.matches('(.*.*.*.*)*c')))",
]


def test_what_never_ends_is_stopped_when_nothing_is_left_for_it() -> None:
    """The same way as by the whole of it, which is for the test below."""
    for text, said in outcomes(*ENDLESS, steps=20_000).items():
        assert said.startswith("stopped the expressions of the plan take more than 20,000 steps"), text[:80]


@pytest.mark.slow
def test_what_never_ends_is_stopped() -> None:
    for text, said in outcomes(*ENDLESS).items():
        assert said.startswith("stopped it takes more than 1,000,000 steps"), (text[:80], said)


def test_what_is_stopped_cannot_be_hidden() -> None:
    endless = "numbers.all(a, numbers.all(b, true))"
    hiding = (f"{endless} || true", f"!({endless} && false)", f"[1].exists(x, {endless}) || true")
    for text, said in outcomes(*hiding, steps=20_000).items():
        assert said.startswith("stopped"), text


def test_an_odd_pattern_takes_no_longer() -> None:
    patterns = ("(a+)+$", "^(a|a)*$", "(a|aa)+$", "(.*a){20}", "(x+x+)+y")
    said = outcomes(*(f"t.matches('{pattern}')" for pattern in patterns), t="a" * 10_000 + "!")
    assert list(said.values()) == ["False", "False", "False", "True", "False"]


NAMES = ("__class__", "__dict__", "__init__", "keys", "items", "format", "upper")


def test_fields_are_those_of_the_data() -> None:
    told = {
        start + name + end: why
        for start, end, why in (
            ("action.", " == null", "failed no such field: "),
            ("action.verb.", " == null", "failed a text has no fields"),
            ("names.", " == null", "failed a list has no fields"),
            ("action['", "'] == null", "failed no such key"),
            ("has(action.", ")", "False"),
        )
        for name in NAMES
    }
    for text, said in outcomes(*told).items():
        assert said.startswith(told[text]), (text, said)


def test_values_nested_deeply_are_compared_only_so_far() -> None:
    told = "failed values are nested too deeply to be compared"
    expected = {"deep == deep": told, "deep in [deep]": told, "deep != [1]": "True"}
    assert outcomes(*expected) == expected


def test_the_deepest_and_widest_there_may_be_is_evaluated() -> None:
    """Far from the end of the interpreter's stack, also in comprehensions in each other."""
    expected = {
        "[1].all(a, " * 48 + "a == 1" + ")" * 48: "True",
        "!" * 48 + "(1 == 1)": "True",
        "(" * 4_990 + "1 == 1" + ")" * 4_990: "True",
        " || ".join(["(1 == 2)"] * 800): "False",
        "[" + "1," * 4_900 + "].size() == 4900": "True",
    }
    assert outcomes(*expected) == expected


def test_huge_numbers_of_a_document_stay_numbers() -> None:
    beyond = "failed a whole number is beyond 64 bits"
    expected = {
        "n > 1 && n == n": "True",
        **dict.fromkeys(("string(n) == ''", "n + 1 > 0", "int(n) > 0", "double(n) > 0.0", "-n < 0"), beyond),
        "numbers[n] == 1": beyond,
        "{'a': 1}[n] == 1": "failed no such key: a huge number",
        "timestamp(n) > timestamp(0)": "failed a timestamp is not within the years 1 to 9999",
        "n * 1.0 > 0.0": "failed `*` is not for a whole number and a number with a fraction",
        "n / 0 == 1": "failed division by zero",
        "n > 1.5": "True",
    }
    assert outcomes(*expected, n=int("9" * 4_000)) == expected


def test_texts_of_documents_drive_no_terminal() -> None:
    texts = ("int(t) == 1", "timestamp(t) == timestamp(0)", "duration(t) > duration('0s')", "action[t] == 1")
    texts += ("timestamp(0).getHours(t) == 1", r"action['\x1b'] == 1")
    for text, said in outcomes(*texts, t="\x1b[31m\u202e" + "x" * 10_000).items():
        assert said.startswith("failed") and "u001b" in said, (text, said)
