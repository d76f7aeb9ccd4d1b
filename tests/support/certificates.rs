//! Certificates of a private CA, and the flags of a server with them.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Makes `ca.pem`, and for each name `NAME.pem` and `NAME.key` signed by it.
pub fn certificates(dir: &Path, names: &[&str]) {
    let openssl = |line: &str| {
        let output =
            Command::new("openssl").args(line.split(' ')).current_dir(dir).output().expect("openssl");
        assert!(output.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=the-ca"));
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").expect("a file");
    for name in names {
        openssl(&format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
        ));
    }
}

/// A free port and the flags for a redis-server with TLS there; `asks` says whether it requires client certificates.
pub fn flags(dir: &Path, asks: &str) -> (u16, Vec<String>) {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let file = |name: &str| dir.join(name).display().to_string();
    let flags = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", file("server.pem")),
        ("--tls-key-file", file("server.key")),
        ("--tls-ca-cert-file", file("ca.pem")),
        ("--tls-auth-clients", asks.to_owned()),
    ];
    (port, flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect())
}
