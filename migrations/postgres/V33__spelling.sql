-- Words that look the same are indexed the same: the program writes the full-text index, because the database has no
-- function for it. `tree-agent migrate` indexes again what was indexed with an earlier version.

ALTER TABLE onto_sources ALTER COLUMN search DROP EXPRESSION;
ALTER TABLE onto_sources ADD COLUMN search_version integer NOT NULL DEFAULT 0;

COMMENT ON COLUMN onto_sources.search IS 'Words of title, path and body as the program compares them. Null for all but sources.';
COMMENT ON COLUMN onto_sources.search_version IS 'The version of the rules with which search was written.';

CREATE INDEX onto_sources_search_version ON onto_sources (search_version);
