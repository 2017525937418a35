//! The `read` tool: returns text within line limits, or an image.

use super::{ToolContext, ToolOutput, number, refused, truncate};
use crate::system::FileKind;
use base64::Engine as _;
use pijs_llm::message::Block;
use serde::Deserialize;
use serde_json::json;
use std::io::ErrorKind;

const BLIND: &str = "[Current model does not support images. The image will be omitted from this request.]";

#[derive(Deserialize)]
pub(super) struct Input {
    path: String,
    offset: Option<f64>,
    limit: Option<f64>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let path = context.path(&input.path);
    let kind = context.system.kind(&path).await.map_err(|error| refused(&error, "access", Some(&path)))?;
    if kind == FileKind::Other {
        return Err(format!("Cannot read {}: it is not a regular file", input.path));
    }
    let bytes = context.system.read(&path).await.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => refused(&error, "access", Some(&path)),
        _ => refused(&error, "read", None),
    })?;
    if let Some(mime_type) = image_type(&bytes) {
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let mut text = format!("Read image file [{mime_type}]");
        if context.about.blind {
            text.push_str(&format!("\n{BLIND}"));
        }
        let blocks = [Block::text(text), Block::Image { data, mime_type: mime_type.to_owned() }];
        return Ok(ToolOutput { content: json!(blocks), ..ToolOutput::default() });
    }
    lines(&input, &String::from_utf8_lossy(&bytes))
}

/// Returns the media type of an image that models accept. It is detected by content, because a file name may be wrong.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn lines(input: &Input, text: &str) -> Result<ToolOutput, String> {
    let all: Vec<&str> = text.split('\n').collect();
    #[expect(clippy::cast_precision_loss, reason = "a file has fewer lines than that")]
    let count = all.len() as f64;
    // Offsets count from 1, and 0 means no offset. A fraction appears in messages, as in JavaScript.
    let start = input.offset.filter(|offset| *offset != 0.0).map_or(0.0, |offset| (offset - 1.0).max(0.0));
    let first = start + 1.0;
    if start >= count {
        let offset = input.offset.unwrap_or_default();
        return Err(format!("Offset {} is beyond end of file ({} lines total)", number(offset), all.len()));
    }
    let end = input.limit.map(|limit| (start + limit).min(count));
    let kept = truncate::head(&part(&all, start, end.unwrap_or(count)).join("\n"));
    if kept.first_line_exceeds_limit {
        let line = all.get(super::to_count(start)).map_or(0, |line| line.len());
        let first = number(first);
        let message = format!(
            "[Line {first} is {}, exceeds {} limit. Use bash: sed -n '{first}p' {} | head -c {}]",
            truncate::size(line),
            truncate::size(truncate::MAX_BYTES),
            input.path,
            truncate::MAX_BYTES,
        );
        return Ok(ToolOutput::text(message).with_details(json!({"truncation": kept})));
    }
    if kept.truncated {
        #[expect(clippy::cast_precision_loss, reason = "at most 2,000")]
        let last = first + kept.output_lines as f64 - 1.0;
        let limit = match kept.truncated_by {
            Some(truncate::TruncationLimit::Bytes) => format!(" ({} limit)", truncate::size(truncate::MAX_BYTES)),
            _ => String::new(),
        };
        let note = format!(
            "[Showing lines {}-{} of {}{limit}. Use offset={} to continue.]",
            number(first),
            number(last),
            all.len(),
            number(last + 1.0)
        );
        return Ok(ToolOutput::text(format!("{}\n\n{note}", kept.content)).with_details(json!({"truncation": kept})));
    }
    if let Some(end) = end.filter(|end| *end < count) {
        let (more, next) = (number(count - end), number(end + 1.0));
        let note = format!("[{more} more lines in file. Use offset={next} to continue.]");
        return Ok(ToolOutput::text(format!("{}\n\n{note}", kept.content)));
    }
    Ok(ToolOutput::text(kept.content))
}

/// Returns a range of lines like JavaScript's `slice`: a negative end counts from the last line.
fn part<'a>(all: &[&'a str], start: f64, end: f64) -> Vec<&'a str> {
    let start = super::to_count(start);
    let end = if end < 0.0 { all.len().saturating_sub(super::to_count(-end)) } else { super::to_count(end) };
    all.get(start..end.min(all.len())).unwrap_or_default().to_vec()
}
