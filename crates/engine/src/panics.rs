//! Catches panics of native code with their position, without printing them.
//!
//! A panic under [`catch`] ends a realm as a host bug, whose report contains everything that the default hook would print.
//! Printing it as well would be redundant, and in a sealed process the write to stderr is a forbidden system call. Panics
//! elsewhere go to the previous hook.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Nesting depth of [`catch`] on this thread.
    static CATCHING: Cell<u32> = const { Cell::new(0) };
    /// File and line of the latest panic under a [`catch`].
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `body`. On a panic, returns its message with file and line.
pub(crate) fn catch<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| record(info, &previous)));
    });
    CATCHING.set(CATCHING.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    CATCHING.set(CATCHING.get() - 1);
    outcome.map_err(|payload| {
        let location = LOCATION.take().unwrap_or_else(|| "an unknown location".to_owned());
        format!("panic in native code at {location}: {}", message(payload.as_ref()))
    })
}

fn record(info: &PanicHookInfo<'_>, previous: &dyn Fn(&PanicHookInfo<'_>)) {
    if CATCHING.get() == 0 {
        return previous(info);
    }
    LOCATION.set(info.location().map(|at| format!("{}:{}", at.file(), at.line())));
}

fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_panic_names_its_file_and_line() {
        let line = line!() + 1;
        let caught = catch(|| panic!("on {}", "purpose"));
        assert_eq!(caught, Err::<(), _>(format!("panic in native code at {}:{line}: on purpose", file!())));
    }

    #[test]
    fn an_inner_catch_leaves_the_outer_one_in_force() {
        let outer = catch(|| {
            assert!(catch(|| panic!("inner")).is_err());
            panic!("outer")
        });
        let detail = outer.map(|(): ()| ()).expect_err("it panics");
        assert!(detail.ends_with(": outer") && detail.contains(file!()), "{detail}");
    }
}
