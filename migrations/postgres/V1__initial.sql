-- Tables of tree-agent. The log (tree_agent_events) is the truth; nodes, plans and artifacts are projections of it,
-- written in the transaction of their events and rebuildable from them.
--
-- What belongs to a run is keyed by it first and refers to no other table: a check per row would cost more than the
-- insert itself, and every write is joined to the row of the run that it is fenced by. So a run can be placed as a whole.

-- Runs. Every append moves head_seq, updated_at and progress_seq. Half of each page is kept free and none of these
-- columns is indexed, so that appends are heap-only updates.
CREATE TABLE tree_agent_runs (
    id               uuid PRIMARY KEY,
    user_id          text        NOT NULL DEFAULT '',
    request_id       text        NOT NULL DEFAULT '',
    objective        text        NOT NULL,
    spec             jsonb       NOT NULL,
    strategy         text        NOT NULL,
    scope            text        NOT NULL CHECK (scope IN ('global', 'project', 'multi_project')),
    project_ids      uuid[]      NOT NULL DEFAULT '{}',
    labels           jsonb       NOT NULL DEFAULT '{}',
    metrics          jsonb       NOT NULL DEFAULT '{}',
    status           text        NOT NULL DEFAULT 'queued',
    partial          boolean     NOT NULL DEFAULT false,
    error            text,
    root_node_id     uuid        NOT NULL,
    node_count       bigint      NOT NULL DEFAULT 0,
    usage            jsonb       NOT NULL DEFAULT '{}',
    head_seq         bigint      NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    started_at       timestamptz,
    ended_at         timestamptz,
    changed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at       timestamptz,
    archived_at      timestamptz,
    archive_sha256   text,
    -- Who drives it.
    epoch            bigint      NOT NULL DEFAULT 0,
    lease_owner      text,
    lease_expires_at timestamptz,
    not_before       timestamptz NOT NULL DEFAULT '-infinity',
    last_command     bigint      NOT NULL DEFAULT 0,
    claimed_command  bigint      NOT NULL DEFAULT 0,
    progress_seq     bigint      NOT NULL DEFAULT 0,
    failed_seq       bigint      NOT NULL DEFAULT 0,
    failures         integer     NOT NULL DEFAULT 0,
    failure          text,
    expiries         integer     NOT NULL DEFAULT 0,
    -- What it forks.
    parent_run_id    uuid,
    parent_seq       bigint      NOT NULL DEFAULT 0,
    fork_edits       jsonb       NOT NULL DEFAULT '[]',
    segments         jsonb
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

COMMENT ON COLUMN tree_agent_runs.request_id IS 'The request that created the run, which tree_agent_requests finds; empty for none.';
COMMENT ON COLUMN tree_agent_runs.spec IS 'The whole request as the contract''s RunSpec; the columns beside it are for filters.';
COMMENT ON COLUMN tree_agent_runs.labels IS 'The labels of spec, for the index.';
COMMENT ON COLUMN tree_agent_runs.metrics IS 'context: {type, project_id, set_at}.';
COMMENT ON COLUMN tree_agent_runs.usage IS 'Sums over all role calls, as the contract''s Usage; an absent key is 0. Moves with head_seq.';
COMMENT ON COLUMN tree_agent_runs.head_seq IS 'Seq of the last event. Moves only in the statement that inserts the events.';
COMMENT ON COLUMN tree_agent_runs.started_at IS 'When a driver first took the run up. Moves with head_seq.';
COMMENT ON COLUMN tree_agent_runs.ended_at IS 'When the run ended. Moves with head_seq.';
COMMENT ON COLUMN tree_agent_runs.changed_at IS 'When the run was created, deleted, restored or got another status, by the clock of the database.';
COMMENT ON COLUMN tree_agent_runs.deleted_at IS 'When its user deleted the run, which hides it. Null: lists show it.';
COMMENT ON COLUMN tree_agent_runs.archived_at IS 'When everything but this row was moved to an archive. Null: it is all here.';
COMMENT ON COLUMN tree_agent_runs.archive_sha256 IS 'What the archive''s last line says of it.';
COMMENT ON COLUMN tree_agent_runs.epoch IS 'Grows by one with each claim; an append by an older epoch changes nothing.';
COMMENT ON COLUMN tree_agent_runs.lease_owner IS 'The driver that owns the run. Null: nobody does.';
COMMENT ON COLUMN tree_agent_runs.lease_expires_at IS 'Infinity: the lease is that of the driver. Otherwise when the run is free, by the clock of the database; null: now.';
COMMENT ON COLUMN tree_agent_runs.not_before IS 'A run in quarantine, or one that waits for a review: nobody claims it before this moment.';
COMMENT ON COLUMN tree_agent_runs.last_command IS 'The id of the last command that was sent to the run.';
COMMENT ON COLUMN tree_agent_runs.claimed_command IS 'last_command at the last claim. A later command lets the run be claimed in quarantine, too.';
COMMENT ON COLUMN tree_agent_runs.progress_seq IS 'The last event that records the outcome of a call. Moves with head_seq.';
COMMENT ON COLUMN tree_agent_runs.failed_seq IS 'progress_seq at the last failure or expiry: beyond it, failures and expiries count as none.';
COMMENT ON COLUMN tree_agent_runs.failures IS 'Times that the run could not be driven, in a row without progress.';
COMMENT ON COLUMN tree_agent_runs.failure IS 'Why, the last time.';
COMMENT ON COLUMN tree_agent_runs.expiries IS 'Times that the lease of its driver ended, in a row without progress.';
COMMENT ON COLUMN tree_agent_runs.parent_run_id IS 'The run that wrote the last event which a fork shares; null for other runs.';
COMMENT ON COLUMN tree_agent_runs.parent_seq IS 'That event; 0 for other runs.';
COMMENT ON COLUMN tree_agent_runs.fork_edits IS 'What a fork does differently, in words.';
COMMENT ON COLUMN tree_agent_runs.segments IS 'The parts of the log before the first event that a fork wrote, the oldest first: under which run each is stored, who wrote it, in which epoch at the most, and its last event; null for other runs.';

-- Lists. changed_at moves only with the status, which an index depends on anyway.
CREATE INDEX tree_agent_runs_live ON tree_agent_runs (created_at, id) WHERE status IN ('queued', 'running', 'paused');
CREATE INDEX tree_agent_runs_newest ON tree_agent_runs (created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_changed ON tree_agent_runs (changed_at, id);
CREATE INDEX tree_agent_runs_user ON tree_agent_runs (user_id, created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_model ON tree_agent_runs ((spec ->> 'model'), created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_projects ON tree_agent_runs USING gin (project_ids);
CREATE INDEX tree_agent_runs_labels ON tree_agent_runs USING gin (labels) WHERE labels <> '{}';
CREATE INDEX tree_agent_runs_copies ON tree_agent_runs ((spec ->> 'copyOf')) WHERE spec ? 'copyOf';
CREATE INDEX tree_agent_runs_archived ON tree_agent_runs (id) WHERE archived_at IS NOT NULL;
-- The digits of the id backwards: "ends with" is a range of these.
CREATE INDEX tree_agent_runs_id_end ON tree_agent_runs (reverse(replace(id::text, '-', '')) COLLATE "C");
-- Forks of a run, and for whoever removes a run that forks share.
CREATE INDEX tree_agent_runs_forks ON tree_agent_runs (parent_run_id, created_at DESC, id DESC) WHERE parent_run_id IS NOT NULL;
CREATE INDEX tree_agent_runs_segments ON tree_agent_runs USING gin (segments jsonb_path_ops) WHERE segments IS NOT NULL;
-- What a claim looks through: runs that nobody owns, the runs of one driver, and the few that are claimed for a command
-- although they are in quarantine. None of these grows with the runs that others drive, and appends change none of their
-- columns.
CREATE INDEX tree_agent_runs_unowned ON tree_agent_runs (not_before, created_at, id)
    WHERE status IN ('queued', 'running') AND (lease_expires_at IS NULL OR lease_expires_at < 'infinity');
CREATE INDEX tree_agent_runs_timed ON tree_agent_runs (not_before)
    WHERE status = 'paused' AND spec #> '{review,goesOnAfterMs}' IS NOT NULL;
CREATE INDEX tree_agent_runs_owned ON tree_agent_runs (lease_owner, created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND lease_expires_at = 'infinity';
CREATE INDEX tree_agent_runs_called ON tree_agent_runs (created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND last_command > claimed_command;

-- Request ids are unique for each user, across runs. A unique index on runs would keep the runs of all users in one place.
CREATE TABLE tree_agent_requests (
    user_id    text NOT NULL,
    request_id text NOT NULL,
    run_id     uuid NOT NULL,
    PRIMARY KEY (user_id, request_id)
);

COMMENT ON TABLE tree_agent_requests IS 'The run that each request created.';

-- A lease belongs to a driver, not to a run: renewing it costs the same however many runs the driver has.
CREATE TABLE tree_agent_drivers (
    id               text        PRIMARY KEY,
    term             bigint      NOT NULL,
    held_since       timestamptz NOT NULL,
    renewed_at       timestamptz NOT NULL,
    lease_expires_at timestamptz NOT NULL,
    spare            bigint      NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

COMMENT ON TABLE tree_agent_drivers IS 'One row for each incarnation of a driver. Runs name it in lease_owner.';
COMMENT ON COLUMN tree_agent_drivers.term IS 'Grows when the driver counts its runs anew. A claim of an older term takes nothing.';
COMMENT ON COLUMN tree_agent_drivers.held_since IS 'Since when the lease has been held without a break.';
COMMENT ON COLUMN tree_agent_drivers.lease_expires_at IS 'By the clock of the database. From here on others take its runs.';
COMMENT ON COLUMN tree_agent_drivers.spare IS 'Permits for role calls that its runs do not want. Others hand it runs that wait.';

-- The log by months. A run's id begins with the time at which it was made (UUID version 7), so a range of ids is a range
-- of time: each month has a partition, the primary key stays (run_id, seq), and what is archived of a month goes with its
-- partition. Ids of other kinds, and of months that nobody prepared, are taken in by the default partition.
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
) PARTITION BY RANGE (run_id);

COMMENT ON COLUMN tree_agent_events.id IS 'Derived from run, epoch and seq: tells an append that is repeated from another writer''s.';
COMMENT ON COLUMN tree_agent_events.created_at IS 'When the driver decided it; microseconds, exact.';

CREATE TABLE tree_agent_events_default PARTITION OF tree_agent_events DEFAULT;

-- The least id that a run which is made at that moment can have.
CREATE FUNCTION tree_agent_first_run_id(moment timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::int8), 12, '0') || repeat('0', 20))::uuid
$$;

-- The partitions and their ranges, from the first id to the first beyond; null for no bound.
CREATE VIEW tree_agent_event_partitions AS
    SELECT c.oid AS partition, c.relname::text AS name, b.bound = 'DEFAULT' AS is_default,
           substring(b.bound FROM 'FROM \(''([^'']+)''\)')::uuid AS from_id,
           substring(b.bound FROM 'TO \(''([^'']+)''\)')::uuid AS to_id
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) b
    WHERE i.inhparent = 'tree_agent_events'::regclass;

-- Makes the partition of the month of `moment`; false when there is one. Rows that came before it are moved into it.
CREATE FUNCTION tree_agent_make_partition(moment timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    month  timestamp := date_trunc('month', moment AT TIME ZONE 'UTC');
    first  uuid := tree_agent_first_run_id(month AT TIME ZONE 'UTC');
    beyond uuid := tree_agent_first_run_id((month + interval '1 month') AT TIME ZONE 'UTC');
    name   text := 'tree_agent_events_' || to_char(month, 'YYYY_MM');
BEGIN
    -- One at a time; any number will do.
    PERFORM pg_advisory_xact_lock(8386676005303411060);
    IF EXISTS (
        SELECT FROM tree_agent_event_partitions p WHERE NOT p.is_default
        AND (p.from_id IS NULL OR p.from_id < beyond) AND (p.to_id IS NULL OR p.to_id > first)
    ) THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE tree_agent_events INCLUDING ALL)', name);
    LOCK TABLE tree_agent_events_default IN ACCESS EXCLUSIVE MODE;
    EXECUTE format(
        'WITH moved AS (DELETE FROM tree_agent_events_default WHERE run_id >= $1 AND run_id < $2 RETURNING *) '
        'INSERT INTO %I SELECT * FROM moved', name
    ) USING first, beyond;
    EXECUTE format('ALTER TABLE tree_agent_events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, first, beyond);
    RETURN true;
END $$;

-- Makes the partitions of this month and the `months` after it; how many that were.
CREATE FUNCTION tree_agent_make_partitions(months integer) RETURNS integer
    LANGUAGE sql SET search_path FROM CURRENT AS $$
    SELECT count(*) FILTER (WHERE tree_agent_make_partition(
        (date_trunc('month', now() AT TIME ZONE 'UTC') + ahead * interval '1 month') AT TIME ZONE 'UTC'))::integer
    FROM generate_series(0, months) AS ahead
$$;

SELECT tree_agent_make_partitions(3);

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

-- An inbox holds only the commands that are not answered yet. Their ids come from the row of their run, as seq does.
CREATE TABLE tree_agent_commands (
    run_id     uuid        NOT NULL,
    id         bigint      NOT NULL,
    command    jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, id)
);

COMMENT ON TABLE tree_agent_commands IS 'Commands leave with the events that answer them, and with the end of their run.';

-- A command that can be repeated is noted with its request id, and keeps its reply for as long as its run is stored.
CREATE TABLE tree_agent_replies (
    run_id     uuid        NOT NULL,
    request_id text        NOT NULL,
    command_id bigint      NOT NULL,
    command    jsonb       NOT NULL,
    reply      jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, request_id)
);

COMMENT ON COLUMN tree_agent_replies.command_id IS 'The id that the command has, or had, in the inbox.';
COMMENT ON COLUMN tree_agent_replies.reply IS 'Written with the events of the command, or without events if it is refused; null until then.';

CREATE TABLE tree_agent_sessions (
    run_id            uuid        NOT NULL,
    id                text        COLLATE "C" NOT NULL,
    node_id           uuid        NOT NULL,
    parent_session_id text,
    messages          jsonb       NOT NULL DEFAULT '[]',
    created_at        timestamptz NOT NULL,
    PRIMARY KEY (run_id, id)
);

COMMENT ON TABLE tree_agent_sessions IS 'Conversations with a language model. A fork continues its parent''s.';
COMMENT ON COLUMN tree_agent_sessions.messages IS 'Its own messages. Those before them are the parent''s.';

-- Projects and their documents. Words that look the same are indexed the same: the program writes what is indexed.
CREATE TABLE onto_projects (
    id          uuid        PRIMARY KEY,
    name        text        NOT NULL,
    name_folded text        COLLATE "C" NOT NULL UNIQUE,
    description text        NOT NULL DEFAULT '',
    status      text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    tool_rules  jsonb       NOT NULL DEFAULT '{}',
    user_id     text        NOT NULL DEFAULT '',
    request_id  text        NOT NULL DEFAULT '',
    revision    bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz
);

COMMENT ON COLUMN onto_projects.name_folded IS 'The name in lower case, folded by the program so that every database folds alike.';
COMMENT ON COLUMN onto_projects.tool_rules IS 'The contract''s ToolRules. A key that is absent has its default.';
COMMENT ON COLUMN onto_projects.request_id IS 'The request that created the project, unique for its user; empty for none.';
COMMENT ON COLUMN onto_projects.revision IS 'Another number after each change of the project or its documents.';
COMMENT ON COLUMN onto_projects.updated_at IS 'Null: it is as it was created.';

CREATE UNIQUE INDEX onto_projects_request ON onto_projects (user_id, request_id) WHERE request_id <> '';

CREATE TABLE onto_project_members (
    project_id uuid        NOT NULL REFERENCES onto_projects (id),
    user_id    text        NOT NULL,
    role       text        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, user_id)
);

CREATE TABLE onto_sources (
    id         uuid        PRIMARY KEY,
    type_key   text        NOT NULL,
    project_id uuid        REFERENCES onto_projects (id),
    path       text        COLLATE "C" NOT NULL DEFAULT '',
    title      text        NOT NULL,
    body       text        NOT NULL,
    props      jsonb       NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

COMMENT ON TABLE onto_sources IS 'Documents of projects. Readers use onto_documents.';

CREATE UNIQUE INDEX onto_sources_path ON onto_sources (project_id, path) WHERE type_key = 'document.source';
-- Deleting a project looks for its documents, whatever they are.
CREATE INDEX onto_sources_project ON onto_sources (project_id);

-- The parts of documents that a search finds, written with each put of a document.
CREATE TABLE onto_passages (
    document_id uuid     NOT NULL REFERENCES onto_sources (id) ON DELETE CASCADE,
    ordinal     integer  NOT NULL,
    project_id  uuid,
    hash        uuid     NOT NULL,
    start_byte  bigint   NOT NULL,
    kind        text     NOT NULL,
    headings    jsonb    NOT NULL,
    body        text     NOT NULL,
    words       tsvector NOT NULL,
    PRIMARY KEY (document_id, ordinal)
);

COMMENT ON COLUMN onto_passages.hash IS 'The first half of the SHA-256 of what a model reads to tell the meaning.';
COMMENT ON COLUMN onto_passages.words IS 'The words of path, title, headings and text, as the program compares them.';

CREATE INDEX onto_passages_project ON onto_passages (project_id);
CREATE INDEX onto_passages_hash ON onto_passages (hash);
CREATE INDEX onto_passages_words ON onto_passages USING gin (words);

CREATE TABLE onto_vectors (
    hash   uuid  NOT NULL,
    model  text  NOT NULL,
    vector bytea NOT NULL,
    PRIMARY KEY (hash, model)
);

COMMENT ON TABLE onto_vectors IS 'What passages mean to a model, as signed bytes, by the hash of what it read.';

-- Triggers count revisions, so that no way of writing is missed.
CREATE FUNCTION tree_agent_count_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := OLD.revision + 1;
    RETURN NEW;
END $$;

CREATE TRIGGER onto_projects_revision BEFORE UPDATE ON onto_projects
    FOR EACH ROW EXECUTE FUNCTION tree_agent_count_change();

CREATE FUNCTION tree_agent_count_document_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE onto_projects SET revision = revision + 1
    WHERE id IN (SELECT DISTINCT project_id FROM changed WHERE project_id IS NOT NULL);
    RETURN NULL;
END $$;

-- A statement counts once, however many documents it changes.
CREATE TRIGGER onto_sources_inserted AFTER INSERT ON onto_sources REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION tree_agent_count_document_change();
CREATE TRIGGER onto_sources_updated AFTER UPDATE ON onto_sources REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION tree_agent_count_document_change();
CREATE TRIGGER onto_sources_deleted AFTER DELETE ON onto_sources REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION tree_agent_count_document_change();

-- Documents of runs, and their growth as chunks: text is only added, so that an append neither reads nor writes what is
-- there. A document is the body that it was created with and then its chunks. A document has its place in the tree of its
-- run in its own row: one place at the most, and nothing to look up when it is created with it.
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
    created_seq   bigint      NOT NULL DEFAULT 0,
    parent_id     uuid,
    linked_seq    bigint,
    linked_at     timestamptz,
    PRIMARY KEY (run_id, id)
);

COMMENT ON TABLE tree_agent_documents IS 'Scratchpads and artifacts. Readers use onto_documents.';
COMMENT ON COLUMN tree_agent_documents.body IS 'The text that the document was created with. Its chunks follow.';
COMMENT ON COLUMN tree_agent_documents.dropped_bytes IS 'Bytes that were before the body when it was written whole.';
COMMENT ON COLUMN tree_agent_documents.base_seq IS 'The chunks of later events belong to the document.';
COMMENT ON COLUMN tree_agent_documents.created_seq IS 'The first event at which its text is known.';
COMMENT ON COLUMN tree_agent_documents.parent_id IS 'The document above it; null for none.';
COMMENT ON COLUMN tree_agent_documents.linked_seq IS 'The event with which it got its place.';

-- Readers know a document by its id alone.
CREATE INDEX tree_agent_documents_id ON tree_agent_documents (id);

CREATE TABLE tree_agent_document_chunks (
    run_id      uuid        NOT NULL,
    document_id uuid        NOT NULL,
    seq         bigint      NOT NULL,
    start_byte  bigint      NOT NULL,
    body        text        NOT NULL,
    created_at  timestamptz NOT NULL,
    replaces    boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, document_id, seq)
);

COMMENT ON COLUMN tree_agent_document_chunks.seq IS 'The event with which the document grew.';
COMMENT ON COLUMN tree_agent_document_chunks.start_byte IS 'Where the chunk begins, counted from the first byte that the document ever had.';
COMMENT ON COLUMN tree_agent_document_chunks.replaces IS 'The chunk is the whole text of the document: what was before is no longer part of it.';

-- The few chunks at which a text begins. Other chunks are not in it.
CREATE INDEX tree_agent_document_replacements ON tree_agent_document_chunks (run_id, document_id, seq) WHERE replaces;

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

-- All documents as they are now. Of one that is over the limit of 1 MiB readers see the end.
CREATE VIEW onto_documents AS
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

-- The edges between documents.
CREATE VIEW onto_edges AS
    SELECT d.run_id, d.parent_id AS from_id, 'document_has_document'::text AS rel, d.id AS to_id, '{}'::jsonb AS props,
           d.linked_at AS created_at, d.linked_seq AS seq
    FROM tree_agent_documents d WHERE d.parent_id IS NOT NULL;

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
        -- A fork leaves it where it is.
        IF tree_agent_inherited_document(run, child) IS NOT NULL THEN
            RETURN;
        END IF;
        PERFORM tree_agent_refuse_place(run, child, parent, 'the run has no such document');
    ELSIF present = parent THEN
        RETURN;
    ELSIF present IS NOT NULL THEN
        PERFORM tree_agent_refuse_place(run, child, parent, 'it is below ' || present);
    ELSIF NOT EXISTS (SELECT FROM tree_agent_documents d WHERE d.run_id = run AND d.id = parent)
        AND tree_agent_inherited_document(run, parent) IS NULL THEN
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
