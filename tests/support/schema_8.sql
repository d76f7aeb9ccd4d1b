-- The store, schema 8 (see open.rs for the way from 1 to 7). Times are milliseconds on the store's clock (see clock.rs); lengths end in _ns.
-- States: 0 waiting, 1 delayed, 2 running, 3 canceling, 4 complete, 5 failed, 6 held, 7 canceled,
-- 8 depends.

-- Turns the host's boot-time clock into the store's: store time = time since boot + ahead.
CREATE TABLE boot (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id TEXT NOT NULL,             -- the boot `ahead` was reckoned for
    ahead   INTEGER NOT NULL,
    seen    INTEGER NOT NULL,          -- a store time that has been reached: time never goes back behind it
    puts    INTEGER NOT NULL DEFAULT 0,  -- those of queues that are removed: see `queue`
    changes INTEGER NOT NULL DEFAULT 0   -- the same, and those of no queue
);

-- Queues are made by the first put or pause and stay. The counters change in the transaction that changes the jobs.
CREATE TABLE queue (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE,
    paused_at INTEGER,                 -- NULL = not paused
    paused_by TEXT,
    reason    TEXT,
    waiting   INTEGER NOT NULL DEFAULT 0,
    delayed   INTEGER NOT NULL DEFAULT 0,
    running   INTEGER NOT NULL DEFAULT 0,
    canceling INTEGER NOT NULL DEFAULT 0,
    complete  INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0,
    held      INTEGER NOT NULL DEFAULT 0,
    canceled  INTEGER NOT NULL DEFAULT 0,
    depends   INTEGER NOT NULL DEFAULT 0,
    puts      INTEGER NOT NULL DEFAULT 0,  -- jobs that were ever put into it
    changes   INTEGER NOT NULL DEFAULT 0   -- commits that changed its jobs: what count.rs compares
);

-- Ascending ids are the order of insertion, which a job keeps for life.
CREATE TABLE job (
    id          INTEGER PRIMARY KEY,
    jid         TEXT NOT NULL UNIQUE,
    queue       INTEGER NOT NULL REFERENCES queue (id),
    state       INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    fence       INTEGER NOT NULL DEFAULT 0,
    attempt     INTEGER NOT NULL DEFAULT 0,
    crashes     INTEGER NOT NULL DEFAULT 0,
    interrupted INTEGER NOT NULL DEFAULT 0,
    unknown     INTEGER NOT NULL DEFAULT 0,  -- how often no worker knew its class
    put_at      INTEGER NOT NULL,
    put_by      TEXT,
    due_at      INTEGER,               -- only while delayed; of a complete job, while not all that need it have been told
    expires_at  INTEGER,               -- only while running or canceling
    renewals    INTEGER NOT NULL DEFAULT 0,  -- of the latest lease
    renewed_at  INTEGER,
    started_at  INTEGER,
    ended_at    INTEGER,
    instance    TEXT,                  -- only while running or canceling
    worker      INTEGER,               -- which life of which slot runs it or last ran it, as the keeper knows it
    pool        TEXT,                  -- the name of that slot's pool; NULL = not known
    class       TEXT NOT NULL,
    kind        INTEGER NOT NULL,      -- of the payload: 0 data as it was put, 1 a program as JSON
    payload     BLOB,                  -- NULL = in `body`
    tags        TEXT,                  -- JSON, NULL = none
    retries     INTEGER,               -- NULL = as the pool says
    delay_ns    INTEGER,
    cap_ns      INTEGER,
    limit_ns    INTEGER,
    progress    TEXT,                  -- JSON
    result      TEXT,
    failure     TEXT,                  -- JSON
    forensics   TEXT,                  -- JSON
    failure_group TEXT,                -- only while failed or held
    not_before  INTEGER,               -- only while it depends on others: when it is due after them
    ready_at    INTEGER,               -- since when it waits, if not since its put
    recurring   INTEGER,               -- which recurring job made it
    grace       INTEGER NOT NULL DEFAULT 0, -- 1 = its lease ran out, and its holder has a little time to say so
    token       TEXT,                  -- of the put with an id that made it, to know it again
    scope       TEXT                   -- of a task: how its id begins, up to the service path
);

-- Payloads over 1 KB: an update of a job would write them again.
CREATE TABLE body (
    job  INTEGER PRIMARY KEY REFERENCES job (id),
    data BLOB NOT NULL
);

-- What happened to jobs: attempts that did not complete them, and what people did. The latest 100 of each.
CREATE TABLE history (
    id    INTEGER PRIMARY KEY,
    job   INTEGER NOT NULL REFERENCES job (id),
    entry TEXT NOT NULL                -- JSON
);
CREATE INDEX history_job ON history (job, id);

-- What makes a fetch among a million jobs cost what it costs among ten.
CREATE INDEX job_waiting ON job (queue, priority DESC, id) WHERE state = 0;
CREATE INDEX job_due ON job (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX job_expiry ON job (expires_at) WHERE expires_at IS NOT NULL;
-- `list` of what went wrong, newest first. Not of the common states: each index is a page more to write in each cycle.
CREATE INDEX job_odd ON job (state, id) WHERE state >= 5;

-- How the jobs of each class fared, by day (of the wall clock, UTC). Times in milliseconds.
CREATE TABLE class_day (
    day      INTEGER NOT NULL,         -- days since 1970
    class    TEXT NOT NULL,            -- '' = all classes after the first 100 of the day
    complete INTEGER NOT NULL,
    retries  INTEGER NOT NULL,
    failed   INTEGER NOT NULL,
    held     INTEGER NOT NULL,
    ran      INTEGER NOT NULL,
    longest  INTEGER NOT NULL,
    measured INTEGER NOT NULL,         -- attempts of which the next two are known
    cpu      INTEGER NOT NULL,
    peak_rss INTEGER NOT NULL,         -- bytes
    PRIMARY KEY (day, class)
) WITHOUT ROWID;

PRAGMA application_id = 0x7461736b;
PRAGMA user_version = 8;
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
-- What schema 7 brought: how many jobs there are of each scope (job.scope) in each state. A row goes when it counts none.
-- The triggers of scope_triggers.sql keep it; they come with the first task.
CREATE TABLE scope (
    name  TEXT NOT NULL,
    state INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (name, state)
) WITHOUT ROWID;
