//! Reads the addresses of files as `curl` does: percent encoding, braces and ranges.

use percent_encoding::percent_decode_str;

/// Maximum number of files that the braces of an argument of `curl` expand to.
const MAX_EXPANDED: usize = 1000;

/// Normalises a `file:` URL: lower-case scheme, no percent encoding. Returns `None` if `text` already has that form, or if it is
/// not a `file:` URL and `is_any` is not set.
pub fn decoded(text: &str, is_any: bool) -> Option<String> {
    const SCHEME: &[u8] = b"file:";
    let is_scheme = |bytes: &[u8]| bytes.eq_ignore_ascii_case(SCHEME);
    if !is_any && !text.as_bytes().windows(SCHEME.len()).any(is_scheme) {
        return None;
    }
    let mut bytes: Vec<u8> = percent_decode_str(text).collect();
    if let Some(at) = bytes.windows(SCHEME.len()).position(is_scheme) {
        bytes[at..at + SCHEME.len()].make_ascii_lowercase();
    }
    let plain = String::from_utf8_lossy(&bytes).into_owned();
    (plain != text).then_some(plain)
}

/// Expands the braces of an argument of `curl`, such as `a{b,c}[1-9]`, and replaces each range by a star. Returns `None` if there
/// are too many results.
pub fn expanded(text: &str) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    let mut rest = text;
    while let Some(at) = rest.find(['{', '[']) {
        let (before, behind) = rest.split_at(at);
        let end = if behind.starts_with('{') { '}' } else { ']' };
        let (inner, after) = behind[1..].split_once(end).unwrap_or((&behind[1..], ""));
        let parts: Vec<&str> = if end == '}' { inner.split(',').collect() } else { vec!["*"] };
        if all.len() * parts.len() > MAX_EXPANDED {
            return None;
        }
        all = all.iter().flat_map(|front| parts.iter().map(move |part| format!("{front}{before}{part}"))).collect();
        rest = after;
    }
    all.iter_mut().for_each(|front| front.push_str(rest));
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_are_read_as_curl_reads_them() {
        assert_eq!(decoded("FILE:///p/%2eenv", false).as_deref(), Some("file:///p/.env"));
        assert_eq!(decoded("file:///p/.env", true), None);
        assert_eq!(decoded("a%2eb", false), None);
        assert_eq!(decoded("a%2", true), None);
        assert_eq!(expanded("a{b,c/d}e").as_deref(), Some(&["abe".to_owned(), "ac/de".to_owned()][..]));
        assert_eq!(expanded(".[e-e]nv").as_deref(), Some(&[".*nv".to_owned()][..]));
        assert_eq!(expanded("plain").as_deref(), Some(&["plain".to_owned()][..]));
        assert_eq!(expanded(&"{a,b}".repeat(20)), None);
    }
}
