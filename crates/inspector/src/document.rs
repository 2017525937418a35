//! Builds the document: data, style and script in one page that loads nothing.

use crate::report::Report;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

const BODY: &str = include_str!("../page/body.html");
const STYLE: &str = include_str!("../page/style.css");
const SCRIPT: &str = include_str!("../page/page.js");

/// Returns the page of a report.
///
/// # Errors
///
/// Fails when the report cannot be written as JSON.
pub fn page(report: &Report) -> serde_json::Result<String> {
    let data = embeddable(&serde_json::to_string(report)?);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        source(SCRIPT),
        source(STYLE)
    );
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>pi session report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{BODY}\
         <script type=\"application/json\" id=\"report\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    ))
}

/// Returns JSON that cannot close the element that contains it: HTML reacts only to `<`.
fn embeddable(json: &str) -> String {
    json.replace('<', r"\u003c")
}

/// Returns the source expression of an inline script or style.
fn source(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(Sha256::digest(text.as_bytes())))
}
