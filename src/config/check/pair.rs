//! Rules about two pools.

use super::subject::{Advice, Pool, advice};
use model::{Class, ClassFilter, QueueName, Work};

pub(super) type Rule = fn(&Pool, &Pool) -> Option<Advice>;

/// One row for each rule.
pub(super) const RULES: [(&str, Rule); 2] = [("same-work", same_work), ("mixed-queue", mixed_queue)];

fn same_work(first: &Pool, second: &Pool) -> Option<Advice> {
    let queues = |pool: &Pool| {
        let mut queues = pool.settings.queues.clone();
        // Their order says which comes first, not which jobs the pool takes.
        queues.sort();
        queues
    };
    let same = first.spec.work == second.spec.work
        && first.settings.filter == second.settings.filter
        && queues(first) == queues(second);
    let other = &first.settings.name;
    let message =
        format!("it does what pool '{other}' does, from the same queues: which of them runs a job is chance");
    let hint = "make one pool of them, or give each other queues or classes";
    same.then(|| advice("queues", message, hint))
}

/// Workers of one pool take jobs from the queue that only those of the other know.
fn mixed_queue(first: &Pool, second: &Pool) -> Option<Advice> {
    let shared = |queue: &&QueueName| first.settings.queues.contains(queue);
    let queue = second.settings.queues.iter().find(shared)?;
    if first.spec.work == second.spec.work || !overlap(first, second) {
        return None;
    }
    let other = &first.settings.name;
    let message = format!(
        "it and pool '{other}', which runs something else, take each other's jobs from queue '{queue}'"
    );
    let hint = "give each a queue of its own, or say with classes and except_classes whose is what";
    Some(advice("queues", message, hint))
}

/// Whether both pools take some common class, as far as the names show.
fn overlap(first: &Pool, second: &Pool) -> bool {
    let names = |filter: &ClassFilter| [filter.only.clone(), filter.except.clone()].concat();
    // Filters differ only at the names that they have: if they share any class, they share one of these.
    let known = names(&first.settings.filter).into_iter().chain(names(&second.settings.filter));
    // The shortest name for each name with a star, and a name that no one would choose.
    let bare = known.map(|name| Class::from(name.as_str().trim_end_matches('*')));
    let mut samples = bare.chain([Class::from("\u{1}"), Class::from(Class::EXEC)]);
    samples.any(|class| takes(first, &class) && takes(second, &class))
}

fn takes(pool: &Pool, class: &Class) -> bool {
    let programs_alone = pool.spec.work == Work::Programs && class.as_str() != Class::EXEC;
    !programs_alone && pool.settings.filter.matches(class)
}
