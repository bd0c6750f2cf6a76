-- The tables of migrations/postgres, for SQLite. Ids are 16-byte blobs, times are microseconds since the Unix
-- epoch, JSON is text. What a column means is said there. There are no partitions; the program follows the segments of
-- forks itself, and refuses places that a document cannot have.

CREATE TABLE tree_agent_runs (
    id               BLOB PRIMARY KEY,
    user_id          TEXT NOT NULL DEFAULT '',
    request_id       TEXT NOT NULL DEFAULT '',
    objective        TEXT NOT NULL,
    objective_folded TEXT NOT NULL, -- lower case by the program: SQLite folds ASCII only
    spec             TEXT NOT NULL,
    strategy         TEXT NOT NULL,
    scope            TEXT NOT NULL CHECK (scope IN ('global', 'project', 'multi_project')),
    project_ids      TEXT NOT NULL DEFAULT '[]',
    labels           TEXT NOT NULL DEFAULT '{}',
    metrics          TEXT NOT NULL DEFAULT '{}',
    status           TEXT NOT NULL DEFAULT 'queued',
    partial          INTEGER NOT NULL DEFAULT 0,
    error            TEXT,
    root_node_id     BLOB NOT NULL,
    node_count       INTEGER NOT NULL DEFAULT 0,
    usage            TEXT NOT NULL DEFAULT '{}',
    head_seq         INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    started_at       INTEGER,
    ended_at         INTEGER,
    changed_at       INTEGER NOT NULL DEFAULT 0,
    deleted_at       INTEGER,
    archived_at      INTEGER,
    archive_sha256   TEXT,
    -- Who drives it. A lease_expires_at of 9223372036854775807 stands for infinity, and a not_before of 0 for the
    -- beginning of time.
    epoch            INTEGER NOT NULL DEFAULT 0,
    lease_owner      TEXT,
    lease_expires_at INTEGER,
    not_before       INTEGER NOT NULL DEFAULT 0,
    last_command     INTEGER NOT NULL DEFAULT 0,
    claimed_command  INTEGER NOT NULL DEFAULT 0,
    progress_seq     INTEGER NOT NULL DEFAULT 0,
    failed_seq       INTEGER NOT NULL DEFAULT 0,
    failures         INTEGER NOT NULL DEFAULT 0,
    failure          TEXT,
    expiries         INTEGER NOT NULL DEFAULT 0,
    -- What it forks.
    parent_run_id    BLOB,
    parent_seq       INTEGER NOT NULL DEFAULT 0,
    fork_edits       TEXT NOT NULL DEFAULT '[]',
    segments         TEXT
) STRICT;

CREATE INDEX tree_agent_runs_live ON tree_agent_runs (created_at, id) WHERE status IN ('queued', 'running', 'paused');
CREATE INDEX tree_agent_runs_newest ON tree_agent_runs (created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_changed ON tree_agent_runs (changed_at, id);
CREATE INDEX tree_agent_runs_user ON tree_agent_runs (user_id, created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_model ON tree_agent_runs (spec ->> 'model', created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_copies ON tree_agent_runs (spec ->> '$.copyOf') WHERE spec ->> '$.copyOf' IS NOT NULL;
CREATE INDEX tree_agent_runs_forks ON tree_agent_runs (parent_run_id, created_at DESC, id DESC) WHERE parent_run_id IS NOT NULL;
CREATE INDEX tree_agent_runs_unowned ON tree_agent_runs (not_before, created_at, id)
    WHERE status IN ('queued', 'running') AND (lease_expires_at IS NULL OR lease_expires_at < 9223372036854775807);
CREATE INDEX tree_agent_runs_owned ON tree_agent_runs (lease_owner, created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND lease_expires_at = 9223372036854775807;
CREATE INDEX tree_agent_runs_called ON tree_agent_runs (created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND last_command > claimed_command;

CREATE TABLE tree_agent_requests (
    user_id    TEXT NOT NULL,
    request_id TEXT NOT NULL,
    run_id     BLOB NOT NULL,
    PRIMARY KEY (user_id, request_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tree_agent_drivers (
    id               TEXT PRIMARY KEY,
    term             INTEGER NOT NULL,
    held_since       INTEGER NOT NULL,
    renewed_at       INTEGER NOT NULL,
    lease_expires_at INTEGER NOT NULL,
    spare            INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE tree_agent_events (
    run_id         BLOB NOT NULL,
    seq            INTEGER NOT NULL,
    id             BLOB NOT NULL,
    node_id        BLOB NOT NULL,
    parent_node_id BLOB,
    event_type     TEXT NOT NULL,
    payload        TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tree_agent_nodes (
    run_id            BLOB NOT NULL,
    id                BLOB NOT NULL,
    parent_node_id    BLOB,
    title             TEXT NOT NULL,
    reason            TEXT NOT NULL,
    success_criteria  TEXT NOT NULL,
    band_index        INTEGER,
    step_index        INTEGER,
    depth             INTEGER NOT NULL,
    status            TEXT NOT NULL,
    role_state        TEXT NOT NULL,
    scratchpad_doc_id BLOB,
    started_at        INTEGER,
    ended_at          INTEGER,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tree_agent_plans (
    run_id     BLOB NOT NULL,
    id         BLOB NOT NULL,
    node_id    BLOB NOT NULL,
    version    INTEGER NOT NULL,
    plan_json  TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tree_agent_artifacts (
    run_id        BLOB NOT NULL,
    id            BLOB NOT NULL,
    node_id       BLOB NOT NULL,
    artifact_type TEXT NOT NULL,
    document_id   BLOB,
    json_payload  TEXT,
    is_primary    INTEGER NOT NULL,
    label         TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tree_agent_commands (
    run_id     BLOB NOT NULL,
    id         INTEGER NOT NULL,
    command    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tree_agent_replies (
    run_id     BLOB NOT NULL,
    request_id TEXT NOT NULL,
    command_id INTEGER NOT NULL,
    command    TEXT NOT NULL,
    reply      TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, request_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tree_agent_sessions (
    run_id            BLOB NOT NULL,
    id                TEXT NOT NULL,
    node_id           BLOB NOT NULL,
    parent_session_id TEXT,
    messages          TEXT NOT NULL DEFAULT '[]',
    created_at        INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE onto_projects (
    id          BLOB PRIMARY KEY,
    name        TEXT NOT NULL,
    name_folded TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL DEFAULT '',
    status      TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    tool_rules  TEXT NOT NULL DEFAULT '{}',
    user_id     TEXT NOT NULL DEFAULT '',
    request_id  TEXT NOT NULL DEFAULT '',
    revision    INTEGER NOT NULL DEFAULT 1,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER
) STRICT;

CREATE UNIQUE INDEX onto_projects_request ON onto_projects (user_id, request_id) WHERE request_id <> '';

CREATE TABLE onto_project_members (
    project_id BLOB NOT NULL REFERENCES onto_projects (id),
    user_id    TEXT NOT NULL,
    role       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, user_id)
) STRICT;

CREATE TABLE onto_sources (
    id         BLOB NOT NULL PRIMARY KEY,
    type_key   TEXT NOT NULL,
    project_id BLOB REFERENCES onto_projects (id),
    path       TEXT NOT NULL DEFAULT '',
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    props      TEXT NOT NULL DEFAULT '{}',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX onto_sources_path ON onto_sources (project_id, path) WHERE type_key = 'document.source';
CREATE INDEX onto_sources_project ON onto_sources (project_id);

-- The parts of documents that a search finds, written with each put of a document.
CREATE TABLE onto_passages (
    row         INTEGER PRIMARY KEY, -- names the passage in the full-text index
    document_id BLOB NOT NULL REFERENCES onto_sources (id) ON DELETE CASCADE,
    ordinal     INTEGER NOT NULL,
    project_id  BLOB,
    hash        BLOB NOT NULL,
    start_byte  INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    headings    TEXT NOT NULL,
    body        TEXT NOT NULL,
    UNIQUE (document_id, ordinal)
) STRICT;

CREATE INDEX onto_passages_project ON onto_passages (project_id);
CREATE INDEX onto_passages_hash ON onto_passages (hash);

-- Words only, as the program compares them: the text itself is in onto_passages.
CREATE VIRTUAL TABLE onto_passages_search USING fts5 (
    words, content = '', contentless_delete = 1, tokenize = 'ascii'
);

CREATE TRIGGER onto_passages_deleted AFTER DELETE ON onto_passages
BEGIN
    DELETE FROM onto_passages_search WHERE rowid = OLD.row;
END;

-- What passages mean to a model, by the hash of what it read.
CREATE TABLE onto_vectors (
    hash   BLOB NOT NULL,
    model  TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (hash, model)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER onto_projects_revision AFTER UPDATE OF name, description, status, tool_rules, updated_at ON onto_projects
BEGIN
    UPDATE onto_projects SET revision = revision + 1 WHERE id = NEW.id;
END;

CREATE TRIGGER onto_sources_inserted AFTER INSERT ON onto_sources
BEGIN
    UPDATE onto_projects SET revision = revision + 1 WHERE id = NEW.project_id;
END;

CREATE TRIGGER onto_sources_updated AFTER UPDATE ON onto_sources
BEGIN
    UPDATE onto_projects SET revision = revision + 1 WHERE id = NEW.project_id;
END;

CREATE TRIGGER onto_sources_deleted AFTER DELETE ON onto_sources
BEGIN
    UPDATE onto_projects SET revision = revision + 1 WHERE id = OLD.project_id;
END;

-- Long texts are the last columns: SQLite reads a row from its beginning.
CREATE TABLE tree_agent_documents (
    run_id        BLOB NOT NULL,
    id            BLOB NOT NULL,
    type_key      TEXT NOT NULL,
    path          TEXT NOT NULL DEFAULT '',
    title         TEXT NOT NULL,
    props         TEXT NOT NULL DEFAULT '{}',
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    dropped_bytes INTEGER NOT NULL DEFAULT 0,
    base_seq      INTEGER NOT NULL,
    created_seq   INTEGER NOT NULL DEFAULT 0,
    parent_id     BLOB,
    linked_seq    INTEGER,
    linked_at     INTEGER,
    body          TEXT NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT;

CREATE INDEX tree_agent_documents_id ON tree_agent_documents (id);

CREATE TABLE tree_agent_document_chunks (
    run_id      BLOB NOT NULL,
    document_id BLOB NOT NULL,
    seq         INTEGER NOT NULL,
    start_byte  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    replaces    INTEGER NOT NULL DEFAULT 0,
    body        TEXT NOT NULL,
    PRIMARY KEY (run_id, document_id, seq)
) STRICT;

CREATE INDEX tree_agent_document_replacements ON tree_agent_document_chunks (run_id, document_id, seq) WHERE replaces;

-- SQLite has no function that cuts text at a byte: the end of a document over the limit is cut as a blob, behind the rest of
-- a character.
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
                       WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq AND c.replaces
                       ORDER BY c.seq DESC LIMIT 1) AS replaced_seq,
                   (SELECT c.start_byte FROM tree_agent_document_chunks c
                       WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq AND c.replaces
                       ORDER BY c.seq DESC LIMIT 1) AS origin
            FROM tree_agent_documents d
        ) p
    ) t;

CREATE VIEW onto_edges AS
    SELECT d.run_id, d.parent_id AS from_id, 'document_has_document' AS rel, d.id AS to_id, '{}' AS props,
           d.linked_at AS created_at, d.linked_seq AS seq
    FROM tree_agent_documents d WHERE d.parent_id IS NOT NULL;
