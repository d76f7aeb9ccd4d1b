//! Removes secrets from URLs.

/// A URL without user, password and query, except for the number of a database.
pub fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // Everything before the last @ is a user and a password, correctly written or not; a query may hold them, too.
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let (place, query) = place.split_once(['?', '#']).unwrap_or((place, ""));
    let number = query.split('&').find_map(|word| word.strip_prefix("db="));
    // Only digits: anything else may be a secret in the wrong place.
    match number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(number) => format!("{scheme}://{place}?db={number}"),
        None => format!("{scheme}://{place}"),
    }
}
