-- What migrations/postgres/V34 does.

ALTER TABLE tree_agent_sessions ADD COLUMN messages TEXT NOT NULL DEFAULT '[]';
