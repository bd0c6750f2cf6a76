-- What migrations/postgres/V30 does.

ALTER TABLE onto_documents RENAME TO onto_sources;
DROP INDEX onto_documents_run;
DROP INDEX onto_documents_source_path;
CREATE UNIQUE INDEX onto_sources_path ON onto_sources (project_id, path) WHERE type_key = 'document.source';

CREATE TABLE tree_agent_documents (
    run_id        BLOB NOT NULL,
    id            BLOB NOT NULL,
    type_key      TEXT NOT NULL,
    path          TEXT NOT NULL DEFAULT '',
    title         TEXT NOT NULL,
    body          TEXT NOT NULL,
    props         TEXT NOT NULL DEFAULT '{}',
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    dropped_bytes INTEGER NOT NULL DEFAULT 0,
    base_seq      INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT;

CREATE INDEX tree_agent_documents_id ON tree_agent_documents (id);

CREATE TABLE tree_agent_document_chunks (
    run_id      BLOB NOT NULL,
    document_id BLOB NOT NULL,
    seq         INTEGER NOT NULL,
    start_byte  INTEGER NOT NULL,
    body        TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (run_id, document_id, seq)
) STRICT;

INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, dropped_bytes, base_seq)
SELECT d.run_id, d.id, d.type_key, d.path, d.title, d.body, d.props, d.created_at, d.updated_at, d.dropped_bytes,
       COALESCE((SELECT r.head_seq FROM tree_agent_runs r WHERE r.id = d.run_id), 0)
FROM onto_sources d WHERE d.run_id IS NOT NULL;

DELETE FROM onto_sources WHERE run_id IS NOT NULL;
ALTER TABLE onto_sources DROP COLUMN run_id;
ALTER TABLE onto_sources DROP COLUMN dropped_bytes;

-- SQLite has no function that cuts text at a byte: the end of a document over the limit is cut as a blob, behind the rest of
-- a character.
CREATE VIEW onto_documents AS
    SELECT s.id, s.type_key, s.project_id, NULL AS run_id, s.path, s.title, s.body, s.props, s.created_at, s.updated_at,
           octet_length(s.body) AS bytes
    FROM onto_sources s
    UNION ALL
    SELECT t.id, t.type_key, NULL, t.run_id, t.path, t.title,
           CASE WHEN octet_length(t.whole) <= 1048576 THEN t.whole
           ELSE CAST(substr(CAST(t.whole AS BLOB), octet_length(t.whole) - 1048575 + CASE
               WHEN substr(CAST(t.whole AS BLOB), -1048576, 1) NOT BETWEEN x'80' AND x'bf' THEN 0
               WHEN substr(CAST(t.whole AS BLOB), -1048575, 1) NOT BETWEEN x'80' AND x'bf' THEN 1
               WHEN substr(CAST(t.whole AS BLOB), -1048574, 1) NOT BETWEEN x'80' AND x'bf' THEN 2
               ELSE 3 END) AS TEXT) END,
           t.props, t.created_at, t.changed_at,
           min(COALESCE(t.end_byte - t.dropped_bytes, octet_length(t.body)), 1048576)
    FROM (
        SELECT d.*,
               d.body || COALESCE((
                   SELECT group_concat(c.body, '' ORDER BY c.seq) FROM tree_agent_document_chunks c
                   WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq), '') AS whole,
               COALESCE((
                   SELECT c.created_at FROM tree_agent_document_chunks c
                   WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq
                   ORDER BY c.seq DESC LIMIT 1), d.updated_at) AS changed_at,
               (SELECT c.start_byte + octet_length(c.body) FROM tree_agent_document_chunks c
                   WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq
                   ORDER BY c.seq DESC LIMIT 1) AS end_byte
        FROM tree_agent_documents d
    ) t;
