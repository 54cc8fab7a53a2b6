"""Providers are found by name, opened with checked options, and imported only when used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from providers import registry
from providers.base import KernelSpec, Labels, Limit
from providers.declared import DeclaredProvider
from providers.process.provider import ProcessProvider
from schemas.plugins.entry_points import PROVIDERS
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import InvalidOption, UnknownProvider

LABELS = Labels("repo", "here", "Session/p/s", 1, "digest", "main1", "node")


def test_the_built_in_ones_are_known() -> None:
    assert {"process", "declared"} <= set(registry.provider_names())


def test_an_unknown_one_names_the_known() -> None:
    with pytest.raises(UnknownProvider, match=r"kubernetez.*process"):
        registry.open_provider("kubernetez", {})


def test_the_process_provider_takes_its_options(tmp_path: Path) -> None:
    provider = registry.open_provider("process", {"sandbox": False, "logSize": 5}, state_root=tmp_path / "r")
    assert isinstance(provider, ProcessProvider) and provider.root.path == tmp_path / "r"
    assert Limit.FILESYSTEM in provider.capabilities().limits_missing


@pytest.mark.parametrize(
    "options",
    [{"sandbox": "yes"}, {"logSize": 0}, {"logSize": True}, {"root": "relative"}, {"unheard": 1}],
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(options))):
        registry.open_provider("process", options)


def test_the_root_can_be_chosen_by_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BAI_PROCESS_ROOT", str(tmp_path / "mine"))
    provider = registry.open_provider("process", {})
    assert isinstance(provider, ProcessProvider) and provider.root.path == tmp_path / "mine"


def test_a_strangers_provider_is_opened_like_a_built_in_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "stranger-1.0.dist-info").mkdir()
    metadata = f"[{PROVIDERS}]\nstranger = providers.declared:open_declared\n"
    (tmp_path / "stranger-1.0.dist-info" / "entry_points.txt").write_text(metadata)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(registry.open_provider("stranger", {}), DeclaredProvider)
    assert isinstance(registry.open_provider("declared", {}), DeclaredProvider)


def test_only_the_one_used_is_imported() -> None:
    code = (
        "import sys; from providers.registry import open_provider, provider_names; provider_names();"
        "open_provider('declared', {});"
        "print([m for m in sys.modules if m.startswith('providers.process')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_declared_provider_has_nothing_and_makes_nothing() -> None:
    provider = registry.open_provider("declared", {})
    assert provider.observe().kernels == () and provider.observe().complete
    assert provider.capabilities().limits_missing == {}
    with pytest.raises(KernelRefused, match="only declared"):
        provider.create(KernelSpec("s", LABELS, ("true",), {}))
    provider.remove("s")
