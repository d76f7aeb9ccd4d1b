//! Where the CPU time and the page faults of a command go: all processes of the machine, by `perf`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Samples a second of each processor.
const RATE: usize = 1999;
/// One sample for this number of page faults.
const FAULTS: usize = 5;
/// Rows of a table at most.
const MOST: usize = 30;

/// A running `perf record` of all processes.
pub struct Profile {
    perf: std::process::Child,
    data: PathBuf,
}

impl Profile {
    /// None where there is no `perf`, or it may not look at all processes.
    pub fn begin(dir: &Path) -> Option<Profile> {
        let data = dir.join("perf.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-a", "-q", "-o"]).arg(&data);
        let events = [format!("cpu-clock/freq={RATE}/"), format!("page-faults/period={FAULTS}/")];
        perf.args(["-e", &events[0], "-e", &events[1]]);
        let mut perf = perf.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        // It has begun when it has opened its file.
        while !data.exists() {
            if !matches!(perf.try_wait(), Ok(None)) {
                return None;
            }
            std::thread::yield_now();
        }
        Some(Profile { perf, data })
    }

    /// Prints the tables: by process, and by process and function; each for one of so many jobs. Processes and threads
    /// of other names are others'.
    pub fn end(mut self, jobs: usize, names: &BTreeSet<String>) {
        crate::sandbox::kill(self.perf.id() as i32, "INT");
        self.perf.wait().expect("perf");
        for (sort, name) in [("comm", "process"), ("comm,sym", "process, function")] {
            let [cpu, faults] = self.samples(sort);
            assert!(!cpu.is_empty(), "perf has seen nothing");
            println!("\n| {name} | CPU, us a job | page faults a job |\n|---|---|---|");
            let each = |count: usize, worth: f64| count as f64 * worth / jobs as f64;
            let is_ours = |who: &str| names.contains(who.split('\t').next().unwrap_or_default());
            let mut rows: Vec<_> = cpu.iter().filter(|(who, _)| is_ours(who)).collect();
            rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (who, count) in rows.into_iter().take(MOST) {
                let faults = each(faults.get(who).copied().unwrap_or(0), FAULTS as f64);
                println!(
                    "| {} | {:.1} | {faults:.1} |",
                    who.replace('\t', ", "),
                    each(*count, 1e6 / RATE as f64)
                );
            }
        }
    }

    /// The samples of both events by who they are of.
    fn samples(&self, sort: &str) -> [BTreeMap<String, usize>; 2] {
        let mut report = Command::new("perf");
        report
            .args(["report", "--stdio", "-n", "-g", "none", "-t", "\t", "--sort", sort, "-i"])
            .arg(&self.data);
        let said = report.stderr(Stdio::null()).output().expect("perf report").stdout;
        let mut events = [BTreeMap::new(), BTreeMap::new()];
        let mut event = 0;
        for line in String::from_utf8_lossy(&said).lines() {
            if line.starts_with('#') {
                event = usize::from(event == 1 || line.contains("page-faults"));
                continue;
            }
            let mut fields = line.split('\t').map(str::trim).skip(1);
            if let Some(Ok(count)) = fields.next().map(str::parse::<usize>) {
                *events[event].entry(fields.collect::<Vec<_>>().join("\t")).or_default() += count;
            }
        }
        events
    }
}
