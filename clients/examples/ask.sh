#!/usr/bin/env bash
# Asks a question, waits, and prints the answer with its citations, with curl and jq: ask.sh QUESTION [PROJECT]
set -euo pipefail
server=${TREE_AGENT_SERVER:-http://127.0.0.1:7400}/v1
call() { curl --fail-with-body --silent --show-error -H 'content-type: application/json' "$@"; }

asked=$(jq -n --arg objective "$1" --arg project "${2-}" \
    '{objective: $objective} + if $project == "" then {} else {context: {projectIds: [$project]}} end')
run=$(call -d "$asked" "$server/runs" | jq -r .run.runId)
until call "$server/runs/$run:wait?timeout=45s" | jq -e '.reason == "WAIT_REASON_ENDED"' >/dev/null; do :; done
call "$server/runs/$run/result" | jq -r .text
call "$server/runs/$run/citations" | jq -r '.claims[]?.citation | "- \(.sourcePath): \(.quote)"'
