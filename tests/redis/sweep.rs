//! Each key that a command touches is spoiled while the command runs. Afterwards no job is lost, none runs twice, and none
//! is in no list: all end as if nothing had happened.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::support::{RedisServer, Scripted};

/// A supervisor with its jobs, by a clock of its own.
struct World {
    script: Scripted,
    now: f64,
    fetches: usize,
    /// The fetches without an answer.
    unheard: Vec<String>,
    /// The fence of each job that runs.
    runs: BTreeMap<String, String>,
    /// The jobs that another client runs.
    theirs: BTreeSet<String>,
    /// How often each job has begun.
    begun: BTreeMap<String, usize>,
    /// Commands that have failed, as a client repeats them.
    again: Vec<Vec<String>>,
    /// Which key is spoiled, for the text of a failure.
    what: String,
}

/// What became of each job: its state, and how often it began.
type Ends = BTreeMap<String, (String, usize)>;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace('_', "")).collect()
}

/// The job of which a key is the hash.
fn jid_of(key: &str) -> Option<&str> {
    let beside = ["-history", "-dependencies", "-dependents"];
    key.strip_prefix("ql:j:").filter(|jid| !beside.iter().any(|end| jid.ends_with(end)))
}

impl World {
    fn new(server: &RedisServer) -> World {
        let mut script = Scripted::new(server, qless::script::SCRIPT);
        let _: Value = script.raw("FLUSHALL");
        World {
            script,
            now: 1000.0,
            fetches: 0,
            unheard: Vec::new(),
            runs: BTreeMap::new(),
            theirs: BTreeSet::new(),
            begun: BTreeMap::new(),
            again: Vec::new(),
            what: "nothing".into(),
        }
    }

    fn call(&mut self, command: &str, args: &[String]) -> Result<Value, String> {
        let now = self.now.to_string();
        let all: Vec<&str> = [command, &now].into_iter().chain(args.iter().map(String::as_str)).collect();
        self.script.try_call(&all).map_err(|error| error.to_string())
    }

    /// Puts a job as a supervisor does. `_` in a line is an empty word.
    fn put(&mut self, jid: &str, queue: &str, delay: &str, needs: &[&str]) {
        let mut args =
            words(&format!("_ 1 {jid} refuse {queue} klass {{}} 0 {delay} [\"t\"] 5 2 token {jid}"));
        args.push(needs.len().to_string());
        args.extend(needs.iter().map(|need| (*need).to_owned()));
        self.say("taskvisor.put", args);
    }

    /// Sends a command of a client, which repeats it later if it fails, unless it was done.
    fn say(&mut self, command: &str, args: Vec<String>) {
        let is_refused = match self.call(command, &args) {
            Err(error) => !error.contains("does not exist") && !error.contains("not currently running"),
            Ok(answer) => redis::from_redis_value::<Vec<String>>(answer).is_ok_and(|answer| {
                answer.len() > 1 && answer[0] == "no" && ["kind", "again"].contains(&answer[1].as_str())
            }),
        };
        if is_refused {
            self.again.push([vec![command.to_owned()], args].concat());
        }
    }

    /// Another client takes jobs.
    fn pop(&mut self) {
        let Ok(answer) = self.call("pop", &words("q other 9")) else { return };
        let jobs: String = redis::from_redis_value(answer).unwrap();
        let jobs: serde_json::Value = serde_json::from_str(&jobs).unwrap();
        for jid in jobs.as_array().into_iter().flatten().map(|job| job["jid"].as_str().unwrap()) {
            assert!(self.theirs.insert(jid.to_owned()), "{}: {jid} runs already", self.what);
            *self.begun.entry(jid.to_owned()).or_default() += 1;
        }
    }

    fn fetch(&mut self, slots: usize) {
        self.fetches += 1;
        let name = format!("f{}", self.fetches);
        let mut args = vec!["me".to_owned(), name.clone(), self.unheard.len().to_string()];
        args.extend(self.unheard.clone());
        args.extend(words("60 order 0 0 2 q q2"));
        args.push(slots.to_string());
        args.extend((0..slots).flat_map(|slot| [format!("w{slot}"), "{}".to_owned()]));
        let Ok(answer) = self.call("taskvisor.fetch", &args) else { return self.unheard.push(name) };
        self.unheard.clear();
        let (_, jobs, ..): (Value, Vec<Vec<Value>>, Value, i64) = redis::from_redis_value(answer).unwrap();
        for job in jobs {
            let [jid, fence] = [0, 2].map(|at| redis::from_redis_value::<String>(job[at].clone()).unwrap());
            let before = self.runs.insert(jid.clone(), fence);
            assert_eq!(before, None, "{}: {jid} runs already", self.what);
            *self.begun.entry(jid).or_default() += 1;
        }
    }

    fn renew(&mut self) {
        let mut args = vec!["60".into(), "me".into(), self.runs.len().to_string()];
        args.extend(self.runs.iter().flat_map(|(jid, fence)| [jid.clone(), fence.clone()]));
        let Ok(answer) = self.call("taskvisor.renew", &args) else { return };
        let answers: Vec<String> = redis::from_redis_value(answer).unwrap();
        for (jid, said) in self.runs.keys().zip(answers) {
            let is_ours = ["renewed", "canceling"].contains(&said.as_str()) || said.starts_with("wrong: ");
            assert!(is_ours, "{}: the lease of {jid} is {said}", self.what);
        }
    }

    /// Settles a job, and retries until the broker accepts the verdict.
    fn settle(&mut self, jid: &str, verdict: &str) {
        let Some(fence) = self.runs.get(jid) else { return };
        let mut args = words(&format!("1 {jid} {fence}"));
        args.extend(words(verdict));
        match self.call("taskvisor.settle", &args).map(redis::from_redis_value::<Vec<String>>) {
            Ok(Ok(answers)) if !answers[0].starts_with("wrong: ") => _ = self.runs.remove(jid),
            _ => self.again.push(vec!["settle".into(), jid.into(), verdict.into()]),
        }
    }

    /// Repeats the commands that failed, and runs all jobs to their ends.
    fn go_on(&mut self) {
        for _ in 0..12 {
            self.now += 20.0;
            for again in std::mem::take(&mut self.again) {
                match &*again[0] {
                    "settle" => self.settle(&again[1], &again[2]),
                    command => self.say(command, again[1..].to_vec()),
                }
            }
            self.renew();
            self.fetch(9);
            let waits: BTreeSet<String> = self.again.iter().map(|again| again[1].clone()).collect();
            for jid in self.runs.keys().filter(|jid| !waits.contains(*jid)).cloned().collect::<Vec<_>>() {
                self.settle(&jid, COMPLETE);
            }
            for jid in std::mem::take(&mut self.theirs) {
                self.say("complete", words(&format!("{jid} other q {{}}")));
            }
            self.call("taskvisor.sign", &words("channel me {} q q2")).unwrap();
        }
    }

    /// What became of all jobs. No list of a queue has any left.
    fn ends(&mut self) -> Ends {
        let keys: Vec<String> = self.script.raw("KEYS ql:*");
        let left = |key: &&String| {
            let lists = ["-work", "-locks", "-scheduled", "-depends", "-throttled", "-pending", ":stray"];
            lists.iter().any(|end| key.ends_with(end)) || key.starts_with("ql:taskvisor:held:")
        };
        let left: Vec<&String> = keys.iter().filter(left).collect();
        assert!(left.is_empty(), "{}: {left:?} {:?}", self.what, self.script.everything());
        let jids = keys.iter().filter_map(|key| jid_of(key));
        let end = |jid: &str| (jid.to_owned(), (self.script.field(jid, "state").unwrap_or_default(), 0));
        let mut ends: Ends = jids.map(end).collect();
        ends.iter_mut().for_each(|(jid, end)| end.1 = self.begun.get(jid).copied().unwrap_or(0));
        ends
    }

    /// The keys that there are, without the hashes of jobs: who spoils one has removed that job.
    fn keys(&mut self) -> BTreeSet<String> {
        let keys: Vec<String> = self.script.raw("KEYS ql:*");
        keys.into_iter().filter(|key| jid_of(key).is_none()).collect()
    }

    /// Another program stores something else under a key.
    fn spoil(&mut self, key: &str) {
        if self.script.raw_call::<i64>(&["EXISTS", key]) == 1 {
            let _: Value = self.script.raw_call(&["RENAME", key, "saved"]);
        }
        let _: Value = match key {
            "ql:taskvisor:place" => self.script.raw_call(&["HSET", key, "spoiled", "1"]),
            _ => self.script.raw_call(&["SET", key, "spoiled"]),
        };
    }

    /// Somebody removes that, and what was there before is there again, unless something new is.
    fn restore(&mut self, key: &str) {
        let kind: String = self.script.raw_call(&["TYPE", key]);
        if kind == if key == "ql:taskvisor:place" { "hash" } else { "string" } {
            let _: Value = self.script.raw_call(&["DEL", key]);
        }
        if self.script.raw::<i64>("EXISTS saved") == 1 {
            let _: Value = self.script.raw_call(&["RENAMENX", "saved", key]);
            let _: Value = self.script.raw("DEL saved");
        }
    }
}

const COMPLETE: &str = "complete 0 _ _ _ _ _ _";

/// Jobs of all kinds: waiting, delayed, waiting for others, followed, with a throttle, of another client, running, and with
/// leases that have ended; and what recurs.
fn set_up(world: &mut World) {
    let _: Value = world.script.raw("HSET ql:th:t id t maximum 1");
    for jid in ["lost", "theirs"] {
        world.put(jid, "q", "0", &[]);
    }
    world.call("pop", &words("q other 1")).unwrap();
    world.fetch(1);
    // The supervisor has forgotten this one: its lease ends.
    world.runs.clear();
    world.begun.clear();
    world.now += 100.0;
    for jid in ["ends", "fails", "cancels"] {
        world.put(jid, "q", "0", &[]);
    }
    world.put("child", "q2", "0", &["ends"]);
    let _: Value = world.script.raw("ZADD ql:tracked 1 ends");
    let _: Value = world.script.raw("HSET ql:j:ends throttles [\"t\"]");
    for jid in ["lost", "theirs"] {
        let _: Value = world.script.raw(&format!("ZADD ql:q:q-locks XX 5000 {jid}"));
    }
    world.fetch(3);
    assert_eq!(world.runs.len(), 3, "{:?}", world.runs);
    for jid in ["lost", "theirs"] {
        let _: Value = world.script.raw(&format!("ZADD ql:q:q-locks XX 1001 {jid}"));
        let _: Value = world.script.raw(&format!("HSET ql:j:{jid} grace 1"));
    }
    world.put("waits", "q", "0", &[]);
    world.put("delayed", "q2", "5", &[]);
    world.put("throttled", "q2", "0", &[]);
    let _: Value = world.script.raw("HSET ql:j:throttled throttles [\"t\"]");
    let _: Value = world.script.raw("ZADD ql:tracked 1 waits 1 throttled");
    world.call("put", &words("other q foreign klass {} 0")).unwrap();
    world.call("recur", &words("q2 again klass {} interval 100000 0")).unwrap();
    world.now += 10.0;
}

/// A command, what it is called, and what comes before it.
type Step = (&'static str, fn(&mut World), fn(&mut World));

const FAILURE: &str = r#"{"group":"g","message":"m"} {"group":"g","message":"m"} g m"#;

fn nothing(_: &mut World) {}

fn fail(world: &mut World) {
    world.settle("fails", &format!("fail 0 _ _ _ _ _ 0 {FAILURE}"));
}

/// The commands that a supervisor and its people send.
const STEPS: [Step; 17] = [
    ("fetch", nothing, |world| world.fetch(9)),
    ("renew", nothing, World::renew),
    ("complete", nothing, |world| world.settle("ends", COMPLETE)),
    ("retry at once", nothing, |world| world.settle("fails", &format!("retry 0 _ _ _ _ _ 0 {FAILURE}"))),
    ("retry later", nothing, |world| world.settle("fails", &format!("retry 0 _ _ _ _ _ 30 {FAILURE}"))),
    ("release after a crash", nothing, |world| {
        world.settle("fails", "release 1 _ _ _ _ _ 0 \"interrupted\"")
    }),
    ("release with a throttle", nothing, |world| world.settle("ends", "release 0 _ _ _ _ _ 0 _")),
    ("fail", nothing, fail),
    ("hold", nothing, |world| world.settle("fails", &format!("hold 1 _ _ _ _ _ 0 {FAILURE}"))),
    ("advance", nothing, |world| world.settle("fails", "advance 0 _ _ _ _ _ _ q2 0 0")),
    ("cancel", nothing, |world| world.say("taskvisor.cancel", words("{} _ 3 waits delayed fails"))),
    ("put", nothing, |world| world.put("new", "q", "0", &["waits"])),
    ("retry of a failed job", fail, |world| world.say("taskvisor.retry", words("fails {}"))),
    ("discard", fail, |world| world.say("taskvisor.discard", words("fails"))),
    ("setting free", nothing, |world| world.say("taskvisor.depend_off", words("child {} all 0"))),
    ("a lost reply", nothing, |world| {
        world.unheard.push("f2".into());
        world.runs.clear();
        world.begun.clear();
        world.fetch(9);
    }),
    ("recover", nothing, |world| {
        let fences = world.runs.clone();
        let args = ["me", "1", "ends", &fences["ends"]].map(String::from).to_vec();
        world.say("taskvisor.recover", args);
        world.runs.retain(|jid, _| jid == "ends");
        world.begun.retain(|jid, _| jid == "ends");
    }),
];

/// The commands of other clients.
const THEIRS: [Step; 8] = [
    ("their pop", nothing, World::pop),
    ("their complete", World::pop, |world| their(world, "complete", "waits other q {}")),
    ("their advance", World::pop, |world| their(world, "complete", "waits other q {} next q2")),
    ("their retry", World::pop, |world| their(world, "retry", "waits q other 0")),
    ("their failure", World::pop, |world| their(world, "fail", "waits other g m")),
    ("their renewal", World::pop, |world| world.say("heartbeat", words("waits other"))),
    ("their cancel", nothing, |world| world.say("cancel", words("waits delayed"))),
    ("their put", nothing, |world| world.say("put", words("other q2 waits klass {} 0 tags [\"u\"]"))),
];

/// Another client says what became of `waits`, which it does not run any more then.
fn their(world: &mut World, command: &str, line: &str) {
    world.theirs.remove("waits");
    world.say(command, words(line));
}

/// Runs a command in a new world, with a key spoiled for as long.
fn run(server: &RedisServer, (name, before, step): Step, spoiled: Option<&str>) -> (Ends, BTreeSet<String>) {
    let mut world = World::new(server);
    set_up(&mut world);
    before(&mut world);
    let mut keys = world.keys();
    if let Some(key) = spoiled {
        world.what = format!("{name} with {key}");
        world.spoil(key);
    }
    step(&mut world);
    if let Some(key) = spoiled {
        world.restore(key);
    }
    keys.extend(world.keys());
    world.go_on();
    let ends = world.ends();
    keys.extend(world.keys());
    (ends, keys)
}

/// The jobs with other ends than expected.
fn different(ends: &Ends, expected: &Ends) -> Ends {
    let jids: BTreeSet<&String> = ends.keys().chain(expected.keys()).collect();
    let end = |jid: &String| (jid.clone(), ends.get(jid).cloned().unwrap_or_default());
    jids.into_iter().filter(|jid| ends.get(*jid) != expected.get(*jid)).map(end).collect()
}

#[test]
fn no_spoiled_key_loses_a_job_or_runs_it_twice() {
    sweep(&STEPS);
}

#[test]
fn no_spoiled_key_loses_a_job_of_another_client() {
    sweep(&THEIRS);
}

fn sweep(steps: &[Step]) {
    let server = RedisServer::start();
    let mut wrong = Vec::new();
    for step in steps.iter().copied() {
        let (expected, keys) = run(&server, step, None);
        assert!(expected.len() > 8 && expected.values().all(|end| end.1 <= 2), "{}: {expected:?}", step.0);
        for key in &keys {
            match std::panic::catch_unwind(|| run(&server, step, Some(key)).0) {
                Ok(ends) if ends == expected => {}
                Ok(ends) => wrong.push(format!("{} with {key}: {:?}", step.0, different(&ends, &expected))),
                Err(_) => wrong.push(format!("{} with {key}", step.0)),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
