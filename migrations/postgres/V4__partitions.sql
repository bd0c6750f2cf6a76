-- The log by months. A run's id begins with the time at which it was made (UUID version 7), so a range of ids is a range
-- of time: each month has a partition, the primary key stays (run_id, seq), and what is archived of a month goes with its
-- partition. Ids of other kinds, and of months that nobody prepared, are taken in by the default partition.

ALTER TABLE tree_agent_runs ADD COLUMN archived_at timestamptz, ADD COLUMN archive_sha256 text;

COMMENT ON COLUMN tree_agent_runs.archived_at IS 'When everything but this row was moved to an archive. Null: it is all here.';
COMMENT ON COLUMN tree_agent_runs.archive_sha256 IS 'What the archive''s last line says of it.';

CREATE INDEX tree_agent_runs_archived ON tree_agent_runs (id) WHERE archived_at IS NOT NULL;

-- The least id that a run which is made at that moment can have.
CREATE FUNCTION tree_agent_first_run_id(moment timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::int8), 12, '0') || repeat('0', 20))::uuid
$$;

ALTER TABLE tree_agent_events RENAME TO tree_agent_events_before;
ALTER INDEX tree_agent_events_pkey RENAME TO tree_agent_events_before_pkey;

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

-- What is there already becomes the first partition, as it is: nothing is copied but rows with later ids.
DO $$
DECLARE
    month  timestamp := date_trunc('month', now() AT TIME ZONE 'UTC');
    beyond uuid;
BEGIN
    IF EXISTS (SELECT FROM tree_agent_events_before) THEN
        month := month + interval '1 month';
    END IF;
    beyond := tree_agent_first_run_id(month AT TIME ZONE 'UTC');
    WITH moved AS (DELETE FROM tree_agent_events_before WHERE run_id >= beyond RETURNING *)
    INSERT INTO tree_agent_events_default SELECT * FROM moved;
    EXECUTE format(
        'ALTER TABLE tree_agent_events ATTACH PARTITION tree_agent_events_before FOR VALUES FROM (MINVALUE) TO (%L)', beyond
    );
    PERFORM tree_agent_make_partitions(3);
END $$;
