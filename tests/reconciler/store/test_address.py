"""Where stores are, as people write it; passwords are not shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from pydantic import ValidationError

from reconciler.store.database.address import StoreAddress
from schemas.kinds.cluster import ClusterSpec
from schemas.problems.errors.store import StoreError

SECRET = "s3cr/et@:x"
QUOTED = "s3cr%2Fet%40%3Ax"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{QUOTED}@db.example:5432/bai",
        f"postgres://ada:{QUOTED}@/bai?host=/run/postgresql",
        f"postgresql:///bai?user=ada&password={QUOTED}&sslmode=verify-full",
        f"postgresql+psycopg://ada:{QUOTED}@db/bai?sslpassword={QUOTED}",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    found = StoreAddress.parse(url)
    for shown in (str(found), repr(found)):
        assert SECRET not in shown and QUOTED not in shown and "***" in shown
    assert SECRET in unquote(found.plain_url)
    assert found.on_server and found.plain_url.startswith("postgresql://")


def test_what_is_ours_is_not_the_driver_s() -> None:
    url = "postgresql://ada@db/bai?passwordFrom=env%3APW&sslmode=require&schema=team-a&keyFile=/k"
    found = StoreAddress.parse(url)
    assert found.plain_url == "postgresql://ada@db/bai?sslmode=require"
    assert (found.password_from, found.schema, found.key_file) == ("env:PW", "team-a", Path("/k"))


@pytest.mark.parametrize("url", ["mysql://a:secret@db/x", "postgresql://db:secret@x:port/y", "sqlite:///x"])
def test_what_is_no_store_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        StoreAddress.parse(url)
    assert "secret" not in str(refused.value)


def test_who_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAI_STATE", raising=False)
    url = "postgresql://db/bai"
    assert StoreAddress.choose(tmp_path, None).path == tmp_path / ".bai" / "store.db"
    assert StoreAddress.choose(tmp_path, None).key_file == tmp_path / ".bai" / "store.key"
    with pytest.raises(StoreError, match="documents do not choose the store"):
        StoreAddress.choose(tmp_path, None, named=url)
    assert StoreAddress.choose(tmp_path, url).key_file == tmp_path / ".bai" / "store.key"
    assert StoreAddress.choose(tmp_path, None, default=tmp_path / "own.db").path == tmp_path / "own.db"
    monkeypatch.setenv("BAI_STATE", "postgresql://other/bai")
    assert StoreAddress.choose(tmp_path, None, named=url).url == "postgresql://other/bai"
    assert StoreAddress.choose(tmp_path, str(tmp_path), named=url).path == tmp_path / "store.db"
    chosen = StoreAddress.choose(tmp_path, url)
    assert StoreAddress.choose(tmp_path / "copy.git", chosen).key_file == tmp_path / ".bai" / "store.key"
    assert StoreAddress.choose(tmp_path, tmp_path / "x.db").key_file == tmp_path / "x.key"


def test_documents_hold_no_passwords() -> None:
    good = "postgresql://ada@db.example:5432/bai?sslmode=verify-full&schema=team-a"
    assert ClusterSpec.model_validate({"provider": "process", "state": good}).state == good
    for bad in (
        "postgresql://ada:hunter2@db/bai",
        "postgresql://db/bai?password=hunter2",
        "postgresql://db/bai?sslmode=require&password=hunter2",
        "mysql://db/bai?x=hunter2",
        "hunter2",
    ):
        with pytest.raises(ValidationError) as refused:
            ClusterSpec.model_validate({"provider": "process", "state": bad})
        assert "hunter2" not in refused.value.errors(include_input=False)[0]["msg"]
