//! Attributes model requests to the extensions that influenced them, and to the one that triggered them.
//!
//! [`Session::pending_authors`] returns the extensions whose text the model has not replied to yet. It is called for each
//! request, so that input in between does not hide their influence. This module adds influence without an entry, until the next
//! message of the user: changed prompts and contexts, and verdicts.

use super::AgentControl;
use crate::outcome::ControlError;
use pijs_protocol::{ExtensionId, guard};
use pijs_session_store::Session;
use std::collections::BTreeMap;

/// Extensions with influence on the model, each with a flag: `true` if resulting tool calls need consent.
#[derive(Default)]
pub(super) struct Attribution {
    /// Influence since the last message of the user.
    now: BTreeMap<String, bool>,
    /// Influence on the latest request, to which its reply is attributed.
    asked: BTreeMap<String, bool>,
    /// The extension that last had influence.
    last: Option<ExtensionId>,
    /// The extension that triggered the current request.
    payer: Option<ExtensionId>,
}

impl AgentControl {
    /// Records that text of an extension goes to the model, and whether resulting tool calls need consent.
    pub(crate) fn note_message(&self, extension: &str, asks: bool) {
        let attribution = &mut self.lock().attribution;
        for noted in [&mut attribution.now, &mut attribution.asked] {
            *noted.entry(extension.to_owned()).or_default() |= asks;
        }
    }

    /// Records the extension that sends a message and thereby continues the run.
    pub(crate) fn note_speaker(&self, extension: &str) {
        self.note_message(extension, true);
        self.lock().attribution.last = Some(ExtensionId::new(extension));
    }

    /// Records the extension of a verdict. Resulting tool calls need no consent.
    pub(crate) fn note_verdict(&self, extension: &str) {
        self.note_message(extension, false);
        self.lock().attribution.last = Some(ExtensionId::new(extension));
    }

    /// Attributes the next request to the extensions whose text the model has not replied to yet.
    pub(crate) fn attribute_request(&self) -> Result<(), ControlError> {
        let mut inner = self.lock();
        if guard!(AttributionPendingMessage) {
            for (extension, asks) in Session::pending_authors(&inner.session)? {
                *inner.attribution.now.entry(extension).or_default() |= asks;
            }
        }
        inner.attribution.asked = inner.attribution.now.clone();
        Ok(())
    }

    /// Sets the payer of the following requests: the extension that triggered the run, or `None` for the user.
    pub(crate) fn set_payer(&self, extension: Option<ExtensionId>) {
        self.lock().attribution.payer = extension;
    }

    /// Charges the requests of a continued run to the extension that last influenced the model.
    pub(crate) fn charge_last_speaker(&self) {
        let attribution = &mut self.lock().attribution;
        attribution.payer.clone_from(&attribution.last);
    }

    /// Returns the extension that triggered the current request.
    pub(crate) fn payer(&self) -> Option<ExtensionId> {
        self.lock().attribution.payer.clone()
    }

    /// Resets the influence after a message of the user. Earlier text of extensions keeps its influence until the model has
    /// replied to it.
    pub(crate) fn user_spoke(&self) {
        let attribution = &mut self.lock().attribution;
        attribution.now.clear();
        (attribution.last, attribution.payer) = (None, None);
    }

    /// Returns the extensions that influenced the reply, sorted, each with a flag: `true` if tool calls need consent.
    pub(crate) fn attributed_extensions(&self) -> Vec<(String, bool)> {
        let attribution = &self.lock().attribution;
        let mut all = attribution.asked.clone();
        attribution.now.iter().for_each(|(extension, asks)| *all.entry(extension.clone()).or_default() |= asks);
        all.into_iter().collect()
    }
}
