//! Scopes: the streams, tools and paths that a rule reads.
//!
//! ```text
//! scope: text, thinking, tool, tool:edit(*.ts), tool(**/tests/**), bash
//!        └ a comma outside of brackets and quotes separates tokens
//! ```
//!
//! `text` and `thinking` are streams, `tool` (or `toolcall`) is every tool; any other word is the name of a tool. A glob in
//! parentheses requires a path. Without a scope a rule reads text and every tool.
//!
//! A glob is tested against each path of a call as written, without `./`, absolute, and relative to the working directory, and
//! then against the last component of each; so `*.ts` matches at any depth. Globs are case-sensitive; `*` does not cross `/`.

mod names;

use crate::ast::AstLanguage;
use crate::rule::{Rule, ScopeToken, StreamKind};
use globset::GlobBuilder;
use names::TOOLS;
use regex::Regex;
use std::collections::BTreeSet;

pub(crate) use names::doubt;

/// Maximum length of a glob; each becomes an automaton.
pub const MAX_GLOB: usize = 1_000;
/// Maximum number of scope tokens of one rule; the same limit applies to globs.
pub const MAX_TOKENS: usize = 200;

/// A glob over paths, with the semantics of `Bun.Glob`: braces, classes, `**` for folders, a leading `!` negates.
#[derive(Debug, Clone)]
pub struct PathGlob {
    matcher: Regex,
    is_negated: bool,
}

impl PathGlob {
    /// Compiles a glob.
    ///
    /// # Errors
    ///
    /// Fails with a message if the glob is invalid or longer than [`MAX_GLOB`].
    pub fn new(glob: &str) -> Result<Self, String> {
        if glob.len() > MAX_GLOB {
            return Err(format!("it has {} bytes; the limit is {MAX_GLOB}", glob.len()));
        }
        let positive = glob.trim_start_matches('!');
        let is_negated = (glob.len() - positive.len()) % 2 == 1;
        let mut builder = GlobBuilder::new(positive);
        builder.literal_separator(true).backslash_escape(true).empty_alternates(true);
        let glob = builder.build().map_err(|error| error.kind().to_string())?;
        // The error's text contains the whole expression.
        let too_large = |_| "it is too large or nested too deep".to_owned();
        let matcher = Regex::new(&over_characters(glob.regex())).map_err(too_large)?;
        Ok(Self { matcher, is_negated })
    }

    /// Returns whether the glob matches a text, regardless of path components.
    pub fn is_match(&self, text: &str) -> bool {
        self.matcher.is_match(text) != self.is_negated
    }

    /// Returns whether a path matches: one of its `forms` has to match, as a whole or by its last component. With a leading `!`
    /// none may match.
    fn is_match_path(&self, forms: &BTreeSet<String>) -> bool {
        let is_match = |form: &String| {
            let name = form.rsplit_once('/').map(|(_, name)| name);
            self.matcher.is_match(form) || name.is_some_and(|name| self.matcher.is_match(name))
        };
        forms.iter().any(is_match) != self.is_negated
    }
}

/// Converts a regular expression of globset, which matches bytes, into one that matches characters: `(?-u)^\xc3\xa9[^/]$` becomes
/// `(?s)^é[^/]$`.
fn over_characters(regex: &str) -> String {
    let mut rest = regex.strip_prefix("(?-u)").unwrap_or(regex).as_bytes();
    let mut bytes = b"(?s)".to_vec();
    while let [first, ..] = *rest {
        let length = match rest {
            // Only bytes beyond ASCII are escaped like this.
            [b'\\', b'x', high, low, ..] if let Some(byte) = hex(*high).zip(hex(*low)) => {
                bytes.push(byte.0 << 4 | byte.1);
                4
            }
            // An escaped character that matches itself.
            [b'\\', second, ..] => {
                bytes.extend([first, *second]);
                2
            }
            _ => {
                bytes.push(first);
                1
            }
        };
        rest = &rest[length..];
    }
    String::from_utf8(bytes).expect("globset writes each character as UTF-8")
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Whether a stream is in the scope of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The call is in scope.
    Yes,
    /// The call is out of scope for any path.
    No,
    /// The call is in scope if it has a path that matches.
    NeedsPath,
}

/// The scope and the globs of a rule, compiled.
#[derive(Debug, Clone)]
pub struct CompiledScope {
    text: bool,
    thinking: bool,
    tools: Vec<ToolScope>,
    /// Compiled globs; `None` if the rule has no globs. An invalid glob is left out and matches nothing.
    globs: Option<Vec<PathGlob>>,
}

#[derive(Debug, Clone)]
struct ToolScope {
    name: Option<String>,
    glob: Option<PathGlob>,
}

impl CompiledScope {
    /// Compiles the scope of a rule. Invalid tokens and globs cover nothing.
    pub fn new(rule: &Rule) -> Self {
        let (mut text, mut thinking, mut tools) = (false, false, Vec::new());
        for token in &rule.scope {
            match token {
                ScopeToken::Text => text = true,
                ScopeToken::Thinking => thinking = true,
                ScopeToken::Tool { name, glob: None } => {
                    tools.push(ToolScope { name: name.as_ref().map(|name| name.to_lowercase()), glob: None });
                }
                ScopeToken::Tool { name, glob: Some(glob) } => {
                    if let Ok(glob) = PathGlob::new(glob) {
                        tools.push(ToolScope { name: name.as_ref().map(|name| name.to_lowercase()), glob: Some(glob) });
                    }
                }
                ScopeToken::Unreadable { .. } => {}
            }
        }
        if rule.scope.is_empty() {
            text = true;
            tools.push(ToolScope { name: None, glob: None });
        }
        let globs: Vec<PathGlob> = rule.globs.iter().filter_map(|glob| PathGlob::new(glob).ok()).collect();
        Self { text, thinking, tools, globs: (!rule.globs.is_empty()).then_some(globs) }
    }

    /// Returns whether the scope covers any stream, ignoring the rule's globs.
    pub fn is_reachable(&self) -> bool {
        self.text || self.thinking || !self.tools.is_empty()
    }

    /// Returns whether the rule can fire on any stream: globs require a path, which only tool calls have.
    pub fn can_fire(&self) -> bool {
        match &self.globs {
            None => self.is_reachable(),
            Some(globs) => !globs.is_empty() && !self.tools.is_empty(),
        }
    }

    /// Returns whether the rule can fire on a stream, for some path. `tool` is the name of the called tool.
    pub fn reaches(&self, stream: StreamKind, tool: Option<&str>) -> bool {
        self.matches::<&str>(stream, tool, &[], "/") != Match::No
    }

    /// Returns the streams on which the rule can fire.
    pub fn streams(&self) -> impl Iterator<Item = StreamKind> + '_ {
        let by_scope = [(self.text, StreamKind::Text), (self.thinking, StreamKind::Thinking)];
        // Globs require a path.
        let prose = by_scope.into_iter().filter(|(has, _)| *has && self.globs.is_none());
        prose.chain([(!self.tools.is_empty(), StreamKind::Tool)]).filter(|(has, _)| *has).map(|(_, stream)| stream)
    }

    /// Returns whether a stream is in scope, given the paths of the call that are known so far.
    pub fn matches<P: AsRef<str>>(&self, stream: StreamKind, tool: Option<&str>, paths: &[P], cwd: &str) -> Match {
        let has_scope = match stream {
            StreamKind::Text => self.text,
            StreamKind::Thinking => self.thinking,
            StreamKind::Tool => !self.tools.is_empty(),
        };
        if !has_scope {
            return Match::No;
        }
        let paths: Vec<BTreeSet<String>> = match stream {
            StreamKind::Tool => {
                paths.iter().map(|path| forms(path.as_ref(), cwd)).filter(|forms| !forms.is_empty()).collect()
            }
            StreamKind::Text | StreamKind::Thinking => Vec::new(),
        };
        let holds = |glob: &PathGlob| match paths.is_empty() {
            true => Match::NeedsPath,
            false if paths.iter().any(|forms| glob.is_match_path(forms)) => Match::Yes,
            false => Match::No,
        };
        let by_globs = match &self.globs {
            None => Match::Yes,
            Some(_) if stream != StreamKind::Tool => Match::No,
            Some(globs) => globs.iter().map(holds).fold(Match::No, or),
        };
        if by_globs == Match::No || stream != StreamKind::Tool {
            return by_globs;
        }
        let tool = tool.unwrap_or_default();
        let named =
            self.tools.iter().filter(|scope| scope.name.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(tool)));
        let by_tool = named.map(|scope| scope.glob.as_ref().map_or(Match::Yes, holds)).fold(Match::No, or);
        match (by_tool, by_globs) {
            (Match::No, _) => Match::No,
            (Match::Yes, Match::Yes) => Match::Yes,
            _ => Match::NeedsPath,
        }
    }
}

fn or(a: Match, b: Match) -> Match {
    match (a, b) {
        (Match::Yes, _) | (_, Match::Yes) => Match::Yes,
        (Match::NeedsPath, _) | (_, Match::NeedsPath) => Match::NeedsPath,
        (Match::No, Match::No) => Match::No,
    }
}

/// Lists the forms of a path that globs are tested against.
fn forms(path: &str, cwd: &str) -> BTreeSet<String> {
    let (path, cwd) = (path.replace('\\', "/"), cwd.replace('\\', "/"));
    if path.is_empty() {
        return BTreeSet::new();
    }
    let absolute = if is_absolute(&path) { resolved(&path) } else { resolved(&format!("{cwd}/{path}")) };
    let cwd = resolved(&cwd);
    let relative = absolute.strip_prefix(cwd.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
    let relative = relative.map(str::to_owned);
    let bare = path.trim_start_matches("./").to_owned();
    [Some(path), Some(bare), Some(absolute), relative].into_iter().flatten().filter(|path| !path.is_empty()).collect()
}

fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    path.starts_with('/') || matches!(bytes, [drive, b':', b'/', ..] if drive.is_ascii_alphabetic())
}

/// Resolves `.` and `..` lexically.
fn resolved(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// Splits a list at the commas outside of brackets and quotes. Returns each part with its byte offset, trimmed and without
/// enclosing quotes.
pub(crate) fn split(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut quote, mut last) = (0, None, ' ');
    let mut depths = [0_usize; 3];
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open && last != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depths["([{".find(c).unwrap_or_default()] += 1,
            (None, ')' | ']' | '}') => {
                let depth = &mut depths[")]}".find(c).unwrap_or_default()];
                *depth = depth.saturating_sub(1);
            }
            (None, ',') if depths == [0; 3] => {
                parts.push((start, &text[start..at]));
                start = at + 1;
            }
            (None, _) => {}
        }
        last = c;
    }
    parts.push((start, &text[start..]));
    let trimmed = |(at, part): (usize, &'_ str)| {
        let inner = part.trim_start();
        (at + part.len() - inner.len(), inner.trim_end().len())
    };
    let bare = parts.into_iter().map(trimmed).map(|(at, length)| {
        let part = &text[at..at + length];
        let inner = ['"', '\''].iter().find_map(|&quote| part.strip_prefix(quote)?.strip_suffix(quote));
        match inner {
            Some(inner) => (at + 1 + inner.len() - inner.trim_start().len(), inner.trim()),
            None => (at, part),
        }
    });
    bare.filter(|(_, part)| !part.is_empty()).collect()
}

/// Finds the innermost bracket of a glob that is not closed.
fn unclosed(glob: &str) -> Option<(char, char)> {
    let mut open = Vec::new();
    for c in glob.chars() {
        match c {
            '[' => open.push(('[', ']')),
            '{' => open.push(('{', '}')),
            ']' | '}' if open.last().is_some_and(|&(_, close)| close == c) => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
}

/// Parses one token.
///
/// # Errors
///
/// Fails with a message and a hint if the token is invalid.
pub fn parse_token(token: &str) -> Result<ScopeToken, (String, String)> {
    match token.to_ascii_lowercase().as_str() {
        "text" => return Ok(ScopeToken::Text),
        "thinking" => return Ok(ScopeToken::Thinking),
        "tool" | "toolcall" => return Ok(ScopeToken::Tool { name: None, glob: None }),
        _ => {}
    }
    let (head, glob) = match token.split_once('(') {
        None => (token, None),
        Some((head, rest)) => match rest.strip_suffix(')') {
            Some(glob) if !glob.is_empty() && !glob.contains(')') => {
                (head, Some(glob.trim()).filter(|glob| !glob.is_empty()))
            }
            Some("") => {
                return Err((
                    "has no glob in its parentheses".to_owned(),
                    format!("write `{head}`, or `{head}(*.ts)`"),
                ));
            }
            _ => {
                let (what, help) = match unclosed(rest) {
                    Some((open, close)) => {
                        (format!("has `{open}` without `{close}`"), format!("close it, or write `\\{open}`"))
                    }
                    None => ("has parentheses that are not closed".to_owned(), format!("write `{head}(GLOB)`")),
                };
                return Err((what, help));
            }
        },
    };
    let prefix = head.get(..4).filter(|prefix| prefix.eq_ignore_ascii_case("tool"));
    let name = match (prefix, head.get(4..)) {
        (Some(_), Some("")) => None,
        (Some(_), Some(rest)) if rest.starts_with(':') => Some(&rest[1..]),
        _ => Some(head),
    };
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if name.is_some_and(|name| !is_name(name)) {
        let help = if crate::pattern::is_glob(token) {
            format!("for files write `tool({})`", crate::diagnostic::printable(token))
        } else if token.contains(char::is_whitespace) && token.split_whitespace().all(is_known) {
            let tokens: Vec<&str> = token.split_whitespace().collect();
            format!("separate tokens by commas: `{}`", crate::diagnostic::printable(&tokens.join(", ")))
        } else {
            "write `text`, `thinking`, `tool`, `tool:NAME` or `tool:NAME(GLOB)`".to_owned()
        };
        return Err(("is not a scope".to_owned(), help));
    }
    if let Some(glob) = glob {
        PathGlob::new(glob).map_err(|why| (format!("has a bad glob: {why}"), "fix the glob".to_owned()))?;
    }
    let name = name.map(str::to_lowercase);
    Ok(ScopeToken::Tool { name, glob: glob.map(str::to_owned) })
}

/// Tools of pi whose calls have no path.
const TOOLS_WITHOUT_PATH: [&str; 1] = ["bash"];

/// Returns whether a text is a token for a stream or for a tool of pi.
fn is_known(token: &str) -> bool {
    match parse_token(token) {
        Ok(ScopeToken::Tool { name, .. }) => name.is_none_or(|name| TOOLS.contains(&name.as_str())),
        token => token.is_ok(),
    }
}

/// Returns the reason why a scope token can never match together with globs, if there is one: a path would have to match both.
pub(crate) fn never_matches(token: &ScopeToken, globs: &[String]) -> Option<String> {
    let ScopeToken::Tool { name, glob } = token else { return None };
    let name = name.as_deref().unwrap_or_default();
    if TOOLS_WITHOUT_PATH.contains(&name) && (glob.is_some() || !globs.is_empty()) {
        return Some(format!("calls of `{name}` have no path"));
    }
    let by_scope = extensions(glob.as_deref()?)?;
    let is_apart = |glob: &String| extensions(glob).is_some_and(|by_glob| by_glob.is_disjoint(&by_scope));
    (!globs.is_empty() && globs.iter().all(is_apart)).then(|| "no path matches both its glob and `globs`".to_owned())
}

/// Returns the reason why AST conditions never match under a scope token, if there is one: the path of a call decides the
/// language.
pub(crate) fn has_no_language(token: &ScopeToken) -> Option<String> {
    let ScopeToken::Tool { name, glob } = token else { return None };
    match name {
        Some(name) if TOOLS_WITHOUT_PATH.contains(&name.as_str()) => {
            Some(format!("calls of `{name}` have no path, so the language is unknown"))
        }
        _ => glob
            .as_ref()
            .filter(|glob| is_of_no_language(glob))
            .map(|_| "no file there is in a language that it reads".to_owned()),
    }
}

/// Returns whether a glob names extensions and none of them belongs to a language of AST conditions.
pub(crate) fn is_of_no_language(glob: &str) -> bool {
    let has_language = |extension: &&str| AstLanguage::from_path(&format!("x.{extension}")).is_some();
    extensions(glob).is_some_and(|all| !all.iter().any(has_language))
}

/// Returns the extensions of the paths that a glob matches, if it names them: `ts` and `tsx` for `src/*.{ts,tsx}`.
fn extensions(glob: &str) -> Option<BTreeSet<&str>> {
    let name = glob.rsplit('/').next()?;
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (_, extension) = name.rsplit_once('.').filter(|_| !glob.starts_with('!'))?;
    let all = match extension.strip_prefix('{') {
        Some(list) => list.strip_suffix('}')?.split(',').collect(),
        None => BTreeSet::from([extension]),
    };
    all.iter().all(|extension| is_plain(extension)).then_some(all)
}

#[cfg(test)]
mod tests;
