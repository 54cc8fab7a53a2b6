"""Sessions that are opened in a browser, as their documents say."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.values.apps.app import session_apps
from schemas.kinds.session import Session
from schemas.loading.loader import load_directory
from schemas.values.resource_ref import identity_of

FOLDER = Path(__file__).parents[2] / "examples/sessions/apps"
URL = "https://{}.apps.localhost:8443"
APPS = {
    "here": {"jupyter--jupyter--examples", "board--tensorboard--examples"},
    "docker": {
        "jupyter--jupyter--examples",
        "code--code--examples",
        "board--tensorboard--examples",
        "dashboard--ray--examples",
    },
}


@pytest.mark.parametrize("folder", APPS)
def test_each_has_a_url_and_listens_where_only_bai_comes(folder: str) -> None:
    repository = load_directory(FOLDER / folder)
    assert not repository.warnings
    proxy = repository.app_proxy_of("here")
    assert proxy is not None
    found = {app.url for each in repository.of(Session) for app in session_apps(proxy, each, None)}
    assert found == {URL.format(label) for label in APPS[folder]}
    for each in repository.of(Session):
        (port,) = each.spec.ports
        words = each.spec.command[-1]
        assert "127.0.0.1" in words and f"$BAI_PORT_{port.name.upper()}" in words, each.identity
        assert not port.publish


def test_a_program_that_others_reach_keeps_its_own_login() -> None:
    """Processes share their machine's ports; containers have theirs to themselves."""
    here, docker = ((FOLDER / folder / "jupyter.yaml").read_text() for folder in ("here", "docker"))
    assert "token=" not in here and "--IdentityProvider.token= " in docker


def test_one_comes_in_by_a_node_whose_profile_says_so() -> None:
    repository = load_directory(FOLDER / "edge")
    assert not repository.warnings
    proxy = repository.app_proxy_of("gpus")
    assert proxy is not None and proxy.spec.node is not None
    node = repository.machines[identity_of("Node", proxy.spec.node)]
    profile = repository.profile_of(node)
    assert profile is not None and profile.spec.app_proxy is not None
    assert profile.spec.app_proxy.url == proxy.spec.url
