//! Events of jobs, for subscribers.

use rusqlite::params;

use super::columns::json;
use super::store::Store;
use super::trouble::Trouble;
use model::{Class, JobId, JobState, Millis, PublishedEvent, QueueName, What};

impl Store {
    /// Notes an event of a job: it is published once it is on disk.
    pub(super) fn happened(
        &mut self,
        id: &JobId,
        queue: i64,
        what: What,
        state: JobState,
    ) -> Result<(), Trouble> {
        let news = self.news_of(id, queue, what, state)?;
        self.effects.news.extend(news);
        Ok(())
    }

    /// The same of a job whose queue, class and tags are known here: that saves a query.
    pub(super) fn happened_to(
        &mut self,
        id: &JobId,
        (queue, class, tags): (&QueueName, &Class, &[String]),
        what: What,
        state: JobState,
    ) {
        if self.notices.heard().is_none() {
            return;
        }
        self.effects.news.push(PublishedEvent {
            job: Some(id.clone()),
            queue: Some(queue.clone()),
            class: Some(class.clone()),
            tags: tags.to_vec(),
            state: Some(state),
            ..PublishedEvent::new(what, Millis(self.time()))
        });
    }

    /// The event of a job, if there are subscribers.
    pub(super) fn news_of(
        &self,
        id: &JobId,
        queue: i64,
        what: What,
        state: JobState,
    ) -> Result<Option<PublishedEvent>, Trouble> {
        // Without subscribers no job pays for the query.
        if self.notices.heard().is_none() {
            return Ok(None);
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT name, tags, class FROM queue LEFT JOIN job ON jid = ?2 WHERE queue.id = ?1",
        )?;
        let mut rows = statement.query(params![queue, id.as_str()])?;
        let found = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let (queue, tags) = (found.get::<_, String>(0)?, json(found, 1).ok().flatten().unwrap_or_default());
        let class = found.get::<_, Option<String>>(2).ok().flatten().map(Into::into);
        let news = PublishedEvent { class, ..PublishedEvent::new(what, Millis(self.time())) };
        Ok(Some(PublishedEvent {
            job: Some(id.clone()),
            queue: Some(queue.into()),
            tags,
            state: Some(state),
            ..news
        }))
    }
}
