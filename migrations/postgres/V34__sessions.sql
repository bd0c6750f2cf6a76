-- Conversations hold their own messages. Those before them are the parent's.

ALTER TABLE tree_agent_sessions
    ALTER COLUMN id TYPE text COLLATE "C",
    ADD COLUMN messages jsonb NOT NULL DEFAULT '[]';

COMMENT ON COLUMN tree_agent_sessions.messages IS 'Its own messages. Those before them are the parent''s.';
