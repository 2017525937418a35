//! Tests the store with modules in text format.

use pijs_webassembly::{
    Context, Embedder, External, Failure, ImportId, Instance, MemoryId, Reference, ReferenceType, Stopped, Store, Trap,
    Value,
};
use std::cell::Cell;
use std::rc::Rc;

/// A realm with a budget and two imported functions: `import 0` calls export 0 of the first instance, `import 1` fails.
struct Realm {
    polls: Cell<u64>,
    memory: Cell<usize>,
    back: Cell<Option<pijs_webassembly::FuncId>>,
}

impl Embedder for Realm {
    fn call_import(
        &self,
        mut context: Context<'_>,
        import: ImportId,
        arguments: &[Value],
    ) -> Result<Vec<Value>, Stopped> {
        match (import.0, self.back.get()) {
            (2, _) => context.grow_memory(MemoryId(0), 1).map(|_| Vec::new()).map_err(|_| Stopped),
            (0, Some(back)) => context.call(back, arguments).map_err(|_| Stopped),
            _ => Err(Stopped),
        }
    }

    fn poll(&self, polls: u64) -> bool {
        let left = self.polls.get().checked_sub(polls);
        self.polls.set(left.unwrap_or_default());
        left.is_some()
    }

    fn take_memory(&self, bytes: usize) -> bool {
        let left = self.memory.get().checked_sub(bytes);
        self.memory.set(left.unwrap_or(self.memory.get()));
        left.is_some()
    }

    fn give_back_memory(&self, bytes: usize) {
        self.memory.set(self.memory.get() + bytes);
    }
}

fn realm() -> (Rc<Realm>, Store) {
    let realm = Rc::new(Realm { polls: Cell::new(1_000), memory: Cell::new(64 << 20), back: Cell::new(None) });
    let store = Store::new(Rc::clone(&realm) as Rc<dyn Embedder>);
    (realm, store)
}

fn instance(store: &mut Store, text: &str, imports: &[External]) -> Result<Instance, Failure> {
    let bytes = wat::parse_str(text).expect("the text is a module");
    let mut context = store.context();
    let module = context.compile(&bytes)?;
    context.instantiate(module, imports)
}

fn call(store: &mut Store, instance: &Instance, export: usize, arguments: &[Value]) -> Result<Vec<Value>, Failure> {
    let External::Func(func) = instance.exports[export] else { panic!("export {export} is no function") };
    store.context().call(func, arguments)
}

#[test]
fn several_results_and_all_numbers() {
    let (_, mut store) = realm();
    let text = "(module (func (export \"f\") (param i32 i64 f32 f64) (result f64 f32 i64 i32) local.get 3 local.get 2 local.get 1 local.get 0))";
    let module = instance(&mut store, text, &[]).unwrap();
    let arguments = [Value::I32(-1), Value::I64(i64::MIN), Value::F32(0.5), Value::F64(-0.0)];
    let mut reversed = arguments;
    reversed.reverse();
    assert_eq!(call(&mut store, &module, 0, &arguments).unwrap(), reversed);
}

#[test]
fn exports_keep_their_order_and_the_start_function_is_not_among_them() {
    let (_, mut store) = realm();
    let text = "(module (global $g (mut i32) (i32.const 1)) (func $s (global.set $g (i32.const 7))) (start $s)
        (export \"z\" (global $g)) (export \"a\" (func $s)))";
    let bytes = wat::parse_str(text).unwrap();
    let mut context = store.context();
    let module = context.compile(&bytes).unwrap();
    let names: Vec<_> = context.exports(module).iter().map(|export| export.name.clone()).collect();
    assert_eq!(names, ["z", "a"]);
    let made = context.instantiate(module, &[]).unwrap();
    let External::Global(global) = made.exports[0] else { panic!("no global") };
    assert_eq!(context.global_get(global), Value::I32(1));
    assert_eq!(Some(made.exports[1]), made.start.map(External::Func));
    context.call(made.start.unwrap(), &[]).unwrap();
    assert_eq!(context.global_get(global), Value::I32(7));
}

#[test]
fn a_start_function_without_exports() {
    let (_, mut store) = realm();
    let made = instance(&mut store, "(module (func $s unreachable) (start $s))", &[]).unwrap();
    assert_eq!(store.context().call(made.start.unwrap(), &[]), Err(Failure::Trap(Trap::Unreachable)));
}

#[test]
fn an_endless_loop_ends_with_the_budget_after_the_same_fuel_each_time() {
    let polls = [0, 1].map(|_| {
        let (realm, mut store) = realm();
        let module = instance(&mut store, "(module (func (export \"f\") (loop $l (br $l))))", &[]).unwrap();
        assert_eq!(call(&mut store, &module, 0, &[]), Err(Failure::Stopped));
        let text = "(module (func (export \"f\") (local i32) (loop $l (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 1000000))))))";
        realm.polls.set(10_000);
        let module = instance(&mut store, text, &[]).unwrap();
        call(&mut store, &module, 0, &[]).unwrap();
        realm.polls.get()
    });
    assert_eq!(polls[0], polls[1]);
    assert!(polls[0] < 9_900, "{polls:?}");
}

#[test]
fn deep_recursion_is_a_stack_overflow() {
    let (_, mut store) = realm();
    let module = instance(&mut store, "(module (func $f (export \"f\") (call $f)))", &[]).unwrap();
    assert_eq!(call(&mut store, &module, 0, &[]), Err(Failure::Trap(Trap::StackOverflow)));
}

#[test]
fn calls_through_imports_nest_up_to_a_limit() {
    let (realm, mut store) = realm();
    let ty = pijs_webassembly::FuncType::default();
    let import = store.context().import_function(&ty, ImportId(0));
    let text = "(module (import \"m\" \"f\" (func $f)) (func (export \"f\") (call $f)))";
    let module = instance(&mut store, text, &[External::Func(import)]).unwrap();
    let External::Func(back) = module.exports[0] else { panic!("no function") };
    realm.back.set(Some(back));
    let before = realm.memory.get();
    assert_eq!(store.context().call(back, &[]), Err(Failure::Stopped));
    assert_eq!(realm.memory.get(), before, "stacks are given back");
    realm.back.set(None);
    assert_eq!(store.context().call(back, &[]), Err(Failure::Stopped));
}

#[test]
fn memory_is_counted_and_limited() {
    let (realm, mut store) = realm();
    let module = instance(
        &mut store,
        "(module (memory (export \"m\") 1) (func (export \"g\") (param i32) (result i32) (memory.grow (local.get 0))))",
        &[],
    )
    .unwrap();
    let before = realm.memory.get();
    assert_eq!(call(&mut store, &module, 1, &[Value::I32(1)]).unwrap(), [Value::I32(1)]);
    assert_eq!(before - realm.memory.get(), 65_536);
    assert_eq!(call(&mut store, &module, 1, &[Value::I32(60_000)]).unwrap(), [Value::I32(-1)]);
    assert!(matches!(store.context().new_memory(60_000, None), Err(Failure::Limit(_))));
    assert!(matches!(instance(&mut store, "(module (memory 60000))", &[]), Err(Failure::Limit(_))));
    assert!(matches!(instance(&mut store, "(module (table 9000000 funcref))", &[]), Err(Failure::Limit(_))));
}

#[test]
fn an_imported_function_may_grow_the_memory_of_its_caller() {
    let (_, mut store) = realm();
    let memory = store.context().new_memory(1, None).unwrap();
    let grow = store.context().import_function(&pijs_webassembly::FuncType::default(), ImportId(2));
    let text =
        "(module (import \"m\" \"f\" (func $grow)) (import \"m\" \"m\" (memory 1)) (func (export \"f\") (result i32)
        (i32.store (i32.const 0) (i32.const 5)) (call $grow) (i32.store (i32.const 70000) (i32.const 37))
        (i32.add (i32.load (i32.const 70000)) (i32.load (i32.const 0)))))";
    let module = instance(&mut store, text, &[External::Func(grow), External::Memory(memory)]).unwrap();
    assert_eq!(call(&mut store, &module, 0, &[]).unwrap(), [Value::I32(42)]);
    assert_eq!(store.context().memory_data(memory).1, 131_072);
}

#[test]
fn the_same_function_has_the_same_number() {
    let (_, mut store) = realm();
    let module = instance(
        &mut store,
        "(module (table (export \"t\") 2 funcref) (func $f (export \"f\")) (elem (i32.const 1) $f))",
        &[],
    )
    .unwrap();
    let (External::Table(table), External::Func(func)) = (module.exports[0], module.exports[1]) else { panic!() };
    let mut context = store.context();
    assert_eq!(context.table(table), (ReferenceType::Func, 2));
    assert_eq!(context.table_get(table, 1), Some(Reference::Func(Some(func))));
    assert_eq!(context.table_get(table, 0), Some(Reference::Func(None)));
    assert_eq!(context.table_get(table, 2), None);
}

#[test]
fn imports_that_do_not_fit_are_named() {
    let (_, mut store) = realm();
    let memory = store.context().new_memory(1, None).unwrap();
    let made = instance(&mut store, "(module (import \"env\" \"memory\" (memory 2)))", &[External::Memory(memory)]);
    let text = "Import #0 module=\"env\" function=\"memory\": memory import has 1 pages which is smaller than the declared initial of 2";
    assert_eq!(made, Err(Failure::Link(text.to_owned())));
}

#[test]
fn imports_are_in_the_order_of_the_module() {
    let (_, mut store) = realm();
    let memory = store.context().new_memory(1, Some(2)).unwrap();
    let global = store.context().new_global(Value::I64(3), true).unwrap();
    let function = store.context().import_function(&pijs_webassembly::FuncType::default(), ImportId(1));
    let text = "(module (import \"a\" \"g\" (global (mut i64))) (import \"b\" \"m\" (memory 1 2)) (import \"c\" \"f\" (func)) (import \"a\" \"g\" (global $g (mut i64)))
        (export \"g\" (global $g)))";
    let bytes = wat::parse_str(text).unwrap();
    let mut context = store.context();
    let module = context.compile(&bytes).unwrap();
    let names: Vec<_> =
        context.imports(module).iter().map(|import| (import.module.clone(), import.ty.kind())).collect();
    let expected = [("a", "global"), ("b", "memory"), ("c", "function"), ("a", "global")];
    assert_eq!(names, expected.map(|(module, kind)| (module.to_owned(), kind)));
    let (global, memory, function) = (External::Global(global), External::Memory(memory), External::Func(function));
    let made = context.instantiate(module, &[global, memory, function, global]).unwrap();
    assert_eq!(made.exports, [global]);
}

#[test]
fn invalid_bytes_are_a_compile_error() {
    let (_, mut store) = realm();
    let bytes = wat::parse_str("(module (func (export \"f\") (result i32) i32.const 1))").unwrap();
    for end in 0..bytes.len() {
        let refused = store.context().compile(&bytes[..end]);
        // A module may end after each section, but not without the code of its functions.
        assert!(end == 8 || end == 15 || matches!(refused, Err(Failure::Compile(_))), "{end}: {refused:?}");
    }
    for bad in ["(module (func (result i32)))", "(module (func) (func (call 9)))"] {
        let bytes = wat::parse_str(bad).unwrap();
        assert!(matches!(store.context().compile(&bytes), Err(Failure::Compile(_))), "{bad}");
        assert_eq!(store.context().validate(&bytes), Ok(false));
    }
}

#[test]
fn a_module_of_an_unsupported_proposal_is_rejected_with_a_reason() {
    let (_, mut store) = realm();
    let cases = [
        ("(module (tag))", "exceptions"),
        ("(module (func try_table end))", "exceptions"),
        ("(module (type (struct)))", "garbage-collected types"),
        ("(module (memory i64 1))", "64-bit memories"),
        ("(module (memory 1 1 shared))", "shared memories"),
    ];
    for (text, absent) in cases {
        let Err(Failure::Compile(message)) = instance(&mut store, text, &[]) else { panic!("{text} compiles") };
        let said = format!(": {absent} are not supported in a realm; build the module without them");
        assert!(message.contains(&said), "{text}: {message}");
    }
}
