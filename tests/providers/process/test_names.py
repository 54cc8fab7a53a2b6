"""No id and no path from a document ever names anything outside the root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.process.provider import ProcessProvider
from providers.process.supervision.records import KernelRoot, check_id
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.process.kernels import spec

BAD = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "a\0b",
    "a\nb",
    "-a",
    ".a",
    "a.",
    "a..b",
    "_keepers",
    "A",
    "é",
    "a" * 200,
]


@pytest.mark.parametrize("name", BAD)
def test_unsafe_ids_are_refused_by_every_call(make: Callable[..., ProcessProvider], name: str) -> None:
    provider = make("bare")
    provider.root.ensure()
    before = sorted(provider.root.path.parent.rglob("*"))
    for call in (
        lambda: provider.create(spec(name=name)),
        lambda: provider.update(name, spec()),
        lambda: provider.stop(name, grace=0),
        lambda: provider.remove(name),
        lambda: provider.logs(name),
        lambda: provider.execute(name, ("true",)),
    ):
        with pytest.raises(KernelRefused):
            call()
    assert sorted(provider.root.path.parent.rglob("*")) == before


@settings(deadline=None)
@given(st.text(max_size=140))
def test_a_checked_id_is_one_plain_name(text: str) -> None:
    try:
        checked = check_id(text)
    except KernelRefused:
        return
    assert checked == text and os.path.basename(text) == text and text not in (".", "..")
    assert KernelRoot(Path("/r")).folder(text).parent == Path("/r/kernels")
    assert text.isascii() and not text.startswith(("-", "_", "."))


def test_strange_entries_in_the_root_are_reported_not_followed(
    make: Callable[..., ProcessProvider], tmp_path: Path
) -> None:
    provider = make("bare")
    provider.root.ensure()
    (provider.root.path / "kernels" / "_odd").mkdir()
    (provider.root.path / "kernels" / "s-link-g1").symlink_to(tmp_path)
    found = provider.observe()
    assert not found.complete and set(found.unlabelled) == {"_odd", "s-link-g1"}
    (tmp_path / "precious").write_text("x")
    provider.remove("s-link-g1")
    assert (tmp_path / "precious").exists()
    assert not os.listdir(provider.root.path / "trash")


def test_shell_words_stay_words(provider: ProcessProvider, tmp_path: Path) -> None:
    from tests.providers.process.kernels import ended, output

    witness = tmp_path / "witness"
    nasty = f"$(touch {witness}); `touch {witness}` & | > {witness} ' \" \\ --bind / /"
    provider.create(spec("printf", "%s", nasty, env={"X": nasty}))
    assert ended(provider, spec().id).exit_code == 0
    assert output(provider, spec().id).decode() == nasty and not witness.exists()
