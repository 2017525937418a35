//! Compiles an author's `.wasm` file: validates it, checks its imports and generates native code.
//!
//! The bytes are untrusted. A core module is turned into a component if it carries the description of its world, as `wit-bindgen`
//! writes it.

use crate::realm::prepare;
use crate::runtime::engine;
use pijs_protocol::guard;
use std::collections::BTreeMap;
use std::fmt;
use wasmparser::{Encoding, Parser, Payload};
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentExtern, ComponentItem};

/// Package of the world; `schema/wit/extension.wit` states its version.
const WORLD: &str = "pi:extension";

/// Reason why a file is not an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of the mistake.
    pub kind: RefusalKind,
    /// Description of the mistake.
    pub message: String,
    /// Next step for the author.
    pub help: String,
}

/// Kinds of mistakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The file is not WebAssembly, was cut off, or is damaged.
    Malformed,
    /// The component targets a world other than `pi:extension`.
    World,
    /// The component imports something that is not provided.
    Import,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// A compiled component that fits the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The component, which another engine build can compile again.
    pub component: Vec<u8>,
    /// Native code of this engine build.
    pub code: Vec<u8>,
    /// Names of the imported interfaces without versions, each with the imported functions.
    pub imports: BTreeMap<String, Vec<String>>,
}

/// Compiles an author's `.wasm`: a component, or a core module with a description of its world.
///
/// # Errors
///
/// Fails with a [`Refusal`], which states how to correct the file.
pub fn compile(bytes: &[u8]) -> Result<Compiled, Refusal> {
    let component = component_of(bytes)?;
    let code = engine().precompile_component(&component).map_err(|error| malformed(&format!("{error:#}")))?;
    // SAFETY: the bytes are the result of `precompile` in the line above.
    let loaded = unsafe { Component::deserialize(engine(), &code) };
    let loaded = loaded.map_err(|error| malformed(&format!("{error:#}")))?;
    let imports = imports_of(&loaded);
    check_imports(&imports)?;
    if let Err(error) = prepare(&loaded) {
        return Err(Refusal {
            kind: RefusalKind::World,
            message: error.to_string(),
            help: "build it again against schema/wit/extension.wit of this version".to_owned(),
        });
    }
    Ok(Compiled { component, code, imports: plain(imports) })
}

/// Returns a name of the engine build. Code that was compiled under another name is compiled again.
pub fn engine_name() -> String {
    use std::hash::{Hash as _, Hasher as _};
    /// FNV-1a hasher, whose result is the same in every process, unlike that of the standard hasher.
    struct Fnv(u64);
    impl std::hash::Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    engine().precompile_compatibility_hash().hash(&mut hasher);
    format!("wasmtime {:016x}", hasher.finish())
}

fn malformed(why: &str) -> Refusal {
    // A parser's message may have several lines; only the first is used.
    let why = why.lines().next().unwrap_or_default().trim_end_matches(['[', '=', ' ']).trim_end_matches(" - expected");
    Refusal {
        kind: RefusalKind::Malformed,
        message: format!("not a valid WebAssembly file: {why}"),
        help: "copy it again, or build it again from its sources".to_owned(),
    }
}

/// Returns the bytes if they are a component; converts a core module to a component.
fn component_of(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let version = Parser::new(0).parse_all(bytes).next();
    match version {
        Some(Ok(Payload::Version { encoding: Encoding::Component, .. })) => Ok(bytes.to_vec()),
        Some(Ok(Payload::Version { encoding: Encoding::Module, .. })) => encode(bytes),
        Some(Ok(_)) | None => Err(malformed("it is empty")),
        Some(Err(error)) => Err(malformed(error.message())),
    }
}

/// Converts a core module to a component.
fn encode(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut foreign = BTreeMap::new();
    let mut has_world = false;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| malformed(error.message()))? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.map_err(|error| malformed(error.message()))?;
                    let is_known = import.module.starts_with(WORLD) || import.module.starts_with("wasi:");
                    if !is_known && import.module != "$root" {
                        foreign.entry(import.module.to_owned()).or_insert_with(|| import.name.to_owned());
                    }
                }
            }
            Payload::CustomSection(section) => has_world |= section.name().starts_with("component-type"),
            _ => {}
        }
    }
    if let Some((module, name)) = foreign.into_iter().next().filter(|_| guard!(WasmImports)) {
        let help = if module.starts_with("wasi_snapshot_preview1") {
            "build it for wasm32-wasip2, or turn it into a component with `wasm-tools component new --adapt`"
        } else {
            "import the interfaces of pi:extension only"
        };
        return Err(Refusal {
            kind: RefusalKind::Import,
            message: format!("a core module that imports `{module}` `{name}`, which is not provided"),
            help: help.to_owned(),
        });
    }
    if !has_world {
        return Err(Refusal {
            kind: RefusalKind::World,
            message: "a core module without a description of its world".to_owned(),
            help: "build it with wit-bindgen against schema/wit/extension.wit, or turn it into a component".to_owned(),
        });
    }
    let encoder = wit_component::ComponentEncoder::default().validate(true).module(bytes);
    let encoded = encoder.and_then(|mut encoder| encoder.encode());
    encoded.map_err(|error| Refusal {
        kind: RefusalKind::World,
        message: format!(
            "a core module that cannot be turned into a component: {}",
            error.root_cause().to_string().replace('\n', ": ")
        ),
        help: "build it again with wit-bindgen against schema/wit/extension.wit".to_owned(),
    })
}

/// Returns the imported interfaces with versions, and their functions.
fn imports_of(component: &Component) -> BTreeMap<String, Vec<String>> {
    let functions = |item: ComponentExtern<'_>| match item.ty {
        ComponentItem::ComponentInstance(instance) => {
            let functions =
                instance.exports(engine()).filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)));
            functions.map(|(name, _)| name.to_owned()).collect()
        }
        _ => Vec::new(),
    };
    component.component_type().imports(engine()).map(|(name, item)| (name.to_owned(), functions(item))).collect()
}

fn plain(imports: BTreeMap<String, Vec<String>>) -> BTreeMap<String, Vec<String>> {
    let plain = |name: String| name.split_once('@').map(|(plain, _)| plain.to_owned()).unwrap_or(name);
    imports.into_iter().map(|(name, functions)| (plain(name), functions)).collect()
}

/// Rejects imports that belong neither to the world nor to WASI 0.2.
fn check_imports(imports: &BTreeMap<String, Vec<String>>) -> Result<(), Refusal> {
    for name in imports.keys() {
        let (interface, version) = name.split_once('@').unwrap_or((name, ""));
        let is_ours = interface
            .strip_prefix(WORLD)
            .is_some_and(|rest| rest.strip_prefix('/').is_some_and(|rest| INTERFACES.contains(&rest)));
        let is_wasi = interface.starts_with("wasi:") && version.starts_with("0.2.");
        if is_ours && version.starts_with("1.") || is_wasi || !guard!(WasmImports) {
            continue;
        }
        let (kind, help) = if interface.starts_with(WORLD) {
            (
                RefusalKind::World,
                "this version of PiJS has pi:extension 1.0.0; build it against schema/wit/extension.wit",
            )
        } else if interface.starts_with("wasi:") {
            (RefusalKind::Import, "WASI 0.2 is provided; build it for wasm32-wasip2")
        } else {
            (
                RefusalKind::World,
                "an extension can import only pi:extension and WASI 0.2; is it a component for another host?",
            )
        };
        let message = format!("it imports `{name}`, which is not provided");
        return Err(Refusal { kind, message, help: help.to_owned() });
    }
    Ok(())
}

/// Interfaces of the world that an extension can import, including `types`.
pub(crate) const INTERFACES: &[&str] =
    &["answers", "calls", "env", "events", "exec", "fs", "http", "log", "session", "timers", "tools", "types", "ui"];
