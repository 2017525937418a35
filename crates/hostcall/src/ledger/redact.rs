//! Keeps secrets out of log and ledger.
//!
//! Two rules: by key, where a key holds one of the words of document 004 as a whole word segment
//! (`api_key`, `apiKey`, `X-Api-Key`; `token`, not `totalTokens`); by value, where text holds a
//! secret the host knows of or something that looks like a common kind of credential. A secret
//! that is split over two fields, or encoded, is not recognised.

use serde_json::{Map, Value};

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
];

/// Whether a member of this name holds a secret.
pub fn is_secret_key(key: &str) -> bool {
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

/// Values known to be secret.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Knows these values; those too short to tell from ordinary words are left out.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
        // Longest first, so that one that contains another goes as a whole.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { secrets }
    }

    /// Text without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for secret in &self.secrets {
            if out.contains(secret.as_str()) {
                out = out.replace(secret.as_str(), REDACTED);
            }
        }
        // Nearly every text ends here: a call writes several, and most are words of the host.
        if !names_a_credential(&out) {
            return out;
        }
        for prefix in CREDENTIAL_PREFIXES {
            out = without_credentials(&out, prefix);
        }
        out
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

/// Whether any prefix occurs, in one pass and without allocating. `false` means that none of the
/// replacements below would change anything.
fn names_a_credential(text: &str) -> bool {
    let bytes = text.as_bytes();
    (0..bytes.len().saturating_sub(SHORTEST_CREDENTIAL))
        .any(|at| CREDENTIAL_PREFIXES.iter().any(|prefix| bytes[at..].starts_with(prefix.as_bytes())))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_match_as_whole_words_however_they_are_spelled() {
        for key in [
            "api_key",
            "apiKey",
            "X-API-KEY",
            "APIKey",
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
