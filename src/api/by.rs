//! Who asks, as histories and events name it.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::{Peer, Problem};

/// The header in which a client says for whom it asks.
pub(super) const FOR: &str = "taskvisor-for";
/// Longest name in it, in bytes.
const LONGEST: usize = 64;

/// The client, and behind it in brackets for whom it asks: the peer itself stays what the kernel or the token says.
pub(super) struct By(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<By, Problem> {
        let peer =
            parts.extensions.get::<Peer>().ok_or_else(|| Problem::new(500, "the client is not known"))?;
        let Some(name) = parts.headers.get(FOR) else { return Ok(By(peer.asking_for(None))) };
        let name = name.to_str().unwrap_or_default();
        // Without blanks: no name can look like the mark of a token.
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
        match (1..=LONGEST).contains(&name.len()) && name.bytes().all(letters) {
            true => Ok(By(peer.asking_for(Some(name)))),
            false => Err(Problem::bad_request(format!(
                "{FOR} names who asks: 1 to {LONGEST} letters, digits and -_.@"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;
    use crate::Role;
    use model::{JobRecord, JobState};

    #[tokio::test]
    async fn name_stands_behind_the_client_and_cannot_look_like_a_token() {
        for (sent, by) in [
            (None, Some("uid 7")),
            (Some("web"), Some("uid 7 (web)")),
            (Some("put token"), None),
            (Some(""), None),
        ] {
            let mut request = Request::builder().extension(Peer::User(7));
            if let Some(sent) = sent {
                request = request.header(FOR, sent);
            }
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            let found = By::from_request_parts(&mut parts, &()).await.map(|By(by)| by);
            assert_eq!(found.ok().as_deref(), by, "{sent:?}");
        }
    }

    #[tokio::test]
    async fn put_token_finds_the_jobs_again_that_it_has_put_for_somebody() {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let peer = Peer::Remote { address, programs: false, role: Some(Role::Put) };
        let request = Request::builder().extension(peer).header(FOR, "shop").body(()).unwrap();
        let By(by) = By::from_request_parts(&mut request.into_parts().0, &()).await.ok().unwrap();
        assert_eq!(by, "127.0.0.1 (shop) (put token)");
        let job = JobRecord::new("j".into(), "q".into(), "c".into(), JobState::Waiting);
        assert!(peer.judge_job(&JobRecord { put_by: Some(by), ..job }).is_ok());
    }
}
