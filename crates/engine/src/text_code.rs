//! Compiles text at run time: `Function`, the constructors of async, generator and async generator functions, and `eval`.
//!
//! ```text
//! new Function("a", "return a + 1")  →  (function anonymous(a\n) {\nreturn a + 1\n})    a function of global scope
//! eval("var a = 1; a + 1")           →  the text itself, as a sloppy script            a direct `eval` sees no local names
//! ```
//!
//! A text is compiled as in `dynamic_code`: the host decides and records the capability `eval`, with length and digest of the
//! script; then a temporary runtime parses it in this process, and the realm runs the bytecode. Without the grant, all of these
//! functions throw the error of an engine without a compiler, for which libraries probe. A text that computes nothing is such a
//! probe: it does not cause a prompt, and succeeds only with a grant.
//!
//! `let`, `const` and `class` are local to an evaluated text, as in the language. Unlike in the language, its `var`s cannot be
//! deleted, and in strict mode they are global.

use crate::compile::{SCRIPT_NAME, ScriptPart, compile_script_at_run_time};
use crate::dynamic_code::{MAX_TEXT_BYTES, MAX_TOTAL_BYTES, consent_request};
use crate::hostcall::{result_now, throw_hostcall_error};
use crate::intrinsics::define;
use crate::native_call::{Native, NativeCall, function};
use crate::shared::Shared;
use crate::v8_messages;
use crate::values::string_to_js;
use pijs_artifact::quoted;
use pijs_protocol::{ErrorCode, guard};
use rquickjs::object::Property;
use rquickjs::{Ctx, Exception, Function, Object, Result, Value, qjs};
use std::rc::Rc;
use std::sync::OnceLock;

/// Maximum number of texts that one realm may ask to compile.
const MAX_TEXTS: u32 = 10_000;

/// Error message of an engine without a compiler.
const REFUSED: &str = "eval is not supported";

/// Constructors besides `Function`, in the order of [`PROTOTYPES`].
const SIBLINGS: &[(&str, Native)] = &[
    ("AsyncFunction", |call| function_of(call, "async function")),
    ("GeneratorFunction", |call| function_of(call, "function*")),
    ("AsyncGeneratorFunction", |call| function_of(call, "async function*")),
];

/// Creates one function of each kind, because the language has no global name for their prototypes.
const PROTOTYPES: &str = "[async function () {}, function* () {}, async function* () {}]";

/// Replaces the engine's own functions by those of this module.
pub(crate) fn install(ctx: &Ctx<'_>, shared: &Rc<Shared>) -> Result<()> {
    static BYTECODE: OnceLock<Vec<u8>> = OnceLock::new();
    let globals = ctx.globals();
    let own: Function<'_> = globals.get("Function")?;
    let base = constructor(ctx, shared, "Function", |call| function_of(call, "function"))?;
    let prototype: Object<'_> = own.get("prototype")?;
    base.prop("prototype", prototype.clone())?;
    define(&prototype, "constructor", base.clone().into_value())?;

    let bytecode = BYTECODE
        .get_or_init(|| compile_script_at_run_time(&[], PROTOTYPES).expect("the constant list of functions compiles"));
    let functions: Vec<Function<'_>> = run(ctx, bytecode)?.get()?;
    for ((name, native), of_kind) in SIBLINGS.iter().zip(functions) {
        let prototype = of_kind.get_prototype().ok_or(rquickjs::Error::Unknown)?;
        let sibling = constructor(ctx, shared, name, *native)?;
        sibling.set_prototype(Some(&base))?;
        sibling.prop("prototype", prototype.clone())?;
        prototype.prop("constructor", Property::from(sibling.into_value()).configurable())?;
    }

    define(&globals, "Function", base.into_value())?;
    let eval = function(ctx, shared, "eval", eval)?;
    eval.set_length(1)?;
    define(&globals, "eval", eval.into_value())
}

fn constructor<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, name: &str, native: Native) -> Result<Function<'js>> {
    let constructor = function(ctx, shared, name, native)?;
    constructor.set_constructor(true);
    constructor.set_length(1)?;
    Ok(constructor)
}

/// Implements `new Function(...parameters, body)` and the constructors of other kinds of functions; `head` is the beginning of
/// the function's source.
fn function_of<'js>(call: &NativeCall<'_, 'js>, head: &str) -> Result<Value<'js>> {
    let texts = (0..call.len()).map(|index| call.text(index)).collect::<Result<Vec<_>>>()?;
    let (body, parameters) = texts.split_last().map_or(("", String::new()), |(body, rest)| (body, rest.join(",")));
    let script = format!("({head} anonymous({parameters}\n) {{\n{body}\n}})");
    let twice = absent_name(&script);
    let around_body = format!("({head} anonymous(\n) {{ let {twice};\n{body}\n; let {twice} }})");
    let around_parameters = format!("({head} anonymous({twice}, {parameters}\n) {{ let {twice} }})");
    let parts = [ScriptPart::Enclosing(&around_body), ScriptPart::Enclosing(&around_parameters)];
    // A list of plain names cannot close a bracket.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | ',' | ' ');
    let parts = if parameters.chars().all(is_plain) { &parts[..1] } else { &parts[..] };
    let is_probe = parameters.is_empty() && is_probe_text(body);
    let made = compile_text(call, parts, &script, is_probe)?;
    if call.is_constructor()
        && let (Some(class), Some(made)) = (call.this().as_object(), made.as_object())
        && let Some(prototype) = class.get::<_, Value<'js>>("prototype")?.into_object()
    {
        made.set_prototype(Some(&prototype))?;
    }
    Ok(made)
}

/// `eval(text)`, always with global scope.
fn eval<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let given = call.arg(0);
    if !given.is_string() {
        return Ok(given);
    }
    let text = call.text(0)?;
    let is_probe = is_probe_text(&text);
    // Uses a block, so that lexical declarations end with the text.
    let declares = ["let", "const", "class"].iter().any(|word| text.contains(word));
    if !declares {
        return compile_text(call, &[], &text, is_probe);
    }
    let start = text.trim_start();
    let directive = ["'use strict'", "\"use strict\""].into_iter().find(|directive| start.starts_with(directive));
    let script = format!("{}{{{text}\n}}", directive.map(|directive| format!("{directive};")).unwrap_or_default());
    compile_text(call, &[ScriptPart::Script(&text)], &script, is_probe)
}

/// Returns a name that does not occur in a text.
fn absent_name(text: &str) -> String {
    (0..).map(|number| format!("$end{number}")).find(|name| !text.contains(name.as_str())).unwrap_or_default()
}

/// Requests consent for a script, compiles it, runs it, and returns its value.
fn compile_text<'js>(
    call: &NativeCall<'_, 'js>,
    parts: &[ScriptPart<'_>],
    script: &str,
    is_probe: bool,
) -> Result<Value<'js>> {
    let (ctx, shared) = (call.ctx(), call.shared());
    let requested = shared.compiled.scripts.get() + 1;
    let compiled = shared.compiled.bytes.get() + script.len();
    let is_over = script.len() > MAX_TEXT_BYTES || compiled > MAX_TOTAL_BYTES || requested > MAX_TEXTS;
    if is_over && guard!(EngineTextCode) {
        let message = format!(
            "Cannot compile text: at run time up to {} MB are compiled per text, {} MB and {MAX_TEXTS} texts in all",
            MAX_TEXT_BYTES >> 20,
            MAX_TOTAL_BYTES >> 20
        );
        return Err(Exception::throw_range(ctx, &message));
    }
    let mut request = consent_request(call, None, script);
    if is_probe {
        request.params.insert("probe".to_owned(), true.into());
    }
    shared.compiled.scripts.set(requested);
    match result_now(call, request)?.error {
        Some(error) if error.code == ErrorCode::Denied => return Err(Exception::throw_type(ctx, REFUSED)),
        Some(error) => return Err(throw_hostcall_error(ctx, &error)),
        None => {}
    }
    shared.compiled.bytes.set(compiled);
    let bytecode = compile_script_at_run_time(parts, script).map_err(|error| {
        let text = match parts {
            [ScriptPart::Script(text)] => text,
            _ => script,
        };
        let words = v8_messages::v8_message(&error, text);
        let place = match error.line {
            0 => SCRIPT_NAME.to_owned(),
            line => format!("{SCRIPT_NAME}:{line}:{}", error.column),
        };
        throw_syntax_error(ctx, &words, &place)
    })?;
    run(ctx, &bytecode)
}

/// `quoteText(message, text, line, column)`: returns V8's message for an error at a position of a text that was compiled here, or
/// null.
pub(crate) fn quote<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let place = |index: usize| call.integer(index).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let (message, text, line, column) = (call.text(0)?, call.text(1)?, place(2)?, place(3)?);
    let words = quoted(&message, &text, line, column).or_else(|| constructor_message(&message, &text, line, column));
    words.map_or_else(|| Ok(Value::new_null(call.ctx().clone())), |words| string_to_js(call.ctx(), &words))
}

/// Returns V8's message for `new x.y` without arguments. Bundles never contain it, because they always have the parentheses.
fn constructor_message(message: &str, text: &str, line: u32, column: u32) -> Option<String> {
    if !matches!(message, "not a function" | "not a constructor") {
        return None;
    }
    let (before, rest) = text.split_at_checked(v8_messages::offset(text, line, column)?)?;
    let is_chain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    let chain = &rest[..rest.find(|c| !is_chain(c)).unwrap_or(rest.len())];
    let is_new = before.trim_end().ends_with("new") && before.ends_with(char::is_whitespace);
    (is_new && !chain.is_empty()).then(|| format!("{chain} is not a constructor"))
}

/// Runs a script that this process has compiled.
fn run<'js>(ctx: &Ctx<'js>, bytecode: &[u8]) -> Result<Value<'js>> {
    let raw = ctx.as_raw().as_ptr();
    // SAFETY: the bytes are of `compile_script_at_run_time`, for this engine, which copies the parts it keeps. The call consumes
    // the script and returns an owned value.
    let value = unsafe {
        let script = qjs::JS_ReadObject(raw, bytecode.as_ptr(), bytecode.len() as _, qjs::JS_READ_OBJ_BYTECODE as i32);
        if qjs::JS_IsException(script) {
            return Err(rquickjs::Error::Exception);
        }
        Value::from_raw(ctx.clone(), qjs::JS_EvalFunction(raw, script))
    };
    if value.is_exception() { Err(rquickjs::Error::Exception) } else { Ok(value) }
}

/// Throws a `SyntaxError` whose stack begins at the position of the error.
fn throw_syntax_error(ctx: &Ctx<'_>, words: &str, place: &str) -> rquickjs::Error {
    let thrown = Exception::throw_syntax(ctx, words);
    let caught = ctx.catch();
    if let Some(error) = caught.as_object() {
        let frames: String = error.get("stack").unwrap_or_default();
        let frames = frames.split_once('\n').map_or("", |(_, frames)| frames);
        // The error is thrown without the position if defining it fails.
        let _ = define_stack(error, &format!("SyntaxError: {words}\n    at {place}\n{frames}"));
    }
    match thrown {
        rquickjs::Error::Exception => ctx.throw(caught),
        other => other,
    }
}

fn define_stack<'js>(error: &Object<'js>, stack: &str) -> Result<()> {
    define(error, "stack", string_to_js(error.ctx(), stack)?)
}

/// Returns whether a text is empty or a single literal: libraries compile such texts to probe for the permission.
fn is_probe_text(text: &str) -> bool {
    let text = text.trim().trim_end_matches(';').trim_end();
    let returned = text.strip_prefix("return").filter(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()));
    let value = returned.map_or(text, str::trim);
    let is_number = !value.is_empty() && value.chars().all(|c| c.is_ascii_digit());
    is_number || matches!(value, "" | "true" | "false" | "null" | "this" | "''" | "\"\"")
}

#[cfg(test)]
mod tests {
    use super::is_probe_text;

    #[test]
    fn probes_are_empty_texts_and_literals() {
        for probe in ["", " ", "return true", "return this;", "return 1", "1", "return ''", "true"] {
            assert!(is_probe_text(probe), "{probe}");
        }
        for text in ["return a", "f()", "return true && f()", "1 + 1", "returntrue", "this.x"] {
            assert!(!is_probe_text(text), "{text}");
        }
    }
}
