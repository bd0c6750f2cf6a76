-- Forks: runs whose log begins with that of another run. A fork has a row and its own events; what it shares stays where it is.

ALTER TABLE tree_agent_runs
    ADD COLUMN parent_run_id uuid,
    ADD COLUMN parent_seq    bigint NOT NULL DEFAULT 0,
    ADD COLUMN fork_edits    jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN segments      jsonb;

COMMENT ON COLUMN tree_agent_runs.parent_run_id IS 'The run that wrote the last event which a fork shares; null for other runs.';
COMMENT ON COLUMN tree_agent_runs.parent_seq IS 'That event; 0 for other runs.';
COMMENT ON COLUMN tree_agent_runs.fork_edits IS 'What a fork does differently, in words.';
COMMENT ON COLUMN tree_agent_runs.segments IS 'The parts of the log before the first event that a fork wrote, the oldest first: under which run each is stored, who wrote it, in which epoch at the most, and its last event; null for other runs.';

CREATE INDEX tree_agent_runs_forks ON tree_agent_runs (parent_run_id, created_at DESC, id DESC) WHERE parent_run_id IS NOT NULL;

-- For whoever removes a run that forks share.
CREATE INDEX tree_agent_runs_segments ON tree_agent_runs USING gin (segments jsonb_path_ops) WHERE segments IS NOT NULL;

-- The parts of which the log of a fork consists, its own included; none for other runs.
CREATE FUNCTION tree_agent_fork_ranges(fork uuid) RETURNS TABLE (run uuid, after_seq bigint, until_seq bigint)
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT (s.part ->> 'run')::uuid, COALESCE(lag((s.part ->> 'until')::bigint) OVER (ORDER BY s.n), 0), (s.part ->> 'until')::bigint
    FROM tree_agent_runs r, jsonb_array_elements(r.segments) WITH ORDINALITY AS s(part, n) WHERE r.id = fork
    UNION ALL
    SELECT r.id, r.parent_seq, 9223372036854775807 FROM tree_agent_runs r WHERE r.id = fork AND r.segments IS NOT NULL;
$$;

-- Where a document ends that a fork has from a run before it; null if there is none.
CREATE FUNCTION tree_agent_inherited_end(fork uuid, document uuid) RETURNS bigint
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT e.end_byte FROM (
        SELECT d.created_seq AS seq, d.dropped_bytes + octet_length(d.body) AS end_byte
        FROM tree_agent_fork_ranges(fork) s
        JOIN tree_agent_documents d ON d.run_id = s.run AND d.id = document AND d.created_seq > s.after_seq AND d.created_seq <= s.until_seq
        UNION ALL
        SELECT c.seq, c.start_byte + octet_length(c.body)
        FROM tree_agent_fork_ranges(fork) s
        JOIN tree_agent_document_chunks c ON c.run_id = s.run AND c.document_id = document AND c.seq > s.after_seq AND c.seq <= s.until_seq
    ) e ORDER BY e.seq DESC LIMIT 1;
$$;

-- The document itself, if a fork has it from a run before it.
CREATE FUNCTION tree_agent_inherited_document(fork uuid, document uuid) RETURNS uuid
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT d.id FROM tree_agent_fork_ranges(fork) s
    JOIN tree_agent_documents d ON d.run_id = s.run AND d.id = document AND d.created_seq > s.after_seq AND d.created_seq <= s.until_seq
    LIMIT 1;
$$;
