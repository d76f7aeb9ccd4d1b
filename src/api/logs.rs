//! The output of a job: a range of it, or all that comes until the job has ended.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use log::{LastLines, Part, Reader, Selection, Source};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, MissedTickBehavior};

use super::extract::{Api, PathOf, job_id};
use super::lists;
use super::service::JobOutput;
use super::stream::{Piece, stream};
use super::waits::{Doing, follows};
use super::{Problem, Service};
use model::{Bytes, JobId, JobState, OutputEnd, OutputLine, OutputPart, OutputQuery, Stream};

/// Pause between two looks whether a followed output has grown. Nothing looks while nobody follows.
const LOOK: Duration = Duration::from_millis(100);
/// Pause between two looks whether another supervisor runs the job.
const PLACE: Duration = Duration::from_secs(2);
/// Keep-alive interval: proxies close idle connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Places for reads at a time: a slow disk that holds them all leaves threads to others.
static READS: Semaphore = Semaphore::const_new(4);

/// Answers with the output as it was printed, or with a line for each part of it.
pub(super) async fn logs(
    State(api): Api,
    doing: Doing,
    headers: HeaderMap,
    id: PathOf<String>,
    query: Result<Query<OutputQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let id = job_id(id)?;
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    if query.follow {
        follows(&doing)?;
    }
    let mut output = api.output(&id).await?;
    output.reader.select(selection(&query), query.from, query.limit);
    if let Some(lines) = query.tail {
        output.reader = last_lines(output.reader, lines as usize).await?;
    }
    let form = if lists::takes_lines(&headers) { Form::Lines } else { Form::Bytes };
    let kind = match form {
        Form::Lines => lists::LINES,
        // A browser must not take it for a page.
        Form::Bytes => "text/plain; charset=utf-8",
    };
    let (pieces, _, body) = stream();
    let sending = Sending { api, id, follow: query.follow, form, pieces };
    tokio::spawn(async move {
        if let Err(Some(problem)) = sending.send(output).await {
            sending.pieces.send(Err(problem)).await.ok();
        }
    });
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, body).into_response())
}

fn selection(query: &OutputQuery) -> Selection {
    let stream = query.stream.map(|stream| match stream {
        Stream::Stdout => Source::Stdout,
        Stream::Stderr => Source::Stderr,
    });
    Selection { stream, attempt: query.attempt, since: query.since, until: query.until }
}

/// Goes to the last lines, step by step: a client that goes away ends the search.
async fn last_lines(mut reader: Reader, lines: usize) -> Result<Reader, Problem> {
    let mut search = LastLines::new(lines);
    loop {
        let step = move |reader: &mut Reader| {
            let is_over = reader.search(&mut search)?;
            Ok((search, is_over))
        };
        let is_over;
        (reader, (search, is_over)) = on_disk(reader, step).await?;
        if is_over {
            return Ok(reader);
        }
    }
}

/// Reads on a thread that may wait for the disk.
async fn on_disk<T: Send + 'static>(
    mut reader: Reader,
    act: impl FnOnce(&mut Reader) -> std::io::Result<T> + Send + 'static,
) -> Result<(Reader, T), Problem> {
    // The semaphore is never closed.
    let place = READS.acquire().await.map_err(|error| Problem::new(500, error.to_string()))?;
    let done = tokio::task::spawn_blocking(move || {
        // The read goes on when its client has gone: until then it keeps its place.
        let _place = place;
        let result = act(&mut reader);
        (reader, result)
    });
    let (reader, result) = done.await.map_err(|error| Problem::new(500, error.to_string()))?;
    let value = result
        .map_err(|error| Problem::new(500, format!("failed to read the output of the job: {error}")))?;
    Ok((reader, value))
}

/// An answer under way.
struct Sending {
    api: Arc<dyn Service>,
    id: JobId,
    follow: bool,
    form: Form,
    pieces: Sender<Piece>,
}

#[derive(Clone, Copy)]
enum Form {
    Lines,
    Bytes,
}

impl Sending {
    /// Sends all of it. Fails with None if the reader has gone.
    async fn send(&self, mut output: JobOutput) -> Result<(), Option<Problem>> {
        // The head of the answer goes out with the first piece.
        self.keep_alive().await?;
        if !self.follow {
            output = self.rest(output).await?;
            return self.end(output).await;
        }
        let end = self.api.ended(self.id.clone());
        tokio::pin!(end);
        let mut look = tokio::time::interval(LOOK);
        // After a slow read no looks are made up for.
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut place = tokio::time::interval_at(Instant::now() + PLACE, PLACE);
        let mut silent = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        loop {
            tokio::select! {
                state = &mut end => {
                    output.state = state?;
                    break;
                }
                _ = look.tick() => {
                    let before = output.reader.at();
                    output = self.rest(output).await?;
                    if output.reader.at() != before {
                        silent.reset();
                    }
                }
                _ = place.tick() => if self.runs_elsewhere(&mut output).await {
                    break;
                },
                _ = silent.tick() => self.keep_alive().await?,
                () = self.pieces.closed() => return Err(None),
            }
        }
        self.runs_elsewhere(&mut output).await;
        // What came between the latest look and the end.
        output = self.rest(output).await?;
        self.end(output).await
    }

    /// Whether another supervisor runs the job now; notes which one ran it last.
    async fn runs_elsewhere(&self, output: &mut JobOutput) -> bool {
        // While the broker does not answer, the wait for the end of the job goes on.
        let Ok(now) = self.api.output(&self.id).await else { return false };
        let runs = matches!(now.state, JobState::Running | JobState::Canceling);
        (output.state, output.elsewhere) = (now.state, now.elsewhere);
        runs && output.elsewhere.is_some()
    }

    /// Sends what there is now.
    async fn rest(&self, mut output: JobOutput) -> Result<JobOutput, Option<Problem>> {
        loop {
            let (reader, parts) = on_disk(output.reader, Reader::next_parts).await?;
            output.reader = reader;
            let Some(parts) = parts else { return Ok(output) };
            let piece: Vec<u8> = parts.into_iter().flat_map(|part| self.form.part(part)).collect();
            if !piece.is_empty() {
                self.pieces.send(Ok(piece)).await.map_err(|_| None)?;
            // A filter may leave nothing to send, by which it would be seen that the reader has gone.
            } else if self.pieces.is_closed() {
                return Err(None);
            }
        }
    }

    async fn end(&self, output: JobOutput) -> Result<(), Option<Problem>> {
        let JobOutput { mut reader, state, elsewhere, put_at } = output;
        let mut removed_until = None;
        // There is none: it was removed, or the job has printed nothing.
        if !reader.found() {
            (reader, removed_until) = on_disk(reader, move |reader| Ok(reader.removed_since(put_at))).await?;
        }
        let end = OutputEnd { state, next: reader.at(), elsewhere, removed_until };
        self.pieces.send(Ok(self.form.line(&OutputLine::End(end)))).await.map_err(|_| None)
    }

    async fn keep_alive(&self) -> Result<(), Option<Problem>> {
        match self.form {
            Form::Lines => self.pieces.send(Ok(b"\n".into())).await.map_err(|_| None),
            // The bytes of the output have no room for others.
            Form::Bytes => Ok(()),
        }
    }
}

impl Form {
    fn part(self, Part { from, mark, bytes }: Part) -> Vec<u8> {
        let stream = match mark.source {
            Source::Stdout => Some(Stream::Stdout),
            Source::Stderr => Some(Stream::Stderr),
            Source::Unknown => None,
        };
        let attempt = Some(mark.attempt).filter(|attempt| *attempt > 0);
        match self {
            Form::Bytes => bytes,
            Form::Lines => {
                let part = OutputPart { from, at: mark.at, attempt, stream, text: Bytes(bytes) };
                self.line(&OutputLine::Part(part))
            }
        }
    }

    fn line(self, line: &OutputLine) -> Vec<u8> {
        match self {
            Form::Bytes => Vec::new(),
            Form::Lines => {
                let mut text = serde_json::to_vec(line).unwrap_or_default();
                text.push(b'\n');
                text
            }
        }
    }
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;
