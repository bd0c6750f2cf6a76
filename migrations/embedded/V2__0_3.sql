-- What 0.3.0 adds.

-- The head of the table whose rows it holds, if that stands further above.
ALTER TABLE onto_passages ADD COLUMN head TEXT NOT NULL DEFAULT '';

-- In the order in which the vectors of a project are read.
DROP INDEX onto_passages_project;
CREATE INDEX onto_passages_project ON onto_passages (project_id, document_id, ordinal);

-- Texts of passages that wait for a vector.
CREATE TABLE onto_pending (
    hash       BLOB    NOT NULL PRIMARY KEY,
    held_until INTEGER NOT NULL DEFAULT 0 -- until then it is the work of whoever took it
) STRICT, WITHOUT ROWID;

CREATE INDEX onto_pending_held ON onto_pending (held_until);

-- How often vectors of a model were written.
CREATE TABLE onto_vector_models (
    model    TEXT    NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Its version, and which services answer it.
ALTER TABLE tree_agent_drivers ADD COLUMN about TEXT NOT NULL DEFAULT '{}';

-- What a user is a member of.
CREATE INDEX onto_project_members_user ON onto_project_members (user_id);

-- Whoever made a project owns it.
INSERT INTO onto_project_members (project_id, user_id, role, created_at)
SELECT id, user_id, 'owner', created_at FROM onto_projects WHERE user_id <> '' ON CONFLICT DO NOTHING;
