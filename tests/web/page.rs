//! The page under test, and requests without a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::sandbox::Sandbox;

/// A page that is served; it ends with this value.
pub struct Served {
    /// None for the page of a supervisor.
    child: Option<Child>,
    /// The address that it has printed.
    pub url: String,
    /// Its port.
    pub port: u16,
}

impl Served {
    /// Starts one.
    pub fn start(sandbox: &Sandbox, args: &[&str]) -> Served {
        let mut command = sandbox.command(&[&["web"], args].concat());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let mut page = Served::at_url(&url);
        page.child = Some(child);
        page
    }

    /// The page of a supervisor, at the address that it has told.
    pub fn at_url(url: &str) -> Served {
        let url = url.trim().to_owned();
        let rest = url.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("no address: {url}"));
        let port = rest.split('/').next().unwrap().parse().unwrap();
        Served { child: None, url, port }
    }

    /// The address of a path.
    pub fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Sends a request with these header lines; gives the whole answer.
    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|line| line.starts_with("host:")) {
            head += &format!("host: 127.0.0.1:{}\r\n", self.port);
        }
        headers.iter().for_each(|line| head += &format!("{line}\r\n"));
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request whose answer goes on; gives it from its body on, and its status.
    pub fn open(&self, path: &str, headers: &[&str]) -> (BufReader<TcpStream>, u16) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let lines = headers.join("\r\n");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n{lines}\r\n\r\n",
            self.port
        )
        .unwrap();
        let (mut answer, mut line) = (BufReader::new(stream), String::new());
        answer.read_line(&mut line).unwrap();
        let code = status(&line);
        while line != "\r\n" {
            line.clear();
            assert!(answer.read_line(&mut line).unwrap() > 0, "no whole answer");
        }
        (answer, code)
    }

    /// Sends it SIGHUP, as a terminal does that is closed.
    pub fn hang_up(&self) {
        crate::sandbox::kill(self.child.as_ref().unwrap().id() as i32, "HUP");
    }

    /// Whether it has ended, and with which code.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.as_mut().unwrap().try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Opens a session with the printed address; gives the header line that carries it.
    pub fn enter(&self) -> String {
        let path = self.url.split_once(&format!(":{}", self.port)).unwrap().1;
        let answer = self.ask("GET", path, &[], "");
        let cookie = answer
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "))
            .unwrap_or_else(|| panic!("{answer}"));
        format!("cookie: {}", cookie.split(';').next().unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Puts a program into a queue and gives the job's id.
pub fn put(sandbox: &Sandbox, queue: &str, argv: &[&str]) -> String {
    sandbox.ok(&[&["put", "-q", queue, "--"], argv].concat()).trim().to_owned()
}

/// The status of an answer.
pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}
