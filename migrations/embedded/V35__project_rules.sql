-- What migrations/postgres/V35 does.

ALTER TABLE onto_projects ADD COLUMN status TEXT NOT NULL DEFAULT 'active';
ALTER TABLE onto_projects ADD COLUMN tool_rules TEXT NOT NULL DEFAULT '{}';
ALTER TABLE onto_projects ADD COLUMN updated_at INTEGER;

CREATE INDEX onto_sources_project ON onto_sources (project_id);

CREATE INDEX tree_agent_runs_copies ON tree_agent_runs (spec ->> '$.copyOf') WHERE spec ->> '$.copyOf' IS NOT NULL;
