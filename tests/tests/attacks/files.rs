//! Steps that create, change and check files.

use crate::archive;
use crate::case::{Edit, Files, Write};
use crate::world::World;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

pub(crate) fn write(world: &World, step: &Write) -> Result<(), String> {
    let path = world.path(&step.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed(&path))?;
    }
    if step.folder {
        fs::create_dir_all(&path).map_err(failed(&path))?;
    } else if let Some(target) = &step.symlink {
        std::os::unix::fs::symlink(target, &path).map_err(failed(&path))?;
    } else if let Some(other) = &step.hardlink {
        fs::hard_link(world.path(other), &path).map_err(failed(&path))?;
    } else if step.fifo {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, rustix::fs::Mode::from_raw_mode(0o644), 0)
            .map_err(|error| failed(&path)(error.into()))?;
    } else if step.socket {
        // The socket's file remains when the listener is dropped.
        std::os::unix::net::UnixListener::bind(&path).map_err(failed(&path))?;
    } else if let Some(size) = step.sparse {
        File::create(&path).and_then(|file| file.set_len(size)).map_err(failed(&path))?;
    } else if let Some(text) = &step.component {
        fs::write(&path, component(&world.path(text), &step.imports)?).map_err(failed(&path))?;
    } else {
        let bytes = match (&step.text, &step.json, &step.hex, &step.content) {
            (Some(text), ..) => text.clone().into_bytes(),
            (_, Some(json), ..) => json.to_string().into_bytes(),
            (_, _, Some(hex), _) => hex::decode(hex).map_err(|error| format!("{hex}: {error}"))?,
            (.., Some(content)) => archive::content(content)?,
            _ => Vec::new(),
        };
        fs::write(&path, bytes).map_err(failed(&path))?;
    }
    match &step.mode {
        Some(mode) => fs::set_permissions(&path, octal(mode)?).map_err(failed(&path)),
        None => Ok(()),
    }
}

/// Builds a component from a text: lines that begin with `(import` are the imports of its core module, the other lines are items
/// in addition to the exports of the world.
pub(crate) fn component(path: &Path, imports: &BTreeMap<String, String>) -> Result<Vec<u8>, String> {
    let text = fs::read_to_string(path).map_err(failed(path))?;
    let (imported, items): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("(import"));
    let module = pijs_wasm::text::module(&imported.join("\n"), &items.join("\n"));
    let imports: Vec<(&str, &str)> = imports.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Ok(pijs_wasm::text::core_module_with(&module, &imports))
}

fn octal(mode: &str) -> Result<Permissions, String> {
    u32::from_str_radix(mode, 8).map(Permissions::from_mode).map_err(|error| format!("mode {mode}: {error}"))
}

/// Returns the files below the world that a glob matches, sorted.
pub(crate) fn matching(world: &World, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let literal = world.path(pattern);
    if fs::symlink_metadata(&literal).is_ok() {
        return Ok(vec![literal]);
    }
    let pattern = Path::new(pattern).strip_prefix(world.root()).unwrap_or(Path::new(pattern));
    let set = globs([pattern.to_string_lossy().as_ref()])?;
    let mut found = Vec::new();
    let mut folders = vec![world.root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.strip_prefix(world.root()).is_ok_and(|name| set.is_match(name)) {
                found.push(path.clone());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Compiles globs in which `*` does not match `/`.
pub(crate) fn globs<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<globset::GlobSet, String> {
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        let glob = globset::GlobBuilder::new(pattern).literal_separator(true).build();
        set.add(glob.map_err(|error| format!("{pattern}: {error}"))?);
    }
    set.build().map_err(|error| error.to_string())
}

pub(crate) fn edit(world: &World, step: &Edit) -> Result<(), String> {
    let paths = matching(world, &step.path)?;
    if paths.is_empty() {
        return Err(format!("edit: nothing is called {}", step.path));
    }
    for path in paths {
        if let Some(mode) = &step.mode {
            fs::set_permissions(&path, octal(mode)?).map_err(failed(&path))?;
        }
        if let Some(from) = &step.copy_from {
            let from = matching(world, from)?.into_iter().find(|from| *from != path);
            let from = from.ok_or_else(|| format!("edit: nothing to copy over {}", path.display()))?;
            fs::write(&path, fs::read(&from).map_err(failed(&from))?).map_err(failed(&path))?;
            continue;
        }
        let before = fs::read(&path).map_err(failed(&path))?;
        let after = changed(&before, step).map_err(|why| format!("edit: {}: {why}", path.display()))?;
        if after == before && step.mode.is_none() {
            return Err(format!("edit: {} stays as it was", path.display()));
        }
        fs::write(&path, after).map_err(failed(&path))?;
    }
    Ok(())
}

fn changed(before: &[u8], step: &Edit) -> Result<Vec<u8>, String> {
    let mut bytes = before.to_vec();
    if let Some((from, to)) = &step.replace {
        let text = String::from_utf8(bytes).map_err(|_| "not text".to_owned())?;
        bytes = text.replacen(from, to, 1).into_bytes();
    }
    if let Some(patch) = &step.patch {
        let mut value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        merge(&mut value, patch);
        bytes = serde_json::to_vec_pretty(&value).map_err(|error| error.to_string())?;
    }
    if step.remove_line.is_some() || step.swap_lines.is_some() || step.copy_line.is_some() {
        let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let count = lines.len();
        let at = |number: i64| {
            let index = if number < 0 { count as i64 + number } else { number - 1 };
            usize::try_from(index).ok().filter(|index| *index < count).ok_or(format!("no line {number} of {count}"))
        };
        if let Some(number) = step.remove_line {
            lines.remove(at(number)?);
        }
        if let Some((a, b)) = step.swap_lines {
            lines.swap(at(a)?, at(b)?);
        }
        if let Some((from, to)) = step.copy_line {
            let line = lines[at(from)?].clone();
            lines.insert(at(to)?, line);
        }
        bytes = lines.concat();
    }
    if let Some(at) = step.flip {
        let index = if at < 0 { bytes.len() as i64 + at } else { at };
        let byte = usize::try_from(index).ok().and_then(|index| bytes.get_mut(index)).ok_or("shorter than that")?;
        *byte = !*byte;
    }
    if let Some(size) = step.truncate {
        bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    }
    if let Some(cut) = step.cut {
        bytes.truncate(bytes.len().saturating_sub(usize::try_from(cut).unwrap_or(usize::MAX)));
    }
    if let Some(text) = &step.append {
        bytes.extend_from_slice(text.as_bytes());
    }
    if let Some(hex) = &step.append_hex {
        bytes.extend(hex::decode(hex).map_err(|error| error.to_string())?);
    }
    Ok(bytes)
}

/// Applies a JSON merge patch (RFC 7396).
pub(crate) fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    let members = value.as_object_mut().expect("made one");
    for (key, change) in patch {
        if change.is_null() {
            members.remove(key);
        } else {
            merge(members.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

pub(crate) fn expect(world: &World, step: &Files) -> Result<(), String> {
    for pattern in &step.exist {
        if matching(world, pattern)?.is_empty() {
            return Err(format!("missing: {pattern}"));
        }
    }
    for pattern in &step.absent {
        if let Some(path) = matching(world, pattern)?.first() {
            return Err(format!("there although it should not be: {}", path.display()));
        }
    }
    let texts = |pattern: &String| -> Result<Vec<(PathBuf, String)>, String> {
        let read = |path: PathBuf| {
            let bytes = fs::read(&path).map_err(failed(&path))?;
            Ok((path, String::from_utf8_lossy(&bytes).into_owned()))
        };
        let found: Result<Vec<_>, String> = matching(world, pattern)?.into_iter().map(read).collect();
        found.and_then(|found| if found.is_empty() { Err(format!("missing: {pattern}")) } else { Ok(found) })
    };
    for (pattern, words) in &step.contain {
        if let Some((path, text)) = texts(pattern)?.into_iter().find(|(_, text)| !text.contains(words)) {
            return Err(format!("{} does not contain {words:?}: {text}", path.display()));
        }
    }
    for (pattern, words) in &step.not_contain {
        if let Some((path, _)) = texts(pattern)?.into_iter().find(|(_, text)| text.contains(words)) {
            return Err(format!("{} contains {words:?}", path.display()));
        }
    }
    for (pattern, whole) in &step.equal {
        if let Some((path, text)) = texts(pattern)?.into_iter().find(|(_, text)| text != whole) {
            return Err(format!("{} is {text:?}, not {whole:?}", path.display()));
        }
    }
    for (pattern, mode) in &step.mode {
        for path in matching(world, pattern)? {
            let is = fs::symlink_metadata(&path).map_err(failed(&path))?.permissions().mode() & 0o7777;
            if is != octal(mode)?.mode() {
                return Err(format!("{} has mode {is:o}, not {mode}", path.display()));
            }
        }
    }
    for (a, b) in &step.same {
        let (a, b) = (world.path(a), world.path(b));
        if fs::read(&a).map_err(failed(&a))? != fs::read(&b).map_err(failed(&b))? {
            return Err(format!("{} and {} differ", a.display(), b.display()));
        }
    }
    Ok(())
}
