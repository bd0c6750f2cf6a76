-- What 0.3.0 adds.

ALTER TABLE onto_passages ADD COLUMN head text NOT NULL DEFAULT '';

COMMENT ON COLUMN onto_passages.head IS 'The head of the table whose rows it holds, if that stands further above.';
