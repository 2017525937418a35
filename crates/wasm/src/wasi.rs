//! Implements the part of WASI 0.2 that a guest's standard library needs, in terms of the realm.
//!
//! | interface | behaviour |
//! |---|---|
//! | `clocks`, `random` | the driver's time and seeded randomness |
//! | `cli` standard output and error | lines of the extension's log; standard input is empty |
//! | `cli/environment` | the plain variables that every extension sees; others through `pi:extension/env` |
//! | `cli/exit` | ends the component, as an error |
//! | `io/poll` | waits with a hostcall of `timer` |
//! | `filesystem` | no folder is preopened; files are accessed through `pi:extension/fs` |
//! | `sockets` | opening a socket fails with `access-denied` |
//!
//! Every other import of `wasi:` fails when it is called, with an error that names it. Definitions have the version that the
//! component imports.

use crate::state::State;
use pijs_protocol::guard;
use serde_json::{Value, json};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType};
use wasmtime::{Engine, Result, StoreContextMut, bail};

/// Error of a stream. It is never created, but the type has to exist.
struct StreamFailure;
/// A pollable: a time of the monotonic clock in nanoseconds; `None` if it is always ready.
struct Pollable(Option<u64>);
/// Standard input, which is empty.
struct Input;
/// Standard output or error.
struct Output {
    is_error: bool,
}
/// Resources that a component can name but never obtains.
struct Unobtainable;

type Context<'a> = StoreContextMut<'a, State>;

#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<StreamFailure>),
    #[component(name = "closed")]
    Closed,
}

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "a component knows all cases")]
enum AddressFamily {
    #[component(name = "ipv4")]
    Ipv4,
    #[component(name = "ipv6")]
    Ipv6,
}

#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "a component knows all cases")]
enum SocketError {
    #[component(name = "unknown")]
    Unknown,
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "not-supported")]
    NotSupported,
    #[component(name = "invalid-argument")]
    InvalidArgument,
    #[component(name = "out-of-memory")]
    OutOfMemory,
    #[component(name = "timeout")]
    Timeout,
    #[component(name = "concurrency-conflict")]
    ConcurrencyConflict,
    #[component(name = "not-in-progress")]
    NotInProgress,
    #[component(name = "would-block")]
    WouldBlock,
    #[component(name = "invalid-state")]
    InvalidState,
    #[component(name = "new-socket-limit")]
    NewSocketLimit,
    #[component(name = "address-not-bindable")]
    AddressNotBindable,
    #[component(name = "address-in-use")]
    AddressInUse,
    #[component(name = "remote-unreachable")]
    RemoteUnreachable,
    #[component(name = "connection-refused")]
    ConnectionRefused,
    #[component(name = "connection-reset")]
    ConnectionReset,
    #[component(name = "connection-aborted")]
    ConnectionAborted,
    #[component(name = "datagram-too-large")]
    DatagramTooLarge,
    #[component(name = "name-unresolvable")]
    NameUnresolvable,
    #[component(name = "temporary-resolver-failure")]
    TemporaryResolverFailure,
    #[component(name = "permanent-resolver-failure")]
    PermanentResolverFailure,
}

/// Maximum number of bytes of one read of randomness.
const MAX_RANDOM_BYTES: u64 = 1 << 20;
/// Number of bytes that a stream accepts at once.
const WRITE_BYTES: u64 = 64 << 10;

/// Defines the `wasi:` imports of `component`.
pub(crate) fn add_to_linker(linker: &mut Linker<State>, component: &Component, engine: &Engine) -> Result<()> {
    for (name, item) in component.component_type().imports(engine) {
        let (Some(rest), ComponentItem::ComponentInstance(instance)) = (name.strip_prefix("wasi:"), item.ty) else {
            continue;
        };
        let mut at = linker.instance(name)?;
        // An interface also names the resources of other interfaces that it uses.
        for (name, item) in instance.exports(engine) {
            if matches!(item.ty, ComponentItem::Resource(_)) {
                resource(&mut at, name)?;
            }
        }
        define(&mut at, rest.split_once('@').map_or(rest, |(interface, _)| interface))?;
    }
    Ok(())
}

/// Defines a resource. Names of the resources that have values here are unique in WASI 0.2.
fn resource(at: &mut LinkerInstance<'_, State>, name: &str) -> Result<()> {
    fn of<T: Send + 'static>(at: &mut LinkerInstance<'_, State>, name: &str) -> Result<()> {
        at.resource(name, ResourceType::host::<T>(), |mut at, index| {
            at.data_mut().wasi.table.delete(Resource::<T>::new_own(index)).map(drop).map_err(Into::into)
        })
    }
    match name {
        "error" => of::<StreamFailure>(at, name),
        "input-stream" => of::<Input>(at, name),
        "output-stream" => of::<Output>(at, name),
        "pollable" => of::<Pollable>(at, name),
        _ => of::<Unobtainable>(at, name),
    }
}

fn define(at: &mut LinkerInstance<'_, State>, interface: &str) -> Result<()> {
    match interface {
        "cli/environment" => environment(at),
        "cli/exit" => exit(at),
        "cli/stdin" => {
            at.func_wrap("get-stdin", |mut at: Context<'_>, (): ()| Ok((at.data_mut().wasi.table.push(Input)?,)))
        }
        "cli/stdout" => at.func_wrap("get-stdout", |at: Context<'_>, (): ()| output(at, false)),
        "cli/stderr" => at.func_wrap("get-stderr", |at: Context<'_>, (): ()| output(at, true)),
        "cli/terminal-stdin" => no_terminal(at, "get-terminal-stdin"),
        "cli/terminal-stdout" => no_terminal(at, "get-terminal-stdout"),
        "cli/terminal-stderr" => no_terminal(at, "get-terminal-stderr"),
        "clocks/monotonic-clock" => monotonic_clock(at),
        "clocks/wall-clock" => wall_clock(at),
        "random/random" => random(at, "get-random-bytes", "get-random-u64"),
        "random/insecure" => random(at, "get-insecure-random-bytes", "get-insecure-random-u64"),
        "random/insecure-seed" => {
            at.func_wrap("insecure-seed", |mut at: Context<'_>, (): ()| Ok(((number(&mut at), number(&mut at)),)))
        }
        "io/error" => io_error(at),
        "io/poll" => poll(at),
        "io/streams" => streams(at),
        "filesystem/preopens" => at.func_wrap("get-directories", |_: Context<'_>, (): ()| {
            Ok((Vec::<(Resource<Unobtainable>, String)>::new(),))
        }),
        "filesystem/types" => at
            .func_wrap("filesystem-error-code", |_: Context<'_>, (_,): (Resource<StreamFailure>,)| {
                Ok((Option::<FileError>::None,))
            }),
        "sockets/instance-network" => at.func_wrap("instance-network", |mut at: Context<'_>, (): ()| {
            Ok((at.data_mut().wasi.table.push(Unobtainable)?,))
        }),
        "sockets/tcp-create-socket" => no_socket(at, "create-tcp-socket"),
        "sockets/udp-create-socket" => no_socket(at, "create-udp-socket"),
        "sockets/ip-name-lookup" => {
            at.func_wrap("resolve-addresses", |_: Context<'_>, (_, _): (Resource<Unobtainable>, String)| {
                Ok((Err::<Resource<Unobtainable>, _>(SocketError::AccessDenied),))
            })
        }
        // Other imports fail when they are called.
        _ => Ok(()),
    }
}

#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "a component knows all cases")]
enum FileError {
    #[component(name = "access")]
    Access,
    #[component(name = "would-block")]
    WouldBlock,
    #[component(name = "already")]
    Already,
    #[component(name = "bad-descriptor")]
    BadDescriptor,
    #[component(name = "busy")]
    Busy,
    #[component(name = "deadlock")]
    Deadlock,
    #[component(name = "quota")]
    Quota,
    #[component(name = "exist")]
    Exist,
    #[component(name = "file-too-large")]
    FileTooLarge,
    #[component(name = "illegal-byte-sequence")]
    IllegalByteSequence,
    #[component(name = "in-progress")]
    InProgress,
    #[component(name = "interrupted")]
    Interrupted,
    #[component(name = "invalid")]
    Invalid,
    #[component(name = "io")]
    Io,
    #[component(name = "is-directory")]
    IsDirectory,
    #[component(name = "loop")]
    Loop,
    #[component(name = "too-many-links")]
    TooManyLinks,
    #[component(name = "message-size")]
    MessageSize,
    #[component(name = "name-too-long")]
    NameTooLong,
    #[component(name = "no-device")]
    NoDevice,
    #[component(name = "no-entry")]
    NoEntry,
    #[component(name = "no-lock")]
    NoLock,
    #[component(name = "insufficient-memory")]
    InsufficientMemory,
    #[component(name = "insufficient-space")]
    InsufficientSpace,
    #[component(name = "not-directory")]
    NotDirectory,
    #[component(name = "not-empty")]
    NotEmpty,
    #[component(name = "not-recoverable")]
    NotRecoverable,
    #[component(name = "unsupported")]
    Unsupported,
    #[component(name = "no-tty")]
    NoTty,
    #[component(name = "no-such-device")]
    NoSuchDevice,
    #[component(name = "overflow")]
    Overflow,
    #[component(name = "not-permitted")]
    NotPermitted,
    #[component(name = "pipe")]
    Pipe,
    #[component(name = "read-only")]
    ReadOnly,
    #[component(name = "invalid-seek")]
    InvalidSeek,
    #[component(name = "text-file-busy")]
    TextFileBusy,
    #[component(name = "cross-device")]
    CrossDevice,
}

fn environment(at: &mut LinkerInstance<'_, State>) -> Result<()> {
    at.func_wrap("get-environment", |at: Context<'_>, (): ()| {
        let plain = at.data().facts.get("env").and_then(Value::as_object);
        let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let pairs: Vec<(String, String)> = plain.into_iter().flatten().filter_map(pair).collect();
        Ok((pairs,))
    })?;
    at.func_wrap("get-arguments", |_: Context<'_>, (): ()| Ok((Vec::<String>::new(),)))?;
    at.func_wrap("initial-cwd", |at: Context<'_>, (): ()| {
        Ok((at.data().facts.get("cwd").and_then(Value::as_str).map(str::to_owned),))
    })
}

fn exit(at: &mut LinkerInstance<'_, State>) -> Result<()> {
    at.func_wrap("exit", |_: Context<'_>, (status,): (Result<(), ()>,)| -> Result<()> {
        let code = if status.is_ok() { 0 } else { 1 };
        bail!("the component exited with code {code}")
    })?;
    at.func_wrap("exit-with-code", |_: Context<'_>, (code,): (u8,)| -> Result<()> {
        bail!("the component exited with code {code}")
    })
}

fn output(mut at: Context<'_>, is_error: bool) -> Result<(Resource<Output>,)> {
    Ok((at.data_mut().wasi.table.push(Output { is_error })?,))
}

fn no_terminal(at: &mut LinkerInstance<'_, State>, name: &str) -> Result<()> {
    at.func_wrap(name, |_: Context<'_>, (): ()| Ok((Option::<Resource<Unobtainable>>::None,)))
}

fn no_socket(at: &mut LinkerInstance<'_, State>, name: &str) -> Result<()> {
    at.func_wrap(name, |_: Context<'_>, (_,): (AddressFamily,)| {
        Ok((Err::<Resource<Unobtainable>, _>(SocketError::AccessDenied),))
    })
}

fn monotonic_ns(at: &mut Context<'_>) -> u64 {
    at.data_mut().wasi.clock.read().elapsed_us * 1000
}

fn monotonic_clock(at: &mut LinkerInstance<'_, State>) -> Result<()> {
    at.func_wrap("now", |mut at: Context<'_>, (): ()| Ok((monotonic_ns(&mut at),)))?;
    at.func_wrap("resolution", |_: Context<'_>, (): ()| Ok((1000_u64,)))?;
    at.func_wrap("subscribe-instant", |mut at: Context<'_>, (when,): (u64,)| {
        Ok((at.data_mut().wasi.table.push(Pollable(Some(when)))?,))
    })?;
    at.func_wrap("subscribe-duration", |mut at: Context<'_>, (duration,): (u64,)| {
        let when = monotonic_ns(&mut at).saturating_add(duration);
        Ok((at.data_mut().wasi.table.push(Pollable(Some(when)))?,))
    })
}

fn wall_clock(at: &mut LinkerInstance<'_, State>) -> Result<()> {
    at.func_wrap("now", |mut at: Context<'_>, (): ()| {
        let epoch_ms = at.data_mut().wasi.clock.read().epoch_ms;
        let nanoseconds = u32::try_from(epoch_ms % 1000).unwrap_or_default() * 1_000_000;
        Ok((Datetime { seconds: epoch_ms / 1000, nanoseconds },))
    })?;
    at.func_wrap("resolution", |_: Context<'_>, (): ()| Ok((Datetime { seconds: 0, nanoseconds: 1_000_000 },)))
}

fn number(at: &mut Context<'_>) -> u64 {
    let mut bytes = [0; 8];
    at.data_mut().random(&mut bytes);
    u64::from_le_bytes(bytes)
}

fn random(at: &mut LinkerInstance<'_, State>, bytes: &str, one: &str) -> Result<()> {
    at.func_wrap(bytes, |mut at: Context<'_>, (count,): (u64,)| {
        if count > MAX_RANDOM_BYTES {
            bail!("wasi:random: {count} bytes requested at once (the limit is {MAX_RANDOM_BYTES})");
        }
        let mut out = vec![0; usize::try_from(count)?];
        at.data_mut().random(&mut out);
        Ok((out,))
    })?;
    at.func_wrap(one, |mut at: Context<'_>, (): ()| Ok((number(&mut at),)))
}

fn io_error(at: &mut LinkerInstance<'_, State>) -> Result<()> {
    at.func_wrap("[method]error.to-debug-string", |_: Context<'_>, (_,): (Resource<StreamFailure>,)| {
        Ok((String::new(),))
    })
}

/// Waits until `when` with the timer of the host.
fn wait_until(at: &mut Context<'_>, when: Option<u64>) -> Result<()> {
    let Some(when) = when else { return Ok(()) };
    let now = monotonic_ns(at);
    if when > now {
        let ms = (when - now).div_ceil(1_000_000);
        if let Err(error) = at.data_mut().call_now("timer", "timer", json!({ "op": "sleep", "ms": ms }), Vec::new()) {
            bail!("wasi:io/poll: {error}");
        }
    }
    Ok(())
}

fn poll(at: &mut LinkerInstance<'_, State>) -> Result<()> {
    at.func_wrap("[method]pollable.ready", |mut at: Context<'_>, (pollable,): (Resource<Pollable>,)| {
        let when = at.data().wasi.table.get(&pollable)?.0;
        Ok((when.is_none_or(|when| when <= monotonic_ns(&mut at)),))
    })?;
    at.func_wrap("[method]pollable.block", |mut at: Context<'_>, (pollable,): (Resource<Pollable>,)| {
        let when = at.data().wasi.table.get(&pollable)?.0;
        wait_until(&mut at, when)
    })?;
    at.func_wrap("poll", |mut at: Context<'_>, (list,): (Vec<Resource<Pollable>>,)| {
        let mut times = Vec::with_capacity(list.len());
        for pollable in &list {
            times.push(at.data().wasi.table.get(pollable)?.0);
        }
        // Pollables without a time are ready.
        let first = times.iter().map(|when| when.unwrap_or_default()).min();
        wait_until(&mut at, first)?;
        let now = monotonic_ns(&mut at).max(first.unwrap_or_default());
        let ready = (0_u32..).zip(times).filter(|(_, when)| when.is_none_or(|when| when <= now));
        Ok((ready.map(|(index, _)| index).collect::<Vec<u32>>(),))
    })
}

fn ready_at_once(mut at: Context<'_>) -> Result<(Resource<Pollable>,)> {
    Ok((at.data_mut().wasi.table.push(Pollable(None))?,))
}

type Written = Result<(), StreamError>;

fn print(mut at: Context<'_>, stream: &Resource<Output>, bytes: &[u8]) -> Result<(Written,)> {
    if bytes.len() as u64 > WRITE_BYTES && guard!(WasmWrite) {
        bail!("a write of {} bytes: a stream takes {WRITE_BYTES} at once, as check-write says", bytes.len());
    }
    let is_error = at.data().wasi.table.get(stream)?.is_error;
    at.data_mut().print(is_error, bytes);
    Ok((Ok(()),))
}

fn streams(at: &mut LinkerInstance<'_, State>) -> Result<()> {
    for name in ["read", "blocking-read"] {
        at.func_wrap(&format!("[method]input-stream.{name}"), |_: Context<'_>, (_, _): (Resource<Input>, u64)| {
            Ok((Err::<Vec<u8>, _>(StreamError::Closed),))
        })?;
    }
    for name in ["skip", "blocking-skip"] {
        at.func_wrap(&format!("[method]input-stream.{name}"), |_: Context<'_>, (_, _): (Resource<Input>, u64)| {
            Ok((Err::<u64, _>(StreamError::Closed),))
        })?;
    }
    at.func_wrap("[method]input-stream.subscribe", |at: Context<'_>, (_,): (Resource<Input>,)| ready_at_once(at))?;
    at.func_wrap("[method]output-stream.subscribe", |at: Context<'_>, (_,): (Resource<Output>,)| ready_at_once(at))?;
    at.func_wrap("[method]output-stream.check-write", |_: Context<'_>, (_,): (Resource<Output>,)| {
        Ok((Ok::<_, StreamError>(WRITE_BYTES),))
    })?;
    for name in ["write", "blocking-write-and-flush"] {
        let name = format!("[method]output-stream.{name}");
        at.func_wrap(&name, |at: Context<'_>, (stream, bytes): (Resource<Output>, Vec<u8>)| {
            print(at, &stream, &bytes)
        })?;
    }
    for name in ["flush", "blocking-flush"] {
        at.func_wrap(&format!("[method]output-stream.{name}"), |_: Context<'_>, (_,): (Resource<Output>,)| {
            Ok((Written::Ok(()),))
        })?;
    }
    Ok(())
}
