#!/usr/bin/env python3
"""An ordinary order service, for trying steadfast out. None of steadfast's code runs in it.

    python3 examples/orders.py [PORT] [SECONDS]

POST /orders takes a JSON body, appends it to a list in memory and answers 201 with its number.
POST /orders?lose does the same and then loses its answer: the order is in the list, and the
connection is closed without a word.
GET  /orders answers how many there are, and all of them.
SECONDS (default 0) is how long an order takes: the order is in the list at once, its answer comes
later. That is where a client gives up, tries again, and orders twice.

It repeats what it is told: two equal requests are two orders, like in most services.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGEST_BODY = 1 << 20  # bytes; an order is small, and memory is not endless

orders = []
lock = threading.Lock()


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seconds = 0.0

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > LARGEST_BODY:
            self.close_connection = True
            return self.answer(411, {"error": "send a Content-Length of at most 1 MiB"})
        body = self.rfile.read(int(length))
        if self.path not in ("/orders", "/orders?lose"):
            return self.answer(404, {"error": "post to /orders"})
        try:
            order = json.loads(body)
        except ValueError:
            return self.answer(400, {"error": "the body must be JSON"})
        with lock:
            orders.append(order)
            number = len(orders)
        if self.path == "/orders?lose":
            self.close_connection = True
            return
        threading.Event().wait(self.seconds)
        self.answer(201, {"id": number, "order": order})

    def do_GET(self):
        if self.path != "/orders":
            return self.answer(404, {"error": "get /orders"})
        with lock:
            self.answer(200, {"count": len(orders), "orders": orders})

    def answer(self, status, value):
        body = (json.dumps(value) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    Orders.seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    server = ThreadingHTTPServer(("127.0.0.1", port), Orders)
    print(f"orders: listening on http://127.0.0.1:{port}/orders", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
