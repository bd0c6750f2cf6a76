-- Tables of tree-agent. The log (tree_agent_events) is the truth; nodes, plans and artifacts are projections of it,
-- written in the transaction of their events and rebuildable from them.
--
-- The tables on the write path have no foreign keys: a check per row would cost more than the insert itself, and
-- every write to them is already joined to the run row that it is fenced by.

CREATE TABLE tree_agent_runs (
    id               uuid PRIMARY KEY,
    user_id          text        NOT NULL DEFAULT '',
    request_id       text        NOT NULL DEFAULT '',
    objective        text        NOT NULL,
    spec             jsonb       NOT NULL,
    strategy         text        NOT NULL,
    scope            text        NOT NULL CHECK (scope IN ('global', 'project', 'multi_project')),
    project_ids      uuid[]      NOT NULL DEFAULT '{}',
    metrics          jsonb       NOT NULL DEFAULT '{}',
    status           text        NOT NULL DEFAULT 'queued',
    partial          boolean     NOT NULL DEFAULT false,
    error            text,
    root_node_id     uuid        NOT NULL,
    node_count       bigint      NOT NULL DEFAULT 0,
    head_seq         bigint      NOT NULL DEFAULT 0,
    epoch            bigint      NOT NULL DEFAULT 0,
    lease_owner      text,
    lease_expires_at timestamptz,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL
    -- Every append moves head_seq and updated_at, every renewal lease_expires_at. Half of each page is kept free and
    -- none of these columns is indexed, so that all of them are heap-only updates.
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

COMMENT ON COLUMN tree_agent_runs.request_id IS 'Makes creation idempotent per user; empty for none.';
COMMENT ON COLUMN tree_agent_runs.spec IS 'The whole request as the contract''s RunSpec; the columns beside it are for filters.';
COMMENT ON COLUMN tree_agent_runs.metrics IS 'context: {type, project_id, set_at}, as clients of the first table layout expect it.';
COMMENT ON COLUMN tree_agent_runs.head_seq IS 'Seq of the last event. Moves only in the statement that inserts the events.';
COMMENT ON COLUMN tree_agent_runs.epoch IS 'Grows by one with each claim; an append by an older epoch changes nothing.';
COMMENT ON COLUMN tree_agent_runs.lease_expires_at IS 'By the clock of the database. Null: nobody holds the run.';

CREATE UNIQUE INDEX tree_agent_runs_request ON tree_agent_runs (user_id, request_id) WHERE request_id <> '';
CREATE INDEX tree_agent_runs_live ON tree_agent_runs (created_at, id) WHERE status IN ('queued', 'running', 'paused');
CREATE INDEX tree_agent_runs_newest ON tree_agent_runs (created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_projects ON tree_agent_runs USING gin (project_ids);

CREATE TABLE tree_agent_events (
    run_id         uuid        NOT NULL,
    seq            bigint      NOT NULL,
    id             uuid        NOT NULL,
    node_id        uuid        NOT NULL,
    parent_node_id uuid,
    event_type     text        NOT NULL,
    payload        jsonb       NOT NULL,
    created_at     timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq)
);

COMMENT ON COLUMN tree_agent_events.id IS 'Derived from run, epoch and seq: tells an append that is repeated from another writer''s.';
COMMENT ON COLUMN tree_agent_events.created_at IS 'When the driver decided it; microseconds, exact.';

-- Keyed by run first: one index serves both the upsert and "all of a run", and stays local to the runs at work.
CREATE TABLE tree_agent_nodes (
    run_id            uuid        NOT NULL,
    id                uuid        NOT NULL,
    parent_node_id    uuid,
    title             text        NOT NULL,
    reason            text        NOT NULL,
    success_criteria  jsonb       NOT NULL,
    band_index        integer,
    step_index        integer,
    depth             integer     NOT NULL,
    status            text        NOT NULL,
    role_state        text        NOT NULL,
    scratchpad_doc_id uuid,
    started_at        timestamptz,
    ended_at          timestamptz,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    PRIMARY KEY (run_id, id)
) WITH (fillfactor = 60);

CREATE TABLE tree_agent_plans (
    run_id     uuid        NOT NULL,
    id         uuid        NOT NULL,
    node_id    uuid        NOT NULL,
    version    integer     NOT NULL,
    plan_json  jsonb       NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, id)
);

CREATE TABLE tree_agent_artifacts (
    run_id        uuid        NOT NULL,
    id            uuid        NOT NULL,
    node_id       uuid        NOT NULL,
    artifact_type text        NOT NULL,
    document_id   uuid,
    json_payload  jsonb,
    is_primary    boolean     NOT NULL,
    label         text        NOT NULL,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (run_id, id)
);

CREATE TABLE tree_agent_commands (
    id         bigserial   PRIMARY KEY,
    run_id     uuid        NOT NULL REFERENCES tree_agent_runs (id),
    command    jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    handled_at timestamptz
);

COMMENT ON COLUMN tree_agent_commands.handled_at IS 'Set in the transaction of the events that answer the command.';

CREATE INDEX tree_agent_commands_pending ON tree_agent_commands (run_id, id) WHERE handled_at IS NULL;

CREATE TABLE tree_agent_sessions (
    id                text        PRIMARY KEY,
    run_id            uuid        NOT NULL REFERENCES tree_agent_runs (id),
    node_id           uuid        NOT NULL,
    parent_session_id text        REFERENCES tree_agent_sessions (id),
    created_at        timestamptz NOT NULL
);

COMMENT ON TABLE tree_agent_sessions IS 'Conversations with a language model. A fork continues its parent''s.';

CREATE INDEX tree_agent_sessions_run ON tree_agent_sessions (run_id, node_id);

CREATE TABLE onto_projects (
    id          uuid        PRIMARY KEY,
    name        text        NOT NULL,
    name_folded text        COLLATE "C" NOT NULL UNIQUE,
    description text        NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL
);

COMMENT ON COLUMN onto_projects.name_folded IS 'The name in lower case, folded by the program so that every database folds alike.';

CREATE TABLE onto_project_members (
    project_id uuid        NOT NULL REFERENCES onto_projects (id),
    user_id    text        NOT NULL,
    role       text        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, user_id)
);

-- Stems English words and drops none: stop words are left out of queries by the program, so that both databases
-- find the same.
CREATE TEXT SEARCH DICTIONARY tree_agent_stem (TEMPLATE = snowball, Language = english);
CREATE TEXT SEARCH CONFIGURATION tree_agent (COPY = english);
ALTER TEXT SEARCH CONFIGURATION tree_agent
    ALTER MAPPING FOR asciiword, word, asciihword, hword, hword_asciipart, hword_part WITH tree_agent_stem;

-- Punctuation that the parser would take for parts of host names, paths, versions or signed numbers separates words.
-- A text with more distinct words than a tsvector can hold is indexed as far as it goes instead of being refused.
CREATE FUNCTION tree_agent_search_vector(title text, path text, body text) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    indexed integer := length(body);
BEGIN
    LOOP
        BEGIN
            RETURN setweight(to_tsvector('tree_agent', translate(title, './_-:@+\', '        ')), 'A')
                || setweight(to_tsvector('tree_agent', translate(path, './_-:@+\', '        ')), 'B')
                || setweight(to_tsvector('tree_agent', translate(left(body, indexed), './_-:@+\', '        ')), 'D');
        EXCEPTION WHEN program_limit_exceeded THEN
            indexed := indexed / 2;
        END;
    END LOOP;
END $$;

-- The last max_bytes bytes of a text, beginning at a whole character.
CREATE FUNCTION tree_agent_tail(body text, max_bytes integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    bytes bytea := convert_to(body, 'UTF8');
    start integer := octet_length(bytes) - max_bytes;
BEGIN
    IF start <= 0 THEN
        RETURN body;
    END IF;
    WHILE start < octet_length(bytes) AND get_byte(bytes, start) & 192 = 128 LOOP
        start := start + 1;
    END LOOP;
    RETURN convert_from(substring(bytes FROM start + 1), 'UTF8');
END $$;

CREATE TABLE onto_documents (
    id         uuid        PRIMARY KEY,
    type_key   text        NOT NULL,
    project_id uuid        REFERENCES onto_projects (id),
    run_id     uuid,
    path       text        COLLATE "C" NOT NULL DEFAULT '',
    title      text        NOT NULL,
    body       text        NOT NULL,
    props      jsonb       NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- Null for all but sources: scratchpads grow with every batch and are never searched.
    search     tsvector    GENERATED ALWAYS AS (
        CASE WHEN type_key = 'document.source' THEN tree_agent_search_vector(title, path, body) END
    ) STORED
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX onto_documents_source_path ON onto_documents (project_id, path) WHERE type_key = 'document.source';
CREATE INDEX onto_documents_run ON onto_documents (run_id, path, id) WHERE run_id IS NOT NULL;
CREATE INDEX onto_documents_search ON onto_documents USING gin (search) WHERE search IS NOT NULL;

CREATE TABLE onto_edges (
    from_id    uuid        NOT NULL,
    rel        text        NOT NULL,
    to_id      uuid        NOT NULL,
    props      jsonb       NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    PRIMARY KEY (from_id, rel, to_id)
);

CREATE INDEX onto_edges_to ON onto_edges (to_id, rel);
