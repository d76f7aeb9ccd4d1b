//! The longest data of a job, whatever its bytes.

use std::fs;

use crate::sandbox::{Sandbox, Setting, is_root};

const LONGEST: usize = 40 << 20;

#[test]
fn as_much_data_as_is_promised_comes_to_a_command_whatever_its_bytes() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let _running = sandbox.start(&["-w", "1"]);
    // In a text of JSON the first are two bytes each, the others six.
    for (name, byte, length) in [("newlines", b'\n', LONGEST), ("zeros", 0, LONGEST * 2 / 7)] {
        fs::write(sandbox.work(name), vec![byte; length]).unwrap();
        let jid = sandbox.ok(&["put", "-d", &format!("@{name}"), "--", "wc", "-c"]);
        sandbox.ok(&["job", "wait", jid.trim()]);
        assert_eq!(sandbox.ok(&["job", "logs", jid.trim()]), format!("{length}\n"), "{name}");
    }
    fs::write(sandbox.work("more"), vec![b'a'; LONGEST + 1]).unwrap();
    let (code, said) = sandbox.refused(&["put", "-d", "@more", "--", "wc", "-c"]);
    assert!(code == 1 && said.contains("the data in more is larger than"), "{code}: {said}");
}
