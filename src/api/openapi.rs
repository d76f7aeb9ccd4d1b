//! Describes the API as OpenAPI 3.1, from the types that it serves.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::body::Refusal;
use super::describe::Describe;
use super::lists::{LINES, LOOKED, NEXT};
use model::verb::{Route, VerbRequest};
use model::{Filter, JobRecord};

/// The description so far.
pub(super) struct Document {
    generator: SchemaGenerator,
    paths: Map<String, Value>,
}

/// An answer that is not JSON.
pub(super) struct Text;

impl JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

impl Document {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            // OpenAPI 3.1 implies this draft.
            settings.meta_schema = None;
        });
        Document { generator: settings.into_generator(), paths: Map::new() }
    }

    fn describe_stream(&mut self, route: &Route, takes: &Value, each: Value, others: &[&str]) {
        let mut content = json!({ LINES: { "schema": each } });
        for other in others {
            content[*other] = json!({ "schema": { "type": "string" } });
        }
        self.describe(route, takes, json!({ "description": "As it happens.", "content": content }));
    }

    // Takes the schemas and not their types: there are a hundred of those.
    fn describe(&mut self, route: &Route, takes: &Value, answer: Value) {
        let (parameters, body) = divided(route, takes);
        let mut operation = json!({
            "operationId": name(route),
            "summary": route.does,
            "responses": { "200": answer, "default": self.refusal() },
        });
        // These are of QuantumLeap, which answers without a body.
        if route.method == "DELETE" {
            operation["responses"] = json!({ "204": { "description": "Done." }, "default": self.refusal() });
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = body {
            // A choice has no field that is always there, but one must be made.
            let is_required = ["required", "oneOf"].iter().any(|name| body.get(name).is_some());
            operation["requestBody"] =
                json!({ "required": is_required, "content": { "application/json": { "schema": body } } });
        }
        let path = self.paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation;
    }

    fn answer(&mut self, route: &Route, kind: &str, schema: Value) -> Value {
        let mut content = json!({ kind: { "schema": schema } });
        if *route == Filter::ROUTE {
            content[LINES] = json!({ "schema": self.generator.subschema_for::<JobRecord>() });
        }
        let mut answer = json!({ "description": "Done.", "content": content });
        if *route == Filter::ROUTE {
            answer["headers"] = json!({
                NEXT: { "description": "Of a search that was cut: the job after which it goes on.", "schema": { "type": "string" } },
                LOOKED: { "description": "Of such a search: the number of jobs it looked at.", "schema": { "type": "integer" } },
            });
        }
        answer
    }

    fn refusal(&mut self) -> Value {
        let schema = self.generator.subschema_for::<Refusal>();
        json!({ "description": "Not done, and why.", "content": { "application/json": { "schema": schema } } })
    }

    /// The whole description as JSON, indented.
    pub(super) fn text(mut self) -> String {
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "taskvisor",
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "MIT", "identifier": "MIT" },
                "description": "By the supervisor's socket, and by TCP with a token. docs/api.md tells the rest.",
            },
            "servers": [{ "url": "http://localhost" }],
            // By the socket there is no token.
            "security": [{}, { "token": [] }],
            "paths": self.paths,
            "components": {
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
                "schemas": self.generator.take_definitions(true),
            },
        });
        leave_examples_out(&mut document);
        format!("{document:#}\n")
    }
}

impl Describe for Document {
    fn add<B: JsonSchema, A: JsonSchema>(&mut self, route: &Route) {
        let kind = if A::schema_name() == Text::schema_name() { "text/plain" } else { "application/json" };
        let each = self.generator.subschema_for::<A>();
        let answer = self.answer(route, kind, each.to_value());
        let takes = B::json_schema(&mut self.generator);
        self.describe(route, &takes.to_value(), answer);
    }

    fn add_stream<B: JsonSchema, A: JsonSchema>(&mut self, route: &Route, others: &[&str]) {
        let each = self.generator.subschema_for::<A>();
        let takes = B::json_schema(&mut self.generator);
        self.describe_stream(route, &takes.to_value(), each.to_value(), others);
    }

    fn add_headers(&mut self, route: &Route, headers: &[&str]) {
        let operation = &mut self.paths[route.path][route.method.to_lowercase()];
        let text = json!({ "type": "string" });
        let header = |name| json!({ "name": name, "in": "header", "required": false, "schema": text });
        let mut parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        parameters.extend(headers.iter().map(header));
        operation["parameters"] = parameters.into();
    }
}

/// Cuts the examples in Rust off the descriptions: they are for those who read the source.
fn leave_examples_out(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(leave_examples_out),
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description")
                && let Some(at) = text.find("\n\n```")
            {
                text.truncate(at);
            }
            fields.values_mut().for_each(leave_examples_out);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The operation id for clients: `GET /v1/jobs/{job}/wait` is `get_jobs_job_wait`.
fn name(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words = words.skip_while(|word| *word == "v1");
    [route.method.to_lowercase().as_str()].into_iter().chain(words).collect::<Vec<_>>().join("_")
}

/// Divides the fields of a route: those in its path, those in the query of a GET or a DELETE, and those in the body of
/// any other.
fn divided(route: &Route, takes: &Value) -> (Vec<Value>, Option<Value>) {
    let none = Map::new();
    let fields = takes["properties"].as_object().unwrap_or(&none);
    let is_required = |name: &str| {
        takes["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
    };
    let in_path: Vec<&str> =
        route.path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
    let mut parameters: Vec<Value> = in_path
        .iter()
        .map(|name| {
            let schema = fields.get(*name).cloned().unwrap_or_else(|| json!({ "type": "string" }));
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    let others = fields.iter().filter(|(name, _)| !in_path.contains(&name.as_str()));
    if route.only_looks() || route.method == "DELETE" {
        parameters.extend(others.map(|(name, schema)| {
            json!({ "name": name, "in": "query", "required": is_required(name), "schema": schema })
        }));
        return (parameters, None);
    }
    let mut body = takes.clone();
    if let Some(fields) = body["properties"].as_object_mut() {
        fields.retain(|name, _| !in_path.contains(&name.as_str()));
    }
    if let Some(required) = body["required"].as_array_mut() {
        required.retain(|name| !name.as_str().is_some_and(|name| in_path.contains(&name)));
    }
    let has_fields = body["properties"].as_object().is_some_and(|fields| !fields.is_empty());
    let is_choice = body.get("oneOf").is_some();
    if body["required"].as_array().is_none_or(Vec::is_empty)
        && let Some(body) = body.as_object_mut()
    {
        body.remove("required");
    }
    (parameters, (has_fields || is_choice).then_some(body))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::openapi;

    /// All that is referred to below a value.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match (name.as_str(), value) {
                ("$ref", Value::String(target)) => drop(found.insert(target.clone())),
                (_, value) => references(value, found),
            }),
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn openapi_description_has_no_dangling_references() {
        let document: Value = serde_json::from_str(&openapi()).unwrap();
        let mut referred = BTreeSet::new();
        references(&document, &mut referred);
        for target in &referred {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
        let known = document["components"]["schemas"].as_object().unwrap();
        assert_eq!(known.len(), referred.len(), "each schema is used");
        let mut names = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for operation in methods.as_object().unwrap().values() {
                assert!(names.insert(operation["operationId"].to_string()), "{path}");
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
                assert_eq!(in_path, path.matches('{').count(), "{path}");
            }
        }
    }

    #[test]
    fn openapi_fields_are_path_query_or_body_as_the_route_takes_them() {
        let document: Value = serde_json::from_str(&openapi()).unwrap();
        let pause = &document["paths"]["/v1/queues/{queue}/pause"]["post"];
        assert_eq!(pause["parameters"][0]["name"], "queue");
        let body = &pause["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(body["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["reason"]);
        assert_eq!(pause["requestBody"]["required"], false);
        let list = &document["paths"]["/v1/jobs"]["get"];
        assert!(list["parameters"].as_array().unwrap().iter().all(|parameter| parameter["in"] == "query"));
        assert!(list["requestBody"].is_null());
        assert!(document["paths"]["/v1/jobs/{job}/cancel"]["post"]["requestBody"].is_null());
        assert_eq!(document["paths"]["/v1/stop"]["post"]["requestBody"]["required"], true);
    }
}
