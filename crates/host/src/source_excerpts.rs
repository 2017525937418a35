//! Connector of `module`: gives an extension excerpts of its own source, because a realm has only bytecode.
//!
//! `quote` returns the text that V8 quotes in an error which the extension itself catches; the realm's hook for errors calls it
//! once for each position (`pi:web/wording`). `source` returns the text of a function (`pi:web/functions`).
//!
//! An uncaught error gets its quotation when the host maps its positions, if it has none yet. `fixtures/node/error-wording`
//! compares with Node, `fixtures/drive/not-functions.json` and `fixtures/drive/caught.json` compare with pi.

use pijs_artifact::{FindFunctions, FunctionText, Verified, quoted};
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::{ExtensionId, HostcallError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sources of all loaded packages; each package sees only its own. Pass a clone to
/// [`HostBuilder::source_excerpts`](crate::HostBuilder::source_excerpts), and another to the dispatcher as the connector of
/// `module`; otherwise caught errors keep the engine's wording.
#[derive(Clone, Default)]
pub struct SourceExcerpts {
    artifacts: Arc<Mutex<BTreeMap<ExtensionId, PackageText>>>,
    finder: Option<Arc<dyn FindFunctions>>,
}

/// Maximum number of bytes of one package that are searched for functions. The search blocks the thread for about 0.1 s per
/// megabyte.
const MAX_READ: usize = 4 << 20;

struct PackageText {
    artifact: Arc<Verified>,
    /// Number of bytes searched for functions so far.
    read: usize,
    /// Functions of the modules searched so far, by module.
    functions: BTreeMap<String, Arc<[FunctionText]>>,
}

impl SourceExcerpts {
    /// Enables the texts of functions; without a finder, functions look like built-in ones.
    #[must_use]
    pub fn with_functions(mut self, finder: impl FindFunctions + 'static) -> Self {
        self.finder = Some(Arc::new(finder));
        self
    }

    /// Registers a loaded package.
    pub(crate) fn learn(&self, extension: &ExtensionId, artifact: &Arc<Verified>) {
        let text = PackageText { artifact: Arc::clone(artifact), read: 0, functions: BTreeMap::new() };
        self.texts().insert(extension.clone(), text);
    }

    fn texts(&self) -> MutexGuard<'_, BTreeMap<ExtensionId, PackageText>> {
        self.artifacts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn artifact(&self, extension: &ExtensionId) -> Option<Arc<Verified>> {
        Some(Arc::clone(&self.texts().get(extension)?.artifact))
    }

    fn quoted(&self, extension: &ExtensionId, words: &str, place: SourceLocation<'_>) -> Option<String> {
        let artifact = self.artifact(extension)?;
        quoted(words, place.source(&artifact)?, place.line, place.column)
    }

    /// Returns the functions of a module. Each module is searched once.
    fn functions(&self, extension: &ExtensionId, module: &str, source: &str) -> Option<Arc<[FunctionText]>> {
        let finder = self.finder.as_ref()?;
        {
            let mut texts = self.texts();
            let text = texts.get_mut(extension)?;
            if let Some(known) = text.functions.get(module) {
                return Some(Arc::clone(known));
            }
            if text.read + source.len() > MAX_READ {
                return None;
            }
            text.read += source.len();
        }
        let found: Arc<[FunctionText]> = finder.functions(source).into();
        self.texts().get_mut(extension)?.functions.insert(module.to_owned(), Arc::clone(&found));
        Some(found)
    }

    fn function(&self, extension: &ExtensionId, place: SourceLocation<'_>) -> Option<String> {
        let artifact = self.artifact(extension)?;
        let source = place.source(&artifact)?;
        let functions = self.functions(extension, place.module, source)?;
        let at = place.offset(source)?;
        let found = functions.iter().filter(|function| function.head.contains(&at));
        let function = found.max_by_key(|function| function.head.start)?;
        source.get(function.text.clone()).map(str::to_owned)
    }
}

/// Position in a module: 1-based, columns in UTF-16 units. In the first line the engine counts columns from 0, and reports 1 for
/// both 0 and 1.
#[derive(Clone, Copy)]
struct SourceLocation<'a> {
    module: &'a str,
    line: u32,
    column: u32,
}

impl SourceLocation<'_> {
    fn source<'a>(&self, artifact: &'a Verified) -> Option<&'a str> {
        artifact.source(self.module)
    }

    fn offset(&self, source: &str) -> Option<usize> {
        let before: usize =
            source.split_inclusive('\n').take(usize::try_from(self.line).ok()?.checked_sub(1)?).map(str::len).sum();
        let line = source[before..].split_inclusive('\n').next()?;
        let mut left = self.column.checked_sub(u32::from(self.line > 1))?;
        for (at, character) in line.char_indices() {
            if left == 0 {
                return Some(before + at);
            }
            left = left.checked_sub(u32::try_from(character.len_utf16()).expect("a character has one or two units"))?;
        }
        None
    }
}

impl Connector for SourceExcerpts {
    fn call(&self, request: Request, _chunks: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        Box::pin(std::future::ready(self.call_sync(&request)))
    }

    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        let member = |name: &str| request.params.get(name);
        if member("op").and_then(Value::as_str) == Some("compile") {
            // The gate allowed the call; the realm itself compiles the code.
            return Ok(Output::empty());
        }
        let place = |name: &str| member(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        let text = |name: &str| member(name).and_then(Value::as_str);
        let wants = |what: &str| HostcallError::invalid("schema", format!("module: {what} is missing"));
        let (Some(module), Some(line), Some(column)) = (text("module"), place("line"), place("column")) else {
            return Err(wants("a module, a line or a column"));
        };
        let place = SourceLocation { module, line, column };
        let extension = request.caller.extension();
        Ok(Output::new(match text("op") {
            Some("source") => json!({ "text": self.function(extension, place) }),
            _ => {
                json!({ "message": self.quoted(extension, text("message").ok_or_else(|| wants("a message"))?, place) })
            }
        }))
    }
}

impl std::fmt::Debug for SourceExcerpts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quotes").finish_non_exhaustive()
    }
}
