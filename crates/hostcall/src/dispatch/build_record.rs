//! Records the files that the build of an extension read, like reads at run time.

use super::Dispatcher;
use crate::caller::{Caller, Profile};
use crate::grant_store::code_digest;
use pijs_protocol::guard;
use pijs_protocol::log::Level;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of bytes of file names in one record; further files are only counted.
const NAMED_BYTES: usize = 16 << 10;

/// The files that a build read.
#[derive(Debug, Default)]
pub struct BuildRecord {
    /// Digests of all files in the artifact, by name. The ledger records their number and a combined digest.
    pub inputs: BTreeMap<String, String>,
    /// Files that are not plain source of the extension, each with a flag for possible secrets.
    pub read: Vec<(PathBuf, bool)>,
    /// Files that the build was not allowed to read, or the reason of its failure.
    pub refused: Vec<String>,
}

impl Dispatcher {
    /// Records a build in the ledger, and counts the files that may hold secrets as read by the extension.
    pub fn record_build(&self, profile: &Profile, record: &BuildRecord) {
        if !guard!(BuildRecorded) {
            return;
        }
        for (path, _) in record.read.iter().filter(|(_, secrets)| *secrets) {
            self.gate().note_read(&profile.extension, &path.to_string_lossy());
        }
        let mut bytes = 0;
        let mut is_named = |name: &str| {
            bytes += name.len();
            bytes <= NAMED_BYTES
        };
        let read = record.read.iter().map(|(path, secrets)| (path.to_string_lossy(), *secrets));
        let read: Vec<Value> = read
            .filter(|(path, _)| is_named(path))
            .map(|(path, secrets)| json!({"path": path, "sensitive": secrets}))
            .collect();
        let refused: Vec<&String> = record.refused.iter().filter(|name| is_named(name)).collect();
        let unnamed = record.read.len() + record.refused.len() - read.len() - refused.len();
        let data = Map::from_iter([
            ("files".to_owned(), json!(record.inputs.len())),
            ("digest".to_owned(), json!(code_digest(&record.inputs))),
            ("read".to_owned(), json!(read)),
            ("refused".to_owned(), json!(refused)),
            ("unnamed".to_owned(), json!(unnamed)),
        ]);
        let level = if record.refused.is_empty() { Level::Info } else { Level::Warn };
        let caller = Caller::new(Arc::new(profile.clone()));
        let message = "files that were compiled into an extension";
        self.ledger().event(self.inner.timer.now(), &caller, level, "extension.build", message, data);
    }
}
