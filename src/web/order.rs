//! An order of a reader: what it is called, and the command line that does the same.

use model::verb::{Act, Bulk};
use model::{JobRecord, JobState, Payload, format_duration};

use crate::form::Fields;
use crate::json::Redact;
use crate::text::{names, of_class, option};

/// What a reader can order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// Puts these jobs back to waiting.
    Retry(Vec<String>),
    /// Forgets these jobs.
    Discard(Vec<String>),
    /// Ends these jobs.
    Cancel(Vec<String>),
    /// Puts a job like this one, with other data.
    Again(String),
    /// Follows a job, or no more.
    Track(String, bool),
    /// Gives a job another priority.
    Prioritize(String),
    /// Puts back or forgets all jobs that match.
    Bulk(Bulk),
    /// Changes a queue, a pool or a recurring job.
    Of {
        /// What kind it is.
        thing: Thing,
        /// What is done.
        deed: Deed,
        /// How it is called.
        name: String,
    },
}

/// What a name is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    /// A queue of jobs.
    Queue,
    /// A pool of workers.
    Pool,
    /// A recurring job.
    Recurring,
}

/// What is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It rests until it is resumed.
    Pause,
    /// It goes on again.
    Resume,
    /// A pool gets new workers.
    Recycle,
    /// A pool gets more or fewer.
    Scale,
    /// A recurring job is put now.
    Run,
    /// A recurring job recurs no more.
    Remove,
    /// A recurring job gets another schedule, or other data.
    Edit,
    /// A queue without jobs leaves the lists.
    Forget,
    /// A queue gets options of its own.
    Set,
}

/// The orders about a queue, a pool or a recurring job, by their names in forms.
const DEEDS: [(&str, Thing, Deed); 13] = [
    ("recur-edit", Thing::Recurring, Deed::Edit),
    ("queue-pause", Thing::Queue, Deed::Pause),
    ("queue-resume", Thing::Queue, Deed::Resume),
    ("queue-forget", Thing::Queue, Deed::Forget),
    ("queue-set", Thing::Queue, Deed::Set),
    ("pool-pause", Thing::Pool, Deed::Pause),
    ("pool-resume", Thing::Pool, Deed::Resume),
    ("pool-recycle", Thing::Pool, Deed::Recycle),
    ("pool-scale", Thing::Pool, Deed::Scale),
    ("recur-run", Thing::Recurring, Deed::Run),
    ("recur-pause", Thing::Recurring, Deed::Pause),
    ("recur-resume", Thing::Recurring, Deed::Resume),
    ("recur-remove", Thing::Recurring, Deed::Remove),
];

impl Deed {
    /// The word on its button.
    fn word(self) -> &'static str {
        match self {
            Deed::Pause => "Pause",
            Deed::Resume => "Resume",
            Deed::Recycle => "Recycle",
            Deed::Scale => "Scale",
            Deed::Run => "Run now",
            Deed::Remove => "Remove",
            Deed::Edit => "Change",
            Deed::Forget => "Forget",
            Deed::Set => "Set options",
        }
    }
}

/// Reads an order from the fields of a form.
type Read = fn(&Fields) -> Option<Order>;

/// The orders about jobs, by their names in forms.
const OF_JOBS: [(&str, Read); 9] = [
    ("retry", |fields| Some(Order::Retry(jobs(fields)?))),
    ("discard", |fields| Some(Order::Discard(jobs(fields)?))),
    ("cancel", |fields| Some(Order::Cancel(jobs(fields)?))),
    ("again", |fields| Some(Order::Again(job(fields)?))),
    ("track", |fields| Some(Order::Track(job(fields)?, true))),
    ("untrack", |fields| Some(Order::Track(job(fields)?, false))),
    ("priority", |fields| Some(Order::Prioritize(job(fields)?))),
    ("retry-all", |fields| Some(Order::Bulk(bulk(fields, Act::Retry)?))),
    ("discard-all", |fields| Some(Order::Bulk(bulk(fields, Act::Discard)?))),
];

/// The names of all orders that a page can give.
pub fn acts() -> impl Iterator<Item = &'static str> {
    OF_JOBS.iter().map(|(name, _)| *name).chain(DEEDS.iter().map(|(name, ..)| *name))
}

/// Limit of the jobs that one order names.
const JOBS: usize = 1000;

fn jobs(fields: &Fields) -> Option<Vec<String>> {
    let jobs: Vec<String> = fields.all("job").take(JOBS).map(str::to_owned).collect();
    (!jobs.is_empty()).then_some(jobs)
}

fn job(fields: &Fields) -> Option<String> {
    fields.get("job").map(str::to_owned)
}

impl Order {
    /// Reads an order; none if it is none of ours.
    pub(crate) fn read(fields: &Fields) -> Option<Order> {
        let act = fields.get("act")?;
        if let Some((_, read)) = OF_JOBS.iter().find(|(name, _)| *name == act) {
            return read(fields);
        }
        let (_, thing, deed) = DEEDS.iter().find(|(name, ..)| *name == act)?;
        let name = match thing {
            Thing::Queue => "queue",
            Thing::Pool => "pool",
            Thing::Recurring => "name",
        };
        Some(Order::Of { thing: *thing, deed: *deed, name: fields.get(name)?.to_owned() })
    }

    /// What is asked, as a title.
    pub(crate) fn title(&self) -> String {
        let jobs = |jobs: &[String]| match jobs {
            [_] => "this job".to_owned(),
            _ => format!("{} jobs", jobs.len()),
        };
        match self {
            Order::Retry(all) => format!("Retry {}", jobs(all)),
            Order::Discard(all) => format!("Discard {} for good", jobs(all)),
            Order::Cancel(all) => format!("Cancel {}", jobs(all)),
            Order::Again(_) => "Put it again with other data".into(),
            Order::Track(_, true) => "Follow this job".into(),
            Order::Track(_, false) => "Follow this job no more".into(),
            Order::Prioritize(_) => "Give it another priority".into(),
            Order::Bulk(bulk) => match bulk.act {
                Act::Retry => format!("Retry all jobs that are {}", which(bulk)),
                Act::Discard => format!("Discard all jobs that are {}, for good", which(bulk)),
            },
            Order::Of { thing, deed, name } => {
                let thing = match thing {
                    Thing::Queue => "queue",
                    Thing::Pool => "pool",
                    Thing::Recurring => "recurring job",
                };
                format!("{}: {thing} {name}", deed.word())
            }
        }
    }

    /// The word on the button that does it.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Order::Retry(_) => "Retry",
            Order::Discard(_) => "Discard",
            Order::Cancel(_) => "Cancel",
            Order::Again(_) => "Put",
            Order::Track(_, true) => "Follow",
            Order::Track(_, false) => "Unfollow",
            Order::Prioritize(_) => "Set",
            Order::Bulk(bulk) if bulk.act == Act::Retry => "Retry all",
            Order::Bulk(_) => "Discard all",
            Order::Of { deed, .. } => deed.word(),
        }
    }

    /// Whether it cannot be taken back.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Order::Discard(_) | Order::Cancel(_) => true,
            Order::Bulk(bulk) => bulk.act == Act::Discard,
            Order::Of { deed, .. } => [Deed::Remove, Deed::Forget].contains(deed),
            Order::Retry(_) | Order::Again(_) | Order::Track(..) | Order::Prioritize(_) => false,
        }
    }

    /// The command line that does the same. `fields` are those that its form has.
    pub(crate) fn command(&self, fields: &Fields) -> String {
        // Options stand before names, of which some may look like one.
        let of = |verb: &str, jobs: &[String]| {
            format!("taskvisor job {verb} {}", names(jobs.iter().map(String::as_str)))
        };
        let given =
            |name: &str, value: Option<&str>| value.map(|value| option(name, value)).unwrap_or_default();
        let reason = || given("reason", fields.get("reason"));
        match self {
            Order::Retry(all) => of("retry", all),
            Order::Discard(all) => of("discard", all),
            Order::Cancel(all) => of(&format!("cancel{}", reason()), all),
            // It depends on the job: `again` has it.
            Order::Again(_) => String::new(),
            Order::Track(job, true) => of("track", std::slice::from_ref(job)),
            Order::Track(job, false) => of("untrack", std::slice::from_ref(job)),
            Order::Prioritize(job) => {
                let priority = fields.get("priority").unwrap_or("N");
                format!("{} {priority}", of("priority", std::slice::from_ref(job)))
            }
            Order::Of { thing, deed, name } => {
                let noun = match thing {
                    Thing::Queue => "queue ",
                    // Pools have no noun of their own: `taskvisor scale app +2`.
                    Thing::Pool => "",
                    Thing::Recurring => "recur ",
                };
                // The verb of `Run now` is `run`.
                let verb = deed.word().split(' ').next().unwrap_or_default().to_lowercase();
                let (mut before, mut behind) = (String::new(), String::new());
                match (thing, deed) {
                    (_, Deed::Scale) => behind = format!(" {}", fields.get("workers").unwrap_or("N")),
                    (Thing::Queue | Thing::Pool, Deed::Pause) => before = reason(),
                    _ => {}
                }
                format!("taskvisor {noun}{verb}{before} {}{behind}", names([name.as_str()]))
            }
            Order::Bulk(bulk) => {
                let verb = match bulk.act {
                    Act::Retry => "retry",
                    Act::Discard => "discard",
                };
                format!(
                    "taskvisor job {verb} --{}{}{}{}",
                    bulk.state,
                    given("group", bulk.group.as_deref()),
                    given("queue", bulk.queue.as_ref().map(|queue| queue.as_str())),
                    given("class", bulk.class.as_ref().map(|class| class.as_str())),
                )
            }
        }
    }
}

/// The command line that puts a job like this one with the fields of a form, or with its own.
pub(crate) fn again(before: &JobRecord, fields: &Fields, redact: &Redact) -> String {
    let mut line = "taskvisor put".to_owned();
    let mut add = |name: &str, value: &str| line += &option(name, value);
    if before.priority != 0 {
        add("priority", &before.priority.to_string());
    }
    before.tags.iter().for_each(|tag| add("tag", tag));
    before.retry.iter().for_each(|retry| add("retries", &retry.retries.to_string()));
    before.time_limit.iter().for_each(|limit| add("time-limit", &format_duration(*limit)));
    let data = match &before.payload {
        _ if fields.get("queue").is_some() => "null".into(),
        Some(Payload::Data(data)) if !redact.hides_some() => data.to_text(),
        _ => "…".into(),
    };
    let [queue, class, data] =
        [("queue", before.queue.as_str()), ("class", before.class.as_str()), ("data", &data)]
            .map(|(name, own)| fields.get(name).unwrap_or(own));
    line + &of_class(queue, class, data)
}

fn bulk(fields: &Fields, act: Act) -> Option<Bulk> {
    let state: JobState = fields.get("state")?.parse().ok()?;
    let bulk = Bulk {
        act,
        state,
        group: fields.get("group").map(str::to_owned),
        class: fields.get("class").map(Into::into),
        queue: fields.get("queue").map(Into::into),
        since: None,
        limit: None,
        dry_run: false,
        after: None,
    };
    bulk.fault().is_none().then_some(bulk)
}

/// Which jobs an order about many means, in words.
fn which(bulk: &Bulk) -> String {
    let part =
        |what: &str, name: Option<&str>| name.map(|name| format!(" {what} {name}")).unwrap_or_default();
    format!(
        "{}{}{}{}",
        bulk.state,
        part("by", bulk.group.as_deref()),
        part("in queue", bulk.queue.as_ref().map(|queue| queue.as_str())),
        part("of class", bulk.class.as_ref().map(|class| class.as_str())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_has_the_command_that_does_the_same() {
        for (query, title, command) in [
            ("act=retry&job=a&job=b+c", "Retry 2 jobs", "taskvisor job retry a 'b c'"),
            (
                "act=cancel&job=a&reason=a+mistake",
                "Cancel this job",
                "taskvisor job cancel --reason 'a mistake' a",
            ),
            (
                "act=discard-all&state=failed&group=exit+1&queue=mail",
                "Discard all jobs that are failed by exit 1 in queue mail, for good",
                "taskvisor job discard --failed --group 'exit 1' --queue mail",
            ),
            (
                "act=queue-pause&queue=mail&reason=lunch",
                "Pause: queue mail",
                "taskvisor queue pause --reason lunch mail",
            ),
            ("act=pool-scale&pool=app&workers=%2B2", "Scale: pool app", "taskvisor scale app +2"),
            ("act=recur-run&name=nightly", "Run now: recurring job nightly", "taskvisor recur run nightly"),
            ("act=retry&job=--failed", "Retry this job", "taskvisor job retry -- --failed"),
            ("act=priority&job=a&priority=-5", "Give it another priority", "taskvisor job priority a -5"),
        ] {
            let fields = Fields::read(query);
            let order = Order::read(&fields).unwrap();
            assert_eq!((order.title().as_str(), order.command(&fields).as_str()), (title, command));
        }
        for wrong in ["", "act=stop", "act=retry", "act=retry-all&state=running", "act=retry-all"] {
            assert_eq!(Order::read(&Fields::read(wrong)), None, "{wrong}");
        }
    }
}
