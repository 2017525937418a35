//! Formats the messages of rejected requests. For a status and a body they equal the messages of pi's clients, because extensions
//! search for that text.
//!
//! [`one_line`] shortens them for users: the status, its reason, and the server's message without JSON. HTML pages of proxies and
//! gateways are removed ([`without_html`]).

use reqwest::StatusCode;
use serde_json::Value;

/// Maximum length of an error for users, in characters.
const MAX_LINE_CHARS: usize = 500;

/// Replacement of an HTML page.
const HTML: &str = "(an HTML page, not shown)";

/// Maximum length of a body in a message, in characters.
const MAX_CHARS: usize = 4000;

/// Client library whose error format is imitated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ErrorFormat {
    /// OpenAI's client for chat completions.
    Completions,
    /// OpenAI's client for the Responses API; messages contain the name of the provider.
    Responses(String),
    /// Anthropic's client.
    Anthropic,
    /// Google's client.
    Google,
}

impl ErrorFormat {
    /// Returns the message of an unsuccessful status, with the server's `reason` and its body.
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

    /// Returns the message of a failed connection.
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

/// Formats an error body as pi's clients do: the status, followed by the message or the body.
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
    if length <= MAX_CHARS {
        return text.to_owned();
    }
    let shown: String = text.chars().take(MAX_CHARS).collect();
    format!("{shown}... [truncated {} chars]", length - MAX_CHARS)
}

/// Returns a body with HTML pages replaced.
pub(super) fn without_html(media_type: &str, body: String) -> String {
    match media_type.starts_with("text/html") || media_type.starts_with("application/xhtml") {
        true => HTML.to_owned(),
        false => before_html(&body).unwrap_or(body),
    }
}

/// Returns a text with an HTML page at its end replaced.
fn before_html(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let at = ["<!doctype html", "<html", "<head>", "<body"].iter().filter_map(|tag| lower.find(tag)).min()?;
    // A JSON body with HTML in a string is kept.
    if serde_json::from_str::<Value>(text).is_ok_and(|body| body.is_object()) {
        return None;
    }
    Some(format!("{}{HTML}", &text[..at]))
}

/// Returns an error of a provider for users: one line, status and reason first, without JSON and HTML.
///
/// ```
/// use pijs_llm::provider::one_line;
///
/// assert_eq!(one_line(r#"401: {"message":"bad key","type":"auth"}"#), "401 Unauthorized: bad key");
/// ```
pub fn one_line(error: &str) -> String {
    let (before, body, after) = split_body(error);
    let said = body.as_ref().and_then(reason);
    let mut line = match (&said, &body) {
        (Some(said), Some(body)) => {
            let code = body.pointer("/error/code").and_then(Value::as_u64).filter(|_| before.is_empty());
            let before = code.map_or_else(|| before.to_owned(), |code| code.to_string());
            let parts = [with_reason(&before), said.clone(), after.to_owned()];
            let parts: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
            parts.join(": ")
        }
        _ => status_first(error),
    };
    if let Some(shown) = before_html(&line) {
        line = shown;
    }
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

/// Splits an error into the text before its JSON object, the object, and the text after it.
fn split_body(error: &str) -> (&str, Option<Value>, &str) {
    let Some(at) = error.find('{') else { return (error, None, "") };
    let mut values = serde_json::Deserializer::from_str(&error[at..]).into_iter::<Value>();
    match values.next() {
        Some(Ok(body)) => {
            let after = &error[at + values.byte_offset()..];
            (error[..at].trim_end_matches([' ', ':']), Some(body), after)
        }
        _ => (error, None, ""),
    }
}

/// Returns the message of an error body, in any of the known positions.
fn reason(body: &Value) -> Option<String> {
    let places = [
        "/error/message",
        "/error/error/message",
        "/message",
        "/error",
        "/detail",
        "/error/detail",
        "/error_description",
    ];
    places
        .iter()
        .find_map(|place| body.pointer(place)?.as_str().filter(|said| !said.trim().is_empty()).map(str::to_owned))
}

/// Appends the reason to a text that ends with a status, such as `401` or `(401)`.
fn with_reason(text: &str) -> String {
    let (bare, close) = text.strip_suffix(')').map_or((text, ""), |bare| (bare, ")"));
    let last = bare.rsplit([' ', '(']).next().unwrap_or_default();
    match status(last) {
        Some(reason) => format!("{bare} {reason}{close}"),
        None => text.to_owned(),
    }
}

/// Inserts the reason after a leading status, as in `503 later`, unless the text already contains it.
fn status_first(text: &str) -> String {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let first = first.trim_end_matches(':');
    let rest = if rest == "status code (no body)" { "" } else { rest };
    match status(first) {
        Some(reason) if rest.is_empty() => format!("{first} {reason}"),
        Some(reason) if !rest.starts_with(reason) => format!("{first} {reason}: {rest}"),
        _ => text.to_owned(),
    }
}

/// Returns the reason phrase of an error status.
fn status(text: &str) -> Option<&'static str> {
    let code = text.parse::<u16>().ok().filter(|code| text.len() == 3 && *code >= 300)?;
    StatusCode::from_u16(code).ok()?.canonical_reason()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shortened_to_status_reason_and_message() {
        let long = "x".repeat(MAX_LINE_CHARS + 1);
        for (error, line) in [
            (r#"401 {"type":"error","error":{"type":"auth","message":"bad\n  key"}}"#, "401 Unauthorized: bad key"),
            (
                r#"OpenAI API error (429): {"message":"slow down"}"#,
                "OpenAI API error (429 Too Many Requests): slow down",
            ),
            (r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#, "503 Service Unavailable: busy"),
            ("503 later", "503 Service Unavailable: later"),
            ("404 Not Found", "404 Not Found"),
            ("500 status code (no body)", "500 Internal Server Error"),
            ("502 (an HTML page, not shown)", "502 Bad Gateway: (an HTML page, not shown)"),
            (r#"502: {"message":"<!DOCTYPE html><html><h1>Oh</h1>"}"#, "502 Bad Gateway: (an HTML page, not shown)"),
            ("502 down\n\n<HTML><body>", "502 Bad Gateway: down (an HTML page, not shown)"),
            (r#"400: {"metadata":{"raw":"a"}}"#, r#"400 Bad Request: {"metadata":{"raw":"a"}}"#),
            ("400: {\"message\":\"no\"}\nraw words", "400 Bad Request: no: raw words"),
            ("Connection error.", "Connection error."),
            ("terminated", "terminated"),
            (&long, &format!("{}...", &long[..MAX_LINE_CHARS])),
        ] {
            assert_eq!(one_line(error), line, "{error}");
        }
    }

    #[test]
    fn an_html_page_is_replaced_by_a_note() {
        for (media, body, shown) in [
            ("text/html; charset=utf-8", "<p>Oh</p>", HTML),
            ("", "\n<!doctype HTML><title>x</title>", "\n(an HTML page, not shown)"),
            ("text/plain", "no route", "no route"),
            ("application/json", r#"{"message":"<html>"}"#, r#"{"message":"<html>"}"#),
        ] {
            assert_eq!(without_html(media, body.to_owned()), shown);
        }
    }

    #[test]
    fn each_client_has_its_error_format() {
        let body = r#"{"error":{"message":"bad key","type":"auth"}}"#;
        let named = ErrorFormat::Responses("mine".to_owned());
        for (wording, body, expected) in [
            (&ErrorFormat::Completions, body, r#"401: {"message":"bad key","type":"auth"}"#),
            (&ErrorFormat::Completions, "no such", "401 no such"),
            (&ErrorFormat::Completions, r#"{"detail":"x"}"#, "401 status code (no body)"),
            (&ErrorFormat::Completions, r#"{"error":"x"}"#, r#"401 "x""#),
            (
                &ErrorFormat::Completions,
                r#"{"error":{"metadata":{"raw":"a\"b"}}}"#,
                "401: {\"metadata\":{\"raw\":\"a\\\"b\"}}\na\"b",
            ),
            (&named, body, r#"mine API error (401): {"message":"bad key","type":"auth"}"#),
            (&named, "", "mine API error (401): 401 status code (no body)"),
            (&ErrorFormat::Anthropic, body, r#"401 {"error":{"message":"bad key","type":"auth"}}"#),
            (&ErrorFormat::Anthropic, r#"{"message":"m"}"#, "401 m"),
            (&ErrorFormat::Google, body, body),
            (&ErrorFormat::Google, "no", r#"{"error":{"message":"no","code":401,"status":"Unauthorized"}}"#),
        ] {
            assert_eq!(wording.refused(401, "Unauthorized", body), expected);
        }
    }
}
