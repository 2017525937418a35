//! The connector of `module`: what V8 quotes of the source in an error, for an error that the extension itself catches.
//!
//! A realm has bytecode and no text. Its hook for errors asks here, once for each place; see `pi:web/wording`.

use crate::quoted::quoted;
use pijs_artifact::Verified;
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The texts of the packages that a host has loaded, each for its own package alone. Give a clone to
/// [`HostBuilder::quotes`](crate::HostBuilder::quotes), and another to the dispatcher as the connector of `module`; without
/// that, errors that are caught keep the engine's words.
#[derive(Clone, Default)]
pub struct Quotes {
    artifacts: Arc<Mutex<BTreeMap<ExtensionId, Arc<Verified>>>>,
}

impl Quotes {
    /// A package is loaded, perhaps anew.
    pub(crate) fn learn(&self, extension: &ExtensionId, artifact: &Arc<Verified>) {
        let mut artifacts = self.artifacts.lock().unwrap_or_else(PoisonError::into_inner);
        artifacts.insert(extension.clone(), Arc::clone(artifact));
    }

    fn quoted(&self, extension: &ExtensionId, words: &str, place: (&str, u32, u32)) -> Option<String> {
        let (module, line, column) = place;
        let artifact = {
            let artifacts = self.artifacts.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(artifacts.get(extension)?)
        };
        let module = artifact.artifact().modules.iter().find(|known| known.specifier == module)?;
        quoted(words, &module.source, line, column)
    }
}

impl Connector for Quotes {
    fn call(&self, request: Request, _chunks: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        Box::pin(std::future::ready(self.call_sync(&request)))
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let member = |name: &str| request.params.get(name);
        let place = |name: &str| member(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        let text = |name: &str| member(name).and_then(Value::as_str);
        let (Some(words), Some(module), Some(line), Some(column)) =
            (text("message"), text("module"), place("line"), place("column"))
        else {
            let wanted = "module: `quote` wants a message, a module, a line and a column";
            return Err(HostcallError::invalid("schema", wanted));
        };
        let message = self.quoted(request.caller.extension(), words, (module, line, column));
        Ok(Output::new(json!({ "message": message })))
    }
}

impl std::fmt::Debug for Quotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quotes").finish_non_exhaustive()
    }
}
