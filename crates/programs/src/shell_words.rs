//! Splits text as a shell does: commands, words, quotation marks, variables, braces.

use std::collections::BTreeMap;

/// Characters that end a word of a shell without a blank.
const OPERATORS: &str = ";|&()<>`\n";

/// Maximum number of words that braces expand to.
const MAX_WORDS: usize = 64;

/// Maximum length of a variable's value in bytes.
const MAX_VALUE_BYTES: usize = 4096;

/// Returns whether a word means itself in a shell: it is not empty and has no character that a shell interprets.
pub fn is_plain_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:,@%+=".contains(c))
}

/// Returns whether an argument is text of several words, or uses a shell's syntax.
pub(crate) fn is_text(arg: &str) -> bool {
    arg.contains(|c: char| c.is_whitespace() || "\"'`;|&()<>$\\".contains(c))
}

/// Returns the words of text in any language, without regard to its quotation marks.
pub(crate) fn words_of_text(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'`;|&()<>".contains(c)).filter(|word| !word.is_empty())
}

/// Returns the commands in the text of a shell, each as words without quotation marks.
pub(crate) fn commands_of(text: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(mark), letter) if letter == mark => quote = None,
            (Some('\''), letter) => word.get_or_insert_default().push(letter),
            (_, '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() || OPERATORS.contains(letter) => {
                words.extend(word.take());
                // A redirection is part of its command.
                if OPERATORS.contains(letter) && !matches!(letter, '<' | '>') {
                    commands.push(std::mem::take(&mut words));
                }
            }
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

/// The variables of a shell.
pub(crate) struct Variables {
    home: String,
    values: BTreeMap<String, String>,
}

impl Variables {
    /// Creates the variables `HOME` and `PWD`.
    pub(crate) fn new(home: &str) -> Self {
        let values = [("HOME", home), ("PWD", ".")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { home: home.to_owned(), values: values.into() }
    }

    /// Sets a variable. A value that is longer than any path is left out, because values may repeat each other.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        if value.len() <= MAX_VALUE_BYTES {
            self.values.insert(name.to_owned(), value);
        }
    }

    /// Replaces a leading `~/`, also after `=` and `:`, and known variables. Unknown ones stay.
    pub(crate) fn expand(&self, word: &str) -> String {
        let mut expanded = String::new();
        let mut rest = word;
        while let Some(letter) = rest.chars().next() {
            let is_start = expanded.is_empty() || expanded.ends_with(['=', ':']);
            if is_start && letter == '~' && (rest.len() == 1 || rest[1..].starts_with('/')) {
                expanded.push_str(&self.home);
                rest = &rest[1..];
            } else if let Some((value, after)) = self.variable_at(rest) {
                expanded.push_str(value);
                rest = after;
            } else {
                expanded.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
        expanded
    }

    /// Returns the value of the variable that text begins with, and the text after it.
    fn variable_at<'a>(&'a self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let after = text.strip_prefix('$')?;
        if let Some(braced) = after.strip_prefix('{') {
            let (inner, rest) = braced.split_once('}')?;
            let (name, default) = inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)));
            return Some((self.values.get(name).map(String::as_str).or(default)?, rest));
        }
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        Some((self.values.get(&after[..end])?, &after[end..]))
    }

    /// Returns the words that one word becomes: with variables and braces expanded.
    pub(crate) fn words(&self, word: &str) -> Vec<String> {
        let mut words = Vec::new();
        expand_braces(&self.expand(word), &mut words);
        words
    }
}

/// Adds the words that `{a,b}` in a word expands to. Innermost braces are not nested; `${...}` is no such expansion.
fn expand_braces(word: &str, words: &mut Vec<String>) {
    if words.len() >= MAX_WORDS {
        return;
    }
    let braces = word.match_indices('{').filter(|(at, _)| !word[..*at].ends_with('$')).find_map(|(start, _)| {
        let end = start + word[start..].find('}')?;
        let inner = &word[start + 1..end];
        inner.contains(',').then_some((&word[..start], inner, &word[end + 1..]))
    });
    match braces {
        Some((before, inner, after)) => {
            for choice in inner.split(',') {
                expand_braces(&format!("{before}{choice}{after}"), words);
            }
        }
        None => words.push(word.to_owned()),
    }
}

/// Returns whether a name may match a shell pattern; a set (`[a-c]`) matches any character. Only patterns that begin with a dot
/// match hidden files.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, chars): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen, mut star) = (0, 0, None);
    if name.starts_with('.') && !pattern.starts_with(&['.']) {
        return false;
    }
    while seen < chars.len() {
        let set = (pattern.get(at) == Some(&'[')).then(|| pattern[at..].iter().position(|c| *c == ']')).flatten();
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some('[') if set.is_some() => (at, seen) = (at + set.unwrap_or(0) + 1, seen + 1),
            Some(c) if *c == '?' || *c == chars[seen] => (at, seen) = (at + 1, seen + 1),
            _ => match star {
                Some((back, from)) => {
                    star = Some((back, from + 1));
                    (at, seen) = (back + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_names() {
        for (pattern, name) in [
            ("*", "a"),
            (".e*", ".env"),
            (".en?", ".env"),
            (".[e-f]nv", ".env"),
            ("*.key", "a.b.key"),
            ("a*c*", "abcd"),
            ("[", "["),
        ] {
            assert!(matches_pattern(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*", ".env"), ("?env", ".env"), ("*.ts", "a.key"), ("a", "ab"), ("ab", "a"), ("[a]", "")]
        {
            assert!(!matches_pattern(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn text_is_split_as_a_shell_does() {
        let commands = commands_of("cd 'a b' && x \"c;d\"e f\\ g | y <in\nz");
        let words: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
        assert_eq!(words, [vec!["cd", "a b"], vec!["x", "c;de", "f g"], vec!["y", "in"], vec!["z"]]);
        assert_eq!(commands_of("x ''"), [["x", ""]]);
        assert!(commands_of(" ; ").is_empty());
    }

    #[test]
    fn variables_and_braces_are_expanded() {
        let mut variables = Variables::new("/home/me");
        variables.set("D", "/d".to_owned());
        for (word, expanded) in [
            ("~/x", "/home/me/x"),
            ("--a=~/x", "--a=/home/me/x"),
            ("a~/x", "a~/x"),
            ("$D/x", "/d/x"),
            ("${D}x", "/dx"),
            ("${N:-/n}/x", "/n/x"),
            ("$NONE/x", "$NONE/x"),
            ("${NONE}", "${NONE}"),
            ("$", "$"),
            ("~", "/home/me"),
        ] {
            assert_eq!(variables.expand(word), expanded, "{word}");
        }
        assert_eq!(variables.words("$D/{a,b}/{c,d}"), ["/d/a/c", "/d/a/d", "/d/b/c", "/d/b/d"]);
        assert_eq!(variables.words("{a}"), ["{a}"]);
        assert!(variables.words(&"{a,b}".repeat(20)).len() <= MAX_WORDS);
    }
}
