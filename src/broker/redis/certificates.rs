//! Whom to believe that he is the server, and who we are, for connections by TLS: files that the URL names.

use std::path::PathBuf;

use redis::{ClientTlsConfig, ErrorKind, RedisError, RedisResult, TlsCertificates};

use crate::broker::Error;

/// Files in PEM, read anew for each connection: what is renewed on disk is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Certificates {
    /// Who signs certificates of servers, in place of those that the system trusts.
    ca: Option<PathBuf>,
    /// Our own certificate and its key.
    own: Option<(PathBuf, PathBuf)>,
}

impl Certificates {
    /// What the URL says of them after its `?`, with the URL without that.
    pub(super) fn split(url: &str) -> Result<(String, Certificates), Error> {
        let Some((place, query)) = url.split_once('?') else {
            return Ok((url.into(), Certificates::default()));
        };
        let (mut ca, mut cert, mut key, mut rest) = (None, None, None, Vec::new());
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("ca", path)) => ca = Some(PathBuf::from(path)),
                Some(("cert", path)) => cert = Some(PathBuf::from(path)),
                Some(("key", path)) => key = Some(PathBuf::from(path)),
                _ => rest.push(pair),
            }
        }
        let own = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => {
                return Err(refused(
                    "'cert' and 'key' belong together: a certificate of ours and its private key",
                ));
            }
        };
        let found = Certificates { ca, own };
        if found != Certificates::default() && !place.starts_with("rediss") && !place.starts_with("valkeys") {
            return Err(refused("'ca', 'cert' and 'key' are for TLS: rediss://HOST:PORT/DB?ca=FILE"));
        }
        // A file that is missing now is no bad day of the server's.
        found.load().map_err(|error| refused(error.detail().unwrap_or_default()))?;
        let rest = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        Ok((rest, found))
    }

    /// Their contents; `None` if none was named.
    pub(super) fn load(&self) -> RedisResult<Option<TlsCertificates>> {
        if *self == Certificates::default() {
            return Ok(None);
        }
        let own = |(cert, key): &(PathBuf, PathBuf)| {
            Ok::<_, RedisError>(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
        };
        let root_cert = self.ca.as_ref().map(read).transpose()?;
        Ok(Some(TlsCertificates { client_tls: self.own.as_ref().map(own).transpose()?, root_cert }))
    }
}

fn read(path: &PathBuf) -> RedisResult<Vec<u8>> {
    let fault =
        |why: String| (ErrorKind::InvalidClientConfig, "cannot read", format!("'{}': {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
    let is_pem = bytes.windows(11).any(|window| window == b"-----BEGIN ");
    if is_pem { Ok(bytes) } else { Err(fault("there is no PEM in it".into()).into()) }
}

fn refused(why: &str) -> Error {
    Error::Refused(format!("the broker's URL cannot be taken: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_url_says_of_certificates_is_taken_out_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let pem = dir.path().join("a.pem");
        std::fs::write(&pem, "-----BEGIN CERTIFICATE-----\n").unwrap();
        let pem = pem.display();
        let (url, found) =
            Certificates::split(&format!("rediss://h/0?ca={pem}&protocol=resp3&cert={pem}&key={pem}"))
                .unwrap();
        assert_eq!(url, "rediss://h/0?protocol=resp3");
        let loaded = found.load().unwrap().unwrap();
        assert!(loaded.root_cert.is_some() && loaded.client_tls.is_some());
        assert_eq!(Certificates::split("redis://h").unwrap(), ("redis://h".into(), Certificates::default()));
        for (url, word) in [
            (format!("rediss://h?cert={pem}"), "belong together"),
            (format!("redis://h?ca={pem}"), "for TLS"),
            ("rediss://h?ca=/none/ca.pem".into(), "'/none/ca.pem': No such file"),
            ("rediss://h?ca=/dev/null".into(), "no PEM"),
        ] {
            let said = Certificates::split(&url).unwrap_err().to_string();
            assert!(said.contains(word), "{url}: {said}");
        }
    }
}
