//! Resolves specifiers and loads bytecode from verified artifacts.
//!
//! A specifier refers to the added module with that name; `fs` and `node:fs` are the same module; a relative specifier is
//! resolved against the importing module, within its artifact. Nothing else resolves: no path, no URL, no file. Only the host
//! modules, which are the first added artifact, may import `pi:engine`.
//!
//! An artifact may contain modules `pijs:facade/NAME` (or `pijs:facade/NAME#TAG`, because specifiers are unique in a realm, and
//! facades belong to one artifact). Imports of the host module NAME in this artifact resolve to the facade, so that importing a
//! name that the host module lacks results in `undefined` instead of a link error.
//!
//! A module that was compiled while the realm ran (`dynamic_code`) is a separate artifact. It may import the modules that an
//! extension may name, and other modules compiled at run time, but no internal host modules (`pi:...`) and no modules of a
//! bundle. The same applies to a script of `text_code`.
//!
//! `extc` writes facades. Their source is `export * from "NAME"; export { default } from "NAME"; export let missing1, missing2;`.
//!
//! `import.meta.url` is `pijs:///SPECIFIER`, or the specifier itself when it has a scheme.

use crate::module_table::{ENGINE_MODULE, LoadedModule};
use crate::native_call::{NativeCall, catch_panics};
use crate::natives::EngineModule;
use crate::shared::Shared;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Exception, Module, Persistent, Result, Value};
use std::rc::Rc;

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
            self.0.modules.borrow_mut().keep(name, Persistent::save(ctx, LoadedModule(module.clone())));
            Ok(module)
        })
    }
}

fn load<'js>(ctx: &Ctx<'js>, shared: &Shared, name: &str) -> Result<Module<'js, Declared>> {
    if name == ENGINE_MODULE {
        return Module::declare_def::<EngineModule, _>(ctx.clone(), name);
    }
    let (verified, index) = shared.modules.borrow().content(name).expect("only resolved names are loaded");
    let content = &verified.artifact().modules[index];
    let Some(bytecode) = &content.bytecode else {
        return Err(not_found_error(ctx, &format!("Cannot load module '{name}': it was not compiled")));
    };
    let dynamic = shared.modules.borrow().dynamic_meta(name);
    if dynamic.is_none() {
        shared.meter.collector.postpone(ctx);
    }
    // SAFETY: the bytes are from a `Verified`, so this process compiled them, or this installation's key authenticated them for
    // this engine build. The engine copies the parts that it keeps.
    let module = unsafe { Module::load(ctx.clone(), bytecode) }?;
    let embedded: String = module.name()?;
    if embedded != name {
        let message = format!("Cannot load module '{name}': its bytecode was compiled as '{embedded}'");
        return Err(not_found_error(ctx, &message));
    }
    let url = if name.contains(':') { name.to_owned() } else { format!("pijs:///{name}") };
    let meta = module.meta()?;
    meta.set("url", url)?;
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
/// Fails if the module, or a module that it imports, awaits at top level.
pub(crate) fn import_sync<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let shared = call.shared();
    let specifier = call.text(0)?;
    // This promise settles in a later job and is not used: the module's own promise has the result.
    let promise = Module::import(ctx, specifier.as_str())?;
    shared.promises.rejections.suppress(ctx, &promise);
    if promise.state() == PromiseState::Rejected {
        return promise.result::<Value<'js>>().unwrap_or(Err(rquickjs::Error::Exception));
    }
    let name = {
        let modules = shared.modules.borrow();
        modules
            .resolve("", &specifier)
            .map_err(|why| not_found_error(ctx, &format!("Cannot find module '{specifier}': it {why}")))?
    };
    // The engine has just found or loaded the module, so the latest load is the current one.
    let kept = shared.modules.borrow().loaded(&name);
    let LoadedModule(module) = kept.expect("the engine has just found or loaded the module").restore(ctx)?;
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
