//! Describes images as a line of text, like pi on terminals without images.

use base64::Engine;
use serde_json::Value;

/// Maximum number of bytes of an image that are parsed for its size; a JPEG may begin with a preview.
const HEAD: usize = 96 * 1024;

/// Returns the images of a tool's result.
pub(super) fn of(result: Option<&Value>) -> impl Iterator<Item = &Value> {
    let blocks = result.and_then(|result| result["content"].as_array()).into_iter().flatten();
    blocks.filter(|block| block["type"] == "image")
}

/// Formats an image as `[Image: [image/png] 80x60]`.
pub(super) fn in_words(block: &Value) -> String {
    let kind = block["mimeType"].as_str().unwrap_or("image/unknown");
    let data = block["data"].as_str().unwrap_or_default();
    let size = head(data).and_then(|bytes| size(kind, &bytes));
    let size = size.map(|(width, height)| format!(" {width}x{height}")).unwrap_or_default();
    format!("[Image: [{kind}]{size}]")
}

/// Decodes the beginning of base64 data.
fn head(data: &str) -> Option<Vec<u8>> {
    // Four base64 characters encode three bytes.
    let length = data.len().min(HEAD / 3 * 4);
    let length = if length < data.len() { length } else { data.trim_end_matches('=').len() };
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(data.get(..length)?).ok()
}

fn size(kind: &str, bytes: &[u8]) -> Option<(u32, u32)> {
    let small = |at: usize| Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let big = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    match kind {
        "image/png" if bytes.starts_with(b"\x89PNG") => Some((big(16)?, big(20)?)),
        "image/gif" if bytes.starts_with(b"GIF8") => Some((small(6)?, small(8)?)),
        "image/jpeg" if bytes.starts_with(b"\xff\xd8") => jpeg(bytes),
        "image/webp" if bytes.starts_with(b"RIFF") && bytes.get(12..16)? == b"VP8X" => {
            let side = |at: usize| Some((small(at)? | u32::from(*bytes.get(at + 2)?) << 16) + 1);
            Some((side(24)?, side(27)?))
        }
        "image/webp" if bytes.starts_with(b"RIFF") && bytes.get(12..16)? == b"VP8 " => {
            Some((small(26)? & 0x3fff, small(28)? & 0x3fff))
        }
        "image/webp" if bytes.starts_with(b"RIFF") && bytes.get(12..16)? == b"VP8L" => {
            let bits = u32::from_le_bytes(bytes.get(21..25)?.try_into().ok()?);
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        _ => None,
    }
}

/// Returns the size from the frame header of a JPEG, which follows other segments.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let side = |at: usize| Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        match *bytes.get(at + 1)? {
            // Frame headers. The excluded markers are tables whose numbers are in the same range.
            kind @ 0xc0..=0xcf if !matches!(kind, 0xc4 | 0xc8 | 0xcc) => return Some((side(at + 7)?, side(at + 5)?)),
            // Padding, and markers without a length.
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            _ => at += 2 + side(at + 2)? as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_image_is_described_with_its_size() {
        let png = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &[0, 0, 0, 80, 0, 0, 0, 60, 8, 2]].concat();
        let gif = b"GIF89a\x05\0\x03\x01".to_vec();
        let jpeg = [b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x0b\x08".as_slice(), &[1, 0, 2, 0, 3]].concat();
        let lossless = [b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f".as_slice(), &[0x03, 0x40, 0x01, 0x00]].concat();
        for (kind, bytes, expected) in [
            ("image/png", png, "[Image: [image/png] 80x60]"),
            ("image/gif", gif, "[Image: [image/gif] 5x259]"),
            ("image/jpeg", jpeg, "[Image: [image/jpeg] 512x256]"),
            ("image/webp", lossless, "[Image: [image/webp] 4x6]"),
            ("image/png", b"\x89PNG".to_vec(), "[Image: [image/png]]"),
            ("image/jpeg", vec![0xff, 0xd8, 0xff], "[Image: [image/jpeg]]"),
            ("text/x", b"anything".to_vec(), "[Image: [text/x]]"),
        ] {
            let data = base64::engine::general_purpose::STANDARD.encode(bytes);
            assert_eq!(in_words(&json!({"type": "image", "mimeType": kind, "data": data})), expected);
        }
        assert_eq!(in_words(&json!({"type": "image"})), "[Image: [image/unknown]]");
        assert_eq!(in_words(&json!({"mimeType": "image/png", "data": "no base64!"})), "[Image: [image/png]]");
    }
}
