//! Where a Redis is, as its URL says. The URL may hold a password: it is never shown.

use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, TlsMode};

use super::certificates::Certificates;
use crate::broker::Error;

/// One server, or the sentinels that know which one it is just now.
pub(super) enum Address {
    Direct(Box<ConnectionInfo>, Certificates),
    Sentinel {
        asked: Vec<ConnectionAddr>,
        master: String,
        redis: Box<ConnectionInfo>,
        /// To the primary; the sentinels themselves are asked without.
        tls: Option<Certificates>,
    },
}

const SENTINEL_PORT: u16 = 26379;

impl Address {
    /// Reads `redis://`, `rediss://`, `unix://` and `redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB`.
    pub(super) fn read(url: &str) -> Result<Address, Error> {
        let (url, certificates) = Certificates::split(url)?;
        match url.split_once("+sentinel://") {
            Some(("rediss", rest)) => Address::read_sentinel(rest, Some(certificates)),
            Some((_, rest)) => Address::read_sentinel(rest, None),
            None => Ok(Address::Direct(Box::new(info(&url)?), certificates)),
        }
    }

    fn read_sentinel(rest: &str, tls: Option<Certificates>) -> Result<Address, Error> {
        let wrong =
            || Error::Refused("a URL of sentinels is redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB".into());
        let (place, path) = rest.split_once('/').ok_or_else(wrong)?;
        let (user, hosts) = place.rsplit_once('@').unwrap_or(("", place));
        let (master, db) = path.split_once('/').unwrap_or((path, "0"));
        if master.is_empty() || hosts.is_empty() {
            return Err(wrong());
        }
        let at = if user.is_empty() { "" } else { "@" };
        let redis = Box::new(info(&format!("redis://{user}{at}sentinel/{db}"))?);
        let read = |host: &str| {
            let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
            let port = if port.is_empty() { Ok(SENTINEL_PORT) } else { port.parse().map_err(|_| wrong()) };
            Ok(ConnectionAddr::Tcp(name.into(), port?))
        };
        let asked = hosts.split(',').map(read).collect::<Result<_, Error>>()?;
        Ok(Address::Sentinel { asked, master: master.into(), redis, tls })
    }

    /// The server of this moment.
    pub(super) async fn client(&self) -> RedisResult<Client> {
        let (asked, master, redis, tls) = match self {
            Address::Direct(info, certificates) => {
                let info = (**info).clone().set_tcp_settings(settings());
                return match certificates.load()? {
                    Some(loaded) => Client::build_with_tls(info, loaded),
                    None => Client::open(info),
                };
            }
            Address::Sentinel { asked, master, redis, tls } => (asked, master, redis.redis_settings(), tls),
        };
        let mut builder = SentinelClientBuilder::new(asked.clone(), master, SentinelServerType::Master)?
            .set_client_to_redis_db(redis.db())
            .set_client_to_redis_tcp_settings(settings());
        if let Some(certificates) = tls {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
            if let Some(loaded) = certificates.load()? {
                builder = builder.set_client_to_redis_certificates(loaded);
            }
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

/// Small requests are sent at once: the answer to each is waited for.
fn settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn info(url: &str) -> Result<ConnectionInfo, Error> {
    url.into_connection_info().map_err(|error| {
        let why = error.detail().unwrap_or_default();
        Error::Refused(format!(
            "the broker's URL cannot be read: {}: {why}; it is like redis://USER:PASSWORD@HOST:PORT/DB, \
             and what is special in a password is written like %2F",
            error.category()
        ))
    })
}
