//! The published API: fields that clients rely on stay. `docs/openapi.json` is what is served; `support/published.txt`
//! is what was ever published, one line for each field, and only grows.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use serde_json::{Map, Value};

const KEPT: &str = "tests/support/published.txt";

/// The type of a schema, in short.
fn kind(schema: &Value) -> String {
    let Some(fields) = schema.as_object() else { return "anything".into() };
    let name =
        |value: &Value| value.as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
    if let Some(target) = fields.get("$ref") {
        return name(target);
    }
    if let Some(options) = fields.get("anyOf").or(fields.get("oneOf")).and_then(Value::as_array) {
        let mut kinds: Vec<String> = options.iter().map(kind).collect();
        kinds.sort();
        kinds.dedup();
        return kinds.join("|");
    }
    if let Some(word) = fields.get("const") {
        return word.to_string();
    }
    if let Some(words) = fields.get("enum").and_then(Value::as_array) {
        return words.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
    }
    let types = match fields.get("type") {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(several)) => several.iter().map(name).collect(),
        Some(_) | None => vec!["anything".into()],
    };
    let of = |inner: &str| fields.get(inner).filter(|inner| inner.is_object()).map(kind);
    let named = |one: String| match one.as_str() {
        "array" => format!("array of {}", of("items").unwrap_or_else(|| "anything".into())),
        "object" if of("additionalProperties").is_some() => {
            format!("map of {}", of("additionalProperties").unwrap_or_default())
        }
        _ => one,
    };
    types.into_iter().map(named).collect::<Vec<_>>().join("|")
}

/// A line for each field of an object.
fn fields(place: &str, schema: &Value, lines: &mut BTreeSet<String>) {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, of) in properties {
        let must = if required.iter().any(|required| required == name) { ", required" } else { "" };
        lines.insert(format!("{place}.{name}: {}{must}", kind(of)));
        if of.get("properties").is_some() {
            fields(&format!("{place}.{name}"), of, lines);
        }
    }
    for choice in ["oneOf", "anyOf"] {
        for one in schema[choice].as_array().into_iter().flatten() {
            fields(place, one, lines);
        }
    }
    if properties.is_empty() {
        lines.insert(format!("{place}: {}", kind(schema)));
    }
}

/// One line for each field that the description promises.
fn promises() -> BTreeSet<String> {
    let described: Value = serde_json::from_str(&api::openapi()).expect("JSON");
    let mut lines = BTreeSet::new();
    for (name, schema) in described["components"]["schemas"].as_object().expect("schemas") {
        fields(name, schema, &mut lines);
    }
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let route = format!("{} {path}", method.to_uppercase());
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let must = if parameter["required"] == true { ", required" } else { "" };
                let name = parameter["name"].as_str().expect("a name");
                lines.insert(format!("{route} ?{name}: {}{must}", kind(&parameter["schema"])));
            }
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            if body.is_object() {
                fields(&format!("{route} body"), body, &mut lines);
            }
            for (media, content) in operation["responses"]["200"]["content"].as_object().into_iter().flatten()
            {
                lines.insert(format!("{route} answers {media}: {}", kind(&content["schema"])));
            }
        }
    }
    lines
}

#[test]
fn published_api_fields_keep_their_names_and_types() {
    let served = promises();
    let mut kept: BTreeSet<String> =
        fs::read_to_string(KEPT).unwrap_or_default().lines().map(str::to_owned).collect();
    if std::env::var_os("RENEW").is_some() {
        // RENEW never removes a published field.
        kept.extend(served.iter().cloned());
        let text: String = kept.iter().map(|line| format!("{line}\n")).collect();
        fs::write(KEPT, text).expect("written");
    }
    let mut wrong = String::new();
    for line in kept.difference(&served) {
        let place = line.split(": ").next().unwrap_or_default();
        let now = served.iter().find(|other| other.split(": ").next() == Some(place));
        let _ = match now {
            Some(now) => writeln!(wrong, "  was `{line}`\n  is  `{now}`"),
            None => writeln!(wrong, "  was `{line}`\n  is gone"),
        };
    }
    assert!(
        wrong.is_empty(),
        "clients rely on what the API published, and this would break them:\n{wrong}Give the field the name and the type it \
         had (#[serde(rename)], a default), and add what is new beside it under a name of its own. Only if no release had \
         it yet: take the line out of {KEPT} by hand."
    );
    let unknown: Vec<&String> = served.difference(&kept).collect();
    assert!(
        unknown.is_empty(),
        "new in the API; read the names aloud, they stay for good, then run RENEW=1 cargo nextest run --test published: {unknown:#?}"
    );
}

/// Each other schema breaks a promise of the first.
#[test]
fn removed_or_retyped_api_field_is_detected() {
    let schema = |text: &str| {
        let mut lines = BTreeSet::new();
        fields("Job", &serde_json::from_str(text).expect("JSON"), &mut lines);
        lines.into_iter().collect::<Vec<_>>()
    };
    let before = schema(
        r#"{"type":"object","properties":{"delay":{"type":"number"},"id":{"type":"string"}},"required":["id"]}"#,
    );
    assert_eq!(before, ["Job.delay: number", "Job.id: string, required"]);
    for other in [
        r#"{"type":"object","properties":{"delay":{"type":"object"},"id":{"type":"string"}},"required":["id"]}"#,
        r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}"#,
        r#"{"type":"object","properties":{"delay":{"type":"number"},"id":{"type":"string"}}}"#,
    ] {
        assert!(before.iter().any(|line| !schema(other).contains(line)), "{other}");
    }
    let list =
        schema(r##"{"type":"object","properties":{"jobs":{"type":"array","items":{"$ref":"#/x/NewJob"}}}}"##);
    assert_eq!(list, ["Job.jobs: array of NewJob"]);
}
