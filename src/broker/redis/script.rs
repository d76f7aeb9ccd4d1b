//! The script that runs in Redis: every command of qless, and those of our own, over the same keys.

/// Joins the sources in their order: each may use what those before it made.
macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        concat!($(include_str!(concat!("script/", $name, ".lua")), "\n"),*)
    };
}

/// The whole of it, for `EVALSHA <sha> 0 <command> <now> [arguments…]`.
pub const SCRIPT: &str = sources!(
    "base", "job", "due", "pop", "put", "hold", "complete", "cancel", "edit", "look", "queues", "recur",
    "config", "end"
);
