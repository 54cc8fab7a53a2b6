# What is run for whoever logs in by SSH: their command, in the environment of the container's own.

# The first process' variables as shell code; a line break inside a value stands as \001 on the way.
variables() {
    tr '\n\0' '\001\n' </proc/1/environ 2>/dev/null |
        grep '^[A-Za-z_][A-Za-z0-9_]*=' |
        sed "s/'/'\\\\''/g; s/=/='/; s/\$/'/; s/^/export /" |
        tr '\001' '\n'
}

eval "$(variables
    printf "TERM='%s'\n" "${TERM:-dumb}")"
if [ -r /run/bai/secrets ]; then
    . /run/bai/secrets
fi
if [ -z "$SSH_ORIGINAL_COMMAND" ]; then
    exec "${SHELL:-/bin/sh}" -l
fi
case $SSH_ORIGINAL_COMMAND in
    internal-sftp*)
        for found in /usr/lib/openssh /usr/lib/ssh /usr/libexec/openssh /usr/libexec; do
            if [ -x "$found/sftp-server" ]; then
                exec "$found/sftp-server"
            fi
        done
        echo "bai: the image has no sftp-server" >&2
        exit 127
        ;;
esac
exec "${SHELL:-/bin/sh}" -c "$SSH_ORIGINAL_COMMAND"
