//! The imports and declarations of source files, as far as `tests/tidy.rs` needs them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The module path of a file: `cli::job::list`.
pub type Module = Vec<String>;

/// The module of a file: `src/cli/job/mod.rs` is `cli::job`.
pub fn module(path: &Path) -> Module {
    let mut parts: Module =
        path.with_extension("").iter().skip(1).map(|part| part.to_string_lossy().into_owned()).collect();
    parts.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
    parts
}

/// The code of a file without comments and without the tests at its end.
pub fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>();
    let is_tests = |at: &usize| {
        lines[*at].trim() == "#[cfg(test)]"
            && lines.get(at + 1).is_some_and(|next| next.contains("mod ") && next.trim_end().ends_with('{'))
    };
    let end = (0..lines.len()).find(is_tests).unwrap_or(lines.len());
    lines[..end].join("\n")
}

/// The modules of a file that are compiled for tests only.
pub fn test_modules(text: &str) -> Vec<String> {
    let after = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| rest.lines().next());
    let name = |line: &str| Some(line.split_once("mod ")?.1.strip_suffix(';')?.to_owned());
    after.filter_map(name).collect()
}

/// Expands `a::{b, c::{d, e}}` into its paths, each with its local name.
fn paths(tree: &str, before: &str, found: &mut Vec<(String, String)>) {
    let tree = tree.trim();
    if let Some((prefix, rest)) = tree.split_once('{') {
        let (mut depth, mut start) = (0, 0);
        let inner = &rest[..rest.rfind('}').unwrap_or(rest.len())];
        for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    paths(&inner[start..at], &format!("{before}{prefix}"), found);
                    start = at + 1;
                }
                _ => {}
            }
        }
    } else if !tree.is_empty() {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = format!("{before}{path}").replace(char::is_whitespace, "");
        let path = path.strip_suffix("::self").map_or(path.clone(), str::to_owned);
        let name = if alias.is_empty() { path.rsplit("::").next().unwrap_or_default() } else { alias.trim() };
        found.push((path.clone(), name.to_owned()));
    }
}

/// All files, their re-exports, and the paths that each file names.
#[derive(Default)]
pub struct Map {
    modules: BTreeSet<Module>,
    /// The modules with a `lib.rs`.
    crates: BTreeSet<Module>,
    shown: BTreeMap<(Module, String), Module>,
    pub named: Vec<(Module, Module)>,
}

impl Map {
    /// A map of these files; none is read yet.
    pub fn of(files: &[PathBuf]) -> Map {
        let modules = files.iter().map(|path| module(path)).collect();
        let crates = files.iter().filter(|path| path.ends_with("lib.rs")).map(|path| module(path)).collect();
        Map { modules, crates, ..Map::default() }
    }

    /// The crate of a file: `brokers::qless` of `brokers::qless::put`; empty = that of the program.
    pub fn crate_of<'a>(&self, file: &'a [String]) -> &'a [String] {
        let prefixes = (0..=file.len()).rev().map(|length| &file[..length]);
        prefixes.into_iter().find(|prefix| self.crates.contains(*prefix)).unwrap_or_default()
    }

    /// Resolves a path as written in a file to one from the crate root.
    fn absolute(&self, file: &Module, path: &str) -> Option<Module> {
        let mut parts: Module = path.split("::").map(str::to_owned).collect();
        let mut base = match parts[0].as_str() {
            "crate" => self.crate_of(file).to_vec(),
            "self" | "super" => file.clone(),
            child if self.modules.contains(&[file.as_slice(), &[child.to_owned()]].concat()) => {
                return Some([file.as_slice(), &parts].concat());
            }
            _ => return None,
        };
        while matches!(parts.first().map(String::as_str), Some("crate" | "self" | "super")) {
            if parts.remove(0) == "super" {
                base.pop();
            }
        }
        Some([base, parts].concat())
    }

    /// Reads the names of a file.
    pub fn read(&mut self, file: &Module, text: &str) {
        let rest = code(text);
        let mut others = String::new();
        let mut from = 0;
        while let Some(at) = rest[from..].find("use ").map(|at| at + from) {
            let line = &rest[rest[..at].rfind('\n').map_or(0, |end| end + 1)..at];
            let end = rest[at..].find(';').map_or(rest.len(), |end| end + at);
            others += &rest[from..at];
            from = at + 4;
            if !(line.trim().is_empty() || line.trim().starts_with("pub")) {
                continue;
            }
            from = end;
            let mut found = Vec::new();
            paths(&rest[at + 4..end], "", &mut found);
            for (path, name) in found {
                let Some(target) = self.absolute(file, &path) else { continue };
                match line.trim().is_empty() {
                    true => self.named.push((file.clone(), target)),
                    false => drop(self.shown.insert((file.clone(), name), target)),
                }
            }
        }
        others += &rest[from..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        for path in others.split(|c| !is_word(c)).filter(|path| path.contains("::")) {
            if let Some(target) = self.absolute(file, path.trim_end_matches(':')) {
                self.named.push((file.clone(), target));
            }
        }
    }

    /// The file that defines the item of a path.
    pub fn file_of(&self, path: &[String], hops: usize) -> Module {
        let mut here = Module::new();
        for (at, part) in path.iter().enumerate() {
            let below = [here.as_slice(), std::slice::from_ref(part)].concat();
            if self.modules.contains(&below) {
                here = below;
            } else if let (Some(target), true) = (self.shown.get(&(here.clone(), part.clone())), hops < 8) {
                return self.file_of(&[target.as_slice(), &path[at + 1..]].concat(), hops + 1);
            } else {
                break;
            }
        }
        here
    }
}

/// Splits a list at the commas outside of brackets.
pub fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(list[start..].trim());
    found.retain(|part| !part.is_empty());
    found
}

/// The variants of the enums of a file, with their fields.
pub fn variants(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("enum ") {
        let Some(start) = code[at..].find('{').map(|start| at + start + 1) else { continue };
        let mut depth = 1;
        let end = code[start..].find(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        found.extend(parts(&code[start..start + end.unwrap_or(0)]));
    }
    found
}
