//! What is between a client and its server, and does not always pass on what it is given.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Listens on a free port of the loopback and passes on to a server, as the rules of the moment are.
pub struct Proxy {
    pub port: u16,
    rules: Arc<Mutex<Rules>>,
}

/// What is said on a connection, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Questions,
    Answers,
    Both,
}

/// What becomes of an answer that is not to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The connection breaks before it.
    Break,
    /// It is swallowed, and nothing else happens.
    Silence,
}

#[derive(Default)]
struct Rules {
    /// What is swallowed; of connections that listen only, or of all.
    swallowed: Option<(Flow, bool)>,
    /// The first answer with this in it is lost, but not what is heard by listening.
    lost: Option<(String, Loss)>,
    live: Vec<Arc<Connection>>,
    closed: bool,
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
    listens: Mutex<bool>,
}

impl Connection {
    fn cut(&self) {
        // Either may be cut already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Proxy {
    /// To the server on a port of the loopback.
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let rules = Arc::new(Mutex::new(Rules::default()));
        let shared = rules.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.lock().expect("rules").closed {
                    return;
                }
                // A server that is away takes the connection down.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    pass(client, server, &shared);
                }
            }
        });
        Proxy { port, rules }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    fn rules(&self) -> std::sync::MutexGuard<'_, Rules> {
        self.rules.lock().expect("rules")
    }

    /// From now on, on all connections, also those that are made later, what is said is swallowed: nothing ends and
    /// nothing arrives.
    pub fn swallow(&self, flow: Flow) {
        self.rules().swallowed = Some((flow, false));
    }

    /// The same, but only on connections that listen for events.
    pub fn swallow_events(&self, flow: Flow) {
        self.rules().swallowed = Some((flow, true));
    }

    /// All is passed on again.
    pub fn pass_on(&self) {
        self.rules().swallowed = None;
    }

    /// The next answer that has `text` in it does not arrive.
    pub fn lose_answer(&self, text: &str, loss: Loss) {
        self.rules().lost = Some((text.into(), loss));
    }

    /// Whether that answer has come by.
    pub fn has_lost(&self) -> bool {
        self.rules().lost.is_none()
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.rules().live.drain(..).for_each(|connection| connection.cut());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.rules().closed = true;
        self.cut();
        // The listener wakes once more, and ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Two threads, one for each direction, until either side ends.
fn pass(client: TcpStream, server: TcpStream, rules: &Arc<Mutex<Rules>>) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("nodelay");
    }
    let connection = Arc::new(Connection { client, server, listens: Mutex::new(false) });
    rules.lock().expect("rules").live.push(connection.clone());
    for flow in [Flow::Questions, Flow::Answers] {
        let (connection, rules) = (connection.clone(), rules.clone());
        std::thread::spawn(move || {
            carry(&connection, flow, &rules);
            connection.cut();
        });
    }
}

fn carry(connection: &Connection, flow: Flow, rules: &Mutex<Rules>) {
    let (mut from, mut to) = match flow {
        Flow::Questions => (&connection.client, &connection.server),
        Flow::Answers | Flow::Both => (&connection.server, &connection.client),
    };
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let said = &bytes[..count];
        let mut listens = connection.listens.lock().expect("a mark");
        *listens |= flow == Flow::Questions && contains(said, b"PSUBSCRIBE");
        let listens = *listens;
        let loss = rules.lock().expect("rules").fate(said, flow, listens);
        match loss {
            Some(Loss::Break) => return,
            Some(Loss::Silence) => {}
            None if to.write_all(said).is_err() => return,
            None => {}
        }
    }
}

impl Rules {
    fn fate(&mut self, said: &[u8], flow: Flow, listens: bool) -> Option<Loss> {
        if let Some((text, loss)) = &self.lost
            && flow == Flow::Answers
            && !listens
            && contains(said, text.as_bytes())
        {
            let loss = *loss;
            self.lost = None;
            return Some(loss);
        }
        let (swallowed, events) = self.swallowed?;
        ((swallowed == flow || swallowed == Flow::Both) && (listens || !events)).then_some(Loss::Silence)
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
