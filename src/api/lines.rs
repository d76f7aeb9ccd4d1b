//! Reads an answer line by line, in the client.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{HeaderMap, Response};
use serde::de::DeserializeOwned;

use super::Place;
use super::answer_line::{Line, broken};
use super::body::Refusal;
use super::client_error::Error;
use super::lists::{LOOKED, NEXT};
use model::Cut;

/// Values as they arrive, one JSON document per line.
pub struct Lines<T> {
    pub(super) place: Place,
    pub(super) line: Option<Line>,
    pub(super) body: Incoming,
    /// How long to wait for more.
    pub(super) patience: Duration,
    cut: Option<Cut>,
    /// The beginning of a line whose end has not arrived.
    rest: Vec<u8>,
    kind: PhantomData<T>,
}

impl<T: DeserializeOwned> Lines<T> {
    pub(super) fn new(place: Place, line: Line, answer: Response<Incoming>, patience: Duration) -> Self {
        let cut = cut(answer.headers());
        let body = answer.into_body();
        Lines { place, line: Some(line), body, patience, cut, rest: Vec::new(), kind: PhantomData }
    }

    /// Where a search was cut, if it was.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// The values that have arrived, at least one; none at the end.
    pub async fn next(&mut self) -> Result<VecDeque<T>, Error> {
        loop {
            let Some(bytes) = self.more().await? else {
                let rest = std::mem::take(&mut self.rest);
                return if rest.is_empty() { Ok(VecDeque::new()) } else { Err(self.nonsense(&rest)) };
            };
            // Earlier bytes have no line end: so a long line is scanned once.
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map(|end| self.rest.len() + end + 1);
            self.rest.extend(bytes);
            let Some(end) = end else { continue };
            let rest = self.rest.split_off(end);
            let lines = std::mem::replace(&mut self.rest, rest);
            let values: VecDeque<T> = lines
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_slice(line).map_err(|_| self.nonsense(line)))
                .collect::<Result<_, _>>()?;
            // Empty lines are keep-alives.
            if !values.is_empty() {
                return Ok(values);
            }
        }
    }

    async fn more(&mut self) -> Result<Option<hyper::body::Bytes>, Error> {
        let frame = tokio::time::timeout(self.patience, self.body.frame()).await.map_err(|_| {
            let why = format!("nothing more came within {} s", self.patience.as_secs());
            Error::Silent(self.place.clone(), why)
        })?;
        match frame {
            None => Ok(None),
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
            Some(Err(error)) => Err(match self.line.take() {
                Some(line) => broken(&self.place, line, error).await,
                None => Error::Lost(self.place.clone(), error),
            }),
        }
    }

    /// A line that is no value says why there are no more.
    fn nonsense(&self, line: &[u8]) -> Error {
        match serde_json::from_slice(line) {
            Ok(refusal) => Refusal::problem(refusal, 503).into(),
            Err(error) => Error::Odd(self.place.clone(), error.to_string()),
        }
    }
}

fn cut(headers: &HeaderMap) -> Option<Cut> {
    let after = str::from_utf8(headers.get(NEXT)?.as_bytes()).ok()?;
    let looked =
        headers.get(LOOKED).and_then(|looked| looked.to_str().ok()?.parse().ok()).unwrap_or_default();
    Some(Cut { after: after.into(), looked })
}
