//! Migrates sessions of earlier formats to version 3, like the real pi.
//!
//! Version 1 is a list: entries have no ids, and a compaction refers to the first kept entry by its index in the file. Version 2
//! calls the role of an extension's message `hookMessage`.

use pijs_environment::Ambient;
use serde_json::Value;
use std::collections::BTreeSet;

/// Migrates header and entries from `version` to version 3.
pub(super) fn migrate(version: u64, header: &mut Value, entries: &mut [Value], ambient: &Ambient) {
    if version < 2 {
        name_entries(entries, ambient);
    }
    for entry in entries.iter_mut().filter(|entry| entry["type"] == "message") {
        if let Some(role) = entry.pointer_mut("/message/role").filter(|role| **role == "hookMessage") {
            *role = Value::from("custom");
        }
    }
    if let Some(header) = header.as_object_mut() {
        header.insert("version".to_owned(), Value::from(3));
    }
}

/// Assigns ids, with the previous entry as the parent.
fn name_entries(entries: &mut [Value], ambient: &Ambient) {
    let mut taken = BTreeSet::new();
    let mut parent = Value::Null;
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        let id = loop {
            let mut bytes = [0; 4];
            ambient.random.fill(&mut bytes);
            let id = format!("{:08x}", u32::from_be_bytes(bytes));
            if taken.insert(id.clone()) {
                break id;
            }
        };
        entry.insert("id".to_owned(), Value::from(id.as_str()));
        entry.insert("parentId".to_owned(), std::mem::replace(&mut parent, Value::from(id)));
    }
    let ids: Vec<Value> = entries.iter().map(|entry| entry["id"].clone()).collect();
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        // Index 0 is the header.
        let kept = entry.remove("firstKeptEntryIndex").and_then(|index| index.as_u64());
        let kept = kept.and_then(|index| ids.get(usize::try_from(index).ok()?.checked_sub(1)?));
        if let Some(kept) = kept {
            entry.insert("firstKeptEntryId".to_owned(), kept.clone());
        }
    }
}
