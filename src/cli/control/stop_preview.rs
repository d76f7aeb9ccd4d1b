//! `stop --dry-run`: what would happen to the running jobs.

use crate::cli::access::elsewhere::supervisor;
use crate::cli::term::format::counted;
use crate::cli::term::screen::{age, escaped, print};
use config::{Config, format_duration};
use failure::{Failure, exit};
use model::{PoolStatus, Status, Stop};

/// Prints it, and changes nothing.
pub(crate) async fn preview(config: &Config, how: Stop) -> Result<u8, Failure> {
    let status = supervisor(config).await?.status().await?;
    print(&text(&status, how))?;
    Ok(exit::OK)
}

fn text(status: &Status, how: Stop) -> String {
    let lines: Vec<String> = status.pools.iter().flat_map(of_pool).collect();
    let deadline = format_duration(status.stop_deadline);
    let what = match how {
        Stop::Drain => {
            format!("may go on until one grace before the stop deadline of {deadline}, then get TERM")
        }
        Stop::Terminate => "get TERM at once".to_owned(),
        Stop::Kill => "get KILL at once".to_owned(),
    };
    let kill = match how {
        Stop::Kill => "",
        Stop::Drain | Stop::Terminate => ", and KILL after their grace",
    };
    match lines.len() {
        0 => "no job runs: it would end at once\n".to_owned(),
        many => {
            let jobs = counted(many, "job", "jobs");
            format!(
                "{jobs} running: they {what}{kill}\nwhat has not completed by then waits again, its attempt unspent\n{}",
                lines.concat()
            )
        }
    }
}

fn of_pool(pool: &PoolStatus) -> Vec<String> {
    let slots = pool.slots.iter().flat_map(|slot| slot.jobs.iter().map(move |job| (slot, job)));
    let line = |(slot, job): (&model::SlotStatus, &model::RunningJob)| {
        let ending = job.ending.as_ref().map(|why| format!("  ending: {why}")).unwrap_or_default();
        let (grace, ran) = (format_duration(pool.grace), age(job.ran));
        let what = format!(
            "  {}  {}  attempt {}  ran {ran}  grace {grace}  {}{ending}",
            slot.slot, job.id, job.attempt, job.title
        );
        format!("{}\n", escaped(&what))
    };
    slots.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status::tree::tests::healthy;

    #[test]
    fn stop_preview_lists_each_job_with_its_time_and_grace() {
        insta::assert_snapshot!(
            "stop_preview",
            text(&healthy(), Stop::Drain) + "\n" + &text(&healthy(), Stop::Kill)
        );
        let idle = Status { pools: Vec::new(), ..healthy() };
        assert_eq!(text(&idle, Stop::Drain), "no job runs: it would end at once\n");
    }
}
