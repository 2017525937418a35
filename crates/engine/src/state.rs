//! The readable state: a snapshot of the host's, kept inside the realm and changed by difference.
//!
//! `pi:engine`'s `state()` returns one object, the same each time: `{version, set, entries}`. The
//! engine changes it in place before a task and with a hostcall's reply; reading costs nothing.
//!
//! Most realms never look at most of it, and some members are long: every tool, every model. A long one stays text until it
//! is read the first time, which takes less memory in each realm, and less of its start.

use crate::values::{self, push, put};
use pijs_protocol::wire::StateDelta;
use rquickjs::function::This;
use rquickjs::object::Accessor;
use rquickjs::{Array, Ctx, Object, Persistent, Result, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A list or an object whose JSON is this long stays text until it is read. A value takes about seven times its text, a
/// member that waits 200 bytes more than its text.
const LONG_BYTES: usize = 512;

#[derive(Clone)]
struct Snapshot {
    whole: Persistent<Object<'static>>,
    set: Persistent<Object<'static>>,
    entries: Persistent<Array<'static>>,
}

#[derive(Default)]
pub(crate) struct State {
    snapshot: RefCell<Option<Snapshot>>,
    unread: Rc<Unread>,
}

/// Members that nobody has read yet, as JSON.
#[derive(Default)]
struct Unread(RefCell<BTreeMap<String, String>>);

impl State {
    /// The object that `state()` returns.
    pub(crate) fn object<'js>(&self, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        self.snapshot(ctx)?.whole.restore(ctx)
    }

    /// Applies a difference.
    pub(crate) fn apply(&self, ctx: &Ctx<'_>, delta: &StateDelta) -> Result<()> {
        let snapshot = self.snapshot(ctx)?;
        let set = snapshot.set.restore(ctx)?;
        for (name, value) in &delta.set {
            match long_text(value) {
                Some(text) => self.put_unread(&set, name, text)?,
                None => put(&set, name.as_str(), values::to_js(ctx, value)?)?,
            }
        }
        if let Some(change) = &delta.entries {
            let entries = snapshot.entries.restore(ctx)?;
            let keep = change.keep.min(entries.len());
            entries.as_object().set("length", i32::try_from(keep).unwrap_or(i32::MAX))?;
            for (offset, entry) in change.append.iter().enumerate() {
                push(&entries, keep + offset, values::to_js(ctx, entry)?)?;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a version counts changes of one session")]
        put(&snapshot.whole.restore(ctx)?, "version", delta.version as f64)
    }

    /// A member that becomes plain data when it is read.
    fn put_unread(&self, set: &Object<'_>, name: &str, text: String) -> Result<()> {
        self.unread.0.borrow_mut().insert(name.to_owned(), text);
        set.prop(name, Accessor::new_get(reader(Rc::clone(&self.unread), name.to_owned())).enumerable().configurable())
    }

    fn snapshot(&self, ctx: &Ctx<'_>) -> Result<Snapshot> {
        if let Some(snapshot) = &*self.snapshot.borrow() {
            return Ok(snapshot.clone());
        }
        let whole = Object::new(ctx.clone())?;
        let set = Object::new(ctx.clone())?;
        let entries = Array::new(ctx.clone())?;
        put(&whole, "version", 0)?;
        put(&whole, "set", set.clone())?;
        put(&whole, "entries", entries.clone())?;
        let snapshot = Snapshot {
            whole: Persistent::save(ctx, whole),
            set: Persistent::save(ctx, set),
            entries: Persistent::save(ctx, entries),
        };
        *self.snapshot.borrow_mut() = Some(snapshot.clone());
        Ok(snapshot)
    }

    pub(crate) fn release(&self) {
        self.snapshot.borrow_mut().take();
    }
}

impl Unread {
    fn read<'js>(&self, ctx: &Ctx<'js>, set: &Object<'js>, key: &str) -> Result<Value<'js>> {
        let text = self.0.borrow().get(key).cloned().unwrap_or_default();
        let value = ctx.json_parse(text)?;
        // In the place of the getter.
        put(set, key, value.clone())?;
        self.0.borrow_mut().remove(key);
        Ok(value)
    }
}

/// The getter of a member.
fn reader(
    unread: Rc<Unread>,
    key: String,
) -> impl for<'js> Fn(Ctx<'js>, This<Object<'js>>) -> Result<Value<'js>> + 'static {
    move |ctx, set| unread.read(&ctx, &set, &key)
}

/// The JSON of a list or an object that is long.
fn long_text(value: &serde_json::Value) -> Option<String> {
    let is_container = matches!(value, serde_json::Value::Array(items) if !items.is_empty())
        || matches!(value, serde_json::Value::Object(members) if !members.is_empty());
    let text = is_container.then(|| serde_json::to_string(value).ok()).flatten()?;
    (text.len() >= LONG_BYTES).then_some(text)
}
