//! Where a supervisor listens, as a client sees it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hyper::Uri;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::client::Error;

/// A supervisor's socket, or its port.
#[derive(Clone)]
pub enum Place {
    /// On this machine.
    Socket(PathBuf),
    /// By TCP, with a token.
    Port {
        /// `host:port`, as a request names it.
        host: String,
        /// What opens the gate.
        token: String,
    },
}

/// What client and supervisor speak by.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

impl Place {
    /// The port that a URL names: `http://host:port`.
    pub fn of_url(url: &str, token: String) -> Result<Place, String> {
        let wrong = |why: &str| format!("'{url}' is no address of a supervisor: {why}");
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(wrong(
                    "TLS is a proxy's business: go through a tunnel or a proxy on this machine",
                ));
            }
            Some(_) | None => return Err(wrong("it begins with http://")),
        }
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(wrong("it ends with the port"));
        }
        match uri.authority() {
            Some(place) if place.port_u16().is_some() && !place.as_str().contains('@') => {
                Ok(Place::Port { host: place.as_str().into(), token })
            }
            Some(_) | None => Err(wrong("it is http://HOST:PORT")),
        }
    }

    /// What a request calls the supervisor.
    pub(super) fn host(&self) -> &str {
        match self {
            Place::Socket(_) => "localhost",
            Place::Port { host, .. } => host,
        }
    }

    /// What opens the gate, if there is one.
    pub(super) fn token(&self) -> Option<&str> {
        match self {
            Place::Socket(_) => None,
            Place::Port { token, .. } => Some(token),
        }
    }

    /// Refuses a listener that is another user's: who came first in /tmp may have made the socket, and would be told jobs and
    /// data and could confirm what he likes. The owner of the directory is trusted as well by root, whose supervisor it may
    /// look at, and by others if root has given the directory to that user, as systemd does below /run.
    fn trust(&self, path: &Path, stream: &UnixStream) -> Result<(), Error> {
        let failed = |error| Error::Connect(self.clone(), error);
        let (own, theirs) = (nix::unistd::geteuid().as_raw(), stream.peer_cred().map_err(failed)?.uid());
        let is_owner = |dir: &Path| dir.symlink_metadata().is_ok_and(|found| found.uid() == theirs);
        let may_own = |dir: &Path| is_owner(dir) && (own == 0 || is_given_by_root(dir));
        match [own, 0].contains(&theirs) || path.parent().is_some_and(may_own) {
            true => Ok(()),
            false => Err(Error::Stranger(self.clone(), theirs)),
        }
    }

    pub(super) async fn connect(&self) -> Result<Box<dyn Wire>, Error> {
        let connected: io::Result<Box<dyn Wire>> = match self {
            Place::Socket(path) => match UnixStream::connect(path).await {
                Ok(stream) => {
                    self.trust(path, &stream)?;
                    Ok(Box::new(stream) as _)
                }
                Err(error) => Err(error),
            },
            Place::Port { host, .. } => TcpStream::connect(host).await.map(|stream| {
                stream.set_nodelay(true).ok();
                Box::new(stream) as _
            }),
        };
        connected.map_err(|error| {
            let is = |kinds: &[ErrorKind]| kinds.contains(&error.kind());
            // A reset: it ended with the connection still in its queue, so nothing that it was told is lost.
            if is(&[ErrorKind::NotFound, ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset]) {
                return Error::NotRunning(self.clone());
            }
            if is(&[ErrorKind::WouldBlock]) {
                let crowd = "too many clients wait for it to take their connections";
                return Error::Silent(self.clone(), crowd.into());
            }
            Error::Connect(self.clone(), error)
        })
    }
}

/// Whether nobody but root can have put this directory where it is, and nobody but its owner can change what is in it.
fn is_given_by_root(dir: &Path) -> bool {
    let is_roots = |parent: &Path| {
        let found = parent.symlink_metadata();
        found.is_ok_and(|found| found.uid() == 0 && (found.is_symlink() || found.mode() & 0o022 == 0))
    };
    let is_closed = dir.symlink_metadata().is_ok_and(|found| found.is_dir() && found.mode() & 0o022 == 0);
    let Ok(real) = dir.canonicalize() else { return false };
    is_closed && dir.is_absolute() && dir.ancestors().chain(real.ancestors().skip(1)).skip(1).all(is_roots)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Socket(path) => path.display().fmt(f),
            Place::Port { host, .. } => f.write_str(host),
        }
    }
}

/// Without the token.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_can_give_a_directory_to_another_user() {
        assert!(is_given_by_root(Path::new("/usr/bin")));
        let own = tempfile::tempdir().unwrap();
        assert!(!is_given_by_root(own.path()), "anybody can make one in /tmp");
        assert!(!is_given_by_root(Path::new("usr/bin")) && !is_given_by_root(Path::new("/nowhere")));
        let link = own.path().join("bin");
        std::os::unix::fs::symlink("/usr/bin", &link).unwrap();
        assert!(!is_given_by_root(&link), "a link of anybody");
    }

    #[test]
    fn an_address_names_host_and_port() {
        let host = |url: &str| Place::of_url(url, "t".into()).map(|place| place.host().to_owned());
        assert_eq!(host("http://10.0.0.5:9180"), Ok("10.0.0.5:9180".into()));
        assert_eq!(host("http://[::1]:9180/"), Ok("[::1]:9180".into()));
        for (url, why) in [
            ("", "empty string"),
            ("jobs.example.org:9180", "begins with http://"),
            ("https://jobs.example.org:9180", "TLS is a proxy's business"),
            ("http://jobs.example.org", "it is http://HOST:PORT"),
            ("http://me@jobs.example.org:1", "it is http://HOST:PORT"),
            ("http://jobs.example.org:99999", "it is http://HOST:PORT"),
            ("http://jobs.example.org:9180/v1", "it ends with the port"),
        ] {
            let said = host(url).unwrap_err();
            assert!(said.contains(why), "{url}: {said}");
        }
    }
}
