#!/usr/bin/env python3
"""A small service for the tests with real clients. None of steadfast's code runs in it.

    python3 service.py [ADDRESS:PORT]

It does what it is asked and appends each effect to a ledger. A request names in its query how each
attempt under its key ends: `POST /orders?plan=lost,slow` loses the first answer, is slow with the
second, and is well from the third on. Two equal requests are two effects, but below /keyed/ a key
is done once and its later requests get the same answer.

    ok          201
    lost        does it, and closes without an answer
    lost-reset  does it, and resets
    cut         does it, and closes in the middle of the answer's body
    reset       resets with the body unread; nothing is done
    slow        does it, and answers when it is released; not at all once the other side has left
    500         does it, and fails
    503         does nothing; 503-0 and 503-1 with that Retry-After

GET /ledger?key=K says how often K asked, how many are at work, and its effects with their answers.
POST /release?key=K releases slow answers, past and to come. It ends when its standard input does.
"""

import hashlib
import json
import os
import select
import socket
import struct
import sys
import threading
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

lock = threading.Lock()
ledger = []  # effects, in order; never changed, only added to
asked = Counter()
at_work = Counter()
released = defaultdict(threading.Event)


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.key = self.query().get("key", [""])[0]
        with lock:
            mine = [effect for effect in ledger if effect["key"] == self.key]
            told = {"asked": asked[self.key], "at_work": at_work[self.key], "effects": mine}
        self.answer(200, json.dumps(told))

    def do_POST(self):
        if self.path.startswith("/release?"):
            with lock:
                released[self.query()["key"][0]].set()
            return self.answer(200, "{}")
        self.key = self.headers["Idempotency-Key"].strip('"')
        plan = self.query().get("plan", ["ok"])[0].split(",")
        with lock:
            attempt = asked[self.key]
            asked[self.key] += 1
            at_work[self.key] += 1
        try:
            self.play(plan[attempt] if attempt < len(plan) else "ok")
        finally:
            with lock:
                at_work[self.key] -= 1

    def play(self, end):
        if end == "reset":
            return self.reset()
        body = self.body()
        if end.startswith("503"):
            after = {"Retry-After": end[4:]} if "-" in end else {}
            return self.answer(503, '{"error":"busy"}', after)
        effect = self.commit(body)
        if end == "500":
            return self.answer(500, '{"error":"failed"}')
        if end == "lost":
            self.close_connection = True
        elif end == "lost-reset":
            self.reset()
        elif end == "cut":
            self.answer(201, effect["answer"], cut=len(effect["answer"]) // 2)
        elif end == "slow" and not self.until_released():
            self.close_connection = True
        else:
            self.answer(201, effect["answer"], {"Location": f"/orders/{effect['id']}"})

    def commit(self, body):
        order = json.loads(body)["order"]
        digest = hashlib.sha256(body).hexdigest()
        with lock:
            if self.path.startswith("/keyed/"):
                for effect in ledger:
                    if effect["key"] == self.key:
                        return effect
            number = len(ledger) + 1
            answer = json.dumps({"id": number, "order": order, "sha256": digest})
            effect = {"key": self.key, "order": order, "id": number, "answer": answer}
            ledger.append(effect)
        return effect

    def until_released(self):
        """False when the other side left first."""
        while not released[self.key].is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.01)
            if readable and self.connection.recv(1, socket.MSG_PEEK) == b"":
                return False
        return True

    def reset(self):
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def query(self):
        return parse_qs(urlsplit(self.path).query)

    def answer(self, status, text, fields=None, cut=None):
        """Sends an answer; of its body only `cut` bytes where that is given."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:cut])
        self.close_connection |= cut is not None

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a connection that broke is what these tests are about


def main():
    address, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:0").split(":")
    server = Server((address, int(port)), Service)
    print("service: listening on {}:{}".format(*server.server_address), flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
