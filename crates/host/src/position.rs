//! Maps bundle positions to source positions.
//!
//! A realm reports stacks with positions in the linked module. [`PositionMap`], which `extc` implements with the artifact's
//! source maps, returns the position in the author's file; [`translate`] applies it to a whole error before it is shown.

use pijs_artifact::{Frame, MAX_FRAMES, PositionMap, quoted};
use pijs_protocol::message::ErrorReport;

/// Replaces bundle positions in `error.stack` and fills in `error.position` with the innermost frame that is in the extension's
/// source. Frames that do not map, and frames past [`MAX_FRAMES`], are not changed.
pub(crate) fn translate(mut error: ErrorReport, map: Option<&dyn PositionMap>) -> ErrorReport {
    let (Some(map), Some(stack)) = (map, error.stack.as_deref()) else { return error };
    let mut innermost = None;
    let (mut lines, mut left) = (Vec::new(), MAX_FRAMES);
    for line in stack.lines() {
        let found = if left > 0 { Frame::parse(line) } else { None };
        left -= usize::from(found.is_some());
        match found.and_then(|frame| Some((map.source_position(frame.module, frame.line, frame.column)?, frame))) {
            Some((place, frame)) => {
                lines.push(format!("{}{}:{}:{}{}", frame.before, place.file, place.line, place.column, frame.after));
                innermost.get_or_insert(place);
            }
            None => lines.push(line.to_owned()),
        }
    }
    error.position = error.position.or(innermost);
    error.stack = Some(lines.join("\n"));
    error
}

/// Adds the most similar member to the error of a call of a member that pi's object lacks.
pub(crate) fn suggest(mut error: ErrorReport) -> ErrorReport {
    if let Some(member) = pijs_node_compat::api::meant(&error.message) {
        error.message.push_str(&format!("; did you mean \"{member}\"?"));
    }
    error
}

/// Appends the source at the innermost frame to an error's message.
pub(crate) fn quote<'a>(mut error: ErrorReport, source: impl Fn(&str) -> Option<&'a str>) -> ErrorReport {
    let stack = error.stack.as_deref().unwrap_or_default();
    let first = stack.lines().find(|line| line.trim_start().starts_with("at ")).and_then(Frame::parse);
    let Some(frame) = first else { return error };
    let words = source(frame.module).and_then(|text| quoted(&error.message, text, frame.line, frame.column));
    if let Some(words) = words {
        let header = stack.lines().next().and_then(|header| header.strip_suffix(error.message.as_str()));
        error.stack =
            header.map(|name| format!("{name}{words}{}", &stack[name.len() + error.message.len()..])).or(error.stack);
        error.message = words;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_protocol::message::Position;

    struct Shift;

    impl PositionMap for Shift {
        fn source_position(&self, module: &str, line: u32, column: u32) -> Option<Position> {
            (module == "entry:main.js").then(|| Position { file: "src/main.ts".into(), line: line + 10, column })
        }
    }

    fn error(stack: &str) -> ErrorReport {
        ErrorReport {
            entry: None,
            phase: "load".into(),
            name: Some("Error".into()),
            message: "boom".into(),
            stack: Some(stack.into()),
            position: None,
        }
    }

    #[test]
    fn frames_of_the_extension_get_source_positions() {
        let stack =
            "    at fs (pi:web:3:1)\n    at boom (entry:main.js:2:7)\n    at entry:main.js:5:1\n    at native\n";
        let mapped = translate(error(stack), Some(&Shift));
        assert_eq!(
            mapped.stack.as_deref(),
            Some("    at fs (pi:web:3:1)\n    at boom (src/main.ts:12:7)\n    at src/main.ts:15:1\n    at native")
        );
        let place = mapped.position.expect("a frame mapped");
        assert_eq!((place.file.as_str(), place.line, place.column), ("src/main.ts", 12, 7), "the innermost one");
    }

    #[test]
    fn a_misspelt_member_gets_a_suggestion() {
        for (message, expected) in [
            ("pi.registerTol is not a function", "pi.registerTol is not a function; did you mean \"registerTool\"?"),
            ("ctx.ui.notfy is not a function", "ctx.ui.notfy is not a function; did you mean \"notify\"?"),
            ("ctx.later is not a function", "ctx.later is not a function"),
            ("pi.on is not a function", "pi.on is not a function"),
            ("mine.registerTol is not a function", "mine.registerTol is not a function"),
        ] {
            let suggested = suggest(ErrorReport { message: message.into(), ..error("") });
            assert_eq!(suggested.message, expected);
        }
    }

    #[test]
    fn lines_that_are_no_frames_stay() {
        for stack in ["", "at", "    at <anonymous>", "    at x (native)", ":::", "at a:b:c"] {
            let mapped = translate(error(stack), Some(&Shift));
            assert_eq!(mapped.stack.as_deref(), Some(stack));
            assert_eq!(mapped.position, None);
        }
    }

    #[test]
    fn of_a_long_stack_the_first_frames_are_looked_up() {
        let stack = "Error: boom\n".to_owned() + &"    at entry:main.js:2:7\n".repeat(MAX_FRAMES + 2);
        let mapped = translate(error(&stack), Some(&Shift)).stack.expect("a stack");
        let count = |place: &str| mapped.lines().filter(|line| line.ends_with(place)).count();
        assert_eq!((count("src/main.ts:12:7"), count("entry:main.js:2:7")), (MAX_FRAMES, 2));
        assert_eq!(mapped.lines().count(), MAX_FRAMES + 3);
    }
}
