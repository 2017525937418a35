//! Holds back the messages of a package that loads ahead of its turn, until earlier packages have loaded.

use crate::message_limits;
use pijs_protocol::message::Message;
use tokio::sync::OwnedSemaphorePermit;

/// Maximum number of messages of one package that are held back. Later ones are delivered at once.
const MOST: usize = 256;

/// Maximum total size of the held-back messages as JSON, in bytes; equal to the limit of one package's registrations.
const MAX_BYTES: usize = 8 << 20;

/// Messages of a package that loads ahead of its turn.
#[derive(Default)]
pub(crate) struct Ahead {
    pub(crate) messages: Vec<Message>,
    bytes: usize,
    /// Core that the first turn occupies; `None` once the turn is over.
    pub(crate) core: Option<OwnedSemaphorePermit>,
}

impl Ahead {
    /// Holds a message back until the package's turn, if it has to arrive in load order.
    pub(crate) fn keep_back(&mut self, message: Message) -> Option<Message> {
        let comes_in_order =
            matches!(message, Message::Register(_) | Message::BusEmit(_) | Message::Log(_) | Message::Error(_));
        if !comes_in_order || self.messages.len() >= MOST {
            return Some(message);
        }
        let bytes = self.bytes + message_limits::size(&message);
        if bytes > MAX_BYTES {
            return Some(message);
        }
        self.bytes = bytes;
        self.messages.push(message);
        None
    }

    /// Returns whether the realm has answered the load.
    pub(crate) fn has_answered(&self) -> bool {
        self.messages.iter().any(|message| match message {
            Message::Register(register) => register.ready,
            Message::Error(error) => error.phase == "load",
            _ => false,
        })
    }

    /// Releases the core for another package.
    pub(crate) fn leave_core(&mut self) {
        self.core = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_protocol::TimerId;
    use pijs_protocol::message::BusEvent;

    fn emission(bytes: usize) -> Message {
        Message::BusEmit(BusEvent { channel: "news".to_owned(), data: "x".repeat(bytes).into() })
    }

    #[test]
    fn so_much_is_kept_back_and_no_more() {
        let mut many = Ahead::default();
        assert!((0..MOST).all(|_| many.keep_back(emission(1)).is_none()));
        assert!(many.keep_back(emission(1)).is_some());
        let mut large = Ahead::default();
        assert!((0..7).all(|_| large.keep_back(emission(1 << 20)).is_none()));
        assert!(large.keep_back(emission(1 << 20)).is_some());
        assert!(large.keep_back(emission(1)).is_none(), "what is small has room");
    }

    #[test]
    fn timers_are_not_kept_back() {
        assert!(Ahead::default().keep_back(Message::TimerClear { timer: TimerId(1) }).is_some());
    }
}
