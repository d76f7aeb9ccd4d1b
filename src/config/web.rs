//! The section `web` of the file: the page for browsers.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::flow::yaml;
use super::purpose::Reading;
use super::row::{Flag, Kind};
use super::section::settings;
use super::wrong::Wrong;

settings! {
    /// The section `web` of the file.
    #[serde(deny_unknown_fields)]
    pub struct WebSection("web.") => Web {
        /// Where `start` has the page listen.
        listen: String => (at listen, set listen, show |web| yaml(&web.listen)) {
            restart: true,
            default_in_docs: "`null`: no page",
            flags: &[
                Flag::new("web.listen", "web", "ADDRESS", Kind::TextOr("127.0.0.1:0"), "Keep the page for browsers beside the supervisor, at this address and port; without one at a free port of this machine"),
            ],
            docs: "where `start` keeps [the page](web.md#beside-a-supervisor): `127.0.0.1:8080`",
            conf: "Where the supervisor keeps the page for browsers, a process of its own, as 127.0.0.1:8080; null = nowhere. The others hold for the command `taskvisor web` with this file, too.",
        }
        /// The path below which a proxy shows it.
        path: String => (at path, set path, show |web| yaml(&web.path)) {
            restart: true,
            docs: "its path behind a proxy",
            conf: "The path below which a proxy shows it, as /jobs.",
        }
        /// Names by which browsers call it.
        hosts: Vec<String> => (at hosts, set hosts, show |web| yaml(&web.hosts)) {
            restart: true,
            docs: "names allowed in `Host`",
            conf: "Names by which browsers call it, besides addresses and localhost.",
        }
        /// The file with the token of those who may look and change.
        login_token_file: PathBuf => (at login_token_file) {
            restart: true,
            docs: "token file: may change",
            conf: "The files with the tokens of those who may look and change, and of those who may look.",
        }
        /// The file with the token of those who may look.
        view_token_file: PathBuf => (at view_token_file) {
            restart: true,
            docs: "token file: only looks",
        }
        /// Whether nobody may change anything.
        read_only: bool => (at read_only) {
            restart: true,
            docs: "no changes",
            conf: "Let nobody change anything.",
        }
        /// Names of fields whose values are hidden.
        redact: Vec<String> => (at redact, set redact, show |web| yaml(&web.redact)) {
            restart: true,
            docs: "fields to hide: `password`, `*.token`",
            conf: "Fields of data and results that are hidden: [password, '*.token'].",
        }
        /// Whether all data is hidden.
        hide_data: bool => (at hide_data) {
            restart: true,
            docs: "hides all data",
            conf: "Hide data, results, commands and messages of jobs.",
        }
    }
}

/// The page for browsers: where it is, whom it lets in and what it hides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Web {
    /// Where `start` has it listen; None = `start` keeps none.
    pub listen: Option<SocketAddr>,
    /// The path below which a proxy shows it: empty, or `/jobs`.
    pub path: String,
    /// Names by which browsers call it, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The file with the token of those who may look and change.
    pub login_token_file: Option<PathBuf>,
    /// The file with the token of those who may look.
    pub view_token_file: Option<PathBuf>,
    /// Whether nobody may change anything.
    pub read_only: bool,
    /// Names of fields whose values are hidden.
    pub redact: Vec<String>,
    /// Whether all data is hidden.
    pub hide_data: bool,
}

fn listen(said: String, key: &'static str, web: &mut Web, _: &Reading<'_>) -> Result<(), Wrong> {
    let address = said.replace("localhost:", "127.0.0.1:").parse().map_err(|_| {
        Wrong::new(key, format!("'{said}' is nothing to listen on"))
            .hint("an address and a port: 127.0.0.1:8080, '[::1]:8080'")
    })?;
    web.listen = Some(address);
    Ok(())
}

fn path(said: String, key: &'static str, web: &mut Web, _: &Reading<'_>) -> Result<(), Wrong> {
    web.path = page_path(&said).map_err(|why| Wrong::new(key, format!("'{said}' is no path: {why}")))?;
    Ok(())
}

fn hosts(said: Vec<String>, _: &str, web: &mut Web, _: &Reading<'_>) -> Result<(), Wrong> {
    web.hosts = said;
    Ok(())
}

fn redact(said: Vec<String>, key: &'static str, web: &mut Web, _: &Reading<'_>) -> Result<(), Wrong> {
    if said.iter().any(|name| name.trim().is_empty()) {
        return Err(Wrong::new(key, "an empty name means no field").hint("as password, or *.token"));
    }
    web.redact = said;
    Ok(())
}

/// The path of a page without the slash at its end.
pub fn page_path(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    // A browser takes //NAME for another host.
    let is_path = path.is_empty() || path.starts_with('/') && !path.starts_with("//");
    match is_path && path.bytes().all(letters) {
        true => Ok(path.to_owned()),
        false => Err("it begins with / and has letters, digits and -_.~ only, as /jobs".into()),
    }
}
