"""The types of the API's answers: made from docs/openapi.json by the tests; at run time dicts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, Optional, Union

    from typing_extensions import NotRequired, TypedDict

    #: An action on many jobs.
    Act = Literal["retry", "discard"]

    #: A status by which clients find tasks.
    AskedStatus = Literal["pending", "succeeded", "failed"]

    #: Bytes of the API.
    Bytes = Union[str, dict[str, Any]]

    #: What kind of job it is (qless's klass).
    Class = str

    #: Why an unspent attempt is counted all the same.
    Count = Literal["interrupted", "stopped", "unknown_class"]

    #: Five fields.
    Cron = str

    #: A day of Greenwich, counted from the first of 1970; 2026-11-21 where people read it.
    Day = str

    #: Nothing to say.
    Done = dict[str, Any]

    #: The action of a put for a job whose id exists.
    Exists = Literal["refuse", "skip"]

    #: The token that proves a lease.
    Fence = int

    #: Whether a pool runs a class.
    Fit = Literal["runs", "filtered", "unknown"]

    #: The weight of a finding.
    Fitness = Literal["ok", "less", "bad"]

    #: The verdict of status -q.
    Health = Literal["healthy", "degraded", "unhealthy"]

    #: One state directory, and so one supervisor at a time.
    Instance = str

    #: A job's id (jid).
    JobId = str

    #: The state of a job.
    JobState = Literal["waiting", "delayed", "depends", "running", "canceling", "complete", "failed", "held", "canceled"]

    #: Kind of the API.
    Kind = Literal["attempt", "canceled", "retried", "edited", "advanced", "noted"]

    #: The action on an occurrence while the latest job has not ended.
    Overlap = Literal["skip", "allow"]

    #: The name of a queue.
    QueueName = str

    #: What a series is about.
    SeriesBy = Literal["queue", "class"]

    #: The length of a step, and with it how far a series goes back.
    SeriesStep = Literal["10s", "1m"]

    #: The signals of the kill ladder.
    Signal = Literal["TERM", "KILL"]

    #: A slot as POOL.N, e.g.
    SlotName = str

    #: The states of a slot.
    SlotState = Literal["down", "starting", "ready", "busy", "stopping", "killed", "unkillable"]

    #: How to end.
    Stop = Literal["drain", "terminate", "kill"]

    #: A stream of a process.
    Stream = Literal["stdout", "stderr"]

    #: Where a task is in its life.
    TaskStatus = Literal["pending", "succeeded", "failed", "unknown"]

    #: The kinds of news.
    What = Literal["put", "fetched", "complete", "advanced", "released", "failed", "held", "again", "canceling", "canceled", "retried", "edited", "removed", "lock_lost", "started", "ready", "asked", "killed", "exited", "paused", "resumed", "scaled", "recycled", "reloaded", "reload_refused", "option", "stopping", "health", "lost", "ended"]

    class Attempt(TypedDict):
        """One attempt, from the lease to what became of the job."""

        attempt: int
        crashed: NotRequired[bool]
        due_at: NotRequired[str]
        due_at_ms: NotRequired[int]
        failure: NotRequired[Optional[Failure]]
        fence: Fence
        forensics: NotRequired[Optional[Forensics]]
        instance: NotRequired[Optional[Instance]]
        renewals: NotRequired[int]
        renewed_at: NotRequired[str]
        renewed_at_ms: NotRequired[int]
        started_at: NotRequired[str]
        started_at_ms: NotRequired[int]
        state: JobState
        unspent: NotRequired[Optional[Count]]
        worker: NotRequired[Optional[WorkerName]]

    #: The result for a stretch of jobs.
    BulkAnswer = TypedDict("BulkAnswer", {
        "count": 'int',
        "from": 'NotRequired[list[str]]',
        "jobs": 'list[JobId]',
        "needed": 'int',
        "next": 'NotRequired[Optional[int]]',
        "unread": 'NotRequired[int]',
    })

    class CancelAnswer(TypedDict):
        """The result for one of the jobs that were named."""

        job: JobId
        told_worker: NotRequired[Optional[str]]
        state: NotRequired[JobState]
        refused: NotRequired[Refusal2]

    #: A setting that is not what it was.
    Changed = TypedDict("Changed", {
        "from": 'str',
        "pool": 'NotRequired[Optional[str]]',
        "setting": 'str',
        "to": 'str',
    })

    #: How the jobs of a class fared on a day.
    ClassDay = TypedDict("ClassDay", {
        "class": 'NotRequired[Optional[Class]]',
        "complete": 'int',
        "cpu": 'float',
        "day": 'Day',
        "failed": 'int',
        "held": 'int',
        "longest": 'float',
        "measured": 'int',
        "peak_rss": 'int',
        "ran": 'float',
        "retries": 'int',
    })

    class ConfigShown(TypedDict):
        """All settings by their full names, such as log.level."""

        file: NotRequired[Optional[str]]
        pools: list[dict[str, SettingShown]]
        schema: str
        settings: dict[str, SettingShown]

    class DeadWorker(TypedDict):
        """A worker that died with several jobs."""

        how: str
        ran: float
        worker: WorkerName

    class Decision(TypedDict):
        """One decision, or the fact that led to one."""

        ago: float
        what: str

    class Diagnosis(TypedDict):
        """What the machine lacks."""

        checks: list[Finding]
        schema: str
        well: bool

    class Ended(TypedDict):
        """The end of a job, or the reason why it is unknown."""

        code: NotRequired[Optional[int]]
        error: NotRequired[Optional[str]]
        job: JobId
        record: NotRequired[Optional[Job]]
        state: NotRequired[Optional[JobState]]

    #: When jobs ended.
    Ends = TypedDict("Ends", {
        "canceled": 'list[int]',
        "complete": 'list[int]',
        "failed": 'list[int]',
        "from": 'str',
        "from_ms": 'int',
        "step": 'float',
    })

    class Exec(TypedDict):
        """A program with what was captured around it when it was put."""

        argv: list[Bytes]
        cwd: Bytes
        stdin: NotRequired[Bytes]
        umask: str

    class Exit(TypedDict):
        """The proven end of a life."""

        left_behind: int
        oom: bool
        oom_at_bound: NotRequired[bool]
        proof: float
        status: ExitStatus
        usage: Usage

    class ExitStatus(TypedDict):
        """How a process ended."""

        code: NotRequired[Optional[int]]
        core_dumped: NotRequired[bool]
        signal: NotRequired[Optional[int]]

    class Failure(TypedDict):
        """Why an attempt did not complete."""

        group: str
        message: str
        trace: NotRequired[Optional[str]]

    class FailureGroup(TypedDict):
        """Jobs whose failures have one name."""

        failed: int
        group: str
        held: int
        job: JobId
        message: str
        newest_at: str
        newest_at_ms: int

    class Finding(TypedDict):
        """The result of one check."""

        effect: NotRequired[str]
        found: str
        name: str
        remedy: NotRequired[str]
        state: Fitness

    class FirstFailure(TypedDict):
        """A job that failed or is held."""

        group: str
        job: JobId
        message: str

    class Fleet(TypedDict):
        """All supervisors that have given a sign of life, and have neither stopped nor been silent for a day."""

        now: str
        now_ms: int
        schema: str
        supervisors: list[Member]

    class Flood(TypedDict):
        """The output of an attempt that prints more than its log keeps."""

        dropped: int
        printed: int

    class Forensics(TypedDict):
        """How an attempt ended."""

        cpu: NotRequired[Optional[float]]
        died_before: NotRequired[Optional[DeadWorker]]
        ended_at: NotRequired[str]
        ended_at_ms: NotRequired[int]
        exit: NotRequired[Optional[Exit]]
        left: NotRequired[list[str]]
        oom_kills: NotRequired[Optional[int]]
        output_dropped: NotRequired[int]
        ran: float
        shared: NotRequired[bool]
        signals: NotRequired[list[SignalSent]]
        snapshot: NotRequired[Optional[Snapshot]]
        stderr_tail: NotRequired[str]
        worker: NotRequired[Optional[WorkerName]]

    class Here(TypedDict):
        """A supervisor is here; its broker."""

        broker: NotRequired[Optional[str]]

    class HistoryEntry(TypedDict):
        """Something that happened to a job and is over."""

        at: NotRequired[str]
        at_ms: NotRequired[int]
        attempt: NotRequired[Optional[Attempt]]
        by: NotRequired[Optional[str]]
        from_queue: NotRequired[Optional[QueueName]]
        from_state: NotRequired[Optional[JobState]]
        kind: Kind
        reason: NotRequired[Optional[str]]
        result: NotRequired[Any]
        result_bytes: NotRequired[Optional[int]]
        to_queue: NotRequired[Optional[QueueName]]
        what: NotRequired[Optional[str]]

    class Host(TypedDict):
        """The machine, in short."""

        cpus: int
        load: float
        memory_total: int
        memory_used: int
        name: str

    #: A job.
    Job = TypedDict("Job", {
        "attempt": 'int',
        "begin_by": 'NotRequired[str]',
        "begin_by_ms": 'NotRequired[int]',
        "class": 'Class',
        "crashes": 'int',
        "data": 'NotRequired[Any]',
        "dead_letter": 'NotRequired[Optional[str]]',
        "dependents": 'NotRequired[list[JobId]]',
        "depends": 'NotRequired[list[Need]]',
        "due_at": 'NotRequired[str]',
        "due_at_ms": 'NotRequired[int]',
        "ended_at": 'NotRequired[str]',
        "ended_at_ms": 'NotRequired[int]',
        "exec": 'NotRequired[Optional[Exec]]',
        "expires_at": 'NotRequired[str]',
        "expires_at_ms": 'NotRequired[int]',
        "failure": 'NotRequired[Optional[Failure]]',
        "fence": 'Fence',
        "forensics": 'NotRequired[Optional[Forensics]]',
        "history": 'NotRequired[list[HistoryEntry]]',
        "holder": 'NotRequired[Optional[str]]',
        "id": 'JobId',
        "instance": 'NotRequired[Optional[Instance]]',
        "interruptions": 'int',
        "priority": 'int',
        "progress": 'NotRequired[Optional[Progress]]',
        "put_at": 'str',
        "put_at_ms": 'int',
        "put_by": 'NotRequired[Optional[str]]',
        "queue": 'QueueName',
        "raw": 'NotRequired[Optional[Bytes]]',
        "recurring": 'NotRequired[Optional[str]]',
        "renewals": 'NotRequired[int]',
        "renewed_at": 'NotRequired[str]',
        "renewed_at_ms": 'NotRequired[int]',
        "result": 'NotRequired[Any]',
        "retries": 'NotRequired[Optional[int]]',
        "retry_cap": 'NotRequired[Optional[float]]',
        "retry_delay": 'NotRequired[Optional[float]]',
        "started_at": 'NotRequired[str]',
        "started_at_ms": 'NotRequired[int]',
        "state": 'JobState',
        "tags": 'list[str]',
        "time_limit": 'NotRequired[Optional[float]]',
        "title": 'NotRequired[Optional[str]]',
        "tracked": 'NotRequired[bool]',
        "unknown_class": 'NotRequired[int]',
        "worker": 'NotRequired[Optional[WorkerName]]',
    })

    class JobCounts(TypedDict):
        """How many jobs a filter selects, and how far they are."""

        ended_at: NotRequired[str]
        ended_at_ms: NotRequired[int]
        ended_in_minute: NotRequired[int]
        ends: NotRequired[Ends]
        failures: NotRequired[list[FirstFailure]]
        more: NotRequired[bool]
        put_at: NotRequired[str]
        put_at_ms: NotRequired[int]
        states: dict[str, int]

    class LatestJob(TypedDict):
        """The latest job of a recurring job."""

        due_at: str
        due_at_ms: int
        id: JobId
        state: JobState

    class LogStatus(TypedDict):
        """What of the logs was lost, and what is in the way of more."""

        lines_dropped: int
        output_bytes: NotRequired[int]
        output_dropped: int
        troubles: list[str]

    class Member(TypedDict):
        """A supervisor of the fleet."""

        host: NotRequired[str]
        instance: NotRequired[str]
        jobs: NotRequired[list[MemberJob]]
        pools: NotRequired[list[PoolSign]]
        running: NotRequired[int]
        seen_at: NotRequired[str]
        seen_at_ms: NotRequired[int]
        silent: NotRequired[bool]
        started_at: NotRequired[str]
        started_at_ms: NotRequired[int]
        stopping: NotRequired[Optional[Stop]]
        version: NotRequired[str]

    #: A job that runs somewhere.
    MemberJob = TypedDict("MemberJob", {
        "class": 'Class',
        "id": 'JobId',
        "started_at": 'NotRequired[str]',
        "started_at_ms": 'NotRequired[int]',
    })

    class Need(TypedDict):
        """A job that another one needs."""

        job: JobId
        state: JobState

    #: A job to be put.
    NewJob = TypedDict("NewJob", {
        "class": 'Class',
        "data": 'NotRequired[Any]',
        "delay": 'NotRequired[float]',
        "depends": 'NotRequired[list[JobId]]',
        "exec": 'NotRequired[Optional[Exec]]',
        "exists": 'NotRequired[Exists]',
        "expires": 'NotRequired[Optional[float]]',
        "id": 'NotRequired[Optional[JobId]]',
        "priority": 'NotRequired[int]',
        "queue": 'QueueName',
        "raw": 'NotRequired[Optional[Bytes]]',
        "retries": 'NotRequired[Optional[int]]',
        "retry_cap": 'NotRequired[Optional[float]]',
        "retry_delay": 'NotRequired[Optional[float]]',
        "tags": 'NotRequired[list[str]]',
        "time_limit": 'NotRequired[Optional[float]]',
        "token": 'NotRequired[Optional[str]]',
    })

    class Number(TypedDict):
        """A number of jobs."""

        count: int

    #: A series of this supervisor since its start; what has happened on other hosts is not in it.
    OneSeries = TypedDict("OneSeries", {
        "begun": 'list[int]',
        "busy": 'list[int]',
        "class": 'NotRequired[Optional[Class]]',
        "complete": 'list[int]',
        "failed": 'list[int]',
        "put": 'list[int]',
        "queue": 'NotRequired[Optional[QueueName]]',
        "run_p50": 'list[Optional[float]]',
        "run_p95": 'list[Optional[float]]',
        "wait_p50": 'list[Optional[float]]',
        "wait_p95": 'list[Optional[float]]',
        "waiting": 'list[Optional[int]]',
    })

    class OptionShown(TypedDict):
        """An option in force."""

        does: str
        is_set: bool
        name: str
        queue: NotRequired[Optional[QueueName]]
        value: str

    class Options(TypedDict):
        """Options as they are kept in a file."""

        all: NotRequired[dict[str, str]]
        others: NotRequired[dict[str, str]]
        queues: NotRequired[dict[str, dict[str, str]]]

    class Ordered(TypedDict):
        """An order of a person about a pool."""

        by: str
        since: str
        since_ms: int

    class OutputEnd(TypedDict):
        """The end of the output, as far as there is one."""

        elsewhere: NotRequired[Optional[Instance]]
        next: int
        removed_until: NotRequired[Optional[Union[str, int]]]
        state: JobState

    #: A line of the answer.
    OutputLine = TypedDict("OutputLine", {
        "at": 'NotRequired[str]',
        "at_ms": 'NotRequired[int]',
        "attempt": 'NotRequired[Optional[int]]',
        "from": 'NotRequired[int]',
        "stream": 'NotRequired[Optional[Stream]]',
        "text": 'NotRequired[Bytes]',
        "elsewhere": 'NotRequired[Optional[Instance]]',
        "next": 'NotRequired[int]',
        "removed_until": 'NotRequired[Optional[Union[str, int]]]',
        "state": 'NotRequired[JobState]',
    })

    #: A part of the output.
    OutputPart = TypedDict("OutputPart", {
        "at": 'str',
        "at_ms": 'int',
        "attempt": 'NotRequired[Optional[int]]',
        "from": 'int',
        "stream": 'NotRequired[Optional[Stream]]',
        "text": 'Bytes',
    })

    class PageStatus(TypedDict):
        """The page for browsers, a process of its own beside the supervisor."""

        pid: NotRequired[Optional[int]]
        restarts: NotRequired[int]
        url: NotRequired[Optional[str]]

    class Pause(TypedDict):
        """A pause of a queue or of a pool."""

        by: str
        reason: NotRequired[Optional[str]]
        since: str
        since_ms: int

    class Picture(TypedDict):
        """What the processes of a running job do now."""

        at: str
        at_ms: int
        job: JobId
        left_out: NotRequired[int]
        others: int
        processes: list[SnapshotProcess]
        strangers: NotRequired[list[int]]
        worker: WorkerName

    class PoolFit(TypedDict):
        """A pool, and what it makes of the class of the job that was asked about."""

        concurrency: NotRequired[int]
        fit: Fit
        grace: NotRequired[float]
        mode: str
        name: str
        outdated: NotRequired[bool]
        pause: NotRequired[Optional[Pause]]
        paused: NotRequired[bool]
        probing: NotRequired[Optional[str]]
        queues: list[QueueName]
        recycled: NotRequired[Optional[Ordered]]
        scaled: NotRequired[Optional[int]]
        scaled_by: NotRequired[Optional[Ordered]]
        slots: list[SlotStatus]
        suspect: NotRequired[Optional[JobId]]
        template: NotRequired[Optional[SlotStatus]]
        time_of_day: NotRequired[Optional[TimedSize]]
        unknown_classes: NotRequired[dict[str, int]]
        user: NotRequired[Optional[str]]

    class PoolNow(TypedDict):
        """State of a pool after an order."""

        paused: bool
        pool: str
        workers: int
        workers_before: int

    class PoolSign(TypedDict):
        """A pool in numbers."""

        busy: int
        classes: NotRequired[list[Class]]
        mode: str
        name: str
        paused: NotRequired[bool]
        queues: list[QueueName]
        ready: int
        slots: int

    class PoolStatus(TypedDict):
        """The state of one pool."""

        concurrency: NotRequired[int]
        grace: NotRequired[float]
        mode: str
        name: str
        outdated: NotRequired[bool]
        pause: NotRequired[Optional[Pause]]
        paused: NotRequired[bool]
        probing: NotRequired[Optional[str]]
        queues: list[QueueName]
        recycled: NotRequired[Optional[Ordered]]
        scaled: NotRequired[Optional[int]]
        scaled_by: NotRequired[Optional[Ordered]]
        slots: list[SlotStatus]
        suspect: NotRequired[Optional[JobId]]
        template: NotRequired[Optional[SlotStatus]]
        time_of_day: NotRequired[Optional[TimedSize]]
        unknown_classes: NotRequired[dict[str, int]]
        user: NotRequired[Optional[str]]

    class PoolsNow(TypedDict):
        """What holds after an order, for each pool that it concerns."""

        pools: NotRequired[list[PoolNow]]

    class Process(TypedDict):
        """A process as /proc shows it."""

        children: NotRequired[list[Process]]
        cpu: float
        cut: NotRequired[bool]
        name: str
        pid: int
        rss: int
        state: str

    class Progress(TypedDict):
        """Progress of a job, as its worker reports it."""

        fraction: NotRequired[Optional[float]]
        message: NotRequired[Optional[str]]

    #: Something that has just happened to a job, to a worker or to the whole, or that somebody has ordered.
    PublishedEvent = TypedDict("PublishedEvent", {
        "at": 'str',
        "at_ms": 'int',
        "before": 'NotRequired[Optional[Health]]',
        "by": 'NotRequired[Optional[str]]',
        "class": 'NotRequired[Optional[Class]]',
        "count": 'NotRequired[Optional[int]]',
        "health": 'NotRequired[Optional[Health]]',
        "job": 'NotRequired[Optional[JobId]]',
        "kind": 'What',
        "n": 'int',
        "pool": 'NotRequired[Optional[str]]',
        "queue": 'NotRequired[Optional[QueueName]]',
        "state": 'NotRequired[Optional[JobState]]',
        "tags": 'NotRequired[list[str]]',
        "why": 'NotRequired[Optional[str]]',
        "worker": 'NotRequired[Optional[WorkerName]]',
    })

    #: What is known to keep jobs of a put from running.
    PutNote = TypedDict("PutNote", {
        "class": 'NotRequired[Optional[Class]]',
        "hint": 'NotRequired[Optional[str]]',
        "note": 'str',
        "queue": 'QueueName',
    })

    class QueueCounts(TypedDict):
        """Jobs of one queue by state, and whether it is paused."""

        jobs: dict[str, int]
        max_concurrency: NotRequired[Optional[int]]
        oldest_waiting_at: NotRequired[str]
        oldest_waiting_at_ms: NotRequired[int]
        paused: NotRequired[Optional[Pause]]
        today: NotRequired[Today]
        unserved: NotRequired[bool]

    class QueueDay(TypedDict):
        """Statistics of a queue on a day."""

        day: Day
        failed: int
        failures: int
        queue: QueueName
        retries: int
        run: Times
        wait: Times

    class Queued(TypedDict):
        """Jobs that were put."""

        ids: list[JobId]
        notes: NotRequired[list[PutNote]]
        unserved: NotRequired[list[QueueName]]

    class Ready(TypedDict):
        """The answer of GET /readyz."""

        degraded: NotRequired[list[str]]

    class Recurring(TypedDict):
        """A recurring job as it is put."""

        backlog: NotRequired[int]
        catch_up: NotRequired[float]
        job: NewJob
        name: str
        overlap: NotRequired[Overlap]
        schedule: Schedule

    class RecurringRecord(TypedDict):
        """What is known of a recurring job."""

        count: int
        latest: NotRequired[Optional[LatestJob]]
        missed_at: NotRequired[str]
        missed_at_ms: NotRequired[int]
        next_at: NotRequired[str]
        next_at_ms: NotRequired[int]
        paused: NotRequired[Optional[Pause]]
        put_at: str
        put_at_ms: int
        put_by: str
        recurring: Recurring
        skipped: int
        stuck: NotRequired[Optional[str]]
        then_at: NotRequired[list[str]]
        then_at_ms: NotRequired[list[int]]

    class Refusal(TypedDict):
        """Every answer that is not 2xx."""

        error: str
        hint: NotRequired[Optional[str]]
        in_doubt: NotRequired[list[int]]
        put: NotRequired[list[Optional[JobId]]]

    class Refusal2(TypedDict):
        """Why a job was left as it is."""

        why: NotRequired[Literal["no_job"]]
        state: NotRequired[JobState]
        jobs: NotRequired[list[JobId]]

    class Reloaded(TypedDict):
        """Settings that were read again."""

        changed: NotRequired[list[Changed]]
        file: NotRequired[Optional[str]]
        pools: dict[str, str]

    #: A job under way.
    RunningJob = TypedDict("RunningJob", {
        "alone": 'NotRequired[bool]',
        "attempt": 'int',
        "class": 'Class',
        "died_before": 'NotRequired[Optional[DeadWorker]]',
        "ending": 'NotRequired[Optional[str]]',
        "flood": 'NotRequired[Optional[Flood]]',
        "id": 'JobId',
        "progress": 'NotRequired[Optional[Progress]]',
        "ran": 'float',
        "stopped": 'NotRequired[Optional[float]]',
        "time_limit": 'NotRequired[Optional[float]]',
        "title": 'str',
    })

    class Schedule(TypedDict):
        """When a recurring job is due."""

        every: NotRequired[dict[str, Any]]
        cron: NotRequired[dict[str, Any]]

    #: A setting with its value.
    SettingShown = TypedDict("SettingShown", {
        "from": 'str',
        "hidden": 'bool',
        "value": 'Any',
    })

    class SignalSent(TypedDict):
        """A signal we sent, and why."""

        after: float
        signal: Signal
        why: str

    class SlotStatus(TypedDict):
        """The state of one slot."""

        age: float
        failing: NotRequired[bool]
        generation: int
        jobs: list[RunningJob]
        leaving: NotRequired[Optional[str]]
        preloaded: NotRequired[list[str]]
        process: NotRequired[Optional[Process]]
        remaining: NotRequired[Optional[float]]
        restarts: int
        slot: SlotName
        state: SlotState
        trace: NotRequired[Optional[str]]
        waiting_jobs: NotRequired[list[JobId]]
        warning: NotRequired[Optional[str]]
        why: NotRequired[Optional[str]]

    class Snapshot(TypedDict):
        """A worker's processes as /proc showed them just before they were ended for a limit."""

        left_out: NotRequired[int]
        processes: list[SnapshotProcess]

    class SnapshotProcess(TypedDict):
        """One process in a snapshot."""

        cpu: float
        depth: int
        files: NotRequired[Optional[int]]
        name: str
        open: NotRequired[list[str]]
        pid: int
        rss: int
        stacks: NotRequired[Optional[str]]
        state: str
        syscall: NotRequired[Optional[int]]
        threads: int
        wchan: NotRequired[Optional[str]]

    class State(TypedDict):
        """The state of a job after a request."""

        state: JobState

    class Status(TypedDict):
        """The whole picture."""

        broker: str
        broker_trouble: NotRequired[Optional[str]]
        health: Health
        host: Host
        keeper: Process
        logs: NotRequired[LogStatus]
        pools: list[PoolStatus]
        queues: dict[str, QueueCounts]
        queues_age: NotRequired[Optional[float]]
        reasons: list[str]
        schema: str
        settled: dict[str, int]
        stop_timeout: NotRequired[float]
        stopping: NotRequired[Optional[Stop]]
        store_bytes: NotRequired[Optional[int]]
        supervisor: Process
        supervisor_last_end: NotRequired[Optional[str]]
        supervisor_restarts: int
        uptime: float
        version: str
        web: NotRequired[Optional[PageStatus]]

    class Sum(TypedDict):
        """Sum of durations."""

        count: int
        seconds: float

    class Tags(TypedDict):
        """The tags of a job."""

        tags: list[str]

    class Taken(TypedDict):
        """A notification that was taken in."""

        kept: NotRequired[bool]
        task_id: JobId

    class Task(TypedDict):
        """A task, whole."""

        input: NotRequired[Optional[TaskInput]]
        runtime: TaskRuntime

    class TaskInput(TypedDict):
        """The data of a task's job."""

        fiware_correlator: NotRequired[Optional[str]]
        fiware_service: str
        fiware_service_path: str
        payload: list[Any]

    class TaskRuntime(TypedDict):
        """What has become of a task."""

        errors: list[str]
        retries_left: NotRequired[Optional[int]]
        status: TaskStatus
        task_id: str
        task_type: str

    #: The answer of GET /v1/series.
    TimeSeries = TypedDict("TimeSeries", {
        "from": 'str',
        "from_ms": 'int',
        "now": 'str',
        "now_ms": 'int',
        "series": 'list[OneSeries]',
        "step": 'float',
    })

    class TimedSize(TypedDict):
        """The size of a pool by the time of day, as it is shown."""

        next_at: str
        next_at_ms: int
        next_workers: int
        workers: NotRequired[Optional[int]]

    class Times(TypedDict):
        """Statistics of a duration, in seconds."""

        count: int
        histogram: dict[str, Any]
        mean: float
        std: float

    class Today(TypedDict):
        """Counts of a queue since midnight (UTC)."""

        failed: int
        failures: int
        retries: int
        run: Sum
        wait: Sum

    class Usage(TypedDict):
        """What the processes of one life used."""

        max_rss: int
        system: float
        user: float

    class Version(TypedDict):
        """The version of the program that answers."""

        version: str

    class Why(TypedDict):
        """The facts about it."""

        before: NotRequired[Optional[int]]
        broker_concerns: NotRequired[list[str]]
        broker_trouble: NotRequired[Optional[str]]
        decisions: list[Decision]
        job: NotRequired[Optional[Job]]
        known: NotRequired[list[Class]]
        pools: list[PoolFit]
        queues: dict[str, QueueCounts]
        queues_age: NotRequired[Optional[float]]
        slot: NotRequired[Optional[SlotName]]
        snapshot: NotRequired[Optional[Snapshot]]
        stopping: NotRequired[Optional[Stop]]

    class WorkerName(TypedDict):
        """One life in a slot as people know it."""

        generation: int
        slot: SlotName

if not TYPE_CHECKING:
    def __getattr__(name):
        """Every answer is a dict, and its parts are what JSON has."""
        if name.startswith("_"):
            raise AttributeError(name)
        return dict
