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
        let Some(name) = parts.headers.get(FOR) else { return Ok(By(peer.to_string())) };
        let name = name.to_str().unwrap_or_default();
        // Without blanks: no name can look like the mark of a token.
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
        match (1..=LONGEST).contains(&name.len()) && name.bytes().all(letters) {
            true => Ok(By(format!("{peer} ({name})"))),
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
}
