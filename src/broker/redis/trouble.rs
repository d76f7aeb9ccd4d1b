//! What a Redis refuses or fails at, in words that say who must act.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::broker::Error;

/// What `verb` (e.g. `put jobs into`) met at the server called `name`.
pub(super) fn explain(verb: &str, name: &str, error: &RedisError) -> Error {
    let said = said(error);
    let hint = match (error.kind(), error.code().unwrap_or_default()) {
        (ErrorKind::AuthenticationFailed, _) | (_, "NOAUTH" | "WRONGPASS") => {
            "give the name and the password in the URL: redis://USER:PASSWORD@HOST"
        }
        (ErrorKind::Server(ServerErrorKind::BusyLoading), _) => {
            "it is reading its data; it will be there soon"
        }
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => {
            "it is a replica; give the primary's address, or redis+sentinel:// to follow it"
        }
        (ErrorKind::Server(ServerErrorKind::MasterDown), _) => "it is a replica that has lost its primary",
        (ErrorKind::Server(ServerErrorKind::NoPerm), _) => {
            "the user's ACL must allow EVALSHA, SCRIPT LOAD, TIME, PUBLISH, SUBSCRIBE, PSUBSCRIBE, what the script calls, \
             the keys ql:* and all channels, for patterns; INFO helps (like ~ql:* &* +@all -@dangerous +info)"
        }
        // Older and newer servers say it in their own words.
        (_, "ERR")
            if said.contains("The user executing the script can't")
                || said.contains("ACL failure in script") =>
        {
            "the user's ACL must allow what the script calls and the keys ql:*; ACL LOG names what it lacked"
        }
        (ErrorKind::MasterNameNotFoundBySentinel, _) => {
            "the sentinels watch no primary of that name: redis+sentinel://HOST:PORT/MASTER/DB"
        }
        (ErrorKind::Parse, _) => "what answers there is no Redis; check host and port",
        (_, "BUSY") => "another client's script keeps it; SCRIPT KILL ends that one",
        (_, "OOM") => {
            "it is at its maxmemory; give it more, or let it forget ended jobs (option keep_complete)"
        }
        (_, "WRONGTYPE") => {
            "another program has put something of another kind under one of the keys ql:*; `redis-cli --scan --pattern \
             'ql:*'` and TYPE find it"
        }
        (_, "MISCONF") => "it cannot write its snapshot; see its log and its disk",
        _ if said.contains("invalid peer certificate") || said.contains("UnknownIssuer") => {
            "the server's certificate is not believed here; name the file of its CA in the URL: rediss://HOST:PORT/DB?ca=FILE"
        }
        _ if error.is_connection_refusal() => "is it running there?",
        _ if error.is_timeout() => "it, or what is between, does not answer",
        _ if error.is_io_error() => "the connection will be made again",
        _ => "see what that means at redis.io",
    };
    Error::Failed(format!("cannot {verb} {name}: {said}: {hint}"))
}

/// The server's own words, or the system's.
fn said(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (None, Some(detail)) if !error.is_io_error() => format!("{}: {detail}", error.category()),
        _ => error.to_string(),
    }
}
