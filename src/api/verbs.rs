//! The routes of the verbs, made from their table.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use serde_json::value::{RawValue, to_raw_value};

use super::by::By;
use super::client::encode;
use super::extract::{Answer, Api, may_put, read_or_default};
use super::routes::Routes;
use super::{Peer, Problem, lists};
use model::verb::{self, Verb, VerbRequest, Visitor, visit};

/// The largest body of a verb, which may name many jobs.
const LIMIT: usize = 1 << 20;

type Named = Result<Path<BTreeMap<String, String>>, PathRejection>;

/// One route for each verb.
pub(super) fn routes(routes: Routes) -> Routes {
    struct Adding(Routes);
    impl Visitor for Adding {
        fn visit<V: VerbRequest>(&mut self) {
            let handler = if V::ROUTE.only_looks() { get(look::<V>) } else { post(act::<V>) };
            self.0.add::<V, V::Answer>(V::ROUTE, handler);
        }
    }
    let mut adding = Adding(routes);
    visit(&mut adding);
    adding.0
}

/// The parameters are in the path and the query.
async fn look<V: VerbRequest>(
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
    let Query(verb) =
        Query::<V>::try_from_uri(&uri).map_err(|error| Problem::bad_request(error.body_text()))?;
    let verb = verb.verb();
    if let Verb::List(filter) = verb {
        return lists::answer(api, filter, &headers).await;
    }
    let answer = api.ask(verb, peer.to_string()).await?;
    if let verb::Answer::Get(job) = &answer {
        peer.judge_job(job)?;
    }
    own::<V>(answer).map(IntoResponse::into_response)
}

/// The parameters are in the path and the body, which may be left out.
async fn act<V: VerbRequest>(
    State(api): Api,
    Extension(peer): Extension<Peer>,
    By(by): By,
    named: Named,
    body: Body,
) -> Answer<V::Answer> {
    // Each field keeps its exact text, so numbers keep all their digits.
    let mut fields: BTreeMap<String, Box<RawValue>> = read_or_default(body, LIMIT).await?;
    for (name, value) in parameters(named)? {
        let value = to_raw_value(&value).map_err(|error| Problem::new(500, error.to_string()))?;
        if fields.insert(name.clone(), value).is_some() {
            return Err(Problem::bad_request(format!("{name} stands in the path: leave it out of the body")));
        }
    }
    let text = serde_json::to_string(&fields).map_err(|error| Problem::new(500, error.to_string()))?;
    let verb: V = serde_json::from_str(&text)
        .map_err(|error| Problem::bad_request(format!("the body is not right: {}", without_place(&error))))?;
    let verb = verb.verb();
    verb.brings().map_or(Ok(()), |job| may_put(peer, job))?;
    own::<V>(api.ask(verb, by).await?)
}

/// The error without its position, which would refer to another text than the body.
fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.rsplit_once(" at line ").map_or(said.clone(), |(why, _)| why.to_owned())
}

/// The verb's own answer.
fn own<V: VerbRequest>(answer: verb::Answer) -> Answer<V::Answer> {
    V::answer(answer).map(Json).ok_or_else(|| Problem::new(500, "the broker answered something else"))
}

fn parameters(named: Named) -> Result<BTreeMap<String, String>, Problem> {
    named.map(|Path(named)| named).map_err(|error| Problem::bad_request(error.body_text()))
}
