//! Files for connections by TLS that the URL names: the CA to trust, and our own certificate.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use redis::{ClientTlsConfig, ErrorKind, RedisError, RedisResult, TlsCertificates};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use broker::Error;
use start_dir::from_start_dir;

/// Paths of PEM files, which are read again for each connection: so a renewed file takes effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Certificates {
    /// The CA that signs certificates of servers, in place of those that the system trusts.
    ca: Option<PathBuf>,
    /// Our own certificate and its key.
    own: Option<(PathBuf, PathBuf)>,
}

impl Certificates {
    /// Takes the certificates out of the URL's query; gives the URL without them.
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
        // A file that is missing now is an error in the settings, not trouble of the server.
        found.load().map_err(|error| refused(error.detail().unwrap_or_default()))?;
        let rest = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        Ok((rest, found))
    }

    pub(super) fn has_ca(&self) -> bool {
        self.ca.is_some()
    }

    pub(super) fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// The contents of the files; `None` if none was named.
    pub(super) fn load(&self) -> RedisResult<Option<TlsCertificates>> {
        if *self == Certificates::default() {
            return Ok(None);
        }
        let own = |(cert, key): &(PathBuf, PathBuf)| {
            let (chain, client_cert) = certificates(cert)?;
            let client_key = read(key)?;
            fit(chain, &client_key).map_err(|why| fault(key, &why))?;
            Ok::<_, RedisError>(ClientTlsConfig { client_cert, client_key })
        };
        let root_cert =
            self.ca.as_ref().map(|path| Ok::<_, RedisError>(certificates(path)?.1)).transpose()?;
        Ok(Some(TlsCertificates { client_tls: self.own.as_ref().map(own).transpose()?, root_cert }))
    }
}

type Chain = Vec<CertificateDer<'static>>;

/// The certificates in a file, at least one, and the contents of the file.
fn certificates(path: &Path) -> RedisResult<(Chain, Vec<u8>)> {
    let bytes = read(path)?;
    let found: Result<Chain, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(fault(path, "there is no certificate in it")),
        Ok(found) => Ok((found, bytes)),
        Err(error) => Err(fault(path, &format!("a certificate in it cannot be read: {error}"))),
    }
}

/// Checks that this is the key of that certificate.
fn fit(chain: Chain, key: &[u8]) -> Result<(), String> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "there is no private key in it".to_owned())?;
    // No roots: only our own certificate and key are compared here.
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    match config.with_client_auth_cert(chain, key) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err("that is not the key of the certificate in 'cert'".into())
        }
        Err(error) => Err(format!("it cannot be used: {error}")),
    }
}

/// The largest file of certificates that is read, in bytes.
const SIZE_MAX: u64 = 4 << 20;

fn read(path: &Path) -> RedisResult<Vec<u8>> {
    // With this flag, opening a FIFO or a device does not block.
    let open = |path: PathBuf| OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let mut bytes = Vec::new();
    from_start_dir(path)
        .and_then(open)
        .and_then(|file| file.take(SIZE_MAX).read_to_end(&mut bytes))
        .map_err(|error| fault(path, &error.to_string()))?;
    let is_pem = bytes.windows(11).any(|window| window == b"-----BEGIN ");
    if is_pem { Ok(bytes) } else { Err(fault(path, "there is no PEM in it")) }
}

fn fault(path: &Path, why: &str) -> RedisError {
    (ErrorKind::InvalidClientConfig, "cannot use", format!("'{}': {why}", path.display())).into()
}

fn refused(why: &str) -> Error {
    Error::Url(format!("the broker's URL cannot be taken: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_parameters_are_split_off_the_url() {
        let none = |url: &str| (url.to_owned(), Certificates::default());
        for url in ["redis://h", "rediss://h/0?protocol=resp3"] {
            assert_eq!(Certificates::split(url).unwrap(), none(url));
        }
        let dir = tempfile::tempdir().unwrap();
        let pem = dir.path().join("a.pem");
        std::fs::write(&pem, "-----BEGIN OTHER-----\nAAAA\n-----END OTHER-----\n").unwrap();
        let pem = pem.display();
        for (url, word) in [
            (format!("rediss://h?cert={pem}"), "belong together"),
            (format!("rediss://h?ca={pem}"), "a.pem': there is no certificate in it"),
            (format!("rediss://h?cert={pem}&key={pem}"), "there is no certificate in it"),
            ("rediss://h?ca=/none/ca.pem".into(), "'/none/ca.pem': No such file"),
            ("rediss://h?ca=/dev/null".into(), "no PEM"),
        ] {
            let said = Certificates::split(&url).unwrap_err().to_string();
            assert!(said.contains(word), "{url}: {said}");
        }
    }
}
