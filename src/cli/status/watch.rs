//! `status --watch`: what fits on the screen, and the keys.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::sync::mpsc::{Receiver, channel};

use crate::cli::term::screen::Look;

/// The lines of the head, the tree and the queues that fit. The tree gives way first, and a mark says what is missing.
pub(super) fn fit(parts: &[String; 3], look: &Look) -> Vec<String> {
    let [head, tree, queues] = parts.each_ref().map(|text| text.lines().collect::<Vec<_>>());
    let room = look.height.unwrap_or(usize::MAX);
    if head.len() + tree.len() + queues.len() <= room {
        return [head, tree, queues].concat().into_iter().map(str::to_owned).collect();
    }
    let below = queues.len().min(room / 2);
    let above = head.len().min((room - below).saturating_sub(tree.len().min(3)).max(1)).min(room - below);
    let middle = tree.len().min(room - below - above);
    // What the tree does not need.
    let below = queues.len().min(room - above - middle);
    [cut(&head, above, look), cut(&tree, middle, look), cut(&queues, below, look)].concat()
}

/// So many of these lines; the last one says how many more there are.
fn cut(lines: &[&str], room: usize, look: &Look) -> Vec<String> {
    let mut shown: Vec<String> = lines.iter().take(room).map(|line| (*line).to_owned()).collect();
    if let Some(last) = shown.last_mut()
        && lines.len() > room
    {
        let mark = if look.ascii { "..." } else { "…" };
        *last = look.cut(&format!("{mark} {} more lines", lines.len() - room + 1)).into_owned();
    }
    shown
}

/// Reads single keys from the terminal. The terminal is as before when this is dropped.
pub(super) struct Keys {
    before: Option<Termios>,
    quit: Receiver<()>,
}

impl Keys {
    /// Begins, if stdin is a terminal and this process is in the foreground there.
    pub(super) fn open() -> Keys {
        let (pressed, quit) = channel(1);
        let before = single_keys(io::stdin().as_fd());
        if before.is_some() {
            // It ends with this process.
            std::thread::spawn(move || {
                let mut key = [0];
                while io::stdin().lock().read(&mut key).is_ok_and(|read| read > 0) {
                    if key[0].eq_ignore_ascii_case(&b'q') && pressed.blocking_send(()).is_err() {
                        return;
                    }
                }
            });
        }
        Keys { before, quit }
    }

    /// Waits for `q`; without a terminal for ever.
    pub(super) async fn quit(&mut self) {
        if self.quit.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            tcsetattr(io::stdin(), OptionalActions::Now, before).ok();
        }
    }
}

/// Has the terminal hand over each key at once, unseen; gives how it was. Ctrl-C and Ctrl-Z stay what they are.
fn single_keys(terminal: BorrowedFd<'_>) -> Option<Termios> {
    // A change from the background would stop this process.
    let is_foreground = tcgetpgrp(terminal).ok()? == getpgrp();
    let before = tcgetattr(terminal).ok().filter(|_| is_foreground)?;
    let mut keys = before.clone();
    keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    tcsetattr(terminal, OptionalActions::Now, &keys).ok().map(|()| before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, lines: usize) -> String {
        (1..=lines).map(|n| format!("{name} {n}\n")).collect()
    }

    fn fitted(counts: [usize; 3], height: usize) -> Vec<String> {
        let parts = [text("head", counts[0]), text("tree", counts[1]), text("queue", counts[2])];
        fit(&parts, &Look { height: Some(height), ..Look::piped(80) })
    }

    #[test]
    fn screen_of_24_lines_keeps_the_queues_and_marks_what_is_cut() {
        let lines = fitted([4, 150, 6], 24);
        assert_eq!(lines.len(), 24);
        assert_eq!(lines[..4], ["head 1", "head 2", "head 3", "head 4"]);
        assert_eq!(lines[16..19], ["tree 13", "… 137 more lines", "queue 1"]);
        assert_eq!(lines[23], "queue 6");
        let many = fitted([30, 150, 60], 24);
        assert_eq!((many.len(), many[23].as_str()), (24, "… 49 more lines"));
        assert_eq!(many[8..13], ["… 22 more lines", "tree 1", "tree 2", "… 148 more lines", "queue 1"]);
        assert_eq!(fitted([3, 2, 40], 24)[23], "… 22 more lines", "what the tree does not need");
        assert_eq!(fitted([3, 10, 11], 24).len(), 24);
        assert!((0..6).all(|height| fitted([3, 10, 11], height).len() <= height.max(1)));
    }
}
