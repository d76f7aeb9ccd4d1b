//! The script of RQ's commands, which runs in Redis.

use redis::Cmd;

use crate::broker::redis::{Needs, script};

pub(super) static NEEDS: Needs = Needs {
    script: script!("base", "history", "limits", "callbacks", "take", "ends", "chores", "look", "end"),
    keys: "rq:*",
    news: None,
};

/// Writes a list of arguments as the script reads it: their number, then the arguments.
pub(super) fn write_list<'a>(cmd: &mut Cmd, words: impl ExactSizeIterator<Item = &'a str>) {
    cmd.arg(words.len());
    words.for_each(|word| _ = cmd.arg(word));
}

#[cfg(test)]
mod tests {
    use crate::broker::redis::assert_whole;

    #[test]
    fn every_source_is_part_of_the_script_and_short_enough() {
        assert_whole(super::NEEDS.script, "rq");
    }
}
