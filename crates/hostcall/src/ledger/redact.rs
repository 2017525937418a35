//! Keeps secrets out of log and ledger.
//!
//! Two rules: by key, where a key holds one of the words of document 004 as a whole word segment
//! (`api_key`, `apiKey`, `X-Api-Key`; `token`, not `totalTokens`); by value, where text holds a
//! secret the host knows of (also in base64 or URL encoding), an assignment to a name of the first
//! rule (`?api_key=...`, `password: ...`), or something that looks like a common kind of
//! credential. A secret that is split over two fields, or encoded in another way, is not
//! recognised.

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};
use std::sync::{Arc, PoisonError, RwLock};

/// What stands in place of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// Shorter values are too likely to be ordinary words.
const SHORTEST_SECRET: usize = 6;
/// Characters that must follow a credential's prefix.
const SHORTEST_CREDENTIAL: usize = 12;

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
    "-----BEGIN ",
];

/// A secret key holds one of these in any spelling; nearly every key holds none, and is done with.
const HINTS: &[&[u8]] = &[b"key", b"token", b"auth", b"cookie", b"pass", b"secret", b"credential", b"bearer"];

/// Longest name before `=` or `:` that is looked at.
const LONGEST_NAME: usize = 64;

/// Whether a member of this name holds a secret.
pub fn is_secret_key(key: &str) -> bool {
    if !pijs_protocol::guard::is_up("ledger.redact-key") {
        return false;
    }
    let hinted = |hint: &&[u8]| key.as_bytes().windows(hint.len()).any(|window| window.eq_ignore_ascii_case(hint));
    // Only ASCII folds to ASCII, but for two characters that no name is spelled with.
    if !HINTS.iter().any(hinted) {
        return false;
    }
    let segments = segments(key);
    WORDS.iter().any(|words| segments.windows(words.len()).any(|window| window == *words))
}

/// Splits `xApiKey`, `X-API-KEY`, `x_api_key` into lower-case words.
fn segments(key: &str) -> Vec<String> {
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
        // `APIKey`: the last capital of a run begins the next word.
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

/// Values known to be secret. A clone knows what the other one learns.
#[derive(Debug, Clone)]
pub struct Redactor {
    known: Arc<RwLock<Arc<Secrets>>>,
}

#[derive(Debug)]
struct Secrets {
    /// As they were given.
    given: Vec<String>,
    /// These, and what they look like in other writing.
    all: Vec<String>,
    /// All of these and prefixes in one pass: nearly every text holds none, and is done with.
    any: AhoCorasick,
}

impl Secrets {
    fn new(given: Vec<String>) -> Self {
        let mut all = Vec::new();
        for secret in &given {
            all.extend(encodings(secret));
            all.push(secret.clone());
        }
        // Longest first, so that one that contains another goes as a whole.
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        let words = all.iter().map(String::as_str).chain(CREDENTIAL_PREFIXES.iter().copied());
        // Only more patterns than memory holds are refused.
        let any = AhoCorasick::new(words).expect("so many secrets fit");
        Self { given, all, any }
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new([])
    }
}

impl Redactor {
    /// Knows these values; those too short to tell from ordinary words are left out.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let given = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
        Self { known: Arc::new(RwLock::new(Arc::new(Secrets::new(given)))) }
    }

    /// Knows one more from now on: a key that a command printed, a token that was renewed.
    pub fn learn(&self, secret: &str) {
        if secret.len() < SHORTEST_SECRET || self.known().given.iter().any(|known| known == secret) {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let given = known.given.iter().cloned().chain([secret.to_owned()]).collect();
        *known = Arc::new(Secrets::new(given));
    }

    fn known(&self) -> Arc<Secrets> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether [`Redactor::text`] would take something out.
    pub fn finds(&self, text: &str) -> bool {
        (self.known().any.is_match(text) || assigns(text)) && self.text(text) != text
    }

    /// Text without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        if !pijs_protocol::guard::is_up("ledger.redact-value") {
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
                out = without_credentials(&out, prefix);
            }
        }
        if assigns(&out) { without_assignments(&out) } else { out }
    }

    /// A value without secrets, by key and by value.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => Value::Object(self.members(members)),
            other => other.clone(),
        }
    }

    /// The same for the members of an object.
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

fn without_credentials(text: &str, prefix: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (before, found) = rest.split_at(at);
        let body = &found[prefix.len()..];
        let length = body.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.~+/=".contains(c))).unwrap_or(body.len());
        let starts_word = !before.ends_with(|c: char| c.is_ascii_alphanumeric());
        out.push_str(before);
        if length >= SHORTEST_CREDENTIAL && starts_word {
            out.push_str(REDACTED);
            rest = &body[length..];
        } else {
            out.push_str(prefix);
            rest = body;
        }
    }
    out.push_str(rest);
    out
}

/// What a secret looks like in a URL and in base64. Inside a longer text base64 has three alignments, each with its own
/// characters at the ends, which are left out.
fn encodings(secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    let percent: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    found.push(percent.replace('+', "%20"));
    found.push(percent);
    for alphabet in [STANDARD, URL_SAFE] {
        for shift in 0..3 {
            let mut padded = vec![0; shift];
            padded.extend_from_slice(secret.as_bytes());
            let text = base64(&padded, alphabet);
            // Characters that hold bits of what stands before, and of what follows.
            let first = (shift * 8).div_ceil(6);
            let last = padded.len() * 8 / 6;
            found.extend(text.get(first..last).map(str::to_owned));
        }
    }
    found.retain(|text| text.len() >= SHORTEST_SECRET && text != secret);
    found
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            out.push(char::from(alphabet[(word >> (18 - 6 * at) & 63) as usize]));
        }
    }
    out
}

/// Whether something stands before `=` or `:` that may be a secret name.
fn assigns(text: &str) -> bool {
    names(text).any(|(name, _)| is_secret_key(name))
}

/// Names before `=` and `:`, with the place behind.
fn names(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.match_indices(['=', ':']).filter_map(|(at, _)| {
        let before = text[..at].trim_end_matches(['"', '\'', ' ', '\\']);
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let start = before
            .char_indices()
            .rev()
            .take(LONGEST_NAME)
            .take_while(|(_, character)| word(*character))
            .last()
            .map(|(at, _)| at)?;
        Some((&before[start..], at + 1))
    })
}

fn without_assignments(text: &str) -> String {
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

/// How much of `value` belongs to it: all between quotes or brackets, else one word. `before` ends with its opening
/// quote, if it has one.
fn secret_length(value: &str, before: &str) -> usize {
    if let Some(quote) = before.chars().next_back().filter(|c| matches!(c, '"' | '\'')) {
        // Inside of a text in quotes, quotes are escaped themselves.
        let is_escaped = before[..before.len() - 1].ends_with('\\');
        let closing = value.match_indices(quote).map(|(at, _)| at);
        let mut closing = closing.filter(|at| value[..*at].ends_with('\\') == is_escaped);
        return closing.next().map_or(value.len(), |at| at - usize::from(is_escaped));
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
    // `Authorization: Basic dXNlcg==`: the scheme is a word of its own.
    let scheme = &value[..length];
    if !["basic", "bearer", "digest", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return length;
    }
    let credential = value[length..].trim_start_matches(' ');
    value.len() - credential.len() + credential.find(ends).unwrap_or(credential.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_learned_later_is_known_to_every_clone() {
        let redactor = Redactor::new([]);
        let clone = redactor.clone();
        assert_eq!(clone.text("it is hush-hush"), "it is hush-hush");
        redactor.learn("hush-hush");
        redactor.learn("it is");
        assert_eq!(clone.text("it is hush-hush"), format!("it is {REDACTED}"));
        assert!(clone.finds("hush-hush"));
    }

    #[test]
    fn known_secrets_are_found_in_base64_and_in_urls() {
        let secret = "p@ss/w0rd+with=ödd bytes?";
        let redactor = Redactor::new([secret.to_owned()]);
        for before in ["", "a", "ab", "abc"] {
            for alphabet in [STANDARD, URL_SAFE] {
                let text = base64(format!("{before}{secret} and more").as_bytes(), alphabet);
                let clean = redactor.text(&text);
                assert!(clean.contains(REDACTED), "{before:?}: {text}");
                let core = base64(secret.as_bytes(), alphabet);
                assert!(!clean.contains(&core[2..20]), "{clean}");
            }
        }
        let query =
            format!("https://x/?q={}", url::form_urlencoded::byte_serialize(secret.as_bytes()).collect::<String>());
        assert_eq!(redactor.text(&query), "https://x/?q=[REDACTED]");
    }

    #[test]
    fn an_assignment_to_a_secret_name_is_taken_out_of_text() {
        let redactor = Redactor::default();
        for (text, clean) in [
            ("GET /v1?api_key=abc&n=1", "GET /v1?api_key=[REDACTED]&n=1"),
            ("curl -H 'X-Api-Key: abc' x", "curl -H 'X-Api-Key: [REDACTED]' x"),
            ("{\"password\":\"a b\"}", "{\"password\":\"[REDACTED]\"}"),
            ("{\"password\":\"a\\\"b\",\"n\":1}", "{\"password\":\"[REDACTED]\",\"n\":1}"),
            ("{'token': 'a, b', n: 1}", "{'token': '[REDACTED]', n: 1}"),
            ("{\"secret\":{\"a\":[\"x y\"]},\"n\":1}", "{\"secret\":[REDACTED],\"n\":1}"),
            ("tokens: [a, b], n", "tokens: [a, b], n"),
            ("passwords=[a, b] n", "passwords=[a, b] n"),
            ("Authorization: Basic dTpw", "Authorization: [REDACTED]"),
            ("API-KEY = abc; next", "API-KEY = [REDACTED]; next"),
            ("{\\\"token\\\": \\\"abc\\\"}", "{\\\"token\\\": \\\"[REDACTED]\\\"}"),
            ("totalTokens=12, max_tokens: 5", "totalTokens=12, max_tokens: 5"),
            ("key: value, author: me", "key: value, author: me"),
            ("token=", "token="),
            ("https://host:443/token/x", "https://host:443/token/x"),
        ] {
            assert_eq!(redactor.text(text), clean, "{text}");
            assert_eq!(redactor.finds(text), text != clean, "{text}");
        }
    }

    #[test]
    fn keys_match_as_whole_words_however_they_are_spelled() {
        for key in [
            "api_key",
            "apiKey",
            "X-API-KEY",
            "APIKey",
            "DBPassword",
            "token",
            "accessToken",
            "Authorization",
            "set-cookie",
            "PASSWORD",
            "passwd",
            "client_secret",
            "privateKey",
            "PRIVATE_KEY",
            "credentials",
            "bearer",
            "apikey",
            "OPENAI_API_KEY",
        ] {
            assert!(is_secret_key(key), "{key}");
        }
        for key in
            ["totalTokens", "max_tokens", "tokenizer", "secretary", "key", "apiVersion", "author", "keyboard", ""]
        {
            assert!(!is_secret_key(key), "{key}");
        }
    }

    #[test]
    fn the_quick_look_misses_no_credential() {
        let redactor = Redactor::default();
        for prefix in CREDENTIAL_PREFIXES {
            // As short as a credential can be, at both ends of a text and between others.
            let shortest = format!("{prefix}abcdefghijkl");
            for text in
                [shortest.clone(), format!("é {shortest}"), format!("{shortest} é"), format!("sk-x ({shortest})")]
            {
                let cleaned = redactor.text(&text);
                assert!(cleaned.contains(REDACTED) && !cleaned.contains(&shortest), "{text}: {cleaned}");
            }
            let ordinary = format!("{prefix}abc");
            assert_eq!(redactor.text(&ordinary), ordinary);
        }
    }

    #[test]
    fn values_go_wherever_they_stand() {
        let redactor = Redactor::new(["hunter2hunter2".to_owned(), "abc".to_owned()]);
        let data = json!({
            "url": "https://x/?k=hunter2hunter2&n=1",
            "list": [{"apiKey": 7}, "Authorization: Bearer abcdefghijklmnop"],
            "abc": "abc",
            "risk-sk-assessment": "task-sk-y",
        });
        assert_eq!(
            redactor.value(&data),
            json!({
                "url": "https://x/?k=[REDACTED]&n=1",
                "list": [{"apiKey": "[REDACTED]"}, "Authorization: [REDACTED]"],
                "abc": "abc",
                "risk-sk-assessment": "task-sk-y",
            })
        );
    }
}
