//! Session state inside the realm, updated by deltas of the host.
//!
//! `pi:engine`'s `state()` always returns the same object: `{version, set, entries}`. The engine updates it in place before a
//! task and with a hostcall's reply; reading needs no hostcall.
//!
//! Most realms read little of the state, and some of it is long: every entry of the session, every tool, every model. Long values
//! stay JSON text until the first read, which saves memory in each realm and time when it starts.

use crate::values::{push, put};
use pijs_protocol::wire::{Json, StateDelta};
use rquickjs::function::This;
use rquickjs::object::Accessor;
use rquickjs::{Array, Ctx, Object, Persistent, Result, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Length, in bytes of JSON, from which a list or an object stays text until it is read. A parsed value takes about seven times
/// the memory of its text, and an unread member 200 bytes more than its text.
const LONG_BYTES: usize = 512;

#[derive(Clone)]
struct StateObject {
    whole: Persistent<Object<'static>>,
    set: Persistent<Object<'static>>,
}

#[derive(Default)]
pub(crate) struct ReadableState {
    snapshot: RefCell<Option<StateObject>>,
    unread: Rc<UnreadValues>,
}

/// Values that are not read yet.
#[derive(Default)]
struct UnreadValues {
    members: RefCell<BTreeMap<String, Json>>,
    entries: RefCell<SessionEntries>,
}

/// The entries of the session: text until the first read.
enum SessionEntries {
    UnreadValues(Vec<Json>),
    Read(Persistent<Array<'static>>),
}

impl Default for SessionEntries {
    fn default() -> Self {
        Self::UnreadValues(Vec::new())
    }
}

impl ReadableState {
    /// Returns the object of `state()`.
    pub(crate) fn object<'js>(&self, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        self.snapshot(ctx)?.whole.restore(ctx)
    }

    /// Applies a state delta.
    pub(crate) fn apply(&self, ctx: &Ctx<'_>, delta: &StateDelta) -> Result<()> {
        let snapshot = self.snapshot(ctx)?;
        let set = snapshot.set.restore(ctx)?;
        for (name, value) in &delta.set {
            if is_long(value.text()) {
                self.put_unread(&set, name, value.clone())?;
            } else {
                put(&set, name.as_str(), ctx.json_parse(value.text())?)?;
            }
        }
        if let Some(change) = &delta.entries {
            match &mut *self.unread.entries.borrow_mut() {
                SessionEntries::UnreadValues(texts) => {
                    texts.truncate(change.keep);
                    texts.extend_from_slice(&change.append);
                }
                SessionEntries::Read(array) => {
                    let array = array.clone().restore(ctx)?;
                    let keep = change.keep.min(array.len());
                    array.as_object().set("length", i32::try_from(keep).unwrap_or(i32::MAX))?;
                    append(ctx, &array, &change.append)?;
                }
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a version counts changes of one session")]
        put(&snapshot.whole.restore(ctx)?, "version", delta.version as f64)
    }

    /// Defines a member that is parsed at the first read.
    fn put_unread(&self, set: &Object<'_>, name: &str, value: Json) -> Result<()> {
        self.unread.members.borrow_mut().insert(name.to_owned(), value);
        set.prop(name, getter(member_reader(Rc::clone(&self.unread), name.to_owned())))
    }

    fn snapshot(&self, ctx: &Ctx<'_>) -> Result<StateObject> {
        if let Some(snapshot) = &*self.snapshot.borrow() {
            return Ok(snapshot.clone());
        }
        let whole = Object::new(ctx.clone())?;
        let set = Object::new(ctx.clone())?;
        put(&whole, "version", 0)?;
        put(&whole, "set", set.clone())?;
        whole.prop("entries", getter(entries_reader(Rc::clone(&self.unread))))?;
        let snapshot = StateObject { whole: Persistent::save(ctx, whole), set: Persistent::save(ctx, set) };
        *self.snapshot.borrow_mut() = Some(snapshot.clone());
        Ok(snapshot)
    }

    pub(crate) fn release(&self) {
        self.snapshot.borrow_mut().take();
        self.unread.entries.take();
    }
}

impl UnreadValues {
    fn read_member<'js>(&self, ctx: &Ctx<'js>, set: &Object<'js>, key: &str) -> Result<Value<'js>> {
        let Some(text) = self.members.borrow().get(key).cloned() else { return Ok(Value::new_undefined(ctx.clone())) };
        let value = ctx.json_parse(text.text())?;
        // Replaces the getter.
        put(set, key, value.clone())?;
        self.members.borrow_mut().remove(key);
        Ok(value)
    }

    fn read_entries<'js>(&self, ctx: &Ctx<'js>, whole: &Object<'js>) -> Result<Array<'js>> {
        let array = match &*self.entries.borrow() {
            SessionEntries::Read(array) => return array.clone().restore(ctx),
            SessionEntries::UnreadValues(texts) => {
                let array = Array::new(ctx.clone())?;
                append(ctx, &array, texts)?;
                array
            }
        };
        put(whole, "entries", array.clone())?;
        *self.entries.borrow_mut() = SessionEntries::Read(Persistent::save(ctx, array.clone()));
        Ok(array)
    }
}

/// Appends entries to a list.
fn append<'js>(ctx: &Ctx<'js>, array: &Array<'js>, entries: &[Json]) -> Result<()> {
    let at = array.len();
    for (offset, entry) in entries.iter().enumerate() {
        push(array, at + offset, ctx.json_parse(entry.text())?)?;
    }
    Ok(())
}

fn getter<G>(read: G) -> Accessor<G, ()> {
    Accessor::new_get(read).enumerable().configurable()
}

fn member_reader(
    unread: Rc<UnreadValues>,
    key: String,
) -> impl for<'js> Fn(Ctx<'js>, This<Object<'js>>) -> Result<Value<'js>> + 'static {
    move |ctx, set| unread.read_member(&ctx, &set, &key)
}

fn entries_reader(
    unread: Rc<UnreadValues>,
) -> impl for<'js> Fn(Ctx<'js>, This<Object<'js>>) -> Result<Array<'js>> + 'static {
    move |ctx, whole| unread.read_entries(&ctx, &whole)
}

fn is_long(json: &str) -> bool {
    json.len() >= LONG_BYTES && json.starts_with(['[', '{'])
}
