//! The routes of the verbs, made from their table.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use serde_json::value::{RawValue, to_raw_value};

use super::by::By;
use super::client::encode;
use super::describe::Describe;
use super::extract::{Api, may_put, read_or_default};
use super::routes::Routes;
use super::{Peer, Problem, Service, lists};
use model::verb::{self, Verb, VerbRequest, Visitor, visit};

/// The largest body of a verb, which may name many jobs.
const LIMIT: usize = 1 << 20;

type Named = Result<Path<BTreeMap<String, String>>, PathRejection>;

/// One route for each verb.
pub(super) fn routes<D: Describe>(routes: Routes<D>) -> Routes<D> {
    struct Adding<D>(Routes<D>);
    impl<D: Describe> Visitor for Adding<D> {
        fn visit<V: VerbRequest>(&mut self) {
            self.0.add::<V, V::Answer>(V::ROUTE, handler(Form::of::<V>()));
        }
    }
    let mut adding = Adding(routes);
    visit(&mut adding);
    adding.0
}

/// How a verb is read and its answer written: all that its type is needed for. One handler serves all verbs, as each handler
/// of axum is some 20 KB of code.
#[derive(Clone, Copy)]
struct Form {
    only_looks: bool,
    of_query: fn(&Uri) -> Result<Verb, Problem>,
    of_body: fn(&str) -> Result<Verb, Problem>,
    answer: fn(verb::Answer) -> Result<Response, Problem>,
}

impl Form {
    fn of<V: VerbRequest>() -> Form {
        Form {
            only_looks: V::ROUTE.only_looks(),
            of_query: |uri| {
                let Query(verb) =
                    Query::<V>::try_from_uri(uri).map_err(|error| Problem::bad_request(error.body_text()))?;
                Ok(verb.verb())
            },
            of_body: |text| {
                let verb: V = serde_json::from_str(text).map_err(|error| wrong_body(&error))?;
                Ok(verb.verb())
            },
            answer: |answer| match V::answer(answer) {
                Some(answer) => Ok(Json(answer).into_response()),
                None => Err(Problem::new(500, "the broker answered something else")),
            },
        }
    }
}

fn handler(form: Form) -> MethodRouter<Arc<dyn Service>> {
    match form.only_looks {
        true => get(move |api, peer, named, headers, uri| look(form, api, peer, named, headers, uri)),
        false => post(move |api, peer, by, named, body| act(form, api, peer, by, named, body)),
    }
}

/// The parameters are in the path and the query.
async fn look(
    form: Form,
    State(api): Api,
    Extension(peer): Extension<Peer>,
    named: Named,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    // In one query, so that all fields are read alike.
    let mut query = uri.query().unwrap_or_default().to_owned();
    for (name, value) in parameters(named)? {
        query += &format!("&{name}={}", encode(&value));
    }
    let uri: Uri = format!("/?{}", query.trim_start_matches('&'))
        .parse()
        .map_err(|_| Problem::bad_request("the query is not right"))?;
    let verb = (form.of_query)(&uri)?;
    if let Verb::List(filter) = verb {
        return lists::answer(api, filter, &headers).await;
    }
    let answer = api.ask(verb, peer.to_string()).await?;
    if let verb::Answer::Get(job) = &answer {
        peer.judge_job(job)?;
    }
    (form.answer)(answer)
}

/// The parameters are in the path and the body, which may be left out.
async fn act(
    form: Form,
    State(api): Api,
    Extension(peer): Extension<Peer>,
    By(by): By,
    named: Named,
    body: Body,
) -> Result<Response, Problem> {
    // Each field keeps its exact text, so numbers keep all their digits.
    let mut fields: BTreeMap<String, Box<RawValue>> = read_or_default(body, LIMIT).await?;
    for (name, value) in parameters(named)? {
        let value = to_raw_value(&value).map_err(|error| Problem::new(500, error.to_string()))?;
        if fields.insert(name.clone(), value).is_some() {
            return Err(Problem::bad_request(format!("{name} stands in the path: leave it out of the body")));
        }
    }
    let text = serde_json::to_string(&fields).map_err(|error| Problem::new(500, error.to_string()))?;
    let verb = (form.of_body)(&text)?;
    verb.brings().map_or(Ok(()), |job| may_put(peer, job))?;
    (form.answer)(api.ask(verb, by).await?)
}

fn wrong_body(error: &serde_json::Error) -> Problem {
    Problem::bad_request(format!("the body is not right: {}", without_place(error)))
}

/// The error without its position, which would refer to another text than the body.
fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.rsplit_once(" at line ").map_or(said.clone(), |(why, _)| why.to_owned())
}

fn parameters(named: Named) -> Result<BTreeMap<String, String>, Problem> {
    named.map(|Path(named)| named).map_err(|error| Problem::bad_request(error.body_text()))
}
