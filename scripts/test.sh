#!/usr/bin/env bash
# Every check and test that this machine can run, in one go; never waits for input and always ends. What it lacks is
# named at the end. Arguments go to pytest (`scripts/test.sh -k wheel`).
#   --quick            only what needs no root, no engine and no node, and no checks
#   --campaigns        only what chance decides, many times over: fuzzing, simulated lives
#   BAI_TEST_WORKERS   how many pytest workers (three for each core, and three for two in the quick part)
#   BAI_TEST_TIMEOUT   seconds after which the tests are stopped (5100)
#   BAI_TEST_INSTALL   0: install no Debian packages that tests need (1)
#   BAI_ADVISORIES     folder of OSV records to look for advisories in, or osv.dev, which is asked then
#   BAI_TEST_LEVEL     newest: with the newest of everything in place of what is locked (dev)
set -uo pipefail
cd "$(dirname "$0")/.."

limit=${BAI_TEST_TIMEOUT:-5100}
if [ -z "${BAI_TEST_LIMITED:-}" ] && command -v timeout >/dev/null 2>&1; then
    export BAI_TEST_LIMITED=1
    exec timeout --signal=TERM --kill-after=30 $((limit + 60)) "$0" "$@" </dev/null
fi

part=
case ${1:-} in
--quick | --campaigns)
    part=${1#--}
    shift
    ;;
esac
logs=$(mktemp -d)
builder=
ended() {
    [ -z "$builder" ] || kill -- "-$builder" 2>/dev/null
    rm -rf "$logs"
}
trap ended EXIT
failed=() passed=() absent=() packages=()
export NO_COLOR=1 NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
unset PYTHONDONTWRITEBYTECODE # each `bai` would compile all of it anew, which is half of what it takes

checks=() running=() # names, in the order in which they are told, and their processes
check() { # name, command...: begins it when a core is free
    local file="$logs/check-${#checks[@]}"
    checks+=("$1")
    shift
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    {
        local started=$SECONDS
        timeout 1200 "$@" </dev/null >"$file" 2>&1
        echo "$? $((SECONDS - started))" >"$file.ended"
    } &
    running+=($!)
}

checked() { # waits for them, one after the other; shows the output of those that failed
    local number name outcome seconds
    for number in "${!checks[@]}"; do
        name=${checks[number]}
        wait "${running[number]}"
        read -r outcome seconds <"$logs/check-$number.ended"
        case $outcome in
        0)
            passed+=("$name")
            printf 'ok      %-34s %3ds\n' "$name" "$seconds"
            ;;
        77) # what it would look at is not to be had
            absent+=("$name: $(tail -n 1 "$logs/check-$number")")
            printf 'skipped %-34s %3ds\n' "$name" "$seconds"
            ;;
        *)
            failed+=("$name")
            printf 'FAILED  %-34s %3ds\n' "$name" "$seconds"
            sed 's/^/        /' "$logs/check-$number"
            ;;
        esac
    done
}

listed() {
    local text
    printf -v text '%s, ' "$@"
    printf '%s' "${text%, }"
}

wanted=() # "program|Debian packages|what it is for"; of programs for one purpose (a/b) the first is installed
have() {
    packages+=($2)
    wanted+=("$1|$2|$3")
}

there() { command -v "$1" >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/"$1" >/dev/null 2>&1; }

any_there() {
    local each
    for each in ${1//\// }; do there "$each" && return; done
    return 1
}

install_wanted() { # all at once, where that may be done; what is missing in the end is named
    local each program missing=()
    for each in "${wanted[@]}"; do
        program=${each%%|*}
        there "${program%%/*}" || missing+=($(cut -d'|' -f2 <<<"$each"))
    done
    if [ ${#missing[@]} != 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 &&
        [ "${BAI_TEST_INSTALL:-1}" = 1 ]; then
        export DEBIAN_FRONTEND=noninteractive
        timeout 120 apt-get update -qq </dev/null >/dev/null 2>&1
        timeout 600 apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null 2>&1 ||
            for each in "${missing[@]}"; do # one that is not to be had keeps no other away
                timeout 240 apt-get install -y -qq --no-install-recommends "$each" </dev/null >/dev/null 2>&1
            done
    fi
    for each in "${wanted[@]}"; do
        IFS='|' read -r program packages_of reason <<<"$each"
        any_there "$program" || absent+=("$program (Debian package $packages_of): $reason is not tested")
    done
}

# Tests of a real engine wait for it now and then, quick ones for their processes: others compute meanwhile.
tests() { # name, workers for each two cores, options of pytest...
    local name=$1 workers=${BAI_TEST_WORKERS:-$((($(nproc) * $2 + 1) / 2))}
    shift 2
    # Interrupted, pytest still says what failed until then.
    timeout --signal=INT --kill-after=20 $((limit - SECONDS)) $bin/python -m pytest -q -o cache_dir="$logs/cache" \
        -rfEs --timeout 900 -n "$workers" --dist loadgroup "$@" </dev/null 2>&1 | tee "$logs/pytest-$name"
    local outcome=${PIPESTATUS[0]}
    case $outcome in
    0 | 5) ;; # No test is of that part, and so none of it failed: 5 is pytest's word for that.
    124 | 137)
        echo "stopped: $limit seconds are over (BAI_TEST_TIMEOUT)"
        failed+=("$name")
        ;;
    *) failed+=("$name") ;;
    esac
    return "$outcome"
}

level=${BAI_TEST_LEVEL:-dev}
scripts/setup.sh "$level" || exit 1
bin=.venv/bin
[ "$level" = dev ] || bin=.venv-$level/bin
PATH=$PATH:/usr/sbin:/sbin
case $part in
quick) tests quick 3 -m "not real" "$@"; exit ;;
campaigns) tests campaigns 2 -m campaign "$@"; exit ;;
esac
have bwrap bubblewrap "that a session sees only its own files"
have cc "gcc libc6-dev" "NVML through a stand-in library"
have docker-registry docker-registry "registries of images"
have curl curl "pushing to registries"
have qemu-system-x86_64 "qemu-system-x86 ipxe-qemu seabios" "other machines: control groups version 2, many NUMA nodes"
have busybox busybox-static "other machines (their root file system)"
have dockerd docker.io "sessions as containers on real engines"
have mmdebstrap mmdebstrap "sums over nodes with MPI (their image), provisioning"
have mke2fs e2fsprogs "other machines (their disk)"
have sshd openssh-server "nodes over SSH"
have systemd-nspawn systemd-container "provisioning of booted machines"
have apt-ftparchive apt-utils "provisioning from a repository of packages"
have postgres postgresql "a store on a PostgreSQL server"
have promtool prometheus "alert rules"
have ssh-keygen openssh-client "nodes over SSH, signed commits"
have gpg gnupg "signed commits"
have chromium-headless-shell/chromium chromium-headless-shell "pages in a real browser"
# PostgreSQL's package would make and start a server of its own; ours live as long as their test.
if ! there postgres && [ "$(id -u)" = 0 ] && [ ! -e /etc/postgresql-common ]; then
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
fi
install_wanted

# A machine that has not built it yet computes for ten minutes and more: tests that need it wait for it then.
if [ $# = 0 ] && [ "$(id -u)" = 0 ]; then
    setsid $bin/python -m tests.lab.kubernetes.build </dev/null >"$logs/kubernetes" 2>&1 &
    builder=$!
    disown
fi

# The longest first. Compiled by one process, tests are not compiled by each worker.
check "tests can be imported" $bin/python -m pytest -q -p no:cacheprovider --collect-only
check "roles (ansible-lint, production)" env PATH="$PWD/$bin:$PATH" $bin/ansible-lint --nocolor -q roles
check "mypy --strict" $bin/mypy
check "generated pages are fresh" $bin/python scripts/gen_docs.py --check
check "documentation (strict)" $bin/mkdocs build --strict --site-dir "$logs/site"
check "ruff check" $bin/ruff check .
check "ruff format" $bin/ruff format --check .
check "import arrows" $bin/lint-imports --no-logo
check "JSON schemas are fresh" $bin/python -m schemas.loading.json_schema --check
check "arguments of roles are fresh" $bin/python scripts/gen_roles.py --check
check "description of the API is fresh" $bin/python scripts/gen_server.py --check
check "gallery is fresh" $bin/python scripts/gallery.py --check
check "advisories of what is locked" $bin/python scripts/advisories.py
checked

# A broken build fails in the first minutes.
if tests quick 3 -m "not real" "$@" || [ $? = 5 ]; then
    tests real 6 -m "real and not campaign" "$@"
fi

echo
printf 'checks that passed: %s\n' "$(listed "${passed[@]:-none}")"
for reason in "${absent[@]:-}"; do [ -z "$reason" ] || printf 'could not run: %s\n' "$reason"; done
if [ ${#failed[@]} != 0 ]; then
    printf 'FAILED: %s\n' "$(listed "${failed[@]}")"
    command -v dpkg-query >/dev/null 2>&1 && dpkg-query -W -f 'with: ${Package} ${Version}\n' "${packages[@]}" 2>/dev/null
fi
# The closing lines of both parts, as one.
cat "$logs"/pytest-* | awk '
    / in [0-9.]+s/ && /(passed|failed|skipped|error|deselected|no tests ran)/ {
        for (i = 1; i < NF; i++) if ($i ~ /^[0-9]+$/) { name = $(i + 1); gsub(/[^a-z]/, "", name); sum[name] += $i }
    }
    END { printf "%d passed, %d failed, %d skipped\n", sum["passed"], sum["failed"] + sum["error"] + sum["errors"], sum["skipped"] }'
[ ${#failed[@]} = 0 ]
