//! Explains errors of a Redis in words that say who must act.

use redis::{
    Client, ErrorKind, RedisConnectionInfo, RedisError, ServerErrorKind, Value, make_extension_error,
};

use super::address::Given;

/// Why a request failed, and what to do about it. `given` says which parts the URL has, `name` is the URL, `keys` is the
/// pattern of the keys in use.
pub(super) fn cause(error: &RedisError, given: &Given, name: &str, keys: &str) -> String {
    // Our script has explained it.
    if let (Some("TASKVISOR"), Some(why)) = (error.code(), error.detail()) {
        return why.into();
    }
    let said = said(error);
    let hint = with_schemes_of(name, hint(error, &said, given)).replace("KEYS", keys);
    format!("{said}: {hint}")
}

/// A hint with the schemes of the broker of this URL: without its `rq+` a URL would be that of another broker.
fn with_schemes_of(name: &str, hint: &str) -> String {
    let scheme = name.split("://").next().unwrap_or_default();
    let kind = match scheme.split_once('+') {
        Some((kind, _)) if kind != "redis" && kind != "valkey" => kind,
        Some(_) | None => return hint.into(),
    };
    ["redis://", "rediss://", "unix://", "redis+sentinel://"]
        .into_iter()
        .fold(hint.into(), |hint: String, scheme| hint.replace(scheme, &format!("{kind}+{scheme}")))
}

fn hint(error: &RedisError, said: &str, given: &Given) -> &'static str {
    if let Some(hint) = of_password(error, said, given).or_else(|| of_tls(said, given)) {
        return hint;
    }
    match (error.kind(), error.code().unwrap_or_default()) {
        (ErrorKind::Server(ServerErrorKind::BusyLoading), _) => {
            "it is reading its data; it will be there soon"
        }
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => {
            "it is a replica; give the primary's address, or redis+sentinel:// to follow it"
        }
        (ErrorKind::Server(ServerErrorKind::MasterDown), _) => "it is a replica that has lost its primary",
        (_, "ERR") if said.contains("DB index is out of range") => {
            "it has no database of that number: they begin with 0, and its setting 'databases' says how many there are \
             (16 unless it is set)"
        }
        // Before NOPERM in general, whose hint names much more than is missing.
        _ if said.contains("'select' command") => {
            "the user's ACL must allow SELECT, as the URL names a database other than 0"
        }
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => {
            "the user's ACL must allow EVALSHA, SCRIPT LOAD, TIME, PUBLISH, SUBSCRIBE, PSUBSCRIBE, what the script calls, \
             SELECT unless the database is 0, the keys KEYS and all channels, for patterns; INFO helps (like \
             ~KEYS &* +@all -@dangerous +info)"
        }
        // Older and newer servers use different words.
        (_, "ERR")
            if said.contains("The user executing the script can't")
                || said.contains("ACL failure in script") =>
        {
            "the user's ACL must allow what the script calls and the keys KEYS; ACL LOG names what it lacked"
        }
        (ErrorKind::MasterNameNotFoundBySentinel, _) => {
            "the sentinels watch no primary of that name: redis+sentinel://HOST:PORT/MASTER/DB"
        }
        (ErrorKind::Parse, _) => "what answers there is no Redis; check host and port",
        (_, "BUSY") => "another client's script keeps it; SCRIPT KILL ends that one",
        (_, "OOM") => {
            "it is at its maxmemory; give it more, or remove what has ended: taskvisor job discard --complete"
        }
        (_, "WRONGTYPE") => {
            "another program has put something of another kind under one of the keys KEYS; `redis-cli --scan --pattern \
             'KEYS'` and TYPE find it"
        }
        (_, "MISCONF") => "it cannot write its snapshot; see its log and its disk",
        _ if said.contains("failed to lookup address") => {
            "no host of that name is known here; is it spelled right?"
        }
        _ if error.is_connection_refusal() => "is it running there?",
        _ if error.is_timeout() && given.tls => {
            "it, or what is between, does not answer; if that is always so, it may have no TLS there (redis:// is without)"
        }
        _ if error.is_timeout() => "it, or what is between, does not answer",
        _ if error.is_io_error() && given.plain => {
            "the connection was ended; if that is always so, it may want TLS (rediss://), or allow no host but its own"
        }
        _ if error.is_io_error() => "the connection was ended; its log may say why",
        _ => "see what that means at redis.io",
    }
}

/// What is wrong with the user and the password, or that they are missing.
fn of_password(error: &RedisError, said: &str, given: &Given) -> Option<&'static str> {
    if said.contains("without any password configured") {
        return Some("it wants no password: leave it out of the URL, or set one there (requirepass)");
    }
    match (error.kind(), error.code().unwrap_or_default()) {
        // The error does not say which of them has refused.
        (ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS" | "NOAUTH") if given.sentinels => Some(
            "a sentinel or its server refuses the password, or wants one: that of the server stands before the hosts, \
             USER:PASSWORD@HOST, that of the sentinels behind them, ?sentinel_user=USER&sentinel_pass=PASSWORD; what is \
             special in one is written like %2F",
        ),
        (ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS") => Some(match (given.user, given.unix) {
            (true, _) => {
                "it knows no such user with that password; what is special in either is written like %2F"
            }
            (false, false) => {
                "that is not the password of its user 'default'; for another user it is redis://USER:PASSWORD@HOST, and \
                 what is special in a password is written like %2F"
            }
            (false, true) => {
                "that is not the password of its user 'default'; for another user it is unix:///PATH?user=USER&pass=PASSWORD, \
                 and what is special in a password is written like %2F"
            }
        }),
        (_, "NOAUTH") => Some(match given.unix {
            true => {
                "it wants a password: give it in the URL, as unix:///PATH?pass=PASSWORD, with &user=USER for a user's"
            }
            false => {
                "it wants a password: give it in the URL, as redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST"
            }
        }),
        _ => None,
    }
}

/// What is wrong with a certificate, the server's or ours, or that there is no TLS at all.
fn of_tls(said: &str, given: &Given) -> Option<&'static str> {
    let says = |word: &str| said.contains(word);
    if says("received fatal alert") || says("AlertReceived") {
        return Some(match given.own {
            false => {
                "it asks for a certificate of ours: name that and its key in the URL: &cert=FILE&key=FILE"
            }
            true => {
                "it does not take our certificate (cert= in the URL): one is needed that has not expired and that a CA \
                 has signed which it believes (its tls-ca-cert-file)"
            }
        });
    }
    if says("corrupt message") || says("InvalidContentType") {
        return Some("what answers there speaks no TLS: redis:// is without; else give the port that has it");
    }
    if !says("invalid peer certificate") && !says("UnknownIssuer") {
        return None;
    }
    Some(if says("not valid for name") || says("NotValidForName") {
        "the server's certificate is not for the host as the URL calls it: call it as the certificate does, or have one \
         made for that name (subjectAltName)"
    } else if says("expired") || says("Expired") || says("not valid yet") || says("NotValidYet") {
        "the server needs a new certificate, or the clock of this host is wrong"
    } else if given.ca {
        "the server's certificate is not signed by a CA in the file that the URL names (ca=): is it that server's CA?"
    } else {
        "the server's certificate is not believed here; name the file of its CA in the URL: rediss://HOST:PORT/DB?ca=FILE"
    })
}

/// Whether the connection is of no more use: it broke, was silent for too long, or leads to a server that is not the
/// primary any more.
pub(super) fn is_over(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_timeout()
        || error.is_unrecoverable_error()
        || matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

/// The error for one job of a batch; the script supplies the message.
pub(super) fn spoken(words: &str) -> RedisError {
    let (code, detail) = words.split_once(' ').unwrap_or((words, ""));
    make_extension_error(code.into(), Some(detail.into()))
}

/// The text of the server, or of the system.
fn said(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (None, Some(detail)) if !error.is_io_error() => format!("{}: {detail}", error.category()),
        _ => error.to_string(),
    }
}

/// The server's own text when it refuses our user and password: the library only keeps that it did.
pub(super) async fn refusal(client: &Client) -> Option<RedisError> {
    let info = client.get_connection_info();
    let given = info.redis_settings();
    let mut auth = redis::cmd("AUTH");
    auth.arg(given.username()).arg(given.password()?);
    // Without user and password, or it would fail while it connects, as before.
    let nobody = info.clone().set_redis_settings(RedisConnectionInfo::default());
    let mut conn = Client::open(nobody).ok()?.get_multiplexed_async_connection().await.ok()?;
    auth.query_async::<Value>(&mut conn).await.err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    #[test]
    fn hint_about_a_password_names_those_of_sentinels_where_there_are_some() {
        let hint = |url: &str| {
            let refused =
                RedisError::from((ErrorKind::AuthenticationFailed, "Password authentication failed"));
            cause(&refused, &Address::read(url).unwrap().given(), url, "*")
        };
        assert!(hint("redis+sentinel://:p@h/m").contains("?sentinel_user=USER&sentinel_pass=PASSWORD"));
        assert!(!hint("redis://:p@h").contains("sentinel"));
    }

    #[test]
    fn hint_names_the_schemes_of_its_broker() {
        let hint = "as redis://:P@H, rediss://H or redis+sentinel://H";
        assert_eq!(with_schemes_of("redis+sentinel://h/m", hint), hint);
        assert_eq!(with_schemes_of("valkeys://h", hint), hint);
        let of_rq = "as rq+redis://:P@H, rq+rediss://H or rq+redis+sentinel://H";
        assert_eq!(with_schemes_of("rq+redis://h", hint), of_rq);
    }
}
