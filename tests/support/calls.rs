//! Which files of a crate call each other's methods, as far as `tests/tidy.rs` needs it: a call of a method needs no
//! import that would show it.

use std::collections::{BTreeMap, BTreeSet};

/// Names that the standard library has, too: a call says nothing.
const COMMON: [&str; 31] = [
    "all", "begin", "close", "count", "edit", "end", "entry", "extend", "find", "first", "insert",
    "is_empty", "last", "len", "lock", "map", "name", "new", "next", "open", "push", "read", "remove",
    "replace", "send", "start", "take", "update", "wait", "with", "write",
];

/// What begins the definition of a method.
const METHODS: [&str; 5] =
    ["\n    fn ", "\n    pub fn ", "\n    pub(super) fn ", "\n    pub(crate) fn ", "\n    async fn "];

/// The names behind each occurrence of `before` that `after` follows.
fn names<'a>(code: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    let ends = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = move |rest: &'a str| ends(rest).map(|end| rest.split_at(end));
    let names = code.split(before).skip(1).filter_map(name);
    names.filter(move |(name, rest)| !name.is_empty() && rest.starts_with(after)).map(|(name, _)| name)
}

/// The circles of files whose methods call each other, from the code of each file of one crate. A method counts if its
/// name stands in one file alone.
pub fn circles<'a>(files: &'a BTreeMap<String, String>) -> BTreeSet<BTreeSet<&'a str>> {
    let mut homes: BTreeMap<&'a str, BTreeSet<&'a str>> = BTreeMap::new();
    for (file, code) in files {
        for name in METHODS.iter().flat_map(|method| names(code, method, "(")) {
            homes.entry(name).or_default().insert(file);
        }
    }
    homes.retain(|name, homes| homes.len() == 1 && !COMMON.contains(name));
    let calls = |code: &'a String| -> BTreeSet<&'a str> {
        let called = names(code, ".", "(").chain(names(code, "Self::", "("));
        called.filter_map(|name| homes.get(name)?.first().copied()).collect()
    };
    let mut reached: BTreeMap<&'a str, BTreeSet<&'a str>> =
        files.iter().map(|(file, code)| (file.as_str(), calls(code))).collect();
    for through in files.keys() {
        let further = reached[through.as_str()].clone();
        for reached in reached.values_mut().filter(|reached| reached.contains(through.as_str())) {
            reached.extend(&further);
        }
    }
    let circle = |(file, to): (&&'a str, &BTreeSet<&'a str>)| -> BTreeSet<&'a str> {
        to.iter().filter(|other| reached[**other].contains(*file)).copied().collect()
    };
    reached.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}
