//! The address of a supervisor for a client.

use std::fmt;
use std::path::PathBuf;

use hyper::Uri;

/// The address of a supervisor: a socket or a port.
#[derive(Clone)]
pub enum Place {
    /// A socket on this machine.
    Socket(PathBuf),
    /// A TCP port with a token.
    Port {
        /// `host:port`, as in the request's header.
        host: String,
        /// The token for the gate.
        token: String,
    },
}

impl Place {
    /// The port in a URL: `http://host:port`.
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
            // Neither user nor password: the gate asks for the token alone.
            Some(place) if place.port_u16().is_some() && !place.as_str().contains('@') => {
                Ok(Place::Port { host: place.as_str().into(), token })
            }
            Some(_) | None => Err(wrong("it is http://HOST:PORT")),
        }
    }

    /// The name of the supervisor in the request's header.
    pub(super) fn host(&self) -> &str {
        match self {
            Place::Socket(_) => "localhost",
            Place::Port { host, .. } => host,
        }
    }

    /// The token for the gate, if there is one.
    pub(super) fn token(&self) -> Option<&str> {
        match self {
            Place::Socket(_) => None,
            Place::Port { token, .. } => Some(token),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Socket(path) => path.display().fmt(f),
            Place::Port { host, .. } => f.write_str(host),
        }
    }
}

/// Shows no token.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_address_needs_host_and_port() {
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
