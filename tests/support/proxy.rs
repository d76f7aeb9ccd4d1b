//! A TCP proxy between a client and its server that can lose data and break connections.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Listens on a free loopback port and forwards to a server under the current rules.
pub struct Proxy {
    pub port: u16,
    rules: Arc<Mutex<Rules>>,
}

/// The direction of data on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Questions,
    Answers,
    Both,
}

/// How an answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The connection breaks before the answer.
    Break,
    /// The answer is dropped, and the connection stays open.
    Silence,
}

#[derive(Default)]
struct Rules {
    /// The port of the server.
    server: u16,
    /// The direction that is dropped on all connections.
    swallowed: Option<Flow>,
    /// The first answer that contains this text is lost; published messages are not.
    lost: Option<(String, Loss)>,
    live: Vec<Arc<Connection>>,
    closed: bool,
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
    mark: Mutex<Mark>,
}

/// The state of a connection.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// A subscription uses this connection.
    listens: bool,
    /// Its messages are dropped.
    deaf: bool,
}

impl Connection {
    fn cut(&self) {
        // Either side may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Proxy {
    /// Starts a proxy to the server on this loopback port.
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let rules = Arc::new(Mutex::new(Rules { server, ..Rules::default() }));
        let shared = rules.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = {
                    let rules = shared.lock().expect("rules");
                    if rules.closed {
                        return;
                    }
                    rules.server
                };
                // When the server is away the client's connection is closed.
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

    /// Drops all data in this direction on all present and later connections: nothing ends and nothing arrives.
    pub fn swallow(&self, flow: Flow) {
        self.rules().swallowed = Some(flow);
    }

    /// Drops the messages of the present subscriptions.
    pub fn deafen(&self) {
        for connection in &self.rules().live {
            let mut mark = connection.mark.lock().expect("a mark");
            mark.deaf |= mark.listens;
        }
    }

    /// Sends later connections to another server.
    pub fn lead_to(&self, server: u16) {
        self.rules().server = server;
    }

    /// Forwards everything again.
    pub fn pass_on(&self) {
        self.rules().swallowed = None;
    }

    /// Loses the next answer that contains `text`.
    pub fn lose_answer(&self, text: &str, loss: Loss) {
        self.rules().lost = Some((text.into(), loss));
    }

    /// Whether that answer has been lost.
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
        // Wakes the listener so that it ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Two threads, one for each direction, until either side ends.
fn pass(client: TcpStream, server: TcpStream, rules: &Arc<Mutex<Rules>>) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("nodelay");
    }
    let connection = Arc::new(Connection { client, server, mark: Mutex::default() });
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
        let mark = {
            let mut mark = connection.mark.lock().expect("a mark");
            mark.listens |= flow == Flow::Questions && contains(said, b"PSUBSCRIBE");
            *mark
        };
        let loss = rules.lock().expect("rules").fate(said, flow, mark);
        match loss {
            Some(Loss::Break) => return,
            // Later data must not arrive before the lost data.
            Some(Loss::Silence) => connection.mark.lock().expect("a mark").deaf |= flow == Flow::Answers,
            None if to.write_all(said).is_err() => return,
            None => {}
        }
    }
}

impl Rules {
    fn fate(&mut self, said: &[u8], flow: Flow, mark: Mark) -> Option<Loss> {
        if let Some((text, loss)) = &self.lost
            && flow == Flow::Answers
            && !mark.listens
            && contains(said, text.as_bytes())
        {
            let loss = *loss;
            self.lost = None;
            return Some(loss);
        }
        let swallows = self.swallowed.is_some_and(|swallowed| swallowed == flow || swallowed == Flow::Both);
        (swallows || mark.deaf && flow == Flow::Answers).then_some(Loss::Silence)
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
