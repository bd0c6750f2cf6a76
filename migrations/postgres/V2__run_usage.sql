-- What a run has used so far: sums over its role calls, written with their events. Runs that were begun before get theirs
-- from their logs.

ALTER TABLE tree_agent_runs ADD COLUMN usage jsonb NOT NULL DEFAULT '{}';

COMMENT ON COLUMN tree_agent_runs.usage IS 'Sums over all role calls, as the contract''s Usage; an absent key is 0. Moves with head_seq.';

UPDATE tree_agent_runs r SET usage = u.usage
FROM (
    SELECT run_id, jsonb_build_object(
        'inputTokens', COALESCE(sum((payload ->> 'inputTokens')::numeric), 0),
        'outputTokens', COALESCE(sum((payload ->> 'outputTokens')::numeric), 0),
        'cachedTokens', COALESCE(sum((payload ->> 'cachedTokens')::numeric), 0),
        'costMicros', COALESCE(sum((payload ->> 'costMicros')::numeric), 0),
        'durationMs', COALESCE(sum((payload ->> 'durationMs')::numeric), 0),
        'modelCalls', count(*) FILTER (WHERE event_type = 'tree.usage_recorded'),
        'toolCalls', count(*) FILTER (WHERE event_type = 'tree.tool_call_requested')
    ) AS usage
    FROM tree_agent_events
    WHERE event_type IN ('tree.usage_recorded', 'tree.tool_call_requested')
    GROUP BY run_id
) u
WHERE r.id = u.run_id;
