//! Verbs at the moment when a supervisor ends.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use broker::Broker;
use model::NewJob;
use serde_json::Value;
use sqlite::{Options, Sqlite};

use crate::sandbox::{Sandbox, Setting, is_root};

/// Plays a supervisor that ends when it gets its first request.
fn ends_when_asked(sandbox: &Sandbox) -> JoinHandle<()> {
    let socket = sandbox.path("run/ctl.sock");
    fs::create_dir_all(sandbox.path("run")).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        // The client's first connection probes the socket, the second one sends the request.
        let (mut looked, _) = listener.accept().unwrap();
        assert_eq!(looked.read(&mut [0]).unwrap(), 0);
        let (mut asked, _) = listener.accept().unwrap();
        asked.read_exact(&mut [0]).unwrap();
        drop(listener);
        fs::remove_file(socket).unwrap();
    })
}

#[test]
fn reading_verbs_fall_back_to_the_store_when_the_supervisor_ends() {
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
    // A cancel may have been carried out, so the client does not fall back to the store.
    let supervisor = ends_when_asked(&sandbox);
    let (code, said) = sandbox.refused(&["job", "cancel", &jid]);
    assert!(code == 1 && said.contains("lost the supervisor on"), "{code}: {said}");
    supervisor.join().unwrap();
    assert_eq!(sandbox.state(&jid), "waiting");
}

/// Plays a supervisor that dies between a put's commit and its answer.
fn dies_after_the_put(sandbox: &Sandbox) -> JoinHandle<()> {
    let (socket, store) = (sandbox.path("run/ctl.sock"), sandbox.path("state/store.db"));
    fs::create_dir_all(sandbox.path("run")).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (mut looked, _) = listener.accept().unwrap();
        assert_eq!(looked.read(&mut [0]).unwrap(), 0);
        let (asked, _) = listener.accept().unwrap();
        let body = body(BufReader::new(&asked));
        let jobs: Vec<NewJob> = serde_json::from_value(body["jobs"].clone()).unwrap();
        let store = Broker::from(Sqlite::open(store, Options::default()).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.put(jobs)).unwrap();
        drop((store, listener));
        fs::remove_file(socket).unwrap();
    })
}

/// The body of a request.
fn body(mut request: impl BufRead) -> Value {
    let (mut line, mut length) = (String::new(), 0);
    while request.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    request.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn put_whose_answer_was_lost_finds_the_job_it_queued() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    sandbox.put(&["true"]);
    for (id, args) in [("mine", &["--jid", "mine"][..]), ("", &[])] {
        let supervisor = dies_after_the_put(&sandbox);
        let said = sandbox.ok(&[&["put"], args, &["--", "echo", id]].concat());
        supervisor.join().unwrap();
        assert!(said.starts_with(id), "{said}");
    }
    assert_eq!(sandbox.lines(&["job", "list", "--json"]).len(), 3, "each is there once");
    let (code, said) = sandbox.refused(&["put", "--jid", "mine", "--", "echo", "mine"]);
    assert!(code == 1 && said.contains("'mine' exists already"), "{code}: {said}");
}
