//! Commands of sed: `s/search/replace/flags`.

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sed {
    /// Text or expression to search for, with its separators unescaped.
    pub search: String,
    /// Replacement, with its separators unescaped.
    pub replace: String,
    /// Any of `g`, `i`, `m`, `s`, `v`.
    pub flags: String,
}

/// Parses a chain of commands as models write them. The separator may be any character except letters, digits and blanks; blanks,
/// semicolons or line ends separate commands. Returns an empty list if the text is not a chain of commands.
///
/// ```
/// use pijs_dialect_rummy::pattern::parse_sed;
///
/// let chain = parse_sed(r"s/a \/ b/c/g; s/d/e/");
/// assert_eq!((chain[0].search.as_str(), chain[0].flags.as_str()), ("a / b", "g"));
/// assert_eq!(chain[1].replace, "e");
/// ```
pub fn parse_sed(text: &str) -> Vec<Sed> {
    let mut commands = Vec::new();
    let mut rest = text;
    let Some(separator) = rest.strip_prefix('s').and_then(|after| after.chars().next()) else { return commands };
    if separator.is_alphanumeric() || separator == '_' || separator.is_whitespace() {
        return commands;
    }
    let head = format!("s{separator}");
    while let Some(after) = rest.strip_prefix(head.as_str()) {
        let (search, after) = until(after, separator);
        let Some(after) = after else { break };
        let (replace, after) = until(after, separator);
        let tail = after.unwrap_or_default();
        let flags: String = tail.chars().take_while(|flag| "gimsv".contains(*flag)).collect();
        // The `s` of the next command is not a flag.
        let flags = if flags.ends_with('s') && tail[flags.len()..].starts_with(separator) {
            flags[..flags.len() - 1].to_owned()
        } else {
            flags
        };
        let unescape = |part: &str| part.replace(&format!("\\{separator}"), separator.encode_utf8(&mut [0; 4]));
        commands.push(Sed { search: unescape(search), replace: unescape(replace), flags });
        rest = tail.find(head.as_str()).map_or("", |next| &tail[next..]);
    }
    commands
}

/// Splits at the first separator that is not preceded by a backslash.
fn until(text: &str, separator: char) -> (&str, Option<&str>) {
    let mut is_escaped = false;
    for (place, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == separator => return (&text[..place], Some(&text[place + character.len_utf8()..])),
            _ => {}
        }
    }
    (text, None)
}

/// Parses one command that is used as a pattern: only slashes are separators, and nothing is unescaped.
pub(super) fn simple(pattern: &str) -> Option<(String, String, String)> {
    let rest = pattern.strip_prefix("s/")?;
    let mut parts = vec![String::new()];
    let mut before = '/';
    for character in rest.chars() {
        if character == '/' && before != '\\' {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(character);
        }
        before = character;
    }
    let mut parts = parts.into_iter();
    let (search, replace) = (parts.next()?, parts.next()?);
    Some((search, replace, parts.next().unwrap_or_default()))
}
