//! The example file and the tables of docs/configuration.md are made of the rows.

use std::collections::BTreeMap;
use std::fs;

use crate::{File, Flag, Flags, Kind, Origins, Pool, Row, Setting, Shown, Surroundings, resolve, show};

/// Width of the example file.
const WIDTH: usize = 120;

/// All settings with their full names; those of pools come last.
fn all(rows: &'static [Row], section: &str) -> Vec<(String, &'static Row)> {
    let own = |row: &'static Row| {
        let name = format!("{section}{}", row.name);
        match row.name {
            _ if !row.docs.is_empty() => vec![(name, row)],
            "pools" => Vec::new(),
            _ => all(row.below, &format!("{name}.")),
        }
    };
    rows.iter().flat_map(own).collect()
}

/// The settings as the example file has them.
fn example(out: &mut String, rows: &[Row], margin: &str, first: &str) {
    let mut lead = first;
    for row in rows {
        if row.apart || margin.is_empty() {
            *out += "\n";
        }
        for line in wrapped(row.conf, WIDTH - margin.len() - 2) {
            *out += &format!("{margin}# {line}\n");
        }
        let (name, default) = (row.name, row.default_text());
        match (default.as_str(), row.example) {
            ("", "") => {
                *out += &format!("{lead}{name}:\n");
                let below = format!("{margin}  ");
                match name {
                    "pools" => example(out, row.below, "    ", "  - "),
                    _ => example(out, row.below, &below, &below),
                }
            }
            ("", example) => *out += &format!("{lead}#{name}: {example}\n"),
            (default, _) => *out += &format!("{lead}{name}: {default}\n"),
        }
        lead = margin;
    }
}

/// Breaks a text into lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The lines of the table on the page.
fn table(settings: &[(String, &Row)]) -> Vec<String> {
    let line = |(name, row): &(String, &Row)| {
        let default = match row.default_in_docs {
            "" => format!("`{}`", row.default_text()),
            words => words.to_owned(),
        };
        let how = if row.how.is_empty() { how(row.flags) } else { row.how.to_owned() };
        format!("| `{name}` | {how} | {default} | {} |", row.docs).replace("|  |", "| |")
    };
    settings.iter().map(line).collect()
}

/// The flags of a setting, and after them the variables.
fn how(flags: &[Flag]) -> String {
    let mut all = Vec::new();
    for flag in flags {
        if flag.kind == Kind::Command {
            all.push(format!("`-- {}…`", flag.value));
            continue;
        }
        all.extend(flag.short.map(|short| format!("`-{short}`")));
        all.push(format!("`--{}`", flag.long));
    }
    all.extend(flags.iter().filter_map(|flag| flag.env).map(|variable| format!("`{variable}`")));
    if flags.iter().any(|flag| flag.kind == Kind::Texts) {
        all.push("several times".into());
    }
    all.join(", ")
}

/// The page with these lines in the table below a heading; lines without a setting stay.
fn with_table(page: &str, heading: &str, lines: &[String]) -> String {
    let (before, rest) = page.split_once(heading).expect("the heading");
    let (above, rest) = rest.split_once("| setting | flag, variable | default | |\n").expect("a table");
    let (rows, below) = rest.split_once("\n\n").expect("an end of the table");
    let mut new: Vec<&str> = Vec::new();
    for line in rows.lines() {
        if !line.starts_with("| `") {
            new.push(line);
        } else if !new.iter().any(|line| line.starts_with("| `")) {
            new.extend(lines.iter().map(String::as_str));
        }
    }
    let new = new.join("\n");
    format!("{before}{heading}{above}| setting | flag, variable | default | |\n{new}\n\n{below}")
}

/// Compares a file with what the rows make of it, or writes it with `RENEW=1`.
#[track_caller]
fn is_made(name: &str, make: impl FnOnce(&str) -> String) {
    let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    let now = fs::read_to_string(&path).unwrap();
    let made = make(&now);
    if std::env::var_os("RENEW").is_some() {
        fs::write(&path, made).unwrap();
        return;
    }
    let differs = now.lines().zip(made.lines()).find(|(now, made)| now != made);
    assert_eq!(
        differs, None,
        "{name} is not what the rows say: RENEW=1 cargo nextest run -p taskvisor-config pages"
    );
    assert_eq!(now.lines().count(), made.lines().count(), "{name}: RENEW=1");
}

#[test]
fn example_file_is_made_of_the_rows() {
    is_made("conf/taskvisor.yaml", |now| {
        let (head, _) = now.split_once("\n\n").expect("a first paragraph");
        let (_, tail) = now.split_once("\n# Three pools of an application").expect("examples");
        let mut made = format!("{head}\n");
        example(&mut made, File::ROWS, "", "");
        format!("{made}\n# Three pools of an application{tail}")
    });
}

#[test]
fn page_of_the_settings_is_made_of_the_rows() {
    is_made("docs/configuration.md", |now| {
        let page = with_table(now, "## The whole supervisor", &table(&all(File::ROWS, "")));
        with_table(&page, "## Pools", &table(&all(Pool::ROWS, "")))
    });
}

/// The settings of a file.
fn shown(text: &str) -> Shown {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.yaml");
    fs::write(&path, text).unwrap();
    let around = Surroundings { uid: 7, home: Some("/home/u".into()), ..Surroundings::default() };
    let flags = Flags { config: Some(path.clone()), ..Flags::default() };
    let config = resolve(flags, &around).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    show(&config, &Origins::read(Some(&path), BTreeMap::new()).unwrap(), true)
}

#[test]
fn every_row_is_in_config_show() {
    let shown = serde_json::to_value(shown("lease: null\n").to_document()).unwrap();
    for (settings, rows) in
        [(&shown["settings"], all(File::ROWS, "")), (&shown["pools"][0], all(Pool::ROWS, ""))]
    {
        for (name, _) in rows {
            let is_own = |key: &String| key == &name || key.starts_with(&format!("{name}."));
            assert!(settings.as_object().unwrap().keys().any(is_own), "config show has no {name}");
        }
    }
}

/// Another value for each setting that is not a number, a duration or a size; with what it needs besides.
const OTHERS: [(&str, &str); 53] = [
    ("state_dir", "/srv/x"),
    ("run_dir", "/srv/x"),
    ("socket_group", "root"),
    ("broker", "'memory:'"),
    ("route", "[{classes: [a], to: 'redis://h'}]"),
    ("held_degrades", "false"),
    ("log.format", "json"),
    ("log.level", "warn"),
    ("log.dir", "/srv/log"),
    ("log.rotate", "{keep: 3}"),
    ("api.listen", "'127.0.0.1:1'"),
    ("api.token_file", "/t"),
    ("api.view_token_file", "/t"),
    ("api.put_token_file", "/t"),
    ("api.hosts", "[h]"),
    ("api.origins", "['https://h']"),
    ("api.allow_exec", "true"),
    ("web.listen", "'127.0.0.1:1'"),
    ("web.path", "/jobs"),
    ("web.hosts", "[h]"),
    ("web.login_token_file", "/t"),
    ("web.view_token_file", "/t"),
    ("web.read_only", "true"),
    ("web.redact", "[password]"),
    ("web.hide_data", "true"),
    ("wq.enabled", "true"),
    ("wq.queue", "q"),
    ("wq.class", "C"),
    ("wq.listen", "'127.0.0.1:1', class: C"),
    ("wq.success_ttl", "1h"),
    ("wq.failure_ttl", "1h"),
    ("wq.when_away", "keep"),
    ("wq.telemetry_dir", "/t"),
    ("name", "other"),
    ("mode", "coroutine, command: sh"),
    ("concurrency", "7, mode: coroutine, command: sh"),
    ("recycle", "{jobs: 7}, command: sh"),
    ("command", "sh"),
    ("run", "sh"),
    ("queues", "[q]"),
    ("order", "shuffled"),
    ("queue_priorities", "{default: 7}"),
    ("queue_turns", "{default: 7}"),
    ("classes", "[exec]"),
    ("except_classes", "[x]"),
    ("class_limits", "{exec: {time: 1s}}"),
    ("when_cut_off", "carry_on"),
    ("leftovers", "kill"),
    ("env.pass", "[A]"),
    ("env.set", "{A: b}"),
    ("cwd", "/"),
    ("sandbox", "true"),
    ("umask", "'027'"),
];

/// Another value of the setting.
fn other(name: &str, row: &Row) -> String {
    if let Some((_, other)) = OTHERS.iter().find(|(known, _)| *known == name) {
        return (*other).to_owned();
    }
    match (row.default_text().as_str(), name) {
        ("null", "limits.time" | "limits.soft_time" | "limits.cpu") => "7s".to_owned(),
        ("null", "limits.memory" | "limits.output") => "7MB".to_owned(),
        ("null", "limits.open_files") => "512".to_owned(),
        ("null", _) => "7".to_owned(),
        (default, _) => {
            let digits = default.bytes().take_while(u8::is_ascii_digit).count();
            assert!(digits > 0, "no other value of {name} is known: add it to OTHERS");
            let number: u64 = default[..digits].parse().unwrap();
            format!("{}{}", number + 1, &default[digits..])
        }
    }
}

#[test]
fn dry_run_of_reload_names_every_setting_that_changes() {
    let written = |name: &str, value: &str, pool: bool| {
        let setting = match name.split_once('.') {
            Some((section, name)) => format!("{section}: {{{name}: {value}}}"),
            None => format!("{name}: {value}"),
        };
        if pool { format!("pools: [{{{setting}}}]\n") } else { setting + "\n" }
    };
    let before = shown("pools: [{}]\n");
    for (pool, rows) in [(false, all(File::ROWS, "")), (true, all(Pool::ROWS, ""))] {
        for (name, row) in rows {
            let after = shown(&written(&name, &other(&name, row), pool));
            let differences = before.differences(&after);
            let is_own = |key: &String| key == &name || key.starts_with(&format!("{name}."));
            // A pool of another name is a new one.
            let named = name == "name" || differences.iter().any(|(_, key, ..)| is_own(key));
            assert!(named, "{name} is not among {differences:?}");
        }
    }
}

/// All flags of these rows and of those below them.
fn flags(rows: &'static [Row]) -> Vec<&'static Flag> {
    let below = |row: &'static Row| if row.name == "pools" { Vec::new() } else { flags(row.below) };
    rows.iter().flat_map(|row| row.flags.iter().chain(below(row))).collect()
}

#[test]
fn typed_setting_is_shown_with_its_value() {
    let around = Surroundings { uid: 7, home: Some("/home/u".into()), ..Surroundings::default() };
    let shown = |flags: Flags| show(&resolve(flags, &around).unwrap(), &Origins::default(), true);
    let set = |pool: &mut Option<Pool>, name: &str, word: &str| {
        Pool::set_part(pool, name, &[word.as_ref()]).unwrap();
    };
    for (is_of_pool, flag) in flags(File::ROWS)
        .into_iter()
        .map(|flag| (false, flag))
        .chain(flags(Pool::ROWS).into_iter().map(|flag| (true, flag)))
    {
        let (mut whole, mut pool) = (Some(File::default()), Some(Pool::default()));
        if ["mode", "recycle.jobs", "concurrency", "classes"].contains(&flag.setting) {
            set(&mut pool, "command", "sh");
        }
        if flag.setting == "concurrency" {
            set(&mut pool, "mode", "coroutine");
        }
        if flag.setting == "workers.min" {
            set(&mut pool, "workers.max", "9");
        }
        let before = shown(Flags { pool: pool.clone().unwrap(), ..Flags::default() });
        let word = match flag.kind {
            Kind::Number(..) => "7",
            Kind::Duration => "27s",
            Kind::Words(words) => words[words.len() - 1],
            Kind::Text => "memory:",
            Kind::TextOr(text) => text,
            Kind::Texts => "A=b",
            Kind::Path | Kind::Command => "/srv/x",
            Kind::Switch => "",
        };
        match is_of_pool {
            true => set(&mut pool, flag.setting, word),
            false => File::set_part(&mut whole, flag.setting, &[word.as_ref()]).unwrap(),
        }
        let after = shown(Flags { whole: whole.unwrap(), pool: pool.unwrap(), ..Flags::default() });
        let row = flag.setting.split('.').next().unwrap();
        let differences = before.differences(&after);
        assert!(
            differences.iter().any(|(_, key, ..)| key.starts_with(row)),
            "{}: {differences:?}",
            flag.setting
        );
    }
}
