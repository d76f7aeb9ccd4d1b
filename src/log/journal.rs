//! Entries with fields in systemd's journal, by its native protocol: one datagram each.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::own::OwnLog;
use super::rank::Rank;
use super::value::cut;

/// The socket of systemd's journal.
pub(crate) const JOURNAL: &str = "/run/systemd/journal/socket";

/// Whether stderr leads to the journal, as systemd's `$JOURNAL_STREAM` says: device and inode.
pub(super) fn is_stderr(stream: &str, device: u64, inode: u64) -> bool {
    stream.split_once(':').is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

/// Turns log events into entries.
pub(super) struct Entries(pub OwnLog);

impl<S: Subscriber> Layer<S> for Entries {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let rank = Rank::of(event.metadata());
        self.0.add(rank, entry(*event.metadata().level(), event.metadata().target(), fields));
    }
}

/// The message, and the other fields in their order.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // An entry has to fit into a datagram, of about 208 KiB.
        let value = cut(field.name(), value).into_owned();
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }
}

/// `journalctl` shows only the message: so the fields are also in it.
fn entry(level: Level, target: &str, fields: Fields) -> Vec<u8> {
    let mut message = fields.message;
    for (name, value) in &fields.others {
        let _ = write!(message, " {name}={value}");
    }
    let mut entry = Vec::with_capacity(256);
    add(&mut entry, "MESSAGE", &message);
    add(&mut entry, "PRIORITY", priority(level));
    add(&mut entry, "SYSLOG_IDENTIFIER", "taskvisor");
    add(&mut entry, "TASKVISOR_ROOM", room(target));
    for (name, value) in &fields.others {
        add(&mut entry, &format!("TASKVISOR_{}", name.to_ascii_uppercase()), value);
    }
    entry
}

/// The room that logs: `engine` for the target `taskvisor_engine::outside`, `cli` for `taskvisor::cli`.
fn room(target: &str) -> &str {
    let mut parts = target.split("::");
    let first = parts.next().unwrap_or(target);
    first.strip_prefix("taskvisor_").or(parts.next()).unwrap_or(first)
}

/// The priority as syslog numbers it.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

/// A value of several lines has its length before it.
fn add(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::net::UnixDatagram;

    use super::super::journal_socket::Journal;
    use super::*;

    fn fields(message: &str, others: &[(&'static str, &str)]) -> Fields {
        let others = others.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Fields { message: message.into(), others }
    }

    #[test]
    fn journal_entry_has_its_fields_also_in_the_message() {
        let entry =
            entry(Level::WARN, "taskvisor_engine::outside", fields("lost", &[("job", "01a"), ("why", "x")]));
        assert_eq!(
            String::from_utf8(entry).unwrap(),
            "MESSAGE=lost job=01a why=x\nPRIORITY=4\nSYSLOG_IDENTIFIER=taskvisor\nTASKVISOR_ROOM=engine\nTASKVISOR_JOB=01a\nTASKVISOR_WHY=x\n"
        );
    }

    #[test]
    fn multi_line_value_cannot_forge_another_field() {
        let mut entry = Vec::new();
        add(&mut entry, "MESSAGE", "a\nPRIORITY=0");
        assert_eq!(entry, b"MESSAGE\n\x0c\0\0\0\0\0\0\0a\nPRIORITY=0\n");
    }

    #[test]
    fn missing_journal_is_an_error_until_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journal = Journal::new(&path).unwrap();
        let mut entry = &b"MESSAGE=a\n"[..];
        assert_eq!(journal.send(&mut entry).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listens = UnixDatagram::bind(&path).unwrap();
        journal.send(&mut entry).unwrap();
        let mut buffer = [0; 100];
        assert_eq!(listens.recv(&mut buffer).unwrap(), 10);
    }

    #[test]
    fn journal_stream_variable_decides_whether_stderr_is_the_journal() {
        assert!(is_stderr("8:123", 8, 123));
        for stream in ["", "8", "8:124", "9:123", "8:x"] {
            assert!(!is_stderr(stream, 8, 123), "{stream}");
        }
    }
}
