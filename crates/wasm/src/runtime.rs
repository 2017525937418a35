//! Configures the wasmtime engine for the compiler and for realms: deterministic and without signals.
//!
//! | setting | reason |
//! |---|---|
//! | fuel | a turn ends at the same instruction in every run |
//! | epochs | a watchdog on another thread can end a turn |
//! | canonical NaN, deterministic relaxed SIMD | the same bits on every processor |
//! | no threads, no shared memory | the host alone decides the order |
//! | explicit bounds checks, no signal handlers, no guard pages, no copy-on-write images | a sealed worker can neither install handlers nor create files, and its address space is limited |

use std::sync::OnceLock;
use wasmtime::{Config, Engine, OptLevel};

/// Size of a component's stack, in bytes.
const STACK_BYTES: usize = 512 << 10;

/// Address space in bytes that a memory reserves so that it can grow without moving.
const GROWTH_BYTES: u64 = 1 << 20;

/// Returns the engine of this process, which is cheap to clone.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&config()).expect("every supported target supports the configuration"))
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES)
        .relaxed_simd_deterministic(true)
        .signals_based_traps(false)
        .memory_init_cow(false)
        .memory_reservation(0)
        .memory_guard_size(0)
        .memory_reservation_for_growth(GROWTH_BYTES)
        .guard_before_linear_memory(false)
        .wasm_backtrace_max_frames(None)
        .native_unwind_info(false);
    #[cfg(feature = "compile")]
    config.cranelift_nan_canonicalization(true).cranelift_opt_level(OptLevel::Speed);
    #[cfg(not(feature = "compile"))]
    let _ = OptLevel::Speed;
    config
}
