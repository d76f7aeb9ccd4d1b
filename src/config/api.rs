//! The API over TCP: its address, its clients, and its token.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::flow::yaml;
use super::paths::from_here;
use super::purpose::Reading;
use super::section::{Section, settings};
use super::wrong::Wrong;
use super::{Error, Fault, Purpose, Surroundings};
use model::SpawnSpec;

settings! {
    /// The section `api` of the file.
    #[serde(deny_unknown_fields)]
    pub struct ApiSection("api.") => Api {
        /// Address and port.
        listen: String => (at listen, set listen, show |api| yaml(&api.listen)) {
            restart: true,
            default: "null",
            default_in_docs: "`null`: no TCP",
            docs: "address and port of the API [by TCP](api.md#by-tcp), as `127.0.0.1:9180`",
            conf: "Address and port, as 127.0.0.1:9180; null = no TCP.",
        }
        /// The file with the token that may do everything.
        token_file: PathBuf {
            default: "null",
            default_in_docs: "`null`: the variable",
            how: "`TASKVISOR_API_TOKEN`",
            docs: "a file with the token of requests by TCP that may do everything, 16 letters at least; the variable holds the token itself. A file that others may read or change is refused, and so is a token in the settings",
            conf: "The file that holds the token with which a request may do everything; without it the variable TASKVISOR_API_TOKEN does. Only root or the supervisor's user may own the file, and only they may read it.",
        }
        /// The file with the token that may look.
        view_token_file: PathBuf {
            default: "null",
            docs: "the same for [a token that only looks](api.md#by-tcp); with it the first may be left out",
            conf: "The same for a token that only looks, as for Prometheus, and for one that puts jobs and sees those alone, as for a web application. Where one of them is set, the token for everything may be left out.",
        }
        /// The file with the token that may put jobs, and see its own.
        put_token_file: PathBuf {
            default: "null",
            docs: "the same for one that puts jobs and sees its own",
        }
        /// Names that clients may use besides this machine's own names for itself.
        hosts: Vec<String> => (set hosts, show |api| yaml(&api.hosts)) {
            docs: "names allowed in `Host`, besides `localhost` and loopback addresses",
            conf: "Names allowed in the header Host, besides localhost and loopback addresses.",
        }
        /// Web origins whose pages may use the API.
        origins: Vec<String> => (set origins, show |api| yaml(&api.origins)) {
            docs: "web pages that may use it: `https://jobs.example.org`",
            conf: "Web pages that may use it, as https://jobs.example.org, when a browser says where a request comes from.",
        }
        /// Whether programs can be put through it.
        allow_exec: bool => (at allow_exec) {
            restart: true,
            docs: "let programs be put by TCP",
            conf: "Let programs be put by TCP: whoever has the token can then run anything as the supervisor's user.",
        }
    }
}

/// The API over TCP, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The tokens of which clients must send one. None where no supervisor listens.
    pub tokens: Tokens,
    /// Names that clients may use, in small letters.
    pub hosts: Vec<String>,
    /// Web origins whose pages may use the API.
    pub origins: Vec<String>,
    /// Whether programs can be put through it.
    pub allow_exec: bool,
}

/// The tokens of the API, by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The one that opens everything.
    pub all: Option<Token>,
    /// The one that only looks.
    pub view: Option<Token>,
    /// The one that puts jobs, and sees those.
    pub put: Option<Token>,
}

/// A secret whose debug output is hidden.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(pub String);

impl Default for Api {
    /// Open to nobody yet.
    fn default() -> Self {
        // A placeholder: `resolve_api` writes the address before all else.
        let listen = (Ipv4Addr::UNSPECIFIED, 0).into();
        Api { listen, tokens: Tokens::default(), hosts: Vec::new(), origins: Vec::new(), allow_exec: false }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The environment variable with the token, if no file has it.
const VARIABLE: &str = SpawnSpec::API_TOKEN;
/// Fewest characters of a token: that many random ones cannot be guessed.
const SHORTEST: usize = 16;
/// Longest token: a wrong path may lead to any file.
const LONGEST: usize = 4096;

fn wrong(key: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Wrong {
    Wrong::new(key, message).hint(hint)
}

/// Resolves the section; None = no TCP. Only a process that will listen needs the token.
pub(super) fn resolve_api(mut said: ApiSection, with: &Reading<'_>) -> Result<Option<Api>, Wrong> {
    let Some(address) = said.listen.take() else { return Ok(None) };
    let mut api = Api::default();
    // The address is checked before the tokens: a mistyped one must not be reported as a missing token.
    listen(address, "api.listen", &mut api, with)?;
    if with.purpose != Purpose::Find {
        api.tokens = tokens(&said, with.around)?;
    }
    said.write(&mut api, with)?;
    Ok(Some(api))
}

fn listen(said: String, key: &'static str, api: &mut Api, _: &Reading<'_>) -> Result<(), Wrong> {
    api.listen = said.parse().map_err(|_| {
        let message = format!("'{said}' is nothing to listen on");
        wrong(key, message, "an address and a port: 127.0.0.1:9180, [::1]:9180")
    })?;
    Ok(())
}

fn hosts(said: Vec<String>, _: &str, api: &mut Api, _: &Reading<'_>) -> Result<(), Wrong> {
    api.hosts = said.iter().map(|name| host(name)).collect::<Result<_, _>>()?;
    Ok(())
}

fn origins(said: Vec<String>, _: &str, api: &mut Api, _: &Reading<'_>) -> Result<(), Wrong> {
    said.iter().try_for_each(|origin| is_origin(origin))?;
    api.origins = said;
    Ok(())
}

/// A supervisor on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its address, a URL.
    pub url: String,
    /// The token for its API.
    pub token: Token,
}

/// The supervisor to talk to, for commands that look for one; None = that of this machine.
pub(super) fn resolve_remote(
    url: Option<String>,
    token_file: Option<PathBuf>,
    around: &Surroundings,
) -> Result<Option<Remote>, Error> {
    let Some(url) = url else { return Ok(None) };
    if token_file.is_none() && around.api_token.is_none() {
        let message = format!("no token is given, without which no supervisor answers at {url}");
        let hint = format!("give --token-file FILE or set TASKVISOR_TOKEN_FILE or {VARIABLE}");
        return Err(Error::new(Fault::Usage, message).hint(hint));
    }
    let token = token(token_file, around).map_err(|wrong| {
        wrong
            .hint("it is the token of that supervisor, in a file that nobody else can read or change")
            .placed(None)
    })?;
    Ok(Some(Remote { url, token }))
}

/// The tokens of a supervisor: at least one, and each for one purpose.
fn tokens(section: &ApiSection, around: &Surroundings) -> Result<Tokens, Wrong> {
    let of = |file: &Option<PathBuf>, key| file.clone().map(|path| in_file(path, key, around)).transpose();
    let view = of(&section.view_token_file, VIEW)?;
    let put = of(&section.put_token_file, PUT)?;
    let is_told = section.token_file.is_some() || around.api_token.is_some();
    // Without any token nobody could enter: then the lack of this one is the error to report.
    let needs = is_told || (view.is_none() && put.is_none());
    let all = needs.then(|| token(section.token_file.clone(), around)).transpose()?;
    // One token for two purposes would give the greater right to all who have the lesser.
    for (key, one, others) in [(VIEW, &view, [&all, &put]), (PUT, &put, [&all, &view])] {
        if one.is_some() && others.contains(&one) {
            let message = format!("the token of {key} is that of another setting");
            return Err(wrong(key, message, "each purpose has a token of its own"));
        }
    }
    Ok(Tokens { all, view, put })
}

const VIEW: &str = "api.view_token_file";
const PUT: &str = "api.put_token_file";

/// The token in a file, which `key` names.
fn in_file(path: PathBuf, key: &'static str, around: &Surroundings) -> Result<Token, Wrong> {
    let path = from_here(path).map_err(|error| Wrong::at(key, error))?;
    let text = read(&path, around.uid).map_err(|why| {
        let message = format!("the token file {} {why}", path.display());
        wrong(key, message, HOW_TO_MAKE_ONE)
    })?;
    usable(&text, key, &format!("the token in {}", path.display()))
}

/// The token in a file that a flag names: it belongs to this user or to root alone.
pub fn token_in(path: PathBuf, flag: &'static str, around: &Surroundings) -> Result<Token, Error> {
    in_file(path, flag, around).map_err(|wrong| wrong.placed(None))
}

fn token(file: Option<PathBuf>, around: &Surroundings) -> Result<Token, Wrong> {
    match (file, &around.api_token) {
        (Some(path), _) => in_file(path, "api.token_file", around),
        (None, Some(text)) => {
            let text = text.to_str().ok_or_else(|| wrong("api.listen", NOT_TEXT, HOW_TO_MAKE_ONE))?;
            usable(text, "api.listen", &format!("the token in {VARIABLE}"))
        }
        (None, None) => {
            let message = format!("to listen by TCP takes a token: neither token_file nor {VARIABLE} is set");
            Err(wrong("api.listen", message, HOW_TO_MAKE_ONE))
        }
    }
}

const NOT_TEXT: &str = "the token in TASKVISOR_API_TOKEN is no text";
const HOW_TO_MAKE_ONE: &str = "(umask 077; head -c 24 /dev/urandom | base64 >FILE) makes one";

/// Reads a file that belongs to this user alone.
fn read(path: &Path, uid: u32) -> Result<String, String> {
    // Without O_NONBLOCK, opening a FIFO would wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| format!("cannot be opened: {error}"))?;
    let found = file.metadata().map_err(|error| format!("cannot be looked at: {error}"))?;
    if !found.is_file() {
        return Err("is no file".into());
    }
    if ![0, uid].contains(&found.uid()) {
        return Err(format!("belongs to uid {}, who can change it", found.uid()));
    }
    // A group may read it, as secrets are mounted into containers that way.
    if found.mode() & 0o027 != 0 {
        return Err(format!("can be read or changed by others (mode {:o})", found.mode() & 0o7777));
    }
    let mut text = String::new();
    // One byte more shows that it is longer.
    let most = LONGEST as u64 + 1;
    file.take(most).read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    Ok(text)
}

fn usable(text: &str, key: &'static str, what: &str) -> Result<Token, Wrong> {
    let text = text.trim();
    let why = match text.len() {
        0 => "is empty".to_owned(),
        length if length < SHORTEST => format!("has {length} letters, and {SHORTEST} are the least"),
        length if length > LONGEST => format!("has more than {LONGEST} letters"),
        // It travels in the header Authorization.
        _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            "holds more than visible ASCII letters without blanks".to_owned()
        }
        _ => return Ok(Token(text.to_owned())),
    };
    Err(wrong(key, format!("{what} {why}"), HOW_TO_MAKE_ONE))
}

/// A name as it stands in the header, without its port.
fn host(name: &str) -> Result<String, Wrong> {
    let is_address = name.strip_prefix('[').is_some_and(|rest| rest.ends_with(']'));
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    match is_address || (!name.is_empty() && name.bytes().all(letters)) {
        // Names of hosts have no case, and the gate compares letters.
        true => Ok(name.to_ascii_lowercase()),
        false => {
            let message = format!("'{name}' in hosts is no name of a host");
            Err(wrong("api.hosts", message, "without scheme, port and path: jobs.example.org"))
        }
    }
}

fn is_origin(origin: &str) -> Result<(), Wrong> {
    // As a browser sends it: scheme, host and port (RFC 6454).
    let rest = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    match rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/')) {
        true => Ok(()),
        false => {
            let message = format!("'{origin}' in origins is none");
            Err(wrong("api.origins", message, "scheme and host, and no path: https://jobs.example.org"))
        }
    }
}
