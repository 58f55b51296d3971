#!/usr/bin/env python3
"""The record of a keyed request in the service's own database.

Key, effect and answer are written in one transaction, so that no moment exists in which one of them
stands without the others. None of steadfast's code runs in it. docs/limits.md explains it.

    python3 examples/own_database.py order  DATABASE TENANT KEY ITEM
    python3 examples/own_database.py orders DATABASE
    python3 examples/own_database.py fence  DATABASE KEY FENCE

order   places an order once: prints `executed` or `replayed`, a status and a body
orders  prints how many orders there are
fence   prints `accepted`, or `stale` where a newer attempt of that key was seen

With STOP_AFTER=STEP in the environment (begun, claimed, effect, answer, committed) `order` prints
`stopped after STEP` there, and goes on when its standard input ends: a place to kill it.
"""

import hashlib
import json
import os
import sqlite3
import sys
import time

SCHEMA = """
CREATE TABLE IF NOT EXISTS operations (
    tenant      TEXT   NOT NULL,
    key         TEXT   NOT NULL,
    fingerprint TEXT   NOT NULL,
    status      BIGINT,
    body        TEXT,
    finished_at BIGINT,
    PRIMARY KEY (tenant, key)
);
CREATE TABLE IF NOT EXISTS orders (
    number      INTEGER PRIMARY KEY,
    tenant      TEXT   NOT NULL,
    item        TEXT   NOT NULL
);
CREATE TABLE IF NOT EXISTS fences (
    key         TEXT   PRIMARY KEY,
    fence       BIGINT NOT NULL
);
"""

CLAIM = """
INSERT INTO operations (tenant, key, fingerprint) VALUES (:tenant, :key, :fingerprint)
    ON CONFLICT DO NOTHING
"""

FIND = """
SELECT fingerprint, status, body FROM operations WHERE tenant = :tenant AND key = :key
"""

EFFECT = """
INSERT INTO orders (tenant, item) VALUES (:tenant, :item) RETURNING number
"""

ANSWER = """
UPDATE operations SET status = :status, body = :body, finished_at = :now
    WHERE tenant = :tenant AND key = :key
"""

ADVANCE = """
INSERT INTO fences (key, fence) VALUES (:key, :fence)
    ON CONFLICT (key) DO UPDATE SET fence = excluded.fence
    WHERE fences.fence < excluded.fence
"""


def place_order(db, tenant, key, item, reached):
    """Places the order once. Gives whether it was executed now, and the answer."""
    fingerprint = hashlib.sha256(json.dumps(["POST", "/orders", item]).encode()).hexdigest()
    names = {"tenant": tenant, "key": key, "fingerprint": fingerprint, "item": item}
    db.execute("BEGIN IMMEDIATE")
    try:
        reached("begun")
        mine = db.execute(CLAIM, names).rowcount == 1
        reached("claimed")
        if not mine:
            # Whoever had the key has committed: a claim waits for the one before it.
            known, status, body = db.execute(FIND, names).fetchone()
            db.execute("ROLLBACK")
            if known != fingerprint:
                return False, 422, "this key was used with another request"
            return False, status, body
        number = db.execute(EFFECT, names).fetchone()[0]
        reached("effect")
        status, body = 201, json.dumps({"id": number, "item": item})
        names |= {"status": status, "body": body, "now": int(time.time())}
        db.execute(ANSWER, names)
        reached("answer")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    reached("committed")
    return True, status, body


def accepts(db, key, fence):
    """Whether an attempt may go on: false where a newer one of this key was seen, or this one."""
    return db.execute(ADVANCE, {"key": key, "fence": fence}).rowcount == 1


def stop_after(step):
    if os.environ.get("STOP_AFTER") == step:
        print(f"stopped after {step}", flush=True)
        sys.stdin.read()


def connect(path):
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    # A commit is on the disk before it is done; some builds of SQLite begin with less.
    db.execute("PRAGMA synchronous = FULL")
    db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
    return db


def main():
    match sys.argv[1:]:
        case ["order", path, tenant, key, item]:
            executed, status, body = place_order(connect(path), tenant, key, item, stop_after)
            print("executed" if executed else "replayed", status, body)
        case ["orders", path]:
            print(connect(path).execute("SELECT count(*) FROM orders").fetchone()[0])
        case ["fence", path, key, fence]:
            print("accepted" if accepts(connect(path), key, int(fence)) else "stale")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
