//! Options: stored in a table, and cached until they change.

use rusqlite::params;

use super::store::Store;
use super::trouble::Trouble;
use broker::Error;
use common::options;
use model::verb::{LoadOptions, OptionShown, SetOption, UnsetOption};
use model::{JobState, OptionName, OptionsInForce, QueueName, QueueSet, name_fault};

impl Store {
    /// The options that are set, as far as this version knows them: a later one may have set others.
    pub(super) fn options(&mut self) -> Result<&OptionsInForce, rusqlite::Error> {
        if self.options.is_none() {
            self.options = Some(on_file(self)?);
        }
        Ok(self.options.get_or_insert_default())
    }

    /// Number of further jobs of a queue that may run.
    pub(super) fn room(&mut self, id: i64, queue: &QueueName) -> Result<usize, rusqlite::Error> {
        let most = self.options()?.count(Some(queue), OptionName::MaxConcurrency);
        if most == 0 {
            self.limited.remove(&id);
            return Ok(usize::MAX);
        }
        self.limited.insert(id);
        // The counts on file lack what this transaction has done.
        let running: i64 = self
            .conn
            .prepare_cached("SELECT running + canceling FROM queue WHERE id = ?1")?
            .query_row([id], |row| row.get(0))?;
        let running =
            running + self.effects.moves(id, JobState::Running) + self.effects.moves(id, JobState::Canceling);
        let running = u64::try_from(running).unwrap_or(0);
        Ok(usize::try_from(most.saturating_sub(running)).unwrap_or(usize::MAX))
    }
}

fn on_file(store: &Store) -> Result<OptionsInForce, rusqlite::Error> {
    let mut statement = store.conn.prepare_cached("SELECT queue, name, value FROM option")?;
    let mut rows = statement.query([])?;
    let mut options = OptionsInForce::default();
    while let Some(row) = rows.next()? {
        let queue: String = row.get(0)?;
        let queue = (!queue.is_empty()).then(|| QueueName::from(queue.as_str()));
        if let Ok(name) = row.get::<_, String>(1)?.parse() {
            let _ = options.set(queue, name, &row.get::<_, String>(2)?);
        }
    }
    Ok(options)
}

pub(super) fn show(store: &mut Store) -> Result<Vec<OptionShown>, Trouble> {
    Ok(options::shown(store.options()?))
}

pub(super) fn set(store: &mut Store, it: &SetOption) -> Result<(), Trouble> {
    let name = it.name.parse().map_err(Error::Refused)?;
    if let Some(fault) = it.queue.as_ref().and_then(|queue| name_fault("a queue's name", queue.as_str())) {
        return Err(Error::Refused(fault).into());
    }
    let mut options = store.options()?.clone();
    options.set(it.queue.clone(), name, &it.value).map_err(Error::Refused)?;
    write(store, options, &[])
}

pub(super) fn unset(store: &mut Store, it: &UnsetOption) -> Result<(), Trouble> {
    let name: OptionName = it.name.parse().map_err(Error::Refused)?;
    let options = store.options()?.clone();
    write(store, options, &[(it.queue.clone(), name)])
}

pub(super) fn load(store: &mut Store, it: &LoadOptions) -> Result<(), Trouble> {
    let wanted = OptionsInForce::read(&it.options).map_err(Error::Refused)?;
    let mut options = store.options()?.clone();
    let before: Vec<_> = options.iter().map(|(queue, name, _)| (queue.cloned(), name)).collect();
    for (queue, name, value) in wanted.iter() {
        options.set(queue.cloned(), name, &value.to_string()).map_err(Error::Refused)?;
    }
    let is_wanted = |at: &(Option<QueueName>, OptionName)| {
        wanted.iter().any(|(queue, name, _)| (queue, name) == (at.0.as_ref(), at.1))
    };
    let gone: Vec<_> = before.into_iter().filter(|at| it.clear && !is_wanted(at)).collect();
    write(store, options, &gone)
}

/// Stores the options that are set, without some that are unset.
fn write(
    store: &mut Store,
    options: OptionsInForce,
    gone: &[(Option<QueueName>, OptionName)],
) -> Result<(), Trouble> {
    let word = |queue: Option<&QueueName>| queue.map_or(String::new(), |queue| queue.as_str().to_owned());
    for (queue, name, value) in options.iter() {
        let mut statement = store.conn.prepare_cached("INSERT OR REPLACE INTO option VALUES (?1, ?2, ?3)")?;
        statement.execute(params![word(queue), name.as_str(), value.to_string()])?;
    }
    for (queue, name) in gone {
        let mut statement = store.conn.prepare_cached("DELETE FROM option WHERE queue = ?1 AND name = ?2")?;
        statement.execute(params![word(queue.as_ref()), name.as_str()])?;
    }
    store.options = None;
    // There may be room for more jobs, here and in other processes.
    store.effects.wake = QueueSet::All;
    store.effects.ring = true;
    Ok(())
}
