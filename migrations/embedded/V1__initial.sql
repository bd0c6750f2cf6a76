-- The tables of migrations/postgres, for SQLite. Ids are 16-byte blobs, times are microseconds since the Unix
-- epoch, JSON is text. What a column means is said there.

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
    metrics          TEXT NOT NULL DEFAULT '{}',
    status           TEXT NOT NULL DEFAULT 'queued',
    partial          INTEGER NOT NULL DEFAULT 0,
    error            TEXT,
    root_node_id     BLOB NOT NULL,
    node_count       INTEGER NOT NULL DEFAULT 0,
    head_seq         INTEGER NOT NULL DEFAULT 0,
    epoch            INTEGER NOT NULL DEFAULT 0,
    lease_owner      TEXT,
    lease_expires_at INTEGER,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX tree_agent_runs_request ON tree_agent_runs (user_id, request_id) WHERE request_id <> '';
CREATE INDEX tree_agent_runs_live ON tree_agent_runs (created_at, id) WHERE status IN ('queued', 'running', 'paused');
CREATE INDEX tree_agent_runs_newest ON tree_agent_runs (created_at DESC, id DESC);

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
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     BLOB NOT NULL REFERENCES tree_agent_runs (id),
    command    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    handled_at INTEGER
) STRICT;

CREATE INDEX tree_agent_commands_pending ON tree_agent_commands (run_id, id) WHERE handled_at IS NULL;

CREATE TABLE tree_agent_sessions (
    id                TEXT PRIMARY KEY,
    run_id            BLOB NOT NULL REFERENCES tree_agent_runs (id),
    node_id           BLOB NOT NULL,
    parent_session_id TEXT REFERENCES tree_agent_sessions (id),
    created_at        INTEGER NOT NULL
) STRICT;

CREATE INDEX tree_agent_sessions_run ON tree_agent_sessions (run_id, node_id);

CREATE TABLE onto_projects (
    id          BLOB PRIMARY KEY,
    name        TEXT NOT NULL,
    name_folded TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL DEFAULT '',
    created_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE onto_project_members (
    project_id BLOB NOT NULL REFERENCES onto_projects (id),
    user_id    TEXT NOT NULL,
    role       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, user_id)
) STRICT;

CREATE TABLE onto_documents (
    row        INTEGER PRIMARY KEY, -- names the document in the full-text index
    id         BLOB NOT NULL UNIQUE,
    type_key   TEXT NOT NULL,
    project_id BLOB REFERENCES onto_projects (id),
    run_id     BLOB,
    path       TEXT NOT NULL DEFAULT '',
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    props      TEXT NOT NULL DEFAULT '{}',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX onto_documents_source_path ON onto_documents (project_id, path) WHERE type_key = 'document.source';
CREATE INDEX onto_documents_run ON onto_documents (run_id, path, id) WHERE run_id IS NOT NULL;

-- Words only: the text itself is in onto_documents. Holds sources, written with each put.
CREATE VIRTUAL TABLE onto_documents_search USING fts5 (
    title, path, body,
    content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 0'
);

CREATE TABLE onto_edges (
    from_id    BLOB NOT NULL,
    rel        TEXT NOT NULL,
    to_id      BLOB NOT NULL,
    props      TEXT NOT NULL DEFAULT '{}',
    created_at INTEGER NOT NULL,
    PRIMARY KEY (from_id, rel, to_id)
) STRICT;

CREATE INDEX onto_edges_to ON onto_edges (to_id, rel);
