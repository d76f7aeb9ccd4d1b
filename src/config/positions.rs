//! Positions of the keys in the settings file, as the parser of YAML counts them.
//!
//! The parser says where it is only in its errors, each with the position of the value that was being read. So every key
//! is read by a visitor that fails: the error names the key's own line and column, and the parser goes on behind it.

use std::fmt::Display;

use serde::de::{
    DeserializeSeed, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, Deserializer};

/// A place in a text: line and column, from 1.
pub(super) type Place = (usize, usize);

/// The file as it was read, to point at errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name to show.
    pub name: String,
    /// The text of the file.
    pub text: String,
    keys: Keys,
}

/// The keys below a value: those of a map, or the entries of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Keys(Vec<Key>);

/// A key, or the number of an entry in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    name: String,
    /// Of an entry in a list it is the place of its first key.
    place: Option<Place>,
    below: Keys,
}

impl Source {
    /// The file of this name with this text.
    pub fn new(name: String, text: String) -> Source {
        let keys = read(&text).0;
        Source { name, text, keys }
    }

    /// `FILE:LINE:COLUMN` of a setting by its full name, such as `log.level`, of a pool or of the whole supervisor. If it
    /// is not set: that of its section, of the pool, or `FILE`.
    pub(super) fn of(&self, pool: Option<usize>, name: &str) -> String {
        let place = match pool {
            Some(index) => self.keys.pool(index).and_then(|pool| pool.below.find(name).or(pool.place)),
            None => self.keys.find(name),
        };
        match place {
            Some((line, column)) => format!("{}:{line}:{column}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Keys {
    fn pool(&self, index: usize) -> Option<&Key> {
        self.0.iter().find(|key| key.name == "pools")?.below.0.get(index)
    }

    /// The place of a setting, or of the innermost section that would hold it.
    fn find(&self, name: &str) -> Option<Place> {
        self.0.iter().find_map(|key| match rest_of(name, &key.name)? {
            "" => key.place,
            rest => key.below.find(rest).or(key.place),
        })
    }
}

/// The name below `key`, empty for the key itself; None if it is another's. A key may hold dots, as a class does.
pub(super) fn rest_of<'a>(name: &'a str, key: &str) -> Option<&'a str> {
    match name.strip_prefix(key)? {
        "" => Some(""),
        rest => rest.strip_prefix('.'),
    }
}

/// The place where a map first repeats a key of this name.
pub(super) fn repetition(text: &str, name: &str) -> Option<Place> {
    read(text).1.into_iter().find(|(key, _)| key == name).map(|(_, place)| place)
}

/// All keys of a text, and those that a map repeats. Of a text that is no YAML: the keys before the error.
fn read(text: &str) -> (Keys, Vec<(String, Place)>) {
    let mut repeated = Vec::new();
    let below = Below { repeated: &mut repeated };
    let keys = below.deserialize(serde_yaml::Deserializer::from_str(text)).unwrap_or_default();
    (keys, repeated)
}

/// Reads the keys below a value.
struct Below<'a> {
    repeated: &'a mut Vec<(String, Place)>,
}

impl<'de> DeserializeSeed<'de> for Below<'_> {
    type Value = Keys;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Keys, D::Error> {
        value.deserialize_any(self)
    }
}

/// Visits of values that have no keys below them.
macro_rules! without_keys {
    ($($visit:ident: $kind:ty),*) => {
        $(fn $visit<E: Error>(self, _: $kind) -> Result<Keys, E> {
            Ok(Keys::default())
        })*
    };
}

impl<'de> Visitor<'de> for Below<'_> {
    type Value = Keys;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    without_keys!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128);
    without_keys!(visit_f64: f64, visit_str: &str);

    fn visit_unit<E: Error>(self) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_none<E: Error>(self) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Keys, A::Error> {
        // A value with a tag (`!x y`) is an enum to this parser.
        tagged.variant::<IgnoredAny>()?.1.newtype_variant_seed(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Keys, A::Error> {
        let mut entries = Vec::new();
        while let Some(below) = list.next_element_seed(Below { repeated: self.repeated })? {
            let place = below.0.first().and_then(|key| key.place);
            entries.push(Key { name: entries.len().to_string(), place, below });
        }
        Ok(Keys(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
        let mut keys: Vec<Key> = Vec::new();
        loop {
            let mut name = None;
            let place = match map.next_key_seed(Name(&mut name)) {
                Ok(None) => return Ok(Keys(keys)),
                Ok(Some(())) => None,
                // The visitor was not reached: this is an error of the text, not the one that it makes for each key.
                Err(error) if name.is_none() => return Err(error),
                Err(error) => Some(place_in(&error)),
            };
            let name = name.unwrap_or_default();
            if let Some(place) = place.filter(|_| keys.iter().any(|key| key.name == name)) {
                self.repeated.push((name.clone(), place));
            }
            let below = map.next_value_seed(Below { repeated: self.repeated })?;
            keys.push(Key { name, place, below });
        }
    }
}

/// The position in an error of the parser, which says nothing of the first letter of the text.
fn place_in(error: &impl Display) -> Place {
    let said = error.to_string();
    let found = said.rsplit_once(" at line ").and_then(|(_, place)| place.split_once(" column "));
    found.and_then(|(line, column)| Some((line.parse().ok()?, column.parse().ok()?))).unwrap_or((1, 1))
}

/// Reads a key, and fails once it has it. A list or a map as a key is passed over.
struct Name<'a>(&'a mut Option<String>);

impl Name<'_> {
    fn fail<E: Error>(self, name: impl Display) -> Result<(), E> {
        *self.0 = Some(name.to_string());
        Err(E::custom(""))
    }
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<(), D::Error> {
        key.deserialize_any(self)
    }
}

/// Visits of keys.
macro_rules! keys {
    ($($visit:ident: $kind:ty),*) => {
        $(fn $visit<E: Error>(self, name: $kind) -> Result<(), E> {
            self.fail(name)
        })*
    };
}

impl<'de> Visitor<'de> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a name")
    }

    keys!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128, visit_f64: f64);
    keys!(visit_str: &str);

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.fail("null")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        tagged.variant::<IgnoredAny>()?.1.newtype_variant::<IgnoredAny>().map(drop)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        IgnoredAny::deserialize(serde::de::value::SeqAccessDeserializer::new(list)).map(drop)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        IgnoredAny::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, pool: Option<usize>, name: &str, expected: &str) {
        let source = Source::new("t.yaml".into(), text.into());
        assert_eq!(source.of(pool, name), expected, "{name}");
    }

    #[test]
    fn a_setting_of_a_pool_is_found_in_that_pool() {
        let text = "lease: 1m\npools:\n  - name: a\n    queues:\n      - x\n    mode: fork\n\n  # b\n  - name: b\n    mode: fork\nlog:\n";
        check(text, None, "lease", "t.yaml:1:1");
        check(text, Some(0), "mode", "t.yaml:6:5");
        check(text, Some(1), "mode", "t.yaml:10:5");
        check(text, Some(1), "name", "t.yaml:9:5");
        check(text, Some(1), "grace", "t.yaml:9:5");
        check(text, Some(2), "grace", "t.yaml");
    }

    #[test]
    fn key_is_not_taken_for_another_of_the_same_name() {
        let text = "pools:\n- env: {set: {user: bob}}\n  limits:\n    cpu: 1s # time: x\n    time: 5s\n  user: u\n  class_limits: {a.B: {time: 1s}, a: {\"time\": 2s}}\nlog: {rotate: {keep: 3}, keep: 1d}\n";
        check(text, Some(0), "user", "t.yaml:6:3");
        check(text, Some(0), "env.set.user", "t.yaml:2:15");
        check(text, Some(0), "limits.time", "t.yaml:5:5");
        check(text, Some(0), "limits.memory", "t.yaml:3:3");
        check(text, Some(0), "class_limits.a.B.time", "t.yaml:7:24");
        check(text, Some(0), "class_limits.a.time", "t.yaml:7:39");
        check(text, None, "log.keep", "t.yaml:8:26");
        check(text, None, "log.rotate.keep", "t.yaml:8:16");
    }

    #[test]
    fn flow_style_and_other_ways_to_write_keys_have_places() {
        check("pools:\n- {name: a, mode: fork}\n- {name: b}\n", Some(1), "mode", "t.yaml:3:4");
        check("pools: [{name: a}, {name: b}]\n", Some(1), "mode", "t.yaml:1:21");
        check("? lease\n: 1m\n\"é\": 1\n'run_dir' : x\n", None, "run_dir", "t.yaml:4:1");
        check("{é: 1, lease: 1m}", None, "lease", "t.yaml:1:8");
        check("a: &a {time: 1s}\nb: *a\n", None, "b.time", "t.yaml:1:8");
        check("[a, {b: c}]: d\n!tag x: 1\n1: !map {y: z}\nlease: 1m\n", None, "lease", "t.yaml:4:1");
    }

    #[test]
    fn repetition_is_the_second_key_in_its_own_map() {
        let text = "a: {x: 1}\nb:\n  x: 1\n  y: {x: 2}\n  x: 3\n";
        assert_eq!(repetition(text, "x"), Some((5, 3)));
        assert_eq!(repetition(text, "a"), None);
        assert_eq!(repetition("a: 1\na: 2\nb: [", "a"), Some((2, 1)));
    }
}
