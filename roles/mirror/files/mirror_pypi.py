#!/usr/bin/env python3
"""mirror-pypi FILES INDEX: writes the simple index (PEP 503) of a folder of wheels and source archives, whose
files are served at ../../files. Names each project whose page changed."""

import hashlib
import html
import pathlib
import re
import sys
import urllib.parse

PAGE = (
    '<!DOCTYPE html>\n<html><head><meta name="pypi:repository-version" content="1.0">'
    "<title>{}</title></head><body>\n{}</body></html>\n"
)


def project(name):
    """The normalised name of a file's project; empty for files that are no packages."""
    wheel = re.match(r"([^-]+)-[^-]+(-[^-]+)?-[^-]+-[^-]+-[^-]+\.whl$", name)
    archive = re.match(r"(.+)-[0-9][^-]*\.(tar\.gz|zip)$", name)
    found = wheel or archive
    return re.sub(r"[-_.]+", "-", found.group(1)).lower() if found else ""


def digest(path):
    with path.open("rb") as file:
        found = hashlib.sha256()
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def write(path, title, links):
    """Whether the page changed."""
    lines = "".join('<a href="{}">{}</a><br>\n'.format(*link) for link in links)
    text = PAGE.format(html.escape(title), lines)
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def main(files, index):
    projects = {}
    for path in sorted(pathlib.Path(files).iterdir()):
        if path.is_file() and project(path.name):
            projects.setdefault(project(path.name), []).append(path)
    index = pathlib.Path(index)
    for name, paths in projects.items():
        links = [
            (f"../../files/{urllib.parse.quote(path.name)}#sha256={digest(path)}", html.escape(path.name))
            for path in paths
        ]
        if write(index / name / "index.html", name, links):
            print(name)
    if write(index / "index.html", "Packages", [(f"{name}/", name) for name in sorted(projects)]):
        print("index")


if __name__ == "__main__":
    main(*sys.argv[1:])
