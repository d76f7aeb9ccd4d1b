-- What schema 4 brought: the rest of the job model.

-- What went wrong, by its group.
CREATE INDEX job_group ON job (failure_group, id) WHERE failure_group IS NOT NULL;

-- A job waits for those it needs: a row goes when the one it needs is complete.
CREATE TABLE dependency (
    job   INTEGER NOT NULL REFERENCES job (id),
    needs INTEGER NOT NULL REFERENCES job (id),
    PRIMARY KEY (job, needs)
) WITHOUT ROWID;
CREATE INDEX dependency_needs ON dependency (needs, job);

-- The tags of jobs, once more: to find jobs by them.
CREATE TABLE tag (
    tag TEXT NOT NULL,
    job INTEGER NOT NULL REFERENCES job (id),
    PRIMARY KEY (tag, job)
) WITHOUT ROWID;

-- Jobs that somebody wants to follow.
CREATE TABLE tracked (
    job INTEGER PRIMARY KEY REFERENCES job (id),
    at  INTEGER NOT NULL
);

-- Jobs that are put again and again. The row of one that was removed keeps its count: no id is used twice.
CREATE TABLE recurring (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE,
    queue     INTEGER NOT NULL REFERENCES queue (id),
    spec      TEXT NOT NULL,           -- JSON: the schedule, the policies, the job
    removed   INTEGER NOT NULL DEFAULT 0,
    put_at    INTEGER NOT NULL,
    put_by    TEXT NOT NULL,
    by_wall   INTEGER NOT NULL,        -- 1 = next_at is on the wall clock (cron), 0 = on the store's
    next_at   INTEGER,                 -- NULL = never again
    count     INTEGER NOT NULL DEFAULT 0,
    skipped   INTEGER NOT NULL DEFAULT 0,
    missed_at INTEGER,
    latest    INTEGER,                 -- the job it made last
    paused_at INTEGER,                 -- NULL = not paused; it stays due when it was
    paused_by TEXT
);
CREATE INDEX recurring_next ON recurring (by_wall, next_at) WHERE next_at IS NOT NULL AND paused_at IS NULL;

-- Options that differ from their defaults; queue '' = for all.
CREATE TABLE option (
    queue TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;

-- How long jobs waited and ran, by queue and day (of the wall clock, UTC).
CREATE TABLE statistic (
    queue     INTEGER NOT NULL REFERENCES queue (id),
    day       INTEGER NOT NULL,        -- days since 1970
    kind      INTEGER NOT NULL,        -- 0 wait, 1 run
    count     INTEGER NOT NULL,
    mean      REAL NOT NULL,           -- seconds
    m2        REAL NOT NULL,           -- sum of the squared differences from the mean
    histogram TEXT NOT NULL,           -- JSON: how many in each bucket that has any
    PRIMARY KEY (queue, day, kind)
) WITHOUT ROWID;

-- What went wrong, by queue and day.
CREATE TABLE tally (
    queue    INTEGER NOT NULL REFERENCES queue (id),
    day      INTEGER NOT NULL,
    retries  INTEGER NOT NULL DEFAULT 0,  -- attempts that failed and were tried again
    failures INTEGER NOT NULL DEFAULT 0,  -- jobs that failed, ever
    failed   INTEGER NOT NULL DEFAULT 0,  -- those of them that still are
    PRIMARY KEY (queue, day)
) WITHOUT ROWID;
