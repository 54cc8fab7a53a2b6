"""Writes what follows from the models of a profile's sections into roles/: argument specs, defaults, and the
table of variables in each README; the units of deploy/systemd from the one of the role control_plane; and the
configuration of Caddy in the role app_proxy.
`--check` only says what is not fresh."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml
from doc_text import escaped

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bai.web.apps.proxy.certificates import (  # noqa: E402
    AcmeCertificates,
    CertificateFiles,
    Certificates,
    InternalCertificates,
)
from bai.web.apps.proxy.node_config import NodeConfig, node_caddy_config  # noqa: E402
from schemas.profile import ROLES  # noqa: E402
from schemas.profile.arguments import RoleArgument, arguments_of, section_models  # noqa: E402
from schemas.profile.roles.control_plane import ApiService, BaiService  # noqa: E402

MADE = (
    "# Written by scripts/gen_roles.py from schemas/profile/roles/{role}.py; change that, then "
    "`make generate`.\n"
)
BEGIN, END = "<!-- variables -->", "<!-- /variables -->"
_TABLE = re.compile(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


class _Dumper(yaml.SafeDumper):
    """Indents lists inside of mappings, as ansible-lint asks for."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _yaml(role: str, value: Any) -> str:
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return "---\n" + MADE.format(role=role) + text


def specs(role: str) -> str:
    """meta/argument_specs.yml."""
    section = section_models()[role]
    entry = {
        "short_description": _sentence(section.__doc__),
        "description": [_sentence(section.__doc__)],
        "options": {one.name: _option(one) for one in arguments_of(role)},
    }
    return _yaml(role, {"argument_specs": {"main": entry}})


def _option(argument: RoleArgument) -> dict[str, Any]:
    made: dict[str, Any] = {"type": argument.type}
    if argument.elements:
        made["elements"] = argument.elements
    if argument.required:
        made["required"] = True
    if argument.secret:
        made["no_log"] = True
    if argument.choices:
        made["choices"] = list(argument.choices)
    if argument.default is not None:
        made["default"] = argument.default
    text = _described(argument)
    if text:
        made["description"] = [text]
    if argument.keys:
        made["options"] = {key.name: _option(key) for key in argument.keys}
    return made


def defaults(role: str) -> str:
    """defaults/main.yml: everything that may be left out."""
    return _yaml(role, {one.name: one.default for one in arguments_of(role) if not one.required})


def table(role: str) -> str:
    """The table of the README, keys inside of variables below these."""
    rows = [
        f"| `{name}` | {_type(one)} | {_default(one)} | {escaped(_described(one))} |"
        for name, one in _rows("", arguments_of(role))
    ]
    head = ["| variable | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([BEGIN, *head, *rows, END])


def _rows(above: str, arguments: tuple[RoleArgument, ...]) -> Iterator[tuple[str, RoleArgument]]:
    for one in arguments:
        yield above + one.name, one
        yield from _rows(f"{above}{one.name}{'[]' if one.elements else ''}.", one.keys)


def _type(one: RoleArgument) -> str:
    if one.choices:
        names = " \\| ".join(f"`{choice}`" for choice in one.choices if choice is not None)
        return f"list of {names}" if one.elements else names
    return f"list of {one.elements}" if one.elements else one.type


def _default(one: RoleArgument) -> str:
    if one.required:
        return "(required)"
    return "" if one.default is None else f"`{json.dumps(one.default, ensure_ascii=False)}`"


def _described(one: RoleArgument) -> str:
    text = _sentence(one.description) if one.description else ""
    return " ".join(part for part in (text, f"In {one.unit}." if one.unit else "") if part)


def _sentence(text: str | None) -> str:
    text = " ".join((text or "").split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def readme(role: str, there: str) -> str:
    """The README as it is, with the table brought up to date."""
    if not there:
        there = f"# {role}\n\n{_sentence(section_models()[role].__doc__)}\n\n## Variables\n\n{BEGIN}{END}\n"
    if not _TABLE.search(there):
        there = f"{there.rstrip()}\n\n## Variables\n\n{BEGIN}{END}\n"
    return _TABLE.sub(lambda _: table(role), there, count=1)


def units() -> dict[str, str]:
    """Units of deploy/systemd by name: the role's, as Ansible renders it, with every default."""
    folder = ROOT / "roles" / "control_plane" / "templates"
    loader = jinja2.FileSystemLoader(folder)
    environment = jinja2.Environment(loader=loader, trim_blocks=True, keep_trailing_newline=True)
    template = environment.get_template("bai.service.j2")
    found = {}
    for name, api in (("bai-reconcile", None), ("bai-serve", ApiService())):
        service = BaiService(version="0", repository="-", api=api)
        found[f"{name}.service"] = template.render(control_plane_bai=service, control_plane_postgresql=None)
    return found


def caddy_template() -> str:
    """roles/app_proxy/templates/caddy.json.j2: a whole configuration for each way to have certificates."""
    credentials = Path("/run/credentials/bai-apps.service")
    permission = "127.0.0.1:{{ app_proxy_permission_port }}"
    ways: dict[str, Certificates | None] = {
        "acme": AcmeCertificates("@EMAIL@", f"http://{permission}/certificate", 443),
        "files": CertificateFiles(credentials / "certificate", credentials / "key"),
        "internal": InternalCertificates(),
        "off": None,
    }
    texts = []
    for way, certificates in ways.items():
        asked = permission if way == "acme" else ""
        config = NodeConfig("@LISTEN@", "https://*.@DOMAIN@", certificates, Path("/var/lib/bai-apps"), asked)
        text = json.dumps(node_caddy_config(config), indent=1, ensure_ascii=False)
        if re.search(r"{[%#]", text) or "{{" in text.replace("{{ app_proxy_permission_port }}", ""):
            raise ValueError("Caddy's configuration reads as a template")
        texts.append(f"{{% {'el' if texts else ''}if app_proxy_tls == '{way}' %}}\n{text}\n")
    return _with_variables("".join([*texts, "{% endif %}\n"]))


def _with_variables(text: str) -> str:
    for name, variable in (
        ('"@EMAIL@"', "{{ app_proxy_email | default('', true) | to_json }}"),
        ("@LISTEN@", "{{ app_proxy_address }}"),
        ("@DOMAIN@", "{{ app_proxy_domain }}"),
        ('"alternate_port": 443', '"alternate_port": {{ app_proxy_port }}'),
    ):
        if name not in text:
            raise ValueError(f"Caddy's configuration has no {name}")
        text = text.replace(name, variable)
    return text


def files(root: Path) -> dict[Path, str]:
    """Every generated file below the repository's root, as it should be."""
    found = {root / "deploy" / "systemd" / name: text for name, text in units().items()}
    found[root / "roles" / "app_proxy" / "templates" / "caddy.json.j2"] = caddy_template()
    for role in ROLES:
        here = root / "roles" / role
        path = here / "README.md"
        found[here / "meta" / "argument_specs.yml"] = specs(role)
        found[here / "defaults" / "main.yml"] = defaults(role)
        found[path] = readme(role, path.read_text(encoding="utf-8") if path.exists() else "")
    return found


def stale(wanted: Mapping[Path, str]) -> list[Path]:
    """The files that are missing or different."""
    return [
        path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    wanted = files(ROOT)
    old = stale(wanted)
    if "--check" in arguments:
        names = ", ".join(str(path.relative_to(ROOT)) for path in old)
        print(
            f"not up to date: {names}; run `make generate`"
            if old
            else "what follows from the models of roles is fresh"
        )
        return 1 if old else 0
    for path in old:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
