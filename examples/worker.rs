//! A worker in Rust, one job at a time:
//! `taskvisor start -w 2 -- target/debug/examples/worker`, then `taskvisor put default text.Count '{"path": "/etc/passwd"}'`.

use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskvisor_worker::{End, Job, Put, Worker};

#[derive(Deserialize, Serialize)]
struct File {
    path: String,
}

#[derive(Serialize)]
struct Counted {
    lines: usize,
    words: usize,
}

/// Counts lines and words. A file that is not there is waited for; a directory never will be one.
fn count(job: &Job<'_>) -> Result<Counted, End> {
    let file: File = job.data()?;
    println!("counting {}", file.path);
    let text = match std::fs::read_to_string(&file.path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(End::retry_after(Duration::from_secs(5), error.to_string()));
        }
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => {
            return Err(End::fail(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    job.progress(Some(0.5), "read");
    Ok(Counted { lines: text.lines().count(), words: text.split_whitespace().count() })
}

/// Puts a job of the other kind for each path.
fn count_all(job: &Job<'_>) -> Result<Vec<String>, End> {
    let paths: Vec<String> = job.data()?;
    let puts = paths.into_iter().map(|path| job.put(&Put::new(job.queue(), "text.Count", &File { path })?));
    puts.collect()
}

fn main() -> ExitCode {
    Worker::new().handle("text.Count", count).handle("text.CountAll", count_all).run()
}
