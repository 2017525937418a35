//! The styles that stay.

/// Longest list of numbers of one sequence that is looked at.
const MOST: usize = 32;

/// Rewrites the numbers of one `CSI ... m`: what is known stays, the rest goes. `None` when nothing is left.
///
/// `parameters` are groups, as colons make them: `38:2::1:2:3` is one of six.
pub(crate) fn keep(parameters: &[Vec<u16>]) -> Option<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while at < parameters.len().min(MOST) {
        let group = &parameters[at];
        let first = group.first().copied().unwrap_or(0);
        match (first, group.len()) {
            (38 | 48 | 58, 1) => {
                let (taken, colour) = colour(&parameters[at + 1..]);
                at += taken;
                if let (Some(colour), 38 | 48) = (colour, first) {
                    kept.push(format!("{first};{colour}"));
                }
            }
            (38 | 48, _) => {
                let numbers: Vec<Vec<u16>> = group[1..].iter().map(|number| vec![*number]).collect();
                if let (_, Some(colour)) = colour(&numbers) {
                    kept.push(format!("{first};{colour}"));
                }
            }
            (_, 1) if is_plain(first) => kept.push(first.to_string()),
            // `4:3`, a curly underline: an underline.
            (4, _) => kept.push(if group[1] == 0 { "24" } else { "4" }.to_owned()),
            _ => {}
        }
        at += 1;
    }
    (!kept.is_empty()).then(|| format!("\u{1b}[{}m", kept.join(";")))
}

/// Bold, dim, italic, underline, inverse, strike-through, their ends, and colours. No blinking, no concealing.
fn is_plain(number: u16) -> bool {
    matches!(number, 0..=4 | 7 | 9 | 21..=24 | 27 | 29 | 30..=37 | 39 | 40..=47 | 49 | 90..=97 | 100..=107)
}

/// `5;N` or `2;R;G;B`: how many numbers it took, and the colour if it is one.
fn colour(rest: &[Vec<u16>]) -> (usize, Option<String>) {
    let number = |at: usize| rest.get(at).and_then(|group| group.first()).copied();
    match number(0) {
        Some(5) => (2, number(1).filter(|n| *n < 256).map(|n| format!("5;{n}"))),
        Some(2) => {
            // The form with colons may name a colour space first, as nothing.
            let from = usize::from(rest.len() == 5);
            let parts: Vec<u16> = (1 + from..4 + from).filter_map(number).filter(|n| *n < 256).collect();
            let colour = (parts.len() == 3).then(|| format!("2;{};{};{}", parts[0], parts[1], parts[2]));
            (4 + from, colour)
        }
        _ => (0, None),
    }
}

/// Whether everything is off after this sequence, which [`keep`] made.
pub(crate) fn resets(sequence: &str) -> bool {
    sequence == "\u{1b}[0m"
}
