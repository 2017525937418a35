//! Replaces secrets by substitutes of equal length, so that a redacted recording still replays.
//!
//! [`Redactor::text`] changes the length of a text, which would change the behaviour of the program that reads it. A
//! [`Substitutes`] replaces every occurrence of a secret by the same substitute with as many characters, so that values which the
//! program derives from the secret (a header, a slice, a length) stay consistent. The base64, hexadecimal and form encodings of a
//! secret are replaced by those of its substitute. Values computed in any other way, such as a hash, do not stay consistent.
//!
//! Substitution is idempotent: a substitute is not a secret.

use super::{CREDENTIAL_PREFIXES, PEM, REDACTED, Redactor, Secrets, encodings, map_credentials, private_keys};
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Prefix of a substitute that is long enough for it.
const MARK: &str = "REDACTED";

/// Replaces the secrets of a [`Redactor`], and text that looks like a credential, by substitutes.
#[derive(Debug)]
pub struct Substitutes {
    redactor: Redactor,
    table: SubstituteTable,
}

/// Substitutes for one state of the redactor.
#[derive(Debug)]
struct SubstituteTable {
    of: Arc<Secrets>,
    /// Matches a secret, also in JSON text, or the prefix of a credential.
    any: AhoCorasick,
    secrets: AhoCorasick,
    /// Substitutes, by the index of the secret in `secrets`.
    substitutes: Vec<String>,
}

impl SubstituteTable {
    fn new(of: Arc<Secrets>) -> Self {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (number, secret) in of.given.iter().enumerate() {
            let substitute = substitute(secret, number + 1);
            let (forms, substitutes) = (encodings(secret), encodings(&substitute));
            let filled = |form: &String| filler("", form.chars().count());
            let substitutes: Vec<String> = match forms.len() == substitutes.len() {
                true => substitutes,
                false => forms.iter().map(filled).collect(),
            };
            pairs.extend(forms.into_iter().zip(substitutes));
            pairs.push((secret.clone(), substitute));
        }
        let secrets = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(pairs.iter().map(|(secret, _)| secret))
            .expect("the secrets stay below the automaton's limit");
        let in_json = pairs.iter().map(|(secret, _)| {
            let quoted = Value::from(secret.as_str()).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        });
        let looks = CREDENTIAL_PREFIXES.iter().copied().chain([PEM]).map(str::to_owned);
        let any = AhoCorasick::new(in_json.chain(looks)).expect("the secrets stay below the automaton's limit");
        let substitutes = pairs.into_iter().map(|(_, substitute)| substitute).collect();
        Self { of, any, secrets, substitutes }
    }
}

impl Redactor {
    /// Creates substitutes for the current and later secrets of this redactor.
    pub fn substitutes(&self) -> Substitutes {
        Substitutes { table: SubstituteTable::new(self.known()), redactor: self.clone() }
    }
}

impl Substitutes {
    /// Adds substitutes for secrets that the redactor has learnt since.
    pub fn refresh(&mut self) {
        let known = self.redactor.known();
        if !Arc::ptr_eq(&known, &self.table.of) {
            self.table = SubstituteTable::new(known);
        }
    }

    /// Returns whether JSON text may contain a secret. `false` is definite.
    pub fn may_be_in(&self, json: &[u8]) -> bool {
        self.table.any.is_match(json)
    }

    /// Replaces secrets in text.
    pub fn text(&self, text: &str) -> String {
        let mut out = self.table.secrets.replace_all(text, &self.table.substitutes);
        for prefix in CREDENTIAL_PREFIXES {
            out = credentials(&out, prefix);
        }
        // Starts at the end, so that earlier ranges stay valid.
        for place in private_keys(&out).into_iter().rev() {
            let length = out[place.clone()].chars().count();
            if !out[place.clone()].contains(MARK) {
                out.replace_range(place, &filler(&format!("{PEM}{MARK} "), length));
            }
        }
        out
    }

    /// Replaces secrets in bytes that are text; returns `None` for other bytes.
    pub fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(bytes).ok()?;
        let out = self.text(text);
        (out != text).then(|| out.into_bytes())
    }

    /// Replaces secrets in the strings of a value and in its member names. Plain lower-case names belong to a format and are
    /// kept.
    pub fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => {
                let member = |(name, value): (String, Value)| {
                    let is_of_format = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                    (if is_of_format { name } else { self.text(&name) }, self.value(value))
                };
                Value::Object(members.into_iter().map(member).collect::<Map<_, _>>())
            }
            other => other,
        }
    }
}

/// Returns the substitute of the secret with this number. It has as many characters as the secret.
fn substitute(secret: &str, number: usize) -> String {
    let prefix = CREDENTIAL_PREFIXES.iter().find(|prefix| secret.starts_with(**prefix)).copied().unwrap_or_default();
    let length = secret.chars().count();
    let marked = format!("{prefix}{MARK}{number}x");
    // A short substitute has no room for the mark; its number still distinguishes it.
    let short = format!("R{number}");
    filler(if marked.len() <= length { &marked } else { &short }, length)
}

/// Pads `begin` with `x` to `length` characters.
fn filler(begin: &str, length: usize) -> String {
    begin.chars().chain(std::iter::repeat('x')).take(length).collect()
}

/// Replaces everything that looks like a credential of this prefix.
fn credentials(text: &str, prefix: &str) -> String {
    let out = map_credentials(text, prefix, |body| {
        let is_stand_in = body.starts_with(MARK) || CREDENTIAL_PREFIXES.iter().any(|other| body.starts_with(other));
        let body = if is_stand_in { body.to_owned() } else { filler(MARK, body.len()) };
        format!("{prefix}{body}")
    });
    debug_assert!(text.contains(REDACTED) || out.chars().count() == text.chars().count());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substitutes(secrets: &[&str]) -> Substitutes {
        Redactor::new(secrets.iter().map(|secret| (*secret).to_owned())).substitutes()
    }

    #[test]
    fn a_secret_has_one_substitute_of_its_length_everywhere() {
        let known = substitutes(&["hunter2hunter2", "another-secret"]);
        let text = known.text("a hunter2hunter2 b hunter2hunter2 c another-secret");
        assert_eq!(text, "a REDACTED1xxxxx b REDACTED1xxxxx c REDACTED2xxxxx");
        assert_eq!(known.text(&text), text);
    }

    #[test]
    fn encodings_of_a_secret_become_those_of_its_substitute() {
        let known = substitutes(&["hunter2hunter2"]);
        assert_eq!(known.text(&hex::encode("hunter2hunter2")), hex::encode("REDACTED1xxxxx"));
    }

    #[test]
    fn substitutes_of_credentials_keep_prefix_and_length() {
        let known = substitutes(&[]);
        let text = known.text("key sk-abcdefghijklmnop end");
        assert_eq!(text, "key sk-REDACTEDxxxxxxxx end");
        assert_eq!(known.text(&text), text);
        assert_eq!(known.text("sk-short"), "sk-short");
    }

    #[test]
    fn secrets_learnt_later_are_replaced_from_then_on() {
        let redactor = Redactor::new([]);
        let mut known = redactor.substitutes();
        redactor.learn("hunter2hunter2");
        known.refresh();
        assert!(known.may_be_in(b"{\"a\":\"hunter2hunter2\"}"));
        assert_eq!(
            known.value(serde_json::json!({ "a": ["hunter2hunter2"] })),
            serde_json::json!({ "a": ["REDACTED1xxxxx"] })
        );
    }

    #[test]
    fn private_keys_have_substitutes_of_their_length() {
        let key = "-----BEGIN PRIVATE KEY-----\nä🙂ö\n-----END PRIVATE KEY-----";
        let text = format!("a {key} ü {key} z");
        let known = substitutes(&[]);
        let out = known.text(&text);
        assert!(out.starts_with("a -----BEGIN REDACTED xx") && out.ends_with("x z"), "{out}");
        assert_eq!((out.chars().count(), out.contains('ö')), (text.chars().count(), false));
        assert_eq!(known.text(&out), out);
    }

    #[test]
    fn a_secret_with_quotes_is_found_in_json() {
        let known = substitutes(&["pass\"word\\"]);
        let json = serde_json::json!({ "a": "pass\"word\\" }).to_string();
        assert!(known.may_be_in(json.as_bytes()));
    }
}
