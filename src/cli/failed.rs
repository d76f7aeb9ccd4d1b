//! `failed`: failures by group, and the jobs of a group.

use super::access::Access;
use super::args::Failed;
use super::job::list::{list_text, must_be_known};
use super::term::format::between;
use super::term::screen::{Look, age, escaped, headline, print, print_json, table};
use config::Config;
use failure::{Failure, exit};
use model::verb::{self, FailureGroup};
use model::{Filter, Millis};

/// Prints the groups, or the jobs of one.
pub(super) async fn failed(config: &Config, args: Failed) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    let look = Look::of_stdout(false);
    let (class, queue) = (args.class.map(Into::into), args.queue.map(Into::into));
    let Some(group) = args.group else {
        let asked = verb::Failed { class: class.clone(), queue, since: args.since };
        let mut groups = access.ask(asked).await?;
        if groups.is_empty() {
            must_be_known(config, &Filter { class, ..Filter::default() }).await?;
        }
        // The answer has all groups: the limit is for those who read them.
        groups.truncate(args.limit as usize);
        if args.json {
            groups.iter().try_for_each(print_json)?;
        } else if !groups.is_empty() {
            print(&render(&groups, clock::wall(), &look))?;
        }
        return Ok(exit::OK);
    };
    let after = match args.after {
        Some(after) => Some(access.named(&after).await?),
        None => None,
    };
    let is_first = after.is_none();
    let filter = Filter {
        group: Some(group.clone()),
        class,
        queue,
        since: args.since,
        limit: args.limit,
        after,
        ..Filter::default()
    };
    let jobs = access.ask(filter).await?;
    // A later page may be empty: it is the end of the list.
    if jobs.is_empty() && is_first && args.limit > 0 {
        let none = format!("no job has failed or is held in a group called '{group}'");
        return Err(Failure::new(exit::NOTHING_MATCHED, none).hint("taskvisor failed shows the groups"));
    }
    if args.json {
        jobs.iter().try_for_each(print_json)?;
    } else if !jobs.is_empty() {
        print(&list_text(&jobs, clock::wall(), &look))?;
    }
    Ok(exit::OK)
}

fn render(groups: &[FailureGroup], now: Millis, look: &Look) -> String {
    let rows: Vec<Vec<String>> = groups.iter().map(|group| row(group, now)).collect();
    table(look, &["GROUP", "FAILED", "HELD", "NEWEST", "JOB", "WHY"], &rows)
}

fn row(group: &FailureGroup, now: Millis) -> Vec<String> {
    vec![
        escaped(&group.group).into_owned(),
        group.failed.to_string(),
        group.held.to_string(),
        age(between(group.newest, now)),
        escaped(group.job.as_str()).into_owned(),
        escaped(headline(&group.message)).into_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::look;

    #[test]
    fn groups_are_a_table() {
        let group = |name: &str, failed, held| FailureGroup {
            group: name.into(),
            failed,
            held,
            newest: Millis(1_790_000_000_000),
            job: "0199aa0000007000".into(),
            message: "gzip: a.gz:\ncrc error".into(),
        };
        let groups = [group("exit 1", 1200, 0), group("Value\x1bError", 3, 1)];
        let text = render(&groups, Millis(1_790_000_090_000), &look(80));
        insta::assert_snapshot!("failed", text);
    }
}
