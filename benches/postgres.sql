-- One pair as `pgbench` does it, on the store's own table: a record is inserted as dispatched, and
-- replaced by its answer of 512 bytes where its owner and version still stand.
-- A colon would begin a variable, also within a text.
\set a random(1, 9000000000000000000)
\set b random(1, 9000000000000000000)
INSERT INTO steadfast.records (n, fence, scope, id, tenant, principal_rule, operation, key,
    created_at, updated_at, version, state, effect, ambiguous, honours_key, attempts, owner,
    fingerprint, answer, reason, on_unknown, lease_ms, retention_ms, locked_until, details) VALUES
    (nextval('steadfast.fences'), currval('steadfast.fences'),
    decode(md5(:a::text) || md5(:b::text), 'hex'), decode(md5(:b::text) || md5(:a::text), 'hex'),
    '0f8fad5bd9cb469fa1650f8fad5bd9cb',
    'authorization', 'POST /v1/charges', :a::text || :b::text, 1800000000000, 1800000000000, 1,
    'dispatched', 'unknown', 0, 0, 1, '0000000000c0ffee-00000000000000000000000000000001',
    '1-1-meaning-0000000000000000000000000000000000000000000000000000000000000001', 'none',
    'dispatched', 'hold', 30000, 86400000, 1800000030000, '{"v" = 1,"history" = []}')
    ON CONFLICT (scope) DO NOTHING RETURNING fence;
UPDATE steadfast.records SET version = 2, updated_at = 1800000000001, state = 'completed', effect
    = 'applied', answer = 'stored', status = 201, reason = '201', locked_until = NULL, final_at =
    1800000000001, expires_at = 1800086400001, details =
    '{"v" = 1,"headers" = [["content-type","application/json"]],"history" = []}', body =
    convert_to(repeat('x', 512), 'UTF8') WHERE scope = decode(md5(:a::text) || md5(:b::text), 'hex')
    AND owner = '0000000000c0ffee-00000000000000000000000000000001' AND version = 1 RETURNING fence;
