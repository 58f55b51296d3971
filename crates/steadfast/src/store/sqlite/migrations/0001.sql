-- Records of keyed operations, in arrival order: `n` is the fence drawn when the row was first
-- inserted, so it grows and is never used again. Dates are milliseconds since 1970, UTC.
CREATE TABLE records (
    n INTEGER PRIMARY KEY,
    -- The first 16 bytes of `scope`: what the unique index holds.
    scope_prefix BLOB NOT NULL,
    scope BLOB NOT NULL,
    id BLOB NOT NULL,
    tenant TEXT NOT NULL,
    principal_rule TEXT NOT NULL,
    operation TEXT NOT NULL,
    key TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    effect TEXT NOT NULL,
    ambiguous INTEGER NOT NULL,
    honours_key INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT NOT NULL,
    status INTEGER,
    reason TEXT NOT NULL,
    on_unknown TEXT NOT NULL,
    lease_ms INTEGER NOT NULL,
    retention_ms INTEGER NOT NULL,
    locked_until INTEGER,
    final_at INTEGER,
    expires_at INTEGER,
    -- Headers of the answer, what stood before the present hold, history: JSON.
    details TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX records_by_scope ON records (scope_prefix);
CREATE UNIQUE INDEX records_by_id ON records (id);
-- Both grow at their right edge, and hold only the rows that have such a date.
CREATE INDEX records_due ON records (locked_until) WHERE locked_until IS NOT NULL;
CREATE INDEX records_expiring ON records (expires_at) WHERE expires_at IS NOT NULL;

-- Bodies of stored answers, apart from the rows that are written again and again.
CREATE TABLE answers (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
-- The same of the answer that stood before the present hold.
CREATE TABLE answers_before (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;

-- One row: the highest fence drawn, the last date written, and who committed last.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    fence INTEGER NOT NULL,
    last_date INTEGER NOT NULL,
    writer INTEGER NOT NULL
) STRICT;

-- `scope` (one row, never rotated) and `fingerprint` (the one with the highest `n` is the present
-- one).
CREATE TABLE secrets (
    n INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('scope', 'fingerprint')),
    id TEXT NOT NULL,
    bytes BLOB NOT NULL CHECK (length(bytes) = 32),
    UNIQUE (kind, id)
) STRICT;

-- For people: ids and hashes as hex digits, dates as dates.
CREATE VIEW operations AS
SELECT lower(hex(id)) AS id, state, effect, operation, key, tenant, owner, fence, attempts, status,
       reason, strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created,
       strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated,
       strftime('%Y-%m-%dT%H:%M:%fZ', locked_until / 1000.0, 'unixepoch') AS locked_until,
       strftime('%Y-%m-%dT%H:%M:%fZ', expires_at / 1000.0, 'unixepoch') AS expires
FROM records ORDER BY n;
