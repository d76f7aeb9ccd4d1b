//! The script of RQ's commands, which runs in Redis.

use redis_link::{Needs, script};

pub(super) static NEEDS: Needs = Needs {
    script: script!("base", "history", "limits", "callbacks", "take", "ends", "chores", "look", "end"),
    keys: "rq:*",
    expire: true,
    news: None,
};

#[cfg(test)]
mod tests {
    use redis_link::assert_whole;

    #[test]
    fn every_source_is_part_of_the_script_and_short_enough() {
        assert_whole(super::NEEDS.script, env!("CARGO_MANIFEST_DIR"));
    }
}
