//! Guesses which variables hold secrets.

const WORDS: [&str; 9] = ["PASS", "SECRET", "TOKEN", "KEY", "CREDENTIAL", "PRIVATE", "AUTH", "DSN", "COOKIE"];

/// Whether its name, or a password in a URL, suggests a secret.
pub(super) fn may_be_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // A password may hold an @: the last one ends the login.
    let login = value.split_once("://").and_then(|(_, rest)| rest.split('/').next()?.rsplit_once('@'));
    WORDS.iter().any(|word| name.contains(word)) || login.is_some_and(|(login, _)| login.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognized_by_names_and_urls() {
        for (name, value) in
            [("DB_PASSWORD", ""), ("api_key", ""), ("DATABASE_URL", "pg://u:pw@h/d"), ("SENTRY_DSN", "x")]
        {
            assert!(may_be_secret(name, value), "{name}");
        }
        for (name, value) in [("LANG", "C"), ("DATABASE_URL", "pg://u@h/d:e@f"), ("HOME", "/home/a:b@c")] {
            assert!(!may_be_secret(name, value), "{name}");
        }
    }
}
