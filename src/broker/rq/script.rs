//! The script of RQ's commands, which runs in Redis.

use redis::Cmd;

use crate::broker::redis::Needs;

/// Joins the sources in order. Each one may use what those before it define.
macro_rules! script {
    ($($name:literal),*) => { concat!($(include_str!(concat!("script/", $name, ".lua")), "\n",)*) };
}

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
    use std::fs;

    use super::*;

    #[test]
    fn every_source_is_part_of_the_script_and_short_enough() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/broker/rq/script");
        let mut count = 0;
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            assert!(NEEDS.script.contains(&text), "{}", path.display());
            assert!(text.lines().count() <= 400 && text.lines().all(|line| line.len() <= 120));
            count += 1;
        }
        assert!(count > 4);
    }
}
