//! Tracks open styles. A style that is opened several times is written once.

/// Open styles, outermost first.
#[derive(Default)]
pub(super) struct Styles {
    open: Vec<&'static str>,
    /// Active styles with their nesting counts, in the order in which they were opened.
    held: Vec<(&'static str, usize)>,
}

impl Styles {
    /// Opens a style. Returns whether it was inactive before.
    pub(super) fn push(&mut self, style: &'static str) -> bool {
        self.open.push(style);
        match self.held.iter_mut().find(|(held, _)| *held == style) {
            Some((_, count)) => {
                *count += 1;
                false
            }
            None => {
                self.held.push((style, 1));
                true
            }
        }
    }

    /// Closes the innermost style. Returns whether it is inactive now.
    pub(super) fn pop(&mut self) -> bool {
        let Some(style) = self.open.pop() else { return false };
        let before = self.held.len();
        self.held.retain_mut(|(held, count)| {
            *count -= usize::from(*held == style);
            *count > 0
        });
        self.held.len() < before
    }

    /// Returns the sequences of all active styles.
    pub(super) fn held(&self) -> String {
        self.held.iter().map(|(style, _)| *style).collect()
    }
}
