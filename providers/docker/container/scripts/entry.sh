# What a container runs before its own command ("$@"), which it then becomes.
# Plain POSIX shell; besides a shell it uses what the image has, and does without what it has not.

# Before all else: a container's first process hears only the signals that it asks for. They are the command's
# own again when it begins.
trap '[ -z "$!" ] || kill "$!" 2>/dev/null; exit 143' TERM
trap '[ -z "$!" ] || kill "$!" 2>/dev/null; exit 130' INT

if [ -r /run/bai/secrets ]; then
    . /run/bai/secrets
fi

has() { command -v "$1" >/dev/null 2>&1; }

say() { echo "bai: $*" >&2; }

# Peers

in_hosts() {
    while read -r _ names; do
        for name in $names; do
            if [ "$name" = "$1" ]; then
                return 0
            fi
        done
    done </etc/hosts
    return 1
}

resolves() {
    if in_hosts "$1"; then
        return 0
    elif has getent; then
        getent hosts "$1" >/dev/null 2>&1
    elif has nslookup; then
        nslookup "$1" >/dev/null 2>&1
    fi
}

# wait_for TRIES COMMAND...: until it succeeds, a tenth of a second between tries.
wait_for() {
    left=$1
    shift
    until "$@"; do
        left=$((left - 1))
        if [ "$left" -le 0 ]; then
            return 1
        fi
        sleep 0.1 2>/dev/null || sleep 1
    done
}

wait_for_names() {
    while read -r peer; do
        wait_for "${BAI_PEERS_WAIT:-6000}" resolves "$peer" || say "$peer has no address yet, going on without it"
    done </run/bai/peers
}

# SSH

server() {
    for found in /usr/sbin/sshd /usr/local/sbin/sshd /sbin/sshd; do
        if [ -x "$found" ]; then
            echo "$found"
            return
        fi
    done
    command -v sshd
}

serve() {
    sshd=$(server) || return 1
    if [ "$(id -u)" = 0 ]; then
        mkdir -p /run/sshd
    fi 2>/dev/null
    why=$("$sshd" -f /run/bai/ssh/sshd_config 2>&1) || say "sshd does not start: $why"
}

# include FILE: let this file of settings for ssh know the session's hosts.
include() {
    line="Include /run/bai/ssh/config"
    if grep -qsF "$line" "$1"; then
        return 0
    fi
    old=$(cat "$1" 2>/dev/null)
    { printf '%s\n\n%s\n' "$line" "$old" >"$1"; } 2>/dev/null
}

# The system's settings where we may, else the user's own.
client() {
    if [ -w /etc/ssh ] && include /etc/ssh/ssh_config; then
        return
    fi
    folder=${HOME:-/root}/.ssh
    if [ -d "$folder" ] || { mkdir "$folder" && chmod 700 "$folder"; } 2>/dev/null; then
        include "$folder/config" && chmod 600 "$folder/config" 2>/dev/null
    fi
}

logs_in() { ssh -F /run/bai/ssh/config -o BatchMode=yes -o ConnectTimeout=2 "$1" true </dev/null >/dev/null 2>&1; }

# A launcher in the main container reaches everybody from its first moment on.
wait_for_servers() {
    while read -r peer; do
        if [ "$peer" != "$BACKENDAI_CLUSTER_HOST" ]; then
            { wait_for "${BAI_SSH_WAIT:-300}" logs_in "$peer" || say "$peer does not answer by SSH yet, going on without it"; } &
        fi
    done </run/bai/peers
    wait
}

together() {
    if has ssh; then
        client
    fi
    if serve && has ssh; then
        wait_for_names
        if [ "$BACKENDAI_CLUSTER_ROLE" = main ]; then
            wait_for_servers
        fi
    else
        wait_for_names
    fi
}

if [ -r /run/bai/peers ]; then
    # Not in this shell, so that it hears signals and keeps the command's variables as they are.
    (together) </dev/null &
    wait $!
fi

if [ "$#" -eq 0 ]; then
    say "there is no command, and the image names none"
    exit 127
fi
exec "$@"
