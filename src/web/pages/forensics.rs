//! How an attempt ended, and the processes at that time.

use std::time::Duration;

use maud::{Markup, html};

use model::{Caught, ExitStatus, Forensics, Process, Signal, Snapshot};

use crate::layout::scrolled;
use crate::{say, text};

/// Limit of the processes of a tree on a page.
const SHOWN: usize = 200;

/// The figures of an attempt.
pub(crate) fn facts(left: &Forensics) -> Markup {
    let exit = left.exit.as_ref();
    html! {
        dl.facts {
            div { dt { "Ran" } dd { (say::age(left.ran)) } }
            @if let Some(exit) = exit { div { dt { "Exit" } dd { (ended(exit.status)) @if exit.oom { ", out of memory" } } } }
            @if let Some(cpu) = left.cpu() { div { dt { "CPU" } dd { (say::age(cpu)) } } }
            @if let Some(exit) = exit {
                div { dt { "Peak memory" } dd { (say::size(exit.usage.max_rss)) } }
                @if exit.left_behind > 0 { div { dt { "Left behind" } dd { (say::counted(exit.left_behind.into(), "process", "processes")) ", killed; proof after " (say::age(exit.proof)) } } }
            }
            @if left.output_dropped > 0 { div { dt { "Output dropped" } dd { (say::size(left.output_dropped)) } } }
            @if let Some(worker) = &left.worker { div { dt { "Worker" } dd { (worker) } } }
            @for sent in &left.signals {
                div { dt { @match sent.signal { Signal::Term => "TERM", Signal::Kill => "KILL" } " sent" } dd { "after " (say::age(sent.after)) ": " (text::shown(&sent.why)) } }
            }
            @for still in &left.left { div { dt { "Left running" } dd { (text::shown(still)) } } }
        }
    }
}

fn ended(status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("code {code}"),
        ExitStatus::Signal { signal, core } => {
            format!("signal {signal}{}", if core { ", core dumped" } else { "" })
        }
    }
}

/// The processes when they were looked at.
pub(crate) fn snapshot(seen: &Snapshot) -> Markup {
    scrolled(
        "Processes",
        html! {
            table.tree {
                thead { tr { th { "Process" } th { "State" } th.num { "Memory" } th.num { "CPU" } th.num { "Threads" } th { "Waits in" } } }
                tbody { @for process in &seen.processes { (caught(process)) } }
            }
            @if seen.left_out > 0 { p.more { (say::counted(seen.left_out.into(), "process more", "processes more")) } }
        },
    )
}

fn caught(process: &Caught) -> Markup {
    html! {
        tr {
            // The stylesheet has eight levels.
            td class={ "what deep-" (process.depth.min(8)) } {
                span.title { (text::short(&process.name)) " " span.dim { (process.pid) } }
                @if let Some(files) = process.files { span.why { (say::counted(files, "open file", "open files")) } }
                @for name in &process.open { span.why { (text::short(name)) } }
                @if let Some(stacks) = &process.stacks { pre { (text::lines(stacks)) } }
            }
            td { (state(&process.state)) }
            td.num { (say::size(process.rss)) } td.num { (say::age(process.cpu)) } td.num { (process.threads) }
            td { @if let Some(place) = &process.wchan { (text::short(place)) } @if let Some(number) = process.syscall { span.why { "system call " (number) } } }
        }
    }
}

/// A living process with all below it. Equal ones share a row, as in `status`.
pub(crate) fn tree(process: &Process) -> Markup {
    let mut rows = vec![(0, vec![process])];
    flat(process, 1, &mut rows);
    scrolled(
        "Processes",
        html! {
            table.tree {
                thead { tr { th { "Process" } th { "State" } th.num { "Memory" } th.num { "CPU" } } }
                tbody {
                    // A job that forks without end would fill the page.
                    @for (depth, equal) in rows.iter().take(SHOWN) { (living(*depth, equal)) }
                }
            }
            @if rows.len() > SHOWN { p.more { (say::counted(rows[SHOWN..].iter().map(|(_, equal)| equal.len() as u64).sum(), "process more", "processes more")) } }
        },
    )
}

/// A process, or equal ones with what they and all below them use.
fn living(depth: usize, equal: &[&Process]) -> Markup {
    let Some(first) = equal.first() else { return html! {} };
    let sum = || equal.iter().map(|one| one.uses()).fold((0, Duration::ZERO), |a, b| (a.0 + b.0, a.1 + b.1));
    let (rss, cpu) = if equal.len() == 1 { (first.rss, first.cpu) } else { sum() };
    html! {
        tr data-key=(first.pid) {
            td class={ "deep-" (depth.min(8)) } {
                (text::short(&first.name)) " "
                @if equal.len() == 1 { span.dim { (first.pid) } } @else {
                    "×" (say::count(equal.len() as u64))
                    @if let Some(below) = first.children.first() { span.dim { " each with " (text::short(&below.name)) @if first.children.len() > 1 { " and more" } } }
                }
            }
            td { (state(&first.state)) @if first.cut { span.dim { " and has more children, which are not counted" } } }
            td.num { (say::size(rss)) } td.num { (say::age(cpu)) }
        }
    }
}

fn flat<'a>(process: &'a Process, depth: usize, rows: &mut Vec<(usize, Vec<&'a Process>)>) {
    for group in process.groups(false) {
        let only = (group.len() == 1).then(|| group[0]);
        rows.push((depth, group));
        if let Some(only) = only {
            flat(only, depth + 1, rows);
        }
    }
}

/// The state of a process, if it is one that people ask about.
pub(crate) fn halted(process: &Process) -> Option<&str> {
    ["T", "t", "D"].contains(&process.state.as_str()).then(|| state(&process.state))
}

/// The letter of /proc, in words.
fn state(letter: &str) -> &str {
    match letter {
        "R" => "runs",
        "S" => "sleeps",
        "D" => "waits for the disk",
        "T" | "t" => "stopped",
        "Z" => "zombie",
        other => other,
    }
}
