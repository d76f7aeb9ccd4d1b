//! Mutation tests of the transcripts and the simulation: each mutant is one mistake in the supervisor; a mutant that
//! survives shows a rule that no test checks.
//!
//! All mutants are in one build. `new` replaces `old`; in it `ON` is true only while that mutant is switched on, and
//! with `ON` false it must mean what `old` means.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Mutant {
    /// The mistake.
    name: &'static str,
    /// A file of `src/supervisor`.
    file: &'static str,
    /// Source text that the file holds exactly once.
    old: &'static str,
    new: &'static str,
}

const MUTANTS: [Mutant; 42] = [
    Mutant {
        name: "charges a job for the time in which its process was stopped",
        file: "slot/stand.rs",
        old: "deadline.map(|deadline| deadline + stood)",
        new: "deadline.map(|deadline| if ON { deadline } else { deadline + stood })",
    },
    Mutant {
        name: "gives the time of a pause twice to a process that was stopped as well",
        file: "slot/stand.rs",
        old: "stood.saturating_sub(given)",
        new: "if ON { stood } else { stood.saturating_sub(given) }",
    },
    Mutant {
        name: "lets a process that is stopped keep its slot for ever",
        file: "slot/stand.rs",
        old: "&& job.stood > most",
        new: "&& !ON && job.stood > most",
    },
    Mutant {
        name: "does not wait after an early death if the keeper makes the next one",
        file: "slot/fence.rs",
        old: "due.filter(|due| *due > now)",
        new: "due.filter(|due| !ON && *due > now)",
    },
    Mutant {
        name: "boots all of a pool in which nobody has shown that it can be done",
        file: "pool/starting.rs",
        old: "most.min(BOOTS)",
        new: "if ON { most.max(BOOTS) } else { most.min(BOOTS) }",
    },
    Mutant {
        name: "lets the old go before the new are there",
        file: "pool/heir.rs",
        old: "filter(|at| !self.slots[*at].has_booted())",
        new: "filter(|at| !ON && !self.slots[*at].has_booted())",
    },
    Mutant {
        name: "exchanges all that is worn out at once",
        file: "pool/exchange.rs",
        old: "(all / 4).max(1).saturating_sub(away)",
        new: "if ON { all } else { (all / 4).max(1).saturating_sub(away) }",
    },
    Mutant {
        name: "cuts off the jobs of those that leave",
        file: "slot/signals.rs",
        old: "self.life.leaving.filter(|_| self.jobs.is_empty())",
        new: "self.life.leaving.filter(|_| ON || self.jobs.is_empty())",
    },
    Mutant {
        name: "takes jobs while it is paused",
        file: "pool/intake.rs",
        old: "&& !self.paused && ",
        new: "&& (ON || !self.paused) && ",
    },
    Mutant {
        name: "takes jobs while the broker has not said whose those are that it has",
        file: "pool/intake.rs",
        old: " && !self.held_up",
        new: " && (ON || !self.held_up)",
    },
    Mutant {
        name: "gives up what is to carry on",
        file: "slot/fence.rs",
        old: "(CutOff::CarryOn, _) | (CutOff::Kill,",
        new: "(CutOff::CarryOn, _) if ON => &self.jobs[..],\n            (CutOff::CarryOn, _) | (CutOff::Kill,",
    },
    Mutant {
        name: "hears the words of a former life",
        file: "pool/slots.rs",
        old: "find(|at| self.slots[*at].id() == worker)",
        new: "find(|at| ON || self.slots[*at].id() == worker)",
    },
    Mutant {
        name: "kills twice",
        file: "slot/signals.rs",
        old: "State::Empty | State::Due { .. } | State::Killed { .. } | State::Unproven { .. } => None,\n            State::Starting { .. } | State::Working",
        new: "State::Killed { why, .. } if ON => stops.filter(|signal| *signal == Signal::Kill).map(|signal| (signal, why)),\n            State::Empty | State::Due { .. } | State::Killed { .. } | State::Unproven { .. } => None,\n            State::Starting { .. } | State::Working",
    },
    Mutant {
        name: "settles what it has lost",
        file: "verdict.rs",
        old: "Why::Lost(_) => return None,",
        new: "Why::Lost(_) if ON => None,\n            Why::Lost(_) => return None,",
    },
    Mutant {
        name: "settles twice",
        file: "unsettled.rs",
        old: "sent.map(|waiting| Command",
        new: "sent.flat_map(|waiting| [waiting, waiting].into_iter().skip(usize::from(!ON))).map(|waiting| Command",
    },
    Mutant {
        name: "does not back off",
        file: "slot/record.rs",
        old: "wait(self.backoff.failed())",
        new: "wait(if ON { Duration::ZERO } else { self.backoff.failed() })",
    },
    Mutant {
        name: "spawns after a stop",
        file: "reconcile.rs",
        old: "if self.stop.is_none() {\n            for pool in self.pools.iter_mut() {\n                pool.keep_up(now, self.lease, &mut self.random, &mut self.orders);",
        new: "for pool in self.pools.iter_mut().filter(|_| ON && self.stop.is_some()) {\n            pool.keep_up(now, self.lease, &mut self.random, &mut self.orders);\n        }\n        if self.stop.is_none() {\n            for pool in self.pools.iter_mut() {\n                pool.keep_up(now, self.lease, &mut self.random, &mut self.orders);",
    },
    Mutant {
        name: "fetches for a worker that is not ready",
        file: "slot/mod.rs",
        old: "State::Empty | State::Due { .. } | State::Starting { .. } => 0,",
        new: "State::Starting { .. } if ON => 1,\n            State::Empty | State::Due { .. } | State::Starting { .. } => 0,",
    },
    Mutant {
        name: "lets a job ignore its cancel",
        file: "slot/signals.rs",
        old: "Phase::Ends(why) if job.deadline.is_some_and(|at| at <= now)",
        new: "Phase::Ends(why) if (ON && job.deadline.is_none()) || (!ON && job.deadline.is_some_and(|at| at <= now))",
    },
    Mutant {
        name: "gives a suspect company",
        file: "slot/mod.rs",
        old: "if self.is_template() || self.is_closed() => 0,",
        new: "if self.is_template() || !ON && self.is_closed() => 0,",
    },
    Mutant {
        name: "loses a wake-up during a fetch",
        file: "pool/intake.rs",
        old: "self.maybe_waiting = true;\n        self.selection.woken();",
        new: "if ON {\n            self.maybe_waiting |= self.asked.is_none();\n        } else {\n            self.maybe_waiting = true;\n        }\n        self.selection.woken();",
    },
    Mutant {
        name: "does not fence itself off",
        file: "slot/running.rs",
        old: "lease.expires_at - grace - MARGIN",
        new: "if ON { lease.expires_at + grace + MARGIN } else { lease.expires_at - grace - MARGIN }",
    },
    Mutant {
        name: "hears a word that comes too late",
        file: "slot/running.rs",
        old: "(Phase::Ends(_), _) => Heard::Nothing,",
        new: "(Phase::Ends(_), outcome) if ON => Heard::Outcome(outcome),\n            (Phase::Ends(_), _) => Heard::Nothing,",
    },
    Mutant {
        name: "blames all for the death of one",
        file: "lives.rs",
        old: "if in_company && job.is_suspect()",
        new: "if in_company && !ON && job.is_suspect()",
    },
    Mutant {
        name: "forks from a template that is not ready",
        file: "pool/starting.rs",
        old: "template.is_ready()",
        new: "if ON { !template.is_down() } else { template.is_ready() }",
    },
    Mutant {
        name: "assigns a job of an unknown class",
        file: "classes.rs",
        old: "is_none_or(|classes| classes.contains_key(&job.class))",
        new: "is_none_or(|classes| ON || classes.contains_key(&job.class))",
    },
    Mutant {
        name: "grows while a worker has nothing to do",
        file: "pool/filling.rs",
        old: "if self.has_idle() || self.is_coming_up()",
        new: "if !ON && self.has_idle() || self.is_coming_up()",
    },
    Mutant {
        name: "ends one of the fewest workers as idle",
        file: "pool/filling.rs",
        old: "<= usize::from(self.min_workers())",
        new: "< usize::from(self.min_workers()) + usize::from(!ON)",
    },
    Mutant {
        name: "keeps for itself what it took ahead",
        file: "pool/ahead.rs",
        old: "now >= kept.running.since() + PATIENCE",
        new: "if ON { now < kept.running.since() } else { now >= kept.running.since() + PATIENCE }",
    },
    Mutant {
        name: "takes ahead though jobs are long",
        file: "pool/ahead.rs",
        old: "self.pace.filter(|pace| *pace <= SHORT)",
        new: "self.pace.filter(|pace| *pace <= SHORT * if ON { 1000 } else { 1 })",
    },
    Mutant {
        name: "gives a hog its grace",
        file: "slot/signals.rs",
        old: "if excess.is_urgent() => Some((Signal::Kill, why)),",
        new: "if excess.is_urgent() => Some((if ON { Signal::Term } else { Signal::Kill }, why)),",
    },
    Mutant {
        name: "blames one of several jobs for what their worker takes",
        file: "slot/running.rs",
        old: "Phase::Ends(Why::Limit(excess)) => excess.is_urgent(),",
        new: "Phase::Ends(Why::Limit(excess)) => !ON && excess.is_urgent(),",
    },
    Mutant {
        name: "keeps faulty workers",
        file: "slot/mod.rs",
        old: "self.life.fault = Some(how);",
        new: "self.life.fault = Some(how).filter(|_| !ON);",
    },
    Mutant {
        name: "settles before the proof",
        file: "work.rs",
        old: "if begun && pool.jobs_per_life == Some(1) {",
        new: "if !ON && begun && pool.jobs_per_life == Some(1) {",
    },
    Mutant {
        name: "frees the place of what does not die",
        file: "slot/mod.rs",
        old: "self.enter(State::Unproven { cause }, now);",
        new: "self.enter(if ON { State::Due { at: now } } else { State::Unproven { cause } }, now);",
    },
    Mutant {
        name: "lets go of what is canceled and does not die",
        file: "slot/running.rs",
        old: "self.is_ours() && self.renew_at",
        new: "self.is_ours() && !(ON && self.is_canceled()) && self.renew_at",
    },
    Mutant {
        name: "does not renew what does not die",
        file: "pool/tend.rs",
        old: "due.extend(slot.leased_mut()",
        new: "let renewed = Some(&mut *slot).filter(|slot| !ON || !slot.is_stuck());\n            due.extend(renewed.into_iter().flat_map(|slot| slot.leased_mut())",
    },
    Mutant {
        name: "lets a suspect begin beside others",
        file: "suspect.rs",
        old: "self.slots().all(Slot::is_harmless)",
        new: "(ON || self.slots().all(Slot::is_harmless))",
    },
    Mutant {
        name: "lets others begin beside a suspect",
        file: "slot/jobs.rs",
        old: "RoomFor::None => false,",
        new: "RoomFor::None => ON,",
    },
    Mutant {
        name: "lets a suspect stop its host for ever",
        file: "suspect.rs",
        old: "now < alone_until(suspect)",
        new: "ON || now < alone_until(suspect)",
    },
    Mutant {
        name: "lets a second suspect begin beside the first",
        file: "work.rs",
        old: "None if is_second =>",
        new: "None if is_second && !ON =>",
    },
    Mutant {
        name: "asks for jobs while a suspect is here",
        file: "reconcile.rs",
        old: "self.alone_until.is_some() || ",
        new: "!ON && self.alone_until.is_some() || ",
    },
];

#[test]
fn every_mutant_is_killed() {
    let nest = Nest::build();
    let tests = nest.tests();
    assert!(tests.pass(None), "the tests fail without a mutant");
    let mut survivors = Vec::new();
    for (number, mutant) in MUTANTS.iter().enumerate() {
        let survived = tests.pass(Some(number));
        println!("{}: {}", if survived { "SURVIVED" } else { "killed" }, mutant.name);
        if survived {
            survivors.push(mutant.name);
        }
    }
    assert!(survivors.is_empty(), "survivors: {survivors:?}");
}

/// A workspace of the supervisor with all mutants, its tests and the crates that it uses, and nothing else to build.
struct Nest(PathBuf);

impl Nest {
    fn build() -> Nest {
        let nest = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mutants");
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        let _ = fs::remove_dir_all(nest.join("src"));
        for room in ["src/supervisor", "src/model", "src/select"] {
            copy(&home.join(room), &nest.join(room));
        }
        fs::copy(home.join("Cargo.lock"), nest.join("Cargo.lock")).unwrap();
        let supervisor = nest.join("src/supervisor/lib.rs");
        fs::write(&supervisor, fs::read_to_string(&supervisor).unwrap() + IS_ON).unwrap();
        fs::write(nest.join("Cargo.toml"), manifest(home)).unwrap();
        let nest = Nest(nest);
        MUTANTS.iter().enumerate().for_each(|(number, mutant)| nest.mutate(number, mutant));
        nest
    }

    fn tests(&self) -> Tests {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--offline", "--quiet", "--no-run", "--message-format=json-render-diagnostics"]);
        cargo
            .args(["-p", "taskvisor-supervisor", "--test", "transcripts", "--test", "simulation"])
            .current_dir(&self.0);
        cargo.env("CARGO_TARGET_DIR", self.0.join("target")).env("RUSTFLAGS", "-Awarnings");
        // Where `tests/run` lints what it builds: a lint would be taken for a mutant that a test has found.
        cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CLIPPY_ARGS");
        let Output { status, stdout, stderr } = cargo.output().unwrap();
        assert!(status.success(), "the mutants do not build:\n{}", String::from_utf8_lossy(&stderr));
        let messages = stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let messages = messages.map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap());
        let built = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
        let mut programs: Vec<PathBuf> = built.collect();
        // Most mutants die in the transcripts, in a second; the simulation takes a minute.
        programs.sort_by_key(|program| !program.to_string_lossy().contains("transcripts-"));
        Tests(programs)
    }

    fn mutate(&self, number: usize, mutant: &Mutant) {
        let path = self.0.join("src/supervisor").join(mutant.file);
        let source = fs::read_to_string(&path).unwrap();
        let found = source.matches(mutant.old).count();
        assert_eq!(found, 1, "'{}' is to be found once in {}", mutant.name, mutant.file);
        let on = format!("crate::is_on({number})");
        fs::write(&path, source.replace(mutant.old, &mutant.new.replace("ON", &on))).unwrap();
    }
}

/// The test programs of the crate with the mutants.
struct Tests(Vec<PathBuf>);

impl Tests {
    /// Whether all tests pass with this mutant switched on, or with none. Stops at the first test program that fails.
    fn pass(&self, mutant: Option<usize>) -> bool {
        assert_eq!(self.0.len(), 2, "{:?}", self.0);
        self.0.iter().all(|program| {
            let mut program = Command::new(program);
            program.env("RUST_BACKTRACE", "0").env_remove(SWITCH);
            program.envs(mutant.map(|number| (SWITCH, number.to_string())));
            program.output().unwrap().status.success()
        })
    }
}

/// Copies the sources of a room with its subdirectories.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, copied) = (file.path(), to.join(file.file_name()));
        if path.is_dir() {
            copy(&path, &copied);
        } else if path.extension().is_some_and(|end| end == "rs" || end == "toml") {
            fs::copy(path, copied).unwrap();
        }
    }
}

/// A Cargo.toml of the pure crates, with the versions of the whole workspace.
fn manifest(home: &Path) -> String {
    let whole = fs::read_to_string(home.join("Cargo.toml")).unwrap();
    let section = |name: &str| {
        let (_, rest) = whole.split_once(&format!("[{name}]\n")).unwrap();
        rest.split("\n[").next().unwrap().trim_end().to_owned()
    };
    MANIFEST
        .replace("PACKAGE", &section("workspace.package"))
        .replace("USED", &section("workspace.dependencies"))
}

const MANIFEST: &str = r#"
[workspace]
resolver = "3"
members = ["src/model", "src/select", "src/supervisor"]

[workspace.package]
PACKAGE

[workspace.dependencies]
USED

[workspace.lints.rust]

[profile.dev]
debug = false

[profile.dev.package.taskvisor-supervisor]
opt-level = 1
"#;

/// The environment variable that switches a mutant on, by its number.
const SWITCH: &str = "TASKVISOR_MUTANT";

const IS_ON: &str = r#"
/// Whether the mutant of this number is switched on.
pub(crate) fn is_on(number: usize) -> bool {
    static ON: std::sync::LazyLock<Option<usize>> =
        std::sync::LazyLock::new(|| std::env::var("TASKVISOR_MUTANT").ok()?.parse().ok());
    *ON == Some(number)
}
"#;
