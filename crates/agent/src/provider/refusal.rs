//! A refused request in words: those that pi's clients find for a status and a body, since extensions look for them.

use serde_json::Value;

/// As much of a body as is shown.
const LONGEST: usize = 4000;

/// Whose words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wording {
    /// OpenAI's client for chat completions.
    Completions,
    /// Its client for the Responses API; the provider is named.
    Responses(String),
    /// Anthropic's client.
    Anthropic,
    /// Google's client.
    Google,
}

impl Wording {
    /// A status that is no success, with what `reason` the server gives beside it, and its body.
    pub(super) fn refused(&self, status: u16, reason: &str, body: &str) -> String {
        let read: Option<Value> = serde_json::from_str(body).ok();
        match self {
            Self::Completions => {
                let error = read.as_ref().and_then(|body| body.get("error"));
                let said = match object(error) {
                    Some(error) => format!("{status}: {}", cut(&error.to_string())),
                    None => message(status, error, read.is_none().then_some(body)),
                };
                let raw = error.and_then(|error| error.pointer("/metadata/raw")?.as_str());
                match raw.filter(|raw| !said.contains(raw)) {
                    Some(raw) => format!("{said}\n{raw}"),
                    None => said,
                }
            }
            Self::Responses(provider) => {
                let error = read.as_ref().and_then(|body| body.get("error"));
                let said = match object(error) {
                    Some(error) => cut(&error.to_string()),
                    None => message(status, error, read.is_none().then_some(body)),
                };
                let name = if provider == "openai" { "OpenAI" } else { provider };
                format!("{name} API error ({status}): {said}")
            }
            Self::Anthropic => message(status, read.as_ref(), read.is_none().then_some(body)),
            Self::Google => match read {
                Some(body) => body.to_string(),
                None => serde_json::json!({"error": {"message": body, "code": status, "status": reason}}).to_string(),
            },
        }
    }

    /// Nobody answered.
    pub(super) fn unreached(&self) -> &'static str {
        match self {
            Self::Google => "exception TypeError: fetch failed sending request",
            _ => "Connection error.",
        }
    }
}

fn object(error: Option<&Value>) -> Option<&Value> {
    error.filter(|error| error.as_object().is_some_and(|members| !members.is_empty()))
}

/// What their clients make of an error's body: its message, or all of it, behind the status.
fn message(status: u16, error: Option<&Value>, text: Option<&str>) -> String {
    let error = error.filter(|error| !matches!(error, Value::Null | Value::Bool(false)) && error.as_str() != Some(""));
    let said = match (error, error.and_then(|error| error.get("message")).filter(|said| !said.is_null())) {
        (_, Some(Value::String(said))) if !said.is_empty() => said.clone(),
        (_, Some(said)) if !said.is_string() => said.to_string(),
        (Some(error), _) => error.to_string(),
        (None, _) => text.unwrap_or_default().to_owned(),
    };
    if said.is_empty() { format!("{status} status code (no body)") } else { format!("{status} {said}") }
}

fn cut(text: &str) -> String {
    let length = text.chars().count();
    if length <= LONGEST {
        return text.to_owned();
    }
    let shown: String = text.chars().take(LONGEST).collect();
    format!("{shown}... [truncated {} chars]", length - LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_words() {
        let body = r#"{"error":{"message":"bad key","type":"auth"}}"#;
        let named = Wording::Responses("mine".to_owned());
        for (wording, body, expected) in [
            (&Wording::Completions, body, r#"401: {"message":"bad key","type":"auth"}"#),
            (&Wording::Completions, "no such", "401 no such"),
            (&Wording::Completions, r#"{"detail":"x"}"#, "401 status code (no body)"),
            (&Wording::Completions, r#"{"error":"x"}"#, r#"401 "x""#),
            (
                &Wording::Completions,
                r#"{"error":{"metadata":{"raw":"a\"b"}}}"#,
                "401: {\"metadata\":{\"raw\":\"a\\\"b\"}}\na\"b",
            ),
            (&named, body, r#"mine API error (401): {"message":"bad key","type":"auth"}"#),
            (&named, "", "mine API error (401): 401 status code (no body)"),
            (&Wording::Anthropic, body, r#"401 {"error":{"message":"bad key","type":"auth"}}"#),
            (&Wording::Anthropic, r#"{"message":"m"}"#, "401 m"),
            (&Wording::Google, body, body),
            (&Wording::Google, "no", r#"{"error":{"message":"no","code":401,"status":"Unauthorized"}}"#),
        ] {
            assert_eq!(wording.refused(401, "Unauthorized", body), expected);
        }
    }
}
