#!/bin/sh
# Makes .venv with everything that bai needs ("run"), `bai serve` as well ("server") or its development needs too
# ("dev"), in the versions that requirements/LEVEL.txt names, with their hashes. "newest" makes .venv-newest with the newest of everything.
# Does nothing, fast, when nothing changed. BAI_PYTHON names the interpreter to use.
set -eu
cd "$(dirname "$0")/.."
level=${1:-dev}
venv=.venv
[ "$level" != newest ] || venv=.venv-newest
stamp=$venv/.bai-setup

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for candidate in ${BAI_PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 python \
        /usr/bin/python3 /usr/local/bin/python3; do
        if command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate"; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    die "Python 3.11 or newer is needed and none was found; name one with BAI_PYTHON=/path/to/python3"
}

# --- virtual environment, whatever this machine's Python is missing -----------------------------------------------

working() { "$venv/bin/python" -m pip --version >/dev/null 2>&1 && new_enough "$venv/bin/python"; }

apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    timeout 300 apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null 2>&1 && return
    timeout 300 apt-get update -qq </dev/null >/dev/null 2>&1 || return 1
    timeout 300 apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null 2>&1
}

by_venv() { rm -rf "$venv"; "$1" -m venv "$venv" >/dev/null 2>&1 && working; }

by_debian_package() {
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    apt_install "python$version-venv" || apt_install python3-venv || return 1
    by_venv "$1"
}

# What makes an environment is locked, too: its lines of the lock, in a file of its own.
locked() {
    lines=$1
    shift
    for name in "$@"; do
        sed -n "/^$name==/,/[^\\]\$/p" requirements/dev.txt
    done >"$lines"
}

# A pip from anywhere, run from outside, fills an environment that was made without one.
pip_wheel() {
    for wheel in /usr/share/python-wheels/pip-*.whl; do
        [ -e "$wheel" ] && { echo "$wheel"; return; }
    done
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || return 1
    (cd "$venv" && timeout 120 apt-get download -qq python3-pip-whl </dev/null >/dev/null 2>&1 &&
        dpkg-deb -x python3-pip-whl*.deb wheels) || return 1
    ls "$venv"/wheels/usr/share/python-wheels/pip-*.whl
}

by_foreign_pip() {
    rm -rf "$venv"
    "$1" -m venv --without-pip "$venv" >/dev/null 2>&1 || return 1
    locked "$venv/pip.txt" pip || return 1
    "$1" -m pip --python "$venv/bin/python" install -q --require-hashes -r "$venv/pip.txt" \
        </dev/null >/dev/null 2>&1 && working && return
    wheel=$(pip_wheel) || return 1
    "$venv/bin/python" "$wheel/pip" install -q --require-hashes -r "$venv/pip.txt" </dev/null >/dev/null 2>&1 &&
        working
}

by_uv() {
    rm -rf "$venv"
    uv venv -q -p "$1" "$venv" >/dev/null 2>&1 || return 1
    locked "$venv/pip.txt" pip || return 1
    uv pip install -q --python "$venv/bin/python" --require-hashes -r "$venv/pip.txt" </dev/null >/dev/null 2>&1 &&
        working
}

by_virtualenv() {
    rm -rf "$venv"
    "$1" -m virtualenv -q "$venv" >/dev/null 2>&1 && working && return
    virtualenv -q -p "$1" "$venv" >/dev/null 2>&1 && working && return
    tools=$(mktemp -d) || return 1
    locked "$tools/lock.txt" virtualenv distlib filelock packaging platformdirs python-discovery &&
        "$1" -m pip install -q --target "$tools" --require-hashes -r "$tools/lock.txt" </dev/null >/dev/null 2>&1 &&
        PYTHONPATH=$tools "$1" -m virtualenv -q "$venv" >/dev/null 2>&1
    rm -rf "$tools"
    working
}

make_venv() {
    for way in by_venv by_debian_package by_foreign_pip by_uv by_virtualenv; do
        "$way" "$1" && return
    done
    rm -rf "$venv"
    die "$1 can make no virtual environment (no ensurepip, pip, virtualenv or uv); install one of them" \
        "(Debian and Ubuntu: apt-get install python3-venv)"
}

# --- what to install, only when it changed ------------------------------------------------------------------------

# Of "newest", a day's old is new enough.
fingerprint() {
    { cat pyproject.toml scripts/setup.sh requirements/*.txt; [ "$level" != newest ] || date +%F; } |
        cksum | cut -d' ' -f1,2 | tr ' ' -
}

wanted="$(fingerprint) $level"
ready() {
    [ -x "$venv/bin/python" ] && [ -f "$stamp" ] || return 1
    made="$(cat "$stamp")"
    [ "$made" = "$wanted" ] || [ "$made" = "$(fingerprint) dev" ] ||
        { [ "$level" = run ] && [ "$made" = "$(fingerprint) server" ]; }
}

# Who sits at a terminal sees how far it is.
quiet=-q
[ ! -t 2 ] || quiet=

pip() { "$venv/bin/python" -m pip "$@" $quiet --disable-pip-version-check --no-input </dev/null >&2; }

uv_install() {
    set -- "$venv/bin/uv" pip install $quiet --python "$venv/bin/python" --require-hashes -r "$1"
    if [ -n "$quiet" ]; then "$@" </dev/null >/dev/null 2>&1; else "$@" </dev/null >&2; fi
}

# uv installs several times as fast; where it finds no index (pip may be set up for one of its own), pip does.
install() {
    lock=$1
    locked "$venv/uv.txt" uv
    if pip install --require-hashes -r "$venv/uv.txt" >/dev/null 2>&1; then
        uv_install "$lock" && return
    fi
    # Older ones do not take a locked package for one that is wanted with an extra of it.
    locked "$venv/pip.txt" pip
    pip install --require-hashes -r "$venv/pip.txt" && pip install --require-hashes -r "$lock"
}

ready && exit 0
if command -v flock >/dev/null 2>&1; then
    exec 9>"$venv.lock"
    flock 9
    ready && exit 0
fi

if [ ! -x "$venv/bin/python" ] || ! working; then
    python=$(find_python)
    say "making $venv with $python"
    make_venv "$python"
fi
lock=requirements/$level.txt
[ "$level" != newest ] || lock=requirements/dev.txt
count=$(grep -c == "$lock")
case $level in run) for= ;; server) for=' to serve pages' ;; *) for=' for development' ;; esac
say "installing bai and the $count packages that it needs$for into $venv"
failed() { die "the packages could not be installed; see the message above (is a package index reachable?)"; }
if [ "$level" = newest ]; then
    pip install --upgrade --upgrade-strategy eager -e '.[dev,docs]' || failed
else
    install "$lock" || failed
    pip install --no-deps --no-build-isolation -e . || failed
fi
echo "$wanted" >"$stamp"
