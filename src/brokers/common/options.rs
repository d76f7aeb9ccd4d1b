//! Options as they are shown to people.

use model::verb::OptionShown;
use model::{OptionName, OptionsInForce, QueueName};

/// The options in force: first those for all queues, then those of single queues.
pub fn shown(options: &OptionsInForce) -> Vec<OptionShown> {
    let shown = |queue: Option<&QueueName>, name: OptionName, is_set| OptionShown {
        name: name.to_string(),
        queue: queue.cloned(),
        value: options.value(queue, name).to_string(),
        is_set,
        does: name.does().into(),
    };
    let is_set = |name| options.iter().any(|(queue, set, _)| queue.is_none() && set == name);
    let all = OptionName::ALL.into_iter().map(|name| shown(None, name, is_set(name)));
    let of_queues = options.iter().filter(|(queue, ..)| queue.is_some());
    all.chain(of_queues.map(|(queue, name, _)| shown(queue, name, true))).collect()
}
