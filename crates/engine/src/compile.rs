//! Compiles source to bytecode; no other module turns source text into code.
//!
//! Each module is parsed in a temporary context, with `eval` and without any of the realm's modules; imports resolve to empty
//! modules, because the engine requests them while it parses. So the bytecode depends only on the specifier, the source and the
//! engine build. The bytecode has no source text, but it has line information; the host maps positions through source maps.
//!
//! `extc` calls this for packages, `dynamic_code` for modules that an extension is allowed to import at run time, and `text_code`
//! for `Function` and `eval`, which compile scripts.

use crate::strings;
use pijs_protocol::artifact::EngineBuild;
use rquickjs::context::intrinsic;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::{Declared, ModuleDef};
use rquickjs::{Context, Ctx, Module, Runtime, Value, WriteOptions, qjs};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::rc::Rc;
use std::{fmt, slice};

/// One ES module to compile.
///
/// ```
/// use pijs_engine::{ModuleSource, compile};
///
/// let modules = [ModuleSource { specifier: "main.js", source: "export default 1 + 1;" }];
/// let bytecode = compile(&modules)?;
/// assert_eq!(bytecode, compile(&modules)?, "same input, same bytes");
/// # Ok::<(), pijs_engine::CompileError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleSource<'a> {
    /// Name that imports use; embedded in the bytecode, and checked when a realm loads it.
    pub specifier: &'a str,
    /// JavaScript, as an ES module.
    pub source: &'a str,
}

/// A syntax error of a module, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// Specifier of the module.
    pub specifier: String,
    /// 1-based line; 0 when the engine reports none.
    pub line: u32,
    /// 1-based column in bytes; 0 when the engine reports none.
    pub column: u32,
    /// Message of the engine's parser.
    pub message: String,
}

impl CompileError {
    fn without_position(specifier: &str, message: impl Into<String>) -> Self {
        Self { specifier: specifier.to_owned(), line: 0, column: 0, message: message.into() }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.specifier, self.line, self.column, self.message)
    }
}

impl std::error::Error for CompileError {}

/// Returns the version of the bytecode format: the first byte of the output of [`compile()`].
///
/// The engine has no function that returns this version, and it cannot be derived from the engine's version.
fn bytecode_version() -> u32 {
    static VERSION: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *VERSION.get_or_init(|| {
        let probe = compile(&[ModuleSource { specifier: "probe", source: "" }]).expect("the empty module parses");
        u32::from(probe[0][0])
    })
}

/// Returns the identity of the engine in this process; part of every MAC and of every cache key.
pub fn engine_build() -> EngineBuild {
    // SAFETY: returns a pointer to a string literal inside the engine.
    let version = unsafe { CStr::from_ptr(qjs::JS_GetVersion()) };
    let endianness = if cfg!(target_endian = "big") { "be" } else { "le" };
    EngineBuild {
        name: "quickjs-ng".to_owned(),
        version: version.to_string_lossy().into_owned(),
        bytecode: bytecode_version(),
        target: format!("{}-{endianness}-{}", std::env::consts::ARCH, usize::BITS),
    }
}

/// Compiles ES modules to bytecode, in the order given, without resolving their imports.
///
/// Deterministic: the bytes depend on specifier and source only, not on the other modules.
///
/// # Errors
///
/// Returns the syntax error of the first module that does not parse.
pub fn compile(modules: &[ModuleSource<'_>]) -> Result<Vec<Vec<u8>>, CompileError> {
    let runtime = runtime_with(EmptyImports::default())?;
    let compile_one = |module: &ModuleSource<'_>| {
        let context = Context::full(&runtime).map_err(error_in(module.specifier))?;
        compile_in(&context, *module)
    };
    modules.iter().map(compile_one).collect()
}

/// Memory limit, in bytes, of the parser of one text that is compiled while a realm runs.
const PARSER_BYTES: usize = 128 << 20;

/// Name, in stacks and positions, of scripts that are compiled while a realm runs. No module has this name.
pub(crate) const SCRIPT_NAME: &str = "<anonymous>";

/// A part of a script that is parsed alone before the whole script is parsed. The check stops text that closes the function
/// around it (`}) + f({`), which is valid only inside the script.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScriptPart<'a> {
    /// A part that must parse by itself.
    Script(&'a str),
    /// A part that is checked between two declarations of the same name in one scope. The parser rejects the second declaration
    /// only if the part does not close more brackets than it opens; another error, or no error, means that the part is
    /// unbalanced.
    Enclosing(&'a str),
}

/// Beginning of the parser's message about a name that is declared twice.
const REDEFINITION: &str = "invalid redefinition";

/// Compiles a sloppy script while a realm runs, after checking its parts. The bytecode keeps the source, for
/// `Function.prototype.toString`.
pub(crate) fn compile_script_at_run_time(parts: &[ScriptPart<'_>], script: &str) -> Result<Vec<u8>, CompileError> {
    let runtime = runtime_with(EmptyImports::default())?;
    runtime.set_memory_limit(PARSER_BYTES);
    let context = Context::custom::<(intrinsic::Eval, intrinsic::RegExpCompiler)>(&runtime);
    let context = context.map_err(error_in(SCRIPT_NAME))?;
    let how = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    let parse =
        |text: &str| in_context(&context, SCRIPT_NAME, |ctx| parse_script(ctx, SCRIPT_NAME, text, how).map(drop));
    for part in parts {
        match part {
            ScriptPart::Script(text) => parse(text)?,
            ScriptPart::Enclosing(text) => match parse(text) {
                Err(error) if error.message.starts_with(REDEFINITION) => {}
                // Positions refer to the script, not to the part that failed.
                Err(error) => return Err(parse(script).err().unwrap_or(error)),
                Ok(()) => return Err(CompileError::without_position(SCRIPT_NAME, "Unexpected token '}'")),
            },
        }
    }
    in_context(&context, SCRIPT_NAME, |ctx| {
        let compiled = parse_script(ctx, SCRIPT_NAME, script, how)?;
        write_bytecode(ctx, compiled.as_raw(), WriteOptions::default())
    })
}

/// Compiles one module while a realm runs; returns its bytecode and the specifiers of its static imports in source order.
pub(crate) fn compile_module_at_run_time(module: ModuleSource<'_>) -> Result<(Vec<u8>, Vec<String>), CompileError> {
    let imports = EmptyImports::default();
    let runtime = runtime_with(imports.clone())?;
    runtime.set_memory_limit(PARSER_BYTES);
    // Only the intrinsics that the parser needs; none of them reads the machine's state.
    let context = Context::custom::<(intrinsic::Eval, intrinsic::RegExpCompiler)>(&runtime);
    let bytecode = compile_in(&context.map_err(error_in(module.specifier))?, module)?;
    Ok((bytecode, imports.requested.take()))
}

fn runtime_with(imports: EmptyImports) -> Result<Runtime, CompileError> {
    let runtime = Runtime::new().map_err(error_in(""))?;
    // The compiler recurses: without a limit, it would overflow the stack of small threads; with the engine's default, deep but
    // valid bundles fail. 512 KiB fit into every thread that Rust starts.
    runtime.set_max_stack_size(512 << 10);
    runtime.set_loader(imports.clone(), imports);
    Ok(runtime)
}

fn error_in(specifier: &str) -> impl Fn(rquickjs::Error) -> CompileError {
    move |error| CompileError::without_position(specifier, error.to_string())
}

fn compile_in(context: &Context, module: ModuleSource<'_>) -> Result<Vec<u8>, CompileError> {
    in_context(context, module.specifier, |ctx| bytecode_of(ctx, module))
}

fn in_context<T>(
    context: &Context,
    name: &str,
    work: impl FnOnce(&Ctx<'_>) -> rquickjs::Result<T>,
) -> Result<T, CompileError> {
    context.with(|ctx| match work(&ctx) {
        Ok(done) => Ok(done),
        Err(rquickjs::Error::Exception) => Err(syntax_error(&ctx, name)),
        Err(error) => Err(error_in(name)(error)),
    })
}

/// Compiles like `Module::declare` and `write`, but accepts NUL in the source, which rquickjs cannot pass as a C string.
fn bytecode_of(ctx: &Ctx<'_>, module: ModuleSource<'_>) -> rquickjs::Result<Vec<u8>> {
    let how = qjs::JS_EVAL_TYPE_MODULE | qjs::JS_EVAL_FLAG_STRICT | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    let options = WriteOptions { strip_source: true, ..WriteOptions::default() };
    let compiled = evaluate(ctx, module.specifier, module.source, how)?;
    // The context keeps a module that was not evaluated; the value does not hold a reference.
    write_bytecode(ctx, compiled, options)
}

/// Parses a script without running it.
fn parse_script<'js>(ctx: &Ctx<'js>, name: &str, source: &str, how: u32) -> rquickjs::Result<Value<'js>> {
    let compiled = evaluate(ctx, name, source, how)?;
    // SAFETY: the function was just returned to us with its reference.
    Ok(unsafe { Value::from_raw(ctx.clone(), compiled) })
}

fn evaluate(ctx: &Ctx<'_>, name: &str, source: &str, how: u32) -> rquickjs::Result<qjs::JSValue> {
    let name = CString::new(name)?;
    // The engine may read the byte after the source.
    let text = [source.as_bytes(), b"\0"].concat();
    // SAFETY: `text` holds one byte more than its length says, `name` ends with NUL, and both outlive the call.
    let compiled = unsafe {
        qjs::JS_Eval(ctx.as_raw().as_ptr(), text.as_ptr().cast(), source.len() as _, name.as_ptr(), how as i32)
    };
    // SAFETY: only the tag is read.
    if unsafe { qjs::JS_IsException(compiled) } { Err(rquickjs::Error::Exception) } else { Ok(compiled) }
}

/// Position of the checksum in bytecode, after the version.
const CHECKSUM: Range<usize> = 1..5;

/// A checksum that the engine does not compare. Code that is loaded was authenticated as a whole, and another pass over its bytes
/// would take a noticeable part of a start.
const UNCHECKED: [u8; 4] = [0xff; 4];

/// Serializes a module or a script that was not evaluated.
fn write_bytecode(ctx: &Ctx<'_>, compiled: qjs::JSValue, options: WriteOptions) -> rquickjs::Result<Vec<u8>> {
    let raw = ctx.as_raw().as_ptr();
    let mut size = 0;
    // SAFETY: `compiled` was not evaluated and is alive, because its context or its owner keeps it. `size` is written before the
    // call ends.
    let bytecode = unsafe { qjs::JS_WriteObject(raw, &raw mut size, compiled, options.to_flag()) };
    if bytecode.is_null() {
        return Err(rquickjs::Error::Exception);
    }
    // SAFETY: the engine wrote `size` bytes there, which belong to this function until it frees them below.
    let mut bytes = unsafe { slice::from_raw_parts(bytecode, size as usize) }.to_vec();
    // SAFETY: the result of `JS_WriteObject` belongs to the caller and came from this context's allocator.
    unsafe { qjs::js_free(raw, bytecode.cast()) };
    bytes[CHECKSUM].copy_from_slice(&UNCHECKED);
    Ok(bytes)
}

/// Extracts the position from the pending exception, whose stack begins with ` at SPECIFIER:LINE:COLUMN`.
fn syntax_error(ctx: &Ctx<'_>, specifier: &str) -> CompileError {
    let thrown = ctx.catch();
    let Some(object) = thrown.as_object() else {
        return CompileError::without_position(specifier, "the engine ran out of memory");
    };
    let member = |name: &str| {
        let value: Option<rquickjs::Value<'_>> = object.get(name).ok();
        value.and_then(|value| value.into_string()).map(|string| strings::lossy(&string)).unwrap_or_default()
    };
    let stack = member("stack");
    let mut position = stack
        .lines()
        .next()
        .and_then(|line| line.trim_start().strip_prefix("at "))
        .and_then(|frame| frame.strip_prefix(specifier))
        .into_iter()
        .flat_map(|rest| rest.split(':').skip(1))
        .map(|number| number.parse().unwrap_or(0));
    CompileError {
        specifier: specifier.to_owned(),
        line: position.next().unwrap_or(0),
        column: position.next().unwrap_or(0),
        message: member("message"),
    }
}

/// Resolves every import to an empty module. The compiler does not check imported names; a realm does when it links.
#[derive(Clone, Default)]
struct EmptyImports {
    /// Requested specifiers in order, without duplicates.
    requested: Rc<RefCell<Vec<String>>>,
}

impl Resolver for EmptyImports {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        _base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        let mut requested = self.requested.borrow_mut();
        if !requested.iter().any(|known| known == name) {
            requested.push(name.to_owned());
        }
        Ok(name.to_owned())
    }
}

impl Loader for EmptyImports {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        struct Empty;
        impl ModuleDef for Empty {}
        Module::declare_def::<Empty, _>(ctx.clone(), name)
    }
}
