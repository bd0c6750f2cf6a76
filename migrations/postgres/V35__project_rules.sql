-- Projects can change: their status, and what tools may do in them.

ALTER TABLE onto_projects
    ADD COLUMN status     text  NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    ADD COLUMN tool_rules jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN updated_at timestamptz;

COMMENT ON COLUMN onto_projects.tool_rules IS 'The contract''s ToolRules. A key that is absent has its default.';
COMMENT ON COLUMN onto_projects.updated_at IS 'Null: it is as it was created.';

-- Deleting a project looks for its documents, whatever they are.
CREATE INDEX onto_sources_project ON onto_sources (project_id);

-- The runs that are copies of another run.
CREATE INDEX tree_agent_runs_copies ON tree_agent_runs ((spec ->> 'copyOf')) WHERE spec ? 'copyOf';
