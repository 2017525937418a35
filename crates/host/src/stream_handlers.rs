//! Listeners of streamed deltas, and the strikes against them.
//!
//! A handler is known by its place among the `stream_text` handlers of its entry, not by its handle:
//! strikes outlive a restart, in which every function gets a new handle.
//!
//! [`Ears::mask`] is what the hot path looks at: one bit per source, set while somebody hears it.

use pijs_protocol::registration::HandlerSpec;
use pijs_protocol::{EntryIndex, Handle, StreamSource};
use std::collections::BTreeMap;

/// One bit per [`StreamSource`].
pub(crate) type Mask = u8;

pub(crate) fn bit(source: StreamSource) -> Mask {
    match source {
        StreamSource::Text => 1,
        StreamSource::Thinking => 2,
        StreamSource::Tool => 4,
    }
}

/// Stable name of a handler: its entry and its place there.
type Place = (EntryIndex, u32);

/// The `stream_text` handlers of one extension.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    mask: Mask,
    handlers: Vec<Ear>,
    /// Places given out in this realm, by entry: the place of a removed handler is not given again.
    issued: BTreeMap<EntryIndex, u32>,
    /// Survives restarts.
    record: BTreeMap<Place, Record>,
    /// A slow verdict is reported once.
    slow_said: bool,
}

#[derive(Debug)]
struct Ear {
    handle: Handle,
    place: Place,
    mask: Mask,
}

#[derive(Debug, Default)]
struct Record {
    strikes: u32,
    muted: bool,
    late_said: bool,
}

/// Consequence of a strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strike {
    pub(crate) entry: EntryIndex,
    pub(crate) handle: Handle,
    pub(crate) count: u32,
    /// The handler must not be called again.
    pub(crate) muted: bool,
}

impl Ears {
    /// The sources somebody hears.
    pub(crate) fn mask(&self) -> Mask {
        self.mask
    }

    /// Takes over the handlers as they are registered now. Returns those that must be muted in the
    /// realm because of earlier strikes.
    pub(crate) fn listen<'a>(&mut self, handlers: impl Iterator<Item = (EntryIndex, &'a HandlerSpec)>) -> Vec<Handle> {
        // Of one handle the first counts, so it is taken in last.
        let before: BTreeMap<Handle, Place> =
            self.handlers.drain(..).rev().map(|ear| (ear.handle, ear.place)).collect();
        for (entry, spec) in handlers {
            // A handler keeps its place when another one is removed.
            let place = match before.get(&spec.handle) {
                Some(place) => *place,
                None => {
                    let issued = self.issued.entry(entry).or_default();
                    *issued += 1;
                    (entry, *issued - 1)
                }
            };
            let mask = match spec.sources.as_slice() {
                [] => bit(StreamSource::default()),
                sources => sources.iter().fold(0, |mask, source| mask | bit(*source)),
            };
            self.handlers.push(Ear { handle: spec.handle, place, mask });
        }
        self.refresh();
        self.handlers.iter().filter(|ear| self.is_muted(ear)).map(|ear| ear.handle).collect()
    }

    /// The realm is gone; the record stays.
    pub(crate) fn deafen(&mut self) {
        self.handlers.clear();
        self.issued.clear();
        self.mask = 0;
    }

    /// Counts a strike. `None` for a handler that is not known.
    pub(crate) fn strike(&mut self, handle: Handle, max: u32) -> Option<Strike> {
        let ear = self.handlers.iter().find(|ear| ear.handle == handle)?;
        let record = self.record.entry(ear.place).or_default();
        record.strikes += 1;
        record.muted |= record.strikes >= max;
        let strike = Strike { entry: ear.place.0, handle, count: record.strikes, muted: record.muted };
        self.refresh();
        Some(strike)
    }

    /// Strikes everybody who heard a source: the realm was stopped and cannot say who held it up.
    pub(crate) fn strike_all(&mut self, source: StreamSource, max: u32) -> Vec<Strike> {
        let heard: Vec<Handle> = self
            .handlers
            .iter()
            .filter(|ear| ear.mask & bit(source) != 0 && !self.is_muted(ear))
            .map(|ear| ear.handle)
            .collect();
        heard.into_iter().filter_map(|handle| self.strike(handle, max)).collect()
    }

    /// Whether it is the first time that this handler is late; and its entry.
    pub(crate) fn first_late(&mut self, handle: Handle) -> Option<EntryIndex> {
        let ear = self.handlers.iter().find(|ear| ear.handle == handle)?;
        let record = self.record.entry(ear.place).or_default();
        (!std::mem::replace(&mut record.late_said, true)).then_some(ear.place.0)
    }

    /// Whether it is the first time that a verdict of this extension is slow.
    pub(crate) fn first_slow(&mut self) -> bool {
        !std::mem::replace(&mut self.slow_said, true)
    }

    fn is_muted(&self, ear: &Ear) -> bool {
        self.record.get(&ear.place).is_some_and(|record| record.muted)
    }

    fn refresh(&mut self) {
        self.mask = self.handlers.iter().filter(|ear| !self.is_muted(ear)).fold(0, |mask, ear| mask | ear.mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(handle: u32, sources: &[StreamSource]) -> (EntryIndex, HandlerSpec) {
        let spec = HandlerSpec { event: "stream_text".into(), handle: Handle(handle), sources: sources.to_vec() };
        (EntryIndex(0), spec)
    }

    fn listen(ears: &mut Ears, specs: &[(EntryIndex, HandlerSpec)]) -> Vec<Handle> {
        ears.listen(specs.iter().map(|(entry, spec)| (*entry, spec)))
    }

    #[test]
    fn a_handler_without_sources_hears_text_only() {
        let mut ears = Ears::default();
        listen(&mut ears, &[spec(1, &[])]);
        assert_eq!(ears.mask(), bit(StreamSource::Text));
        listen(&mut ears, &[spec(1, &[]), spec(2, &[StreamSource::Thinking, StreamSource::Tool])]);
        assert_eq!(ears.mask(), 7);
    }

    #[test]
    fn strikes_survive_a_restart_and_mute() {
        let mut ears = Ears::default();
        listen(&mut ears, &[spec(1, &[]), spec(2, &[StreamSource::Tool])]);
        assert!(!ears.strike(Handle(1), 3).expect("known").muted);
        ears.deafen();
        assert_eq!(listen(&mut ears, &[spec(5, &[]), spec(6, &[StreamSource::Tool])]), []);
        assert!(!ears.strike(Handle(5), 3).expect("known").muted);
        assert!(ears.strike(Handle(5), 3).expect("known").muted);
        assert_eq!(ears.mask(), bit(StreamSource::Tool), "only the other one hears");
        ears.deafen();
        assert_eq!(listen(&mut ears, &[spec(8, &[]), spec(9, &[])]), [Handle(8)], "muted again in the new realm");
    }

    #[test]
    fn removing_a_handler_does_not_pass_its_strikes_on() {
        let mut ears = Ears::default();
        listen(&mut ears, &[spec(1, &[]), spec(2, &[])]);
        ears.strike(Handle(2), 3);
        listen(&mut ears, &[spec(2, &[])]);
        assert_eq!(ears.strike(Handle(2), 3).expect("known").count, 2);
        listen(&mut ears, &[spec(3, &[])]);
        assert_eq!(ears.strike(Handle(3), 3).expect("known").count, 1);
    }

    #[test]
    fn late_and_slow_are_said_once() {
        let mut ears = Ears::default();
        listen(&mut ears, &[spec(1, &[])]);
        assert_eq!(ears.first_late(Handle(1)), Some(EntryIndex(0)));
        assert_eq!(ears.first_late(Handle(1)), None);
        assert!(ears.first_slow());
        assert!(!ears.first_slow());
    }

    #[test]
    fn thousands_of_handlers_keep_their_places() {
        let mut ears = Ears::default();
        let specs: Vec<_> = (0..4096).map(|handle| spec(handle, &[])).collect();
        for known in (512..=specs.len()).step_by(512) {
            listen(&mut ears, &specs[..known]);
        }
        ears.strike(Handle(4095), 3);
        listen(&mut ears, &specs[1..]);
        assert_eq!(ears.strike(Handle(4095), 3).expect("known").count, 2);
    }
}
