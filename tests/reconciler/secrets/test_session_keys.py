"""Keys of sessions: the same for all containers of a generation, made once, closed to others."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from reconciler.secrets.session_keys import derive_seed
from schemas.problems.errors.plan import SecretMissing

REFERENCE = "session-key:r/c/Session/p/s#1"


def test_a_seed_is_the_same_for_the_same_session(tmp_path: Path) -> None:
    store = tmp_path / "store.key"
    first = derive_seed(store, REFERENCE)
    assert len(bytes.fromhex(first)) == 32
    assert derive_seed(store, REFERENCE) == first
    assert derive_seed(store, REFERENCE.replace("#1", "#2")) != first
    assert derive_seed(tmp_path / "other.key", REFERENCE) != first
    assert store.stat().st_mode & 0o777 == 0o600
    assert first not in store.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.key", "store.key"]


def test_many_at_once_make_one_key(tmp_path: Path) -> None:
    found: list[str] = []
    ready = threading.Barrier(8)

    def ask() -> None:
        ready.wait()
        found.append(derive_seed(tmp_path / "store.key", REFERENCE))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 8


def test_a_key_that_is_open_or_damaged_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store.key"
    derive_seed(store, REFERENCE)
    store.chmod(0o644)
    with pytest.raises(SecretMissing, match="chmod 600"):
        derive_seed(store, REFERENCE)
    store.chmod(0o600)
    for text in ("", "zz", "00", "é"):
        store.write_text(text)
        with pytest.raises(SecretMissing, match=r"store\.key"):
            derive_seed(store, REFERENCE)
    with pytest.raises(SecretMissing, match=r"store\.key"):
        derive_seed(tmp_path / "nothere" / "store.key", REFERENCE)


def test_all_who_share_a_store_need_the_same_key(tmp_path: Path) -> None:
    marks: list[str] = []

    def agree(mark: str) -> str:
        marks.append(mark)
        return marks[0]

    first = derive_seed(tmp_path / "one.key", REFERENCE, agree)
    with pytest.raises(SecretMissing, match="not the key that others"):
        derive_seed(tmp_path / "two.key", REFERENCE, agree)
    (tmp_path / "two.key").write_bytes((tmp_path / "one.key").read_bytes())
    assert derive_seed(tmp_path / "two.key", REFERENCE, agree) == first
    assert first not in marks[0] and (tmp_path / "one.key").read_text().strip() not in marks
