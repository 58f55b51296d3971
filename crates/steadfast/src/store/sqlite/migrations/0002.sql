-- Ids begin with their scope's hash from now on, so the index of scopes finds them; one of random
-- ids would be a second page written with every insert. Those made before keep an index.
DROP INDEX records_by_id;
CREATE UNIQUE INDEX records_by_bare_id ON records (id) WHERE length(id) = 16;
