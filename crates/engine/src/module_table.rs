//! The artifacts of a realm, and the resolution of specifiers to their modules.

use crate::compile::SCRIPT_NAME;
use pijs_artifact::{Artifact, Module as Content, Verified};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::guard;
use rquickjs::module::Declared;
use rquickjs::{JsLifetime, Module, Object, Persistent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Prefix of facade modules, see [`loader`](crate::loader).
pub const FACADE_PREFIX: &str = "pijs:facade/";

/// Specifier of the native module.
pub(crate) const ENGINE_MODULE: &str = "pi:engine";

/// Index of the host modules among the added artifacts.
const HOST_SET: usize = 0;

/// The location of a module: an artifact, and a module in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModuleLocation {
    artifact: usize,
    module: usize,
}

/// A loaded module, kept between turns.
#[derive(Clone)]
pub(crate) struct LoadedModule<'js>(pub(crate) Module<'js, Declared>);

// SAFETY: `Module` is covariant data of its context, and `Changed` only swaps that one lifetime.
unsafe impl<'js> JsLifetime<'js> for LoadedModule<'js> {
    type Changed<'to> = LoadedModule<'to>;
}

/// The added artifacts and the modules that were loaded from them.
#[derive(Default)]
pub(crate) struct ModuleTable {
    artifacts: Vec<Arc<Verified>>,
    locations: BTreeMap<String, ModuleLocation>,
    /// Specifiers of facades, by artifact and host module.
    facades: BTreeMap<(usize, String), String>,
    /// The latest load of each module.
    loaded: BTreeMap<String, Persistent<LoadedModule<'static>>>,
    /// `import.meta` of each module that was compiled while the realm ran.
    dynamic: BTreeMap<String, Persistent<Object<'static>>>,
}

impl ModuleTable {
    /// Adds an artifact. If a name already exists, its earlier module is kept, so that an extension cannot replace a host module.
    pub(crate) fn add(&mut self, artifact: Arc<Verified>) {
        let index = self.artifacts.len();
        for (module, content) in artifact.artifact().modules.iter().enumerate() {
            let location =
                *self.locations.entry(content.specifier.clone()).or_insert(ModuleLocation { artifact: index, module });
            if let Some(facade) = content.specifier.strip_prefix(FACADE_PREFIX)
                && location.artifact == index
            {
                let before = facade.split_once('#').map_or(facade, |(before, _)| before);
                self.facades.insert((index, before.to_owned()), content.specifier.clone());
            }
        }
        self.artifacts.push(artifact);
    }

    /// Adds a module that was compiled while the realm ran.
    pub(crate) fn add_dynamic(&mut self, specifier: &str, bytecode: Vec<u8>, meta: Persistent<Object<'static>>) {
        let engine = self.artifacts[HOST_SET].artifact().metadata.engine.clone();
        let module = Content {
            specifier: specifier.to_owned(),
            source: String::new(),
            source_map: None,
            bytecode: Some(bytecode.into()),
        };
        let metadata = ArtifactMetadata::new(specifier, "0.0.0", engine);
        self.add(Arc::new(Verified::compiled_here(Artifact { metadata, modules: vec![module] })));
        self.dynamic.insert(specifier.to_owned(), meta);
    }

    /// Returns the artifact that has a module, and the index of the module in it.
    pub(crate) fn content(&self, specifier: &str) -> Option<(Arc<Verified>, usize)> {
        let location = self.locations.get(specifier)?;
        Some((Arc::clone(&self.artifacts[location.artifact]), location.module))
    }

    /// Keeps the latest load of a module.
    pub(crate) fn keep(&mut self, specifier: &str, module: Persistent<LoadedModule<'static>>) {
        self.loaded.insert(specifier.to_owned(), module);
    }

    /// Returns the latest load of a module, if there is one.
    pub(crate) fn loaded(&self, specifier: &str) -> Option<Persistent<LoadedModule<'static>>> {
        self.loaded.get(specifier).cloned()
    }

    /// Returns `import.meta` of a module that was compiled while the realm ran.
    pub(crate) fn dynamic_meta(&self, specifier: &str) -> Option<Persistent<Object<'static>>> {
        self.dynamic.get(specifier).cloned()
    }

    /// Returns whether a module with this name was added.
    pub(crate) fn has(&self, specifier: &str) -> bool {
        self.locations.contains_key(specifier)
    }

    /// Resolves `name` in a dynamic module to another dynamic module or to an error; `None` continues with the general rules.
    fn resolve_dynamic(&self, base: &str, name: &str) -> Option<std::result::Result<String, String>> {
        if base != SCRIPT_NAME {
            self.dynamic.get(base)?;
        }
        if let Some(found) = dynamic_name(base, name).filter(|found| self.dynamic.contains_key(found)) {
            return Some(Ok(found));
        }
        let is_internal = ["pi:", "pijs:", "ext:"].iter().any(|scheme| name.starts_with(scheme));
        let why = if is_internal && guard!(EngineDynamicImports) {
            "is a module of pi or of a bundle; use Node's modules and pi's packages"
        } else if name.starts_with(['.', '/']) || name.starts_with("file:") {
            "was not compiled with the extension; put the code into one file, or have the extension import it first"
        } else {
            return None;
        };
        Some(Err(why.to_owned()))
    }

    pub(crate) fn release(&mut self) {
        self.loaded.clear();
        self.dynamic.clear();
    }

    /// Resolves `name` in the module `base`, or returns the reason why that fails.
    pub(crate) fn resolve(&self, base: &str, name: &str) -> std::result::Result<String, String> {
        let importer = self.locations.get(base);
        let from_host = base.is_empty() || importer.is_some_and(|location| location.artifact == HOST_SET);
        if name == ENGINE_MODULE {
            return if from_host {
                Ok(name.to_owned())
            } else {
                Err("is the engine's own module; use the pi API instead".to_owned())
            };
        }
        if let Some(resolved) = self.resolve_dynamic(base, name) {
            return resolved;
        }
        if name.starts_with("./") || name.starts_with("../") || name == "." || name == ".." {
            let joined = join(base, name).ok_or("leaves the package")?;
            let found = self
                .locations
                .get(&joined)
                .filter(|location| importer.is_none_or(|of| of.artifact == location.artifact));
            return found.map(|_| joined).ok_or_else(|| "is not in the artifact".to_owned());
        }
        if let Some(canonical) = self.bare(name) {
            let facade = importer.and_then(|of| self.facades.get(&(of.artifact, canonical.to_owned())));
            return Ok(facade.filter(|facade| *facade != base).map_or(canonical, String::as_str).to_owned());
        }
        Err(if name.starts_with('/') || name.starts_with("file:") {
            "is a path outside the package; import it relative to the package, so that it is compiled in"
        } else if name.contains("://") || name.starts_with("data:") {
            "is a URL; code is never fetched at run time"
        } else {
            "is neither a host module nor in the artifact"
        }
        .to_owned())
    }

    /// Resolves a bare specifier.
    fn bare(&self, name: &str) -> Option<&str> {
        let with_prefix = format!("node:{name}");
        let candidates = [name, &with_prefix, name.strip_prefix("node:").unwrap_or(name)];
        candidates
            .into_iter()
            .find_map(|candidate| self.locations.get_key_value(candidate))
            .map(|(key, _)| key.as_str())
    }
}

/// Returns the name of the dynamic module to which a specifier in another dynamic module refers.
pub(crate) fn dynamic_name(base: &str, name: &str) -> Option<String> {
    if name.starts_with('.') { join(base, name) } else { Some(name.to_owned()) }
}

/// Resolves a relative specifier against the module `base`; `None` if it would leave the artifact.
fn join(base: &str, name: &str) -> Option<String> {
    let mut segments: Vec<&str> = base.split('/').collect();
    segments.pop();
    for segment in name.split('/') {
        match segment {
            "." | "" => {}
            ".." => {
                segments.pop()?;
            }
            other => segments.push(other),
        }
    }
    Some(segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn relative_specifiers_stay_inside() {
        assert_eq!(join("dist/a/main.js", "./b.js").as_deref(), Some("dist/a/b.js"));
        assert_eq!(join("dist/a/main.js", "../b.js").as_deref(), Some("dist/b.js"));
        assert_eq!(join("main.js", "./chunks/./x.js").as_deref(), Some("chunks/x.js"));
        assert_eq!(join("main.js", "../x.js"), None);
    }
}
