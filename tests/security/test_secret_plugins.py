"""A store of secrets that a plugin reads: a distribution of its own, found by its entry point."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.plugins.entry_points import SECRET_STORES
from schemas.problems.errors.plan import SecretMissing
from tests.lab import stores
from tests.lab.wheels import ROOT
from tests.security.test_committer import CANARY, Site, store

MODULE = "plugin_of_a_test"
PLUGIN = """\
import os
from providers.secret_stores.base import SecretUnreadable

canary = os.environ.get("WEBHOOK_SECRET", "granted-31")  # stands in no file


class Vault:
    def __init__(self, options):
        self._options = options
        self._tell("opened")

    def _tell(self, word):
        with open(self._options["log"], "a") as log:
            log.write(f"{word}\\n")

    def read(self, entry):
        self._tell(entry)
        BODY
"""
HVAC = """\
class Client:
    def __init__(self, url):
        assert url == "https://vault.example:8200"
        self.secrets = self.kv = self.v2 = self

    def read_secret_version(self, path, raise_on_deleted_version):
        return {"data": {"data": {"token": f"granted-31 of {path}"}}}
"""
KEY = 'return {"token": "granted-31", "other": canary}[entry]'


class Distribution:
    """What pip would have installed: a module, and metadata that names it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "asked"
        folder.mkdir()
        self.log.touch()

    def install(self, text: str, *, name: str = "vault") -> None:
        (self.folder / f"{MODULE}.py").write_text(text)
        metadata = self.folder / f"{MODULE}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{SECRET_STORES}]\n{name} = {MODULE}:Vault\n")

    def reads(self, body: str = KEY) -> None:
        """Install one whose `read` does this."""
        self.install(PLUGIN.replace("BODY", body))

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()

    def declared(self, *entries: str) -> dict[str, object]:
        options = {"log": str(self.log), "nested": {"a": [1, "b"]}}
        vault = {"name": "vault", "options": options}
        return store("team", projects=["demo"], entries=list(entries), plugin=vault)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Distribution]:
    made = Distribution(tmp_path / "site-packages")
    monkeypatch.syspath_prepend(str(made.folder))
    yield made
    for name in (MODULE, "hvac"):
        sys.modules.pop(name, None)


@pytest.fixture
def site(tmp_path: Path, plugin: Distribution) -> Site:
    """Of an owner who has declared the plugin's store, for `token`."""
    (tmp_path / "site").mkdir()
    made = Site(tmp_path / "site")
    made.declare(plugin.declared("token"))
    made.session("team/token")
    return made


def test_an_entry_is_read_through_a_plugin(site: Site, plugin: Distribution) -> None:
    plugin.reads('assert self._options["nested"] == {"a": [1, "b"]}; return "granted-" + "31"')
    for words in (["validate"], ["plan"], ["plan", "--offline"]):
        assert site.bai(*words).code == 0
    assert plugin.asked == [] and MODULE not in sys.modules, "only who applies asks"
    assert "got granted-31" in site.got()
    assert plugin.asked == ["opened", "token"]
    kept = site.kept("granted-31")
    assert kept and all(site.folder / "kernels" in path.parents for path in kept), kept


def test_a_plugin_is_asked_only_for_what_is_declared_and_granted(plugin: Distribution) -> None:
    plugin.reads()
    reader = stores.reader(plugin.declared("to*")).for_one_apply()
    for reference in ("team/other", "team/../token", "team/to/other", "team/*", "team/TOKEN", "team/"):
        with pytest.raises(SecretMissing):
            reader.for_project("demo", reference)
    with pytest.raises(SecretMissing, match="not granted to sessions of project 'other'"):
        reader.for_project("other", "team/token")
    with pytest.raises(SecretMissing, match="not granted to infrastructure"):
        reader.for_infrastructure("team/token")
    assert plugin.asked == [], "nobody was asked"
    assert [reader.for_project("demo", "team/token") for _ in range(2)] == ["granted-31"] * 2
    assert plugin.asked == ["opened", "token"], "once for each apply"
    assert reader.for_one_apply().for_project("demo", "team/token") == "granted-31"
    assert plugin.asked == ["opened", "token"] * 2


def test_what_is_not_granted_is_refused_before_the_plugin_is_loaded(site: Site, plugin: Distribution) -> None:
    plugin.reads()
    site.session("team/other")
    assert "lists no entry 'other'" in site.refused("BAI-V057")
    assert plugin.asked == [] and MODULE not in sys.modules


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise SecretUnreadable('Vault has no such key')", "Vault has no such key"),
        ("raise KeyError(canary)", "the store failed: KeyError"),
        ("raise OSError(13, canary, canary)", "the store failed: PermissionError"),
        ("raise ExceptionGroup(canary, [ValueError(canary)])", "the store failed: ExceptionGroup"),
        ("assert canary is None, canary", "the store failed: AssertionError"),
        ("return canary.encode()", "the store gave no text"),
        ("return None", "the store gave no text"),
        ("return [canary]", "the store gave no text"),
        ("return canary + chr(0)", "NUL byte"),
        ("return canary * 65536", "larger than 65536 bytes"),
        ("return canary + chr(0xd800)", "not UTF-8 text"),
    ],
)
def test_a_plugin_that_gives_no_secret_is_told_without_one(
    site: Site, plugin: Distribution, body: str, why: str
) -> None:
    plugin.reads(body)
    _refused(site, why)
    assert plugin.asked == ["opened", "token"] * 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import os\nraise RuntimeError(os.environ['WEBHOOK_SECRET'])", "RuntimeError"),
        ("import no_such_module_of_a_test", "ModuleNotFoundError"),
        ("", "AttributeError"),
        ("def Vault(options): raise ValueError(options)", "ValueError"),
        ("def Vault(): return None", "TypeError"),
        ("def Vault(options): return None", "AttributeError"),
    ],
)
def test_a_plugin_that_cannot_be_opened_is_told(
    site: Site, plugin: Distribution, text: str, why: str
) -> None:
    plugin.install(text)
    _refused(site, f"the store failed: {why}")


@pytest.mark.parametrize(("installed", "known"), [("", "none"), ("other", "other")])
def test_a_plugin_that_is_not_installed_names_the_group_of_entry_points(
    site: Site, plugin: Distribution, installed: str, known: str
) -> None:
    if installed:
        plugin.install(PLUGIN.replace("BODY", KEY), name=installed)
    _refused(site, f"there is no plugin 'vault' of bai.secret_stores; installed are: {known}")
    assert plugin.asked == [] and MODULE not in sys.modules


def _refused(site: Site, why: str) -> None:
    """By apply, with what to mend and no value, on paper or screen; and nothing runs."""
    for words in (["apply", "--yes"], ["--verbose", "apply", "--yes"]):
        said = site.bai(*words)
        told = " ".join(said.text.split())
        assert said.code == 1 and "BAI-E0504" in told and "team/token" in told and why in told, said.text
        assert "Traceback" not in said.text and CANARY not in said.text, said.text
    assert site.kept(CANARY) == [site.folder / "private"]
    assert not list((site.folder / "kernels").rglob("*output*"))


def test_the_plugin_in_the_documentation(plugin: Distribution) -> None:
    """With a client of Vault that has no server behind it."""
    page = (ROOT / "docs" / "secrets.md").read_text()
    [text] = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    [entry] = re.findall(
        r'^\[project\.entry-points\."(.*)"\]\nvault = "my_package\.vault:Vault"$', page, re.M
    )
    assert entry == SECRET_STORES
    plugin.install(text)
    (plugin.folder / "hvac.py").write_text(HVAC)
    options = {"address": "https://vault.example:8200", "path": "bai"}
    declared = store("team", projects=["*"], entries=["*"], plugin={"name": "vault", "options": options})
    reader = stores.reader(declared)
    assert reader.for_project("demo", "team/token") == "granted-31 of bai"
    with pytest.raises(SecretMissing, match="Vault has no such key"):
        reader.for_project("demo", "team/other")
