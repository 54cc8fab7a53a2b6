#!/usr/bin/env bash
# Every check and test, in one go; never waits for input and always ends. Arguments go to pytest (`scripts/test.sh -k wheel`).
#   BAI_TEST_WORKERS   how many pytest workers (2)
#   BAI_TEST_TIMEOUT   seconds after which everything is stopped (5100)
#   BAI_TEST_INSTALL   0: install no Debian packages that tests need (1)
set -uo pipefail
cd "$(dirname "$0")/.."

if [ -z "${BAI_TEST_LIMITED:-}" ] && command -v timeout >/dev/null 2>&1; then
    export BAI_TEST_LIMITED=1
    exec timeout --signal=TERM --kill-after=30 "${BAI_TEST_TIMEOUT:-5100}" "$0" "$@" </dev/null
fi

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
failed=() passed=() absent=()
export NO_COLOR=1 PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true

check() { # name, command...: runs it, shows its output only when it fails
    local name=$1 started=$SECONDS
    shift
    if timeout 300 "$@" </dev/null >"$logs/out" 2>&1; then
        passed+=("$name")
        printf 'ok      %-34s %3ds\n' "$name" $((SECONDS - started))
    else
        failed+=("$name")
        printf 'FAILED  %-34s %3ds\n' "$name" $((SECONDS - started))
        sed 's/^/        /' "$logs/out"
    fi
}

have() { # program, Debian packages, what it is for
    command -v "$1" >/dev/null 2>&1 && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && [ "${BAI_TEST_INSTALL:-1}" = 1 ]; then
        DEBIAN_FRONTEND=noninteractive
        export DEBIAN_FRONTEND
        [ -e "$logs/updated" ] || timeout 120 apt-get update -qq </dev/null >/dev/null 2>&1
        : >"$logs/updated"
        timeout 240 apt-get install -y -qq --no-install-recommends $2 </dev/null >/dev/null 2>&1
        command -v "$1" >/dev/null 2>&1 && return
    fi
    absent+=("$1 (Debian package $2): $3 is not tested")
}

scripts/setup.sh dev || exit 1
bin=.venv/bin
PATH=$PATH:/usr/sbin:/sbin
have bwrap bubblewrap "that a session sees only its own files"
have cc "gcc libc6-dev" "NVML through a stand-in library"
have docker-registry docker-registry "registries of images"
have curl curl "pushing to registries"
have qemu-system-x86_64 "qemu-system-x86 ipxe-qemu seabios" "other machines: control groups version 2, many NUMA nodes"
have busybox busybox-static "other machines (their root file system)"
have dockerd docker.io "sessions as containers on real engines"
have debootstrap debootstrap "sums over nodes with MPI (their image), provisioning"
have mke2fs e2fsprogs "other machines (their disk)"
have sshd openssh-server "nodes over SSH"
have systemd-nspawn systemd-container "provisioning of booted machines"
have apt-ftparchive apt-utils "provisioning from a repository of packages"
# Its package would make and start a server of its own; ours live as long as their test.
if ! command -v postgres >/dev/null 2>&1 && ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    [ "$(id -u)" != 0 ] || [ -e /etc/postgresql-common ] || { mkdir -p /etc/postgresql-common &&
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf; }
    have pg_ctlcluster postgresql "a store on a PostgreSQL server"
fi
have promtool prometheus "alert rules"
have ssh-keygen openssh-client "nodes over SSH"

check "ruff check" $bin/ruff check .
check "ruff format" $bin/ruff format --check .
check "mypy --strict" $bin/mypy
check "import arrows" $bin/lint-imports --no-logo
check "roles (ansible-lint, production)" env PATH="$PWD/$bin:$PATH" $bin/ansible-lint --nocolor -q roles
check "JSON schemas are fresh" $bin/python -m schemas.json_schema --check
check "arguments of roles are fresh" $bin/python scripts/gen_roles.py --check
check "generated pages are fresh" $bin/python scripts/gen_docs.py --check
check "description of the API is fresh" $bin/python scripts/gen_server.py --check
check "gallery is fresh" $bin/python scripts/gallery.py --check
check "documentation (strict)" $bin/mkdocs build --strict --quiet --site-dir "$logs/site"

# A test against a real engine that fails is tried once more; one that passes only then is named as RERUN. What
# failed both times is tried alone at the end: two tests share these cores with all the engines before that.
tests() { # seconds, options of pytest...
    local seconds=$1
    shift
    timeout --kill-after=20 "$seconds" $bin/python -m pytest -q -o cache_dir="$logs/cache" -rfEsR --timeout 900 "$@" </dev/null 2>&1
}
tests 4200 -n "${BAI_TEST_WORKERS:-2}" --dist loadgroup --reruns 1 "$@" | tee "$logs/pytest"
outcome=${PIPESTATUS[0]}
mapfile -t wrong < <(sed -nE 's/^(FAILED|ERROR) //p' "$logs/pytest" | sed 's/ - .*//' | sort -u)
if [ "$outcome" = 1 ] && [ ${#wrong[@]} -ge 1 ] && [ ${#wrong[@]} -le 5 ]; then
    printf '\nOnce more, alone: what failed both times.\n'
    if tests 600 -p no:xdist --last-failed --last-failed-no-failures none "$@"; then
        outcome=0
        printf 'UNSTABLE: %s\n' "${wrong[@]}"
    fi
fi
[ "$outcome" = 0 ] || failed+=(pytest)

echo
printf 'checks that passed: %s\n' "$(IFS=,; echo "${passed[*]:-none}" | sed 's/,/, /g')"
for reason in "${absent[@]:-}"; do [ -z "$reason" ] || printf 'could not run: %s\n' "$reason"; done
[ ${#failed[@]} = 0 ] || printf 'FAILED: %s\n' "$(IFS=,; echo "${failed[*]}" | sed 's/,/, /g')"
grep -E '^(=+ )?[0-9]+ (passed|failed|skipped|error)' "$logs/pytest" | tail -n 1
[ ${#failed[@]} = 0 ]
