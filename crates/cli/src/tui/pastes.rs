//! Large texts that were pasted: each stands in the editor as a mark, and goes to the model whole.
//!
//! ```text
//! look at [paste #1 +123 lines] and [paste #2 2048 chars]
//! ```

use std::ops::Range;

/// From here on a text is large, as in pi.
const MANY_LINES: usize = 10;
const MANY_CHARACTERS: usize = 1_000;

const BEGIN: &str = "[paste #";

/// What marks stand for: the first of them for `#1`.
#[derive(Debug, Default, Clone)]
pub(super) struct Pastes(Vec<String>);

impl Pastes {
    /// The mark for a text that is large.
    pub(super) fn keep(&mut self, text: &str) -> Option<String> {
        let (lines, characters) = (text.split('\n').count(), text.encode_utf16().count());
        let size = match (lines > MANY_LINES, characters > MANY_CHARACTERS) {
            (true, _) => format!("+{lines} lines"),
            (false, true) => format!("{characters} chars"),
            (false, false) => return None,
        };
        self.0.push(text.to_owned());
        Some(format!("{BEGIN}{} {size}]", self.0.len()))
    }

    /// Where marks are in a text that stand for something.
    pub(super) fn marks<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let found = text.match_indices(BEGIN).filter(|_| !self.0.is_empty());
        found.filter_map(|(from, _)| {
            let (number, length) = mark(&text[from..])?;
            (1..=self.0.len()).contains(&number).then_some(from..from + length)
        })
    }

    /// A text with what its marks stand for.
    pub(super) fn expanded(&self, text: &str) -> String {
        let (mut whole, mut behind) = (String::new(), 0);
        for place in self.marks(text) {
            whole.push_str(&text[behind..place.start]);
            let number = mark(&text[place.clone()]).map_or(0, |(number, _)| number);
            whole.push_str(self.0.get(number.wrapping_sub(1)).map_or("", String::as_str));
            behind = place.end;
        }
        whole + &text[behind..]
    }

    /// Forgets what a mark stood for that was taken out of `text`; those behind it move up, and so does the cursor.
    pub(super) fn forget(&mut self, gone: &str, text: &mut String, at: &mut usize) {
        let Some((number, _)) = mark(gone).filter(|(number, length)| *length == gone.len() && *number <= self.0.len())
        else {
            return;
        };
        // It may stand there a second time, put in again after a cut.
        if number == 0 || self.marks(text).any(|place| mark(&text[place]).is_some_and(|(other, _)| other == number)) {
            return;
        }
        let places: Vec<_> = self.marks(text).collect();
        for place in places.into_iter().rev() {
            let Some((other, _)) = mark(&text[place.clone()]).filter(|(other, _)| *other > number) else { continue };
            let digits = place.start + BEGIN.len()..place.start + BEGIN.len() + other.to_string().len();
            let (shorter, before) = ((other - 1).to_string(), text.len());
            text.replace_range(digits, &shorter);
            if place.start < *at {
                *at -= before - text.len();
            }
        }
        self.0.remove(number - 1);
    }
}

/// The number and the length of a mark that a text begins with.
fn mark(text: &str) -> Option<(usize, usize)> {
    let rest = text.strip_prefix(BEGIN)?;
    let (inner, _) = rest.split_once(']')?;
    let (number, size) = inner.split_once(' ').unwrap_or((inner, "1 chars"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_size = match size.split_once(' ') {
        Some((count, "lines")) => count.strip_prefix('+').is_some_and(is_number),
        Some((count, "chars")) => is_number(count),
        _ => false,
    };
    (is_size && is_number(number)).then_some(())?;
    Some((number.parse().ok()?, BEGIN.len() + inner.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_of_pastes_stand_for_something() {
        let mut pastes = Pastes::default();
        assert_eq!(pastes.keep("short"), None);
        assert_eq!(pastes.expanded("[paste #1 +11 lines]"), "[paste #1 +11 lines]");
        let text = "x\n".repeat(10);
        assert_eq!(pastes.keep(&text).as_deref(), Some("[paste #1 +11 lines]"));
        for (given, expected) in [
            ("a[paste #1 +11 lines]b", format!("a{text}b")),
            ("[paste #1]", text.clone()),
            ("[paste #2 +11 lines]", "[paste #2 +11 lines]".to_owned()),
            ("[paste #0 +11 lines]", "[paste #0 +11 lines]".to_owned()),
            ("[paste #1 +x lines] [paste #", "[paste #1 +x lines] [paste #".to_owned()),
        ] {
            assert_eq!(pastes.expanded(given), expected, "{given}");
        }
    }
}
