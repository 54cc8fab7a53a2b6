#!/usr/bin/python
"""Ansible module: which full versions of packages the node has and its sources offer. Nothing is changed.

A wanted version is the maker's (`580.95.05`) or the package's (`580.95.05-0ubuntu1`, `3:580.95.05-1.el9`),
null is any. Answers (all by name of package):

  installed  full version of those wanted and of the family, as far as they are installed
  install    full version to install: of what is wanted, and of what the family has in another version
  missing    what is wanted and not offered in that version: the versions that are
  strays     installed and unwanted, or of the family in another version and not offered in the family's
  held       those of `installed` that no upgrade moves (apt)
  pinned     names that the file of pins has a version for (apt)
"""

import fnmatch
import re

from ansible.module_utils.basic import AnsibleModule

DPKG = ["dpkg-query", "-W", "-f", "${db:Status-Want} ${db:Status-Status} ${Package} ${Version}\\n"]
RPM = ["rpm", "-qa", "--qf", "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"]
QUERY = ["dnf", "-q", "--disableplugin=versionlock", "repoquery"]
FORM = ["--qf", "%{name} %{epoch}:%{version}-%{release}\\n"]


def matches(full, wanted):
    """Whether a package's version is the wanted one: epoch and revision may be left out, null is any."""
    if wanted is None or not full:
        return bool(full)
    if full in (wanted, "0:" + wanted):
        return True
    return re.match(r"(\d+:)?" + re.escape(wanted) + r"([-+].*)?\Z", full) is not None


class Apt:
    def __init__(self, module):
        self.module = module

    def installed(self):
        """Name → version, and the names that are held."""
        _, out, _ = self.module.run_command(DPKG, check_rc=True)
        rows = [line.split(" ") for line in out.splitlines()]
        rows = [row for row in rows if len(row) == 4 and row[1] == "installed"]
        return {row[2]: row[3] for row in rows}, {row[2] for row in rows if row[0] == "hold"}

    def offered(self, names):
        """Name → versions, newest first; what is only installed and no source offers is left out."""
        found = {}
        if names:
            _, out, _ = self.module.run_command(["apt-cache", "madison", *sorted(names)])
            for line in out.splitlines():
                cells = [cell.strip() for cell in line.split("|")]
                if len(cells) == 3 and not cells[2].endswith(" Sources"):
                    found.setdefault(cells[0], []).append(cells[1])
        return found


class Dnf:
    def __init__(self, module):
        self.module = module

    def installed(self):
        _, out, _ = self.module.run_command(RPM, check_rc=True)
        rows = [line.split(" ") for line in out.splitlines()]
        return {row[0]: row[1] for row in rows if len(row) == 2}, set()

    def offered(self, names):
        found = {}
        if names:
            _, out, _ = self.module.run_command(QUERY + FORM + sorted(names))
            for line in out.splitlines():
                cells = line.split()
                if len(cells) == 2:
                    found.setdefault(cells[0], []).insert(0, cells[1])
        return found


def among(name, globs):
    return any(fnmatch.fnmatchcase(name, each) for each in globs)


def resolve(manager, given):
    """The module's answer."""
    everything, held = manager.installed()
    aims = {
        name: given["family_version"]
        for name in everything
        if among(name, given["family"]) and not among(name, given["unwanted"])
    }
    aims.update(given["wanted"])
    wrong = [name for name, aim in sorted(aims.items()) if not matches(everything.get(name, ""), aim)]
    offered = manager.offered(set(wrong))
    install, missing = {}, {}
    strays = {
        name: everything[name]
        for name in sorted(set(everything) - set(aims))
        if among(name, given["unwanted"])
    }
    for name in wrong:
        fitting = [each for each in offered.get(name, []) if matches(each, aims[name])]
        if fitting:
            install[name] = fitting[0]
        elif name in given["wanted"]:
            missing[name] = offered.get(name, [])
        else:
            strays[name] = everything[name]
    installed = {name: everything[name] for name in sorted(aims) if name in everything}
    return {
        "installed": installed,
        "install": install,
        "missing": missing,
        "strays": strays,
        "held": sorted(held & set(installed)),
    }


def pinned(path):
    """The packages that the file has a version for; those that it only keeps away are not among them."""
    try:
        with open(path) as file:
            found = re.findall(r"(?m)^Package: ([^ *\n]+)$", file.read())
    except FileNotFoundError:  # as on a fresh host
        return []
    return sorted(set(found))


def main():
    module = AnsibleModule(
        argument_spec={
            "manager": {"type": "str", "choices": ["apt", "dnf"], "required": True},
            "wanted": {"type": "dict", "required": True},
            "family": {"type": "list", "elements": "str", "default": []},
            "unwanted": {"type": "list", "elements": "str", "default": []},
            "family_version": {"type": "str"},
            "pins": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    manager = {"apt": Apt, "dnf": Dnf}[module.params["manager"]](module)
    found = resolve(manager, module.params)
    found["pinned"] = pinned(module.params["pins"]) if module.params["manager"] == "apt" else []
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
