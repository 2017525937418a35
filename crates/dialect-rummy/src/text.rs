//! Functions on paths and texts: tokens, schemes, slugs, statuses and log paths.

use crate::entry::State;
use crate::profile::Profile;

/// Maximum number of UTF-16 units of a text that are used for a slug.
const SLUG_UNITS: usize = 80;

/// Estimates the tokens of a text: UTF-16 units over a divisor, rounded up.
pub fn count_tokens(text: &str, divisor: u32) -> i64 {
    let units = if text.is_ascii() { text.len() } else { text.encode_utf16().count() };
    i64::try_from(units.div_ceil(divisor.max(1) as usize)).unwrap_or(i64::MAX)
}

/// Returns the part of a path before `://`; `None` for files.
pub fn scheme_of(path: &str) -> Option<&str> {
    path.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| !scheme.is_empty())
}

/// Returns the name under which a path's scheme is registered.
pub fn registered_scheme(path: &str) -> &str {
    scheme_of(path).unwrap_or("file")
}

/// Returns a path in its stored form: the scheme in lower case, each segment decoded once and encoded again. Paths of files are
/// not changed.
pub fn normalize_path(path: &str) -> String {
    let Some((scheme, rest)) = path.split_once("://") else { return path.to_owned() };
    let decoded = decode_component(rest);
    let rest = decoded.as_deref().unwrap_or(rest);
    format!("{}://{}", scheme.to_lowercase(), encode_segments(rest))
}

fn encode_segments(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for (number, segment) in path.split('/').enumerate() {
        if number > 0 {
            out.push('/');
        }
        encode_into(segment, &mut out);
    }
    out
}

/// Encodes a text as `encodeURIComponent` does.
pub fn encode_component(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    encode_into(text, &mut out);
    out
}

fn encode_into(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Decodes a text as `decodeURIComponent` does; `None` where that throws.
fn decode_component(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.push(u8::try_from(nibble(digits[0])? << 4 | nibble(digits[1])?).ok()?);
            rest = after;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

fn nibble(digit: u8) -> Option<u32> {
    char::from(digit).to_digit(16)
}

/// Converts a text to a path that a model can easily repeat: commas separate segments, and blanks become underscores.
pub fn slugify(text: &str) -> String {
    let mut units = 0;
    let cut: String = text
        .chars()
        .take_while(|character| {
            units += character.len_utf16();
            units <= SLUG_UNITS
        })
        .map(|character| match character {
            ',' => '/',
            ' ' => '_',
            other => other,
        })
        .collect();
    let segments: Vec<String> = cut.split('/').filter(|segment| !segment.is_empty()).map(encode_component).collect();
    segments.join("/")
}

/// Returns the HTTP status that the model sees: the first three digits of the outcome, or else the status of the state.
pub fn state_to_status(state: State, outcome: Option<&str>) -> u16 {
    let in_outcome = outcome.and_then(|outcome| {
        let bytes = outcome.as_bytes();
        bytes
            .windows(3)
            .find(|digits| digits.iter().all(u8::is_ascii_digit))
            .map(|digits| digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
    });
    in_outcome.unwrap_or(match state {
        State::Resolved => 200,
        State::Proposed => 202,
        State::Streaming => 102,
        State::Cancelled => 499,
        State::Failed => 500,
    })
}

/// Returns the state and the outcome for a status, which generations before 2.0 stored instead.
pub fn status_to_state(status: i64) -> (State, Option<String>) {
    match status {
        102 => (State::Streaming, None),
        202 => (State::Proposed, None),
        499 => (State::Cancelled, None),
        500 => (State::Failed, None),
        status if status >= 400 => (State::Failed, Some(format!("status:{status}"))),
        _ => (State::Resolved, None),
    }
}

/// Returns the path of an action's log entry, before it is made unique.
pub fn log_path(profile: &Profile, turn: i64, action: &str, target: &str) -> String {
    let slug = slugify(target);
    profile.log_path.replace("{turn}", &turn.to_string()).replace("{action}", action).replace("{slug}", &slug)
}

/// Returns the base path of the channels of an action's output: `sh://turn_3/x` for `log://turn_3/sh/x`. A path of another form
/// is returned unchanged.
pub fn log_path_to_data_base(path: &str) -> String {
    let parts = path.strip_prefix("log://").and_then(|rest| {
        let (turn, rest) = rest.split_once('/')?;
        let (action, slug) = rest.split_once('/')?;
        turn.starts_with("turn_").then(|| format!("{action}://{turn}/{slug}"))
    });
    parts.unwrap_or_else(|| path.to_owned())
}

/// Returns the log entry to which a base of channels belongs: the inverse of [`log_path_to_data_base`].
pub fn data_base_to_log_path(base: &str) -> Option<String> {
    let (action, rest) = base.split_once("://")?;
    let (turn, slug) = rest.split_once('/')?;
    (action != "log" && turn.starts_with("turn_")).then(|| format!("log://{turn}/{action}/{slug}"))
}

/// Returns the action of a log entry: `sh` for `log://turn_3/sh/x`.
pub fn action_of(path: &str) -> Option<&str> {
    let (turn, rest) = path.strip_prefix("log://")?.split_once('/')?;
    turn.starts_with("turn_").then(|| rest.split('/').next()).flatten().filter(|action| !action.is_empty())
}

/// Returns the base and the channel of an output entry: `sh://turn_3/x` and 1 for `sh://turn_3/x_1`.
pub fn channel_of(path: &str) -> Option<(&str, u32)> {
    let (base, channel) = path.rsplit_once('_')?;
    channel.parse().ok().filter(|_| channel.bytes().all(|byte| byte.is_ascii_digit())).map(|channel| (base, channel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_paths_that_a_model_can_repeat() {
        for (text, slug) in [
            ("Hello World", "Hello_World"),
            ("history,mongol,khan", "history/mongol/khan"),
            ("seven years war,europe,1756", "seven_years_war/europe/1756"),
            ("What's the capital?", "What's_the_capital%3F"),
            ("known://auth_flow", "known%3A/auth_flow"),
            (",foo,", "foo"),
            ("a,,b", "a/b"),
            ("grüße 日", "gr%C3%BC%C3%9Fe_%E6%97%A5"),
            ("", ""),
        ] {
            assert_eq!(slugify(text), slug, "{text}");
        }
        assert_eq!(slugify(&"a".repeat(100)).len(), 80);
        assert_eq!(slugify(&format!("{}😀", "a".repeat(79))), "a".repeat(79), "half a character is left out");
    }

    #[test]
    fn paths_are_normalised_once() {
        for (path, normal) in [
            ("src/App.js", "src/App.js"),
            ("KNOWN://Plan A/b", "known://Plan%20A/b"),
            ("known://Plan%20A/b", "known://Plan%20A/b"),
            ("known://100%", "known://100%25"),
            ("known://a*b", "known://a*b"),
            ("known://%E0%A4%A", "known://%25E0%25A4%25A"),
        ] {
            assert_eq!(normalize_path(path), normal, "{path}");
            assert_eq!(normalize_path(normal), normal, "{path}");
        }
    }

    /// Follows rummy's specification, "Streaming Entries" and "Scheme / Category Split": the paths of a log entry and of its
    /// channels can be derived from each other.
    #[test]
    fn a_log_entry_and_its_channels_name_each_other() {
        assert_eq!(log_path_to_data_base("log://turn_3/sh/npm_test"), "sh://turn_3/npm_test");
        assert_eq!(log_path_to_data_base("sh://turn_3/npm_test"), "sh://turn_3/npm_test");
        assert_eq!(data_base_to_log_path("env://turn_1/a/b").as_deref(), Some("log://turn_1/env/a/b"));
        assert_eq!(action_of("log://turn_3/sh/npm_test"), Some("sh"));
        assert_eq!(channel_of("sh://turn_3/npm_test_2"), Some(("sh://turn_3/npm_test", 2)));
        assert_eq!(channel_of("sh://turn_3/npm_test"), None);
        assert_eq!(log_path(&Profile::v2(), 3, "set", "src/app.js"), "log://turn_3/set/src/app.js");
    }

    /// The model sees HTTP statuses, the database stores states: rummy's plugin guide, "Entry Lifecycle".
    #[test]
    fn states_have_a_status() {
        assert_eq!(state_to_status(State::Resolved, None), 200);
        assert_eq!(state_to_status(State::Failed, Some("exit:1")), 500);
        assert_eq!(state_to_status(State::Failed, Some("permission:403")), 403);
        assert_eq!(state_to_status(State::Failed, Some("overflow:413:x")), 413);
        assert_eq!(state_to_status(State::Cancelled, None), 499);
        assert_eq!(state_to_status(State::Streaming, None), 102);
        assert_eq!(state_to_status(State::Proposed, None), 202);
    }

    #[test]
    fn tokens_are_units_over_a_divisor() {
        assert_eq!(count_tokens("", 2), 0);
        assert_eq!(count_tokens("abc", 2), 2);
        assert_eq!(count_tokens("😀", 2), 1);
    }

    #[test]
    fn schemes_are_before_the_separator() {
        assert_eq!(scheme_of("known://a"), Some("known"));
        assert_eq!(scheme_of("://a"), None);
        assert_eq!(scheme_of("src/a"), None);
        assert_eq!(registered_scheme("src/a"), "file");
    }
}
