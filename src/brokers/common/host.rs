//! The name of this host.

/// The name of this host, as others may see it in a broker.
pub fn host_name() -> String {
    nix::unistd::gethostname().map_or_else(|_| "host".into(), |name| name.to_string_lossy().into_owned())
}
