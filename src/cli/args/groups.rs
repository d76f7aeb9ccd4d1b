//! The list of commands in `taskvisor --help`, in groups by purpose.

use std::fmt::Write;

use clap::builder::Styles;

/// The headings, each with its commands in the order of the page.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run a supervisor", &["start", "check", "config", "doctor", "simulate"]),
    ("Jobs and queues", &["put", "job", "batch", "queue", "recur", "failed", "option", "events", "stats"]),
    (
        "Operate a supervisor",
        &["status", "top", "web", "why", "reload", "recycle", "scale", "pause", "resume", "drain", "stop"],
    ),
    ("Work with other systems", &["rq", "kale", "wq", "redis", "release"]),
    ("This program", &["completion", "man", "help"]),
];

/// The text for `help`, the command that clap adds by itself.
const HELP: &str = "Print this page, or that of a command";

/// The help page of the program, with its commands in groups instead of one list.
pub(super) fn template(program: &clap::Command) -> String {
    let styles = Styles::default();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut page = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        // `{:#}` of a style writes the code that ends it.
        _ = write!(page, "\n{header}{heading}:{header:#}\n");
        for name in names {
            let about = program.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map_or(HELP.to_owned(), ToString::to_string);
            _ = writeln!(page, "  {literal}{name:<10}{literal:#}  {about}");
        }
    }
    _ = write!(page, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    page
}

/// All commands on the page.
#[cfg(test)]
pub(super) fn listed() -> Vec<&'static str> {
    GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect()
}
