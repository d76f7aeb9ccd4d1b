-- The store, schema 9 (see open.rs for the way from 1 to 8). Times are milliseconds on the store's clock (see clock.rs); lengths end in _ns.
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
    instance    TEXT,                  -- the supervisor that runs it or last ran it
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
    grace       INTEGER NOT NULL DEFAULT 0, -- its lease ran out, and its holder has a little time to say so: 1 = once, 2 = again if nobody could look
    token       TEXT,                  -- of the put with an id that made it, to know it again
    scope       TEXT                   -- of a task: how its id begins, up to the service path
);

-- Payloads over 1 KB: an update of a job would write them again.
CREATE TABLE body (
    job  INTEGER PRIMARY KEY REFERENCES job (id),
    data BLOB NOT NULL
);

-- By when jobs are to begin that are dropped else. Rows of jobs that have begun go when that time comes, and no lease
-- is on the job.
CREATE TABLE unbegun (
    job INTEGER PRIMARY KEY REFERENCES job (id),
    at  INTEGER NOT NULL
);
CREATE INDEX unbegun_at ON unbegun (at);
-- Also where a process removes the job that knows schema 8 only: the next job may get the same id.
CREATE TRIGGER unbegun_removed AFTER DELETE ON job BEGIN DELETE FROM unbegun WHERE job = old.id; END;

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
PRAGMA user_version = 9;
