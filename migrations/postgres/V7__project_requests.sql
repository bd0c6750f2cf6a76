-- A request id belongs to the user who sent it: two users may use the same one.
ALTER TABLE onto_projects ADD COLUMN user_id text NOT NULL DEFAULT '';
ALTER TABLE onto_projects ADD COLUMN request_id text NOT NULL DEFAULT '';
CREATE UNIQUE INDEX onto_projects_request ON onto_projects (user_id, request_id) WHERE request_id <> '';
