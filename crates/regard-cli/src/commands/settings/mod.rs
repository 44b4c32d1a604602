//! What each setting means, in a line.

pub(super) mod tag;
pub(super) mod translate;

/// What `section.key` means, by a task's list.
pub(super) fn meaning(
    meanings: &[(&str, &'static str)],
    section: &str,
    key: &str,
) -> Option<&'static str> {
    let wanted = format!("{section}.{key}");
    meanings.iter().find(|(key, _)| *key == wanted).map(|(_, meaning)| *meaning)
}
