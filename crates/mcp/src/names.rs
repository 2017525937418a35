//! Derives the model's names of tools: `mcp__SERVER__TOOL`.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Prefix of the names of all MCP tools.
pub const PREFIX: &str = "mcp__";
/// Maximum length of a tool name that model providers accept, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Returns the name of a server's tool, with every character except letters, digits and `_` replaced by `_`.
pub fn plain(server: &str, tool: &str) -> String {
    let part = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
    };
    format!("{PREFIX}{}__{}", part(server), part(tool))
}

/// Returns unique names for all tools, in order: the plain name, or a name with a suffix of eight hexadecimal digits if names
/// collide or are too long.
pub fn of_all(tools: &[(String, String)]) -> Vec<String> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for (server, tool) in tools {
        *count.entry(plain(server, tool)).or_default() += 1;
    }
    let name = |(server, tool): &(String, String)| {
        let plain = plain(server, tool);
        if count[&plain] == 1 && plain.len() <= MAX_NAME_BYTES {
            return plain;
        }
        let digest = Sha256::digest(format!("{server}/{tool}"));
        let suffix: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        // The name is ASCII, so any byte offset is a character boundary.
        format!("{}_{suffix}", &plain[..plain.len().min(MAX_NAME_BYTES - 9)])
    };
    tools.iter().map(name).collect()
}

/// Returns whether a tool's name can be used in grants and shown to the user.
pub fn is_usable(tool: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && c != '*';
    !tool.is_empty() && tool.len() <= 256 && !tool.starts_with('@') && tool.chars().all(is_plain)
}

/// Returns text of a server for the model or the user: without invisible characters, and at most `limit` bytes.
pub fn visible(text: &str, limit: usize) -> String {
    let is_hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(u32::from(c), 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe007f)
    };
    let mut out: String = text.chars().filter(|c| !is_hidden(*c)).collect();
    if out.len() > limit {
        out.truncate(out.floor_char_boundary(limit));
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_for_providers_and_unique() {
        let tools = [("a-b", "read.file"), ("a-b", "read_file"), ("a", "b"), ("a", &"x".repeat(80))];
        let tools: Vec<(String, String)> = tools.map(|(server, tool)| (server.to_owned(), tool.to_owned())).to_vec();
        let names = of_all(&tools);
        assert_eq!(names[2], "mcp__a__b");
        assert!(names[0].starts_with("mcp__a_b__read_file_") && names[0] != names[1], "{names:?}");
        assert!(names.iter().all(|name| name.len() <= MAX_NAME_BYTES), "{names:?}");
        assert_eq!(of_all(&tools), names);
    }

    #[test]
    fn a_tool_name_that_no_grant_can_express_is_unusable() {
        assert!(is_usable("read.file") && is_usable("a/b"));
        for bad in ["", "*", "a*", "@prompts", "a b", "a\u{1b}"] {
            assert!(!is_usable(bad), "{bad:?}");
        }
    }

    #[test]
    fn invisible_characters_are_removed() {
        assert_eq!(visible("a\u{200b}b\u{e0041}\u{1b}[2K\nc", 100), "ab[2K\nc");
        assert_eq!(visible("äöü", 3), "ä...");
    }
}
