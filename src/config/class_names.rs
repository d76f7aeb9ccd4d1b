//! Names of classes in settings.

use super::wrong::Wrong;
use model::Class;

/// The names under `key`: whole ones, or prefixes with one `*` at the end.
pub(super) fn classes(key: &'static str, names: Vec<String>) -> Result<Vec<Class>, Wrong> {
    for name in &names {
        if name.is_empty() {
            return Err(Wrong::new(key, format!("{key} holds a class without a name")));
        }
        if name.strip_suffix('*').unwrap_or(name).contains('*') {
            let message = format!("'{name}' in {key} has a * that is not its last letter");
            return Err(Wrong::new(key, message).hint("give whole names, or a beginning and one *: mail.*"));
        }
    }
    Ok(names.into_iter().map(Class::from).collect())
}
