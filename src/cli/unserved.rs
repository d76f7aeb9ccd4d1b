//! Notes on stderr about jobs that no pool will run: a misspelled queue or directory, a forgotten `--`, another user's
//! shell, a directory that the pool's user may not enter. The job is put all the same.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::cli::access::Access;
use crate::cli::access::elsewhere::{another, client};
use crate::cli::access::hosts::Hosts;
use crate::cli::access::spooled;
use crate::cli::args::Put;
use crate::cli::term::screen::escaped;
use config::Config;
use model::{Class, JobId, NewJob, Payload, PoolStatus, PutNote, QueueName, Subject, Why};

/// Why no pool runs the jobs of a queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nobody {
    /// A supervisor runs here, but no pool of it takes the queue. Has the queues that it takes, if they are known.
    NoPool(BTreeSet<QueueName>),
    /// No supervisor runs here.
    NoSupervisor {
        /// The socket without a listener.
        socket: String,
        /// The store in which the jobs wait.
        store: String,
        /// The user of the command.
        uid: u32,
        /// Whether root seems to have a supervisor, which this user cannot reach.
        of_root: bool,
    },
    /// The supervisor here has its jobs in another store: what it says of that, and the store of the command.
    Another(String, String),
    /// No supervisor runs, and the put waits in its spool: what to say of that.
    Spooled((String, String)),
    /// No supervisor that shares this broker takes the queue.
    NoneOf(String),
}

impl Nobody {
    /// Finds the reason; None = a pool takes jobs from the queue, or that is not known. `unserved` is the supervisor's
    /// answer about it.
    pub(super) async fn of(
        config: &Config,
        access: &Access,
        queue: &QueueName,
        unserved: bool,
    ) -> Option<Nobody> {
        match access {
            Access::Api(..) if !unserved => None,
            Access::Api(api, _) => {
                let pools = api.status().await.map(|status| status.pools).unwrap_or_default();
                Some(Nobody::NoPool(pools.into_iter().flat_map(|pool| pool.queues).collect()))
            }
            Access::Store(_) if config.broker.card().shared => {
                let hosts = Hosts::of(access).await;
                // A broker that does not show its supervisors says nothing about who takes the queue.
                let nobody = hosts.shared && hosts.that_take(queue).is_empty();
                nobody.then(|| Nobody::NoneOf(config.broker.to_string()))
            }
            Access::Spool(spool) => Some(Nobody::Spooled(spooled::note(spool))),
            Access::Store(_) => {
                if let Ok(client) = client(config)
                    && let Ok(Some(other)) = another(config, &client).await
                {
                    return Some(Nobody::Another(other.message, config.broker.to_string()));
                }
                let roots = Path::new(OF_ROOT);
                Some(Nobody::NoSupervisor {
                    socket: config.socket().display().to_string(),
                    store: config.broker.to_string(),
                    uid: nix::unistd::geteuid().as_raw(),
                    // Another user cannot look into it; that it is there is all that can be known.
                    of_root: config.run_dir != roots && roots.exists(),
                })
            }
        }
    }

    /// The reason in words, and what to do.
    pub(super) fn words(&self, queue: &QueueName) -> (String, String) {
        match self {
            Nobody::NoPool(taken) => {
                let PutNote { note, hint, .. } = PutNote::no_pool(queue, taken);
                (note, hint.unwrap_or_default())
            }
            Nobody::NoSupervisor { socket, store, uid, of_root } => {
                let roots = if *of_root { "; root may have one: sudo taskvisor …" } else { "" };
                (
                    format!(
                        "no supervisor runs here: nobody listens on {socket} (uid {uid}); jobs wait in {store}"
                    ),
                    format!(
                        "start one: taskvisor start; one with other directories is found by --run-dir and --state-dir{roots}"
                    ),
                )
            }
            Nobody::Another(why, broker) => (
                format!("{why}: what is put there waits"),
                format!(
                    "leave -b and TASKVISOR_BROKER away for its jobs; or start one for these, with directories of its own: \
                         taskvisor --run-dir DIR --state-dir DIR start -b {broker}"
                ),
            ),
            Nobody::Spooled(said) => said.clone(),
            Nobody::NoneOf(broker) => (
                format!("no supervisor on {broker} takes jobs from queue '{queue}': what is put there waits"),
                "taskvisor status --fleet shows them and their queues".into(),
            ),
        }
    }
}

/// The run directory of root's supervisor.
const OF_ROOT: &str = "/run/taskvisor";

/// Prints a note if something is known to keep the jobs of a put from running; `notes` is what the supervisor has said.
pub(super) async fn note_put(
    config: &Config,
    access: &Access,
    typed: &Put,
    (job, put): (&JobId, &NewJob),
    notes: &[PutNote],
) {
    let queue = &put.queue;
    if let Some(PutNote { note, hint, class, .. }) = notes.first() {
        let meant = meant(typed).filter(|_| class.is_none());
        say(note, &meant.or_else(|| hint.clone()).unwrap_or_default());
    } else if let Some(nobody) = Nobody::of(config, access, queue, false).await {
        let (what, hint) = nobody.words(queue);
        say(&what, &meant(typed).unwrap_or(hint));
    } else if let (Access::Store(_), Payload::Data(_)) = (access, &put.payload)
        && let Some(known) = known_instead(access, queue, &put.class).await
    {
        say_unknown(queue, &put.class, &known);
    } else if let (Access::Api(api, _), Payload::Exec(exec), None) = (access, &put.payload, &config.remote)
        && let dir = Path::new(OsStr::from_bytes(&exec.cwd.0))
        && let Some(closed) = closed(dir)
        && let Ok(why) = api.why(&Subject::Job(job.clone())).await
    {
        // Pools without a user of their own run as the owner of the socket.
        let daemon = config.socket().metadata().map_or(0, |socket| socket.uid());
        let mut pools = why.pools.iter().map(|(pool, _)| pool);
        if let Some((pool, user)) = pools.find_map(|pool| Some((pool, cannot_enter(pool, daemon, &closed)?)))
        {
            let what = format!(
                "pool {} runs jobs as {user}, who may not enter {}: the job will fail",
                pool.name, closed.dir
            );
            say(&what, "put it from a directory that all may enter: cd / && taskvisor put …");
        }
    }
}

/// The classes that the workers on a queue know, if that is known and `class` is none of them.
async fn known_instead(access: &Access, queue: &QueueName, class: &Class) -> Option<Vec<Class>> {
    let Access::Api(api, _) = access else { return Hosts::of(access).await.known_instead(queue, class) };
    let mut all = Vec::new();
    for pool in api.status().await.ok()?.pools.iter().filter(|pool| pool.queues.contains(queue)) {
        let known = api.why(&Subject::Pool(pool.name.clone())).await.ok()?.known;
        // A list of that length is cut: the class may be among the rest.
        if known.is_empty() || known.len() >= Why::KNOWN_MAX || known.contains(class) {
            return None;
        }
        all.extend(known);
    }
    Some(all).filter(|all| !all.is_empty())
}

/// Prints a note if no pool takes the jobs of a recurring job, or no worker knows their class.
pub(super) async fn note_recurring(config: &Config, access: &Access, job: &NewJob) {
    let queue = &job.queue;
    let unserved = match access {
        Access::Store(_) | Access::Spool(_) => false,
        Access::Api(api, _) => {
            let hosts = Hosts::of(access).await;
            let served = api
                .status()
                .await
                // Without an answer there is nothing to note.
                .map_or(true, |status| status.pools.iter().any(|pool| pool.queues.contains(queue)));
            !served && (!hosts.shared || hosts.that_take(queue).is_empty())
        }
    };
    if let Some(nobody) = Nobody::of(config, access, queue, unserved).await {
        let (what, hint) = nobody.words(queue);
        say(&what, &hint);
    } else if let Payload::Data(_) = job.payload
        && let Some(known) = known_instead(access, queue, &job.class).await
    {
        say_unknown(queue, &job.class, &known);
    }
}

fn say_unknown(queue: &QueueName, class: &Class, known: &[Class]) {
    let PutNote { note, hint, .. } = PutNote::unknown(queue, class, known);
    say(&note, &hint.unwrap_or_default());
}

pub(super) fn say(what: &str, hint: &str) {
    eprintln!("note: {}", escaped(what));
    if !hint.is_empty() {
        eprintln!("hint: {}", escaped(hint));
    }
}

/// The command that was probably meant, if the typed queue is a program: `put echo hello`.
pub(super) fn meant(typed: &Put) -> Option<String> {
    let (queue, class) = (typed.queue.as_deref()?, typed.class.as_deref()?);
    let data = typed.data.as_ref().map(|data| format!(" {}", data.to_string_lossy())).unwrap_or_default();
    is_program(queue).then(|| format!("did you mean: taskvisor put -- {queue} {class}{data}"))
}

/// Whether a shell would find a program of this name.
fn is_program(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_one =
        |path: &Path| path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    match name.contains('/') {
        true => is_one(Path::new(name)),
        false => std::env::split_paths(&paths).any(|dir| is_one(&dir.join(name))),
    }
}

/// A directory that not all users may enter.
struct Closed {
    dir: String,
    owner: u32,
    mode: u32,
}

/// The first directory on the path to this one that others than its owner and group may not enter.
fn closed(dir: &Path) -> Option<Closed> {
    let above: Vec<&Path> = dir.ancestors().collect();
    // From the root on: the first closed directory is the one that stops a user.
    above.into_iter().rev().find_map(|dir| {
        let found = dir.metadata().ok().filter(|found| found.mode() & 0o001 == 0)?;
        Some(Closed { dir: dir.display().to_string(), owner: found.uid(), mode: found.mode() })
    })
}

/// The user of a pool, if that user may not enter; `daemon` is the supervisor's user. A group may enter, for all we
/// know.
fn cannot_enter(pool: &PoolStatus, daemon: u32, closed: &Closed) -> Option<String> {
    let (uid, name) = match &pool.user {
        Some(name) => (nix::unistd::User::from_name(name).ok()??.uid.as_raw(), name.clone()),
        None => (daemon, format!("uid {daemon}")),
    };
    let may = uid == 0 || closed.mode & 0o010 != 0 || (uid == closed.owner && closed.mode & 0o100 != 0);
    (!may).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_missing_supervisor_and_what_to_do() {
        let words = |nobody: Nobody| nobody.words(&"mial".into());
        let (what, hint) = words(Nobody::NoPool(["default".into(), "mail".into()].into()));
        assert_eq!(what, "no pool here takes jobs from queue 'mial': what is put there waits");
        assert_eq!(hint, "did you mean 'mail'?");
        let (_, hint) = words(Nobody::NoPool(["default".into(), "video".into()].into()));
        assert_eq!(hint, "known here: default, video");
        let missing = |of_root| Nobody::NoSupervisor {
            socket: "/tmp/taskvisor-7/ctl.sock".into(),
            store: "sqlite:/home/u/store.db".into(),
            uid: 7,
            of_root,
        };
        let (what, hint) = words(missing(false));
        assert!(what.contains("nobody listens on /tmp/taskvisor-7/ctl.sock (uid 7)"), "{what}");
        assert!(what.contains("jobs wait in sqlite:/home/u/store.db"), "{what}");
        assert!(!hint.contains("sudo") && words(missing(true)).1.contains("sudo"), "{hint}");
    }

    #[test]
    fn directory_without_search_permission_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a");
        std::fs::create_dir(&inner).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let found = closed(&inner).unwrap();
        assert_eq!(found.dir, dir.path().display().to_string(), "mode 700 of the directory above");
        let pool: PoolStatus = serde_json::from_value(serde_json::json!({
            "name": "default", "mode": "fork", "queues": [], "probing": null, "slots": []
        }))
        .unwrap();
        assert_eq!(cannot_enter(&pool, 0, &found), None);
        assert_eq!(cannot_enter(&pool, found.owner, &found), None);
        assert_eq!(cannot_enter(&pool, found.owner + 1, &found), Some(format!("uid {}", found.owner + 1)));
        assert!(closed(Path::new("/")).is_none());
    }
}
