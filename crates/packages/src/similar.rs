//! Detects names that users can confuse: typosquatting.
//!
//! Two names are similar when they are equal after folding lookalikes (`0` and `o`, `1` and `l`, `rn` and `m`, with or without
//! separators), or when they differ by one edit (an insertion, deletion, substitution or transposition) and are long enough that
//! this is not a coincidence.

/// Minimum length of a name that is compared by edits: in a shorter name, a single letter distinguishes words (`cat` and `bat`).
const SHORTEST: usize = 6;

/// Describes how two different names can be confused; returns `None` if they cannot.
pub(crate) fn difference(new: &str, known: &str) -> Option<String> {
    if new == known {
        return None;
    }
    if folded(new) == folded(known) {
        return Some(format!("the names differ only in lookalike characters ({})", code_points(new, known)));
    }
    let (a, b): (Vec<char>, Vec<char>) = (new.chars().collect(), known.chars().collect());
    (a.len().min(b.len()) >= SHORTEST && one_step(&a, &b))
        .then(|| format!("the names differ by one letter ({})", code_points(new, known)))
}

fn folded(name: &str) -> String {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | '.'))
        .map(|c| match c {
            '0' => 'o',
            '1' | 'i' => 'l',
            '5' => 's',
            other => other,
        })
        .collect();
    plain.replace("rn", "m").replace("vv", "w").replace("cl", "d")
}

fn one_step(a: &[char], b: &[char]) -> bool {
    let start = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - end.min(a.len())], &b[..b.len() - end.min(b.len())]);
    // `tool` and `tool2`, or `tool2` and `tool3`, form a series.
    if a.iter().chain(b).all(char::is_ascii_digit) {
        return false;
    }
    match (a, b) {
        ([], [_]) | ([_], []) | ([_], [_]) => true,
        ([p, q], [r, s]) => p == s && q == r,
        _ => false,
    }
}

/// Describes the characters that differ by code point, so that they can be distinguished in any font.
fn code_points(new: &str, known: &str) -> String {
    let shown = |from: &str, other: &str| {
        let start = from.chars().zip(other.chars()).take_while(|(x, y)| x == y).count();
        let rest: Vec<String> =
            from.chars().skip(start).take(2).map(|c| format!("{c} U+{:04X}", u32::from(c))).collect();
        if rest.is_empty() { "its end".to_owned() } else { rest.join(" ") }
    };
    format!("{} in place of {}", shown(new, known), shown(known, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_detected() {
        for (new, known, similar) in [
            ("pi-extenson", "pi-extension", true),
            ("pi-extensoin", "pi-extension", true),
            ("pi-extensions", "pi-extension", true),
            ("pi-extension", "pi-extension", false),
            ("piextension", "pi-extension", true),
            ("pi_ttsr", "pi-ttsr", true),
            ("pi-c0re", "pi-core", true),
            ("rnodern-pi", "modern-pi", true),
            ("@corp/tool", "@c0rp/tool", true),
            ("cat", "bat", false),
            ("side-pi-1", "side-pi-2", false),
            ("attacked2", "attacked", false),
            ("pi-plan", "pi-rules", false),
            ("greets-cjs", "greets-esm", false),
        ] {
            assert_eq!(difference(new, known).is_some(), similar, "{new} {known}");
        }
    }

    #[test]
    fn the_message_names_code_points() {
        let said = difference("pi-c0re", "pi-core").expect("similar");
        assert!(said.contains("0 U+0030") && said.contains("o U+006F"), "{said}");
    }
}
