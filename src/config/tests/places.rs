//! The place of each kind of mistake in the file.

use super::with_file;
use crate::Flags;

#[test]
fn mistake_is_placed_at_its_own_key_however_deep_it_stands() {
    let place = |text: &str| with_file(text, Flags::default()).unwrap_err().place.unwrap();
    let pool = |text: &str| place(&format!("pools:\n- name: m\n  {text}\n"));
    for (place, expected) in [
        // Failed checks.
        (pool("env: {set: {user: bob}}\n  user: nosuchuser1"), "t.yaml:4:3"),
        (pool("limits:\n    time: 1s\n    soft_time: 2s\n  grace: 1s"), "t.yaml:5:5"),
        (pool("class_limits:\n    mail.Send: {soft_time: 1s, time: 1s}"), "t.yaml:4:17"),
        (pool("queue_turns: {a: 1, b: 0}"), "t.yaml:3:23"),
        (
            place("route:\n- {classes: [a], to: 'redis://h'}\n- {classes: [a], percent: 0, to: x}\n"),
            "t.yaml:3:18",
        ),
        (place("log: {level: info} # broker: x\nbroker: 'nosuch:'\n"), "t.yaml:2:1"),
        (place("lease: 1m\npools: []\n"), "t.yaml:2:1"),
        // Unknown keys, beside text that looks like them.
        (place("log: {dir: 'leese: 1', leese: 1}\n"), "t.yaml:1:24"),
        (pool("command: 'x limitz: 1'\n  limits: {time: 1s}\n  limitz: {}"), "t.yaml:5:3"),
        (pool("limits: {time: 1s, tim: 2s}"), "t.yaml:3:22"),
        (pool("class_limits: {time: {tim: 2s}}"), "t.yaml:3:25"),
        // Keys given twice, below maps that have them once.
        (place("log: {keep: 1d, rotate: {keep: 2}, keep: 2d}\n"), "t.yaml:1:36"),
        (pool("recycle: {memory: 1GB}\n  limits: {memory: 1GB, memory: 2GB}"), "t.yaml:4:25"),
        (pool("limits: {}\n  limits: {}"), "t.yaml:4:3"),
        (pool("env: {set: {A: 1, B: 1, A: 2}}"), "t.yaml:3:27"),
        // Values of a wrong type or form.
        (pool("run: echo 1x\n  limits: {time: 1m, cpu: 1x}"), "t.yaml:4:27"),
        (pool("run: echo 1x\n  retry_delay: 1x"), "t.yaml:4:16"),
        (pool("limits: {memory: 1GB, processes: many}"), "t.yaml:3:36"),
        (pool("workers: {max: 2, at: {'0 8 * * *': 1, '0 25 * * *': 1}}"), "t.yaml:3:42"),
        (place("log: {rotate: {keep: x}}\n"), "t.yaml:1:22"),
        (place("? [x, y]\n: 3\n"), "t.yaml:1:3"),
        // A second document, also an empty one.
        (place("%YAML 1.1\n# x\n---\nlease: 1m\n--- # y\n"), "t.yaml:5:1"),
        (place("lease: 1m\n---\nlease: 2m\n"), "t.yaml:2:1"),
        (place("lease: 1m\r\n...\r\n\r\nlease: 2m\r\n"), "t.yaml:4:1"),
        (place("---\n---\nlease: 1m\n"), "t.yaml:2:1"),
    ] {
        assert_eq!(place, expected);
    }
}
