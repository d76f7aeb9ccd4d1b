//! `events`: prints events as they happen.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::access::elsewhere::{client, supervisor};
use super::access::{Access, BETWEEN, unless_gone};
use super::term::event::words;
use super::term::screen::{Look, print, print_json};
use api::Lines;
use config::Config;
use failure::{Failure, exit};
use model::{Interest, PublishedEvent, What};

#[derive(Debug, clap::Args)]
pub(super) struct Events {
    /// Of these kinds; several with commas
    #[arg(short, long, value_name = "KIND", value_delimiter = ',', value_parser = |text: &str| text.parse::<What>())]
    pub kind: Vec<What>,
    /// Of this queue's jobs
    #[arg(short, long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Of this job
    #[arg(short, long, value_name = "JID")]
    pub job: Option<String>,
    /// Of jobs with this tag
    #[arg(short, long, value_name = "TAG")]
    pub tag: Option<String>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

/// Text below `events --help`.
pub(super) const HELP: &str = "\
From now on, until it is interrupted or the supervisor ends: when that stops as it was told to, with exit code 0. One that
goes away without a word is waited for: the next one's events follow, and a line on stderr says that some may be missing. What other processes do with
an embedded store is not among it; what anybody does with jobs in Redis is, on any host.
Kinds, of jobs: put fetched complete advanced released failed held again canceling canceled retried
edited removed lock_lost;
of workers: started ready asked killed exited;
of orders: paused resumed scaled recycled reloaded reload_refused option stopping;
of the whole: health. A reader that is too slow loses some: `lost` says how many, if that is known.
The last one is `ended`.

Examples:
  taskvisor events
  taskvisor events --kind failed,held --json
  taskvisor events --tag invoices";

/// Prints events as they come.
pub(super) async fn events(config: &Config, args: Events) -> Result<u8, Failure> {
    let job = match args.job {
        Some(typed) => {
            let access = Access::open(config).await?;
            let id = access.named(&typed).await?;
            // Fails for a job that is not there, whose events would be waited for in vain.
            Some(access.job(&id).await?.id)
        }
        None => None,
    };
    let interest =
        Interest { kinds: args.kind, queue: args.queue.map(Into::into), job, tag: args.tag, pause: None };
    let mut lines = supervisor(config).await?.events(&interest).await?;
    let look = Look::of_stdout(false);
    loop {
        while let Some(some) = more(&mut lines).await? {
            for news in &some {
                match args.json {
                    true => print_json(news)?,
                    false => print(&line(news, &look))?,
                }
            }
            // The keeper ends with it, so there is no next supervisor to wait for.
            if some.iter().any(|news| news.what == What::Ended) {
                writeln!(io::stderr(), "the supervisor has ended")?;
                return Ok(exit::OK);
            }
        }
        writeln!(io::stderr(), "the supervisor went away without a word; waiting for the next one")?;
        lines = of_the_next(config, &interest).await?;
        writeln!(io::stderr(), "the next supervisor is there; what happened meanwhile is not told")?;
    }
}

/// The events that have arrived, at least one; None when the supervisor went away.
async fn more(lines: &mut Lines<PublishedEvent>) -> Result<Option<VecDeque<PublishedEvent>>, Failure> {
    match lines.next().await {
        Ok(some) => Ok(Some(some).filter(|some| !some.is_empty())),
        Err(error) => unless_gone(error).map_or(Ok(None), Err),
    }
}

/// The events of the next supervisor, whenever it starts.
async fn of_the_next(config: &Config, interest: &Interest) -> Result<Lines<PublishedEvent>, Failure> {
    let client = client(config)?;
    loop {
        tokio::time::sleep(BETWEEN).await;
        match client.events(interest).await {
            Ok(lines) => return Ok(lines),
            Err(error) => unless_gone(error).map_or(Ok(()), Err)?,
        }
    }
}

fn line(news: &PublishedEvent, look: &Look) -> String {
    let parts = words(news);
    format!("{}\n", look.cut(&format!("{}  {:<9}{parts}", look.moment(news.at), news.what.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::look;
    use model::{Health, Millis, SlotName, WorkerName};

    #[test]
    fn event_line_shows_kind_and_subject() {
        let put = PublishedEvent::new(What::Put, Millis(1_790_000_000_000));
        let put = PublishedEvent { job: Some("j1".into()), queue: Some("ma\nil".into()), ..put };
        let text = line(&put, &look(100));
        assert!(text.ends_with("  put        job j1  queue ma\\nil\n"), "{text}");
        let worker = Some(WorkerName { slot: SlotName::new("mail", 3), generation: 7 });
        let killed = PublishedEvent {
            worker,
            why: Some("time limit".into()),
            ..PublishedEvent::new(What::Killed, put.at)
        };
        assert!(line(&killed, &look(100)).ends_with("  killed     worker mail.3#7  time limit\n"));
        let (health, before) = (Some(Health::Degraded), Some(Health::Healthy));
        let verdict = PublishedEvent {
            health,
            before,
            why: Some("1 held".into()),
            ..PublishedEvent::new(What::Health, put.at)
        };
        assert!(line(&verdict, &look(100)).ends_with("  health     healthy -> degraded  1 held\n"));
        let lost = PublishedEvent { count: Some(12), ..PublishedEvent::new(What::Lost, put.at) };
        assert!(line(&lost, &look(100)).ends_with("  lost       12 events\n"));
    }
}
