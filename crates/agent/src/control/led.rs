//! Keeps who is behind what the model is asked: extensions whose words it follows, and the one that pays for it.
//!
//! The words that no reply has followed are read from the session at each request ([`Session::waiting_words`]), so nothing that
//! is said meanwhile makes them the user's: a command, a request that failed, another run. Beside that counts what no
//! entry of the session shows, until the user speaks: a prompt or a context that was changed, a verdict.

use super::{AgentControl, ControlError};
use pijs_protocol::{ExtensionId, guard};
use pijs_session_store::Session;
use std::collections::BTreeMap;

/// Extensions whose words the model follows, and whether a person is asked about what comes of it.
#[derive(Default)]
pub(super) struct Led {
    /// Since a person last said something.
    now: BTreeMap<String, bool>,
    /// Those of the latest request: what comes of its reply is theirs, whoever speaks meanwhile.
    asked: BTreeMap<String, bool>,
    /// Who of them spoke last.
    last: Option<ExtensionId>,
    /// The extension without which the model would not be asked now.
    payer: Option<ExtensionId>,
}

impl AgentControl {
    /// Notes that words of an extension go to the model, and whether a person is asked about what comes of it.
    pub(crate) fn note_message(&self, extension: &str, asks: bool) {
        let led = &mut self.lock().led;
        for noted in [&mut led.now, &mut led.asked] {
            *noted.entry(extension.to_owned()).or_default() |= asks;
        }
    }

    /// Notes an extension that speaks now: what goes on goes on for it.
    pub(crate) fn note_speaker(&self, extension: &str) {
        self.note_message(extension, true);
        self.lock().led.last = Some(ExtensionId::new(extension));
    }

    /// Notes the extension of a verdict, after which nobody is asked.
    pub(crate) fn note_verdict(&self, extension: &str) {
        self.note_message(extension, false);
        self.lock().led.last = Some(ExtensionId::new(extension));
    }

    /// Attributes the request that is made next to the extensions whose words no reply has followed.
    pub(crate) fn attribute_request(&self) -> Result<(), ControlError> {
        let mut inner = self.lock();
        if guard!(AttributionPendingMessage) {
            for (extension, asks) in Session::waiting_words(&inner.session)? {
                *inner.led.now.entry(extension).or_default() |= asks;
            }
        }
        inner.led.asked = inner.led.now.clone();
        Ok(())
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

    /// A person said something: what extensions said before counts no more, once the model has answered it.
    pub(crate) fn person_spoke(&self) {
        let led = &mut self.lock().led;
        led.now.clear();
        (led.last, led.payer) = (None, None);
    }

    /// Extensions whose words the reply follows, sorted, and whether a person is asked about it.
    pub(crate) fn led_by(&self) -> Vec<(String, bool)> {
        let led = &self.lock().led;
        let mut all = led.asked.clone();
        led.now.iter().for_each(|(extension, asks)| *all.entry(extension.clone()).or_default() |= asks);
        all.into_iter().collect()
    }
}
