//! The query of a URL. Unknown names are refused, as otherwise a misspelled setting would have no effect.

use broker::Error;

const TCP: [&str; 1] = ["protocol"];
const TLS: [&str; 4] = ["ca", "cert", "key", "protocol"];
const UNIX: [&str; 4] = ["user", "pass", "db", "protocol"];
const SENTINEL: [&str; 2] = ["sentinel_user", "sentinel_pass"];
const TLS_SENTINEL: [&str; 6] = ["ca", "cert", "key", "sentinel_user", "sentinel_pass", "sentinel_tls"];

/// The value of a name in the query; the last one counts.
pub(super) fn value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.rfind(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Splits the parameters with these names off a URL: gives the rest of the URL, and each with its value.
pub fn split_off<'a>(url: &'a str, names: &[&str]) -> (String, Vec<(&'a str, &'a str)>) {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut own, mut rest) = (Vec::new(), Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((name, value)) if names.contains(&name) => own.push((name, value)),
            _ => rest.push(pair),
        }
    }
    let mark = if rest.is_empty() { "" } else { "?" };
    (format!("{place}{mark}{}", rest.join("&")), own)
}

/// Refuses unknown names. Only names are shown: a value may be a password.
pub(super) fn check(url: &str) -> Result<(), Error> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let Some((_, query)) = rest.split_once('?') else { return Ok(()) };
    let known: &[&str] = match scheme {
        scheme if scheme.ends_with("unix") => &UNIX,
        "redis+sentinel" => &SENTINEL,
        "rediss+sentinel" => &TLS_SENTINEL,
        "rediss" | "valkeys" => &TLS,
        _ => &TCP,
    };
    let query = query.split('#').next().unwrap_or_default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((name, _)) = pair.split_once('=') else {
            // It may be a part of a password that holds a '?'.
            return Err(refused("what stands after its '?' is not NAME=VALUE", scheme, known));
        };
        if !known.contains(&name) {
            let wrong = format!("it has '{name}={}", meant(name, known));
            return Err(refused(&wrong, scheme, known));
        }
    }
    Ok(())
}

/// The known name that was probably meant.
fn meant(name: &str, known: &[&str]) -> String {
    let name = name.to_ascii_lowercase();
    let like = match name.as_str() {
        "cafile" | "cacert" | "ca_file" | "tls-ca-cert-file" => "ca",
        "certfile" | "cert_file" | "certificate" => "cert",
        "keyfile" | "key_file" => "key",
        "password" | "passwd" | "auth" => "pass",
        "username" | "name" => "user",
        "database" => "db",
        other => other,
    };
    match like {
        _ if known.contains(&like) => format!("', and '{like}=' may be meant"),
        "sentinel_tls" => {
            "', which is for TLS: rediss+sentinel://HOST:PORT/MASTER/DB?sentinel_tls=yes".into()
        }
        "pass" | "user" => "'; name and password stand before the host: ://USER:PASSWORD@HOST".into(),
        "db" => "'; the database stands after the host: ://HOST:PORT/DB".into(),
        "ca" | "cert" | "key" => "', which is for TLS: rediss://HOST:PORT/DB?ca=FILE".into(),
        _ => "'".into(),
    }
}

fn refused(wrong: &str, scheme: &str, known: &[&str]) -> Error {
    let known = known.join(", ");
    Error::Url(format!("the broker's URL cannot be taken: {wrong}; {scheme}:// knows {known} there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_url_parameters_are_refused_by_name() {
        for (url, word) in [
            ("redis://h?foo=s3cret", "it has 'foo='; redis:// knows protocol there"),
            (
                "rediss://h?cafile=/x",
                "'cafile=', and 'ca=' may be meant; rediss:// knows ca, cert, key, protocol",
            ),
            ("redis://h?password=s3cret", "://USER:PASSWORD@HOST"),
            ("redis://h?ca=/x", "for TLS: rediss://"),
            ("unix:///r?password=s3cret", "'pass=' may be meant; unix:// knows user, pass, db, protocol"),
            ("redis://me:pa?s3cret@h", "not NAME=VALUE"),
        ] {
            let said = check(url).unwrap_err().to_string();
            assert!(said.contains(word) && !said.contains("s3cret"), "{url}: {said}");
        }
        assert!(check("rediss://h/0?ca=/x&protocol=resp3").is_ok() && check("redis://h").is_ok());
    }
}
