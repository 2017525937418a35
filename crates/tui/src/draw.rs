//! Renders a [`View`] as lines of the screen.
//!
//! ```text
//! header, transcript          the conversation
//! working, queued
//! widgets                     of extensions
//! editor, dialog or component
//! widgets, footer             of extensions
//! status row                  only of pi
//! ```
//!
//! Overlays are drawn above everything except the status row. A permission prompt replaces the area from the editor down to the
//! status row, and hides all overlays and lower widgets of extensions.

use super::clip::{LONGEST_LINE, clipped};
use super::layers::Layer;
use super::rule::rule;
use super::task::UiTask;
use super::view::{ComponentId, View, WidgetContent};
use pijs_protocol::guard;
use pijs_terminal::layout::{clamp, fit, slice, width, wrap_styled};
use std::time::Instant;

/// Maximum length in bytes of an extension's status; all statuses share one line.
const LONGEST_STATUS: usize = 2 << 10;

/// Returns exactly as many lines as the screen has rows, and the render requests for extensions.
pub(super) fn frame(view: &mut View, now: Instant) -> (Vec<String>, Vec<UiTask>) {
    let (columns, rows) = view.size;
    let mut work = Vec::new();
    let room = rows.saturating_sub(1);
    let asks = !view.layers.prompts.is_empty();
    let lower = match view.layers.prompts.front_mut() {
        Some(asked) => {
            asked.since.get_or_insert(now);
            asked.lines(columns, room.max(1))
        }
        None => {
            if view.layers.focused().is_none()
                && let Some(put) = &mut view.editor.inserted
            {
                put.since.get_or_insert(now);
            }
            lower(view, columns, room, now, &mut work)
        }
    };
    let lower: Vec<String> = lower.into_iter().take(room).collect();
    let mut middle = middle(view, columns, now);
    middle.extend(widgets(view, columns, false, &mut work));
    let kept = room - lower.len();
    middle = middle.split_off(middle.len().saturating_sub(kept));
    let upper = kept - middle.len();
    let header = view.widgets.header().cloned();
    let head = match header {
        Some(id) => component(view, &id, columns, &mut work),
        None => view.session.welcome.iter().flat_map(|line| wrap_styled(line, columns)).collect(),
    };
    let (mut lines, undrawn) =
        view.conversation.transcript.tail(&head, columns, upper, view.conversation.scroll, view.conversation.expanded);
    if lines.len() < upper && view.conversation.scroll > 0 {
        // Limits scrolling to the beginning.
        view.conversation.scroll = view.conversation.scroll.saturating_sub(upper - lines.len());
    }
    let expanded = view.conversation.expanded;
    work.extend(undrawn.into_iter().map(|block| UiTask::Draw { block, columns, expanded }));
    lines.resize(upper, String::new());
    lines.extend(middle);
    lines.extend(lower);
    lines.truncate(room);
    if !asks || !guard!(TuiQuestionFrame) {
        overlays(view, &mut lines, &mut work);
    }
    lines.push(row(view, columns, asks));
    let lines = lines.into_iter().map(|line| fit(&line, columns)).collect();
    (lines, work)
}

/// Returns the last picture of a component. If its width has changed or it is outdated, requests a new one.
fn component(view: &mut View, id: &ComponentId, columns: usize, work: &mut Vec<UiTask>) -> Vec<String> {
    let focused = match view.layers.focused() {
        None => view.editor.replacement_id() == Some(id),
        Some(_) => view.layers.focused_component().as_ref() == Some(id),
    };
    let Some(drawn) = view.pictures.get_mut(id) else { return Vec::new() };
    if (drawn.is_dirty || drawn.width != columns) && !drawn.is_asked {
        let fresh = std::mem::take(&mut drawn.is_stale);
        (drawn.is_asked, drawn.is_dirty, drawn.width) = (true, false, columns);
        work.push(UiTask::Render { id: id.clone(), columns, focused, fresh });
    }
    match drawn.made <= columns {
        true => drawn.lines.clone(),
        // A picture of another width is cut until the new one arrives.
        false => drawn.lines.iter().map(|line| slice(line, 0, columns)).collect(),
    }
}

fn widgets(view: &mut View, columns: usize, is_below: bool, work: &mut Vec<UiTask>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut ids = Vec::new();
    let rows = view.size.1;
    let count = |content: &WidgetContent| match content {
        WidgetContent::Lines(text) => text.len(),
        WidgetContent::Component(id) => view.pictures.get(id).map_or(0, |drawn| drawn.lines.len()),
    };
    let mut here = 0;
    let shown = || view.widgets.shown(is_below);
    let all: usize = shown().map(|widget| count(&widget.content)).sum();
    for widget in shown() {
        let from = here;
        here += count(&widget.content);
        // If there are too many lines, widgets above the editor show their last lines, and widgets below it their first.
        let is_seen = |line: usize| if is_below { line < rows } else { line + rows >= all };
        match &widget.content {
            WidgetContent::Lines(text) => {
                let line = |(at, line): (usize, &String)| match is_seen(from + at) {
                    true => clamp(line, columns),
                    false => String::new(),
                };
                lines.push(text.iter().enumerate().map(line).collect());
            }
            WidgetContent::Component(id) => {
                ids.push((lines.len(), id.clone()));
                lines.push(Vec::new());
            }
        }
    }
    for (at, id) in ids {
        lines[at] = component(view, &id, columns, work);
    }
    lines.concat()
}

/// Returns the status of the model and the queued messages.
fn middle(view: &View, columns: usize, now: Instant) -> Vec<String> {
    let mut lines: Vec<String> = view
        .conversation
        .queued
        .iter()
        .map(|text| pijs_terminal::line(&format!("queued: {}", clipped(text, LONGEST_LINE))))
        .map(|line| format!("\u{1b}[2m{}\u{1b}[0m", clamp(&line, columns)))
        .collect();
    lines.extend(view.run.line(now).map(|line| clamp(&line, columns)));
    lines
}

/// Returns the lines from the editor downwards.
fn lower(view: &mut View, columns: usize, rows: usize, now: Instant, work: &mut Vec<UiTask>) -> Vec<String> {
    let mut below = widgets(view, columns, true, work);
    below.extend(footer(view, columns, work));
    // If there is little space, the editor has precedence.
    below.truncate(rows / 2);
    let room = rows - below.len();
    let mut lines = match view.layers.in_place_of_editor() {
        Some(Layer::Dialog(dialog)) => dialog.lines(columns, room, now),
        Some(Layer::Picker(picker)) => picker.lines(columns, room),
        Some(Layer::Entry(entry)) => entry.lines(columns),
        Some(Layer::Custom(custom)) => {
            let id = custom.id.clone();
            component(view, &id, columns, work)
        }
        None => match view.editor.replacement_id().cloned() {
            Some(id) => component(view, &id, columns, work),
            None => editor(view, columns, room),
        },
    };
    lines.truncate(room);
    lines.extend(below);
    lines
}

fn editor(view: &View, columns: usize, rows: usize) -> Vec<String> {
    let most = (rows / 2).max(3);
    let mut lines = vec![rule("", columns)];
    lines.extend(view.editor.field.shown(columns, most));
    lines.push(rule("", columns));
    lines.extend(view.completion.popup.iter().flat_map(|popup| popup.lines(columns)));
    lines
}

/// Returns the footer of an extension, or the built-in one with the statuses of extensions.
fn footer(view: &mut View, columns: usize, work: &mut Vec<UiTask>) -> Vec<String> {
    if let Some(id) = view.widgets.footer().cloned() {
        return component(view, &id, columns, work);
    }
    let mut lines = vec![view.session.footer.line(view.session.branch.as_deref(), columns)];
    if !view.widgets.statuses.is_empty() {
        let mut statuses = String::new();
        for text in view.widgets.statuses.values() {
            let gap = if statuses.is_empty() { "" } else { "  " };
            statuses =
                format!("{statuses}{gap}{}", clamp(&pijs_terminal::line(clipped(text, LONGEST_STATUS)), columns));
            // Further statuses would be beyond the width and so invisible.
            if width(&statuses) > columns {
                break;
            }
        }
        lines.push(clamp(&statuses, columns));
    }
    lines
}

/// Draws overlays over the lines, the topmost last.
fn overlays(view: &mut View, lines: &mut [String], work: &mut Vec<UiTask>) {
    let columns = view.size.0;
    let mut floating = Vec::new();
    for custom in view.layers.customs() {
        if let Some(overlay) = &custom.overlay
            && custom.is_there
            && !custom.is_hidden
        {
            floating.push((custom.order, custom.id.clone(), overlay.clone(), custom.is_out));
        }
    }
    floating.sort_by_key(|(order, ..)| *order);
    for (_, id, overlay, is_out) in floating {
        let width = overlay.width(columns);
        // A hidden overlay is rendered as well, because its visibility may have changed.
        let drawn = component(view, &id, width, work);
        let (top, left, height) = overlay.place((columns, lines.len()), (width, drawn.len()));
        if let Some(custom) = view.layers.custom(&id) {
            custom.bounds = (!is_out).then_some([top, left, width, height]);
        }
        if is_out {
            continue;
        }
        for (line, over) in lines.iter_mut().skip(top).zip(drawn.iter().take(height)) {
            let whole = fit(line, columns);
            *line = format!(
                "{}\u{1b}[0m{}\u{1b}[0m{}",
                slice(&whole, 0, left),
                fit(over, width),
                slice(&whole, left + width, columns),
            );
        }
    }
}

/// Returns the last row, which no extension can draw: the open prompt, the focused component, and the model.
fn row(view: &View, columns: usize, asks: bool) -> String {
    let name = |extension: &pijs_protocol::ExtensionId| pijs_terminal::line(extension.as_str());
    let left = match (view.layers.prompts.front(), view.layers.focused_component()) {
        _ if view.session.is_leaving => "pi: closing the session".to_owned(),
        (Some(asked), _) => format!("pi asks you about {}", name(asked.extension())),
        (None, Some((extension, _))) => format!("{} has the focus", name(&extension)),
        (None, None) if !view.session.has_begun => "pi: starting the session".to_owned(),
        (None, None) if matches!(view.session.model.thinking.as_str(), "" | "off") => {
            format!("pi  {}", view.session.model.name)
        }
        (None, None) => format!("pi  {}  thinking {}", view.session.model.name, view.session.model.thinking),
    };
    let right = if view.conversation.scroll > 0 { "pagedown: newer  " } else { "" };
    let right = format!("{right}ctrl+c twice: quit");
    let left = clamp(&left, columns.saturating_sub(right.len() + 2));
    let left = fit(&left, columns.saturating_sub(right.len()));
    let style = if asks { "7" } else { "2" };
    format!("\u{1b}[{style}m{left}{right}\u{1b}[0m")
}

/// Returns at most `most` lines that remain on the main screen after the session.
pub(super) fn farewell(view: &mut View, most: usize) -> Vec<String> {
    view.conversation.transcript.tail(&[], view.size.0, most, 0, false).0
}

/// Returns the terminal output that changes the screen from `before` to `now`.
pub(super) fn difference(before: &[String], now: &[String]) -> String {
    let mut out = String::new();
    for (row, line) in now.iter().enumerate() {
        if before.get(row) != Some(line) {
            out.push_str(&format!("\u{1b}[{};1H\u{1b}[0m{line}\u{1b}[0m", row + 1));
        }
    }
    if out.is_empty() { out } else { format!("\u{1b}[?2026h{out}\u{1b}[?2026l") }
}

#[cfg(test)]
mod tests {
    use super::super::floating::{CustomComponent, Overlay};
    use super::*;
    use serde_json::json;

    /// The size of a frame depends on the screen, not on the number and style of the overlays.
    #[test]
    fn stacked_overlays_do_not_enlarge_a_frame() {
        let (mut view, extension) = (View::new((80, 24)), pijs_protocol::ExtensionId::new("x"));
        for number in 0..64_u32 {
            let id = (extension.clone(), number);
            let overlay = Overlay::read(&json!({"width": 2, "row": 3, "col": number}));
            let (end, _) = tokio::sync::oneshot::channel();
            let mut custom = CustomComponent::new(id.clone(), Some(overlay), 0, end);
            custom.is_there = true;
            view.pictures.insert(id.clone());
            view.pictures.keep_lines(&id, vec!["\u{1b}[31ma\u{1b}[1mb\u{1b}[44m".to_owned()], 80);
            view.push(Layer::Custom(custom));
        }
        for _ in 0..2 {
            let (lines, _) = frame(&mut view, Instant::now());
            assert_eq!(lines.len(), 24);
            let bytes: usize = lines.iter().map(String::len).sum();
            assert!(bytes < 100_000, "{bytes}");
        }
    }
}
