-- What migrations/postgres/V33 does.

ALTER TABLE onto_sources ADD COLUMN search_version INTEGER NOT NULL DEFAULT 0;

CREATE INDEX onto_sources_search_version ON onto_sources (search_version);
