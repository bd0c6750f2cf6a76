-- Documents of runs, apart from sources and keyed by their run, and their growth as chunks: text is only added, so that an
-- append neither reads nor writes what is there. A document is the body that it was created with and then its chunks. Its
-- text at any event is therefore a prefix of its text now. onto_documents stays the name that readers use.

ALTER TABLE onto_documents RENAME TO onto_sources;
ALTER INDEX onto_documents_pkey RENAME TO onto_sources_pkey;
ALTER INDEX onto_documents_source_path RENAME TO onto_sources_path;
ALTER INDEX onto_documents_search RENAME TO onto_sources_search;

CREATE TABLE tree_agent_documents (
    run_id        uuid        NOT NULL,
    id            uuid        NOT NULL,
    type_key      text        NOT NULL,
    path          text        COLLATE "C" NOT NULL DEFAULT '',
    title         text        NOT NULL,
    body          text        NOT NULL,
    props         jsonb       NOT NULL DEFAULT '{}',
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    dropped_bytes bigint      NOT NULL DEFAULT 0,
    base_seq      bigint      NOT NULL,
    PRIMARY KEY (run_id, id)
);

COMMENT ON TABLE tree_agent_documents IS 'Scratchpads and artifacts. Readers use onto_documents.';
COMMENT ON COLUMN tree_agent_documents.body IS 'The text that the document was created with. Its chunks follow.';
COMMENT ON COLUMN tree_agent_documents.dropped_bytes IS 'Bytes that were before the body when it was written whole.';
COMMENT ON COLUMN tree_agent_documents.base_seq IS 'The chunks of later events belong to the document.';

-- Readers know a document by its id alone.
CREATE INDEX tree_agent_documents_id ON tree_agent_documents (id);

CREATE TABLE tree_agent_document_chunks (
    run_id      uuid        NOT NULL,
    document_id uuid        NOT NULL,
    seq         bigint      NOT NULL,
    start_byte  bigint      NOT NULL,
    body        text        NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (run_id, document_id, seq)
);

COMMENT ON COLUMN tree_agent_document_chunks.seq IS 'The event with which the document grew.';
COMMENT ON COLUMN tree_agent_document_chunks.start_byte IS 'Where the chunk begins, counted from the first byte that the document ever had.';

INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, dropped_bytes, base_seq)
SELECT d.run_id, d.id, d.type_key, d.path, d.title, d.body, d.props, d.created_at, d.updated_at, d.dropped_bytes,
       COALESCE((SELECT r.head_seq FROM tree_agent_runs r WHERE r.id = d.run_id), 0)
FROM onto_sources d WHERE d.run_id IS NOT NULL;

DELETE FROM onto_sources WHERE run_id IS NOT NULL;
ALTER TABLE onto_sources DROP COLUMN run_id, DROP COLUMN dropped_bytes;

-- Of a document that is over the limit of 1 MiB readers see the end.
CREATE VIEW onto_documents AS
    SELECT s.id, s.type_key, s.project_id, NULL::uuid AS run_id, s.path, s.title, s.body, s.props, s.created_at, s.updated_at,
           octet_length(s.body)::int8 AS bytes
    FROM onto_sources s
    UNION ALL
    SELECT d.id, d.type_key, NULL::uuid, d.run_id, d.path, d.title,
           tree_agent_tail(d.body || COALESCE((
               SELECT string_agg(c.body, '' ORDER BY c.seq) FROM tree_agent_document_chunks c
               WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq
                   AND c.start_byte + octet_length(c.body) > l.end_byte - 1048576), ''), 1048576),
           d.props, d.created_at, COALESCE(l.created_at, d.updated_at),
           least(COALESCE(l.end_byte - d.dropped_bytes, octet_length(d.body)), 1048576)
    FROM tree_agent_documents d
    LEFT JOIN LATERAL (
        SELECT c.start_byte + octet_length(c.body) AS end_byte, c.created_at FROM tree_agent_document_chunks c
        WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq ORDER BY c.seq DESC LIMIT 1
    ) l ON true;
