//! Resolves specifiers and loads bytecode from verified artifacts.
//!
//! A specifier means the added module of that name; `fs` and `node:fs` are the same; relative ones are
//! taken against the importing module, inside its artifact. Nothing else resolves: no path, no URL,
//! no file. Only host modules, the first artifact added, may import `pi:engine`.
//!
//! An artifact may bring `pijs:facade/NAME` modules (or `pijs:facade/NAME#TAG`: specifiers are of the whole
//! realm, facades of one artifact). Its imports of host module NAME go there: that is how a name that a
//! host module lacks is `undefined`, not a failure to link.
//!
//! A module that was compiled while the realm ran (`dynamic_code`) is an artifact of its own. It imports what an extension may
//! name, and modules of the same kind; nothing of the host's own (`pi:...`) and nothing of a bundle. So does a script of
//! `text_code`.
//!
//! `extc` writes facades. Their source is `export * from "NAME"; export { default } from "NAME"; export let missing1, missing2;`.
//!
//! `import.meta.url` is `pijs:///SPECIFIER`, or the specifier itself when it has a scheme.

use crate::compile::SCRIPT_NAME;
use crate::natives::{EngineModule, NativeCall, catch_panics};
use crate::shared::Shared;
use pijs_artifact::{Artifact, Module as Content, Verified};
use pijs_protocol::artifact::ArtifactMetadata;
use pijs_protocol::guard;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Exception, JsLifetime, Module, Object, Persistent, Result, Value};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Prefix of facade modules, see the module documentation.
pub const FACADE_PREFIX: &str = "pijs:facade/";

/// The native module.
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
struct LoadedModule<'js>(Module<'js, Declared>);

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
    /// Adds an artifact. A name that exists keeps its earlier module, so that an extension cannot replace a host module.
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

    /// Returns whether a module of this name was added.
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
    fn resolve(&self, base: &str, name: &str) -> std::result::Result<String, String> {
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
            "is a URL; code is never fetched while it runs"
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

/// Returns the name of the dynamic module that a specifier in another one stands for.
pub(crate) fn dynamic_name(base: &str, name: &str) -> Option<String> {
    if name.starts_with('.') { join(base, name) } else { Some(name.to_owned()) }
}

/// Resolves a relative specifier against the module `base`; `None` when it leaves the artifact.
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

/// The realm's resolver and loader.
pub(crate) struct ArtifactLoader(pub(crate) Rc<Shared>);

impl Resolver for ArtifactLoader {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        catch_panics(ctx, &self.0, || {
            let resolved = self.0.modules.borrow().resolve(base, name);
            resolved.map_err(|why| {
                let importer = if base.is_empty() { "the host" } else { base };
                not_found_error(ctx, &format!("Cannot find module '{name}' imported from {importer}: it {why}"))
            })
        })
    }
}

impl Loader for ArtifactLoader {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        catch_panics(ctx, &self.0, || {
            let module = load(ctx, &self.0, name)?;
            self.0
                .modules
                .borrow_mut()
                .loaded
                .insert(name.to_owned(), Persistent::save(ctx, LoadedModule(module.clone())));
            Ok(module)
        })
    }
}

fn load<'js>(ctx: &Ctx<'js>, shared: &Shared, name: &str) -> Result<Module<'js, Declared>> {
    if name == ENGINE_MODULE {
        return Module::declare_def::<EngineModule, _>(ctx.clone(), name);
    }
    let (verified, location) = {
        let modules = shared.modules.borrow();
        let location = *modules.locations.get(name).expect("only resolved names are loaded");
        (Arc::clone(&modules.artifacts[location.artifact]), location)
    };
    let content = &verified.artifact().modules[location.module];
    let Some(bytecode) = &content.bytecode else {
        return Err(not_found_error(ctx, &format!("Cannot load module '{name}': it was not compiled")));
    };
    // SAFETY: the bytes are from a `Verified`: this process compiled them, or this installation's key authenticated them for this
    // engine build. The engine copies the parts that it keeps.
    let module = unsafe { Module::load(ctx.clone(), bytecode) }?;
    let embedded: String = module.name()?;
    if embedded != name {
        let message = format!("Cannot load module '{name}': its bytecode was compiled as '{embedded}'");
        return Err(not_found_error(ctx, &message));
    }
    let url = if name.contains(':') { name.to_owned() } else { format!("pijs:///{name}") };
    let meta = module.meta()?;
    meta.set("url", url)?;
    let dynamic = shared.modules.borrow().dynamic.get(name).cloned();
    if let Some(members) = dynamic {
        for member in members.restore(ctx)?.props::<String, Value<'js>>() {
            let (name, value) = member?;
            meta.set(name, value)?;
        }
    }
    Ok(module)
}

fn not_found_error(ctx: &Ctx<'_>, message: &str) -> rquickjs::Error {
    match Exception::from_message(ctx.clone(), message) {
        Ok(error) => {
            let error = error.into_object();
            // The message is complete without the code; setting it fails only without memory.
            let _ = error.set("code", "ERR_MODULE_NOT_FOUND");
            ctx.throw(error.into_value())
        }
        Err(error) => error,
    }
}

/// `importSync(specifier)`: evaluates a module now and returns its namespace.
///
/// Fails when the module, or one that it imports, awaits at top level.
pub(crate) fn import_sync<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let shared = call.shared();
    let specifier = call.text(0)?;
    // This promise settles in a later job, unobserved: the module's own promise has the result.
    let promise = Module::import(ctx, specifier.as_str())?;
    shared.rejections.suppress(ctx, &promise);
    if promise.state() == PromiseState::Rejected {
        return promise.result::<Value<'js>>().unwrap_or(Err(rquickjs::Error::Exception));
    }
    let name = {
        let modules = shared.modules.borrow();
        modules
            .resolve("", &specifier)
            .map_err(|why| not_found_error(ctx, &format!("Cannot find module '{specifier}': it {why}")))?
    };
    // The engine has just found or loaded the module, so the latest load is the live one.
    let kept = shared.modules.borrow().loaded.get(&name).cloned();
    let LoadedModule(module) = kept.expect("imported a moment ago").restore(ctx)?;
    let (module, evaluated) = module.eval()?;
    match evaluated.state() {
        PromiseState::Resolved => Ok(module.namespace()?.into_value()),
        PromiseState::Rejected => evaluated.result::<Value<'js>>().unwrap_or(Err(rquickjs::Error::Exception)),
        PromiseState::Pending => Err(Exception::throw_message(
            ctx,
            &format!("Cannot import '{specifier}' synchronously: it awaits at top level; use await import()"),
        )),
    }
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
