//! What each role opens, over every route of the description.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::fake::Fake;
use super::{Gate, Peer, Role, Terms, behind, openapi, router};

/// What the view token opens besides all that is looked at with `GET`.
const VIEW_POSTS: [&str; 1] = ["POST /v1/wait"];
/// What the put token opens: nothing else, and of the jobs only its own.
const PUT: [&str; 8] = [
    "GET /livez",
    "GET /readyz",
    "GET /v1",
    "GET /v1/jobs/{job}",
    "GET /v1/jobs/{job}/wait",
    "GET /v1/openapi.json",
    "POST /v1/jobs",
    "POST /v1/wait",
];

/// Every route that is described, as `GET /v1/jobs/{job}`.
fn routes() -> Vec<String> {
    let described: serde_json::Value = serde_json::from_str(&openapi()).unwrap();
    let paths = described["paths"].as_object().unwrap();
    let each = |(path, methods): (&String, &serde_json::Value)| {
        let methods = methods.as_object().unwrap().keys();
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(each).collect()
}

/// Asks with a token; gives status and answer, none if the answer takes long.
async fn asked(token: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let tokens = [(Role::All, "all"), (Role::View, "view"), (Role::Put, "put")];
    let tokens = Some(tokens.map(|(role, token)| (role, token.to_owned())).into());
    let gate = Gate::new(Terms { tokens, hosts: vec![], origins: vec![] });
    let router = behind(gate, router(Arc::new(Fake::default())));
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"))
        .extension(Peer::Remote { address, programs: true, role: None })
        .body(Body::from(body.to_owned()))
        .unwrap();
    let answer = TowerToHyperService::new(router).call(request);
    let answer = tokio::time::timeout(Duration::from_secs(1), answer).await.ok()?.unwrap();
    let status = answer.status().as_u16();
    let text = tokio::time::timeout(Duration::from_secs(1), to_bytes(answer.into_body(), 1 << 20)).await;
    let text = text.ok().and_then(Result::ok).unwrap_or_default();
    Some((status, String::from_utf8_lossy(&text).into_owned()))
}

async fn opens(token: &str, route: &str) -> bool {
    let (method, path) = route.split_once(' ').unwrap();
    let answer = asked(token, method, &path.replace(['{', '}'], ""), "").await;
    !answer.is_some_and(|(status, said)| status == 403 && said.contains("does not open"))
}

#[tokio::test(start_paused = true)]
async fn each_role_opens_its_routes_and_no_others() {
    let all = routes();
    assert!(all.len() > 60, "{all:?}");
    for route in &all {
        let is_picture = route.ends_with("/picture");
        let looks = (route.starts_with("GET ") && !is_picture) || VIEW_POSTS.contains(&&**route);
        assert!(opens("all", route).await, "{route}");
        assert_eq!(opens("view", route).await, looks, "{route}");
        assert_eq!(opens("put", route).await, PUT.contains(&&**route), "{route}");
    }
    for route in PUT.iter().chain(&VIEW_POSTS) {
        assert!(all.iter().any(|one| one == route), "{route} is no route");
    }
    assert!(!opens("put", "GET /v1/nothing").await && !opens("view", "DELETE /v1/jobs").await);
}

#[tokio::test(start_paused = true)]
async fn put_token_shows_only_the_jobs_that_came_with_it() {
    let code = async |token: &str, method: &str, path: &str, body: &str| {
        asked(token, method, path, body).await.map_or(0, |(status, _)| status)
    };
    for (job, status) in [("of-put", 200), ("of-another", 403), ("of-nobody", 403)] {
        assert_eq!(code("put", "GET", &format!("/v1/jobs/{job}"), "").await, status, "{job}");
        assert_eq!(code("put", "GET", &format!("/v1/jobs/{job}/wait"), "").await, status, "{job}");
        let both = format!(r#"{{"jobs": ["gone", "of-put", "{job}"]}}"#);
        assert_eq!(code("put", "POST", "/v1/wait", &both).await, status, "{job}");
        for token in ["all", "view"] {
            assert_eq!(code(token, "GET", &format!("/v1/jobs/{job}"), "").await, 200, "{token} {job}");
        }
    }
    assert_eq!(code("put", "GET", "/v1/jobs/gone", "").await, 404);
    let many = serde_json::json!({ "jobs": (0..1001).map(|n| n.to_string()).collect::<Vec<_>>() });
    assert_eq!(code("put", "POST", "/v1/wait", &many.to_string()).await, 400);
}

#[tokio::test(start_paused = true)]
async fn put_token_puts_no_programs_even_where_others_may() {
    let program = r#"{"jobs": [{"queue": "q", "class": "exec", "exec": {"argv": ["taskvisor", "stop"], "cwd": "/", "umask": "022"}}]}"#;
    let (status, said) = asked("put", "POST", "/v1/jobs", program).await.unwrap();
    assert_eq!((status, said.contains("programs cannot be put with the put token")), (403, true), "{said}");
    assert_eq!(asked("all", "POST", "/v1/jobs", program).await.unwrap().0, 200);
    let job = r#"{"jobs": [{"queue": "q", "class": "c"}]}"#;
    assert_eq!(asked("put", "POST", "/v1/jobs", job).await.unwrap().0, 200);
}

#[tokio::test(start_paused = true)]
async fn put_token_does_not_learn_the_names_of_queues() {
    let job = r#"{"jobs": [{"queue": "mial", "class": "c"}]}"#;
    for (token, hinted) in [("all", true), ("put", false)] {
        let (_, said) = asked(token, "POST", "/v1/jobs", job).await.unwrap();
        assert!(said.contains("no pool here takes jobs from queue 'mial'"), "{said}");
        assert_eq!(said.contains("mail"), hinted, "{said}");
    }
}
