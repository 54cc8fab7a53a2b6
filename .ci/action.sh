#!/bin/sh
# One run in a pipeline: review a pull request, or apply what was merged. Told by DIRECTORY, CLUSTER, MODE,
# BASE, REVIEWED; `bai` is found in $RUNNER_TEMP/bai or on PATH.
set -eu
bai=${RUNNER_TEMP:+$RUNNER_TEMP/bai/bin/}bai
[ -x "$bai" ] || bai=bai
[ -n "${BAI_STATE:-}" ] || unset BAI_STATE
set -- -C "${DIRECTORY:-.}"
[ -z "${CLUSTER:-}" ] || set -- "$@" --cluster "$CLUSTER"
# A checkout of one commit lacks what both sides have in common.
if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
    git fetch --quiet --unshallow
fi
case ${MODE:-review} in
review)
    file=${RUNNER_TEMP:-.}/bai-review.json
    [ -z "${GITHUB_OUTPUT:-}" ] || echo "review=$file" >>"$GITHUB_OUTPUT"
    "$bai" "$@" review --post --out "$file"
    ;;
apply)
    if [ -n "${REVIEWED:-}" ]; then
        "$bai" "$@" apply --yes --base "${BASE:?the commit before the merge}" --reviewed "$REVIEWED"
    else
        "$bai" "$@" apply --yes
    fi
    ;;
*)
    echo "mode is review or apply, not $MODE" >&2
    exit 1
    ;;
esac
