//! The script that runs in Redis: every command of qless, and our own commands, over the same keys.

use redis_link::script;

macro_rules! sources {
    () => {
        script!(
            "base",
            "free",
            "job",
            "due",
            "pop",
            "put",
            "hold",
            "complete",
            "cancel",
            "edit",
            "look",
            "queues",
            "recur",
            "config",
            "ours/base",
            "ours/malformed",
            "ours/remove",
            "ours/expiry",
            "ours/unheard",
            "ours/jids",
            "ours/holds",
            "ours/held",
            "ours/put",
            "ours/classes",
            "ours/settle",
            "ours/asked",
            "ours/recur",
            "ours/news",
            "ours/lists",
            "ours/edits",
            "ours/failures",
            "ours/queues",
            "ours/fleet",
            "ours/end",
            "end",
        )
    };
}

/// All but the last line: defines the function `taskvisor(KEYS, ARGV)` for a script that calls it.
pub const LIB: &str = sources!();

/// The whole script, for `EVALSHA <sha> 0 <command> <now> [arguments…]`.
pub const SCRIPT: &str = concat!(sources!(), "return taskvisor(KEYS, ARGV)\n");

#[cfg(test)]
mod tests {
    use redis_link::assert_whole;

    #[test]
    fn every_source_is_part_of_the_script_and_short_enough() {
        assert_whole(super::LIB, env!("CARGO_MANIFEST_DIR"));
    }
}
