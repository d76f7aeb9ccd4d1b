//! Rules of the source tree: how long a file may be, which words it avoids, what a pure room may use. Each room's
//! Cargo.toml lists the rooms that it may use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[path = "support/calls.rs"]
mod calls;
#[path = "support/imports.rs"]
mod imports;

use imports::{Map, Module, code, module, parts, test_modules, variants};

/// Words that have a better one in docs/glossary.md.
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

/// The source files below a folder, without the tests of the crates in it.
fn sources(root: &str) -> Vec<(PathBuf, String)> {
    let mut found = all_sources(root);
    found.retain(|(path, _)| root == "tests" || !is_test(path));
    found
}

/// The source files of all tests that stand in files of their own.
fn tests() -> Vec<(PathBuf, String)> {
    let of_crates = all_sources("src").into_iter().filter(|(path, _)| is_test(path));
    of_crates.chain(sources("tests")).collect()
}

/// Whether the file belongs to the tests of a crate: `src/wire/tests/wire.rs`.
fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests")
}

fn all_sources(root: &str) -> Vec<(PathBuf, String)> {
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
fn pure_rooms_use_no_clock_no_io_and_no_threads() {
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
        let mut forbidden = forbidden.to_vec();
        match room(&path).as_deref() {
            Some("supervisor" | "select") => {}
            // It parses files that users write, so it returns `Result`.
            Some("simulate") => forbidden.retain(|word| *word != "Result<"),
            _ => continue,
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

/// A clock read elsewhere would not stand still in a test and would differ from ours in suspend. Tokio's instants are
/// those of its timers and stand still with them.
#[test]
fn only_the_clock_room_reads_clocks() {
    let mut wrong = Vec::new();
    let is_ours =
        |path: &Path| !path.starts_with("src/clock") && !path.to_string_lossy().ends_with("tests.rs");
    for (path, text) in sources("src").into_iter().filter(|(path, _)| is_ours(path)) {
        let code = code(&text);
        let is_tokios = code.contains("use tokio::time::") && !code.contains("std::time::Instant");
        for (number, line) in code.lines().enumerate() {
            let reads = ["SystemTime::now", "clock_gettime", "std::time::Instant::now"];
            if reads.iter().any(|word| line.contains(word)) || line.contains("Instant::now") && !is_tokios {
                wrong.push(format!("{}:{}: only the room clock reads clocks", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn only_the_keeper_and_one_file_of_the_worker_crate_have_unsafe_code() {
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
fn each_crate_is_warned_of_what_it_shows_to_nobody() {
    let libraries = [sources("src"), sources("rust/src")].concat();
    let is_warned = |text: &str| text.contains("\n#![warn(unreachable_pub)]\n");
    for (path, text) in libraries.iter().filter(|(path, _)| path.ends_with("lib.rs")) {
        assert!(is_warned(text), "{}: it lacks #![warn(unreachable_pub)]", path.display());
    }
}

#[test]
fn no_file_is_created_with_the_mode_of_the_umask() {
    // The kernel sets the modes of files in cgroups and /proc.
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
fn source_files_are_short_enough() {
    for (files, most) in [(sources("src"), LINES), (sources("rust"), LINES), (tests(), TEST_LINES)] {
        let long: Vec<String> = (files.iter())
            .map(|(path, text)| (path, text.lines().count()))
            .filter(|(_, lines)| *lines > most)
            .map(|(path, lines)| {
                format!("{} has {lines} lines, more than {most}: a question about its shape", path.display())
            })
            .collect();
        assert!(long.is_empty(), "\n{}", long.join("\n"));
    }
}

/// Every documentation page except the map, which has drawings.
fn pages() -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    let mut found: Vec<PathBuf> = [
        "README.md",
        "CONTRIBUTING.md",
        "packaging/README.md",
        "python/README.md",
        "rust/README.md",
        "tests/README.md",
    ]
    .map(PathBuf::from)
    .into();
    walk(Path::new("docs"), &mut found);
    found.sort();
    found
}

/// A page's words: what has a letter or a digit between blanks.
fn words_of(path: &Path) -> usize {
    let text = fs::read_to_string(path).expect("a page");
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Nobody reads more. A page that needs words takes them from another; what only a designer asks is in docs/design/.
#[test]
fn docs_have_no_more_words_than_people_read() {
    let mut words = Vec::new();
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        words.push((words_of(Path::new(name)), PathBuf::from(name)));
    }
    for entry in fs::read_dir("docs").expect("a directory").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "md") {
            words.push((words_of(&path), path));
        }
    }
    for (name, limit) in [("README.md", 1_800), ("docs/figures.md", 2_600)] {
        let (have, _) = words.iter().find(|(_, path)| path == Path::new(name)).expect("the page");
        assert!(*have <= limit, "{name} has {have} words, {limit} are the most");
    }
    let all: usize = words.iter().map(|(have, _)| have).sum();
    words.sort();
    let longest = &words[words.len() - 5..];
    assert!(all <= 45_000, "the pages have {all} words, 45,000 are the most; the longest: {longest:?}");
}

#[test]
fn lines_of_docs_pages_have_at_most_100_characters() {
    const WIDTH: usize = 100;
    let mut long = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).expect("a page");
        // A row of a table cannot be broken.
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('|'));
        long.extend(lines.filter(|(_, line)| line.chars().count() > WIDTH).map(|(number, line)| {
            let wide = line.chars().count();
            format!(
                "{}:{}: {wide} characters, {WIDTH} are the most: break the line",
                path.display(),
                number + 1
            )
        }));
    }
    assert!(long.is_empty(), "\n{}", long.join("\n"));
}

#[test]
fn source_uses_the_words_of_the_glossary() {
    let mut wrong = Vec::new();
    // Options of qless and RQ keep their original names.
    let theirs = ["brokers/qless/others.rs", "cli/rq/args.rs", "cli/rq/translate.rs"];
    let ours = sources("src").into_iter().filter(|(path, _)| !theirs.iter().any(|of| path.ends_with(of)));
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
fn no_test_is_ignored_or_sleeps() {
    let sleep = ["thread::", "sleep("].concat();
    let ignore = ["#[", "ignore"].concat();
    let passed = ["elapsed", "() >"].concat();
    // Only `support` may sleep, to wait for other processes.
    for (path, text) in tests() {
        assert!(!text.contains(&ignore), "{}", path.display());
        assert!(path.starts_with("tests/support") || !text.contains(&sleep), "{}", path.display());
        // No test waits until time has passed either: `stays` checks a condition meanwhile.
        let is_disguised = |line: &str| line.contains("wait_") && line.contains(&passed);
        assert!(!text.lines().any(is_disguised), "a sleep in disguise: {}", path.display());
    }
}

/// Which file of a crate imports which others of it.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

fn imports_within_crates() -> Imports {
    let files: Vec<(Module, String)> =
        sources("src").into_iter().map(|(path, text)| (module(&path), text)).collect();
    let tests: Vec<Module> = (files.iter())
        .flat_map(|(file, text)| {
            test_modules(text).into_iter().map(|name| [file.as_slice(), &[name]].concat())
        })
        .collect();
    let is_test = |file: &Module| tests.iter().any(|test| file.starts_with(test));
    let paths: Vec<PathBuf> = sources("src").into_iter().map(|(path, _)| path).collect();
    let mut map = Map::of(&paths);
    files.iter().filter(|(file, _)| !is_test(file)).for_each(|(file, text)| map.read(file, text));
    let mut edges = Imports::new();
    for (file, path) in &map.named {
        let target = map.file_of(path, 0);
        if *file != target && !file.is_empty() && map.crate_of(file) == map.crate_of(&target) {
            edges.entry(file.clone()).or_default().insert(target);
        }
    }
    edges
}

/// The imports that are in a circle, or between two.
fn circles(mut edges: Imports) -> Vec<String> {
    // What imports nothing, or what nothing imports, is in no circle: remove it and look again.
    let is_outside = |edges: &Imports, file: &Module| {
        edges[file].iter().all(|to| !edges.contains_key(to)) || !edges.values().any(|to| to.contains(file))
    };
    while let Some(file) = edges.keys().find(|file| is_outside(&edges, file)).cloned() {
        edges.remove(&file);
    }
    let named = |file: &Module, to: &BTreeSet<Module>| {
        let to = to.iter().filter(|to| edges.contains_key(*to)).map(|to| to.join("::")).collect::<Vec<_>>();
        format!("{} imports {}", file.join("::"), to.join(", "))
    };
    edges.iter().map(|(file, to)| named(file, to)).collect()
}

#[test]
fn files_of_a_room_import_each_other_without_a_cycle() {
    let wrong = circles(imports_within_crates());
    assert!(wrong.is_empty(), "in a circle, or between two:\n{}", wrong.join("\n"));
}

/// A folder and what stands beside it, folder or file, import each other in one direction: so a folder can be read alone.
#[test]
fn folders_import_what_is_beside_them_without_a_cycle() {
    let mut edges = Imports::new();
    for (from, all) in imports_within_crates() {
        for to in all {
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            // A folder's own file and what is in the folder are one.
            if common < from.len().min(to.len()) {
                let beside = |file: &Module| file[..=common].to_vec();
                edges.entry(beside(&from)).or_default().insert(beside(&to));
            }
        }
    }
    assert!(edges.len() > 100, "the folders are not found");
    let wrong = circles(edges);
    assert!(wrong.is_empty(), "in a circle, or between two:\n{}", wrong.join("\n"));
}

/// Files whose methods call each other are one file in the mind of the reader, whatever their names are.
#[test]
fn methods_of_at_most_four_files_call_each_other() {
    const MOST: usize = 4;
    let crate_of =
        |path: &Path| path.ancestors().find(|dir| dir.join("Cargo.toml").exists()).map(PathBuf::from);
    let mut crates: BTreeMap<PathBuf, BTreeMap<String, String>> = BTreeMap::new();
    for (path, text) in sources("src") {
        let files = crates.entry(crate_of(&path).expect("a crate")).or_default();
        files.insert(path.display().to_string(), code(&text));
    }
    assert!(crates.len() > 10, "the crates are not found");
    let wrong: Vec<_> =
        crates.values().flat_map(calls::circles).filter(|circle| circle.len() > MOST).collect();
    assert!(wrong.is_empty(), "circles of more than {MOST} files: {wrong:#?}");
}

/// A comment of fewer than three words, such as "Which.", says nothing.
#[test]
fn doc_comments_have_at_least_three_words() {
    let marker = |line: &str| ["///", "//!"].into_iter().find(|marker| line.starts_with(marker));
    let mut wrong = Vec::new();
    for (path, text) in [sources("src"), sources("rust/src")].concat() {
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        for block in lines.chunk_by(|one, next| marker(one) == marker(next)) {
            let words = block.iter().flat_map(|line| line.split_whitespace());
            let is_short = words.filter(|word| word.contains(char::is_alphanumeric)).count() < 3;
            if marker(block[0]).is_some() && is_short {
                wrong.push(format!("{}: {}", path.display(), block.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "fewer than three words:\n{}", wrong.join("\n"));
}

/// Three values in a row do not say which is which.
#[test]
fn enum_variants_with_three_fields_name_them() {
    let mut wrong = Vec::new();
    for (path, text) in [sources("src"), sources("rust/src"), tests()].concat() {
        let code = code(&text);
        let fields = |variant: &str| Some(parts(variant.split_once('(')?.1.strip_suffix(')')?).len());
        let bare = |variant: &'_ str| variant.rsplit("]\n").next().unwrap_or_default().trim().to_owned();
        let is_wide = |variant: &String| {
            variant.starts_with(char::is_alphabetic) && !variant.contains('{') && fields(variant) > Some(2)
        };
        let wide = variants(&code).into_iter().map(bare).filter(is_wide);
        wrong.extend(wide.map(|variant| format!("{}: {variant}", path.display())));
    }
    assert!(wrong.is_empty(), "give their fields names:\n{}", wrong.join("\n"));
}
