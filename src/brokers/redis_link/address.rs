//! The address of a Redis, from its URL. The URL may hold a password: it is never shown.

use std::net::Ipv6Addr;

use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsMode};

use super::certificates::Certificates;
use super::query;
use broker::Error;

/// One server, or the sentinels that know which server is the primary.
pub(super) enum Address {
    Direct(Box<ConnectionInfo>, Certificates),
    Sentinel {
        asked: Vec<ConnectionAddr>,
        master: String,
        redis: Box<ConnectionInfo>,
        /// Certificates for the connection to the primary.
        tls: Option<Certificates>,
        /// The user and the password for the sentinels themselves.
        own: Box<ConnectionInfo>,
        /// Whether the connections to the sentinels use TLS, with the same certificates.
        asked_by_tls: bool,
    },
}

/// The parts that the URL has, as far as they help to explain an error.
pub(super) struct Given {
    /// TCP without TLS.
    pub plain: bool,
    /// TCP with TLS.
    pub tls: bool,
    /// A socket in the file system.
    pub unix: bool,
    /// Sentinels, which have passwords of their own.
    pub sentinels: bool,
    /// The name of a user.
    pub user: bool,
    /// A file with the certificate of a CA.
    pub ca: bool,
    /// A certificate of our own.
    pub own: bool,
}

const SENTINEL_PORT: u16 = 26379;

impl Address {
    /// Reads `redis://`, `rediss://`, `unix://` and `redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB`.
    pub(super) fn read(url: &str) -> Result<Address, Error> {
        query::check(url)?;
        let (url, certificates) = Certificates::split(url)?;
        match url.split_once("+sentinel://") {
            Some(("rediss", rest)) => Address::read_sentinel(rest, Some(certificates)),
            Some((_, rest)) => Address::read_sentinel(rest, None),
            None => {
                place(&url)?;
                Ok(Address::Direct(Box::new(info(&url)?), certificates))
            }
        }
    }

    pub(super) fn given(&self) -> Given {
        let none = Certificates::default();
        let (info, certificates, tls) = match self {
            Address::Direct(info, certificates) => {
                (info, certificates, matches!(info.addr(), ConnectionAddr::TcpTls { .. }))
            }
            Address::Sentinel { redis, tls, .. } => (redis, tls.as_ref().unwrap_or(&none), tls.is_some()),
        };
        let unix = matches!(info.addr(), ConnectionAddr::Unix(_));
        let user = info.redis_settings().username().is_some();
        Given {
            plain: !tls && !unix,
            tls,
            unix,
            sentinels: matches!(self, Address::Sentinel { .. }),
            user,
            ca: certificates.has_ca(),
            own: certificates.has_own(),
        }
    }

    fn read_sentinel(rest: &str, tls: Option<Certificates>) -> Result<Address, Error> {
        let wrong =
            || Error::Url("a URL of sentinels is redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB".into());
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let own = |name: &str| query::value(query, name).unwrap_or_default();
        let asked_by_tls = match own("sentinel_tls") {
            "yes" => true,
            "no" | "" => false,
            _ => return Err(Error::Url("the broker's URL: 'sentinel_tls=' is yes or no".into())),
        };
        let own = match (own("sentinel_user"), own("sentinel_pass")) {
            ("", "") => info("redis://sentinel")?,
            (user, pass) => info(&format!("redis://{user}:{pass}@sentinel"))?,
        };
        let (place, path) = rest.split_once('/').ok_or_else(wrong)?;
        // From the right: a password may have an @.
        let (user, hosts) = place.rsplit_once('@').unwrap_or(("", place));
        let (master, db) = path.split_once('/').unwrap_or((path, "0"));
        if master.is_empty() || hosts.is_empty() {
            return Err(wrong());
        }
        let at = if user.is_empty() { "" } else { "@" };
        // The host is a placeholder: the sentinels name the server.
        let redis = Box::new(info(&format!("redis://{user}{at}sentinel/{db}"))?);
        let read = |host: &str| {
            let (name, port) = name_and_port(host).ok_or_else(wrong)?;
            let port = if port.is_empty() { Ok(SENTINEL_PORT) } else { port.parse().map_err(|_| wrong()) };
            Ok(match asked_by_tls {
                true => ConnectionAddr::TcpTls {
                    host: name.into(),
                    port: port?,
                    insecure: false,
                    tls_params: None,
                },
                false => ConnectionAddr::Tcp(name.into(), port?),
            })
        };
        let asked = hosts.split(',').map(read).collect::<Result<_, Error>>()?;
        Ok(Address::Sentinel { asked, master: master.into(), redis, tls, own: Box::new(own), asked_by_tls })
    }

    /// A client for the server that is the primary at this moment.
    pub(super) async fn client(&self) -> RedisResult<Client> {
        let (asked, master, redis, tls, own, asked_by_tls) = match self {
            Address::Direct(info, certificates) => {
                let info = (**info).clone().set_tcp_settings(settings());
                return match certificates.load()? {
                    Some(loaded) => Client::build_with_tls(info, loaded),
                    None => Client::open(info),
                };
            }
            Address::Sentinel { asked, master, redis, tls, own, asked_by_tls } => {
                (asked, master, redis.redis_settings(), tls, own.redis_settings(), *asked_by_tls)
            }
        };
        let mut builder = SentinelClientBuilder::new(asked.clone(), master, SentinelServerType::Master)?
            .set_client_to_redis_db(redis.db())
            .set_client_to_redis_tcp_settings(settings());
        if let Some(certificates) = tls {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
            if let Some(loaded) = certificates.load()? {
                builder = builder.set_client_to_redis_certificates(loaded.clone());
                if asked_by_tls {
                    builder = builder.set_client_to_sentinel_certificates(loaded);
                }
            }
        }
        if let Some(name) = own.username() {
            builder = builder.set_client_to_sentinel_username(name);
        }
        if let Some(password) = own.password() {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if let Some(name) = redis.username() {
            builder = builder.set_client_to_redis_username(name);
        }
        if let Some(password) = redis.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        builder.build()?.async_get_client().await
    }
}

/// The name of a sentinel and its port, which may be empty. An IPv6 address stands in brackets, or alone without a port;
/// the system looks it up without brackets.
fn name_and_port(host: &str) -> Option<(&str, &str)> {
    if let Some(rest) = host.strip_prefix('[') {
        let (name, port) = rest.split_once(']')?;
        let port = if port.is_empty() { port } else { port.strip_prefix(':')? };
        return name.parse::<Ipv6Addr>().ok().map(|_| (name, port));
    }
    match host.rsplit_once(':') {
        // First, as the last part of such an address would pass for a port.
        _ if host.parse::<Ipv6Addr>().is_ok() => Some((host, "")),
        Some((name, _)) if name.contains(':') => None,
        Some(parts) => Some(parts),
        None => Some((host, "")),
    }
}

/// Small requests are sent at once: each waits for its reply.
fn settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

/// Checks where each character stands in a URL: the library only says that something is wrong. The parts themselves are
/// not shown, as any may belong to a password that was not written correctly.
fn place(url: &str) -> Result<(), Error> {
    // A socket's path has neither host nor port.
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| !scheme.ends_with("unix")) else {
        return Ok(());
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (place, db) = rest.split_once('/').unwrap_or((rest, ""));
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        Some(_) | None => (host, ""),
    };
    if host.contains(',') {
        let one = format!(
            "it names several hosts; give one, or sentinels: {}+sentinel://HOST,HOST/MASTER/DB",
            scheme
        );
        return Err(unreadable(&one));
    }
    if name.is_empty() {
        return Err(unreadable("it names no host"));
    }
    if !port.is_empty() && port.parse().unwrap_or(0u16) == 0 {
        return Err(unreadable("the port after the host's ':' is no number from 1 to 65535"));
    }
    let db = db.trim_matches('/');
    if !db.is_empty() && db.parse::<u32>().is_err() {
        return Err(unreadable("what stands after the host's '/' is not the number of a database"));
    }
    Ok(())
}

fn info(url: &str) -> Result<ConnectionInfo, Error> {
    url.into_connection_info().map_err(|error| match error.detail() {
        Some(detail) => unreadable(&format!("{}: {detail}", error.category())),
        None => unreadable(&error.to_string()),
    })
}

fn unreadable(why: &str) -> Error {
    Error::Url(format!(
        "the broker's URL cannot be read: {why}; it is like redis://USER:PASSWORD@HOST:PORT/DB, and what is special in a \
         password is written like %2F"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_error_names_the_wrong_part_and_shows_no_secret() {
        for (url, word) in [
            ("redis://h/s3cret", "number of a database"),
            ("redis://h:99999/0", "no number from 1 to 65535"),
            ("redis://h:0", "no number from 1 to 65535"),
            ("redis://h:1,i:2/0", "redis+sentinel://"),
            ("rediss:///0", "names no host"),
            ("redis://me:s3/cret@h", "no number from 1"),
            ("redis://me:pass@0.0.0.0", "wildcard"),
            ("unix:///run/r.sock?db=s3cret", "Invalid database number"),
        ] {
            let said = Address::read(url).err().expect(url).to_string();
            assert!(said.contains(word) && !said.contains("s3") && !said.contains("; ;"), "{url}: {said}");
        }
        for url in ["redis://[::1]", "redis://u:p@h:1/0", "valkeys://h", "unix:///r?db=2&user=u&pass=p"] {
            assert!(Address::read(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn sentinels_have_their_own_password_and_tls() {
        let read = |url: &str| match Address::read(url).unwrap() {
            Address::Sentinel { own, asked_by_tls, .. } => {
                let own = own.redis_settings();
                let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
                (text(own.username()), text(own.password()), asked_by_tls)
            }
            Address::Direct(..) => panic!("{url}"),
        };
        assert_eq!(read("redis+sentinel://u:p@h/m/1"), (String::new(), String::new(), false));
        assert_eq!(
            read("redis+sentinel://h/m?sentinel_user=me&sentinel_pass=a%2Fb"),
            ("me".into(), "a/b".into(), false)
        );
        assert!(read("rediss+sentinel://h/m/0?sentinel_tls=yes").2);
        for url in ["redis+sentinel://h/m?sentinel_tls=yes", "rediss+sentinel://h/m?sentinel_tls=1"] {
            assert!(Address::read(url).is_err(), "{url}");
        }
    }

    #[test]
    fn sentinel_may_have_an_ipv6_address() {
        let asked = |url: &str| match Address::read(url) {
            Ok(Address::Sentinel { asked, .. }) => {
                asked.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            Ok(Address::Direct(..)) => panic!("{url}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            asked("redis+sentinel://[::1]:5,[fe80::1],::2,h:6,h/m"),
            "::1:5 fe80::1:26379 ::2:26379 h:6 h:26379"
        );
        for url in ["redis+sentinel://[::1/m", "redis+sentinel://[::1]x/m", "redis+sentinel://a:b:c/m"] {
            assert!(asked(url).contains("HOST:PORT"), "{url}: {}", asked(url));
        }
    }

    #[test]
    fn address_knows_which_parts_the_url_gives() {
        let given = |url: &str| Address::read(url).unwrap().given();
        assert!(given("redis://h").plain && !given("rediss://h").plain && !given("redis://h").user);
        assert!(given("redis://u:p@h").user && !given("redis://:p@h").user);
        let socket = given("unix:///r?user=u");
        assert!(socket.unix && socket.user && !socket.plain && !socket.ca && !socket.own);
        assert!(!given("rediss+sentinel://h/m").plain && given("redis+sentinel://u:p@h/m").user);
        assert!(given("redis+sentinel://h/m").sentinels && !given("redis://h").sentinels);
    }
}
