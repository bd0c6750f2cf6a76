-- What migrations/postgres/V41 does.

ALTER TABLE onto_projects ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;

CREATE TRIGGER onto_projects_revision AFTER UPDATE OF name, description, status, tool_rules, updated_at ON onto_projects
BEGIN
    UPDATE onto_projects SET revision = revision + 1 WHERE id = NEW.id;
END;

CREATE TRIGGER onto_sources_inserted AFTER INSERT ON onto_sources
BEGIN
    UPDATE onto_projects SET revision = revision + 1 WHERE id = NEW.project_id;
END;

CREATE TRIGGER onto_sources_updated AFTER UPDATE ON onto_sources
BEGIN
    UPDATE onto_projects SET revision = revision + 1 WHERE id = NEW.project_id;
END;

CREATE TRIGGER onto_sources_deleted AFTER DELETE ON onto_sources
BEGIN
    UPDATE onto_projects SET revision = revision + 1 WHERE id = OLD.project_id;
END;
