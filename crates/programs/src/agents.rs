//! Finds the files that a command line of `pi` names with its options.

/// Options whose value is a text, or the path of a file or folder that `pi` reads.
const READ: &[&str] = &["--append-system-prompt", "--prompt-template", "--skill", "--system-prompt"];

/// Options whose value is the path of a file or folder that `pi` writes.
const WRITTEN: &[&str] = &["--export", "--log-json", "--session", "--session-dir", "--tape"];

/// A file or folder that a command line of `pi` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentFile<'a> {
    /// The option; empty for `@FILE`.
    pub option: &'a str,
    /// The path as written.
    pub file: &'a str,
    /// Whether `pi` writes it.
    pub is_written: bool,
}

impl AgentFile<'_> {
    /// Returns whether the file is an extension.
    pub fn is_extension(&self) -> bool {
        names_extension(self.option)
    }
}

/// Returns the files that a command line of `pi` names.
pub fn files_of_agent<'a>(words: &'a [&'a str]) -> impl Iterator<Item = AgentFile<'a>> {
    let is_file_option = |option: &str| READ.contains(&option) || WRITTEN.contains(&option) || names_extension(option);
    words.iter().enumerate().filter_map(move |(at, word)| {
        let joined = word.split_once('=').filter(|(option, _)| option.starts_with("--") && is_file_option(option));
        // Letters after `-e` in the same argument are its value.
        let attached = word.find('e').map(|letter| word.split_at(letter + 1));
        let attached = attached
            .filter(|(letters, file)| !letters.starts_with("--") && names_extension(letters) && !file.is_empty());
        let before = at.checked_sub(1).map(|before| (words[before], *word));
        let before = before.filter(|(option, _)| is_file_option(option));
        let mentioned = word.strip_prefix('@').map(|file| ("", file));
        let (option, file) = joined.or(attached).or(before).or(mentioned)?;
        Some(AgentFile { option, file, is_written: WRITTEN.contains(&option) })
    })
}

/// Returns the id of a session in `--session ID`, which selects any session of the user instead of a file.
pub fn session_by_id<'a>(words: &[&'a str]) -> Option<&'a str> {
    let values = words.iter().enumerate().filter_map(|(at, word)| match word.split_once('=') {
        Some(("--session", value)) => Some(value),
        None if *word == "--session" => words.get(at + 1).copied(),
        _ => None,
    });
    values.into_iter().find(|value| !value.contains('/') && !value.ends_with(".jsonl"))
}

/// Returns whether an option of `pi` takes an extension as its value: `--extension`, `-e`, or short options that end in `e`.
fn names_extension(option: &str) -> bool {
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    option == "--extension" || letters.is_some_and(|letters| letters.ends_with('e'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_each_spelling() {
        let words =
            ["-p", "@a", "--session=b", "--skill", "c", "-pe", "d", "-pef", "--session-dir", "~/e", "--name", "x"];
        let found: Vec<_> = files_of_agent(&words).map(|found| (found.option, found.file, found.is_written)).collect();
        let expected = [
            ("", "a", false),
            ("--session", "b", true),
            ("--skill", "c", false),
            ("-pe", "d", false),
            ("-pe", "f", false),
            ("--session-dir", "~/e", true),
        ];
        assert_eq!(found, expected);
        assert_eq!(session_by_id(&["--session", "0123"]), Some("0123"));
        assert_eq!(session_by_id(&["--session=./a", "--session", "b.jsonl"]), None);
    }
}
