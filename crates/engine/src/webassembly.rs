//! Binds `pijs_webassembly` to functions of `pi:web/webassembly`.
//!
//! That module creates the objects that a guest sees; this one converts values, performs calls in both directions, and provides
//! buffers over linear memory.
//!
//! **One store.** A realm has one store, which is borrowed by one user at a time. Code that runs WebAssembly borrows it, and
//! lends it through [`WebAssemblyState::lent`] to an imported function, which may call back. During other uses, no JavaScript
//! runs.
//!
//! **Buffers.** The `ArrayBuffer` of a memory is the memory itself. A memory moves when it grows, so
//! [`WebAssemblyState::refresh_buffers`] detaches such buffers before any JavaScript runs again: when an imported function is
//! entered, and when a call from JavaScript is left. Nothing else may detach or move them, so `ArrayBuffer.prototype.transfer`
//! and similar methods refuse them (`intrinsics.rs`).

use crate::native_call::{self, Native, NativeCall, throw_uncatchable};
use crate::shared::Shared;
use crate::values;
use pijs_webassembly::{
    Context, Embedder, ExternId, ExternType, External, Failure, FuncId, FuncType, GlobalId, ImportId, MemoryId,
    ModuleId, Reference, ReferenceType, Stopped, Store, TableId, Trap, Value as WasmValue, ValueType,
};
use rquickjs::function::Args;
use rquickjs::{Array, ArrayBuffer, Ctx, Exception, Function, Object, Persistent, Result, Value, qjs};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem;
use std::ptr::{self, NonNull};
use std::rc::{Rc, Weak};

/// Functions that `webAssembly` returns.
const FUNCTIONS: &[(&str, Native)] = &[
    ("compile", compile),
    ("customSections", custom_sections),
    ("globalGet", global_get),
    ("globalSet", global_set),
    ("globalType", global_type),
    ("growMemory", grow_memory),
    ("growTable", grow_table),
    ("instantiate", instantiate),
    ("makeFunction", make_function),
    ("memoryBuffer", memory_buffer),
    ("newGlobal", new_global),
    ("newMemory", new_memory),
    ("newTable", new_table),
    ("tableGet", table_get),
    ("tableLength", table_length),
    ("tableSet", table_set),
    ("tableType", table_type),
    ("validate", validate),
];

/// The WebAssembly state of one realm, created when `WebAssembly` is first read.
pub(crate) struct WebAssemblyState {
    store: RefCell<Store>,
    /// The store, while an imported function runs.
    lent: Cell<Option<NonNull<Context<'static>>>>,
    /// Functions of `pi:web/webassembly` that this module calls.
    hooks: Persistent<Object<'static>>,
    imports: RefCell<Vec<(Persistent<Function<'static>>, Rc<FuncType>)>>,
    buffers: RefCell<BTreeMap<MemoryId, Buffer>>,
    /// The exception that an imported function has thrown, while it propagates through WebAssembly code.
    thrown: RefCell<Option<Persistent<Value<'static>>>>,
    context: NonNull<qjs::JSContext>,
}

/// An `ArrayBuffer` over a memory, and the range that it covers.
struct Buffer {
    object: Persistent<Value<'static>>,
    start: NonNull<u8>,
    length: usize,
}

/// The store's view of the realm.
struct RealmHost {
    shared: Weak<Shared>,
    machine: Weak<WebAssemblyState>,
}

impl Embedder for RealmHost {
    fn call_import(
        &self,
        mut context: Context<'_>,
        import: ImportId,
        arguments: &[WasmValue],
    ) -> std::result::Result<Vec<WasmValue>, Stopped> {
        let (Some(shared), Some(machine)) = (self.shared.upgrade(), self.machine.upgrade()) else {
            return Err(Stopped);
        };
        // SAFETY: WebAssembly code runs inside calls of native functions only, so this context is live and entered.
        let ctx = unsafe { Ctx::from_raw(machine.context) };
        let called = machine.lend(&mut context, || machine.call_import(&ctx, import, arguments));
        match called {
            Ok(_) if shared.meter.must_stop() => Err(Stopped),
            Ok(results) => Ok(results),
            Err(error) => {
                if error.is_exception() {
                    *machine.thrown.borrow_mut() = Some(Persistent::save(&ctx, ctx.catch()));
                }
                Err(Stopped)
            }
        }
    }

    fn poll(&self, polls: u64) -> bool {
        self.shared.upgrade().is_some_and(|shared| !shared.meter.poll_many(polls))
    }

    fn take_memory(&self, bytes: usize) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.meter.take_memory(bytes))
    }

    fn give_back_memory(&self, bytes: usize) {
        if let Some(shared) = self.shared.upgrade() {
            shared.meter.give_back_memory(bytes);
        }
    }
}

impl WebAssemblyState {
    fn new<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, hooks: Object<'js>) -> Rc<Self> {
        let hooks = Persistent::save(ctx, hooks);
        Rc::new_cyclic(|machine| {
            let realm = RealmHost { shared: Rc::downgrade(shared), machine: machine.clone() };
            Self {
                store: RefCell::new(Store::new(Rc::new(realm))),
                lent: Cell::new(None),
                hooks,
                imports: RefCell::default(),
                buffers: RefCell::default(),
                thrown: RefCell::new(None),
                context: ctx.as_raw(),
            }
        })
    }

    /// Lends the store while `body` runs JavaScript.
    fn lend<R>(&self, context: &mut Context<'_>, body: impl FnOnce() -> R) -> R {
        struct ReturnContext<'a>(&'a WebAssemblyState);
        impl Drop for ReturnContext<'_> {
            fn drop(&mut self) {
                self.0.lent.set(None);
            }
        }
        let context: NonNull<Context<'_>> = NonNull::from(context);
        // SAFETY: only the lifetime changes. `ReturnContext` takes the pointer back before this function ends, also when `body`
        // unwinds, so it is never used after the borrow it came from.
        let context = unsafe { mem::transmute::<NonNull<Context<'_>>, NonNull<Context<'static>>>(context) };
        self.lent.set(Some(context));
        let _return = ReturnContext(self);
        body()
    }

    /// Runs `body` with the store. `body` may run JavaScript only through imported functions.
    fn with<R>(&self, ctx: &Ctx<'_>, body: impl FnOnce(&mut Context<'_>) -> R) -> Result<R> {
        if let Some(mut lent) = self.lent.take() {
            // SAFETY: the pointer is live (see `lend`) and unique, because it was taken out of the only place that holds it.
            let answer = body(unsafe { lent.as_mut() });
            self.lent.set(Some(lent));
            return Ok(answer);
        }
        match self.store.try_borrow_mut() {
            Ok(mut store) => Ok(body(&mut store.context())),
            Err(_) => Err(Exception::throw_internal(ctx, "the store of WebAssembly is in use")),
        }
    }

    /// Runs a fallible body with the store.
    fn attempt<R>(
        &self,
        ctx: &Ctx<'_>,
        body: impl FnOnce(&mut Context<'_>) -> std::result::Result<R, Failure>,
    ) -> Result<R> {
        let outcome = self.with(ctx, body)?;
        self.refresh_buffers(ctx)?;
        outcome.map_err(|failure| self.throw(ctx, failure))
    }

    fn throw(&self, ctx: &Ctx<'_>, failure: Failure) -> rquickjs::Error {
        let (kind, message) = match failure {
            Failure::Stopped => {
                let thrown = self.thrown.borrow_mut().take();
                return match thrown.map(|thrown| thrown.restore(ctx)) {
                    Some(Ok(thrown)) => ctx.throw(thrown),
                    Some(Err(error)) => error,
                    None => throw_uncatchable(ctx),
                };
            }
            Failure::Compile(message) => ("CompileError", message),
            Failure::Link(message) => ("LinkError", message),
            Failure::Trap(Trap::StackOverflow) => ("RangeError", Trap::StackOverflow.message().to_owned()),
            Failure::Trap(trap) => ("RuntimeError", trap.message().to_owned()),
            Failure::Limit(message) => ("RangeError", message),
        };
        match self.hook::<Value<'_>>(ctx, "failure", (kind, message)) {
            Ok(error) => ctx.throw(error),
            Err(error) => error,
        }
    }

    fn hook<'js, R: rquickjs::FromJs<'js>>(
        &self,
        ctx: &Ctx<'js>,
        name: &str,
        arguments: impl rquickjs::function::IntoArgs<'js>,
    ) -> Result<R> {
        let hooks = self.hooks.clone().restore(ctx)?;
        let hook: Function<'js> = hooks.get(name)?;
        hook.call(arguments)
    }

    /// Detaches the buffers of memories that have grown.
    fn refresh_buffers(&self, ctx: &Ctx<'_>) -> Result<()> {
        if self.buffers.borrow().is_empty() {
            return Ok(());
        }
        let stale = self.with(ctx, |context| {
            let buffers = self.buffers.borrow();
            let stale =
                buffers.iter().filter(|(id, buffer)| context.memory_data(**id) != (buffer.start, buffer.length));
            stale.map(|(id, _)| *id).collect::<Vec<_>>()
        })?;
        stale.into_iter().try_for_each(|id| self.detach(ctx, id))
    }

    fn detach(&self, ctx: &Ctx<'_>, id: MemoryId) -> Result<()> {
        let removed = self.buffers.borrow_mut().remove(&id);
        if let Some(buffer) = removed {
            let object = buffer.object.restore(ctx)?;
            // SAFETY: a live value of this context; the call frees nothing, as the buffer has no function for that.
            unsafe { qjs::JS_DetachArrayBuffer(ctx.as_raw().as_ptr(), object.as_raw()) };
        }
        Ok(())
    }

    /// Returns whether a value is the buffer of a memory.
    pub(crate) fn has_buffer<'js>(&self, ctx: &Ctx<'js>, value: &Value<'js>) -> bool {
        let buffers = self.buffers.borrow();
        buffers.values().any(|buffer| buffer.object.clone().restore(ctx).is_ok_and(|object| object == *value))
    }

    fn call_import(&self, ctx: &Ctx<'_>, import: ImportId, arguments: &[WasmValue]) -> Result<Vec<WasmValue>> {
        self.refresh_buffers(ctx)?;
        let (function, ty) = {
            let imports = self.imports.borrow();
            let (function, ty) = &imports[import.0 as usize];
            (function.clone(), Rc::clone(ty))
        };
        let mut passed = Args::new(ctx.clone(), arguments.len());
        for argument in arguments {
            passed.push_arg(self.to_js(ctx, *argument)?)?;
        }
        let answer: Value<'_> = passed.apply(&function.restore(ctx)?)?;
        match ty.results.as_slice() {
            [] => Ok(Vec::new()),
            [result] => Ok(vec![self.wasm_value(ctx, &answer, *result)?]),
            results => {
                let list: Array<'_> = self.hook(ctx, "list", (answer, results.len()))?;
                let values = results.iter().enumerate();
                values.map(|(index, ty)| self.wasm_value(ctx, &list.get::<Value<'_>>(index)?, *ty)).collect()
            }
        }
    }

    fn call<'js>(&self, call: &NativeCall<'_, 'js>, func: FuncId, ty: &FuncType) -> Result<Value<'js>> {
        let ctx = call.ctx();
        let mut arguments = Vec::with_capacity(ty.params.len());
        for (index, param) in ty.params.iter().enumerate() {
            arguments.push(self.wasm_value(ctx, &call.arg(index), *param)?);
        }
        if ty.results.contains(&ValueType::V128) {
            return Err(incompatible(ctx));
        }
        let results = self.attempt(ctx, |context| context.call(func, &arguments))?;
        match results.as_slice() {
            [] => Ok(Value::new_undefined(ctx.clone())),
            [result] => self.to_js(ctx, *result),
            results => {
                let list = Array::new(ctx.clone())?;
                for (index, result) in results.iter().enumerate() {
                    values::push(&list, index, self.to_js(ctx, *result)?)?;
                }
                Ok(list.into_value())
            }
        }
    }

    fn to_js<'js>(&self, ctx: &Ctx<'js>, value: WasmValue) -> Result<Value<'js>> {
        Ok(match value {
            WasmValue::I32(value) => Value::new_int(ctx.clone(), value),
            // SAFETY: a live context; the returned value is owned.
            WasmValue::I64(value) => unsafe {
                Value::from_raw(ctx.clone(), qjs::JS_NewBigInt64(ctx.as_raw().as_ptr(), value))
            },
            WasmValue::F32(value) => Value::new_float(ctx.clone(), f64::from(value)),
            WasmValue::F64(value) => Value::new_float(ctx.clone(), value),
            WasmValue::V128(_) => return Err(incompatible(ctx)),
            WasmValue::Ref(Reference::Func(None) | Reference::Extern(None)) => Value::new_null(ctx.clone()),
            WasmValue::Ref(Reference::Func(Some(FuncId(id)))) => self.hook(ctx, "functionOf", (id,))?,
            WasmValue::Ref(Reference::Extern(Some(ExternId(id)))) => self.hook(ctx, "externOf", (id,))?,
        })
    }

    /// Converts a value by the rules of the specification; may run guest code.
    fn wasm_value<'js>(&self, ctx: &Ctx<'js>, value: &Value<'js>, ty: ValueType) -> Result<WasmValue> {
        let raw = ctx.as_raw().as_ptr();
        let (mut int, mut long, mut double) = (0, 0, 0.0);
        // SAFETY: a live context and a value that stays borrowed; each call writes a number, or leaves an exception.
        let status = unsafe {
            match ty {
                ValueType::I32 => qjs::JS_ToInt32(raw, &raw mut int, value.as_raw()),
                ValueType::I64 => qjs::JS_ToBigInt64(raw, &raw mut long, value.as_raw()),
                ValueType::F32 | ValueType::F64 => qjs::JS_ToFloat64(raw, &raw mut double, value.as_raw()),
                ValueType::V128 | ValueType::FuncRef | ValueType::ExternRef => 0,
            }
        };
        if status < 0 {
            return Err(rquickjs::Error::Exception);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the nearest number of single precision is meant")]
        let single = double as f32;
        Ok(match ty {
            ValueType::I32 => WasmValue::I32(int),
            ValueType::I64 => WasmValue::I64(long),
            ValueType::F32 => WasmValue::F32(single),
            ValueType::F64 => WasmValue::F64(double),
            ValueType::V128 => return Err(incompatible(ctx)),
            ValueType::FuncRef => WasmValue::Ref(self.reference(ctx, value, ReferenceType::Func)?),
            ValueType::ExternRef => WasmValue::Ref(self.reference(ctx, value, ReferenceType::Extern)?),
        })
    }

    fn reference<'js>(&self, ctx: &Ctx<'js>, value: &Value<'js>, ty: ReferenceType) -> Result<Reference> {
        Ok(match (ty, value.is_null()) {
            (ReferenceType::Func, true) => Reference::Func(None),
            (ReferenceType::Extern, true) => Reference::Extern(None),
            (ReferenceType::Func, false) => match self.hook::<Option<u32>>(ctx, "functionId", (value.clone(),))? {
                Some(id) => Reference::Func(Some(FuncId(id))),
                None => return Err(incompatible(ctx)),
            },
            (ReferenceType::Extern, false) => {
                Reference::Extern(Some(ExternId(self.hook(ctx, "externId", (value.clone(),))?)))
            }
        })
    }
}

fn incompatible(ctx: &Ctx<'_>) -> rquickjs::Error {
    Exception::throw_type(ctx, "type incompatibility when transforming from/to JS")
}

/// `webAssembly(hooks)`: returns the functions of this file by name.
pub(crate) fn functions<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let shared = native_call::shared_of(ctx)?;
    let Some(hooks) = call.arg(0).into_object() else {
        return Err(Exception::throw_type(ctx, "webAssembly: expected an object of functions"));
    };
    *shared.handles.webassembly.borrow_mut() = Some(WebAssemblyState::new(ctx, &shared, hooks));
    let functions = Object::new(ctx.clone())?;
    for (name, native) in FUNCTIONS {
        values::put(&functions, name, native_call::function(ctx, &shared, name, *native)?)?;
    }
    Ok(functions.into_value())
}

fn machine(call: &NativeCall<'_, '_>) -> Result<Rc<WebAssemblyState>> {
    let machine = call.shared().handles.webassembly.borrow().clone();
    machine.ok_or_else(|| Exception::throw_internal(call.ctx(), "WebAssembly was not loaded"))
}

fn id(call: &NativeCall<'_, '_>, index: usize) -> Result<u32> {
    Ok(u32::try_from(call.integer(index)?).unwrap_or(u32::MAX))
}

fn optional(call: &NativeCall<'_, '_>, index: usize) -> Result<Option<u32>> {
    if call.arg(index).is_undefined() { Ok(None) } else { id(call, index).map(Some) }
}

fn value_type(call: &NativeCall<'_, '_>, index: usize) -> Result<ValueType> {
    let name = call.text(index)?;
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty).ok_or_else(|| incompatible(call.ctx()))
}

const TYPES: &[(&str, ValueType)] = &[
    ("i32", ValueType::I32),
    ("i64", ValueType::I64),
    ("f32", ValueType::F32),
    ("f64", ValueType::F64),
    ("v128", ValueType::V128),
    ("funcref", ValueType::FuncRef),
    ("externref", ValueType::ExternRef),
];

fn type_name(ty: ValueType) -> &'static str {
    TYPES.iter().find(|(_, known)| *known == ty).map_or("", |(name, _)| name)
}

fn reference_name(ty: ReferenceType) -> &'static str {
    match ty {
        ReferenceType::Func => "funcref",
        ReferenceType::Extern => "externref",
    }
}

fn number<'js>(call: &NativeCall<'_, 'js>, number: u32) -> Value<'js> {
    Value::new_number(call.ctx().clone(), f64::from(number))
}

fn validate<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let bytes = call.bytes(0)?;
    let is_valid = machine(call)?.attempt(call.ctx(), |context| context.validate(&bytes))?;
    Ok(Value::new_bool(call.ctx().clone(), is_valid))
}

/// `compile(bytes)`: returns `{module, imports, exports}`, each import `[module, name, kind, type?, mutable?]` and each export
/// `[name, kind, index]`.
fn compile<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, machine) = (call.ctx(), machine(call)?);
    let bytes = call.bytes(0)?;
    let module = machine.attempt(ctx, |context| context.compile(&bytes))?;
    let (imports, exports) =
        machine.with(ctx, |context| (context.imports(module).to_vec(), context.exports(module).to_vec()))?;
    let answer = Object::new(ctx.clone())?;
    values::put(&answer, "module", number(call, module.0))?;
    let list = Array::new(ctx.clone())?;
    for (index, import) in imports.iter().enumerate() {
        let row = Array::new(ctx.clone())?;
        values::push(&row, 0, values::string_to_js(ctx, &import.module)?)?;
        values::push(&row, 1, values::string_to_js(ctx, &import.name)?)?;
        values::push(&row, 2, import.ty.kind())?;
        if let ExternType::Global { content, mutable } = import.ty {
            values::push(&row, 3, type_name(content))?;
            values::push(&row, 4, mutable)?;
        }
        values::push(&list, index, row)?;
    }
    values::put(&answer, "imports", list)?;
    let list = Array::new(ctx.clone())?;
    for (index, export) in exports.iter().enumerate() {
        let row = Array::new(ctx.clone())?;
        values::push(&row, 0, values::string_to_js(ctx, &export.name)?)?;
        values::push(&row, 1, export.ty.kind())?;
        values::push(&row, 2, number(call, export.index))?;
        values::push(&list, index, row)?;
    }
    values::put(&answer, "exports", list)?;
    Ok(answer.into_value())
}

/// `customSections(module, name)`: returns a list of `ArrayBuffer`s.
fn custom_sections<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, module, name) = (call.ctx(), ModuleId(id(call, 0)?), call.text(1)?);
    let sections = machine(call)?.with(ctx, |context| context.custom_sections(module, &name))?;
    let list = Array::new(ctx.clone())?;
    for (index, section) in sections.iter().enumerate() {
        values::push(&list, index, ArrayBuffer::new_copy(ctx.clone(), section)?)?;
    }
    Ok(list.into_value())
}

/// `instantiate(module, imports)`: returns `{exports, start?}`. An import is the number of an object in the store, or a
/// JavaScript function.
fn instantiate<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, machine, module) = (call.ctx(), machine(call)?, ModuleId(id(call, 0)?));
    let Some(given) = call.arg(1).into_array() else { return Err(incompatible(ctx)) };
    let wanted = machine.with(ctx, |context| context.imports(module).to_vec())?;
    let mut externals = Vec::with_capacity(wanted.len());
    for (index, import) in wanted.iter().enumerate() {
        let value: Value<'js> = given.get(index)?;
        let number = value.as_number().map(|number| number as u32);
        externals.push(match (&import.ty, number, value.into_function()) {
            (ExternType::Func(_), Some(id), _) => External::Func(FuncId(id)),
            (ExternType::Memory, Some(id), _) => External::Memory(MemoryId(id)),
            (ExternType::Table, Some(id), _) => External::Table(TableId(id)),
            (ExternType::Global { .. }, Some(id), _) => External::Global(GlobalId(id)),
            (ExternType::Func(ty), None, Some(function)) => External::Func(machine.import(ctx, function, ty)?),
            _ => return Err(incompatible(ctx)),
        });
    }
    let made = machine.attempt(ctx, |context| context.instantiate(module, &externals))?;
    let answer = Object::new(ctx.clone())?;
    let exports = Array::new(ctx.clone())?;
    for (index, export) in made.exports.iter().enumerate() {
        let (External::Func(FuncId(id))
        | External::Memory(MemoryId(id))
        | External::Table(TableId(id))
        | External::Global(GlobalId(id))) = *export;
        values::push(&exports, index, number(call, id))?;
    }
    values::put(&answer, "exports", exports)?;
    if let Some(FuncId(start)) = made.start {
        values::put(&answer, "start", number(call, start))?;
    }
    Ok(answer.into_value())
}

impl WebAssemblyState {
    fn import<'js>(&self, ctx: &Ctx<'js>, function: Function<'js>, ty: &FuncType) -> Result<FuncId> {
        let import = {
            let mut imports = self.imports.borrow_mut();
            imports.push((Persistent::save(ctx, function), Rc::new(ty.clone())));
            ImportId(u32::try_from(imports.len() - 1).unwrap_or(u32::MAX))
        };
        self.with(ctx, |context| context.import_function(ty, import))
    }
}

/// `makeFunction(func, name)`: returns a JavaScript function that calls a WebAssembly function.
fn make_function<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, func, name) = (call.ctx(), FuncId(id(call, 0)?), call.text(1)?);
    let ty = machine(call)?.with(ctx, |context| context.func_type(func))?;
    let length = ty.params.len();
    let function = native_call::closure(ctx, &name, move |call| machine(call)?.call(call, func, &ty))?;
    if let Some(function) = function.as_function() {
        function.set_length(length)?;
    }
    Ok(function)
}

fn new_memory<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (initial, maximum) = (id(call, 0)?, optional(call, 1)?);
    let memory = machine(call)?.attempt(call.ctx(), |context| context.new_memory(initial, maximum))?;
    Ok(number(call, memory.0))
}

/// `memoryBuffer(memory)`: returns the `ArrayBuffer` of a memory; returns the same object until the memory grows.
fn memory_buffer<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, machine, memory) = (call.ctx(), machine(call)?, MemoryId(id(call, 0)?));
    if let Some(buffer) = machine.buffers.borrow().get(&memory) {
        return buffer.object.clone().restore(ctx);
    }
    let (start, length) = machine.with(ctx, |context| context.memory_data(memory))?;
    // SAFETY: `start` and `length` are the memory of a store that lives as long as the context. It moves only when it grows, and
    // `refresh_buffers` detaches the buffer then, before JavaScript runs again. Without a free function the engine neither frees
    // nor resizes it; `intrinsics` refuses to transfer it.
    let object = unsafe {
        let raw = qjs::JS_NewArrayBuffer(
            ctx.as_raw().as_ptr(),
            start.as_ptr(),
            length as qjs::size_t,
            0,
            None,
            ptr::null_mut(),
            false,
        );
        Value::from_raw(ctx.clone(), raw)
    };
    if object.is_exception() {
        return Err(rquickjs::Error::Exception);
    }
    let buffer = Buffer { object: Persistent::save(ctx, object.clone()), start, length };
    machine.buffers.borrow_mut().insert(memory, buffer);
    Ok(object)
}

/// `growMemory(memory, pages)`: grows a memory, detaches its buffer, even if no pages are added, and returns the previous size.
fn grow_memory<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, machine, memory, pages) = (call.ctx(), machine(call)?, MemoryId(id(call, 0)?), id(call, 1)?);
    let before = machine.attempt(ctx, |context| context.grow_memory(memory, pages))?;
    machine.detach(ctx, memory)?;
    Ok(number(call, before))
}

/// `newTable(element, initial, maximum, first)`: creates a table.
fn new_table<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, machine) = (call.ctx(), machine(call)?);
    let element = if call.text(0)? == "externref" { ReferenceType::Extern } else { ReferenceType::Func };
    let (initial, maximum) = (id(call, 1)?, optional(call, 2)?);
    let first = machine.reference(ctx, &call.arg(3), element)?;
    let table = machine.attempt(ctx, |context| context.new_table(element, initial, maximum, first))?;
    Ok(number(call, table.0))
}

fn table<'js>(call: &NativeCall<'_, 'js>) -> Result<(Rc<WebAssemblyState>, TableId, ReferenceType, u32)> {
    let (machine, table) = (machine(call)?, TableId(id(call, 0)?));
    let (element, length) = machine.with(call.ctx(), |context| context.table(table))?;
    Ok((machine, table, element, u32::try_from(length).unwrap_or(u32::MAX)))
}

fn table_length<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (_, _, _, length) = table(call)?;
    Ok(number(call, length))
}

fn table_type<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (_, _, element, _) = table(call)?;
    values::string_to_js(call.ctx(), reference_name(element))
}

/// `tableGet(table, index)`: returns an element; the caller has checked the index.
fn table_get<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (machine, table, _, _) = table(call)?;
    let index = id(call, 1)?;
    match machine.with(call.ctx(), |context| context.table_get(table, index))? {
        Some(reference) => machine.to_js(call.ctx(), WasmValue::Ref(reference)),
        None => Ok(Value::new_undefined(call.ctx().clone())),
    }
}

fn table_set<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (machine, table, element, _) = table(call)?;
    let index = id(call, 1)?;
    let value = machine.reference(call.ctx(), &call.arg(2), element)?;
    let is_set = machine.with(call.ctx(), |context| context.table_set(table, index, value))?;
    Ok(Value::new_bool(call.ctx().clone(), is_set))
}

/// `growTable(table, elements, value)`: returns the previous length; `undefined` if the table cannot grow by this many elements.
fn grow_table<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (machine, table, element, _) = table(call)?;
    let elements = id(call, 1)?;
    let value = machine.reference(call.ctx(), &call.arg(2), element)?;
    let grown = machine.with(call.ctx(), |context| context.grow_table(table, elements, value))?;
    match grown.and_then(|length| u32::try_from(length).ok()) {
        Some(length) => Ok(number(call, length)),
        None => Ok(Value::new_undefined(call.ctx().clone())),
    }
}

/// `newGlobal(type, mutable, value)`: creates a global.
fn new_global<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, machine, ty, mutable) = (call.ctx(), machine(call)?, value_type(call, 0)?, call.flag(1));
    let value = machine.wasm_value(ctx, &call.arg(2), ty)?;
    let global = machine.attempt(ctx, |context| context.new_global(value, mutable))?;
    Ok(number(call, global.0))
}

/// `globalType(global)`: returns `[type, mutable]`.
fn global_type<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, global) = (call.ctx(), GlobalId(id(call, 0)?));
    let (ty, mutable) = machine(call)?.with(ctx, |context| context.global_type(global))?;
    let answer = Array::new(ctx.clone())?;
    values::push(&answer, 0, type_name(ty))?;
    values::push(&answer, 1, mutable)?;
    Ok(answer.into_value())
}

fn global_get<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, machine, global) = (call.ctx(), machine(call)?, GlobalId(id(call, 0)?));
    let value = machine.with(ctx, |context| context.global_get(global))?;
    machine.to_js(ctx, value)
}

fn global_set<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (ctx, machine, global) = (call.ctx(), machine(call)?, GlobalId(id(call, 0)?));
    let (ty, _) = machine.with(ctx, |context| context.global_type(global))?;
    let value = machine.wasm_value(ctx, &call.arg(1), ty)?;
    let is_set = machine.with(ctx, |context| context.global_set(global, value))?;
    Ok(Value::new_bool(ctx.clone(), is_set))
}
