//! Are the transcripts and the simulation worth anything? Each mutant is one mistake in the pure rooms; one that survives is a
//! rule nobody checks.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Mutant {
    name: &'static str,
    file: &'static str,
    old: &'static str,
    new: &'static str,
}

const MUTANTS: [Mutant; 29] = [
    Mutant {
        name: "boots all of a pool in which nobody has shown that it can be done",
        file: "pool.rs",
        old: "most.min(BOOTS)",
        new: "most.max(BOOTS)",
    },
    Mutant {
        name: "lets the old go before the new are there",
        file: "roll.rs",
        old: "self.places().filter(|slot| !slot.booted).count()",
        new: "0",
    },
    Mutant {
        name: "exchanges all that is worn out at once",
        file: "wear.rs",
        old: "(all / 4).max(1).saturating_sub(away)",
        new: "all.saturating_sub(away.min(0))",
    },
    Mutant {
        name: "cuts off the jobs of those that leave",
        file: "worker.rs",
        old: "self.life.leaving.filter(|_| self.jobs.is_empty())",
        new: "self.life.leaving",
    },
    Mutant {
        name: "takes jobs while it is paused",
        file: "fetch.rs",
        old: "&& !self.paused && ",
        new: "&& ",
    },
    Mutant {
        name: "takes jobs while the broker has not said whose those are that it has",
        file: "fetch.rs",
        old: " && !self.held_up",
        new: "",
    },
    Mutant {
        name: "gives up what is to carry on",
        file: "load.rs",
        old: "CutOff::CarryOn => &[],",
        new: "CutOff::CarryOn => &self.jobs[..],",
    },
    Mutant {
        name: "hears the words of a former life",
        file: "lives.rs",
        old: "|slot| slot.id == worker)",
        new: "|slot| slot.id.slot == worker.slot)",
    },
    Mutant {
        name: "kills twice",
        file: "worker.rs",
        old: "State::Down | State::Killed(_) => None,\n            State::Starting | State::Ready",
        new: "State::Down => None,\n            State::Killed(why) => stops.filter(|signal| *signal == Signal::Kill).map(|signal| (signal, why)),\n            State::Starting | State::Ready",
    },
    Mutant {
        name: "settles what it has lost",
        file: "verdict.rs",
        old: "Why::Lost(_) => return None,",
        new: "Why::Lost(_) => None,",
    },
    Mutant {
        name: "settles twice",
        file: "settle.rs",
        old: "waiting.due = None;\n                orders",
        new: "orders",
    },
    Mutant {
        name: "does not back off",
        file: "worker.rs",
        old: "wait(self.backoff.failed())",
        new: "wait(Duration::ZERO)",
    },
    Mutant {
        name: "spawns after a stop",
        file: "reconcile.rs",
        old: "if self.stop.is_none() {\n            for pool in &mut self.pools {\n                pool.keep_up(now, self.lease, &mut self.random, &mut self.orders);",
        new: "for pool in &mut self.pools {\n            pool.keep_up(now, self.lease, &mut self.random, &mut self.orders);\n        }\n        if self.stop.is_none() {\n            for pool in &mut self.pools {",
    },
    Mutant {
        name: "fetches for a worker that is not ready",
        file: "worker.rs",
        old: "State::Down | State::Starting | State::Stopping(_) | State::Killed(_) => 0,",
        new: "State::Starting => 1,\n            State::Down | State::Stopping(_) | State::Killed(_) => 0,",
    },
    Mutant {
        name: "lets a job ignore its cancel",
        file: "worker.rs",
        old: "Phase::Ends(why) if job.deadline.is_some_and(|at| at <= now)",
        new: "Phase::Ends(why) if job.deadline.is_none()",
    },
    Mutant {
        name: "gives a suspect company",
        file: "worker.rs",
        old: "if self.is_template() || self.is_closed() => 0,",
        new: "if self.is_template() => 0,",
    },
    Mutant {
        name: "loses a wake-up during a fetch",
        file: "size.rs",
        old: "(self.intake.maybe_waiting, self.size.maybe_waiting) = (true, true);",
        new: "self.intake.maybe_waiting |= self.intake.asked.is_none();",
    },
    Mutant {
        name: "does not fence itself off",
        file: "jobs.rs",
        old: "lease.expires_at - grace - MARGIN",
        new: "lease.expires_at + grace + MARGIN",
    },
    Mutant {
        name: "hears a word that comes too late",
        file: "jobs.rs",
        old: "(Phase::Ends(_), _) => Heard::Nothing,",
        new: "(Phase::Ends(_), outcome) => Heard::Outcome(outcome),",
    },
    Mutant {
        name: "blames all for the death of one",
        file: "lives.rs",
        old: "if in_company && job.is_suspect()",
        new: "if in_company && job.deadline.is_some()",
    },
    Mutant {
        name: "forks from a template that is not ready",
        file: "pool.rs",
        old: "template.state == State::Ready",
        new: "template.state != State::Down",
    },
    Mutant {
        name: "assigns a job of an unknown class",
        file: "classes.rs",
        old: "is_none_or(|classes| classes.contains_key(&job.class))",
        new: "is_none_or(|_| true)",
    },
    Mutant {
        name: "grows while a worker has nothing to do",
        file: "size.rs",
        old: "if self.has_idle() || self.is_coming_up()",
        new: "if self.is_coming_up()",
    },
    Mutant {
        name: "ends one of the fewest workers as idle",
        file: "size.rs",
        old: "<= usize::from(self.min_workers())",
        new: "< usize::from(self.min_workers())",
    },
    Mutant {
        name: "keeps for itself what it took ahead",
        file: "ahead.rs",
        old: "now >= kept.running.since + PATIENCE",
        new: "now < kept.running.since",
    },
    Mutant {
        name: "takes ahead though jobs are long",
        file: "ahead.rs",
        old: "self.pace.filter(|pace| *pace <= SHORT)",
        new: "self.pace.filter(|pace| *pace <= SHORT * 1000)",
    },
    Mutant {
        name: "gives a hog its grace",
        file: "worker.rs",
        old: "Some((Signal::Kill, why)),\n            Phase::Ends(why) if pool.jobs_at_once == 1",
        new: "Some((Signal::Term, why)),\n            Phase::Ends(why) if pool.jobs_at_once == 1",
    },
    Mutant {
        name: "blames one of several jobs for what their worker takes",
        file: "jobs.rs",
        old: "Phase::Ends(Why::Limit(excess)) => excess.is_urgent(),",
        new: "Phase::Ends(Why::Limit(_)) => false,",
    },
    Mutant {
        name: "keeps faulty workers",
        file: "worker.rs",
        old: "State::Busy | State::Stopping(_) => self.life.fault = Some(how),",
        new: "State::Busy | State::Stopping(_) => drop(how),",
    },
];

#[test]
fn every_mutant_is_killed() {
    let nest = Nest::build();
    assert!(nest.builds(), "the pure rooms do not build on their own");
    assert!(nest.passes(), "the tests fail without a mutant");
    let mut survivors = Vec::new();
    for mutant in &MUTANTS {
        let path = nest.0.join("src/supervisor").join(mutant.file);
        let source = fs::read_to_string(&path).unwrap();
        let found = source.matches(mutant.old).count();
        assert_eq!(found, 1, "'{}' is to be found once in {}", mutant.name, mutant.file);
        fs::write(&path, source.replace(mutant.old, mutant.new)).unwrap();
        assert!(nest.builds(), "the mutant '{}' does not build", mutant.name);
        let survived = nest.passes();
        println!("{}: {}", if survived { "SURVIVED" } else { "killed" }, mutant.name);
        if survived {
            survivors.push(mutant.name);
        }
        fs::write(&path, source).unwrap();
    }
    assert!(survivors.is_empty(), "survivors: {survivors:?}");
}

/// A crate of the supervisor and the two tests, with nothing else to build but the rooms it is made of, which are a crate of
/// their own: a mutant leaves them as they are.
struct Nest(PathBuf);

impl Nest {
    fn build() -> Nest {
        let nest = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mutants");
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        for rooms in ["src", "below"] {
            let _ = fs::remove_dir_all(nest.join(rooms));
        }
        for room in ["src/supervisor", "tests/support", "tests/stories"] {
            copy(&home.join(room), &nest.join(room));
        }
        for room in ["src/model", "src/select"] {
            copy(&home.join(room), &nest.join("below").join(room));
        }
        for file in ["tests/transcripts.rs", "tests/simulation.rs", "Cargo.lock"] {
            fs::copy(home.join(file), nest.join(file)).unwrap();
        }
        fs::write(nest.join("below/src/lib.rs"), "pub mod model;\npub mod select;\n").unwrap();
        fs::write(nest.join("below/Cargo.toml"), manifest(home, "below", &[])).unwrap();
        fs::write(nest.join("src/lib.rs"), "pub use below::{model, select};\npub mod supervisor;\n").unwrap();
        fs::write(
            nest.join("Cargo.toml"),
            manifest(home, "taskvisor", &["below = { path = \"below\" }", "[workspace]"]),
        )
        .unwrap();
        Nest(nest)
    }

    fn builds(&self) -> bool {
        self.cargo(&[
            "test",
            "--offline",
            "--quiet",
            "--no-run",
            "--test",
            "transcripts",
            "--test",
            "simulation",
        ])
    }

    fn passes(&self) -> bool {
        self.cargo(&["test", "--offline", "--quiet", "--test", "transcripts", "--test", "simulation"])
    }

    fn cargo(&self, arguments: &[&str]) -> bool {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments).current_dir(&self.0);
        cargo.env("CARGO_TARGET_DIR", self.0.join("target")).env("RUST_BACKTRACE", "0");
        cargo.output().unwrap().status.success()
    }
}

/// The sources of a room, those in its parts as well.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, copied) = (file.path(), to.join(file.file_name()));
        if path.is_dir() {
            copy(&path, &copied);
        } else if path.extension().is_some_and(|end| end == "rs") {
            fs::copy(path, copied).unwrap();
        }
    }
}

/// That of a package with what the pure rooms use, in the versions of the whole one.
fn manifest(home: &Path, name: &str, besides: &[&str]) -> String {
    const USED: [&str; 6] = ["base64", "jiff", "schemars", "serde", "serde_json", "thiserror"];
    let whole = fs::read_to_string(home.join("Cargo.toml")).unwrap();
    let is_used = |line: &&str| line.split_once(" = ").is_some_and(|(name, _)| USED.contains(&name));
    let used: Vec<&str> = whole.lines().filter(is_used).chain(besides.iter().copied()).collect();
    MANIFEST.replace("NAME", name).replace("USED", &used.join("\n"))
}

const MANIFEST: &str = r#"
[package]
name = "NAME"
version = "0.1.0"
edition = "2024"

[profile.dev]
debug = false

[dependencies]
USED
"#;
