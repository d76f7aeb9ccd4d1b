//! The script that runs in Redis: every command of qless, and our own commands, over the same keys.

/// Joins the sources in order. Each one may use what those before it define. The argument is the end of the script.
macro_rules! script {
    ([$($name:literal),* $(,)?], $after:literal) => {
        concat!($(include_str!(concat!("script/", $name, ".lua")), "\n",)* $after)
    };
    ($after:literal) => {
        script!(
            [
                "base", "job", "due", "pop", "put", "hold", "complete", "cancel", "edit", "look", "queues", "recur",
                "config", "ours/base", "ours/malformed", "ours/remove", "ours/expiry", "ours/unheard", "ours/jids",
                "ours/holds", "ours/put", "ours/classes", "ours/settle", "ours/asked", "ours/recur", "ours/news", "ours/lists",
                "ours/edits", "ours/failures", "ours/queues", "ours/fleet", "ours/end", "end",
            ],
            $after
        )
    };
}

/// All but the last line: defines the function `taskvisor(KEYS, ARGV)` for a script that calls it.
pub const LIB: &str = script!("");

/// The whole script, for `EVALSHA <sha> 0 <command> <now> [arguments…]`.
pub const SCRIPT: &str = script!("return taskvisor(KEYS, ARGV)\n");

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn sources() -> Vec<(String, String)> {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/broker/qless/script");
        let paths = |dir: String| {
            let entries = fs::read_dir(dir).expect("the sources");
            entries.map(|entry| entry.expect("a source").path()).filter(|path| path.is_file())
        };
        let paths = paths(dir.into()).chain(paths(format!("{dir}/ours")));
        paths.map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("text"))).collect()
    }

    #[test]
    fn every_source_is_part_of_the_script() {
        assert!(sources().len() > 10);
        for (path, text) in sources() {
            assert!(SCRIPT.contains(&text) && LIB.contains(&text), "{path}");
        }
    }

    #[test]
    fn source_files_of_the_script_are_short_enough() {
        for (path, text) in sources() {
            assert!(text.lines().count() <= 400, "{path}");
            assert!(text.lines().all(|line| line.chars().count() <= 120), "{path}");
        }
    }
}
