//! The shape of the tree, held by a test: who may import whom, how long a file may be, which words are not ours.

use std::fs;
use std::path::{Path, PathBuf};

/// What each room may import of the others (ARCHITECTURE.md has the picture).
const ROOMS: [(&str, &[&str]); 17] = [
    ("model", &[]),
    ("clock", &["model"]),
    ("failpoint", &[]),
    ("select", &["model"]),
    ("kale", &[]),
    ("supervisor", &["model", "select"]),
    ("wire", &["model"]),
    ("keeper", &["wire", "model", "clock", "failpoint"]),
    ("log", &["model", "clock"]),
    ("process", &["model", "wire", "log"]),
    ("broker", &["model", "select", "kale", "clock", "failpoint"]),
    ("api", &["model"]),
    ("config", &["model", "broker", "kale"]),
    ("engine", &["model", "supervisor", "process", "broker", "api", "log", "clock", "failpoint", "wire"]),
    ("failure", &["config", "api", "broker"]),
    ("boot", &["failure", "config", "api", "broker", "engine", "keeper", "process", "log", "model"]),
    ("cli", &["boot", "failure", "config", "api", "broker", "keeper", "log", "model", "clock"]),
];

/// Words that have a better one in the glossary of ARCHITECTURE.md.
const BANNED: [(&str, &str); 6] = [
    ("zygote", "template"),
    ("heartbeat", "renew or ping"),
    ("dequeue", "fetch"),
    ("quarantine", "held"),
    ("arbiter", "supervisor"),
    ("respawn", "recycle"),
];

const LINES: usize = 400;
const TEST_LINES: usize = 500;

fn sources(root: &str) -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new(root), &mut found);
    found.sort();
    found
}

fn room(path: &Path) -> Option<String> {
    let mut parts = path.strip_prefix("src").ok()?.components();
    let first = parts.next()?.as_os_str().to_str()?.to_owned();
    parts.next().map(|_| first)
}

#[test]
fn arrows_only_point_down() {
    let mut wrong = Vec::new();
    for (path, text) in sources("src") {
        let Some(room) = room(&path) else { continue };
        let (_, allowed) =
            ROOMS.iter().find(|(name, _)| *name == room).unwrap_or_else(|| panic!("no rule for room {room}"));
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (at, _) in code.match_indices("crate::") {
                let rest = &code[at + "crate::".len()..];
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if !name.is_empty() && name != room && !allowed.contains(&name.as_str()) {
                    wrong.push(format!("{}:{}: {room} may not import {name}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_pure_rooms_touch_nothing() {
    let forbidden = [
        "std::fs",
        "std::net",
        "std::process",
        "std::thread",
        "SystemTime",
        "tokio",
        "async ",
        "tracing",
        "println!",
        "HashMap",
        "Result<",
        "Pid",
    ];
    let mut wrong = Vec::new();
    for (path, text) in sources("src") {
        if !matches!(room(&path).as_deref(), Some("supervisor" | "select")) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            wrong.extend(
                forbidden
                    .iter()
                    .filter(|word| code.contains(**word))
                    .map(|word| format!("{}:{}: {word}", path.display(), number + 1)),
            );
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_lives_in_the_keeper_and_in_one_file_of_the_worker_crate() {
    for (path, text) in [sources("src"), sources("rust/src")].concat() {
        if room(&path).as_deref() != Some("keeper") && !path.ends_with("rust/src/sys.rs") {
            let found = text.lines().find(|line| line.contains("unsafe {") || line.contains("(unsafe_code"));
            assert!(found.is_none(), "{}: {found:?}", path.display());
        }
    }
}

/// The code of a source file without its tests, which come last.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

#[test]
fn no_file_is_made_with_the_mode_of_the_umask() {
    // Files of the kernel have the kernel's modes.
    let of_the_kernel = ["src/keeper/cgroup.rs", "src/keeper/controllers.rs", "src/keeper/parked.rs"];
    let mut wrong = Vec::new();
    let ours = sources("src").into_iter().filter(|(path, _)| !path.ends_with("tests.rs"));
    for (path, text) in ours {
        let code = without_tests(&text);
        let makes = ["fs::write(", "File::create", "fs::create_dir", "fs::copy("];
        if !of_the_kernel.iter().any(|kernel| path.ends_with(kernel)) {
            wrong.extend(
                makes
                    .iter()
                    .filter(|word| code.contains(**word))
                    .map(|word| format!("{}: {word}: write_private, or a mode of its own", path.display())),
            );
        }
        let modeless = |statement: &&str| {
            let makes = [".create(true)", ".create_new(true)", "DirBuilder::new()", "O_TMPFILE"];
            makes.iter().any(|word| statement.contains(word)) && !statement.contains(".mode(")
        };
        wrong.extend(
            code.split(';')
                .filter(modeless)
                .map(|statement| format!("{}: no mode is given in:{statement}", path.display())),
        );
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_file_fits_in_a_head() {
    for (root, most) in [("src", LINES), ("rust", LINES), ("tests", TEST_LINES)] {
        let long: Vec<String> = sources(root)
            .iter()
            .map(|(path, text)| (path, text.lines().count()))
            .filter(|(_, lines)| *lines > most)
            .map(|(path, lines)| {
                format!("{} has {lines} lines, more than {most}: a question about its shape", path.display())
            })
            .collect();
        assert!(long.is_empty(), "\n{}", long.join("\n"));
    }
}

#[test]
fn one_word_per_thing() {
    let mut wrong = Vec::new();
    // Options of qless have the names that they have there.
    let ours = sources("src").into_iter().filter(|(path, _)| !path.ends_with("broker/redis/others.rs"));
    for (path, text) in ours {
        for (number, line) in text.to_lowercase().lines().enumerate() {
            wrong.extend(BANNED.iter().filter(|(word, _)| line.contains(word)).map(|(word, better)| {
                format!("{}:{}: '{word}' is called {better} here", path.display(), number + 1)
            }));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_test_is_skipped_and_none_sleeps() {
    let sleep = ["thread::", "sleep("].concat();
    let ignore = ["#[", "ignore"].concat();
    // Who waits for others is in `support`, and nowhere else.
    for (path, text) in sources("tests") {
        assert!(!text.contains(&ignore), "{}", path.display());
        assert!(path.starts_with("tests/support") || !text.contains(&sleep), "{}", path.display());
    }
}
