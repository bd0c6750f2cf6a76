-- Where the body of a growing document begins: a body that is over the limit loses its beginning, and whoever follows the
-- document counts from the first byte that it ever had.

ALTER TABLE onto_documents ADD COLUMN dropped_bytes INTEGER NOT NULL DEFAULT 0;
