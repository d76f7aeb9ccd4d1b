//! What a key does: it changes the model, and may ask for something outside.

use crate::actions::fitting;
use crate::ask::{Kind, Request};
use crate::layout::layout;
use crate::screen::decode::Key;
use crate::state::{Line, Model, Said};
use crate::thing::{Tab, Thing};

mod orders;

/// What a key has the loop do, beside changing the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The end of it.
    Quit,
    /// A request to the supervisor or the broker.
    Ask(Request),
    /// A look, now.
    Look,
    /// The whole screen again.
    Redraw,
    /// Text into the clipboard of the terminal.
    Copy(String),
}

/// Presses a key.
pub fn press(model: &mut Model, key: Key) -> Vec<Effect> {
    model.said = None;
    match model.line.clone() {
        Line::Keys if model.help => {
            model.help = !matches!(key, Key::Char('?' | 'q') | Key::Esc | Key::Enter);
            Vec::new()
        }
        Line::Keys if model.pane.whole => whole(model, key),
        Line::Keys => open(model, key),
        Line::Filter => filter(model, key),
        Line::Palette(text, pick) => palette(model, text, pick, key),
        Line::Confirm(order) => match key {
            Key::Char('Y') => {
                model.line = Line::Keys;
                model.place_mut().marks.clear();
                model.doing += 1;
                vec![Effect::Ask(Request::Do(order))]
            }
            Key::Char('y') => {
                model.line = Line::Keys;
                copy(model, order.command(&model.program))
            }
            Key::Char('n' | 'N' | 'q') | Key::Esc => {
                model.line = Line::Keys;
                Vec::new()
            }
            _ => Vec::new(),
        },
    }
}

/// A key while nothing is typed and the table is there.
fn open(model: &mut Model, key: Key) -> Vec<Effect> {
    let (line, room) = (model.place().line, layout(model.size, false).table.len().max(1));
    match key {
        Key::Char('j') | Key::Down => model.select(line + 1),
        Key::Char('k') | Key::Up => model.select(line.saturating_sub(1)),
        Key::Char('g') | Key::Home => model.select(0),
        Key::Char('G') | Key::End => model.select(usize::MAX - 1),
        Key::PageDown | Key::Ctrl('f') => model.select(line.saturating_add(room)),
        Key::PageUp | Key::Ctrl('b') => model.select(line.saturating_sub(room)),
        Key::Ctrl('d') => model.select(line + room / 2),
        Key::Ctrl('u') => model.select(line.saturating_sub(room / 2)),
        Key::Char(' ') => mark(model),
        Key::Char('a') => mark_all(model),
        Key::Enter => model.pane.whole = model.subject().is_some(),
        Key::Esc => model.place_mut().marks.clear(),
        Key::Tab | Key::Right => return turn(model, 1),
        Key::BackTab | Key::Left => return turn(model, Tab::ALL.len() - 1),
        Key::Char(digit @ '1'..='7') => return to_tab(model, Tab::ALL[digit as usize - '1' as usize]),
        Key::Char(order @ ('C' | 'K' | 'R' | 'D' | 'P' | '+' | '-' | 'N')) => orders::ask(model, order),
        other => return common(model, other),
    }
    Vec::new()
}

/// A key while a page has the whole screen.
fn whole(model: &mut Model, key: Key) -> Vec<Effect> {
    let room = layout(model.size, true).pane.len();
    let by = match key {
        Key::Char('j') | Key::Down => 1,
        Key::Char('k') | Key::Up => -1,
        Key::Char(' ') | Key::PageDown => room as isize,
        Key::PageUp => -(room as isize),
        Key::Ctrl('d') => room as isize / 2,
        Key::Ctrl('u') => -(room as isize / 2),
        Key::Char('g') | Key::Home => isize::MIN,
        Key::Char('G') | Key::End => isize::MAX,
        Key::Enter | Key::Esc | Key::Char('q') => {
            model.pane.whole = false;
            return Vec::new();
        }
        Key::Char(order @ ('C' | 'K' | 'R' | 'D' | 'P' | '+' | '-' | 'N')) => {
            orders::ask(model, order);
            return Vec::new();
        }
        other => return common(model, other),
    };
    model.pane.scroll(by, room);
    Vec::new()
}

/// A key that means the same with and without the table.
fn common(model: &mut Model, key: Key) -> Vec<Effect> {
    match key {
        Key::Char('q') => return vec![Effect::Quit],
        Key::Char('?') => model.help = true,
        Key::Char('/') => (model.line, model.pane.whole) = (Line::Filter, false),
        Key::Char(':') => model.line = Line::Palette(String::new(), 0),
        Key::Char('l') => return output(model),
        Key::Char('w') => {
            let kind = if model.pane.kind == Kind::Why { Kind::Page } else { Kind::Why };
            return pane(model, kind);
        }
        Key::Char('t') => {
            model.tree = !model.tree;
            model.rebuild();
        }
        Key::Char('o') => {
            let sorts = model.tab.sorts().len();
            let place = model.place_mut();
            place.sort = (place.sort + 1) % sorts;
            model.rebuild();
        }
        Key::Char('p') => return freeze(model),
        Key::Char('y') => {
            let names: Vec<String> = model.chosen().iter().map(Thing::name).collect();
            return copy(model, names.join(" "));
        }
        Key::Char('r') => return vec![Effect::Look],
        Key::Ctrl('l') => return vec![Effect::Redraw],
        _ => {}
    }
    Vec::new()
}

fn filter(model: &mut Model, key: Key) -> Vec<Effect> {
    match key {
        Key::Char(letter) => model.place_mut().filter.push(letter),
        Key::Paste(text) => {
            // The end of a line in it is no Enter.
            let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
            model.place_mut().filter.push_str(&text);
        }
        Key::Backspace if model.place_mut().filter.pop().is_none() => model.line = Line::Keys,
        Key::Ctrl('u') => model.place_mut().filter.clear(),
        Key::Esc => {
            model.place_mut().filter.clear();
            model.line = Line::Keys;
        }
        Key::Enter => model.line = Line::Keys,
        _ => {}
    }
    model.rebuild();
    // Jobs are filtered where they are.
    if model.line == Line::Keys && model.tab == Tab::Jobs { vec![Effect::Look] } else { Vec::new() }
}

fn palette(model: &mut Model, mut text: String, mut pick: usize, key: Key) -> Vec<Effect> {
    let fits = fitting(&text);
    match key {
        Key::Enter => {
            model.line = Line::Keys;
            return fits.get(pick).map_or_else(Vec::new, |action| press(model, action.key()));
        }
        Key::Esc => {
            model.line = Line::Keys;
            return Vec::new();
        }
        // Perhaps nothing fits.
        Key::Tab | Key::Down => pick = (pick + 1) % fits.len().max(1),
        Key::BackTab | Key::Up => pick = (pick + fits.len().max(1) - 1) % fits.len().max(1),
        Key::Backspace if text.pop().is_none() => {
            model.line = Line::Keys;
            return Vec::new();
        }
        Key::Backspace => pick = 0,
        Key::Char(letter) => {
            text.push(letter);
            pick = 0;
        }
        _ => {}
    }
    model.line = Line::Palette(text, pick);
    Vec::new()
}

fn turn(model: &mut Model, by: usize) -> Vec<Effect> {
    to_tab(model, Tab::ALL[(model.tab as usize + by) % Tab::ALL.len()])
}

fn to_tab(model: &mut Model, tab: Tab) -> Vec<Effect> {
    model.tab = tab;
    let mut effects = pane(model, Kind::Page);
    model.rebuild();
    effects.push(Effect::Look);
    effects
}

/// Shows another kind of page.
fn pane(model: &mut Model, kind: Kind) -> Vec<Effect> {
    let followed = model.pane.kind == Kind::Output;
    model.pane.turn(kind, None);
    if followed { vec![Effect::Ask(Request::Unfollow)] } else { Vec::new() }
}

/// Shows the output of the selected job, or no more.
fn output(model: &mut Model) -> Vec<Effect> {
    if model.pane.kind == Kind::Output {
        return pane(model, Kind::Page);
    }
    let Some(job) = orders::jobs(model).first().cloned() else {
        return say(model, "there is no job here whose output could be shown");
    };
    model.pane.turn(Kind::Output, Some(Thing::Job(job.clone())));
    vec![Effect::Ask(Request::Follow(job))]
}

fn freeze(model: &mut Model) -> Vec<Effect> {
    model.frozen = !model.frozen;
    let mut effects = vec![Effect::Ask(Request::Events(!model.frozen))];
    if !model.frozen {
        effects.push(Effect::Look);
    }
    effects
}

fn mark(model: &mut Model) {
    if let Some(thing) = model.selected().cloned() {
        let marks = &mut model.place_mut().marks;
        if !marks.remove(&thing) {
            marks.insert(thing);
        }
    }
    // To the next line, so that one key marks several in a row.
    model.select(model.place().line + 1);
}

fn mark_all(model: &mut Model) {
    let all = model.table.rows.iter().map(|row| row.thing.clone()).collect();
    let marks = &mut model.place_mut().marks;
    // The same key again takes all marks away.
    *marks = if marks.is_empty() { all } else { Default::default() };
}

fn copy(model: &mut Model, text: String) -> Vec<Effect> {
    if text.is_empty() {
        return Vec::new();
    }
    // A terminal does not say whether it took the text.
    model.said = Some(Said { text: format!("copied, if the terminal allows it: {text}"), is_bad: false });
    vec![Effect::Copy(text)]
}

fn say(model: &mut Model, text: &str) -> Vec<Effect> {
    model.said = Some(Said { text: text.into(), is_bad: true });
    Vec::new()
}
