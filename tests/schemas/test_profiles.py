"""Profiles as the variables of roles, and what is generated into roles/ from their models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.kinds.parts.provisioning import Provisioning
from schemas.loading.documents import parse_resource
from schemas.loading.json_schema import union_schema
from schemas.loading.loader import load_directory
from schemas.problems.codes import CODES
from schemas.profile import OS_NAMES, ROLES, NodeProfile, NodeProfileSpec, arguments
from schemas.profile.arguments import arguments_of, section_models
from schemas.profile.variables import role_variables, secret_references
from schemas.rules import warning_rules
from schemas.rules.document_rules import check_document
from schemas.rules.profile_rules import profile_os
from schemas.values.canonical import canonical_document
from tests.schemas.profile_example import PROFILE, RHEL

ROOT = Path(__file__).parents[2]
STEADY = settings(deadline=None, derandomize=True, database=None)
MODELS = ("H100", "NVIDIA B200", "Tesla V100-SXM2-32GB", "Tesla P100", "RTX PRO 4500", "A30", "anything")


def spec(value: dict[str, Any]) -> NodeProfileSpec:
    return NodeProfileSpec.model_validate(value)


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import gen_roles  # type: ignore[import-not-found]

    yield gen_roles
    sys.modules.pop("gen_roles")


def test_every_section_is_a_role_and_every_role_a_section() -> None:
    others = {"os", "reboot"}
    assert set(NodeProfileSpec.model_fields) - others == set(ROLES)
    assert len(set(ROLES)) == len(ROLES)
    assert list(section_models()) == list(ROLES)


def test_the_example_uses_every_field_of_every_section() -> None:
    used: set[tuple[str, str]] = set()
    for value in (PROFILE, RHEL):
        used |= set(_fields(spec(value)))
    assert {part for part in _declared(NodeProfileSpec) if part not in used} == set()


def _fields(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, tuple):
        for item in value:
            yield from _fields(item)
    if isinstance(value, BaseModel):
        for name in value.model_fields_set:
            yield type(value).__name__, name
            yield from _fields(getattr(value, name))


def _declared(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        yield model.__name__, name
        inner = arguments._unwrap_annotation(field.annotation, ())[0]
        for part in (inner, *getattr(inner, "__args__", ())):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _declared(part)


def test_parts_have_names_of_their_own() -> None:
    """Two classes of one name would be published under the names of their modules."""
    assert [name for name in union_schema()["$defs"] if "__" in name] == []


def test_variables_are_plain_and_in_the_smallest_units() -> None:
    found = role_variables(spec(PROFILE))
    assert list(found) == list(ROLES)
    base = found["base"]
    assert base["base_huge_pages"] == [{"size": 2 << 20, "count": 1024, "numa_node": 1}]
    assert base["base_sysctls"] == {"vm.swappiness": "1"}
    assert base["base_packages"] == {"numactl": "2.0.14-3ubuntu2", "htop": None}
    assert found["control_plane"]["control_plane_bai"]["interval"] == 120
    assert found["mig"]["mig_layouts"][1] == {"gpus": [1], "enabled": False, "instances": {}}
    assert yaml.safe_load(yaml.safe_dump(found)) == found


def test_all_variables_of_a_role_are_given() -> None:
    found = role_variables(spec({"os": "debian-12", "docker": {"version": "27.3.1"}}))
    names = {one.name for one in arguments_of("docker")}
    assert found.keys() == {"docker"}
    assert found["docker"].keys() == names
    assert found["docker"]["docker_data_root"] is None


def test_secrets_are_references_and_no_variables() -> None:
    value = spec(PROFILE)
    assert secret_references(value) == {
        "control_plane_ssh_key": "files/key",
        "control_plane_access": "files/access.yaml",
        "control_plane_secret_stores": "files/secret-stores.yaml",
        "control_plane_webhook_secret": "env/WEBHOOK_SECRET",
        "control_plane_database_password": "env/DATABASE_PASSWORD",
    }
    assert "DATABASE_PASSWORD" not in str(role_variables(value))


def test_empty_sections_are_kept() -> None:
    """`rdma: {}` runs a role; it is not the same as no section."""
    value: dict[str, Any] = {"os": "ubuntu-24.04", "nvidiaFabricmanager": {}, "rdma": {}, "mps": {}}
    made = NodeProfile.model_validate(
        {"apiVersion": "bai/v1", "kind": "NodeProfile", "metadata": {"name": "x"}, "spec": value}
    )
    assert canonical_document(made)["spec"] == value
    assert made.spec.roles == ("nvidia_fabricmanager", "rdma", "mps")


@pytest.mark.parametrize(
    ("version", "flavour"), [("550.90.07", "proprietary"), ("560.35.03", "open"), ("580.82.07-1", "open")]
)
def test_what_follows_from_the_driver_is_filled_in(version: str, flavour: str) -> None:
    value = spec({"os": "ubuntu-24.04", "nvidiaDriver": {"version": version}, "nvidiaFabricmanager": {}})
    found = role_variables(value)
    assert found["nvidia_driver"]["nvidia_driver_flavour"] == flavour
    assert found["nvidia_fabricmanager"]["nvidia_fabricmanager_version"] == version


def test_only_a_sections_own_fields_may_be_secrets() -> None:
    class Inner(BaseModel):
        token_from: str

    class Outer(BaseModel):
        inner: Inner

    with pytest.raises(TypeError, match="token_from"):
        arguments._argument("x_", Outer, "inner", Outer.model_fields["inner"])


def test_a_type_that_no_role_can_be_given_is_refused() -> None:
    class Odd(BaseModel):
        value: set[str]

    with pytest.raises(TypeError, match="x_value"):
        arguments._argument("x_", Odd, "value", Odd.model_fields["value"])


def test_what_is_generated_is_fresh(generator: ModuleType) -> None:
    assert generator.main(["--check"]) == 0


def test_what_is_stale_is_noticed_and_prose_is_kept(generator: ModuleType, tmp_path: Path) -> None:
    wanted = generator.files(tmp_path)
    here = [path.relative_to(tmp_path).parts for path in wanted]
    assert {parts[1] for parts in here if parts[0] == "roles"} == set(ROLES)
    assert {parts[-1] for parts in here if parts[0] == "deploy"} == {
        "bai-reconcile.service",
        "bai-serve.service",
    }
    assert generator.stale(wanted) == list(wanted)
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert generator.stale(generator.files(tmp_path)) == []
    readme = tmp_path / "roles" / "mig" / "README.md"
    changed = readme.read_text(encoding="utf-8").replace("# mig\n", "# mig\n\nOwn words.\n")
    readme.write_text(changed, encoding="utf-8")
    assert generator.stale(generator.files(tmp_path)) == []
    readme.write_text(changed.replace("mig_layouts", "mig_layout"), encoding="utf-8")
    assert generator.stale(generator.files(tmp_path)) == [readme]
    assert generator.files(tmp_path)[readme] == changed


@pytest.mark.parametrize("role", ROLES)
def test_ansible_accepts_what_the_profile_says(role: str, generator: ModuleType) -> None:
    """The variables of the example against the argument specs, with Ansible's own validator."""
    validator = pytest.importorskip("ansible.module_utils.common.arg_spec").ArgumentSpecValidator
    options = yaml.safe_load(generator.specs(role))["argument_specs"]["main"]["options"]
    for value in (PROFILE, RHEL):
        given = role_variables(spec(value)).get(role)
        if given is not None:
            assert validator(options).validate(given).error_messages == []


def test_ansible_refuses_what_is_wrong(generator: ModuleType) -> None:
    validator = pytest.importorskip("ansible.module_utils.common.arg_spec").ArgumentSpecValidator
    options = yaml.safe_load(generator.specs("docker"))["argument_specs"]["main"]["options"]
    right = role_variables(spec(PROFILE))["docker"]
    for wrong in (
        {"docker_package": "podman"},
        {"docker_mtu": "large"},
        {"docker_address_pools": [{"base": "10.0.0.0/8", "sise": 24}]},
    ):
        assert validator(options).validate({**right, **wrong}).error_messages
    del right["docker_version"]
    assert validator(options).validate(right).error_messages


def test_every_variable_says_what_it_is_for() -> None:
    def silent(found: tuple[arguments.RoleArgument, ...]) -> Iterator[str]:
        for one in found:
            if not one.description:
                yield one.name
            yield from silent(one.keys)

    assert {role: list(silent(arguments_of(role))) for role in ROLES} == {role: [] for role in ROLES}


def test_defaults_leave_out_what_must_be_given(generator: ModuleType) -> None:
    defaults = yaml.safe_load(generator.defaults("docker"))
    assert "docker_version" not in defaults
    assert defaults["docker_live_restore"] is True
    assert (
        generator.table("docker").count("(required)") == 2
    )  # docker_version and docker_address_pools[].base


def test_a_nodes_own_profile_wins_over_its_clusters(tmp_path: Path) -> None:
    documents = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec: {provider: docker, profile: usual}
---
apiVersion: bai/v1
kind: NodeProfile
metadata: {name: usual}
spec: {os: debian-12}
---
apiVersion: bai/v1
kind: NodeProfile
metadata: {name: special}
spec: {os: debian-12}
---
apiVersion: bai/v1
kind: Node
metadata: {name: a}
---
apiVersion: bai/v1
kind: NodePool
metadata: {name: pool}
spec: {namePattern: "p[1-2]", profile: special}
"""
    (tmp_path / "x.yaml").write_text(
        documents.replace("metadata: {name: a}", "metadata: {name: a}\nspec: {}")
    )
    repository = load_directory(tmp_path)
    found = {node.name: repository.profile_of(node) for node in repository.machines.values()}
    assert {name: profile and profile.name for name, profile in found.items()} == {
        "a": "usual",
        "p1": "special",
        "p2": "special",
    }


@pytest.mark.parametrize(
    ("given", "nodes", "most"),
    [(1, 100, 1), (3, 2, 3), ("25%", 10, 2), ("25%", 3, 1), ("100%", 7, 7), ("1%", 1000, 10)],
)
def test_how_many_may_be_out_of_use(given: int | str, nodes: int, most: int) -> None:
    assert Provisioning.model_validate({"maxUnavailable": given}).most_unavailable(nodes) == most


@pytest.mark.parametrize("wrong", [0, -1, "0%", "101%", "2", "half", 1.5, True, None, ""])
def test_a_wrong_number_out_of_use_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="neither a number of nodes"):
        Provisioning.model_validate({"maxUnavailable": wrong})


@pytest.mark.parametrize(
    ("pretty", "name"),
    [
        ("Ubuntu 22.04.4 LTS", "ubuntu-22.04"),
        ("Ubuntu 24.04", "ubuntu-24.04"),
        ("Debian GNU/Linux 12 (bookworm)", "debian-12"),
        ("Rocky Linux 9.4 (Blue Onyx)", "rhel-9"),
        ("Red Hat Enterprise Linux 9.5 (Plow)", "rhel-9"),
        ("AlmaLinux 9.3 (Shamrock Pampas Cat)", "rhel-9"),
        ("CentOS Stream 9", "rhel-9"),
        ("Red Hat Enterprise Linux 8.10 (Ootpa)", ""),
        ("Rocky Linux 8.9", ""),
        ("Debian GNU/Linux 13 (trixie)", ""),
        ("Ubuntu 20.04.6 LTS", ""),
        ("", ""),
    ],
)
def test_systems_by_their_pretty_names(pretty: str, name: str) -> None:
    assert profile_os(pretty) == name


@STEADY
@given(st.data())
def test_rules_judge_whatever_the_types_allow(data: st.DataObject) -> None:
    """Any sections together, with any text as any version: no rule falls over, every issue has its place."""
    sections = data.draw(st.lists(st.sampled_from(sorted(PROFILE)), unique=True))
    value = json.loads(json.dumps({name: PROFILE[name] for name in sections}))
    value["os"] = data.draw(st.sampled_from(OS_NAMES))
    for part in (part for part in value.values() if isinstance(part, dict)):
        for name in sorted({"version", "nvidiaFs", "flavour", "gpus", "iommu", "headers"} & part.keys()):
            if data.draw(st.booleans()):
                part.pop(name)
            elif name in ("version", "nvidiaFs"):
                part[name] = data.draw(st.from_regex(r"[0-9][0-9.a-z:~+-]{0,12}", fullmatch=True))
            elif name == "gpus" and part is value.get("nvidiaDriver"):
                part[name] = data.draw(st.lists(st.sampled_from(MODELS), max_size=3))
    resource, issues = parse_resource(
        {"apiVersion": "bai/v1", "kind": "NodeProfile", "metadata": {"name": "x"}, "spec": value}
    )
    assert (resource is None) == bool(issues)
    if resource is not None:
        for issue in [*check_document(resource), *warning_rules.document_warnings(resource)]:
            assert issue.at[0] == "spec"
            assert issue.code in CODES
            assert issue.message


def test_every_refusal_is_explained_on_the_page() -> None:
    page = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")
    codes = [code for code in CODES if "BAI-V060" <= code <= "BAI-V079"]
    assert len(codes) == 16
    assert [code for code in codes if code not in page] == []
    shown = page.partition("profiles.yaml:70:34: ")[2].partition("\n")[0]
    case = ROOT / "tests" / "cases" / "schemas" / "profiles-driver" / "expected.txt"
    assert shown in case.read_text(encoding="utf-8")


def test_the_systems_are_those_of_the_roles() -> None:
    assert OS_NAMES == ("debian-12", "ubuntu-22.04", "ubuntu-24.04", "rhel-9")
