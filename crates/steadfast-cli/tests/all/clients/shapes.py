"""Sends one order in a body without a length.

    python3 shapes.py requests|httpx URL KEY FILE
"""

import sys


def main():
    library, url, key, file = sys.argv[1:]
    headers = {"idempotency-KEY": key, "Content-Type": "application/json"}

    def pieces():
        with open(file, "rb") as opened:
            while piece := opened.read(50_000):
                yield piece

    if library == "requests":
        import requests

        answer = requests.post(url, data=pieces(), headers=headers, timeout=30)
    else:
        import httpx

        answer = httpx.post(url, content=pieces(), headers=headers, timeout=30)
    print(answer.text, answer.status_code, answer.headers.get("Idempotent-Replayed", ""))


if __name__ == "__main__":
    main()
