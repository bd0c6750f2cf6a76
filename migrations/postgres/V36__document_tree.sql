-- The tree of a run's documents, and texts that are replaced. A document has its place in its own row: one place at the most,
-- and nothing to look up when it is created with it. A text that replaces the earlier ones is a chunk like any other, so
-- that the earlier ones stay. onto_edges stays the name of the edges; no version wrote to the table of that name.

ALTER TABLE tree_agent_documents
    ADD COLUMN created_seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN parent_id   uuid,
    ADD COLUMN linked_seq  bigint,
    ADD COLUMN linked_at   timestamptz;

COMMENT ON COLUMN tree_agent_documents.created_seq IS 'The first event at which its text is known.';
COMMENT ON COLUMN tree_agent_documents.parent_id IS 'The document above it; null for none.';
COMMENT ON COLUMN tree_agent_documents.linked_seq IS 'The event with which it got its place.';

-- Of what an earlier version wrote, the text is known from the end of the append on that created it.
UPDATE tree_agent_documents SET created_seq = base_seq;

ALTER TABLE tree_agent_document_chunks ADD COLUMN replaces boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN tree_agent_document_chunks.replaces IS 'The chunk is the whole text of the document: what was before is no longer part of it.';

-- The few chunks at which a text begins. Other chunks are not in it.
CREATE INDEX tree_agent_document_replacements ON tree_agent_document_chunks (run_id, document_id, seq) WHERE replaces;

DROP TABLE onto_edges;
CREATE VIEW onto_edges AS
    SELECT d.run_id, d.parent_id AS from_id, 'document_has_document'::text AS rel, d.id AS to_id, '{}'::jsonb AS props,
           d.linked_at AS created_at, d.linked_seq AS seq
    FROM tree_agent_documents d WHERE d.parent_id IS NOT NULL;

-- Refuses a place that a document cannot have. Its own error code tells it from other errors.
CREATE FUNCTION tree_agent_refuse_place(run uuid, child uuid, parent uuid, why text) RETURNS uuid
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'document % of run % cannot be below document %: %', child, run, parent, why USING ERRCODE = 'TA001';
END $$;

-- Puts a document that is there below another one. The same place again changes nothing.
CREATE FUNCTION tree_agent_place_document(run uuid, child uuid, parent uuid, at_seq bigint, at_time timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    present uuid;
BEGIN
    SELECT d.parent_id INTO present FROM tree_agent_documents d WHERE d.run_id = run AND d.id = child;
    IF NOT FOUND THEN
        PERFORM tree_agent_refuse_place(run, child, parent, 'the run has no such document');
    ELSIF present = parent THEN
        RETURN;
    ELSIF present IS NOT NULL THEN
        PERFORM tree_agent_refuse_place(run, child, parent, 'it is below ' || present);
    ELSIF NOT EXISTS (SELECT FROM tree_agent_documents d WHERE d.run_id = run AND d.id = parent) THEN
        PERFORM tree_agent_refuse_place(run, child, parent, 'the run has none to be above it');
    ELSIF EXISTS (
        WITH RECURSIVE above(id) AS (
            SELECT parent
            UNION
            SELECT d.parent_id FROM above JOIN tree_agent_documents d ON d.run_id = run AND d.id = above.id
            WHERE d.parent_id IS NOT NULL
        )
        SELECT FROM above WHERE above.id = child
    ) THEN
        PERFORM tree_agent_refuse_place(run, child, parent, 'it is above it');
    END IF;
    UPDATE tree_agent_documents d SET parent_id = parent, linked_seq = at_seq, linked_at = at_time
    WHERE d.run_id = run AND d.id = child;
END $$;

CREATE OR REPLACE VIEW onto_documents AS
    SELECT s.id, s.type_key, s.project_id, NULL::uuid AS run_id, s.path, s.title, s.body, s.props, s.created_at, s.updated_at,
           octet_length(s.body)::int8 AS bytes, NULL::uuid AS parent_id
    FROM onto_sources s
    UNION ALL
    SELECT d.id, d.type_key, NULL::uuid, d.run_id, d.path, d.title,
           tree_agent_tail(CASE WHEN o.seq IS NULL THEN d.body ELSE '' END || COALESCE((
               SELECT string_agg(c.body, '' ORDER BY c.seq) FROM tree_agent_document_chunks c
               WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq >= COALESCE(o.seq, d.base_seq + 1)
                   AND c.start_byte + octet_length(c.body) > l.end_byte - 1048576), ''), 1048576),
           d.props, d.created_at, COALESCE(l.created_at, d.updated_at),
           least(COALESCE(l.end_byte, d.dropped_bytes + octet_length(d.body)) - COALESCE(o.start_byte, d.dropped_bytes), 1048576),
           d.parent_id
    FROM tree_agent_documents d
    LEFT JOIN LATERAL (
        SELECT c.start_byte + octet_length(c.body) AS end_byte, c.created_at FROM tree_agent_document_chunks c
        WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq ORDER BY c.seq DESC LIMIT 1
    ) l ON true
    LEFT JOIN LATERAL (
        SELECT c.seq, c.start_byte FROM tree_agent_document_chunks c
        WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq AND c.replaces ORDER BY c.seq DESC LIMIT 1
    ) o ON true;
