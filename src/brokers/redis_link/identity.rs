//! Facts of a URL that are known before a connection is opened.

/// What is wrong with a URL, as the end of "the broker 'SCHEME:' …".
pub fn fault(url: &str) -> Option<&'static str> {
    let has_place = url.split_once("://").is_some_and(|(_, place)| !place.is_empty());
    (!has_place).then_some("needs a host, or a path, after its //")
}

/// Identifies a Redis: how it is reached, its hosts with their ports, and the number of its database.
pub fn identity(shown: &str) -> String {
    let Some((scheme, rest)) = shown.split_once("://") else { return shown.to_owned() };
    // Both schemes may lead to the same server.
    let scheme = scheme.replace("valkey", "redis");
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if scheme.ends_with("unix") {
        return format!("unix://{rest} {}", query.trim_start_matches("db=").parse().unwrap_or(0));
    }
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_asked = scheme.ends_with("sentinel");
    let (master, number) = if is_asked { path.split_once('/').unwrap_or((path, "")) } else { ("", path) };
    let port = if is_asked { "26379" } else { "6379" };
    let whole = |host: &str| match host.rsplit_once(':') {
        // A colon before a bracket's end belongs to an IPv6 address.
        Some((_, port)) if !port.is_empty() && !port.ends_with(']') => host.to_ascii_lowercase(),
        _ => format!("{}:{port}", host.trim_end_matches(':').to_ascii_lowercase()),
    };
    let hosts: Vec<String> = hosts.split(',').map(whole).collect();
    format!("{scheme}://{} {master} {}", hosts.join(","), number.trim_matches('/').parse().unwrap_or(0))
}
