-- What schema 7 brought: how many jobs there are of each scope (job.scope) in each state. A row goes when it counts none.
-- The triggers of scope_triggers.sql keep it; they come with the first task.
CREATE TABLE scope (
    name  TEXT NOT NULL,
    state INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (name, state)
) WITHOUT ROWID;
