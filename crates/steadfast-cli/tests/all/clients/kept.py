"""A client that keeps its connection: sends its order, and once more when it is told to.

    python3 kept.py requests_client|httpx_client URL KEY FILE

The set-up is that of examples/clients, which has to be on PYTHONPATH.
"""

import importlib
import sys


def main():
    name, url, key, file = sys.argv[1:]
    script = importlib.import_module(name)
    with open(file, "rb") as opened:
        body = opened.read()
    if name == "requests_client":
        client, more = script.session(), [15.0]
    else:
        client, more = script.httpx.Client(timeout=15.0), []
    for _ in range(2):
        answer = script.order(client, url, key, body, *more)
        mark = answer.headers.get("Idempotent-Replayed")
        print(f"{answer.status_code} {mark} {answer.text}", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
