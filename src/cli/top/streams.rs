//! What comes by itself: events, and the output of a job.

use std::sync::Arc;
use std::time::Duration;

use super::desk::Desk;
use crate::cli::access::elsewhere::supervisor;
use crate::cli::access::{Access, is_gone};
use ::top::ask::News;
use model::{Interest, JobId, OutputLine, OutputQuery};

/// Pause between two tries while there is no supervisor.
const BETWEEN: Duration = Duration::from_secs(2);
/// Number of lines of the output so far.
const TAIL: u32 = 500;

/// Follows the events, also of the next supervisor. The head of the screen says that some may be missing.
pub(super) async fn events(desk: Arc<Desk>) {
    loop {
        if let Ok(client) = supervisor(&desk.config).await
            && let Ok(mut lines) = client.events(&Interest::default()).await
        {
            while let Ok(some) = lines.next().await
                && !some.is_empty()
            {
                desk.say(News::Happened(some.into()));
            }
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Tells the output of a job, until it has ended. Over a stop and a start of the supervisor it goes on where it was.
pub(super) async fn output(desk: Arc<Desk>, job: JobId) {
    let mut query = OutputQuery { follow: true, tail: Some(TAIL), ..OutputQuery::default() };
    loop {
        match follow(&desk, &job, &mut query).await {
            Ok(Some(end)) => return desk.say(News::Output(job.clone(), end)),
            Err(why) => return desk.say(News::Output(job.clone(), format!("{why}\n"))),
            Ok(None) => tokio::time::sleep(BETWEEN).await,
        }
    }
}

/// Tells what there is; gives the words for the end, or none if the supervisor went away.
async fn follow(desk: &Desk, job: &JobId, query: &mut OutputQuery) -> Result<Option<String>, String> {
    let access = desk.access().await.map_err(|failure| failure.in_a_line())?;
    let Access::Api(client, _) = access.as_ref() else {
        return Err(format!("no supervisor runs to be asked; on its host: taskvisor job logs {job}"));
    };
    let told = |error: api::Error| if is_gone(&error) { Ok(None) } else { Err(error.to_string()) };
    let mut lines = match client.logs(job, query).await {
        Ok(lines) => lines,
        Err(error) => return told(error),
    };
    loop {
        let some = match lines.next().await {
            Ok(some) if some.is_empty() => return Ok(None),
            Ok(some) => some,
            Err(error) => return told(error),
        };
        for line in some {
            match line {
                OutputLine::Part(part) => {
                    // The next supervisor is asked from here on, and not for the last lines.
                    (query.from, query.tail) = (part.from + part.text.0.len() as u64, None);
                    desk.say(News::Output(job.clone(), part.text.to_text().into_owned()));
                }
                OutputLine::End(end) => {
                    let place = end.elsewhere.map(|place| format!("; its output is with {place}"));
                    let state = end.state;
                    return Ok(Some(format!("\n[the job is {state}{}]\n", place.unwrap_or_default())));
                }
            }
        }
    }
}
