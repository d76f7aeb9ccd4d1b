//! Data of a job that is long.

use std::fs;

use crate::sandbox::{Sandbox, Setting, is_root};

const LONGEST: usize = 40 << 20;

#[test]
fn data_that_would_be_escapes_for_the_most_part_comes_to_its_command() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let _running = sandbox.start(&["-w", "1"]);
    // In a text of JSON each of them is six bytes: more, together, than a body of the API may have.
    const MANY: usize = LONGEST * 3 / 7;
    fs::write(sandbox.work("zeros"), vec![0; MANY]).unwrap();
    let jid = sandbox.ok(&["put", "-d", "@zeros", "--", "wc", "-c"]);
    sandbox.ok(&["job", "wait", jid.trim()]);
    assert_eq!(sandbox.ok(&["job", "logs", jid.trim()]), format!("{MANY}\n"));
    fs::write(sandbox.work("more"), vec![b'a'; LONGEST + 1]).unwrap();
    let (code, said) = sandbox.refused(&["put", "-d", "@more", "--", "wc", "-c"]);
    assert!(code == 1 && said.contains("the data in more is larger than"), "{code}: {said}");
}
