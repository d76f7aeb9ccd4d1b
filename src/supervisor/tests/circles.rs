//! Files whose methods call each other are one file in the mind of the reader, and a call of a method needs no import
//! that would show it. So the supervisor's files call methods in one direction, apart from small circles.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Largest number of files in a circle.
const MOST: usize = 4;

/// Names that methods of the standard library have, too: a call says nothing.
const COMMON: [&str; 13] = [
    "all", "count", "end", "find", "first", "is_empty", "len", "next", "push", "replace", "start", "take",
    "update",
];

/// The code of each file of the crate without comments and tests.
fn files(dir: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("tests") {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap()).collect();
            found.insert(path.display().to_string(), code.join("\n"));
        }
    }
}

/// The names behind each occurrence of `before`, up to `after`.
fn names<'a>(code: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    let ends = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = move |rest: &'a str| ends(rest).map(|end| rest.split_at(end));
    let names = code.split(before).skip(1).filter_map(name);
    names.filter(move |(name, rest)| !name.is_empty() && rest.starts_with(after)).map(|(name, _)| name)
}

#[test]
fn methods_of_at_most_four_files_call_each_other() {
    let mut code = BTreeMap::new();
    files(Path::new(env!("CARGO_MANIFEST_DIR")), &mut code);
    let mut homes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, code) in &code {
        for name in names(code, "\n    fn ", "(")
            .chain(names(code, "\n    pub fn ", "("))
            .chain(names(code, "\n    pub(super) fn ", "("))
            .chain(names(code, "\n    pub(crate) fn ", "("))
        {
            homes.entry(name).or_default().insert(file);
        }
    }
    homes.retain(|name, homes| homes.len() == 1 && !COMMON.contains(name));
    assert!(homes.len() > 200, "the methods are not found: {}", homes.len());
    let calls = |code: &String| {
        let called = [names(code, ".", "("), names(code, "::", "(")].into_iter().flatten();
        let bare = names(code, "::", ")").chain(names(code, "::", ","));
        called.chain(bare).filter_map(|name| homes.get(name)?.first().copied()).collect::<BTreeSet<&str>>()
    };
    let mut reached: BTreeMap<&str, BTreeSet<&str>> =
        code.iter().map(|(file, code)| (file.as_str(), calls(code))).collect();
    for through in code.keys() {
        let further = reached[through.as_str()].clone();
        for reached in reached.values_mut().filter(|reached| reached.contains(through.as_str())) {
            reached.extend(&further);
        }
    }
    for (file, to) in &reached {
        let circle: Vec<&&str> = to.iter().filter(|other| reached[*other].contains(file)).collect();
        assert!(circle.len() <= MOST, "their methods call each other: {circle:#?}");
    }
}
