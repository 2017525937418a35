//! `read`: text with line limits, or an image.

use super::{ToolContext, ToolOutput, truncate};
use crate::message::Block;
use crate::system::Kind;
use base64::Engine as _;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
pub(super) struct Input {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let path = context.path(&input.path);
    let failed = |error: std::io::Error| format!("Cannot read {}: {error}", input.path);
    if context.system.kind(&path).await.map_err(failed)? != Kind::File {
        return Err(format!("Cannot read {}: it is no regular file", input.path));
    }
    let bytes = context.system.read(&path).await.map_err(failed)?;
    if let Some(mime_type) = image_type(&bytes) {
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let blocks = [
            Block::text(format!("Read image file [{mime_type}]")),
            Block::Image { data, mime_type: mime_type.to_owned() },
        ];
        return Ok(ToolOutput { content: json!(blocks), details: None, terminate: false });
    }
    lines(&input, &String::from_utf8_lossy(&bytes))
}

/// By content, so that a wrong file name misleads nobody.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
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
    let first = input.offset.unwrap_or(1).max(1);
    if first > all.len() {
        return Err(format!("Offset {first} is beyond end of file ({} lines total)", all.len()));
    }
    let end = input.limit.map_or(all.len(), |limit| (first - 1).saturating_add(limit).min(all.len()));
    let kept = truncate::head(&all[first - 1..end].join("\n"));
    if kept.first_line_exceeds_limit {
        let message = format!(
            "[Line {first} is {}, exceeds {} limit. Use bash: sed -n '{first}p' {} | head -c {}]",
            truncate::size(all[first - 1].len()),
            truncate::size(truncate::MAX_BYTES),
            input.path,
            truncate::MAX_BYTES,
        );
        return Ok(ToolOutput::text(message).with_details(json!({"truncation": kept})));
    }
    if kept.truncated {
        let last = first + kept.output_lines - 1;
        let note = format!("[Showing lines {first}-{last} of {}. Use offset={} to continue.]", all.len(), last + 1);
        return Ok(ToolOutput::text(format!("{}\n\n{note}", kept.content)).with_details(json!({"truncation": kept})));
    }
    if end < all.len() {
        let note = format!("[{} more lines in file. Use offset={} to continue.]", all.len() - end, end + 1);
        return Ok(ToolOutput::text(format!("{}\n\n{note}", kept.content)));
    }
    Ok(ToolOutput::text(kept.content))
}
