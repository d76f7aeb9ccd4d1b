//! The first lines: the verdict with its reasons, the host, and how fast jobs go.

use std::time::Duration;

use crate::layout::Layout;
use crate::screen::grid::{Grid, Style, width};
use crate::state::Model;
use crate::state::rates::Ring;
use model::{Health, Status, Stop};
use term::format::grouped;
use term::screen::{age, size};

/// Draws the first lines.
pub(super) fn draw(grid: &mut Grid, model: &Model, layout: &Layout) {
    verdict(grid, model);
    if layout.head.len() > 1 {
        let text = host(model);
        grid.put(1, 1, grid.width, &text, Style::PLAIN);
        rates(grid, model);
    }
}

fn verdict(grid: &mut Grid, model: &Model) {
    let data = &model.data;
    let mut column = 1;
    if let Some(trouble) = &model.trouble {
        let age = if data.at.is_some() { "; what is shown was seen before" } else { "" };
        column += grid.put(0, column, grid.width, "not reached", Style::RED.and(Style::BOLD));
        grid.put(
            0,
            column + 2,
            grid.width,
            &format!("{trouble}; tried again all the time{age}"),
            Style::PLAIN,
        );
        return;
    }
    let Some(status) = &data.status else {
        let word = if data.at.is_some() { "no supervisor runs" } else { "looking" };
        column += grid.put(0, column, grid.width, word, Style::YELLOW.and(Style::BOLD));
        grid.put(0, column + 2, grid.width, &data.place, Style::PLAIN);
        return;
    };
    let color = match status.verdict {
        Health::Healthy => Style::GREEN,
        Health::Degraded => Style::YELLOW,
        Health::Unhealthy => Style::RED,
    };
    column += grid.put(0, column, grid.width, status.verdict.as_str(), color.and(Style::BOLD));
    grid.put(0, column + 2, grid.width, &reasons(status), Style::PLAIN);
}

/// The reasons, or else what the supervisor is.
fn reasons(status: &Status) -> String {
    let stopping = match status.stopping {
        None => "",
        Some(Stop::Drain) => "stopping: drains; ",
        Some(Stop::Terminate) => "stopping: TERM sent; ",
        Some(Stop::Kill) => "stopping: KILL sent; ",
    };
    let own = format!("taskvisor {} up {} on {}", status.version, age(status.up), status.broker);
    match status.reasons.as_slice() {
        [] => stopping.to_owned() + &own,
        reasons => format!("{stopping}{}  ({own})", reasons.join("; ")),
    }
}

fn host(model: &Model) -> String {
    let Some(status) = &model.data.status else { return String::new() };
    let host = &status.host;
    let pressure = model
        .data
        .pressure
        .map(|[cpu, memory, disk]| format!("  waits for cpu {cpu:.0}% memory {memory:.0}% disk {disk:.0}%"));
    format!(
        "host {}  load {:.2} of {}  memory {} of {}{}",
        host.name,
        host.load,
        host.cpus,
        size(host.memory_used),
        size(host.memory_total),
        pressure.unwrap_or_default()
    )
}

/// Limit of the bars for each rate.
const BARS: usize = 10;

fn rates(grid: &mut Grid, model: &Model) {
    let slots = || model.data.status.iter().flat_map(|status| &status.pools).flat_map(|pool| &pool.slots);
    let busy = slots().filter(|slot| !slot.jobs.is_empty()).count();
    let (rates, ascii) = (&model.rates, model.look.ascii);
    let wait = rates.wait_now.and_then(|wait| Duration::try_from_secs_f64(wait).ok());
    let wait = wait.map_or_else(|| "-".to_owned(), age);
    // Without a supervisor the queues are asked for on their own tab alone.
    let waiting = match rates.waiting.is_empty() {
        true => "waiting not known yet".to_owned(),
        false => format!("waiting {}", grouped(rates.waiting.last() as u64)),
    };
    let parts: [(String, Option<&Ring>, Style); 5] = [
        (format!("busy {busy} of {}", slots().count()), None, Style::PLAIN),
        (waiting, Some(&rates.waiting), Style::CYAN),
        (format!("wait p95 {wait}"), Some(&rates.wait), Style::CYAN),
        (format!("complete {:.1}/s", rates.complete.last()), Some(&rates.complete), Style::GREEN),
        (format!("failed {:.1}/s", rates.failed.last()), Some(&rates.failed), Style::RED),
    ];
    // Bars have what the figures leave them: a blank stands before them, and two behind.
    let figures: usize = parts.iter().map(|(text, ..)| width(text) + 3).sum();
    let room =
        grid.width.saturating_sub(1 + figures - 2) / parts.iter().filter(|part| part.1.is_some()).count();
    let bars = |ring: &Ring| ring.bars(room.min(BARS), ascii);
    let mut column = 1;
    for (text, ring, color) in parts {
        let bars = ring.map(bars).unwrap_or_default();
        if column + width(&text) > grid.width {
            return;
        }
        column += grid.put(2, column, grid.width, &text, Style::PLAIN) + 1;
        column += grid.put(2, column, grid.width, &bars, color) + 2;
    }
}
