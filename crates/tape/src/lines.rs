//! Compares the messages of a replay with the lines of its tape.

use crate::compare::{Difference, compare};
use crate::record::{EventRef, RealmNumber, encode};
use crate::writer::Encoder;
use pijs_redact::Redactor;

/// Encodes the messages of a replay, to compare them with a tape.
pub(crate) struct Lines {
    /// Encoder that replaces text which looks like a credential by a placeholder.
    pub(crate) encoder: Encoder,
    /// Whether to leave out the positions of pi's own modules in stacks, which are different in another build.
    without_positions: bool,
}

impl Lines {
    pub(crate) fn new(without_positions: bool) -> Self {
        Self { encoder: Encoder::new(Some(Redactor::default().substitutes())), without_positions }
    }

    pub(crate) fn compare(&self, realm: RealmNumber, recorded: &[u8], event: EventRef<'_>) -> Option<Difference> {
        let plain = encode(realm, event, |_| None).map(|encoded| encoded.line).unwrap_or_default();
        if plain == recorded {
            return None;
        }
        let line = self.encoder.canonical(realm, event).map(|encoded| encoded.line).unwrap_or(plain);
        if self.without_positions {
            return compare(Some(&without_own_positions(recorded)), Some(&without_own_positions(&line)));
        }
        compare(Some(recorded), Some(&line))
    }
}

/// Returns a line in which each `pi:NAME:LINE:COLUMN` of a stack is replaced by `pi:NAME`.
fn without_own_positions(line: &[u8]) -> Vec<u8> {
    const BEGINS: &[u8] = b"pi:";
    let is_end = |byte: &u8| matches!(byte, b' ' | b')' | b'\\' | b'"');
    let mut kept = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.windows(BEGINS.len()).position(|window| window == BEGINS) {
        let (before, frame) = rest.split_at(at);
        kept.extend_from_slice(before);
        let (frame, after) = frame.split_at(frame.iter().position(is_end).unwrap_or(frame.len()));
        let is_frame = before.last().is_some_and(|byte| matches!(byte, b' ' | b'('));
        let mut name = frame;
        for _ in 0..2 {
            let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            let bare = &name[..name.len() - digits];
            if is_frame && digits > 0 && bare.len() > BEGINS.len() && bare.ends_with(b":") {
                name = &bare[..bare.len() - 1];
            }
        }
        kept.extend_from_slice(name);
        rest = after;
    }
    kept.extend_from_slice(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_in_modules_of_pi_are_left_out_and_those_of_extensions_are_kept() {
        let line = br#"{"stack":"at ext:/0/index.js:8:13\n at pi:pi/api:63:75\n at f (pi:runtime:320:48)"}"#;
        let kept = String::from_utf8(without_own_positions(line)).expect("text");
        assert_eq!(kept, r#"{"stack":"at ext:/0/index.js:8:13\n at pi:pi/api\n at f (pi:runtime)"}"#);
        let prose = br#"{"text":"api:1:2 npi:3:4 pi:"}"#;
        assert_eq!(without_own_positions(prose), prose);
    }
}
