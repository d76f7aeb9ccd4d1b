//! The output of a job, asked of its supervisor: by `--url`, or where its files cannot be read.

use super::lens::Lens;
use crate::cli::access::elsewhere::client;
use crate::cli::access::{Access, BETWEEN};
use crate::cli::args::JobLogs;
use crate::cli::args::job::Stream as StreamArg;
use api::{Client, Error};
use boot::living_keeper;
use config::Config;
use failure::{Failure, exit};
use log::{Mark, Source};
use model::{JobId, OutputEnd, OutputLine, OutputPart, OutputQuery, Stream};

/// Prints the output and gives its end. Over a stop and a start of the supervisor it goes on where it was.
pub(super) async fn print(
    config: &Config,
    client: Client,
    id: &JobId,
    args: &JobLogs,
    lens: &mut Lens,
) -> Result<OutputEnd, Failure> {
    copy_all(config, client, id, query(args), lens).await
}

/// Prints the output of a job as it comes, until it has ended. Without a supervisor nothing: then no job runs.
pub(crate) async fn follow(config: &Config, id: &JobId) -> Result<(), Failure> {
    let Some(client) = next(config).await? else { return Ok(()) };
    let (query, mut lens) = (OutputQuery { follow: true, ..OutputQuery::default() }, Lens::apart());
    copy_all(config, client, id, query, &mut lens).await?;
    lens.finish()
}

/// The supervisor, also if it is being replaced: its keeper lives. None if there is none, or if its jobs are others.
async fn next(config: &Config) -> Result<Option<Client>, Failure> {
    loop {
        let is_away = matches!(client(config)?.probe().await, Err(Error::NotRunning(_)));
        match Access::open(config).await? {
            Access::Api(client, _) => return Ok(Some(client)),
            Access::Store(_) | Access::Spool(_) if is_away && living_keeper(config).is_some() => {
                tokio::time::sleep(BETWEEN).await;
            }
            Access::Store(_) | Access::Spool(_) => return Ok(None),
        }
    }
}

async fn copy_all(
    config: &Config,
    mut client: Client,
    id: &JobId,
    mut query: OutputQuery,
    lens: &mut Lens,
) -> Result<OutputEnd, Failure> {
    loop {
        match copy(&client, id, &mut query, lens).await {
            Ok(end) => return Ok(end),
            Err(Broken::Failed(failure)) => return Err(failure),
            Err(Broken::Gone(error)) if !query.follow => return Err(error.into()),
            Err(Broken::Gone(_)) => {
                tokio::time::sleep(BETWEEN).await;
                client = match next(config).await? {
                    Some(client) => client,
                    None => {
                        let why =
                            format!("the supervisor has ended; the output of {id} can be read when it runs");
                        return Err(Failure::new(exit::NOT_RUNNING, why));
                    }
                };
            }
        }
    }
}

enum Broken {
    /// The supervisor has gone.
    Gone(Error),
    Failed(Failure),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Broken {
        if crate::cli::access::is_gone(&error) { Broken::Gone(error) } else { Broken::Failed(error.into()) }
    }
}

async fn copy(
    client: &Client,
    id: &JobId,
    query: &mut OutputQuery,
    lens: &mut Lens,
) -> Result<OutputEnd, Broken> {
    let mut lines = client.logs(id, query).await?;
    loop {
        let some = lines.next().await?;
        // Each answer ends with an `End`.
        if some.is_empty() {
            let why = format!("the supervisor has told only a part of the output of {id}");
            return Err(Broken::Failed(Failure::new(exit::FAILED, why)));
        }
        for line in some {
            match line {
                OutputLine::End(end) => return Ok(end),
                OutputLine::Part(part) => {
                    lens.show(mark(&part), &part.text.0).map_err(Broken::Failed)?;
                    // Another supervisor goes on from here, so that nothing is printed twice.
                    (query.from, query.tail) = (part.from + part.text.0.len() as u64, None);
                }
            }
        }
    }
}

fn mark(part: &OutputPart) -> Mark {
    let source = match part.stream {
        Some(Stream::Stdout) => Source::Stdout,
        Some(Stream::Stderr) => Source::Stderr,
        None => Source::Unknown,
    };
    Mark { at: part.at, attempt: part.attempt.unwrap_or_default(), source }
}

fn query(args: &JobLogs) -> OutputQuery {
    let stream = args.stream.map(|stream| match stream {
        StreamArg::Stdout => Stream::Stdout,
        StreamArg::Stderr => Stream::Stderr,
    });
    OutputQuery {
        from: 0,
        limit: None,
        tail: args.tail.map(|lines| u32::try_from(lines).unwrap_or(u32::MAX)),
        follow: args.follow,
        stream,
        attempt: args.attempt,
        since: args.since,
        until: args.until,
    }
}
