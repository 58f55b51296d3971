-- How many records each principal has. Kept beside every insert and removal, because an index of
-- principals over all records would be one more page written for each. What
-- replaces a record is of the same principal, which is part of its scope.
CREATE TABLE tenants (
    tenant TEXT PRIMARY KEY,
    records INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO tenants (tenant, records) SELECT tenant, count(*) FROM records GROUP BY tenant;

CREATE TRIGGER records_inserted AFTER INSERT ON records BEGIN
    INSERT INTO tenants (tenant, records) VALUES (new.tenant, 1)
    ON CONFLICT (tenant) DO UPDATE SET records = records + 1;
END;
CREATE TRIGGER records_removed AFTER DELETE ON records BEGIN
    UPDATE tenants SET records = records - 1 WHERE tenant = old.tenant;
    DELETE FROM tenants WHERE tenant = old.tenant AND records <= 0;
END;
