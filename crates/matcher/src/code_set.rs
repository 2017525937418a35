//! Sets of code points or UTF-16 code units, as in ECMAScript's classes: unlike in Rust's `char`, surrogates may be members.

/// The largest code point.
pub(crate) const MAX_POINT: u32 = 0x10_FFFF;
/// The largest code unit.
pub(crate) const MAX_UNIT: u32 = 0xFFFF;

/// A set of numbers as sorted, disjoint ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeSet {
    ranges: Vec<(u32, u32)>,
}

impl CodeSet {
    /// Creates the set of these inclusive ranges.
    pub(crate) fn new(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut set = Self { ranges: ranges.into_iter().collect() };
        set.normalise();
        set
    }

    /// Creates the set of all numbers up to `max`.
    pub(crate) fn up_to(max: u32) -> Self {
        Self { ranges: vec![(0, max)] }
    }

    pub(crate) fn single(code: u32) -> Self {
        Self { ranges: vec![(code, code)] }
    }

    pub(crate) fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn contains(&self, code: u32) -> bool {
        let after = self.ranges.partition_point(|&(start, _)| start <= code);
        after > 0 && self.ranges[after - 1].1 >= code
    }

    pub(crate) fn extend(&mut self, ranges: impl IntoIterator<Item = (u32, u32)>) {
        self.ranges.extend(ranges);
        self.normalise();
    }

    pub(crate) fn union(mut self, other: &Self) -> Self {
        self.extend(other.ranges.iter().copied());
        self
    }

    /// Returns the numbers up to `max` that are not in the set.
    pub(crate) fn complement(&self, max: u32) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = 0;
        for &(start, end) in &self.ranges {
            if start > next {
                ranges.push((next, start - 1));
            }
            next = end + 1;
        }
        if next <= max {
            ranges.push((next, max));
        }
        Self { ranges }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.complement(MAX_POINT).union(&other.complement(MAX_POINT)).complement(MAX_POINT)
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.intersection(&other.complement(MAX_POINT))
    }

    /// Returns the members between `start` and `end`.
    pub(crate) fn between(&self, start: u32, end: u32) -> Self {
        self.intersection(&Self { ranges: vec![(start, end)] })
    }

    fn normalise(&mut self) {
        self.ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.ranges.len());
        for &(start, end) in &self.ranges {
            match merged.last_mut() {
                Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        self.ranges = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let set = CodeSet::new([(5, 7), (1, 2), (3, 4), (9, 9)]);
        assert_eq!(set.ranges(), [(1, 7), (9, 9)]);
        assert!(set.contains(4) && !set.contains(8) && !set.contains(0));
    }

    #[test]
    fn operations_follow_set_theory() {
        let set = CodeSet::new([(2, 4), (8, 8)]);
        assert_eq!(set.complement(9).ranges(), [(0, 1), (5, 7), (9, 9)]);
        assert_eq!(set.intersection(&CodeSet::new([(4, 8)])).ranges(), [(4, 4), (8, 8)]);
        assert_eq!(set.difference(&CodeSet::new([(3, 3)])).ranges(), [(2, 2), (4, 4), (8, 8)]);
        assert_eq!(CodeSet::default().complement(3).ranges(), [(0, 3)]);
        assert!(CodeSet::up_to(3).complement(3).is_empty());
    }
}
