#!/bin/sh
# curl: one order under one key, sent again until its answer is there.
#
#     sh curl_client.sh URL KEY FILE [SECONDS]
#
# FILE holds the order as JSON; SECONDS bound each attempt. Prints status, marks and body.
set -eu
url=$1 key=$2 file=$3 seconds=${4:-15}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
marks='HTTP %{http_code} replayed=%header{idempotent-replayed} effect=%header{steadfast-effect}'
framed='framed=%header{content-length}%header{transfer-encoding}'

# --retry alone repeats time-outs, 408, 429, 500, 502, 503 and 504, after Retry-After where there is
# one. --retry-all-errors adds a connection that broke. Not together with --fail: then every 4xx is
# an error and is repeated, too.
told=$(curl --silent --show-error \
    --retry 4 --retry-all-errors --retry-delay 1 --retry-max-time 120 \
    --connect-timeout 2 --max-time "$seconds" \
    --header "Idempotency-Key: $key" --header 'Content-Type: application/json' \
    --data-binary "@$file" --output "$answer" --write-out "$marks $framed" "$url")

# To curl, an answer whose head broke off is whole. It does not say where its body ends, though.
case $told in
    'HTTP 204 '* | *' framed='?*) printf '%s\n' "${told% framed=*}" && cat "$answer" ;;
    *) echo 'the answer broke off; keep the key, and send it again' >&2 && exit 1 ;;
esac
