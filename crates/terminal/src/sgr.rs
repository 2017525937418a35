//! The supported subset of SGR (Select Graphic Rendition) sequences.

/// Maximum number of parameters of one sequence that are parsed.
const MAX_PARAMETERS: usize = 32;
/// Sequence that resets all styles.
const RESET: &str = "\u{1b}[0m";

/// Reduces the parameters of one `CSI ... m` to the supported ones; `None` if none remains.
///
/// `parameters` are groups separated by colons: `38:2::1:2:3` is one group of six.
pub(crate) fn keep(parameters: &[Vec<u16>]) -> Option<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while at < parameters.len().min(MAX_PARAMETERS) {
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
            // `4:3`, a curly underline, becomes a plain underline.
            (4, _) => kept.push(if group[1] == 0 { "24" } else { "4" }.to_owned()),
            _ => {}
        }
        at += 1;
    }
    (!kept.is_empty()).then(|| format!("\u{1b}[{}m", kept.join(";")))
}

/// Returns whether a parameter is supported: bold, dim, italic, underline, inverse, strike-through, their ends, and colours.
/// Blinking and concealed text are not.
fn is_plain(number: u16) -> bool {
    matches!(number, 0..=4 | 7 | 9 | 21..=24 | 27 | 29 | 30..=37 | 39 | 40..=47 | 49 | 90..=97 | 100..=107)
}

/// Parses `5;N` or `2;R;G;B`. Returns the number of consumed parameters, and the colour if it is valid.
fn colour(rest: &[Vec<u16>]) -> (usize, Option<String>) {
    let number = |at: usize| rest.get(at).and_then(|group| group.first()).copied();
    match number(0) {
        Some(5) => (2, number(1).filter(|n| *n < 256).map(|n| format!("5;{n}"))),
        Some(2) => {
            // In the form with colons, an empty colour space may come first.
            let from = usize::from(rest.len() == 5);
            let parts: Vec<u16> = (1 + from..4 + from).filter_map(number).filter(|n| *n < 256).collect();
            let colour = (parts.len() == 3).then(|| format!("2;{};{};{}", parts[0], parts[1], parts[2]));
            (4 + from, colour)
        }
        _ => (0, None),
    }
}

/// Returns whether a sequence made by [`keep`] resets all styles.
pub(crate) fn resets(sequence: &str) -> bool {
    sequence == RESET
}

/// The style sequences in effect, without those that later ones override. At most one is kept per attribute, however many were
/// written.
#[derive(Debug, Default)]
pub(crate) struct ActiveStyles<'a> {
    /// Whether a reset precedes the sequences.
    is_reset: bool,
    /// Sequences with the attributes that they set, as bits.
    sequences: Vec<(u16, &'a str)>,
}

impl<'a> ActiveStyles<'a> {
    /// Adds a sequence made by [`keep`].
    pub(crate) fn take(&mut self, sequence: &'a str) {
        let StyleEffect { resets, attributes } = effect_of(sequence);
        if resets {
            self.sequences.clear();
            self.is_reset = true;
        }
        if attributes == 0 {
            return;
        }
        let mut later = attributes;
        for at in (0..self.sequences.len()).rev() {
            let (before, _) = self.sequences[at];
            if before & !later == 0 {
                self.sequences.remove(at);
            }
            later |= before;
        }
        self.sequences.push((attributes, sequence));
    }

    /// Writes the sequences and clears the set.
    pub(crate) fn write(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_reset) {
            out.push_str(RESET);
        }
        self.sequences.drain(..).for_each(|(_, sequence)| out.push_str(sequence));
    }

    /// Returns the active sequences, without a preceding reset.
    pub(crate) fn on(&self) -> String {
        self.sequences.iter().map(|(_, sequence)| *sequence).collect()
    }
}

/// Effect of a sequence: whether it resets all styles, and the attributes that it sets.
struct StyleEffect {
    resets: bool,
    attributes: u16,
}

fn effect_of(sequence: &str) -> StyleEffect {
    let mut numbers = sequence.trim_start_matches("\u{1b}[").trim_end_matches('m').split(';');
    let mut effect = StyleEffect { resets: false, attributes: 0 };
    while let Some(number) = numbers.next() {
        let colour = matches!(number, "38" | "48");
        match number.parse().unwrap_or(0) {
            0 => effect = StyleEffect { resets: true, attributes: 0 },
            number => effect.attributes |= attribute(number),
        }
        if colour {
            let more = if numbers.next() == Some("2") { 3 } else { 1 };
            numbers.by_ref().take(more).for_each(drop);
        }
    }
    effect
}

/// Returns the attribute of a parameter as a bit. Parameter 22 ends both bold and dim, which have separate bits because both can
/// be active.
fn attribute(number: u16) -> u16 {
    match number {
        1 => 1,
        2 => 1 << 1,
        22 => 1 | 1 << 1,
        3 | 23 => 1 << 2,
        4 | 21 | 24 => 1 << 3,
        7 | 27 => 1 << 4,
        9 | 29 => 1 << 5,
        30..=39 | 90..=97 => 1 << 6,
        _ => 1 << 7,
    }
}
