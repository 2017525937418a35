//! Pictures of components, which are the lines that the realms of extensions last rendered.

use super::quota::used_up;
use pijs_protocol::{ExtensionId, HostcallError, guard};
use std::collections::BTreeMap;

/// Id of a component: the extension, and the handle in its realm.
pub(crate) type ComponentId = (ExtensionId, u32);

/// Maximum number of components of one extension.
const MAX_COMPONENTS: usize = 256;
/// Maximum size in bytes of the pictures of one extension.
const MAX_DRAWN: usize = 16 << 20;

/// The picture of a component.
#[derive(Debug, Default)]
pub(crate) struct ComponentPicture {
    pub(crate) lines: Vec<String>,
    /// Width of the widest line.
    pub(crate) made: usize,
    /// Size of the lines in bytes.
    bytes: usize,
    /// Last requested width, and whether rendering is due.
    pub(crate) width: usize,
    pub(crate) is_dirty: bool,
    pub(crate) is_asked: bool,
    /// Whether the component's caches belong to another theme.
    pub(crate) is_stale: bool,
}

/// The pictures of all components.
#[derive(Debug, Default)]
pub(crate) struct ComponentPictures(BTreeMap<ComponentId, ComponentPicture>);

impl ComponentPictures {
    /// Checks whether an extension may have another component.
    pub(crate) fn expect_quota(&self, id: &ComponentId) -> Result<(), HostcallError> {
        let is_new = !self.0.contains_key(id);
        match is_new && self.of(&id.0).count() >= MAX_COMPONENTS && guard!(TuiComponents) {
            true => Err(used_up("components", MAX_COMPONENTS)),
            false => Ok(()),
        }
    }

    /// Returns the pictures of an extension.
    fn of(&self, extension: &ExtensionId) -> impl Iterator<Item = (&ComponentId, &ComponentPicture)> {
        self.0.range((extension.clone(), u32::MIN)..=(extension.clone(), u32::MAX))
    }

    /// Adds a component, or resets a known one, with an empty picture.
    pub(crate) fn insert(&mut self, id: ComponentId) {
        self.0.insert(id, ComponentPicture::default());
    }

    pub(crate) fn remove(&mut self, id: &ComponentId) {
        self.0.remove(id);
    }

    pub(crate) fn contains(&self, id: &ComponentId) -> bool {
        self.0.contains_key(id)
    }

    pub(crate) fn get(&self, id: &ComponentId) -> Option<&ComponentPicture> {
        self.0.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &ComponentId) -> Option<&mut ComponentPicture> {
        self.0.get_mut(id)
    }

    /// Removes the pictures of extensions whose realms are gone.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&ExtensionId) -> bool) {
        self.0.retain(|(extension, _), _| !is_gone(extension));
    }

    /// Marks a component as changed.
    pub(crate) fn dirty(&mut self, id: &ComponentId) {
        if let Some(drawn) = self.0.get_mut(id) {
            drawn.is_dirty = true;
        }
    }

    /// Marks all components of an extension as changed.
    pub(crate) fn dirty_of(&mut self, extension: &ExtensionId) {
        for ((owner, _), drawn) in &mut self.0 {
            drawn.is_dirty |= owner == extension;
        }
    }

    /// Marks all components as changed.
    pub(crate) fn dirty_all(&mut self) {
        for drawn in self.0.values_mut() {
            drawn.is_dirty = true;
        }
    }

    /// Marks all components as changed and their caches as those of another theme.
    pub(crate) fn restyle(&mut self) {
        for drawn in self.0.values_mut() {
            (drawn.is_dirty, drawn.is_stale) = (true, true);
        }
    }

    /// Stores the lines of a component up to its extension's limit. No line is wider than `made`.
    pub(crate) fn keep_lines(&mut self, id: &ComponentId, mut lines: Vec<String>, made: usize) {
        let others: usize = self.of(&id.0).filter(|(other, _)| *other != id).map(|(_, drawn)| drawn.bytes).sum();
        let Some(drawn) = self.0.get_mut(id) else { return };
        let mut bytes = 0;
        let fits = lines.iter().take_while(|line| {
            bytes += line.len();
            others + bytes <= MAX_DRAWN
        });
        let fits = fits.count();
        lines.truncate(fits);
        drawn.bytes = lines.iter().map(String::len).sum();
        (drawn.lines, drawn.made) = (lines, made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_an_extension_are_limited() {
        let (mut pictures, extension) = (ComponentPictures::default(), ExtensionId::new("x"));
        for handle in 0..MAX_COMPONENTS as u32 {
            let id = (extension.clone(), handle);
            assert!(pictures.expect_quota(&id).is_ok());
            pictures.insert(id.clone());
            pictures.keep_lines(&id, vec!["x".repeat(1 << 10); 1_000], 80);
        }
        let bytes: usize = pictures.0.values().flat_map(|drawn| &drawn.lines).map(String::len).sum();
        assert!(bytes <= MAX_DRAWN && bytes > MAX_DRAWN / 2, "{bytes}");
        assert!(pictures.expect_quota(&(extension.clone(), 1_000)).is_err());
        assert!(pictures.expect_quota(&(extension, 0)).is_ok(), "one that is known is drawn anew");
    }
}
