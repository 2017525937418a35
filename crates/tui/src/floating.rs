//! Components of extensions that receive the keys, either in place of the editor or as overlays.
//!
//! The component that was brought to the front last is on top; the topmost visible one that accepts keys has the focus.

use super::view::ComponentId;
use serde_json::Value;
use tokio::sync::oneshot;

/// A component that receives the keys until it ends.
#[derive(Debug)]
pub(super) struct CustomComponent {
    pub(super) id: ComponentId,
    /// Options of the overlay; `None` for a component in place of the editor.
    pub(super) overlay: Option<Overlay>,
    /// Whether the component was created and rendered.
    pub(super) is_there: bool,
    /// Whether the component's handle has hidden it.
    pub(super) is_hidden: bool,
    /// Whether the options exclude the current terminal size.
    pub(super) is_out: bool,
    /// Whether the component takes the focus when it is on top.
    pub(super) wants_keys: bool,
    /// Stacking order; the highest is on top.
    pub(super) order: u64,
    /// Row, column, width and height of the last drawing; `None` if it was not drawn.
    pub(super) bounds: Option<[usize; 4]>,
    /// Completed or dropped when the host closes the component: the extension receives `undefined`.
    pub(super) end: oneshot::Sender<()>,
}

impl CustomComponent {
    pub(super) fn new(id: ComponentId, overlay: Option<Overlay>, order: u64, end: oneshot::Sender<()>) -> Self {
        let wants_keys = !overlay.as_ref().is_some_and(Overlay::lets_keys_through);
        let (is_there, is_hidden, is_out, bounds) = (false, false, false, None);
        Self { id, overlay, is_there, is_hidden, is_out, wants_keys, order, bounds, end }
    }

    pub(super) fn is_seen(&self) -> bool {
        self.is_there && !self.is_hidden && !self.is_out
    }
}

/// The supported options of pi-tui's `overlayOptions`: numbers, booleans and short strings.
#[derive(Debug, Clone, Default)]
pub(super) struct Overlay(Value);

/// Names of the supported options.
const OPTIONS: [&str; 10] =
    ["width", "minWidth", "maxHeight", "row", "col", "anchor", "offsetX", "offsetY", "margin", "nonCapturing"];
const SIDES: [&str; 4] = ["top", "right", "bottom", "left"];
/// Maximum length in bytes of a string option.
const MAX_WORD: usize = 32;

/// Number of columns and rows that stay free around an overlay.
#[derive(Debug, Clone, Copy, Default)]
struct OverlayMargin {
    top: usize,
    right: usize,
    bottom: usize,
    left: usize,
}

/// Parses a length: columns, or a percentage such as `"50%"`.
fn length(value: &Value, whole: usize) -> Option<usize> {
    if let Some(percent) = percent(value) {
        return Some((whole as f64 * percent).floor() as usize);
    }
    value.as_f64().filter(|number| number.is_finite()).map(|number| number.max(0.0).floor() as usize)
}

/// Parses `"50%"` as a fraction.
fn percent(value: &Value) -> Option<f64> {
    let percent: f64 = value.as_str()?.strip_suffix('%')?.trim().parse().ok()?;
    percent.is_finite().then_some(percent.clamp(0.0, 100.0) / 100.0)
}

impl Overlay {
    /// Extracts the supported options. The result is evaluated for every frame.
    pub(super) fn read(options: &Value) -> Self {
        fn brief(value: &Value) -> Option<Value> {
            let is_brief = value.is_number() || value.is_boolean();
            (is_brief || value.as_str().is_some_and(|word| word.len() <= MAX_WORD)).then(|| value.clone())
        }
        let members = |value: &Value, names: &[&str]| -> serde_json::Map<String, Value> {
            names.iter().filter_map(|name| Some(((*name).to_owned(), brief(value.get(name)?)?))).collect()
        };
        let mut read = members(options, &OPTIONS);
        if options["margin"].is_object() {
            read.insert("margin".to_owned(), members(&options["margin"], &SIDES).into());
        }
        Self(read.into())
    }

    /// Returns the width of the overlay.
    pub(super) fn width(&self, columns: usize) -> usize {
        let margin = self.margin();
        let room = columns.saturating_sub(margin.left + margin.right).max(1);
        let wanted = length(&self.0["width"], columns).unwrap_or_else(|| room.min(80));
        let least = length(&self.0["minWidth"], columns).unwrap_or(1);
        wanted.max(least).clamp(1, room)
    }

    /// Returns the top row, the left column and the number of rows of the overlay on the screen.
    pub(super) fn place(
        &self,
        (columns, rows): (usize, usize),
        (width, height): (usize, usize),
    ) -> (usize, usize, usize) {
        let margin = self.margin();
        let room = rows.saturating_sub(margin.top + margin.bottom).max(1);
        let height = height.min(length(&self.0["maxHeight"], rows).unwrap_or(room).clamp(1, room));
        let anchor = self.0["anchor"].as_str().unwrap_or("center");
        let along = |names: [&str; 2], wanted: &Value, shift: &str, sides: (usize, usize), whole: usize, own: usize| {
            let room = whole.saturating_sub(sides.0 + sides.1);
            let free = room.saturating_sub(own);
            let is_at = |name: &str| anchor.starts_with(name) || anchor.ends_with(name);
            let at = match (percent(wanted), length(wanted, whole)) {
                // A percentage refers to the free space, so that an overlay at 100% is still fully visible.
                (Some(part), _) => sides.0 + (free as f64 * part).floor() as usize,
                (None, Some(at)) => at,
                (None, None) if is_at(names[0]) => sides.0,
                (None, None) if is_at(names[1]) => sides.0 + free,
                (None, None) => sides.0 + free / 2,
            };
            let by = self.0[shift].as_f64().filter(|by| by.is_finite()).unwrap_or(0.0);
            let last = whole.saturating_sub(sides.1 + own).max(sides.0);
            ((at as f64 + by).max(0.0) as usize).clamp(sides.0.min(last), last).min(whole.saturating_sub(own))
        };
        let row = along(["top", "bottom"], &self.0["row"], "offsetY", (margin.top, margin.bottom), rows, height);
        let column = along(["left", "right"], &self.0["col"], "offsetX", (margin.left, margin.right), columns, width);
        (row, column, height)
    }

    fn margin(&self) -> OverlayMargin {
        let margin = &self.0["margin"];
        // A larger margin would leave no space on any screen.
        let side = |value: &Value| value.as_u64().map_or(0, |side| usize::try_from(side.min(500)).unwrap_or(0));
        if margin.is_number() {
            let all = side(margin);
            return OverlayMargin { top: all, right: all, bottom: all, left: all };
        }
        let side = |name: &str| side(&margin[name]);
        OverlayMargin { top: side("top"), right: side("right"), bottom: side("bottom"), left: side("left") }
    }

    /// Returns whether keys go to the layer below.
    pub(super) fn lets_keys_through(&self) -> bool {
        self.0["nonCapturing"] == Value::Bool(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns row, column, width and height of an overlay with 10 lines on a screen of 100 by 40.
    fn placed(options: Value) -> [usize; 4] {
        let overlay = Overlay::read(&options);
        let width = overlay.width(100);
        let (row, column, height) = overlay.place((100, 40), (width, 10));
        [row, column, width, height]
    }

    #[test]
    fn options_place_an_overlay() {
        for (options, expected) in [
            (json!({}), [15, 10, 80, 10]),
            (json!({"width": 40}), [15, 30, 40, 10]),
            (json!({"width": "50%", "anchor": "top-left"}), [0, 0, 50, 10]),
            (json!({"width": 20, "anchor": "bottom-right", "margin": 2}), [28, 78, 20, 10]),
            (json!({"width": 20, "anchor": "top-center", "margin": {"top": 3}}), [3, 40, 20, 10]),
            (json!({"width": 20, "anchor": "right-center", "offsetX": -5, "offsetY": 2}), [17, 75, 20, 10]),
            (json!({"width": 20, "anchor": "left-center", "maxHeight": "10%"}), [18, 0, 20, 4]),
            (json!({"width": 20, "row": "100%", "col": "0%"}), [30, 0, 20, 10]),
            (json!({"width": 20, "row": 5, "col": 7}), [5, 7, 20, 10]),
            (json!({"width": 20, "row": 90, "col": 900}), [30, 80, 20, 10]),
            (json!({"width": 10, "minWidth": 30}), [15, 35, 30, 10]),
            (json!({"width": 1000, "margin": 1000}), [39, 99, 1, 1]),
            (json!({"width": "x%", "offsetX": "y", "margin": -3}), [15, 10, 80, 10]),
        ] {
            assert_eq!(placed(options.clone()), expected, "{options}");
        }
    }

    #[test]
    fn overlay_options_are_bounded() {
        let large = "x".repeat(100_000);
        let options =
            json!({"width": large, "anchor": "top-left", "margin": {"top": 1, "left": [large]}, "more": large});
        let Overlay(read) = Overlay::read(&options);
        assert_eq!(read, json!({"anchor": "top-left", "margin": {"top": 1}}));
    }
}
