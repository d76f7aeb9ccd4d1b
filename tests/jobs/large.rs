//! Large data of a job.

use std::fs;

use crate::sandbox::{Sandbox, Setting, is_root};

const LONGEST: usize = 40 << 20;

#[test]
fn binary_data_that_json_would_escape_arrives_whole() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let _running = sandbox.start(&["-w", "1"]);
    // JSON text would escape each byte as six: together more than a request body of the API may have.
    const MANY: usize = LONGEST * 3 / 7;
    fs::write(sandbox.work("zeros"), vec![0; MANY]).unwrap();
    let jid = sandbox.ok(&["put", "-d", "@zeros", "--", "wc", "-c"]);
    sandbox.ok(&["job", "wait", jid.trim()]);
    assert_eq!(sandbox.ok(&["job", "logs", jid.trim()]), format!("{MANY}\n"));
    fs::write(sandbox.work("more"), vec![b'a'; LONGEST + 1]).unwrap();
    let (code, said) = sandbox.refused(&["put", "-d", "@more", "--", "wc", "-c"]);
    assert!(code == 1 && said.contains("the data in more is larger than"), "{code}: {said}");
}
