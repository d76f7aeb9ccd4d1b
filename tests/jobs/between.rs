//! Verbs in the moment in which a supervisor ends.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use crate::sandbox::{Sandbox, Setting, is_root};

/// Plays a supervisor that ends of the first thing that it is asked.
fn ends_when_asked(sandbox: &Sandbox) -> JoinHandle<()> {
    let socket = sandbox.path("run/ctl.sock");
    fs::create_dir_all(sandbox.path("run")).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        // The first connection sees whether somebody listens, the second one asks.
        let (mut looked, _) = listener.accept().unwrap();
        assert_eq!(looked.read(&mut [0]).unwrap(), 0);
        let (mut asked, _) = listener.accept().unwrap();
        asked.read_exact(&mut [0]).unwrap();
        drop(listener);
        fs::remove_file(socket).unwrap();
    })
}

#[test]
fn what_only_looks_is_answered_though_the_supervisor_that_was_asked_ends() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let jid = sandbox.put(&["true"]);
    for (look, finds) in
        [(&["job", "show", &jid][..], &jid[..]), (&["job", "list"], &jid), (&["queue", "list"], "default")]
    {
        let supervisor = ends_when_asked(&sandbox);
        let answer = sandbox.ok(look);
        assert!(answer.contains(finds), "{look:?}: {answer}");
        supervisor.join().unwrap();
    }
    // It may have been done.
    let supervisor = ends_when_asked(&sandbox);
    let (code, said) = sandbox.refused(&["job", "cancel", &jid]);
    assert!(code == 1 && said.contains("lost the supervisor on"), "{code}: {said}");
    supervisor.join().unwrap();
    assert_eq!(sandbox.state(&jid), "waiting");
}
