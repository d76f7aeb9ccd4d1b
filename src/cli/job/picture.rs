//! `job picture`: what the processes of a running job do now.

use std::fmt::Write as _;

use crate::cli::access::Access;
use crate::cli::access::elsewhere::supervisor;
use crate::cli::args::JobShow;
use crate::cli::record::processes;
use crate::cli::term::screen::{escaped, print, print_json};
use config::Config;
use failure::{Failure, exit};
use model::Picture;

/// Prints the picture of a job.
pub(super) async fn picture(config: &Config, args: &JobShow) -> Result<u8, Failure> {
    let id = Access::open(config).await?.named(&args.jid).await?;
    let picture = supervisor(config).await?.picture(&id).await?;
    if args.json {
        print_json(&picture)?;
    } else {
        print(&render(&picture))?;
    }
    Ok(exit::OK)
}

fn render(picture: &Picture) -> String {
    let mut out = format!("worker {}", escaped(&picture.worker.to_string()));
    if picture.others > 0 {
        let _ = write!(out, ", which runs {} more jobs", picture.others);
    }
    out.push('\n');
    processes::render(&mut out, &picture.seen);
    for uid in &picture.strangers {
        let _ = writeln!(out, "the supervisor may not see the files of processes of uid {uid}");
    }
    out
}
