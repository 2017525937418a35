//! Handlers of streamed deltas, and the strikes against them.
//!
//! A handler is identified by its index among the `stream_text` handlers of its entry. Its handle would not do: strikes outlive a
//! restart, which gives every function a new handle.
//!
//! The hot path reads [`StreamHandlers::mask`]: one bit per source, set while it has a handler.

use pijs_protocol::registration::HandlerSpec;
use pijs_protocol::{EntryIndex, Handle, StreamSource};
use std::collections::BTreeMap;

/// One bit per [`StreamSource`].
pub(crate) type SourceMask = u8;

pub(crate) fn bit(source: StreamSource) -> SourceMask {
    match source {
        StreamSource::Text => 1,
        StreamSource::Thinking => 2,
        StreamSource::Tool => 4,
    }
}

/// Stable key of a handler: its entry and its index there.
type HandlerKey = (EntryIndex, u32);

/// The `stream_text` handlers of one extension.
#[derive(Debug, Default)]
pub(crate) struct StreamHandlers {
    mask: SourceMask,
    handlers: Vec<StreamHandler>,
    /// Number of indexes issued in this realm, by entry; the index of a removed handler is not reused.
    issued: BTreeMap<EntryIndex, u32>,
    /// Strikes and reports of each handler, kept across restarts.
    record: BTreeMap<HandlerKey, HandlerRecord>,
    /// Whether a slow verdict has been reported.
    slow_said: bool,
}

#[derive(Debug)]
struct StreamHandler {
    handle: Handle,
    place: HandlerKey,
    mask: SourceMask,
}

#[derive(Debug, Default)]
struct HandlerRecord {
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
    /// Whether the handler must not be called again.
    pub(crate) muted: bool,
}

impl StreamHandlers {
    /// Returns the sources that have a handler.
    pub(crate) fn mask(&self) -> SourceMask {
        self.mask
    }

    /// Updates the handlers from their registrations. Returns the handlers that must be muted in the realm because of earlier
    /// strikes.
    pub(crate) fn listen<'a>(&mut self, handlers: impl Iterator<Item = (EntryIndex, &'a HandlerSpec)>) -> Vec<Handle> {
        // The first occurrence of a handle takes precedence, so it is inserted last.
        let before: BTreeMap<Handle, HandlerKey> =
            self.handlers.drain(..).rev().map(|ear| (ear.handle, ear.place)).collect();
        for (entry, spec) in handlers {
            // A handler keeps its index when another one is removed.
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
            self.handlers.push(StreamHandler { handle: spec.handle, place, mask });
        }
        self.refresh();
        self.handlers.iter().filter(|ear| self.is_muted(ear)).map(|ear| ear.handle).collect()
    }

    /// Removes the handlers of an ended realm; the strikes stay.
    pub(crate) fn clear(&mut self) {
        self.handlers.clear();
        self.issued.clear();
        self.mask = 0;
    }

    /// Counts a strike. Returns `None` for an unknown handler.
    pub(crate) fn strike(&mut self, handle: Handle, max: u32) -> Option<Strike> {
        let ear = self.handlers.iter().find(|ear| ear.handle == handle)?;
        let record = self.record.entry(ear.place).or_default();
        record.strikes += 1;
        record.muted |= record.strikes >= max;
        let strike = Strike { entry: ear.place.0, handle, count: record.strikes, muted: record.muted };
        self.refresh();
        Some(strike)
    }

    /// Counts a strike against every handler of a source. Used when the realm was stopped, because the slow handler is unknown.
    pub(crate) fn strike_all(&mut self, source: StreamSource, max: u32) -> Vec<Strike> {
        let heard: Vec<Handle> = self
            .handlers
            .iter()
            .filter(|ear| ear.mask & bit(source) != 0 && !self.is_muted(ear))
            .map(|ear| ear.handle)
            .collect();
        heard.into_iter().filter_map(|handle| self.strike(handle, max)).collect()
    }

    /// Returns the handler's entry if this is the first time that the handler is late.
    pub(crate) fn first_late(&mut self, handle: Handle) -> Option<EntryIndex> {
        let ear = self.handlers.iter().find(|ear| ear.handle == handle)?;
        let record = self.record.entry(ear.place).or_default();
        (!std::mem::replace(&mut record.late_said, true)).then_some(ear.place.0)
    }

    /// Returns whether this is the first slow verdict of the extension.
    pub(crate) fn first_slow(&mut self) -> bool {
        !std::mem::replace(&mut self.slow_said, true)
    }

    fn is_muted(&self, ear: &StreamHandler) -> bool {
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

    fn listen(stream_handlers: &mut StreamHandlers, specs: &[(EntryIndex, HandlerSpec)]) -> Vec<Handle> {
        stream_handlers.listen(specs.iter().map(|(entry, spec)| (*entry, spec)))
    }

    #[test]
    fn a_handler_without_sources_hears_text_only() {
        let mut stream_handlers = StreamHandlers::default();
        listen(&mut stream_handlers, &[spec(1, &[])]);
        assert_eq!(stream_handlers.mask(), bit(StreamSource::Text));
        listen(&mut stream_handlers, &[spec(1, &[]), spec(2, &[StreamSource::Thinking, StreamSource::Tool])]);
        assert_eq!(stream_handlers.mask(), 7);
    }

    #[test]
    fn strikes_survive_a_restart_and_mute() {
        let mut stream_handlers = StreamHandlers::default();
        listen(&mut stream_handlers, &[spec(1, &[]), spec(2, &[StreamSource::Tool])]);
        assert!(!stream_handlers.strike(Handle(1), 3).expect("known").muted);
        stream_handlers.clear();
        assert_eq!(listen(&mut stream_handlers, &[spec(5, &[]), spec(6, &[StreamSource::Tool])]), []);
        assert!(!stream_handlers.strike(Handle(5), 3).expect("known").muted);
        assert!(stream_handlers.strike(Handle(5), 3).expect("known").muted);
        assert_eq!(stream_handlers.mask(), bit(StreamSource::Tool), "only the other one hears");
        stream_handlers.clear();
        assert_eq!(
            listen(&mut stream_handlers, &[spec(8, &[]), spec(9, &[])]),
            [Handle(8)],
            "muted again in the new realm"
        );
    }

    #[test]
    fn removing_a_handler_does_not_pass_its_strikes_on() {
        let mut stream_handlers = StreamHandlers::default();
        listen(&mut stream_handlers, &[spec(1, &[]), spec(2, &[])]);
        stream_handlers.strike(Handle(2), 3);
        listen(&mut stream_handlers, &[spec(2, &[])]);
        assert_eq!(stream_handlers.strike(Handle(2), 3).expect("known").count, 2);
        listen(&mut stream_handlers, &[spec(3, &[])]);
        assert_eq!(stream_handlers.strike(Handle(3), 3).expect("known").count, 1);
    }

    #[test]
    fn late_and_slow_are_said_once() {
        let mut stream_handlers = StreamHandlers::default();
        listen(&mut stream_handlers, &[spec(1, &[])]);
        assert_eq!(stream_handlers.first_late(Handle(1)), Some(EntryIndex(0)));
        assert_eq!(stream_handlers.first_late(Handle(1)), None);
        assert!(stream_handlers.first_slow());
        assert!(!stream_handlers.first_slow());
    }

    #[test]
    fn thousands_of_handlers_keep_their_places() {
        let mut stream_handlers = StreamHandlers::default();
        let specs: Vec<_> = (0..4096).map(|handle| spec(handle, &[])).collect();
        for known in (512..=specs.len()).step_by(512) {
            listen(&mut stream_handlers, &specs[..known]);
        }
        stream_handlers.strike(Handle(4095), 3);
        listen(&mut stream_handlers, &specs[1..]);
        assert_eq!(stream_handlers.strike(Handle(4095), 3).expect("known").count, 2);
    }
}
