//! The jobs of the contract test (`tests/workers/in_rust.rs`), in a blocking worker; with the argument `async` in an asynchronous
//! one. They tell what they see, wait until a file is there, and end in every way there is.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use taskvisor_worker::{Advance, AsyncJob, AsyncWorker, Class, End, Job, Put, Worker};

/// Leaves word for the test, whole or not at all.
fn note(kind: &str, name: &str, text: &str) -> Result<(), End> {
    let hidden = format!(".{kind}-{name}");
    fs::write(&hidden, text)?;
    fs::rename(hidden, format!("{kind}-{name}"))?;
    Ok(())
}

fn pid() -> String {
    std::process::id().to_string()
}

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// How many jobs this process has run, and which it is.
fn look() -> Value {
    COUNT.set(COUNT.get() + 1);
    println!("on stdout");
    eprintln!("on stderr");
    json!({"count": COUNT.get(), "pid": std::process::id()})
}

fn raises(what: &Value, attempt: u32) -> Result<u32, End> {
    match what.as_str().unwrap_or_default() {
        "error" => Err(std::io::Error::other("no such value").into()),
        "panic" => panic!("out of luck"),
        "retry" if attempt == 1 => Err(End::retry_after(Duration::from_millis(100), "not yet")),
        "snooze" if !Path::new("snoozed").exists() => {
            fs::write("snoozed", "")?;
            Err(End::snooze(Duration::from_millis(100)))
        }
        "fail" => Err(End::fail("never")),
        _ => Ok(attempt),
    }
}

/// Goes on from its queue to `encode`, once the job that it puts itself is complete.
fn stage(queue: &str, helper: &str) -> Result<&'static str, End> {
    match queue {
        "encode" => Ok("encoded"),
        _ => {
            let depends = vec![helper.to_owned()];
            Err(End::Advance(Advance { depends, ..Advance::to("encode").with(&helper)? }))
        }
    }
}

/// Has a number for each key: no JSON object has those.
fn no_json() -> std::collections::BTreeMap<Vec<u8>, u8> {
    [(vec![1], 1)].into()
}

fn put_look(queue: &str) -> Result<Put, End> {
    Ok(Put { id: Some("helper".into()), exists: "skip", ..Put::new(queue, "look", &())? })
}

/// A job that begins in an hour, and within two.
fn put_later() -> Result<Put, End> {
    let hour = Duration::from_secs(3600);
    Ok(Put { delay: hour, expires: Some(2 * hour), ..Put::new("default", "look", &1)? })
}

fn seconds_to_begin(job: &Value) -> Option<u64> {
    Some((job["begin_by_ms"].as_u64()? - job["put_at_ms"].as_u64()?) / 1000)
}

fn limited() -> Class {
    let limit = Duration::from_millis(300);
    Class::new("limited").time_limit(limit).retries(1).backoff(limit / 30, limit)
}

fn soft() -> Class {
    Class::new("soft").soft_time_limit(Duration::from_millis(100)).time_limit(Duration::from_secs(60))
}

mod blocking {
    use super::*;

    pub fn hold(job: &Job<'_>) -> Result<Value, End> {
        let name: String = job.data()?;
        note("begun", &name, &pid())?;
        while !Path::new("go").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(json!({"pid": std::process::id()}))
    }

    /// As `hold`, and returns a result after a SIGTERM.
    pub fn graceful(job: &Job<'_>) -> Result<Value, End> {
        let name: String = job.data()?;
        job.is_ending();
        note("begun", &name, &pid())?;
        while !job.is_ending() {
            std::thread::sleep(Duration::from_millis(10));
        }
        note("hit", &name, "told to end")?;
        Ok(json!("what was done so far"))
    }

    /// As `hold`, and returns an error after a SIGTERM.
    pub fn gives_up(job: &Job<'_>) -> Result<(), End> {
        let name: String = job.data()?;
        job.is_ending();
        note("begun", &name, &pid())?;
        while !Path::new("go").exists() {
            if job.is_ending() {
                note("hit", &name, "told to end")?;
                return Err(std::io::Error::other("told to end").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub fn soft(job: &Job<'_>) -> Result<bool, End> {
        while !job.is_nearly_over() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(job.time_left().is_some_and(|left| left > Duration::from_secs(50)))
    }

    pub fn stages(job: &Job<'_>) -> Result<&'static str, End> {
        let helper = job.put(&put_look("default")?)?;
        assert_eq!(job.put(&put_look("default")?)?, helper);
        stage(job.queue(), &helper)
    }

    pub fn verbs(job: &Job<'_>) -> Result<Value, End> {
        let later = put_later()?;
        let ids = job.put_all(&[later.clone(), later])?;
        let tags = job.tag(&ids[0], &["a", "b"], &["b"])?;
        job.set_priority(&ids[0], 5)?;
        job.track(&ids[0], true)?;
        job.set_data(&json!({"seen": true}))?;
        let other = job.look_up(&ids[0])?;
        let state = job.cancel(&ids[1])?;
        let refused = job.cancel("nobody").err().map(|error| format!("{error:?}"));
        let never = job.put(&Put { expires: Some(Duration::from_secs(60)), ..put_later()? }).err();
        job.log(&format!("all asked: {never:?}"));
        Ok(json!([
            tags,
            other["priority"],
            other["tracked"],
            state,
            refused.is_some(),
            seconds_to_begin(&other)
        ]))
    }

    pub fn worker() -> Worker {
        Worker::new()
            .handle("look", |_: &Job<'_>| Ok(look()))
            .handle("echo", |job: &Job<'_>| job.data::<Value>())
            .handle("raises", |job: &Job<'_>| raises(&job.data()?, job.attempt()))
            .handle("nojson", |_: &Job<'_>| Ok(no_json()))
            .handle("hold", hold)
            .handle("graceful", graceful)
            .handle("gives_up", gives_up)
            .handle("leaves", |_: &Job<'_>| -> Result<(), End> { std::process::exit(3) })
            .handle("aborts", |_: &Job<'_>| -> Result<(), End> { std::process::abort() })
            .handle("stages", stages)
            .handle("verbs", verbs)
            .handle(limited(), |_: &Job<'_>| -> Result<(), End> {
                std::thread::sleep(Duration::from_secs(1000));
                Ok(())
            })
            .handle(super::soft(), soft)
    }
}

mod asynchronous {
    use super::*;

    async fn hold(job: AsyncJob) -> Result<Value, End> {
        let name: String = job.data()?;
        note("begun", &name, &pid())?;
        while !Path::new("go").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(json!({"pid": std::process::id()}))
    }

    async fn soft(job: AsyncJob) -> Result<bool, End> {
        job.nearly_over().await;
        Ok(job.time_left().is_some_and(|left| left > Duration::from_secs(50)))
    }

    async fn stages(job: AsyncJob) -> Result<&'static str, End> {
        let helper = job.put(&put_look("default")?).await?;
        assert_eq!(job.put(&put_look("default")?).await?, helper);
        stage(job.queue(), &helper)
    }

    async fn verbs(job: AsyncJob) -> Result<Value, End> {
        let later = put_later()?;
        let ids = job.put_all(&[later.clone(), later]).await?;
        let tags = job.tag(&ids[0], &["a", "b"], &["b"]).await?;
        job.set_priority(&ids[0], 5).await?;
        job.track(&ids[0], true).await?;
        job.set_data(&json!({"seen": true})).await?;
        let other = job.look_up(&ids[0]).await?;
        let state = job.cancel(&ids[1]).await?;
        let refused = job.cancel("nobody").await.err().map(|error| format!("{error:?}"));
        let never = job.put(&Put { expires: Some(Duration::from_secs(60)), ..put_later()? }).await.err();
        job.log(&format!("all asked: {never:?}"));
        Ok(json!([
            tags,
            other["priority"],
            other["tracked"],
            state,
            refused.is_some(),
            seconds_to_begin(&other)
        ]))
    }

    pub fn worker() -> AsyncWorker {
        AsyncWorker::new()
            .handle("look", |_: AsyncJob| async { Ok(look()) })
            .handle("echo", |job: AsyncJob| async move { job.data::<Value>() })
            .handle("raises", |job: AsyncJob| async move { raises(&job.data()?, job.attempt()) })
            .handle("nojson", |_: AsyncJob| async { Ok(no_json()) })
            .handle("hold", hold)
            .handle("leaves", |_: AsyncJob| async { std::process::exit(3) as Result<(), End> })
            .handle("aborts", |_: AsyncJob| async { std::process::abort() as Result<(), End> })
            .handle("stages", stages)
            .handle("verbs", verbs)
            .handle(limited(), |_: AsyncJob| async {
                tokio::time::sleep(Duration::from_secs(1000)).await;
                Ok(())
            })
            .handle(super::soft(), soft)
    }
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("async") => asynchronous::worker().run(),
        _ => blocking::worker().run(),
    }
}
