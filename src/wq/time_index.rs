//! The time of an entity, which QuantumLeap gives each one before it queues it: its attribute `time_index`.

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

/// The name of the attribute.
pub(super) const TIME_INDEX: &str = "time_index";

/// Members of an entity that are no attributes.
const NO_ATTRIBUTES: [&str; 3] = ["type", "id", "@context"];

/// A point in time as it was written: with an offset from UTC, or without one.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: DateTime,
    offset: Option<Offset>,
}

/// The time of an entity in ISO 8601. The first that can be read of: the attribute that a request names by its header,
/// `TimeInstant`, `timestamp`, `observedAt`, `modifiedAt`, `dateModified`, each also as metadata of the other attributes
/// (the latest one); else `now`.
pub(super) fn time_index(entity: &Map<String, Value>, named: Option<&str>, now: Timestamp) -> String {
    let of = |name: &str| attribute(entity, name).or_else(|| latest(entity, |attr| metadata(attr, name)));
    let beside = |name: &str| latest(entity, |attr| attr.get(name));
    let itself = |name: &str| entity.get(name).and_then(moment);
    named
        .and_then(of)
        .or_else(|| of("TimeInstant"))
        .or_else(|| of("timestamp"))
        .or_else(|| beside("observedAt"))
        .or_else(|| beside("modifiedAt"))
        .or_else(|| itself("observedAt"))
        .or_else(|| itself("modifiedAt"))
        .or_else(|| of("dateModified"))
        .unwrap_or_else(|| Moment { at: Offset::UTC.to_datetime(now), offset: Some(Offset::UTC) })
        .text()
}

/// The time in the value of an attribute.
fn attribute(entity: &Map<String, Value>, name: &str) -> Option<Moment> {
    moment(entity.get(name)?.get("value")?)
}

/// The value of an attribute's metadata.
fn metadata<'a>(attribute: &'a Value, name: &str) -> Option<&'a Value> {
    attribute.get("metadata")?.get(name)?.get("value")
}

/// The latest of the times that attributes have in one place. One without an offset is taken for UTC.
fn latest<'a>(
    entity: &'a Map<String, Value>,
    place: impl Fn(&'a Value) -> Option<&'a Value>,
) -> Option<Moment> {
    let attributes = entity.iter().filter(|(name, _)| !NO_ATTRIBUTES.contains(&name.as_str()));
    attributes.filter_map(|(_, attribute)| moment(place(attribute)?)).max_by_key(|moment| moment.in_utc())
}

/// A time as text, or in a typed value of JSON-LD.
fn moment(value: &Value) -> Option<Moment> {
    let text = value.as_str().or_else(|| value.get("@value")?.as_str())?;
    let pieces = DateTimeParser::new().parse_pieces(text.trim()).ok()?;
    // A date alone is its midnight.
    let time = pieces.time().unwrap_or(Time::midnight());
    Some(Moment { at: pieces.date().to_datetime(time), offset: pieces.to_numeric_offset() })
}

impl Moment {
    fn in_utc(self) -> DateTime {
        let ahead = self
            .offset
            .map_or(SignedDuration::ZERO, |offset| SignedDuration::from_secs(offset.seconds().into()));
        self.at.saturating_sub(ahead)
    }

    /// As Python's `isoformat` writes it: microseconds only if there are any.
    fn text(self) -> String {
        let micros = self.at.subsec_nanosecond() / 1000;
        let mut text = self.at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        if micros != 0 {
            text.push_str(&format!(".{micros:06}"));
        }
        if let Some(offset) = self.offset {
            let (sign, minutes) = (if offset.is_negative() { '-' } else { '+' }, offset.seconds().abs() / 60);
            text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(named: Option<&str>, entity: &Value) -> String {
        time_index(entity.as_object().unwrap(), named, Timestamp::from_millisecond(1_500).unwrap())
    }

    #[test]
    fn time_index_is_the_first_readable_time_in_the_order_of_quantumleap() {
        let day = |n: u32| format!("2019-01-{n:02}T00:00:00");
        let metadata = |n: u32| {
            json!({ "metadata": {
                "mine": { "value": day(n) }, "TimeInstant": { "value": day(n + 1) },
                "timestamp": { "value": day(n + 2) }, "dateModified": { "value": day(n + 5) },
            }, "observedAt": day(n + 3), "modifiedAt": { "@value": day(n + 4) } })
        };
        let mut entity = json!({
            "id": "r", "type": "Room", "mine": { "value": day(1) }, "TimeInstant": { "value": day(2) },
            "timestamp": { "value": day(3) }, "dateModified": { "value": day(6) }, "observedAt": day(4),
            "modifiedAt": day(5), "a": metadata(10), "b": metadata(20),
        });
        // What is left when those before it are gone, one after the other.
        let steps: [(&str, &str, u32); 12] = [
            ("mine", "", 1),
            ("a b", "mine", 20),
            ("TimeInstant", "", 2),
            ("a b", "TimeInstant", 21),
            ("timestamp", "", 3),
            ("a b", "timestamp", 22),
            ("a b", "observedAt", 23),
            ("a b", "modifiedAt", 24),
            ("observedAt", "", 4),
            ("modifiedAt", "", 5),
            ("dateModified", "", 6),
            ("a b", "dateModified", 25),
        ];
        for (attributes, below, expected) in steps {
            assert_eq!(of(Some("mine"), &entity), day(expected), "{attributes} {below}");
            for name in attributes.split(' ') {
                let entity = entity.as_object_mut().unwrap();
                if below.is_empty() {
                    entity.remove(name);
                    continue;
                }
                let attribute = entity.get_mut(name).unwrap().as_object_mut().unwrap();
                attribute.remove(below);
                attribute["metadata"].as_object_mut().unwrap().remove(below);
            }
        }
        assert_eq!(of(Some("mine"), &entity), "1970-01-01T00:00:01.500000+00:00");
    }

    #[test]
    fn time_index_keeps_the_offset_and_passes_over_what_is_no_time() {
        let written = |text: Value| of(None, &json!({ "TimeInstant": { "value": text } }));
        for (text, expected) in [
            ("2024-02-29T12:30:00Z", "2024-02-29T12:30:00+00:00"),
            ("2024-02-29T12:30:00.120+02:00", "2024-02-29T12:30:00.120000+02:00"),
            ("2024-02-29T12:30:00-03:30", "2024-02-29T12:30:00-03:30"),
            ("2024-02-29", "2024-02-29T00:00:00"),
            (" 2024-02-29 12:30 ", "2024-02-29T12:30:00"),
        ] {
            assert_eq!(written(text.into()), expected, "{text}");
        }
        for none in [json!("soon"), json!(""), json!(7), json!(null), json!({ "@value": 1 }), json!([])] {
            assert_eq!(written(none.clone()), "1970-01-01T00:00:01.500000+00:00", "{none}");
        }
        let entity = json!({
            "a": { "metadata": { "timestamp": { "value": "2024-01-01T10:00:00+02:00" } } },
            "b": { "metadata": { "timestamp": { "value": "2024-01-01T09:00:00" } } },
        });
        assert_eq!(of(None, &entity), "2024-01-01T09:00:00");
    }
}
