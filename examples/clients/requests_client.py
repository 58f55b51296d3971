#!/usr/bin/env python3
"""requests with urllib3's Retry: one order under one key, sent again until its answer is there.

    python3 requests_client.py URL KEY FILE [SECONDS]

FILE holds the order as JSON; SECONDS bound each attempt. Prints status, marks and body.
"""

import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

RETRIES = Retry(
    total=4,  # repeats, so at most five attempts
    allowed_methods={"POST"},  # not among urllib3's own: the key is what makes it safe
    status_forcelist=[409, 429, 502, 503, 504],  # 409: it may be still at work
    backoff_factor=0.1,  # Retry-After counts instead where there is one
    raise_on_status=False,  # after the last repeat its answer is given back, as it is
)


def session():
    made = requests.Session()
    for scheme in ("http://", "https://"):
        made.mount(scheme, HTTPAdapter(max_retries=RETRIES))
    return made


def whole(answer):
    """Whether nothing of the answer is missing.

    To urllib3 1.26 a body that broke off is a short body, and to Python's own http.client a head
    that broke off is a whole one; but then it does not say where its body ends.
    """
    length = answer.headers.get("Content-Length")
    if length is None:
        return "Transfer-Encoding" in answer.headers or answer.status_code == 204
    return answer.raw.tell() >= int(length)


def order(client, url, key, body, seconds):
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    for attempt in range(1, RETRIES.total + 2):
        try:
            answer = client.post(url, data=body, headers=headers, timeout=seconds)
            if whole(answer):
                return answer
            print(f"attempt {attempt}: the answer broke off", file=sys.stderr)
        except requests.exceptions.ChunkedEncodingError as error:  # so does urllib3 2 say it
            print(f"attempt {attempt}: {error}", file=sys.stderr)
    sys.exit("no whole answer; the outcome is unknown: keep the key, and send it again later")


def main():
    url, key, file = sys.argv[1:4]
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 15.0
    with open(file, "rb") as opened:
        body = opened.read()
    try:
        answer = order(session(), url, key, body, seconds)
    except requests.exceptions.ConnectionError as error:  # the last repeat failed as well
        sys.exit(f"no answer ({error}); keep the key, and send it again later")
    marks = [answer.headers.get(name, "") for name in ("Idempotent-Replayed", "Steadfast-Effect")]
    print("HTTP {} replayed={} effect={}".format(answer.status_code, *marks))
    print(answer.text, end="")


if __name__ == "__main__":
    main()
