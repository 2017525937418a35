//! The styles that hold at a place. A text says how often one of them is opened inside of itself; it is written once.

/// Open styles, the outermost first.
#[derive(Default)]
pub(super) struct Styles {
    open: Vec<&'static str>,
    /// Each that holds, in the order in which they began, and how often it is open.
    held: Vec<(&'static str, usize)>,
}

impl Styles {
    /// Opens one more; whether it did not hold before.
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

    /// Closes the innermost; whether it holds no longer.
    pub(super) fn pop(&mut self) -> bool {
        let Some(style) = self.open.pop() else { return false };
        let before = self.held.len();
        self.held.retain_mut(|(held, count)| {
            *count -= usize::from(*held == style);
            *count > 0
        });
        self.held.len() < before
    }

    /// What is written where they all hold.
    pub(super) fn held(&self) -> String {
        self.held.iter().map(|(style, _)| *style).collect()
    }
}
