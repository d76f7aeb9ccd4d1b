use super::*;

const GOOD: &str = "\
# The queues of the application.
default:
    name: default
    priority: 10
    batch_size: 10
    visibility_timeout_sec: 600
    long_poll_time_sec: 0
    num_iterations: 2
\"high\":
    name: highp
    priority: 100
    batch_size: 1
    visibility_timeout_sec: 60
    long_poll_time_sec: 5
    num_iterations: 5
    unknown_to_kale: ignored
other: {name: other, priority: 10, batch_size: 10, visibility_timeout_sec: 600, long_poll_time_sec: 1, num_iterations: 1}
";

fn mistakes(text: &str) -> Vec<String> {
    read_queues(text).unwrap_err().iter().map(ToString::to_string).collect()
}

/// The valid file with one replacement.
fn with(old: &str, new: &str) -> Vec<String> {
    assert_eq!(GOOD.matches(old).count(), 1, "{old}");
    mistakes(&GOOD.replace(old, new))
}

#[test]
fn a_file_of_kale_is_read_unchanged_and_sorted_by_priority() {
    let queues = read_queues(GOOD).unwrap();
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["highp", "default", "other"]);
    let expected = Queue {
        name: "default".into(),
        priority: 10,
        num_iterations: 2,
        long_poll_time_sec: 20,
        batch_size: 10,
        visibility_timeout_sec: 600,
        line: 2,
    };
    assert_eq!(queues[1], expected);
}

#[test]
fn merge_key_copies_settings_of_another_queue() {
    let good = GOOD.replace("default:\n", "default: &usual\n");
    let merged = format!("{good}slow:\n    <<: *usual\n    name: slow\n    visibility_timeout_sec: 900\n");
    let queues = read_queues(&merged).unwrap();
    let slow = queues.iter().find(|queue| queue.name == "slow").unwrap();
    assert_eq!((slow.batch_size, slow.visibility_timeout_sec), (10, 900));
    let told = mistakes(&merged.replace("<<: *usual", "<<: 5"));
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn duplicate_key_is_reported_with_both_lines() {
    let again = GOOD.replace("\"high\":", "default:");
    assert_eq!(mistakes(&again), ["line 9: the queue 'default' is given twice, first in line 2"]);
    let again = with("    batch_size: 1\n", "    batch_size: 1\n    priority: 5\n");
    assert_eq!(again, ["line 13: the setting 'priority' is given twice, first in line 11"]);
    let again = with("{name: other,", "{name: other, name: more,");
    assert!(again[0].contains("duplicate"), "{again:?}");
}

/// The example in kale's README has a queue that is indented too far.
#[test]
fn wrongly_indented_queue_is_reported_with_the_repeated_settings() {
    let settings = "    name: x\n    priority: 5\n";
    let text = format!("high_priority:\n{settings}\n# the next\n    default:\n{settings}");
    let expected = [
        "line 6: the queue 'default' has no settings: line 7 is not indented below it",
        "line 7: the setting 'name' is given twice, first in line 2",
        "line 8: the setting 'priority' is given twice, first in line 3",
    ];
    assert_eq!(mistakes(&text), expected);
}

#[test]
fn empty_queue_is_reported_with_the_line_to_indent() {
    let empty = "digest:\nname: digest\n";
    let expected = [
        "line 1: the queue 'digest' has no settings: line 2 is not indented below it",
        "line 2: 'name' is no queue: a queue is a map of its settings",
    ];
    assert_eq!(mistakes(empty), expected);
    assert_eq!(mistakes("digest:\n"), ["line 1: the queue 'digest' has no settings"]);
    assert_eq!(mistakes("digest: {}\n"), ["line 1: the queue 'digest' has no settings"]);
    for nothing in ["", "# only words\n", "[]", "{}", "text"] {
        assert_eq!(mistakes(nothing).len(), 1, "{nothing}");
    }
}

#[test]
fn all_six_settings_are_needed() {
    for (line, name) in
        [(2, "num_iterations: 2"), (2, "batch_size: 10\n"), (9, "visibility_timeout_sec: 60\n")]
    {
        let setting = name.split(':').next().unwrap();
        let key = if line == 2 { "default" } else { "high" };
        let expected = format!("line {line}: the queue '{key}' has no {setting}");
        assert_eq!(with(&format!("    {name}"), "    x: 1\n"), [expected]);
    }
}

#[test]
fn values_out_of_range_are_refused_with_their_line() {
    let value = |old: &str, new: &str, range: &str| {
        let (setting, value) = new.split_once(": ").unwrap();
        let end = if old.ends_with('\n') { "\n" } else { "" };
        let found = with(&format!("    {old}"), &format!("    {new}{end}"));
        let said =
            format!("{setting} of the queue 'high' is {value}: it must be a whole number from {range}");
        assert!(found.len() == 1 && found[0].starts_with("line 1") && found[0].ends_with(&said), "{found:?}");
    };
    for wrong in ["0", "101", "-1", "1.5", "many"] {
        value("priority: 100", &format!("priority: {wrong}"), "1 to 100");
    }
    value("batch_size: 1\n", "batch_size: 11", "1 to 10");
    value("long_poll_time_sec: 5", "long_poll_time_sec: 21", "0 to 20");
    value("num_iterations: 5", "num_iterations: 0", "1 on");
    for wrong in ["0", "43201"] {
        value("visibility_timeout_sec: 60\n", &format!("visibility_timeout_sec: {wrong}"), "1 to 43200");
    }
}

#[test]
fn several_mistakes_are_reported_at_once() {
    let text = GOOD.replace("priority: 100", "priority: 0").replace("num_iterations: 2", "num_iterations: x");
    assert_eq!(mistakes(&text).len(), 2);
}

#[test]
fn queue_names_must_be_valid_for_sqs_and_unique() {
    assert_eq!(
        with("name: highp", "name: default"),
        ["line 9: two queues have the name 'default', the other in line 2"]
    );
    let dots = with("name: highp", "name: a.b");
    assert_eq!(dots, ["line 10: the queue name 'a.b' must have only letters, digits, '-' and '_'"]);
    assert!(with("name: highp", "name: a.fifo")[0].contains("FIFO queue, which kale cannot use"));
    assert!(with("name: highp", &format!("name: {}", "x".repeat(77)))[0].contains("too long"));
    assert!(with("name: highp", "name: 7")[0].ends_with("it must be a text"));
}

#[test]
fn release_is_a_prefix_of_the_queue_name() {
    let names = QueueNames::new("digest", Some("r42")).unwrap();
    assert_eq!((names.queue.as_str(), names.dead_letters.as_str()), ("r42-digest", "dlq-r42-digest"));
    assert_eq!(QueueNames::new("digest", None).unwrap().dead_letters, "dlq-digest");
    assert!(QueueNames::new("digest", Some("")).is_err());
    assert!(QueueNames::new(&"x".repeat(73), Some("r42")).is_err());
    assert!(QueueNames::new(&"x".repeat(72), Some("r42")).is_ok());
}

#[test]
fn settings_of_kales_loop_are_explained() {
    let explained = read_queues(GOOD).unwrap()[0].explained();
    assert_eq!(
        explained.each_ref().map(|(name, _)| *name),
        ["num_iterations", "batch_size", "long_poll_time_sec"]
    );
    assert!(explained[0].1.contains("5 receives"));
}
