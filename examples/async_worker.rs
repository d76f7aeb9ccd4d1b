//! A worker in Rust, many jobs at a time:
//! `taskvisor start -w 2 -m coroutine -- target/debug/examples/async_worker`, then `taskvisor put default clock.Wait '0.5'`.

use std::process::ExitCode;
use std::time::Duration;

use taskvisor_worker::{AsyncJob, AsyncWorker, End};

/// Waits for so many seconds.
async fn wait(job: AsyncJob) -> Result<f64, End> {
    let seconds: f64 = job.data()?;
    job.log("waiting");
    tokio::time::sleep(Duration::try_from_secs_f64(seconds)?).await;
    Ok(seconds)
}

fn main() -> ExitCode {
    AsyncWorker::new().handle("clock.Wait", wait).run()
}
