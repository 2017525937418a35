//! The engine's own regular expressions, for expressions that no automaton can match: look-arounds in general, and references to
//! groups.
//!
//! A [`RegExpVm`] is a runtime and a context with only `RegExp`. Matching backtracks, which may take time exponential in the
//! text; so each match has a budget of steps, counted by the engine's interrupt polls and therefore the same on every machine,
//! and the runtime has a memory limit.

use crate::strings;
use rquickjs::allocator::RustAllocator;
use rquickjs::context::intrinsic;
use rquickjs::function::This;
use rquickjs::{CatchResultExt as _, Constructor, Context, Ctx, Function, Object, Persistent, Runtime, Value};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// Memory limit of the runtime, in bytes: enough for the expressions, one text of megabytes, and the backtracking stack for it.
const MEMORY: usize = 64 << 20;
/// Stack of the recursive parser of expressions, in bytes.
const STACK: usize = 256 << 10;
/// Maximum number of interrupt polls of a compilation.
const COMPILE_POLLS: u64 = 1_000;

/// An expression of a [`RegExpVm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegExpId(usize);

/// The budget that a match has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfSteps {
    /// The match took more steps than allowed.
    Steps,
    /// The match took more memory than the runtime has.
    Memory,
}

impl fmt::Display for OutOfSteps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Steps => "the regular expression exceeded its step limit: avoid nested quantifiers such as `(a+)+`",
            Self::Memory => {
                "the regular expression exceeded its memory limit: avoid nested quantifiers such as `(a+)+`"
            }
        })
    }
}

impl std::error::Error for OutOfSteps {}

/// Matches regular expressions with the engine's own `RegExp`, in bounded steps and memory.
///
/// ```
/// use pijs_engine::{OutOfSteps, RegExpVm};
///
/// let mut vm = RegExpVm::new()?;
/// let quoted = vm.compile(r#"(["']).*?\1"#, "")?;
/// assert_eq!(vm.matches(quoted, "say 'grüße'!", 100), Ok(Some((4, 13))));
/// let endless = vm.compile("(a+)+b", "")?;
/// assert_eq!(vm.matches(endless, &"a".repeat(40), 100), Err(OutOfSteps::Steps));
/// # Ok::<(), String>(())
/// ```
pub struct RegExpVm {
    // Dropped before the context.
    expressions: Vec<Persistent<Object<'static>>>,
    exec: Persistent<Function<'static>>,
    /// `RegExp.prototype[Symbol.replace]`
    replace: Persistent<Function<'static>>,
    context: Context,
    _runtime: Runtime,
    polls: Rc<Polls>,
}

#[derive(Default)]
struct Polls {
    left: Cell<u64>,
    count: Cell<u64>,
    has_stopped: Cell<bool>,
}

impl Polls {
    fn allow(&self, polls: u64) {
        self.left.set(polls);
        self.count.set(0);
        self.has_stopped.set(false);
    }

    fn poll(&self) -> bool {
        self.count.set(self.count.get() + 1);
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => self.has_stopped.set(true),
        }
        self.has_stopped.get()
    }
}

impl RegExpVm {
    /// Creates a runtime without expressions.
    pub fn new() -> Result<Self, String> {
        let failed = |error: rquickjs::Error| format!("cannot create the runtime for regular expressions: {error}");
        let runtime = Runtime::new_with_alloc(RustAllocator).map_err(failed)?;
        runtime.set_max_stack_size(STACK);
        let polls = Rc::new(Polls::default());
        let of_handler = Rc::clone(&polls);
        runtime.set_interrupt_handler(Some(Box::new(move || of_handler.poll())));
        polls.allow(COMPILE_POLLS);
        let context = Context::custom::<(intrinsic::RegExpCompiler, intrinsic::RegExp)>(&runtime).map_err(failed)?;
        // Set after the context exists: the engine does not survive running out of memory while it creates one.
        runtime.set_memory_limit(MEMORY);
        let exec = context.with(|ctx| {
            let class: Object<'_> = ctx.globals().get("RegExp")?;
            let prototype: Object<'_> = class.get("prototype")?;
            let replace: Function<'_> = prototype.get(rquickjs::Symbol::replace(ctx.clone()))?;
            let exec: Function<'_> = prototype.get("exec")?;
            Ok((Persistent::save(&ctx, exec), Persistent::save(&ctx, replace)))
        });
        let (exec, replace) = exec.map_err(failed)?;
        Ok(Self { expressions: Vec::new(), exec, replace, context, _runtime: runtime, polls })
    }

    /// Compiles `new RegExp(source, flags)`; refuses the flags `g` and `y`, which make a match depend on the previous one.
    ///
    /// Returns the engine's message for an invalid expression.
    pub fn compile(&mut self, source: &str, flags: &str) -> Result<RegExpId, String> {
        if let Some(flag) = flags.chars().find(|flag| matches!(flag, 'g' | 'y')) {
            return Err(format!("the flag `{flag}` is not supported here; remove it"));
        }
        self.construct(source, flags)
    }

    /// Compiles `new RegExp(source, flags)` with the flag `g`, for [`replace`](Self::replace) of all matches only.
    ///
    /// Fails as [`compile`](Self::compile) does.
    pub fn compile_global(&mut self, source: &str, flags: &str) -> Result<RegExpId, String> {
        if flags.contains('y') {
            return Err("the flag `y` is not supported here; remove it".to_owned());
        }
        self.construct(source, &format!("g{}", flags.replace('g', "")))
    }

    fn construct(&mut self, source: &str, flags: &str) -> Result<RegExpId, String> {
        self.polls.allow(COMPILE_POLLS);
        let made = self.context.with(|ctx| {
            let class: Constructor<'_> = ctx.globals().get("RegExp").map_err(|error| error.to_string())?;
            let made: Result<Object<'_>, _> = class.construct((source, flags)).catch(&ctx);
            made.map(|made| Persistent::save(&ctx, made)).map_err(|error| match error {
                rquickjs::CaughtError::Exception(exception) => exception.message().unwrap_or_default(),
                other => other.to_string(),
            })
        });
        self.expressions.push(made?);
        Ok(RegExpId(self.expressions.len() - 1))
    }

    /// Returns the byte range of the first match; a match boundary inside a surrogate pair is extended to the whole character.
    ///
    /// Fails if the engine polls more than `max_interrupts` times (it polls every 10,000 steps), or runs out of memory.
    pub fn matches(&self, id: RegExpId, text: &str, max_interrupts: u64) -> Result<Option<(usize, usize)>, OutOfSteps> {
        self.polls.allow(max_interrupts);
        let found = self.context.with(|ctx| self.exec(&ctx, id, text).catch(&ctx).map_err(|_| ()));
        match found {
            _ if self.polls.has_stopped.get() => Err(OutOfSteps::Steps),
            Ok(found) => Ok(found.map(|(start, end)| (byte_of(text, start, false), byte_of(text, end, true)))),
            Err(()) => Err(OutOfSteps::Memory),
        }
    }

    /// Returns the text with the first match replaced, or with all matches replaced for an expression that was compiled as
    /// global; expands `$1`, `$<name>` and the like as `String.prototype.replace` does. A lone surrogate becomes U+FFFD.
    ///
    /// Fails as [`matches`](Self::matches) does.
    pub fn replace(
        &self,
        id: RegExpId,
        text: &str,
        replacement: &str,
        max_interrupts: u64,
    ) -> Result<String, OutOfSteps> {
        self.polls.allow(max_interrupts);
        let replaced = self.context.with(|ctx| {
            let replaced = (|| {
                let expression = self.expressions[id.0].clone().restore(&ctx)?;
                let replace = self.replace.clone().restore(&ctx)?;
                let replaced: rquickjs::String<'_> = replace.call((This(expression), text, replacement))?;
                Ok(strings::lossy(&replaced))
            })();
            replaced.catch(&ctx).map_err(|_| ())
        });
        match replaced {
            _ if self.polls.has_stopped.get() => Err(OutOfSteps::Steps),
            Ok(replaced) => Ok(replaced),
            Err(()) => Err(OutOfSteps::Memory),
        }
    }

    /// Returns the number of polls in the last match or replacement, for a limit over many texts.
    pub fn interrupts(&self) -> u64 {
        self.polls.count.get()
    }

    /// Returns the match as a range of UTF-16 units.
    fn exec(&self, ctx: &Ctx<'_>, id: RegExpId, text: &str) -> rquickjs::Result<Option<(usize, usize)>> {
        let expression = self.expressions[id.0].clone().restore(ctx)?;
        let exec = self.exec.clone().restore(ctx)?;
        let found: Value<'_> = exec.call((This(expression), text))?;
        let Some(found) = found.into_object() else { return Ok(None) };
        let start: usize = found.get("index")?;
        let whole: rquickjs::String<'_> = found.get(0)?;
        Ok(Some((start, start + units_of(&whole))))
    }
}

impl fmt::Debug for RegExpVm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RegExpVm").field("expressions", &self.expressions.len()).finish_non_exhaustive()
    }
}

/// Returns the number of UTF-16 units of a text that may begin or end with a lone surrogate.
fn units_of(string: &rquickjs::String<'_>) -> usize {
    strings::lossy(string).encode_utf16().count()
}

/// Returns the byte offset of a UTF-16 unit: the start of the unit's character, or its end if the unit is not the first of the
/// character and `rounds_up` is set.
fn byte_of(text: &str, unit: usize, rounds_up: bool) -> usize {
    let mut units = 0;
    for (offset, character) in text.char_indices() {
        if units >= unit {
            return offset;
        }
        units += character.len_utf16();
        if units > unit && !rounds_up {
            return offset;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_replaced_once_or_everywhere() {
        let mut vm = RegExpVm::new().unwrap();
        let once = vm.compile(r"(\w)=(\w)", "").unwrap();
        assert_eq!(vm.replace(once, "a=b c=d", "$2=$1", 100).as_deref(), Ok("b=a c=d"));
        let all = vm.compile_global(r"(?<k>\w)=(\w)", "i").unwrap();
        assert_eq!(vm.replace(all, "a=b ü c=d", "$<k>$$", 100).as_deref(), Ok("a$ ü c$"));
        assert_eq!(vm.replace(all, "nothing", "x", 100).as_deref(), Ok("nothing"));
        let endless = vm.compile_global("(a+)+b", "").unwrap();
        assert_eq!(vm.replace(endless, &"a".repeat(40), "", 100), Err(OutOfSteps::Steps));
        assert_eq!(vm.interrupts(), 101);
    }

    #[test]
    fn offsets_are_bytes() {
        let mut vm = RegExpVm::new().unwrap();
        let mut find = |source: &str, flags: &str, text: &str| {
            let id = vm.compile(source, flags).unwrap();
            vm.matches(id, text, 100).unwrap()
        };
        assert_eq!(find("b", "", "ä😀b"), Some((6, 7)));
        assert_eq!(find("x", "", "ä😀b"), None);
        // Without the flag `u`, a lone surrogate matches.
        assert_eq!(find("\\uD83D", "", "a😀b"), Some((1, 5)));
        assert_eq!(find("\\uDE00", "", "a😀b"), Some((1, 5)));
        assert_eq!(find("\\uD83D", "u", "a😀b"), None);
        assert_eq!(find("(?<=a)", "", "ba"), Some((2, 2)));
        assert_eq!(find("\\0b", "", "a\0b"), Some((1, 3)));
    }

    #[test]
    fn invalid_expressions_return_the_message_of_the_engine() {
        let mut vm = RegExpVm::new().unwrap();
        assert!(vm.compile("a(", "").unwrap_err().contains(')'));
        assert!(vm.compile("a", "g").unwrap_err().contains('g'));
        assert!(vm.compile("a", "q").is_err());
        assert!(vm.compile(&"(".repeat(100_000), "").is_err());
        assert!(vm.compile("a", "").is_ok());
    }

    #[test]
    fn the_same_match_takes_the_same_steps() {
        let mut vm = RegExpVm::new().unwrap();
        let id = vm.compile("(a|aa)+b", "").unwrap();
        let text = "a".repeat(24);
        let least = (0..).find(|&polls| vm.matches(id, &text, polls) != Err(OutOfSteps::Steps)).unwrap();
        assert!(least > 1, "{least}");
        for _ in 0..3 {
            assert_eq!(vm.matches(id, &text, least), Ok(None));
            assert_eq!(vm.matches(id, &text, least - 1), Err(OutOfSteps::Steps));
        }
    }

    #[test]
    fn memory_is_bounded_and_the_runtime_survives() {
        let mut vm = RegExpVm::new().unwrap();
        let id = vm.compile("(?:(a)|b)*c", "").unwrap();
        let small = vm.compile("a", "").unwrap();
        let text = "ab".repeat(8 << 20);
        assert_eq!(vm.matches(id, &text, u64::MAX), Err(OutOfSteps::Memory));
        assert_eq!(vm.matches(small, "ba", 100), Ok(Some((1, 2))));
    }
}
