//! What the keeper's signals mean.

use crate::model::Stop;
use crate::wire::keeper::Ask;

/// The stages so far. TERM once or many times is a drain; a second INT, or a second QUIT, goes a stage further.
#[derive(Debug, Default)]
pub struct Asks {
    interrupts: u32,
    quits: u32,
}

impl Asks {
    /// How to stop after one more signal, if it means that at all.
    pub fn hear(&mut self, ask: Ask) -> Option<Stop> {
        match ask {
            Ask::Terminate => Some(Stop::Drain),
            Ask::Interrupt => {
                self.interrupts += 1;
                Some(stage(self.interrupts))
            }
            Ask::Quit => {
                self.quits += 1;
                Some(stage(self.quits + 1))
            }
            Ask::Hangup => None,
        }
    }
}

fn stage(count: u32) -> Stop {
    match count {
        0 | 1 => Stop::Drain,
        2 => Stop::Terminate,
        _ => Stop::Kill,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn term_is_a_drain_however_often_it_comes() {
        let mut asks = Asks::default();
        assert!((0..5).all(|_| asks.hear(Ask::Terminate) == Some(Stop::Drain)));
    }

    #[test]
    fn each_interrupt_and_quit_goes_a_stage_further() {
        let mut asks = Asks::default();
        let heard: Vec<_> = (0..3).filter_map(|_| asks.hear(Ask::Interrupt)).collect();
        assert_eq!(heard, [Stop::Drain, Stop::Terminate, Stop::Kill]);
        let heard: Vec<_> = (0..2).filter_map(|_| asks.hear(Ask::Quit)).collect();
        assert_eq!(heard, [Stop::Terminate, Stop::Kill]);
    }
}
