//! Commands of `pi ext grants` that messages suggest.

/// Formats the command that gives grants to an extension, quoted for a shell.
pub fn allow_command(extension: &str, grants: &[String]) -> String {
    let describe = std::iter::once(extension).chain(grants.iter().map(String::as_str)).map(shell_word);
    format!("pi ext grants allow {}", describe.collect::<Vec<_>>().join(" "))
}

/// Formats the command that revokes answers about an extension, quoted for a shell.
pub fn revoke_command(extension: &str, answers: &[String]) -> String {
    let describe = std::iter::once(extension).chain(answers.iter().map(String::as_str)).map(shell_word);
    format!("pi ext grants revoke {}", describe.collect::<Vec<_>>().join(" "))
}

fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    let plain = !word.is_empty() && word.chars().all(is_plain);
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
