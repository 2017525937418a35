//! Compiles modules while a realm runs: code that did not exist when its extension was compiled.
//!
//! `compileModule` requests the capability `eval` from the host, with path, length and digest of the text, and compiles it only
//! if the host allows that. It uses the parser of [`compile()`](crate::compile()) in a temporary runtime: the realm itself has no
//! parser, and the host's process never sees the text. The result is one more artifact of the realm; `loader` documents the
//! modules that it may import.
//!
//! `bridgeModule` wraps a namespace of the extension's bundle into a module, so that such code can import it:
//!
//! ```text
//! const { namespace } = import.meta;
//! const v0 = namespace.a; export { v0 as a };
//! ```

use crate::compile::{ModuleSource, compile_module_at_run_time};
use crate::hostcall::answer_now;
use crate::module_table::dynamic_name;
use crate::native_call::NativeCall;
use crate::values::string_to_js;
use pijs_protocol::{Capability, HostCall, Method};
use rquickjs::{Array, Exception, Filter, Object, Persistent, Result, Value};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Maximum size of a text that is compiled, in bytes. A parser cannot be interrupted, and a text of this size takes tens of
/// milliseconds.
pub(crate) const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum total size of the texts that one realm may compile, in bytes: bytecode is kept as long as the realm exists.
pub(crate) const MAX_TOTAL_BYTES: usize = 16 << 20;

/// Prefix of the names of modules that are compiled at run time; no other names have it.
const PREFIX: &str = "file://";

/// `compileModule(url, path, text, isCommonJs, meta)`: requests consent, compiles the text and adds it under its URL; returns the
/// specifiers of its static imports. CommonJS becomes a module whose default export is the function that Node would wrap around
/// it.
pub(crate) fn compile_module<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, shared) = (call.ctx(), call.shared());
    let (url, path, text) = (call.text(0)?, call.text(1)?, call.text(2)?);
    let Some(meta) = call.arg(4).into_object() else {
        return Err(Exception::throw_type(ctx, "compileModule: expected the members of `import.meta`"));
    };
    if !url.starts_with(PREFIX) || shared.modules.borrow().has(&url) {
        return Err(Exception::throw_type(
            ctx,
            "compileModule: expected the URL of a file that was not compiled before",
        ));
    }
    let compiled = shared.compiled.bytes.get() + text.len();
    if text.len() > MAX_TEXT_BYTES || compiled > MAX_TOTAL_BYTES {
        let message = format!(
            "Cannot import '{path}': at run time up to {} MB are compiled per file, and {} MB in all",
            MAX_TEXT_BYTES >> 20,
            MAX_TOTAL_BYTES >> 20
        );
        return Err(Exception::throw_range(ctx, &message));
    }
    let request = consent_request(call, Some(&path), &text);
    answer_now(call, request)?;
    shared.compiled.bytes.set(compiled);
    let source = if call.flag(3) { wrap_common_js(&text) } else { text };
    let module = ModuleSource { specifier: &url, source: source.strip_prefix('\u{feff}').unwrap_or(&source) };
    let (bytecode, imports) = compile_module_at_run_time(module).map_err(|error| {
        let place = format!("{path}:{}:{}", error.line, error.column);
        Exception::throw_syntax(ctx, &format!("{} ({place})", error.message))
    })?;
    shared.modules.borrow_mut().add_dynamic(&url, bytecode, Persistent::save(ctx, meta));
    let specifiers = Array::new(ctx.clone())?;
    for (index, specifier) in imports.iter().enumerate() {
        specifiers.set(index, string_to_js(ctx, specifier)?)?;
    }
    Ok(specifiers.into_value())
}

/// Builds the hostcall that requests consent to compile a text. `path` is `None` for text that comes from no file.
pub(crate) fn consent_request(call: &NativeCall<'_, '_>, path: Option<&str>, text: &str) -> HostCall {
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(text.as_bytes())));
    let mut params = Map::new();
    params.insert("op".to_owned(), Json::from("compile"));
    if let Some(path) = path {
        params.insert("path".to_owned(), Json::from(path));
    }
    params.insert("bytes".to_owned(), Json::from(text.len()));
    params.insert("digest".to_owned(), Json::from(digest));
    HostCall {
        capability: Capability::new("eval"),
        method: Method::new("module"),
        call_id: call.shared().outbox.next_call_id(),
        params,
        timeout_ms: None,
        cancel_token: None,
        context: None,
        bytes: Vec::new(),
    }
}

/// Wraps a CommonJS module as Node does, without changing line numbers.
fn wrap_common_js(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (comment, text) = text.strip_prefix("#!").map_or(("", text), |rest| ("//", rest));
    format!("export default function (exports, require, module, __filename, __dirname) {{{comment}{text}\n}}")
}

/// `bridgeModule(base, specifier, namespace)`: makes the specifier resolve to a copy of this namespace in the dynamic module
/// `base`. Exports whose names are not identifiers are omitted.
pub(crate) fn bridge_module<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, shared) = (call.ctx(), call.shared());
    let nothing = Value::new_undefined(ctx.clone());
    let (base, specifier) = (call.text(0)?, call.text(1)?);
    let Some(namespace) = call.arg(2).into_object() else {
        return Err(Exception::throw_type(ctx, "bridgeModule: expected the namespace of a module"));
    };
    let name = dynamic_name(&base, &specifier).filter(|name| name.starts_with(PREFIX) || name.starts_with('/'));
    let Some(name) = name else {
        return Err(Exception::throw_type(ctx, "bridgeModule: expected the path of a file"));
    };
    if shared.modules.borrow().has(&name) {
        return Ok(nothing);
    }
    let mut source = "const { namespace } = import.meta;\n".to_owned();
    for (index, key) in namespace.own_keys::<String>(Filter::new().string()).enumerate() {
        let key = key?;
        if is_identifier(&key) {
            let _ = writeln!(source, "const v{index} = namespace.{key}; export {{ v{index} as {key} }};");
        }
    }
    let (bytecode, _) = compile_module_at_run_time(ModuleSource { specifier: &name, source: &source })
        .map_err(|error| Exception::throw_syntax(ctx, &error.to_string()))?;
    let meta = Object::new(ctx.clone())?;
    meta.set("namespace", namespace)?;
    shared.modules.borrow_mut().add_dynamic(&name, bytecode, Persistent::save(ctx, meta));
    Ok(nothing)
}

fn is_identifier(name: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '$');
    name.chars().all(is_part) && name.starts_with(|first: char| is_part(first) && !first.is_ascii_digit())
}
