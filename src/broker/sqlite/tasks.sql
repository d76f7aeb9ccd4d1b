-- What schema 7 brought: tasks are counted by whose they are. A job that is none costs nothing more.

-- How many jobs there are of each scope (job.scope) in each state; a row goes when it counts none.
CREATE TABLE scope (
    name  TEXT NOT NULL,
    state INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (name, state)
) WITHOUT ROWID;

CREATE TRIGGER scope_put AFTER INSERT ON job WHEN new.scope IS NOT NULL BEGIN
    INSERT INTO scope VALUES (new.scope, new.state, 1) ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER scope_moved AFTER UPDATE OF state ON job WHEN new.scope IS NOT NULL AND new.state <> old.state BEGIN
    INSERT INTO scope VALUES (new.scope, new.state, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    UPDATE scope SET count = count - 1 WHERE name = old.scope AND state = old.state;
    DELETE FROM scope WHERE name = old.scope AND state = old.state AND count <= 0;
END;
CREATE TRIGGER scope_gone AFTER DELETE ON job WHEN old.scope IS NOT NULL BEGIN
    UPDATE scope SET count = count - 1 WHERE name = old.scope AND state = old.state;
    DELETE FROM scope WHERE name = old.scope AND state = old.state AND count <= 0;
END;
