//! Widgets, headers, footers and statuses of extensions, which have fixed positions around the conversation and the editor.

use super::component_pictures::{ComponentId, ComponentPictures};
use super::quota::MAX_KEPT;
use pijs_protocol::ExtensionId;
use std::collections::BTreeMap;

/// Maximum number of lines of a text widget.
const WIDGET_LINES: usize = 10;

/// Content of a widget.
#[derive(Debug)]
pub(crate) enum WidgetContent {
    Lines(Vec<String>),
    Component(ComponentId),
}

/// A widget of an extension above or below the editor.
#[derive(Debug)]
pub(crate) struct Widget {
    extension: ExtensionId,
    key: String,
    pub(crate) content: WidgetContent,
    pub(crate) is_below: bool,
}

/// All widgets, headers, footers and statuses.
#[derive(Debug, Default)]
pub(crate) struct WidgetArea {
    /// Header components, of which the last one is shown.
    headers: Vec<ComponentId>,
    footers: Vec<ComponentId>,
    widgets: Vec<Widget>,
    pub(crate) statuses: BTreeMap<(ExtensionId, String), String>,
}

impl WidgetArea {
    /// Returns the header that is shown.
    pub(crate) fn header(&self) -> Option<&ComponentId> {
        self.headers.last()
    }

    /// Returns the footer that is shown.
    pub(crate) fn footer(&self) -> Option<&ComponentId> {
        self.footers.last()
    }

    pub(crate) fn footers(&self) -> &[ComponentId] {
        &self.footers
    }

    /// Returns the widgets above or below the editor.
    pub(crate) fn shown(&self, is_below: bool) -> impl Iterator<Item = &Widget> {
        self.widgets.iter().filter(move |widget| widget.is_below == is_below)
    }

    /// Sets or removes the header of an extension.
    pub(crate) fn set_header(
        &mut self,
        extension: &ExtensionId,
        component: Option<ComponentId>,
        pictures: &mut ComponentPictures,
    ) {
        replace(&mut self.headers, extension, component, pictures);
    }

    /// Sets or removes the footer of an extension.
    pub(crate) fn set_footer(
        &mut self,
        extension: &ExtensionId,
        component: Option<ComponentId>,
        pictures: &mut ComponentPictures,
    ) {
        replace(&mut self.footers, extension, component, pictures);
    }

    /// Adds, replaces or removes a widget.
    pub(crate) fn set_widget(
        &mut self,
        extension: ExtensionId,
        key: String,
        content: Option<WidgetContent>,
        is_below: bool,
        pictures: &mut ComponentPictures,
    ) {
        let old = self.widgets.iter().position(|widget| widget.extension == extension && widget.key == key);
        let old = old.map(|at| (at, self.widgets.remove(at)));
        if let Some((_, Widget { content: WidgetContent::Component(id), .. })) = &old {
            pictures.remove(id);
        }
        let Some(mut content) = content else { return };
        if old.is_none() && self.widgets.iter().filter(|widget| widget.extension == extension).count() >= MAX_KEPT {
            if let WidgetContent::Component(id) = &content {
                pictures.remove(id);
            }
            return;
        }
        if let WidgetContent::Lines(lines) = &mut content
            && lines.len() > WIDGET_LINES
        {
            lines.truncate(WIDGET_LINES);
            lines.push("... (widget truncated)".to_owned());
        }
        let at = old.map_or(self.widgets.len(), |(at, _)| at);
        self.widgets.insert(at, Widget { extension, key, content, is_below });
    }

    /// Sets a status of an extension, up to its limit.
    pub(crate) fn set_status(&mut self, key: (ExtensionId, String), text: Option<String>) {
        let Some(text) = text else { return drop(self.statuses.remove(&key)) };
        let kept = self.statuses.keys().filter(|(extension, _)| *extension == key.0).count();
        if kept < MAX_KEPT || self.statuses.contains_key(&key) {
            self.statuses.insert(key, text);
        }
    }

    /// Removes a component from all positions.
    pub(crate) fn close_component(&mut self, id: &ComponentId) {
        self.headers.retain(|other| other != id);
        self.footers.retain(|other| other != id);
        self.widgets.retain(|widget| !matches!(&widget.content, WidgetContent::Component(other) if other == id));
    }

    /// Removes everything that belongs to extensions whose realms are gone.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&ExtensionId) -> bool) {
        self.headers.retain(|(extension, _)| !is_gone(extension));
        self.footers.retain(|(extension, _)| !is_gone(extension));
        self.widgets.retain(|widget| !is_gone(&widget.extension));
        self.statuses.retain(|(extension, _), _| !is_gone(extension));
    }
}

/// Replaces the component of an extension among headers or footers.
fn replace(
    shown: &mut Vec<ComponentId>,
    extension: &ExtensionId,
    component: Option<ComponentId>,
    pictures: &mut ComponentPictures,
) {
    let old: Vec<ComponentId> = shown.extract_if(.., |id| id.0 == *extension).collect();
    shown.extend(component);
    for id in old {
        pictures.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_widgets_are_limited() {
        let (mut area, mut pictures) = (WidgetArea::default(), ComponentPictures::default());
        let extension = ExtensionId::new("x");
        for number in 0..1_000 {
            let key = number.to_string();
            area.set_status((extension.clone(), key.clone()), Some(key.clone()));
            let content = Some(WidgetContent::Lines(vec!["w".to_owned()]));
            area.set_widget(extension.clone(), key, content, false, &mut pictures);
        }
        assert_eq!((area.statuses.len(), area.widgets.len()), (MAX_KEPT, MAX_KEPT));
        area.set_status((extension.clone(), "0".to_owned()), Some("new".to_owned()));
        assert_eq!(area.statuses[&(extension.clone(), "0".to_owned())], "new");
        area.set_status((extension.clone(), "0".to_owned()), None);
        area.set_status((ExtensionId::new("y"), "0".to_owned()), Some("other".to_owned()));
        assert_eq!(area.statuses.len(), MAX_KEPT);
    }
}
