-- Version 1: records of keyed operations. Dates are milliseconds since 1970, UTC.
--
-- In the SQL that CockroachDB and YugabyteDB speak as well, but for the storage settings, which
-- only PostgreSQL knows: they change no meaning.
CREATE SCHEMA IF NOT EXISTS steadfast;

-- One row. `version` is that of the tables; `moving_to` names the version that a migration has
-- begun to make, so that one which was cut short is seen. No record was written after `date_mark`.
CREATE TABLE steadfast.meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    moving_to INTEGER,
    date_mark BIGINT NOT NULL
);
INSERT INTO steadfast.meta (one, version, moving_to, date_mark) VALUES (1, 0, 1, 0);

-- Fences: drawn in the statement that writes the row, and never again, also not after a rollback.
-- Without a cache, so that those who draw after each other draw growing numbers whoever they are.
CREATE SEQUENCE steadfast.fences MAXVALUE 9007199254740991 CACHE 1;

-- `n` is the fence drawn when the row was first inserted: the order of listings. Long values
-- (answers, requests) leave the row by themselves, and are not written again while they stay as
-- they are.
CREATE TABLE steadfast.records (
    n BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    ambiguous BIGINT NOT NULL,
    honours_key BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    lease_ms BIGINT NOT NULL,
    retention_ms BIGINT NOT NULL,
    status BIGINT,
    locked_until BIGINT,
    final_at BIGINT,
    expires_at BIGINT,
    due_at BIGINT,
    scope BYTEA NOT NULL PRIMARY KEY,
    id BYTEA NOT NULL,
    tenant TEXT NOT NULL,
    principal_rule TEXT NOT NULL,
    operation TEXT NOT NULL,
    key TEXT NOT NULL,
    state TEXT NOT NULL,
    effect TEXT NOT NULL,
    owner TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT NOT NULL,
    -- A backslash and a zero in it are written \\ and \0: text has no zeros here.
    reason TEXT NOT NULL,
    on_unknown TEXT NOT NULL,
    -- Headers of the answer, what stood before the present hold, history: JSON.
    details TEXT NOT NULL,
    -- The standing answer, the answer that stood before the present hold, the request that is kept.
    body BYTEA,
    body_before BYTEA,
    body_kept BYTEA
); -- end of records

CREATE INDEX records_by_n ON steadfast.records (n);
-- An id begins with its scope's hash, so the primary key finds it; ids without are found here.
CREATE INDEX records_by_bare_id ON steadfast.records (id) WHERE octet_length(id) = 16;
-- These hold only the rows that have such a date.
CREATE INDEX records_due ON steadfast.records (locked_until) WHERE locked_until IS NOT NULL;
CREATE INDEX records_expiring ON steadfast.records (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX records_pending ON steadfast.records (state, due_at) WHERE due_at IS NOT NULL;

-- Pages are filled to the brim: each step of a record changes a date that an index holds, so no
-- update can stay on its page beside its old version (HOT), and room kept for that would lie idle.
-- A record leaves two or three dead versions in its life. The default (a fifth of the table) would
-- let them grow to gigabytes and then take them all at once; so a fiftieth, and at the pace that
-- the writers have. Insertions alone need no vacuum this often: rows are gone after their
-- retention.
ALTER TABLE steadfast.records SET (
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05,
    toast.autovacuum_vacuum_scale_factor = 0.02,
    toast.autovacuum_vacuum_cost_delay = 0
); -- end of storage

-- `scope` (one row, never rotated) and `fingerprint` (the one with the highest `n` is the present
-- one). Made by `steadfast store migrate`.
CREATE TABLE steadfast.secrets (
    n BIGINT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('scope', 'fingerprint')),
    id TEXT NOT NULL,
    bytes BYTEA NOT NULL CHECK (octet_length(bytes) = 32),
    UNIQUE (kind, id)
);

-- For people: ids as hex digits, dates as dates.
CREATE VIEW steadfast.operations AS
SELECT encode(id, 'hex') AS id, state, effect, operation, key, tenant, owner, fence, attempts,
       status, reason, to_timestamp(created_at / 1000.0) AS created,
       to_timestamp(updated_at / 1000.0) AS updated,
       to_timestamp(locked_until / 1000.0) AS locked_until,
       to_timestamp(expires_at / 1000.0) AS expires
FROM steadfast.records;

UPDATE steadfast.meta SET version = 1, moving_to = NULL;
