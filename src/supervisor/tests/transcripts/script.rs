//! The language of the stories of `transcripts.rs`: parser, runner and comparison.
//!
//! A line of a script is a time in seconds and an event, or several events at that time joined by ` / `. Between the lines
//! time passes: the supervisor is woken whenever it asked to be, unless it is `stopped` until then. `fetched a` brings job `a` with fence 1 under a lease of 60 s;
//! `renewed a 500` extends that to 500 s from then on. `a#2` has fence 2, and words behind a job say what it brings:
//! `a limit=5 retries=2 attempt=2 crashes=1`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use model::{
    Bytes, Change, Class, ClassSettings, Count, Excess, Exit, ExitStatus, Failure, Fence, Fetched, Instant,
    Job, JobId, JobState, Lease, Limits, Outcome, Payload, QueueName, QueueSet, Retry, Revocation, Scale,
    Settings, Signal, Stop, Usage, Verdict, Waiting, WorkerId,
};
use taskvisor_supervisor::{Command, Event, Supervisor};

#[track_caller]
pub fn check(settings: Settings, script: &str, expected: &str) {
    let mut story = Story::new(settings);
    for line in script.lines() {
        let (time, events) = line.trim().split_once(' ').unwrap();
        let events = match events.strip_prefix("stopped / ") {
            Some(events) => {
                story.now = seconds(time);
                events
            }
            None => {
                story.pass_time_until(seconds(time));
                events
            }
        };
        for event in events.split(" / ") {
            story.tell(event);
        }
    }
    let lines: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let actual: Vec<&str> = story.transcript.lines().collect();
    assert!(
        lines == actual,
        "\n--- the transcript is\n{}--- and not\n{}",
        story.transcript,
        lines.join("\n")
    );
}

pub struct Story {
    pub supervisor: Supervisor,
    settings: Settings,
    pub now: Instant,
    pub transcript: String,
}

impl Story {
    pub fn new(settings: Settings) -> Self {
        let now = Instant::from_millis(0);
        let supervisor = Supervisor::new(settings.clone(), now);
        let mut story = Story { supervisor, settings, now, transcript: String::new() };
        story.write();
        story
    }

    pub fn pass_time_until(&mut self, until: Instant) {
        while let Some(due) = self.supervisor.poll_timeout().filter(|due| *due <= until) {
            assert!(due > self.now, "spins at {:?}", self.now);
            self.now = due;
            self.supervisor.handle_all(due, []);
            self.write();
        }
        self.now = until;
    }

    pub fn tell(&mut self, words: &str) {
        let event = self.change(words).unwrap_or_else(|| event(self.now, words));
        self.supervisor.handle(self.now, event);
        self.write();
    }

    /// Orders of a person: `reload spec=1 workers=3`, scale, pause and others.
    fn change(&mut self, words: &str) -> Option<Event> {
        let mut words = words.split_whitespace();
        let change = match words.next()? {
            "reload" => {
                let pool = &mut self.settings.pools[0];
                for (name, value) in words.filter_map(|word| word.split_once('=')) {
                    let number: u16 = value.parse().unwrap();
                    match name {
                        "spec" => pool.spec = number.into(),
                        "workers" => pool.workers = number,
                        other => panic!("a pool has no '{other}'"),
                    }
                }
                return Some(Event::Reload(self.settings.clone()));
            }
            "recycle" => Change::Recycle,
            "pause" => Change::Pause,
            "resume" => Change::Resume,
            "scale" => match words.next()? {
                by if by.starts_with(['+', '-']) => Change::Scale(Scale::By(by.parse().unwrap())),
                to => Change::Scale(Scale::To(to.parse().unwrap())),
            },
            _ => return None,
        };
        Some(Event::Change(None, change))
    }

    pub fn write(&mut self) {
        while let Some(command) = self.supervisor.next_command() {
            // Log entries: their causes and effects are in the transcript already.
            if let Command::Died { .. } = command {
                continue;
            }
            let time = short(self.now.since(Instant::from_millis(0)));
            writeln!(self.transcript, "{time} > {}", command_text(&command)).unwrap();
        }
    }
}

pub fn short(time: Duration) -> String {
    let text = format!("{:.2}", time.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').into()
}

pub fn seconds(text: &str) -> Instant {
    Instant(0) + Duration::from_secs_f64(text.parse().unwrap())
}

pub fn event(now: Instant, words: &str) -> Event {
    let words: Vec<&str> = words.split_whitespace().collect();
    let worker = || worker(words[1]);
    let lease = |at: usize| key(words[at]);
    let outcome =
        |outcome| Event::Finished { worker: worker(), job: key(words[2]).0, fence: key(words[2]).1, outcome };
    match words[0] {
        "spawned" => Event::Spawned(worker()),
        "spawn_failed" => Event::SpawnFailed(worker(), "no memory".into()),
        "ready" => Event::Ready(worker()),
        "exited" => Event::Exited {
            worker: worker(),
            exit: exit(words[2]),
            followed: words.get(3) == Some(&"followed"),
        },
        "stuck" => Event::Stuck(worker(), "in state D".into()),
        "done" => outcome(Outcome::Complete { result: None, next: None }),
        "not_begun" => outcome(Outcome::NotBegun),
        "cannot_begin" => outcome(Outcome::CannotBegin("no such program".into())),
        "failed" => outcome(Outcome::Failed(Failure {
            group: "exit 1".into(),
            message: "it returned 1".into(),
            trace: None,
        })),
        "fetched" => Event::Fetched(0, fetched(now, &words[1..])),
        of_pool if of_pool.starts_with("fetched:") => {
            Event::Fetched(of_pool["fetched:".len()..].parse().unwrap(), fetched(now, &words[1..]))
        }
        "fetch_failed" => Event::FetchFailed(0),
        "renewed" => {
            let (job, fence) = lease(1);
            let seconds = words.get(2).map_or(60, |seconds| seconds.parse().unwrap());
            Event::Renewed(Lease { job, fence, expires_at: now + Duration::from_secs(seconds) })
        }
        "renew_failed" => Event::RenewFailed(lease(1).0, lease(1).1),
        "revoked" => Event::Revoked { job: lease(1).0, fence: lease(1).1, why: revocation(words[2]) },
        "settled" => Event::Settled { job: lease(1).0, fence: lease(1).1, became: Some(JobState::Complete) },
        "not_ours" => Event::Settled { job: lease(1).0, fence: lease(1).1, became: None },
        "settle_failed" => Event::SettleFailed(lease(1).0, lease(1).1),
        "faulty" => Event::Faulty(worker(), "unknown frame 'dome'".into()),
        "exceeded" => Event::Exceeded {
            worker: worker(),
            job: key(words[2]).0,
            fence: key(words[2]).1,
            excess: excess(words[3]),
        },
        "stands" => stands(worker(), words.get(2)),
        "outgrown" => Event::Outgrown(worker()),
        "leaving" => Event::Leaving(worker(), "its code has changed".into()),
        "knows" => Event::Knows(0, Arc::new(words[1..].iter().map(|word| class(word)).collect())),
        "waiting" => Event::Waiting(0, words[1] == "yes"),
        "woken" if words.len() == 1 => Event::Woken(QueueSet::All),
        "woken" => Event::Woken(QueueSet::Only(words[1..].iter().map(|word| (*word).into()).collect())),
        "resized" => Event::Resized(words[1].into(), words[2].parse().unwrap()),
        "counted" => Event::Counted(words[1..].iter().map(|word| counted(word)).collect()),
        "idle" => Event::Idle(None),
        "idle_but" => Event::Idle(Some(words[1..].join(" "))),
        "stop" => Event::Stop(stop(words[1])),
        other => panic!("no event is called '{other}'"),
    }
}

/// A count is written as `queue=7`.
fn counted(text: &str) -> (QueueName, Waiting) {
    let (queue, jobs) = text.split_once('=').unwrap();
    (queue.into(), Waiting { jobs: jobs.parse().unwrap(), age: None })
}

/// A class is written as `mail` or `mail:limit=5,retries=2`.
pub fn class(text: &str) -> (Class, ClassSettings) {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let number = |name| settings.split(',').find_map(|word| word.strip_prefix(name)?.parse::<u32>().ok());
    let time = number("limit=").map(|limit| Duration::from_secs(limit.into()));
    let limits = Limits { time, ..Limits::default() };
    (name.into(), ClassSettings { limits, retries: number("retries="), ..ClassSettings::default() })
}

/// Workers are written as 1.2: the slot and the generation in it.
pub fn worker(text: &str) -> WorkerId {
    text.parse().unwrap()
}

pub fn key(text: &str) -> (JobId, Fence) {
    let (job, fence) = text.split_once('#').unwrap_or((text, "1"));
    (JobId::from(job), Fence(fence.parse().unwrap()))
}

pub fn exit(text: &str) -> Exit {
    let status = match text {
        "killed" | "oom" | "oom-at-bound" => ExitStatus::Signal { signal: 9, core: false },
        "11" | "15" => ExitStatus::Signal { signal: text.parse().unwrap(), core: false },
        code => ExitStatus::Code(code.parse().unwrap()),
    };
    let (oom, oom_at_bound) = (text.starts_with("oom"), text == "oom-at-bound");
    Exit { status, usage: Usage::default(), left_behind: 0, oom, oom_at_bound, proof: Duration::ZERO }
}

fn stands(worker: WorkerId, stood: Option<&&str>) -> Event {
    let since = stood.map(|stood| seconds(stood).since(Instant(0)));
    Event::Stands { worker, stood: since.unwrap_or_default(), since }
}

pub fn excess(text: &str) -> Excess {
    match text {
        "memory" => Excess::Memory(512, 640),
        "processes" => Excess::Processes(9, 10),
        "cpu" => Excess::Cpu(Duration::from_secs(1), Duration::from_secs(2)),
        "output" => Excess::Output(512, 640),
        other => panic!("there is no limit of '{other}'"),
    }
}

pub fn revocation(text: &str) -> Revocation {
    let all = [Revocation::LockLost, Revocation::Canceled, Revocation::Moved, Revocation::RenewRefused];
    all.into_iter().find(|why| why.as_str() == text).unwrap()
}

pub fn stop(text: &str) -> Stop {
    match text {
        "drain" => Stop::Drain,
        "terminate" => Stop::Terminate,
        "kill" => Stop::Kill,
        other => panic!("no stage is called '{other}'"),
    }
}

pub fn fetched(now: Instant, words: &[&str]) -> Vec<Fetched> {
    let mut jobs: Vec<(Job, Fence)> = Vec::new();
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            let (id, fence) = key(word);
            jobs.push((job(id), fence));
            continue;
        };
        let (job, _) = jobs.last_mut().unwrap();
        match name {
            "class" => job.class = value.into(),
            "queue" => job.queue = value.into(),
            "limit" => job.time_limit = Some(Duration::from_secs(value.parse().unwrap())),
            "retries" => job.retry = Some(Retry { retries: value.parse().unwrap(), ..Retry::CLASS }),
            "attempt" => job.attempt = value.parse().unwrap(),
            "crashes" => job.crashes = value.parse().unwrap(),
            "interrupted" => job.interrupted = value.parse().unwrap(),
            "unknown" => job.unknown = value.parse().unwrap(),
            other => panic!("a job has no '{other}'"),
        }
    }
    let expires_at = now + Duration::from_secs(60);
    let fetched = |(job, fence): (Job, Fence)| {
        let lease = Lease { job: job.id.clone(), fence, expires_at };
        Fetched { job: Arc::new(job), lease, waited: None }
    };
    jobs.into_iter().map(fetched).collect()
}

pub fn job(id: JobId) -> Job {
    Job {
        id,
        queue: QueueName::from("default"),
        class: Class::from("mail"),
        payload: Payload::Data(Bytes::from("{}")),
        priority: 0,
        tags: Vec::new(),
        attempt: 1,
        crashes: 0,
        interrupted: 0,
        unknown: 0,
        retry: None,
        time_limit: None,
    }
}

pub fn command_text(command: &Command) -> String {
    let id = |worker: &WorkerId| worker.to_string();
    match command {
        Command::Spawn(worker) => format!("spawn {worker}"),
        Command::Fork(worker, template) => format!("fork {worker} from {template}"),
        Command::AskWaiting(..) => "ask whether jobs wait".into(),
        Command::Assign { worker, job, .. } => format!("assign {worker} {}", job.id),
        Command::Cancel { worker, job, why } => format!("cancel {worker} {job} ({why})"),
        Command::Signal { worker, signal: Signal::Term, why } => format!("term {worker} ({why})"),
        Command::Signal { worker, signal: Signal::Kill, why } => format!("kill {worker} ({why})"),
        Command::KillAt(worker, Some(at)) => format!("kill_at {worker} {}", short(at.since(Instant(0)))),
        Command::Follow(worker, ..) => format!("follow {worker}"),
        Command::KillAt(worker, None) => format!("kill_at {worker} never"),
        Command::Fetch { workers, queues, filter, .. } => {
            let only: String = filter.only.iter().map(|class| format!(" {class}")).collect();
            let only = if only.is_empty() { only } else { format!(" only{only}") };
            let queues = queues.iter().map(QueueName::to_string).collect::<Vec<_>>().join(" ");
            let from = if queues == "default" { String::new() } else { format!(" from {queues}") };
            format!("fetch {}{from}{only}", workers.iter().map(id).collect::<Vec<_>>().join(" "))
        }
        Command::Renew(leases) => {
            let leases = leases.iter().map(|lease| name(&lease.job, lease.fence));
            format!("renew {}", leases.collect::<Vec<_>>().join(" "))
        }
        Command::Settle(settlement) => {
            let job = name(&settlement.job, settlement.fence);
            let crashed = if settlement.crashed { ", crash +1" } else { "" };
            format!("settle {job} {}{crashed}", verdict_text(&settlement.verdict))
        }
        Command::AskIdle(_, unknown) => {
            let but = unknown.iter().map(|class| format!(" but {class}"));
            format!("ask whether idle{}", but.collect::<String>())
        }
        Command::GiveUp(why) => format!("give up {why:?}"),
        Command::LeaseLost { job, fence, why } => format!("drop {} ({why})", name(job, *fence)),
        Command::VerdictUnconfirmed { job, fence, verdict } => {
            format!("untold {} {verdict}", name(job, *fence))
        }
        Command::LeftAlive { worker, jobs, .. } => {
            let jobs: Vec<&str> = jobs.iter().map(JobId::as_str).collect();
            format!("left alive {worker} {}", jobs.join(" "))
        }
        Command::Equip(number, pool) => {
            format!("equip {number} {} spec={} workers={}", pool.name, pool.spec, pool.workers)
        }
        Command::Died { worker, why, .. } => format!("died {worker} ({why})"),
        Command::Exit => "exit".into(),
    }
}

pub fn name(job: &JobId, fence: Fence) -> String {
    if fence == Fence(1) { job.to_string() } else { format!("{job}#{fence}") }
}

pub fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Complete { .. } => "complete".into(),
        Verdict::Retry { after, failure } => {
            format!("retry after {} ({})", short(*after), short_failure(failure))
        }
        Verdict::Fail { failure } => format!("failed ({})", short_failure(failure)),
        Verdict::Release { after, counts: Some(Count::Interrupted) } => {
            format!("released after {}, interrupted", short(*after))
        }
        Verdict::Release { after, counts: Some(Count::Stopped) } => {
            format!("released after {}, stopped", short(*after))
        }
        Verdict::Release { after, counts: Some(Count::UnknownClass) } => {
            format!("released after {}, unknown", short(*after))
        }
        Verdict::Release { after, counts: None } => format!("released after {}", short(*after)),
        Verdict::Hold { failure } => format!("held ({})", short_failure(failure)),
        Verdict::Canceled => "canceled".into(),
    }
}

/// The failure group is enough, except for a fault.
fn short_failure(failure: &Failure) -> &str {
    if failure.group == "fault" { &failure.message } else { &failure.group }
}
