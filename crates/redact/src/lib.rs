//! Redacts secrets in logs, the ledger and terminal output.
//!
//! Two rules apply. By key, it redacts a member whose key contains one of the words of `docs/spec/hostcalls.md` as a whole
//! segment (`api_key`, `apiKey`, `X-Api-Key`; `token`, not `totalTokens`). By value, it redacts text with a known secret (also in
//! base64, hexadecimal, a URL or JSON), an assignment to a name of the first rule (`?api_key=...`, `password: ...`), the value of
//! an option that takes one (`--api-key VALUE`), the password of a URL, a private key in PEM, or a common form of credential. A
//! secret that is split over two fields or encoded in any other way is not recognised.

#![warn(missing_docs)]
#![warn(clippy::disallowed_methods)]

mod flags;
mod secrets;
mod substitute;
mod unescaped;

pub use secrets::are_in;
pub use substitute::Substitutes;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// Replacement of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// Minimum length of a secret in bytes; shorter values are likely to be ordinary words.
const MIN_SECRET: usize = 6;
/// Minimum length in bytes of an MCP server's setting that is treated as a secret; shorter ones are switches.
const MIN_SETTING: usize = 4;
/// Minimum number of characters after a credential's prefix.
const MIN_CREDENTIAL: usize = 12;

const WORDS: &[&[&str]] = &[
    &["api", "key"],
    &["apikey"],
    &["token"],
    &["authorization"],
    &["cookie"],
    &["cookies"],
    &["password"],
    &["passwd"],
    &["passphrase"],
    &["secret"],
    &["secrets"],
    &["private", "key"],
    &["privatekey"],
    &["credential"],
    &["credentials"],
    &["bearer"],
];

const CREDENTIAL_PREFIXES: &[&str] = &[
    "Bearer ",
    "bearer ",
    "Basic ",
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "npm_",
    "AKIA",
    "AIza",
    "eyJ",
    "ASIA",
    "Token ",
    "token ",
    "dckr_pat_",
    "ghr_",
    "gsk_",
    "hf_",
    "pypi-",
    "rk_live_",
    "sk_live_",
    "sk_test_",
    "xai-",
    "xapp-",
    "xoxa-",
    "xoxs-",
    "ya29.",
];

/// Start of the first line of a PEM key; a label follows.
const PEM: &str = "-----BEGIN ";
const PRIVATE: &str = "PRIVATE KEY";
/// Maximum length of a label, in characters.
const MAX_LABEL: usize = 64;

/// Substrings of keys, one of which every secret key contains in any spelling. Checking for them rejects nearly every key
/// quickly.
const HINTS: &[&[u8]] = &[b"key", b"token", b"auth", b"cookie", b"pass", b"secret", b"credential", b"bearer"];

/// Maximum length of a name before `=` or `:` that is checked.
pub(crate) const MAX_NAME: usize = 64;

/// Returns whether a member of this name holds a secret.
pub fn is_secret_key(key: &str) -> bool {
    if !pijs_protocol::guard!(LedgerRedactKey) {
        return false;
    }
    if !is_hinted(key) {
        return false;
    }
    let segments = segments(key);
    WORDS.iter().any(|words| segments.windows(words.len()).any(|window| window == *words))
}

/// Returns whether `key` may be the name of a secret. A cheap check before [`is_secret_key`] that may have false positives.
pub(crate) fn is_hinted(key: &str) -> bool {
    let hinted = |hint: &&[u8]| key.as_bytes().windows(hint.len()).any(|window| window.eq_ignore_ascii_case(hint));
    // ASCII case folding is enough: two characters fold differently, and occur in no name.
    HINTS.iter().any(hinted)
}

/// Splits `xApiKey`, `X-API-KEY`, `x_api_key` into lower-case words.
pub(crate) fn segments(key: &str) -> Vec<String> {
    let mut segments: Vec<String> = Vec::new();
    let mut fresh = true;
    let mut previous_lower = false;
    let mut characters = key.chars().peekable();
    while let Some(character) = characters.next() {
        if !character.is_alphanumeric() {
            fresh = true;
            previous_lower = false;
            continue;
        }
        let upper = character.is_uppercase();
        // `APIKey`: the last capital letter of a run begins the next word.
        let ends_run = upper && !previous_lower && characters.peek().is_some_and(|next| next.is_lowercase());
        if fresh || (upper && previous_lower) || ends_run {
            segments.push(String::new());
        }
        if let Some(segment) = segments.last_mut() {
            segment.extend(character.to_lowercase());
        }
        fresh = false;
        previous_lower = !upper;
    }
    segments
}

/// The known secrets. Clones share them.
#[derive(Debug, Clone)]
pub struct Redactor {
    known: Arc<RwLock<Arc<Secrets>>>,
}

#[derive(Debug)]
struct Secrets {
    /// Secrets as they were added.
    given: Vec<String>,
    /// Secrets in all encodings.
    all: Vec<String>,
    /// Matches all secrets and prefixes in one pass. In nearly every text it finds none.
    any: AhoCorasick,
    /// Matches the secrets alone, for unescaped text.
    escaped: AhoCorasick,
}

impl Secrets {
    fn new(given: Vec<String>) -> Self {
        let mut all = Vec::new();
        for secret in &given {
            all.extend(encodings(secret));
            all.push(secret.clone());
        }
        // Longest first, so that a secret is replaced before one that it contains.
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        let words = all.iter().map(String::as_str).chain(CREDENTIAL_PREFIXES.iter().copied());
        // Fails only for more patterns than fit into memory.
        let any = AhoCorasick::new(words.chain([PEM])).expect("the secrets stay below the automaton's limit");
        let longest = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&all);
        Self { given, escaped: longest.expect("the secrets stay below the automaton's limit"), all, any }
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new([])
    }
}

impl Redactor {
    /// Creates a redactor for these values. Values too short to distinguish from ordinary words are left out.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let given = secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET).collect();
        Self { known: Arc::new(RwLock::new(Arc::new(Secrets::new(given)))) }
    }

    /// Adds a secret, for example a key that a command printed or a renewed token.
    pub fn learn(&self, secret: &str) {
        self.learn_from(secret, MIN_SECRET);
    }

    /// Adds the value of a setting that may be a key, even a short one, except for `true` and `false`.
    pub fn learn_setting(&self, value: &str) {
        if !matches!(value, "true" | "false") {
            self.learn_from(value, MIN_SETTING);
        }
    }

    fn learn_from(&self, secret: &str, shortest: usize) {
        if secret.len() < shortest || self.known().given.iter().any(|known| known == secret) {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let given = known.given.iter().cloned().chain([secret.to_owned()]).collect();
        *known = Arc::new(Secrets::new(given));
    }

    fn known(&self) -> Arc<Secrets> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether [`Redactor::text`] would change the text.
    pub fn finds(&self, text: &str) -> bool {
        let may = self.known().any.is_match(text) || unescaped::is_escaped(text) || text.contains(SCHEME);
        (may || assigns(text) || flags::may_be_in(text)) && self.text(text) != text
    }

    /// Redacts text.
    pub fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        if !pijs_protocol::guard!(LedgerRedactValue) {
            return out;
        }
        let known = self.known();
        if known.any.is_match(text) {
            for secret in &known.all {
                if out.contains(secret.as_str()) {
                    out = out.replace(secret.as_str(), REDACTED);
                }
            }
            for prefix in CREDENTIAL_PREFIXES {
                out = redact_credentials(&out, prefix);
            }
            out = replace_ranges(&out, private_keys(&out));
        }
        if !known.all.is_empty() && unescaped::is_escaped(&out) && pijs_protocol::guard!(LedgerRedactEscaped) {
            out = replace_ranges(&out, unescaped::places(&out, &known.escaped));
        }
        if out.contains(SCHEME) {
            out = redact_passwords(&out);
        }
        if flags::may_be_in(&out) {
            out = replace_ranges(&out, flags::values(&out));
        }
        if assigns(&out) { redact_assignments(&out) } else { out }
    }

    /// Redacts a value, by key and by value.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => {
                let value = |(index, item)| match flags::is_value(items, index) {
                    true => Value::from(REDACTED),
                    false => self.value(item),
                };
                items.iter().enumerate().map(value).collect()
            }
            Value::Object(members) => Value::Object(self.members(members)),
            other => other.clone(),
        }
    }

    /// Redacts the members of an object.
    pub fn members(&self, members: &Map<String, Value>) -> Map<String, Value> {
        members
            .iter()
            .map(|(key, value)| {
                let value = if is_secret_key(key) { Value::from(REDACTED) } else { self.value(value) };
                (self.text(key), value)
            })
            .collect()
    }
}

fn redact_credentials(text: &str, prefix: &str) -> String {
    map_credentials(text, prefix, |_| REDACTED.to_owned())
}

/// Replaces everything that looks like a credential of this prefix, including the prefix. `replace` receives the text after the
/// prefix.
fn map_credentials(text: &str, prefix: &str, replace: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (before, found) = rest.split_at(at);
        let body = &found[prefix.len()..];
        let starts_word = !before.ends_with(|c: char| c.is_ascii_alphanumeric());
        // Computed only for a match that is redacted, so that the scan stays linear.
        let length = if starts_word { credential_length(body) } else { 0 };
        out.push_str(before);
        if length >= MIN_CREDENTIAL {
            out.push_str(&replace(&body[..length]));
            rest = &body[length..];
        } else {
            out.push_str(prefix);
            rest = body;
        }
    }
    out.push_str(rest);
    out
}

fn credential_length(body: &str) -> usize {
    body.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.~+/=".contains(c))).unwrap_or(body.len())
}

/// Replaces the given ranges (sorted, disjoint) with the redaction mark.
fn replace_ranges(text: &str, places: impl IntoIterator<Item = Range<usize>>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for place in places {
        out.push_str(&text[done..place.start]);
        out.push_str(REDACTED);
        done = place.end;
    }
    out.push_str(&text[done..]);
    out
}

/// Returns the ranges of private keys, from the first line to the last, or to the end of the text.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(PEM).map(|at| from + at) {
        let after = at + PEM.len();
        let label = text[after..].find("-----").map(|length| &text[after..after + length]);
        let label = label.filter(|label| label.len() <= MAX_LABEL && label.contains(PRIVATE));
        from = after;
        let Some(label) = label else { continue };
        let body = after + label.len() + 5;
        let last = text[body..].find("-----END ").map(|at| body + at + "-----END ".len());
        let end = last.and_then(|last| text[last..].find("-----").map(|at| last + at + 5)).unwrap_or(text.len());
        found.push(at..end);
        from = end;
    }
    found
}

/// Separator before the authority of a URL.
const SCHEME: &str = "://";

/// Redacts passwords in URLs: `postgres://user:PASSWORD@host/`.
fn redact_passwords(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(SCHEME) {
        out.push_str(before);
        out.push_str(SCHEME);
        let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '`' | '\\' | '<' | '>');
        let authority = &after[..after.find(ends).unwrap_or(after.len())];
        let credentials = authority.rsplit_once('@').and_then(|(credentials, _)| credentials.split_once(':'));
        rest = after;
        if let Some((user, password)) = credentials.filter(|(_, password)| !password.is_empty()) {
            out.push_str(user);
            out.push(':');
            out.push_str(REDACTED);
            rest = &after[user.len() + 1 + password.len()..];
        }
    }
    out.push_str(rest);
    out
}

/// Returns the encodings of a secret: form encoding, in which a blank is a plus, hexadecimal and base64. Escapes need no encoding
/// here, because text is unescaped before the search. Inside a longer text base64 has three alignments, which differ in the first
/// and last characters; these are left out.
fn encodings(secret: &str) -> Vec<String> {
    let mut found = vec![secret.replace(' ', "+"), hex::encode(secret), hex::encode_upper(secret)];
    for alphabet in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        for shift in 0..3 {
            let mut padded = vec![0; shift];
            padded.extend_from_slice(secret.as_bytes());
            let text = alphabet.encode(&padded);
            // Characters that share bits with the bytes before and after the secret.
            let first = (shift * 8).div_ceil(6);
            let last = padded.len() * 8 / 6;
            found.extend(text.get(first..last).map(str::to_owned));
        }
    }
    found.retain(|text| text.len() >= MIN_SECRET && text != secret);
    found
}

/// Returns whether a name before `=` or `:` may be that of a secret.
fn assigns(text: &str) -> bool {
    names(text).any(|(name, _)| is_secret_key(name))
}

/// Returns the names before `=` and `:`, each with the offset after the sign.
fn names(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.match_indices(['=', ':']).filter_map(|(at, _)| {
        let before = text[..at].trim_end_matches(['"', '\'', ' ', '\\']);
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let start = before
            .char_indices()
            .rev()
            .take(MAX_NAME)
            .take_while(|(_, character)| word(*character))
            .last()
            .map(|(at, _)| at)?;
        Some((&before[start..], at + 1))
    })
}

fn redact_assignments(text: &str) -> String {
    let mut out = String::new();
    let mut done = 0;
    for (name, after) in names(text) {
        if after < done || !is_secret_key(name) {
            continue;
        }
        let rest = &text[after..];
        let value = rest.trim_start_matches([' ', '"', '\'', '\\']);
        let start = after + rest.len() - value.len();
        let length = secret_length(value, &rest[..rest.len() - value.len()]);
        if length > 0 && !value.starts_with(REDACTED) {
            out.push_str(&text[done..start]);
            out.push_str(REDACTED);
            done = start + length;
        }
    }
    out.push_str(&text[done..]);
    out
}

/// Returns the length of `value` up to the quote that closes the one at the end of `before`; `None` without a quote there.
pub(crate) fn quoted_length(value: &str, before: &str) -> Option<usize> {
    let quote = before.chars().next_back().filter(|c| matches!(c, '"' | '\''))?;
    // Inside quoted text, the quotes are escaped.
    let is_escaped = before[..before.len() - 1].ends_with('\\');
    let closing = value.match_indices(quote).map(|(at, _)| at);
    let mut closing = closing.filter(|at| value[..*at].ends_with('\\') == is_escaped);
    Some(closing.next().map_or(value.len(), |at| at - usize::from(is_escaped)))
}

/// Returns the length of a secret at the start of `value`: everything between quotes or brackets, otherwise one word. `before`
/// ends with the opening quote, if there is one.
fn secret_length(value: &str, before: &str) -> usize {
    if let Some(length) = quoted_length(value, before) {
        return length;
    }
    if value.starts_with(['{', '[']) {
        let mut depth = 0_usize;
        for (at, character) in value.char_indices() {
            match character {
                '{' | '[' => depth += 1,
                '}' | ']' if depth == 1 => return at + 1,
                '}' | ']' => depth -= 1,
                _ => {}
            }
        }
        return value.len();
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ',' | ';' | '}' | ')' | '\\' | '<');
    let length = value.find(ends).unwrap_or(value.len());
    // In `Authorization: Basic dXNlcg==` the scheme is a separate word.
    let scheme = &value[..length];
    if !["basic", "bearer", "digest", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return length;
    }
    let credential = value[length..].trim_start_matches(' ');
    value.len() - credential.len() + credential.find(ends).unwrap_or(credential.len())
}

#[cfg(test)]
mod tests;
