-- Back to nothing: every record, its answer and the secrets are lost. Keys run again.
DROP VIEW IF EXISTS steadfast.operations;
DROP TABLE IF EXISTS steadfast.secrets;
DROP TABLE IF EXISTS steadfast.records;
DROP SEQUENCE IF EXISTS steadfast.fences;
DROP TABLE IF EXISTS steadfast.meta;
DROP SCHEMA IF EXISTS steadfast;
