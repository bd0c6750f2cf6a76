-- Where the body of a growing document begins: a body that is over the limit loses its beginning, and whoever follows the
-- document counts from the first byte that it ever had.

ALTER TABLE onto_documents ADD COLUMN dropped_bytes int8 NOT NULL DEFAULT 0;

COMMENT ON COLUMN onto_documents.dropped_bytes IS 'Bytes that the body has lost from its beginning.';
