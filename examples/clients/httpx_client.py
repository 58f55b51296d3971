#!/usr/bin/env python3
"""httpx with a loop of one's own: one order under one key, sent again until its answer is there.

    python3 httpx_client.py URL KEY FILE [SECONDS]

FILE holds the order as JSON; SECONDS bound each phase of an attempt. Prints status, marks and body.
"""

import random
import sys
import time

import httpx

ATTEMPTS = 5


def again(answer):
    """Whether the same thing again, under the same key, is sensible."""
    if answer.headers.get("Content-Type", "").startswith("application/problem+json"):
        return answer.json().get("retryable") is True  # the gateway says it itself
    return answer.status_code in (429, 502, 503, 504)


def pause(attempt, answer):
    after = answer.headers.get("Retry-After", "") if answer is not None else ""
    if after.isascii() and after.isdigit():
        return float(after)
    return random.uniform(0.0, 0.2 * 2**attempt)


def order(client, url, key, body):
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    for attempt in range(1, ATTEMPTS + 1):
        answer = None
        try:
            answer = client.post(url, content=body, headers=headers)
            if not again(answer):
                return answer
        except httpx.TransportError as error:  # time-out, reset, an answer that broke off
            print(f"attempt {attempt}: {error!r}", file=sys.stderr)
        if attempt < ATTEMPTS:
            time.sleep(pause(attempt, answer))
    return answer or sys.exit("no answer; keep the key, and send it again later")


def main():
    url, key, file = sys.argv[1:4]
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 15.0
    with open(file, "rb") as opened:
        body = opened.read()
    # These retries are for connecting only: where nothing was sent, nothing can have happened.
    transport = httpx.HTTPTransport(retries=2)
    with httpx.Client(transport=transport, timeout=seconds) as client:
        answer = order(client, url, key, body)
    marks = [answer.headers.get(name, "") for name in ("Idempotent-Replayed", "Steadfast-Effect")]
    print("HTTP {} replayed={} effect={}".format(answer.status_code, *marks))
    print(answer.text, end="")


if __name__ == "__main__":
    main()
