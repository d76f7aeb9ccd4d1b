//! The alerts and the board of examples/monitoring name metrics and labels that a supervisor has; series count its jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::*;

/// Labels of a sample that Prometheus adds, or that a query makes.
const OTHERS: [&str; 2] = ["instance", "job"];

/// The metrics of a page, each with its labels.
fn scraped(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next()) {
            found.entry(name.to_owned()).or_default();
        } else if !line.starts_with('#') {
            let (name, labels) = line.split_once('{').unwrap_or((line.split(' ').next().unwrap(), ""));
            let names = labels.split("=\"").filter_map(|part| part.rsplit([',', '{', '"']).next());
            let known = found.entry(name.to_owned()).or_default();
            known.extend(
                names
                    .filter(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
                    .map(str::to_owned),
            );
        }
    }
    found
}

/// The names of metrics in an expression, each with the labels in its braces; and the labels that it groups by.
fn named(expression: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut metrics = Vec::new();
    for (at, _) in expression.match_indices("taskvisor_") {
        let rest = &expression[at..];
        let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        let inner = rest[end..].strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
        let labels = inner.split(',').filter_map(|part| part.split(['=', '!']).next());
        let labels = labels.map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()).collect();
        metrics.push((rest[..end].to_owned(), labels));
    }
    let groups = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    let by = groups.flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()).collect();
    (metrics, by)
}

fn example(name: &str) -> String {
    fs::read_to_string(format!("{}/examples/monitoring/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn alerts_and_board_name_metrics_and_labels_that_are_scraped() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    for program in ["true", "false"] {
        let jid = sandbox.put(&[program]);
        sandbox.run(&["job", "wait", &jid]);
    }
    sandbox.ok(&["recur", "put", "nightly", "--every", "1h", "--", "true"]);
    let jid = sandbox.ok(&["recur", "run", "nightly"]);
    sandbox.ok(&["job", "wait", jid.trim()]);
    let mut page = String::new();
    wait_until("all of it is told", || {
        page = get(&sandbox, "/metrics").1;
        page.contains("recurring_last_success_timestamp_seconds{name=\"nightly\"}")
            && page.contains("taskvisor_attempts_failed_total{class=")
    });
    let known = scraped(&page);
    let mut expressions: Vec<String> = Vec::new();
    let text = example("alerts.yaml");
    for rule in text.split("- alert: ").skip(1) {
        let expression = rule.split("expr:").nth(1).unwrap();
        expressions
            .push(expression.split("labels:").next().unwrap().split("for:").next().unwrap().to_owned());
    }
    assert_eq!(expressions.len(), 10);
    let board: Value = serde_json::from_str(&example("grafana.json")).unwrap();
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    assert!(expressions.len() >= 25);
    for expression in &expressions {
        let (metrics, by) = named(expression);
        assert!(!metrics.is_empty(), "{expression}");
        for (metric, labels) in metrics {
            let have = known.get(&metric).unwrap_or_else(|| panic!("no {metric} is scraped: {expression}"));
            // A family without a sample now, such as one of troubles, has no labels to compare.
            let missing = |label: &&String| !have.contains(*label) && !OTHERS.contains(&label.as_str());
            let wrong: Vec<&String> = labels.iter().chain(&by).filter(missing).collect();
            assert!(have.is_empty() || wrong.is_empty(), "{metric} has no {wrong:?}: {expression}");
        }
    }
    // Where Prometheus is installed its own tool reads them, too.
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(format!("{}/examples/monitoring/alerts.yaml", env!("CARGO_MANIFEST_DIR")))
        .output();
    if let Ok(checked) = checked {
        assert!(checked.status.success(), "{}", text_of(&checked));
    }
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn series_count_jobs_by_queue_and_by_class() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "2"]);
        for program in ["true", "true", "false"] {
            let jid = sandbox.put(&[program]);
            sandbox.run(&["job", "wait", &jid]);
        }
        let sum = |path: &str, field: &str| -> u64 {
            let answer: Value = serde_json::from_str(&get(sandbox, path).1).unwrap();
            let series = answer["series"].as_array().unwrap();
            series.iter().flat_map(|one| one[field].as_array().unwrap()).filter_map(Value::as_u64).sum()
        };
        for path in [
            "/v1/series",
            "/v1/series?queue=default",
            "/v1/series?class=exec&step=1m",
            "/v1/series?each=queue",
        ] {
            let found = ["put", "begun", "complete", "failed"].map(|field| sum(path, field));
            assert_eq!(found, [3, 3, 2, 1], "{path}");
        }
        let (line, _) = get(sandbox, "/v1/series?queue=a&class=b");
        assert!(line.contains("400"), "{line}");
        assert_eq!(get(sandbox, "/v1/series?queue=nobody").1.matches("begun").count(), 0);
    });
}
