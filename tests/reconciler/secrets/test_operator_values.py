"""References to secrets: what resolves, and that no message holds a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.secrets.operator_values import MAX_BYTES, resolve_reference
from schemas.problems.errors.plan import SecretMissing


def test_a_variable_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAI_TEST_TOKEN", "hunter2 ")
    assert resolve_reference("env:BAI_TEST_TOKEN") == "hunter2 "
    for written, read in (("hunter2", "hunter2"), ("hunter2\n", "hunter2"), ("a\nb\r\n", "a\nb"), ("", "")):
        (tmp_path / "token").write_bytes(written.encode())
        assert resolve_reference(f"file:{tmp_path}/token") == read


@pytest.mark.parametrize("content", [None, b"\xff\xfe hunter2", b"hunter2\0", b"hunter2" * MAX_BYTES])
def test_what_cannot_be_a_secret_is_refused_without_telling_it(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(SecretMissing) as caught:
        resolve_reference(f"file:{tmp_path}/token")
    assert f"file:{tmp_path}/token" in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "reference", ["env:BAI_TEST_NO_SUCH_VARIABLE", "sops:x", "plain", "file:/", "file:/no/such"]
)
def test_a_reference_that_leads_nowhere(reference: str) -> None:
    with pytest.raises(SecretMissing, match="BAI-E0504"):
        resolve_reference(reference)
