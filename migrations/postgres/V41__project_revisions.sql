-- A number that tells whether anything of a project has changed: the project or a document of it. Triggers count, so
-- that no way of writing is missed.

ALTER TABLE onto_projects ADD COLUMN revision int8 NOT NULL DEFAULT 1;

COMMENT ON COLUMN onto_projects.revision IS 'Another number after each change of the project or its documents.';

CREATE FUNCTION tree_agent_count_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := OLD.revision + 1;
    RETURN NEW;
END $$;

CREATE TRIGGER onto_projects_revision BEFORE UPDATE ON onto_projects
    FOR EACH ROW EXECUTE FUNCTION tree_agent_count_change();

CREATE FUNCTION tree_agent_count_document_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE onto_projects SET revision = revision + 1
    WHERE id IN (SELECT DISTINCT project_id FROM changed WHERE project_id IS NOT NULL);
    RETURN NULL;
END $$;

-- A statement counts once, however many documents it changes.
CREATE TRIGGER onto_sources_inserted AFTER INSERT ON onto_sources REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION tree_agent_count_document_change();
CREATE TRIGGER onto_sources_updated AFTER UPDATE ON onto_sources REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION tree_agent_count_document_change();
CREATE TRIGGER onto_sources_deleted AFTER DELETE ON onto_sources REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION tree_agent_count_document_change();
