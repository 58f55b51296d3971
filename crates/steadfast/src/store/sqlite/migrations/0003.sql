-- Work that goes on without its caller: what is due in which state, and the requests that are kept
-- for it, apart from the rows that are written again and again.
ALTER TABLE records ADD COLUMN due_at INTEGER;
ALTER TABLE records ADD COLUMN keeps_request INTEGER NOT NULL DEFAULT 0;
CREATE INDEX records_pending ON records (state, due_at) WHERE due_at IS NOT NULL;
CREATE TABLE requests (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
