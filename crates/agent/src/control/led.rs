//! Who is behind what the model is asked: extensions whose messages it follows, and the one that pays for it.

use super::{AgentControl, ControlError};
use pijs_protocol::{ExtensionId, guard};
use pijs_session_store::Session;
use std::collections::BTreeMap;

/// Extensions whose messages the model follows, and whether a person is asked about what comes of it.
#[derive(Default)]
pub(super) struct Led {
    /// Since a person last said something.
    now: BTreeMap<String, bool>,
    /// With what a person says next.
    next: BTreeMap<String, bool>,
    /// Who of them spoke last.
    last: Option<ExtensionId>,
    /// The extension without which the model would not be asked now.
    payer: Option<ExtensionId>,
}

impl Led {
    /// The same for a session that goes on after its extensions were loaded again.
    pub(super) fn kept(self) -> Self {
        match guard::is_up("door.waiting") {
            true => Self { last: None, payer: None, ..self },
            false => Self::default(),
        }
    }
}

impl AgentControl {
    /// Looks whether messages of extensions wait in the session that was opened: they go to the model with what a person
    /// says next, like those that came just now.
    pub(crate) fn find_waiting(&self) -> Result<(), ControlError> {
        let is_known = { !self.lock().led.next.is_empty() };
        if is_known || !guard::is_up("door.waiting") {
            return Ok(());
        }
        for extension in self.with_session(Session::waiting_words)? {
            self.note_message(&extension, true, true);
        }
        Ok(())
    }

    /// Notes that a message of an extension goes to the model: now, or with what a person says next. After one that is
    /// part of a verdict nobody is asked.
    pub(crate) fn note_message(&self, extension: &str, next: bool, asks: bool) {
        let mut inner = self.lock();
        if !next {
            inner.led.last = Some(ExtensionId::new(extension));
        }
        let led = if next { &mut inner.led.next } else { &mut inner.led.now };
        *led.entry(extension.to_owned()).or_default() |= asks;
    }

    /// Who pays for the requests that follow: the extension that asked for the run, `None` for a person.
    pub(crate) fn begins_for(&self, extension: Option<ExtensionId>) {
        self.lock().led.payer = extension;
    }

    /// A run goes on although the model is done: for whoever spoke last.
    pub(crate) fn goes_on(&self) {
        let led = &mut self.lock().led;
        led.payer.clone_from(&led.last);
    }

    /// The extension without which the model would not be asked now.
    pub(crate) fn payer(&self) -> Option<ExtensionId> {
        self.lock().led.payer.clone()
    }

    /// A person said something: what extensions said before counts no more.
    pub(crate) fn person_spoke(&self) {
        let led = &mut self.lock().led;
        led.now = std::mem::take(&mut led.next);
        (led.last, led.payer) = (None, None);
    }

    /// Extensions whose messages the model follows, sorted, and whether a person is asked about it.
    pub(crate) fn led_by(&self) -> Vec<(String, bool)> {
        self.lock().led.now.iter().map(|(extension, asks)| (extension.clone(), *asks)).collect()
    }
}
