-- What migrations/postgres/V36 does. The program refuses places that a document cannot have.

ALTER TABLE tree_agent_documents ADD COLUMN created_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tree_agent_documents ADD COLUMN parent_id BLOB;
ALTER TABLE tree_agent_documents ADD COLUMN linked_seq INTEGER;
ALTER TABLE tree_agent_documents ADD COLUMN linked_at INTEGER;

UPDATE tree_agent_documents SET created_seq = base_seq;

ALTER TABLE tree_agent_document_chunks ADD COLUMN replaces INTEGER NOT NULL DEFAULT 0;

CREATE INDEX tree_agent_document_replacements ON tree_agent_document_chunks (run_id, document_id, seq) WHERE replaces = 1;

DROP TABLE onto_edges;
CREATE VIEW onto_edges AS
    SELECT d.run_id, d.parent_id AS from_id, 'document_has_document' AS rel, d.id AS to_id, '{}' AS props,
           d.linked_at AS created_at, d.linked_seq AS seq
    FROM tree_agent_documents d WHERE d.parent_id IS NOT NULL;

DROP VIEW onto_documents;
CREATE VIEW onto_documents AS
    SELECT s.id, s.type_key, s.project_id, NULL AS run_id, s.path, s.title, s.body, s.props, s.created_at, s.updated_at,
           octet_length(s.body) AS bytes, NULL AS parent_id
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
           min(COALESCE(t.end_byte, t.dropped_bytes + octet_length(t.body)) - COALESCE(t.origin, t.dropped_bytes), 1048576),
           t.parent_id
    FROM (
        SELECT p.*,
               CASE WHEN p.origin IS NULL THEN p.body ELSE '' END || COALESCE((
                   SELECT group_concat(c.body, '' ORDER BY c.seq) FROM tree_agent_document_chunks c
                   WHERE c.run_id = p.run_id AND c.document_id = p.id
                       AND c.seq >= COALESCE(p.replaced_seq, p.base_seq + 1)), '') AS whole
        FROM (
            SELECT d.*,
                   COALESCE((
                       SELECT c.created_at FROM tree_agent_document_chunks c
                       WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq
                       ORDER BY c.seq DESC LIMIT 1), d.updated_at) AS changed_at,
                   (SELECT c.start_byte + octet_length(c.body) FROM tree_agent_document_chunks c
                       WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq
                       ORDER BY c.seq DESC LIMIT 1) AS end_byte,
                   (SELECT c.seq FROM tree_agent_document_chunks c
                       WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq AND c.replaces = 1
                       ORDER BY c.seq DESC LIMIT 1) AS replaced_seq,
                   (SELECT c.start_byte FROM tree_agent_document_chunks c
                       WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq AND c.replaces = 1
                       ORDER BY c.seq DESC LIMIT 1) AS origin
            FROM tree_agent_documents d
        ) p
    ) t;
