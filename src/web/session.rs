//! Who looks: the key on the printed URL, tokens, and the sessions of browsers.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tokio::time::Instant;

/// What a reader may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Look and change.
    All,
    /// Look, change nothing.
    View,
}

/// A token that opens the page.
#[derive(Clone)]
pub struct Token {
    /// What it opens.
    pub role: Role,
    /// The token itself.
    pub text: String,
}

/// Something to tell the reader on the next page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notice {
    /// What was done, or why not.
    pub text: String,
    /// The command that does the same.
    pub command: String,
    /// Whether it has failed.
    pub failed: bool,
}

/// All sessions. They are in memory alone: with the process they end.
pub(crate) struct Sessions {
    inner: Mutex<Inner>,
    read_only: bool,
}

#[derive(Default)]
struct Inner {
    key: Option<String>,
    tokens: Vec<Token>,
    open: HashMap<String, Session>,
}

struct Session {
    role: Role,
    seen: Instant,
    notice: Option<Notice>,
}

/// Limit of the sessions; beyond it the one that was seen longest ago ends.
const MOST: usize = 1000;
/// A session that is not seen for this time ends.
const IDLE: Duration = Duration::from_secs(12 * 3600);

impl Sessions {
    /// No sessions yet. `read_only`: nobody may change anything.
    pub(crate) fn new(read_only: bool) -> Sessions {
        Sessions { inner: Mutex::default(), read_only }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // The panic of one request must not lock out all others.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a key that opens one session.
    pub(crate) fn make_key(&self) -> io::Result<String> {
        let key = secret()?;
        self.inner().key = Some(key.clone());
        Ok(key)
    }

    /// Takes these tokens from now on, and ends all sessions.
    pub(crate) fn set_tokens(&self, tokens: Vec<Token>) {
        let mut inner = self.inner();
        inner.tokens = tokens;
        // Who came in by a token that was taken away must not stay in.
        inner.open.clear();
    }

    /// Whether a token opens the page.
    pub(crate) fn takes_tokens(&self) -> bool {
        !self.inner().tokens.is_empty()
    }

    /// Opens a session with the key, which is spent then.
    pub(crate) fn by_key(&self, key: &str) -> io::Result<Option<String>> {
        let mut inner = self.inner();
        if !inner.key.as_ref().is_some_and(|known| same(known, key)) {
            return Ok(None);
        }
        inner.key = None;
        inner.open(Role::All).map(Some)
    }

    /// Opens a session with a token.
    pub(crate) fn by_token(&self, shown: &str) -> io::Result<Option<String>> {
        let mut inner = self.inner();
        // All are compared, so that the time does not say which one it is like.
        let fits = |found, token: &Token| if same(&token.text, shown) { Some(token.role) } else { found };
        match inner.tokens.iter().fold(None, fits) {
            None => Ok(None),
            Some(role) => inner.open(role).map(Some),
        }
    }

    /// What this session may do, if it is one.
    pub(crate) fn role(&self, session: &str) -> Option<Role> {
        let mut inner = self.inner();
        let found = inner.open.get_mut(session)?;
        if found.seen.elapsed() > IDLE {
            inner.open.remove(session);
            return None;
        }
        found.seen = Instant::now();
        Some(if self.read_only { Role::View } else { found.role })
    }

    /// Whether it is a session still. To be asked is no use of it.
    pub(crate) fn lives(&self, session: &str) -> bool {
        self.inner().open.get(session).is_some_and(|found| found.seen.elapsed() <= IDLE)
    }

    /// Ends a session.
    pub(crate) fn end(&self, session: &str) {
        self.inner().open.remove(session);
    }

    /// Keeps a notice for the next page of a session.
    pub(crate) fn tell(&self, session: &str, notice: Notice) {
        if let Some(found) = self.inner().open.get_mut(session) {
            found.notice = Some(notice);
        }
    }

    /// The notice for this page, if there is one.
    pub(crate) fn told(&self, session: &str) -> Option<Notice> {
        self.inner().open.get_mut(session)?.notice.take()
    }
}

impl Inner {
    fn open(&mut self, role: Role) -> io::Result<String> {
        // No timer drops the sessions that have ended.
        self.open.retain(|_, session| session.seen.elapsed() <= IDLE);
        if self.open.len() >= MOST
            && let Some(oldest) =
                self.open.iter().min_by_key(|(_, session)| session.seen).map(|(id, _)| id.clone())
        {
            self.open.remove(&oldest);
        }
        let id = secret()?;
        self.open.insert(id.clone(), Session { role, seen: Instant::now(), notice: None });
        Ok(id)
    }
}

/// 256 bits that nobody can guess, as text.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    // There is no other source to fall back on: secrets of a weaker one could be guessed.
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Compares without telling by the time where two texts differ.
fn same(known: &str, shown: &str) -> bool {
    // Without `black_box` the compiler may end the loop at the first difference.
    let differ = known.bytes().zip(shown.bytes()).fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
    known.len() == shown.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn key_opens_one_session_and_a_token_any_number() {
        let sessions = Sessions::new(false);
        let key = sessions.make_key().unwrap();
        assert_eq!(sessions.by_key("x").unwrap(), None);
        let first = sessions.by_key(&key).unwrap().unwrap();
        assert_eq!(sessions.by_key(&key).unwrap(), None, "it is spent");
        assert_eq!(sessions.role(&first), Some(Role::All));
        let token = |role, text: &str| Token { role, text: text.into() };
        sessions.set_tokens(vec![token(Role::All, "a"), token(Role::View, "v")]);
        assert_eq!(sessions.role(&first), None, "new tokens end all sessions");
        assert_eq!(sessions.by_token("").unwrap(), None);
        let [one, two] = ["v", "v"].map(|token| sessions.by_token(token).unwrap().unwrap());
        assert_ne!(one, two);
        assert_eq!(sessions.role(&one), Some(Role::View));
        tokio::time::advance(IDLE + Duration::from_secs(1)).await;
        assert_eq!(sessions.role(&two), None, "nobody has looked for long");
    }

    #[tokio::test(start_paused = true)]
    async fn crowd_of_sessions_ends_the_oldest() {
        let sessions = Sessions::new(true);
        sessions.set_tokens(vec![Token { role: Role::All, text: "a".into() }]);
        let first = sessions.by_token("a").unwrap().unwrap();
        assert_eq!(sessions.role(&first), Some(Role::View), "read-only for all");
        for _ in 0..MOST {
            tokio::time::advance(Duration::from_millis(1)).await;
            sessions.by_token("a").unwrap();
        }
        assert_eq!((sessions.role(&first), sessions.inner().open.len()), (None, MOST));
    }
}
