-- Count the tasks in the transactions that change them. SQLite runs a trigger for each row that changes, also where its WHEN is
-- false, so a store has these only once it has a task.

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
