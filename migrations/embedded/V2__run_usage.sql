-- What a run has used so far: sums over its role calls, written with their events, as the contract's Usage; an absent key
-- is 0. Runs that were begun before get theirs from their logs.

ALTER TABLE tree_agent_runs ADD COLUMN usage TEXT NOT NULL DEFAULT '{}';

UPDATE tree_agent_runs SET usage = (
    SELECT json_object(
        'inputTokens', COALESCE(sum(payload ->> 'inputTokens'), 0),
        'outputTokens', COALESCE(sum(payload ->> 'outputTokens'), 0),
        'cachedTokens', COALESCE(sum(payload ->> 'cachedTokens'), 0),
        'costMicros', COALESCE(sum(payload ->> 'costMicros'), 0),
        'durationMs', COALESCE(sum(payload ->> 'durationMs'), 0),
        'modelCalls', count(*) FILTER (WHERE event_type = 'tree.usage_recorded'),
        'toolCalls', count(*) FILTER (WHERE event_type = 'tree.tool_call_requested')
    )
    FROM tree_agent_events
    WHERE run_id = tree_agent_runs.id AND event_type IN ('tree.usage_recorded', 'tree.tool_call_requested')
);
