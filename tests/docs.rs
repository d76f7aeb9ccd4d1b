//! README.md and docs/: their examples run, their tables are complete, their links lead to files.

#[path = "support/sandbox.rs"]
mod sandbox;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brokers::ADAPTERS;
use model::What;
use model::verb::Ability;
use sandbox::{Sandbox, Setting, is_root};

/// Every page of the documentation.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).into();
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
    for folder in ["docs", "docs/design", "tests", "packaging"] {
        let entries = fs::read_dir(folder).expect("a folder of pages").flatten();
        pages.extend(entries.map(|entry| entry.path()).filter(is_page));
    }
    pages.sort();
    pages
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of a page that are marked as this language, one after the other.
fn blocks(text: &str, language: &str) -> String {
    let (mut inside, mut found) = (false, String::new());
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(mark) => inside = !inside && mark == language,
            None if inside => found += &format!("{line}\n"),
            None => {}
        }
    }
    found
}

/// All `sh` blocks of a page are one session beside a running supervisor: each command must succeed.
fn runs(page: &str) {
    let script = blocks(&read(page), "sh");
    assert!(!script.is_empty(), "{page} has no example");
    let sandbox = Sandbox::new(if is_root() { Setting::RootCgroup } else { Setting::Plain });
    let _running = sandbox.start(&["-w", "2", "--grace", "1s"]);
    let binary = Path::new(env!("CARGO_BIN_EXE_taskvisor")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").expect("PATH"));
    let own = sandbox.command(&[]);
    let mut shell = Command::new("bash");
    shell.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python"));
    shell.args(["-euo", "pipefail", "-c", &script]).env("PATH", path).stdin(Stdio::null());
    shell.current_dir(sandbox.path("work"));
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let output = shell.output().expect("bash");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{page}: {}\n{out}\n--\n{err}", output.status);
}

#[test]
fn the_examples_of_the_readme_run() {
    runs("README.md");
}

#[test]
fn the_examples_of_running_jobs_run() {
    runs("docs/running-jobs.md");
}

#[test]
fn the_examples_of_workers_run() {
    runs("docs/workers.md");
}

#[test]
fn the_examples_of_the_python_guide_run() {
    runs("docs/python-guide.md");
}

#[test]
fn the_examples_of_coming_from_qless_run() {
    runs("docs/qless.md");
}

#[test]
fn the_examples_of_running_it_as_a_service_run() {
    runs("docs/service.md");
}

#[test]
fn the_examples_of_watching_it_run() {
    runs("docs/watching.md");
}

#[test]
fn the_examples_of_changing_it_run() {
    runs("docs/changing.md");
}

#[test]
fn the_examples_of_checking_settings_run() {
    runs("docs/checking.md");
}

#[test]
fn the_examples_of_when_something_is_wrong_run() {
    runs("docs/trouble.md");
}

#[test]
fn the_examples_of_configuration_run() {
    runs("docs/configuration.md");
}

#[test]
fn the_examples_of_the_api_run() {
    runs("docs/api.md");
}

#[test]
fn the_examples_of_events_run() {
    runs("docs/events.md");
}

#[test]
fn the_examples_of_simulate_run() {
    runs("docs/simulate.md");
}

#[test]
fn the_examples_of_coming_from_quantumleap_run() {
    runs("docs/quantumleap.md");
}

#[test]
fn every_page_with_examples_is_run() {
    let own = read(file!());
    for page in pages() {
        let name = page.display().to_string();
        let is_run = own.contains(&format!("runs(\"{name}\")"));
        assert!(is_run || blocks(&read(&page), "sh").is_empty(), "nothing runs the examples of {name}");
    }
}

/// The names of the `tracing` fields in the source, with the file of each.
fn fields_of_the_log() -> Vec<(String, PathBuf)> {
    let mut fields = Vec::new();
    let mut rooms = vec![PathBuf::from("src")];
    while let Some(path) = rooms.pop() {
        if path.is_dir() {
            rooms.extend(fs::read_dir(&path).expect("a room").flatten().map(|entry| entry.path()));
            continue;
        }
        let text = read(&path);
        for level in ["info!(", "warn!(", "error!(", "debug!("] {
            for call in text.split(level).skip(1) {
                let before = call.split('"').next().unwrap_or_default();
                // `target` is no field.
                let fields_of = before.split(',').filter(|field| !field.trim().starts_with("target:"));
                let names = fields_of.map(|field| field.split('=').next().unwrap_or_default().trim());
                let names = names.map(|name| name.trim_start_matches(['%', '?']));
                fields.extend(
                    names.filter(|name| !name.is_empty()).map(|name| (name.to_owned(), path.clone())),
                );
            }
        }
    }
    fields
}

#[test]
fn docs_explain_every_log_field() {
    let page = read("docs/operations.md");
    let (_, table) = page.split_once("\n| field | |\n").expect("a table");
    let table = table.split("\n\n").next().expect("text");
    let fields = fields_of_the_log();
    assert!(fields.len() > 30, "{fields:?}");
    for (name, path) in fields {
        assert!(table.contains(&format!("`{name}`")), "{name} in {}", path.display());
    }
}

#[test]
fn docs_list_the_exit_codes_of_the_program() {
    let mut source: Vec<u32> = read("src/failure/exit.rs")
        .lines()
        .filter_map(|line| {
            line.strip_prefix("pub const ")?.split_once(": u8 = ")?.1.strip_suffix(';')?.parse().ok()
        })
        .collect();
    let page = read("docs/operations.md");
    let (_, section) = page.split_once("\n## Exit codes\n").expect("a section");
    let section = section.split("\n## ").next().expect("text");
    let mut said: Vec<u32> =
        section.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(' ')?.0.parse().ok()).collect();
    source.sort_unstable();
    said.sort_unstable();
    assert_eq!(said, source);
}

#[test]
fn every_route_is_in_the_api_page() {
    let page = read("docs/api.md");
    let described: serde_json::Value = serde_json::from_str(&api::openapi()).expect("JSON");
    let paths = described["paths"].as_object().expect("paths");
    assert!(paths.len() > 20, "{}", paths.len());
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let route = format!("| `{} {path}` |", method.to_uppercase());
            assert!(page.contains(&route), "{route}");
        }
    }
}

#[test]
fn every_kind_of_event_is_in_the_events_page() {
    let page = read("docs/events.md");
    let missing: Vec<_> = What::ALL.iter().filter(|kind| !page.contains(&format!("`{kind}`"))).collect();
    assert!(missing.is_empty(), "no line in docs/events.md tells of {missing:?}");
}

#[test]
fn figures_page_counts_met_and_missed_goals_correctly() {
    let page = read("docs/figures.md");
    let mut sections: Vec<(&str, [usize; 2])> = Vec::new();
    let mut has_goals = false;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            sections.push((name, [0, 0]));
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let Some((_, counts)) = sections.last_mut() else { continue };
        // Other tables show what was found, without a goal.
        has_goals = line.starts_with('|') && (has_goals || cells[0] == "what");
        if has_goals
            && line.starts_with("| ")
            && cells.len() > 2
            && cells[0] != "what"
            && !cells[1].is_empty()
        {
            counts[usize::from(cells[2].contains("**"))] += 1;
        }
    }
    let [met, missed] = [0, 1].map(|at| sections.iter().map(|(_, counts)| counts[at]).sum::<usize>());
    let said = format!("{} goals: **{met} are met, {missed} are missed.**", met + missed);
    assert!(page.contains(&said), "docs/figures.md begins with: {said}");
    for (name, [met, missed]) in sections.into_iter().filter(|(_, counts)| *counts != [0, 0]) {
        let row = format!("](#{}) | {met} | {missed} |", name.to_lowercase().replace(' ', "-"));
        assert!(page.contains(&row), "{row}");
    }
}

/// The OpenAPI description is kept in the tree so that clients can be generated from it.
#[test]
fn openapi_description_in_docs_is_the_one_the_api_serves() {
    const KEPT: &str = "docs/openapi.json";
    if std::env::var_os("RENEW").is_some() {
        fs::write(KEPT, api::openapi()).expect("written");
    }
    let (kept, served) = (read(KEPT), api::openapi());
    let differ = kept.lines().zip(served.lines()).find(|(kept, served)| kept != served);
    assert!(
        kept == served,
        "{KEPT} is not what is served: RENEW=1 cargo nextest run --test docs -E 'test(description)' renews it\n{differ:#?}"
    );
}

/// An item of a list in lines of 100 characters.
fn wrapped(item: &str) -> String {
    let (mut text, mut length) = (String::new(), 0);
    for word in item.split(' ') {
        if length + 1 + word.len() > 100 {
            text += "\n ";
            length = 1;
        }
        if length > 0 {
            text.push(' ');
            length += 1;
        }
        text += word;
        length += word.len();
    }
    text + "\n"
}

/// One row for each broker: its abilities; where it lacks one, the number of the note that says what to do instead.
fn table_of_brokers() -> String {
    let cards: Vec<_> =
        ADAPTERS.iter().filter(|kind| kind.schemes() != ["memory"]).map(|kind| kind.card()).collect();
    let names: Vec<&str> = cards.iter().map(|card| card.name).collect();
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let mut instead = String::new();
    for ability in Ability::ALL {
        let cells = cards.iter().map(|card| if card.can(ability) { "yes" } else { "no" });
        let cells: Vec<&str> = cells.collect();
        table += &format!("| {} | {} |\n", ability.does(), cells.join(" | "));
        let mut ways: Vec<(String, &str)> = Vec::new();
        for card in &cards {
            let Some((_, what)) = card.cannot.iter().find(|(missing, _)| *missing == ability) else {
                continue;
            };
            match ways.iter_mut().find(|(_, same)| same == what) {
                Some((names, _)) => *names += &format!(", {}", card.name),
                None => ways.push((card.name.to_owned(), *what)),
            }
        }
        let ways: Vec<String> = ways.iter().map(|(names, what)| format!("*{names}:* {what}.")).collect();
        if !ways.is_empty() {
            instead += &wrapped(&format!("* To {}. {}", ability.does(), ways.join(" ")));
        }
    }
    format!("{table}\n## What to do instead\n\n{instead}")
}

/// The page is generated from the cards by which the program itself refuses.
#[test]
fn brokers_page_matches_the_cards() {
    const PAGE: &str = "docs/brokers.md";
    const BEGIN: &str =
        "<!-- made of the cards: RENEW=1 cargo nextest run --test docs -E 'test(cards)' -->\n";
    let page = read(PAGE);
    let (head, _) = page.split_once(BEGIN).expect("the line after which the table begins");
    let whole = format!("{head}{BEGIN}\n{}", table_of_brokers());
    if std::env::var_os("RENEW").is_some() {
        fs::write(PAGE, &whole).expect("written");
    }
    assert_eq!(read(PAGE), whole, "RENEW=1 cargo nextest run --test docs -E 'test(cards)' renews it");
}

#[test]
fn every_link_in_the_docs_leads_to_a_file() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let outside = link.contains("://") || link.starts_with("mailto:") || target.is_empty();
            let there = page.parent().expect("a directory").join(target).exists();
            if !outside && !there {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn systemd_analyze(args: &[&str]) -> Option<String> {
    let run = Command::new("systemd-analyze").args(args).env("SYSTEMD_COLORS", "0").output();
    let Ok(output) = run else {
        sandbox::missing("systemd-analyze");
        return None;
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "systemd-analyze {args:?}: {}\n{text}", output.status);
    Some(text)
}

#[test]
fn systemd_analyze_verify_accepts_the_units() {
    let dir = tempfile::tempdir().expect("a directory");
    let installed = "/usr/local/bin/taskvisor";
    for (unit, copy) in [
        ("taskvisor.service", "taskvisor.service"),
        ("taskvisor@.service", "taskvisor@x.service"),
        ("taskvisor-web.service", "taskvisor-web.service"),
    ] {
        let text = read(format!("systemd/{unit}"));
        assert!(text.contains(&format!("\nExecStart={installed} ")));
        let copy = dir.path().join(copy);
        fs::write(&copy, text.replace(installed, env!("CARGO_BIN_EXE_taskvisor"))).expect("a copy");
        let verify = ["verify", "--recursive-errors=yes", "--man=no", copy.to_str().expect("text")];
        let said = systemd_analyze(&verify).unwrap_or_default();
        assert!(said.is_empty(), "{unit}: {said}");
    }
}

#[test]
fn systemd_analyze_security_rates_the_units_well() {
    for unit in ["systemd/taskvisor.service", "systemd/taskvisor@.service"] {
        systemd_analyze(&["security", "--offline=true", "--threshold=20", unit]);
    }
    // The page starts no process and writes no file.
    systemd_analyze(&["security", "--offline=true", "--threshold=12", "systemd/taskvisor-web.service"]);
}

/// A job may not do what its unit forbids, and most jobs need a database or the web.
#[test]
fn units_let_jobs_see_no_other_users_and_leave_no_core_dumps() {
    for unit in ["systemd/taskvisor.service", "systemd/taskvisor@.service"] {
        let settings = settings(unit);
        for line in ["ProtectProc=invisible", "LimitCORE=0", "RestartPreventExitStatus=2 77 78"] {
            assert!(settings.iter().any(|setting| setting == line), "{unit}: {line}");
        }
    }
}

#[test]
fn units_allow_jobs_to_use_the_network() {
    for unit in ["systemd/taskvisor.service", "systemd/taskvisor@.service"] {
        let settings = settings(unit);
        assert!(settings.iter().any(|line| line == "PrivateNetwork=no"), "{unit}");
        let families = settings.iter().find(|line| line.starts_with("RestrictAddressFamilies="));
        assert!(families.is_some_and(|line| line.contains("AF_INET AF_INET6")), "{unit}");
        assert!(!settings.iter().any(|line| line.starts_with("IPAddressDeny=")), "{unit}");
    }
}

/// The settings of a unit, without comments.
fn settings(unit: &str) -> Vec<String> {
    read(unit).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn the_two_units_differ_only_in_instance_settings() {
    let (one, several) = (settings("systemd/taskvisor.service"), settings("systemd/taskvisor@.service"));
    let instance = |line: &&String| line.contains("%i") || line.starts_with("ConfigurationDirectory");
    for line in several.iter().filter(|line| !instance(line)) {
        assert!(one.contains(line), "only in taskvisor@.service: {line}");
    }
    let key = |line: &str| line.split('=').next().map(str::to_owned);
    for line in one.iter().filter(|line| !several.contains(line)) {
        let same = several.iter().find(|other| key(other) == key(line));
        assert!(same.is_some_and(|other| instance(&other)), "only in taskvisor.service: {line}");
    }
}
