//! Implements the store of a realm and its operations.

use crate::module::{self, Counts, Export, ExternType, FuncType, Import, Module, ValueType};
use crate::value::{
    ExternId, Failure, FuncId, GlobalId, ImportId, MemoryId, ModuleId, Reference, ReferenceType, TableId, Trap, Value,
};
use std::collections::HashMap;
use std::fmt::Debug;
use std::ptr::NonNull;
use std::rc::Rc;
use wasmi::errors::{ErrorKind, InstantiationError, MemoryError, TableError};
use wasmi::{
    AsContextMut, Caller, Config, CustomFuelCosts, Engine, Extern, ExternRef, F32, F64, Func, Global, Memory,
    MemoryType, Mutability, Nullable, Ref, RefType, ResumableCall, StoreContextMut, Table, TableType, TrapCode, V128,
    Val, ValType,
};

/// Units of fuel per interrupt poll of a realm: both take about 50 us on a CPU core of the 2020s.
pub const FUEL_PER_POLL: u64 = 10_000;

/// Number of bytes of a module that are validated, and later translated, per poll.
const BYTES_PER_POLL: usize = 2048;
/// Number of bytes that a bulk instruction copies per unit of fuel.
const BYTES_PER_FUEL: u32 = 64;

/// Maximum size of a module, in bytes. Published modules have a few megabytes.
const MAX_MODULE_BYTES: usize = 64 << 20;

/// Memory of a compiled module per byte of its binary: the binary itself, and the translated code once all of it has run.
const BYTES_PER_MODULE_BYTE: usize = 4;
/// Memory of a compiled module per function, in bytes.
const BYTES_PER_FUNCTION: usize = 256;

/// Maximum number of elements of a table, as in Node.
const MAX_TABLE_ELEMENTS: usize = 10_000_000;
/// Memory of one table element, in bytes.
const ELEMENT_BYTES: usize = 16;
/// Maximum number of pages of a memory.
const MAX_MEMORY_PAGES: u32 = 65_536;
/// Maximum number of instances of a realm. The same limit applies to memories and to tables.
const MAX_OBJECTS_OF_KIND: usize = 10_000;

/// Maximum depth of WebAssembly calls within one entry from the embedder.
const MAX_CALL_DEPTH: usize = 20_000;
/// Size of the operand stack of one entry from the embedder, in bytes.
const STACK_BYTES: usize = 1 << 20;
/// Maximum depth of re-entrant calls from the embedder (export, import, export, ...).
const MAX_ENTRY_DEPTH: u32 = 128;
/// Depth of re-entrant calls up to which operand stacks are not charged to the realm's memory limit.
const FREE_ENTRIES: u32 = 8;

/// An imported function failed, or the budget of the turn is exhausted; the embedder knows which.
#[derive(Debug)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped by the embedder")
    }
}

impl std::error::Error for Stopped {}
impl wasmi::errors::HostError for Stopped {}

/// Services of the realm that a store uses.
pub trait Embedder {
    /// Calls an imported function. The results must have the types of its declaration.
    fn call_import(&self, context: Context<'_>, import: ImportId, arguments: &[Value]) -> Result<Vec<Value>, Stopped>;
    /// Takes polls from the budget of the turn. `false` ends the running code.
    fn poll(&self, polls: u64) -> bool;
    /// Reserves memory within the realm's limit; `false` if too little is left.
    fn take_memory(&self, bytes: usize) -> bool;
    /// Releases reserved memory.
    fn give_back_memory(&self, bytes: usize);
}

/// All objects of a realm's WebAssembly code.
///
/// Objects are freed only when the store is dropped, because instances refer to one another.
pub struct Store(wasmi::Store<Data>);

struct Data {
    embedder: Rc<dyn Embedder>,
    limiter: Limiter,
    modules: Vec<Module>,
    funcs: Interner<Func>,
    memories: Interner<Memory>,
    tables: Interner<Table>,
    globals: Interner<Global>,
    externs: HashMap<ExternId, ExternRef>,
    entries: u32,
}

/// Assigns numbers to handles. The interpreter's handles cannot be compared, but their debug output is unique.
struct Interner<T> {
    by_form: HashMap<String, u32>,
    handles: Vec<T>,
}

impl<T: Copy + Debug> Interner<T> {
    fn new() -> Self {
        Self { by_form: HashMap::new(), handles: Vec::new() }
    }

    fn id(&mut self, handle: T) -> u32 {
        *self.by_form.entry(format!("{handle:?}")).or_insert_with(|| {
            self.handles.push(handle);
            u32::try_from(self.handles.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn get(&self, id: u32) -> T {
        self.handles[id as usize]
    }
}

struct Limiter(Rc<dyn Embedder>);

impl wasmi::ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, wasmi_core::LimiterError> {
        Ok(maximum.is_none_or(|maximum| desired <= maximum) && self.0.take_memory(desired.saturating_sub(current)))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, wasmi_core::LimiterError> {
        let bytes = desired.saturating_sub(current).saturating_mul(ELEMENT_BYTES);
        let fits = desired <= MAX_TABLE_ELEMENTS && maximum.is_none_or(|maximum| desired <= maximum);
        Ok(fits && self.0.take_memory(bytes))
    }

    fn instances(&self) -> usize {
        MAX_OBJECTS_OF_KIND
    }

    fn tables(&self) -> usize {
        MAX_OBJECTS_OF_KIND
    }

    fn memories(&self) -> usize {
        MAX_OBJECTS_OF_KIND
    }
}

/// An import or export of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum External {
    /// A function.
    Func(FuncId),
    /// A memory.
    Memory(MemoryId),
    /// A table.
    Table(TableId),
    /// A global.
    Global(GlobalId),
}

/// A new instance whose start function has not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Exports, in the order of the module.
    pub exports: Vec<External>,
    /// Start function, which the embedder has to call; `None` if there is none.
    pub start: Option<FuncId>,
}

impl Store {
    /// Creates an empty store.
    pub fn new(embedder: Rc<dyn Embedder>) -> Self {
        let mut config = Config::default();
        config.consume_fuel(true);
        // The whole module is charged when it is compiled. Otherwise a call could run out of fuel while a function is
        // translated, before its first instruction, where it cannot be continued.
        config.fuel_cost(CustomFuelCosts {
            bytes_copied_per_fuel: BYTES_PER_FUEL,
            fuel_per_bytes_translated: 0,
            fuel_per_bytes_validated: 0,
        });
        config.set_max_recursion_depth(MAX_CALL_DEPTH);
        config.set_max_stack_height(STACK_BYTES);
        let engine = Engine::new(&config);
        let data = Data {
            limiter: Limiter(Rc::clone(&embedder)),
            embedder,
            modules: Vec::new(),
            funcs: Interner::new(),
            memories: Interner::new(),
            tables: Interner::new(),
            globals: Interner::new(),
            externs: HashMap::new(),
            entries: 0,
        };
        let mut store = wasmi::Store::new(&engine, data);
        store.limiter(|data| &mut data.limiter);
        Self(store)
    }

    /// Borrows the store for operations.
    pub fn context(&mut self) -> Context<'_> {
        Context(self.0.as_context_mut())
    }
}

/// An exclusive borrow of a store.
pub struct Context<'a>(StoreContextMut<'a, Data>);

impl Context<'_> {
    /// Returns whether [`compile`](Self::compile) accepts the bytes.
    pub fn validate(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        if bytes.len() > MAX_MODULE_BYTES {
            return Ok(false);
        }
        self.pay(bytes.len() / BYTES_PER_POLL)?;
        Ok(wasmi::Module::validate(self.0.engine(), bytes).is_ok())
    }

    /// Validates a module; its functions are translated when they are first called.
    pub fn compile(&mut self, bytes: &[u8]) -> Result<ModuleId, Failure> {
        module::check_preamble(bytes).map_err(Failure::Compile)?;
        if bytes.len() > MAX_MODULE_BYTES {
            let text = format!("the module has {} bytes: the limit is {MAX_MODULE_BYTES}", bytes.len());
            return Err(Failure::Compile(text));
        }
        self.pay(bytes.len() / BYTES_PER_POLL)?;
        let counts = module::counts(bytes);
        let memory = bytes.len() * BYTES_PER_MODULE_BYTE + counts.functions * BYTES_PER_FUNCTION;
        self.take(memory, "the module")?;
        let compiled = self.translate(bytes, counts);
        if compiled.is_err() {
            self.0.data().embedder.give_back_memory(memory);
        }
        let modules = &mut self.0.data_mut().modules;
        modules.push(compiled?);
        Ok(ModuleId(u32::try_from(modules.len() - 1).unwrap_or(u32::MAX)))
    }

    fn translate(&self, bytes: &[u8], counts: Counts) -> Result<Module, Failure> {
        let engine = self.0.engine();
        let failed = |error: wasmi::Error| Failure::Compile(compile_message(&error));
        if !module::has_start(bytes) {
            return Ok(Module::new(wasmi::Module::new(engine, bytes).map_err(failed)?, bytes, None, counts));
        }
        wasmi::Module::validate(engine, bytes).map_err(failed)?;
        let Some((rewritten, name)) = module::export_start(bytes) else {
            return Err(Failure::Compile("the start section is malformed".to_owned()));
        };
        let code = wasmi::Module::new(engine, &rewritten).map_err(failed)?;
        Ok(Module::new(code, &rewritten, Some(name), counts))
    }

    /// Lists the imports of a module.
    pub fn imports(&self, module: ModuleId) -> &[Import] {
        &self.0.data().modules[module.0 as usize].imports
    }

    /// Lists the exports of a module.
    pub fn exports(&self, module: ModuleId) -> &[Export] {
        &self.0.data().modules[module.0 as usize].exports
    }

    /// Copies the custom sections of one name.
    pub fn custom_sections(&self, module: ModuleId, name: &str) -> Vec<Vec<u8>> {
        let code = &self.0.data().modules[module.0 as usize].code;
        module::custom_sections(code, name).map(<[u8]>::to_vec).collect()
    }

    /// Creates a function that calls the embedder; `import` is passed to [`Embedder::call_import`].
    pub fn import_function(&mut self, ty: &FuncType, import: ImportId) -> FuncId {
        let list = |types: &[ValueType]| types.iter().copied().map(ValType::from).collect::<Vec<_>>();
        let ty = wasmi::FuncType::new(list(&ty.params), list(&ty.results));
        let call = move |mut caller: Caller<'_, Data>, inputs: &[Val], outputs: &mut [Val]| {
            call_import(&mut caller, import, inputs, outputs)
        };
        let func = Func::new(&mut self.0, ty, call);
        self.func_id(func)
    }

    /// Creates an instance. The embedder must call its start function.
    pub fn instantiate(&mut self, module: ModuleId, imports: &[External]) -> Result<Instance, Failure> {
        self.check_imports(module, imports)?;
        let entry = &self.0.data().modules[module.0 as usize];
        let (code, bytes, start) = (entry.code.clone(), entry.instance_bytes, entry.start.clone());
        let names: Vec<_> = entry.exports.iter().map(|export| export.name.clone()).collect();
        self.take(bytes, "the instance")?;
        let places = self.0.data().modules[module.0 as usize].import_places.clone();
        let mut externals: Vec<_> = places.into_iter().zip(imports).collect();
        externals.sort_by_key(|(place, _)| *place);
        let externals: Vec<_> = externals.into_iter().map(|(_, import)| self.to_extern(*import)).collect();
        let instance = wasmi::Instance::new(&mut self.0, &code, &externals).map_err(|error| self.failure(&error))?;
        let exports = names.iter().filter_map(|name| instance.get_export(&self.0, name)).collect::<Vec<_>>();
        let exports = exports.into_iter().map(|export| self.external(export)).collect();
        let start = start.and_then(|name| instance.get_func(&self.0, &name)).map(|func| self.func_id(func));
        Ok(Instance { exports, start })
    }

    /// Checks that the imports have the required types, like the interpreter, and names the import that does not fit, like Node.
    fn check_imports(&self, module: ModuleId, imports: &[External]) -> Result<(), Failure> {
        let data = self.0.data();
        let entry = &data.modules[module.0 as usize];
        let wanted: Vec<_> = entry.code.imports().collect();
        for (index, (place, given)) in entry.import_places.iter().zip(imports).enumerate() {
            let wanted = &wanted[*place];
            let problem = match (wanted.ty(), given) {
                (wasmi::ExternType::Func(ty), External::Func(id)) => (data.funcs.get(id.0).ty(&self.0) != *ty)
                    .then(|| "imported function does not match the expected type".to_owned()),
                (wasmi::ExternType::Memory(ty), External::Memory(id)) => {
                    let memory = data.memories.get(id.0);
                    bounds_problem(
                        "memory",
                        "pages",
                        (memory.size(&self.0), memory.ty(&self.0).maximum()),
                        (ty.minimum(), ty.maximum()),
                    )
                }
                (wasmi::ExternType::Table(ty), External::Table(id)) => {
                    let table = data.tables.get(id.0);
                    if table.ty(&self.0).element() == ty.element() {
                        bounds_problem(
                            "table",
                            "elements",
                            (table.size(&self.0), table.ty(&self.0).maximum()),
                            (ty.minimum(), ty.maximum()),
                        )
                    } else {
                        Some("imported table does not match the expected type".to_owned())
                    }
                }
                (wasmi::ExternType::Global(ty), External::Global(id)) => {
                    let given = data.globals.get(id.0).ty(&self.0);
                    if given.mutability() != ty.mutability() {
                        Some("imported global does not match the expected mutability".to_owned())
                    } else if given.content() != ty.content() {
                        Some("imported global does not match the expected type".to_owned())
                    } else {
                        None
                    }
                }
                (ty, _) => Some(format!("the import is not a {}", ExternType::from(ty).kind())),
            };
            if let Some(problem) = problem {
                let (module, name) = (wanted.module(), wanted.name());
                return Err(Failure::Link(format!(
                    "Import #{index} module=\"{module}\" function=\"{name}\": {problem}"
                )));
            }
        }
        if entry.imports.len() == imports.len() {
            Ok(())
        } else {
            Err(Failure::Link(format!("expected {} imports, found {}", entry.imports.len(), imports.len())))
        }
    }

    /// Returns the type of a function.
    pub fn func_type(&self, func: FuncId) -> FuncType {
        (&self.0.data().funcs.get(func.0).ty(&self.0)).into()
    }

    /// Calls a function.
    pub fn call(&mut self, func: FuncId, arguments: &[Value]) -> Result<Vec<Value>, Failure> {
        let depth = self.0.data().entries;
        if depth >= MAX_ENTRY_DEPTH {
            return Err(Failure::Trap(Trap::StackOverflow));
        }
        let counted = if depth < FREE_ENTRIES { 0 } else { STACK_BYTES };
        if !self.0.data().embedder.take_memory(counted) {
            return Err(Failure::Trap(Trap::StackOverflow));
        }
        self.0.data_mut().entries = depth + 1;
        let outcome = self.run(func, arguments);
        let data = self.0.data_mut();
        data.entries = depth;
        data.embedder.give_back_memory(counted);
        outcome
    }

    fn run(&mut self, func: FuncId, arguments: &[Value]) -> Result<Vec<Value>, Failure> {
        let handle = self.0.data().funcs.get(func.0);
        let inputs: Vec<Val> = arguments.iter().map(|value| self.raw_value(*value)).collect();
        let mut outputs: Vec<Val> = handle.ty(&self.0).results().iter().map(|ty| Val::default_for_ty(*ty)).collect();
        let mut state = handle.call_resumable(&mut self.0, &inputs, &mut outputs);
        loop {
            match state.map_err(|error| self.failure(&error))? {
                ResumableCall::Finished => break,
                ResumableCall::HostTrap(trap) => return Err(self.failure(trap.host_error())),
                ResumableCall::OutOfFuel(rest) => {
                    self.refuel(rest.required_fuel())?;
                    state = rest.resume(&mut self.0, &mut outputs);
                }
            }
        }
        Ok(outputs.into_iter().map(|value| self.value_of(value)).collect())
    }

    /// Buys at least `required` units of fuel, in whole polls.
    fn refuel(&mut self, required: u64) -> Result<(), Failure> {
        let left = self.0.get_fuel().unwrap_or_default();
        let polls = required.saturating_sub(left).div_ceil(FUEL_PER_POLL).max(1);
        if !self.0.data().embedder.poll(polls) {
            return Err(Failure::Stopped);
        }
        let fuel = left.saturating_add(polls.saturating_mul(FUEL_PER_POLL));
        self.0.set_fuel(fuel).map_err(|error| Failure::Limit(error.to_string()))
    }

    /// Creates a memory.
    pub fn new_memory(&mut self, initial: u32, maximum: Option<u32>) -> Result<MemoryId, Failure> {
        let memory =
            Memory::new(&mut self.0, MemoryType::new(initial, maximum)).map_err(|error| self.failure(&error))?;
        Ok(self.memory_id(memory))
    }

    /// Returns the address and length of a memory. Both change when it grows, which may happen whenever code runs.
    pub fn memory_data(&self, memory: MemoryId) -> (NonNull<u8>, usize) {
        let memory = self.0.data().memories.get(memory.0);
        let start = NonNull::new(memory.data_ptr(&self.0)).unwrap_or(NonNull::dangling());
        (start, memory.data_size(&self.0))
    }

    /// Grows a memory. Returns its previous number of pages.
    pub fn grow_memory(&mut self, memory: MemoryId, pages: u32) -> Result<u32, Failure> {
        let handle = self.0.data().memories.get(memory.0);
        let current = handle.size(&self.0);
        let most = handle.ty(&self.0).maximum().unwrap_or(u64::from(MAX_MEMORY_PAGES)).min(u64::from(MAX_MEMORY_PAGES));
        if current + u64::from(pages) > most {
            return Err(Failure::Limit("Maximum memory size exceeded".to_owned()));
        }
        let grown = handle.grow(&mut self.0, u64::from(pages));
        grown
            .map(|pages| u32::try_from(pages).unwrap_or(MAX_MEMORY_PAGES))
            .map_err(|_| Failure::Limit("Unable to grow instance memory".to_owned()))
    }

    /// Creates a table.
    pub fn new_table(
        &mut self,
        element: ReferenceType,
        initial: u32,
        maximum: Option<u32>,
        first: Reference,
    ) -> Result<TableId, Failure> {
        let element = match element {
            ReferenceType::Func => RefType::Func,
            ReferenceType::Extern => RefType::Extern,
        };
        let first = self.raw_reference(first);
        let table = Table::new(&mut self.0, TableType::new(element, initial, maximum), first);
        let table = table.map_err(|error| self.failure(&error))?;
        Ok(self.table_id(table))
    }

    /// Returns the type of a table's elements, and their number.
    pub fn table(&self, table: TableId) -> (ReferenceType, u64) {
        let table = self.0.data().tables.get(table.0);
        (module::reference_type(table.ty(&self.0).element()), table.size(&self.0))
    }

    /// Reads an element; `None` if the index is out of bounds.
    pub fn table_get(&mut self, table: TableId, index: u32) -> Option<Reference> {
        let table = self.0.data().tables.get(table.0);
        table.get(&self.0, u64::from(index)).map(|reference| self.reference_of(reference))
    }

    /// Writes an element; `false` if the index is out of bounds.
    pub fn table_set(&mut self, table: TableId, index: u32, value: Reference) -> bool {
        let table = self.0.data().tables.get(table.0);
        let value = self.raw_reference(value);
        table.set(&mut self.0, u64::from(index), value).is_ok()
    }

    /// Grows a table. Returns its previous length, or `None` if its maximum would be exceeded.
    pub fn grow_table(&mut self, table: TableId, elements: u32, value: Reference) -> Option<u64> {
        let table = self.0.data().tables.get(table.0);
        let value = self.raw_reference(value);
        table.grow(&mut self.0, u64::from(elements), value).ok()
    }

    /// Creates a global.
    pub fn new_global(&mut self, value: Value, mutable: bool) -> Result<GlobalId, Failure> {
        self.take(2 * ELEMENT_BYTES, "the global")?;
        let value = self.raw_value(value);
        let global = Global::new(&mut self.0, value, if mutable { Mutability::Var } else { Mutability::Const });
        Ok(self.global_id(global))
    }

    /// Returns the type of a global, and whether it is mutable.
    pub fn global_type(&self, global: GlobalId) -> (ValueType, bool) {
        let ty = self.0.data().globals.get(global.0).ty(&self.0);
        (ty.content().into(), ty.mutability() == Mutability::Var)
    }

    /// Reads a global.
    pub fn global_get(&mut self, global: GlobalId) -> Value {
        let value = self.0.data().globals.get(global.0).get(&self.0);
        self.value_of(value)
    }

    /// Writes a global; `false` if it is immutable.
    pub fn global_set(&mut self, global: GlobalId, value: Value) -> bool {
        let value = self.raw_value(value);
        self.0.data().globals.get(global.0).set(&mut self.0, value).is_ok()
    }

    fn pay(&self, polls: usize) -> Result<(), Failure> {
        if self.0.data().embedder.poll(polls as u64 + 1) { Ok(()) } else { Err(Failure::Stopped) }
    }

    fn take(&self, bytes: usize, what: &str) -> Result<(), Failure> {
        if self.0.data().embedder.take_memory(bytes) {
            return Ok(());
        }
        Err(Failure::Limit(format!("Out of memory: {what} does not fit under the memory limit of the realm")))
    }

    fn func_id(&mut self, func: Func) -> FuncId {
        FuncId(self.0.data_mut().funcs.id(func))
    }

    fn memory_id(&mut self, memory: Memory) -> MemoryId {
        MemoryId(self.0.data_mut().memories.id(memory))
    }

    fn table_id(&mut self, table: Table) -> TableId {
        TableId(self.0.data_mut().tables.id(table))
    }

    fn global_id(&mut self, global: Global) -> GlobalId {
        GlobalId(self.0.data_mut().globals.id(global))
    }

    fn external(&mut self, external: Extern) -> External {
        match external {
            Extern::Func(func) => External::Func(self.func_id(func)),
            Extern::Memory(memory) => External::Memory(self.memory_id(memory)),
            Extern::Table(table) => External::Table(self.table_id(table)),
            Extern::Global(global) => External::Global(self.global_id(global)),
        }
    }

    fn to_extern(&self, external: External) -> Extern {
        let data = self.0.data();
        match external {
            External::Func(id) => Extern::Func(data.funcs.get(id.0)),
            External::Memory(id) => Extern::Memory(data.memories.get(id.0)),
            External::Table(id) => Extern::Table(data.tables.get(id.0)),
            External::Global(id) => Extern::Global(data.globals.get(id.0)),
        }
    }

    fn raw_value(&mut self, value: Value) -> Val {
        match value {
            Value::I32(value) => Val::I32(value),
            Value::I64(value) => Val::I64(value),
            Value::F32(value) => Val::F32(F32::from_bits(value.to_bits())),
            Value::F64(value) => Val::F64(F64::from_bits(value.to_bits())),
            Value::V128(value) => Val::V128(V128::from(value)),
            Value::Ref(reference) => match self.raw_reference(reference) {
                Ref::Func(func) => Val::FuncRef(func),
                Ref::Extern(object) => Val::ExternRef(object),
            },
        }
    }

    fn value_of(&mut self, value: Val) -> Value {
        match value {
            Val::I32(value) => Value::I32(value),
            Val::I64(value) => Value::I64(value),
            Val::F32(value) => Value::F32(f32::from_bits(value.to_bits())),
            Val::F64(value) => Value::F64(f64::from_bits(value.to_bits())),
            Val::V128(value) => Value::V128(value.as_u128()),
            Val::FuncRef(func) => Value::Ref(self.reference_of(Ref::Func(func))),
            Val::ExternRef(object) => Value::Ref(self.reference_of(Ref::Extern(object))),
        }
    }

    fn raw_reference(&mut self, reference: Reference) -> Ref {
        match reference {
            Reference::Func(None) => Ref::Func(Nullable::Null),
            Reference::Func(Some(id)) => Ref::Func(Nullable::Val(self.0.data().funcs.get(id.0))),
            Reference::Extern(None) => Ref::Extern(Nullable::Null),
            Reference::Extern(Some(id)) => {
                let known = self.0.data().externs.get(&id).copied();
                let object = known.unwrap_or_else(|| {
                    let object = ExternRef::new(&mut self.0, id);
                    self.0.data_mut().externs.insert(id, object);
                    object
                });
                Ref::Extern(Nullable::Val(object))
            }
        }
    }

    fn reference_of(&mut self, reference: Ref) -> Reference {
        match reference {
            Ref::Func(Nullable::Null) => Reference::Func(None),
            Ref::Func(Nullable::Val(func)) => Reference::Func(Some(self.func_id(func))),
            Ref::Extern(Nullable::Null) => Reference::Extern(None),
            Ref::Extern(Nullable::Val(object)) => {
                Reference::Extern(object.data(&self.0).downcast_ref::<ExternId>().copied())
            }
        }
    }

    fn failure(&self, error: &wasmi::Error) -> Failure {
        if error.downcast_ref::<Stopped>().is_some() {
            return Failure::Stopped;
        }
        if let Some(code) = error.as_trap_code() {
            return Failure::Trap(trap(code));
        }
        let memory = || Failure::Limit("could not allocate memory".to_owned());
        let table = || Failure::Limit("could not allocate table".to_owned());
        match error.kind() {
            ErrorKind::Memory(MemoryError::OutOfBoundsAccess) => Failure::Trap(Trap::MemoryOutOfBounds),
            ErrorKind::Memory(_) => memory(),
            ErrorKind::Table(TableError::InitOutOfBounds | TableError::SetOutOfBounds) => {
                Failure::Trap(Trap::TableOutOfBounds)
            }
            ErrorKind::Table(_) => table(),
            ErrorKind::Instantiation(InstantiationError::ElementSegmentDoesNotFit { .. }) => {
                Failure::Trap(Trap::TableOutOfBounds)
            }
            ErrorKind::Instantiation(InstantiationError::FailedToInstantiateMemory(_)) => memory(),
            ErrorKind::Instantiation(InstantiationError::FailedToInstantiateTable(_)) => table(),
            ErrorKind::Instantiation(InstantiationError::TooManyInstances) => {
                Failure::Limit(format!("a realm has at most {MAX_OBJECTS_OF_KIND} instances"))
            }
            _ => Failure::Link(error.to_string()),
        }
    }
}

/// Describes why a memory or table does not match its declaration: `(current, maximum)` and `(minimum, maximum)`.
fn bounds_problem(what: &str, unit: &str, given: (u64, Option<u64>), wanted: (u64, Option<u64>)) -> Option<String> {
    if given.0 < wanted.0 {
        return Some(match what {
            "table" => {
                format!("table import has {} {unit}, which is less than the required minimum {}", given.0, wanted.0)
            }
            _ => format!(
                "memory import has {} pages which is smaller than the declared initial of {}",
                given.0, wanted.0
            ),
        });
    }
    match (given.1, wanted.1) {
        (_, None) => None,
        (None, Some(most)) => Some(match what {
            "table" => "table import has no maximum length; required: ".to_owned() + &most.to_string(),
            _ => format!("memory import has no maximum limit, expected at most {most}"),
        }),
        (Some(given), Some(most)) => (given > most).then(|| match what {
            "table" => format!("table import has maximum larger than maximum {most}, got {given}"),
            _ => format!("memory import has a larger maximum size {given} than the module's declared maximum {most}"),
        }),
    }
}

fn call_import(
    caller: &mut Caller<'_, Data>,
    import: ImportId,
    inputs: &[Val],
    outputs: &mut [Val],
) -> Result<(), wasmi::Error> {
    let mut context = Context(caller.as_context_mut());
    let arguments: Vec<Value> = inputs.iter().map(|value| context.value_of(value.clone())).collect();
    let embedder = Rc::clone(&context.0.data().embedder);
    let results = embedder.call_import(Context(context.0.as_context_mut()), import, &arguments);
    let results = results.map_err(wasmi::Error::host)?;
    for (output, result) in outputs.iter_mut().zip(results) {
        *output = context.raw_value(result);
    }
    Ok(())
}

fn trap(code: TrapCode) -> Trap {
    match code {
        TrapCode::UnreachableCodeReached => Trap::Unreachable,
        TrapCode::MemoryOutOfBounds => Trap::MemoryOutOfBounds,
        TrapCode::TableOutOfBounds => Trap::TableOutOfBounds,
        TrapCode::IndirectCallToNull | TrapCode::BadSignature => Trap::WrongFunction,
        TrapCode::IntegerDivisionByZero => Trap::DivideByZero,
        // Also covers division of the smallest integer by minus one, which the interpreter reports in the same way.
        TrapCode::IntegerOverflow | TrapCode::BadConversionToInteger => Trap::Unrepresentable,
        TrapCode::StackOverflow => Trap::StackOverflow,
        TrapCode::OutOfFuel | TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory => Trap::OutOfMemory,
    }
}

/// Proposals that the interpreter does not support, identified by a word of the validator's message.
const ABSENT: &[(&str, &str)] = &[
    ("exceptions", "exceptions"),
    ("gc ", "garbage-collected types"),
    ("memory64", "64-bit memories"),
    ("threads", "shared memories"),
];

/// Returns the validator's message with the position in Node's form, `message @+12`. If the module uses a proposal that
/// Node supports but the interpreter does not, the message says which one to build without.
fn compile_message(error: &wasmi::Error) -> String {
    let text = error.to_string();
    let (message, offset) = match text.rsplit_once(" (at offset 0x") {
        Some((message, place)) => (message, u64::from_str_radix(place.trim_end_matches(')'), 16).ok()),
        None => (text.as_str(), None),
    };
    let place = offset.map(|offset| format!(" @+{offset}")).unwrap_or_default();
    match ABSENT.iter().find(|(word, _)| message.contains(word)) {
        Some((_, absent)) => {
            format!("{message}: {absent} are not supported in a realm; build the module without them{place}")
        }
        None if offset.is_none() => text,
        None => format!("{message}{place}"),
    }
}
