-- What 0.3.0 adds.

-- The head of the table whose rows it holds, if that stands further above.
ALTER TABLE onto_passages ADD COLUMN head TEXT NOT NULL DEFAULT '';
