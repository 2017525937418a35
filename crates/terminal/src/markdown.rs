//! Renders Markdown, such as a reply of a model, as styled lines.
//!
//! The text is sanitised before it is parsed, so all style sequences in the lines come from this module. Constructs that a
//! terminal cannot show are written as text: HTML unchanged, an image as its description and address.
//!
//! ```
//! let lines = pijs_terminal::markdown::lines("# Title\n\n- one\n- *two*", 20);
//! assert_eq!(lines.len(), 4);
//! assert!(lines[3].contains("\u{1b}[3mtwo"));
//! ```

mod styles;
mod table;

use crate::Limits;
use crate::layout::{width, wrap_styled};
use pijs_protocol::guard;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use styles::Styles;
use table::TableBuilder;

const RESET: &str = "\u{1b}[0m";
const HEADING: &str = "\u{1b}[1;33m";
const FIRST_HEADING: &str = "\u{1b}[1;4;33m";
const STRONG: &str = "\u{1b}[1m";
const EMPHASIS: &str = "\u{1b}[3m";
const STRUCK: &str = "\u{1b}[9m";
const CODE: &str = "\u{1b}[36m";
const CODE_BLOCK: &str = "\u{1b}[32m";
const LINK: &str = "\u{1b}[4;34m";
const QUOTE: &str = "\u{1b}[2;3m";
const FAINT: &str = "\u{1b}[2m";
const BULLET: &str = "\u{1b}[36m";
/// Maximum width of a horizontal rule in columns.
const RULE: usize = 80;
/// Maximum nesting that is indented; deeper blocks have this indentation. The text determines the nesting, and without a limit
/// the length of each line would grow with it.
const MAX_DEPTH: usize = 12;
/// Maximum length in bytes of a link text that is searched for the link's address.
const MAX_LINK_TEXT: usize = 1 << 12;

fn deepest() -> usize {
    if guard!(TerminalNesting) { MAX_DEPTH } else { usize::MAX }
}

/// Renders Markdown of unknown origin as lines of at most `columns`.
#[must_use]
pub fn lines(text: &str, columns: usize) -> Vec<String> {
    let clean = crate::within(&text.replace('\t', "    "), Limits { styles: false, ..Limits::unbounded() });
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = PageBuilder::new(columns.max(1));
    for event in Parser::new_ext(&clean, options) {
        page.take(event);
    }
    page.finish()
}

/// Prefix of the lines of a nested block.
struct BlockMargin {
    /// Prefix of the first line; `None` once it is written.
    first: Option<String>,
    rest: String,
}

struct PageBuilder {
    columns: usize,
    lines: Vec<String>,
    margins: Vec<BlockMargin>,
    /// The line being collected, with its styles.
    inline: String,
    styles: Styles,
    /// Next number of each open list; `None` for a bullet list.
    lists: Vec<Option<u64>>,
    /// Addresses of open links and images, with the offset of their text.
    links: Vec<(String, usize)>,
    code: Option<String>,
    table: Option<TableBuilder>,
    /// Whether a blank line precedes the next block.
    is_apart: bool,
}

impl PageBuilder {
    fn new(columns: usize) -> Self {
        Self {
            columns,
            lines: Vec::new(),
            margins: Vec::new(),
            inline: String::new(),
            styles: Styles::default(),
            lists: Vec::new(),
            links: Vec::new(),
            code: None,
            table: None,
            is_apart: false,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.inline.push_str(&text),
            },
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => self.styled(CODE, &text),
            Event::Html(text) | Event::InlineHtml(text) => {
                self.inline.push_str(text.trim_end_matches('\n'));
                if text.ends_with('\n') {
                    self.flush();
                }
            }
            Event::FootnoteReference(name) => self.styled(FAINT, &format!("[{name}]")),
            // A soft break is shown as a line break, because models use it as one.
            Event::SoftBreak | Event::HardBreak => self.break_line(),
            Event::Rule => {
                self.separate();
                let wide = self.columns_left().min(RULE);
                self.write(&format!("{FAINT}{}{RESET}", "─".repeat(wide)));
                self.is_apart = true;
            }
            Event::TaskListMarker(is_done) => self.styled(BULLET, if is_done { "[x] " } else { "[ ] " }),
        }
    }

    fn begin(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.separate(),
            Tag::Heading { level, .. } => {
                self.separate();
                self.open(if level == HeadingLevel::H1 { FIRST_HEADING } else { HEADING });
                if level > HeadingLevel::H2 {
                    self.inline.push_str(&format!("{} ", "#".repeat(level as usize)));
                }
            }
            Tag::BlockQuote(_) => {
                self.separate();
                let bar = if self.is_deep() { String::new() } else { format!("{FAINT}│{RESET} ") };
                self.margins.push(BlockMargin { first: None, rest: bar });
                self.styles.push(QUOTE);
            }
            Tag::CodeBlock(kind) => {
                self.separate();
                let language = match &kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.write(&format!("{FAINT}```{language}{RESET}"));
                self.code = Some(String::new());
            }
            Tag::List(start) => {
                self.flush();
                if self.lists.is_empty() {
                    self.separate();
                }
                self.lists.push(start);
            }
            Tag::Item => self.begin_item(),
            Tag::Table(alignments) => {
                self.separate();
                self.table = Some(TableBuilder::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.open(EMPHASIS),
            Tag::Strong => self.open(STRONG),
            Tag::Strikethrough => self.open(STRUCK),
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.inline.len()));
                self.open(LINK);
            }
            Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.inline.len()));
                self.open(EMPHASIS);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.is_apart = true;
            }
            TagEnd::Heading(_) => {
                self.close();
                self.flush();
                self.is_apart = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.styles.pop();
                self.margins.pop();
                self.is_apart = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.is_apart = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                // Even an empty item shows its marker.
                if self.margins.last().is_some_and(|margin| margin.first.is_some()) {
                    self.write("");
                }
                self.margins.pop();
                self.is_apart = false;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(table) = &mut self.table {
                    table.push(cell);
                }
            }
            TagEnd::Table => {
                let columns_left = self.columns_left();
                for line in self.table.take().map(|table| table.lines(columns_left)).unwrap_or_default() {
                    self.write(&line);
                }
                self.is_apart = true;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.close(),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn begin_item(&mut self) {
        self.flush();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "- ".to_owned(),
        };
        let rest = if self.is_deep() { String::new() } else { " ".repeat(mark.len()) };
        if self.is_deep()
            && let Some(outer) = self.margins.last_mut()
        {
            // If nested items begin on one line, only the innermost shows a marker.
            outer.first = None;
        }
        self.margins.push(BlockMargin { first: Some(format!("{BULLET}{mark}{RESET}")), rest });
    }

    fn end_code(&mut self) {
        let code = self.code.take().unwrap_or_default();
        for line in code.trim_end_matches('\n').split('\n') {
            self.write(&format!("{CODE_BLOCK}  {line}{RESET}"));
        }
        self.write(&format!("{FAINT}```{RESET}"));
        self.is_apart = true;
    }

    fn end_link(&mut self) {
        self.close();
        let Some((address, began)) = self.links.pop() else { return };
        let shown = self.inline.get(began..).unwrap_or_default();
        // The link text already contains the address.
        if !address.is_empty() && (shown.len() > MAX_LINK_TEXT || !shown.contains(&address)) {
            self.styled(FAINT, &format!(" ({address})"));
        }
    }

    fn open(&mut self, style: &'static str) {
        if self.styles.push(style) {
            self.inline.push_str(style);
        }
    }

    fn is_deep(&self) -> bool {
        self.margins.len() >= deepest()
    }

    fn close(&mut self) {
        if self.styles.pop() {
            self.inline.push_str(RESET);
            self.inline.push_str(&self.styles.held());
        }
    }

    fn styled(&mut self, style: &'static str, text: &str) {
        self.open(style);
        self.inline.push_str(text);
        self.close();
    }

    fn break_line(&mut self) {
        if self.table.is_some() {
            self.inline.push(' ');
        } else {
            self.flush();
        }
    }

    /// Writes the collected line.
    fn flush(&mut self) {
        let line = std::mem::take(&mut self.inline);
        let styles = self.styles.held();
        if width(&line) == 0 {
            self.inline = styles;
            return;
        }
        let end = if styles.is_empty() { "" } else { RESET };
        self.write(&format!("{styles}{line}{end}"));
        self.inline.push_str(&styles);
    }

    /// Returns the margins that are shown: the outer ones, and the innermost.
    fn shown(&mut self) -> impl Iterator<Item = &mut BlockMargin> {
        let outer = self.margins.len().min(deepest());
        let (outer, deep) = self.margins.split_at_mut(outer);
        outer.iter_mut().chain(deep.last_mut())
    }

    /// Returns the number of columns that the margins leave.
    fn columns_left(&mut self) -> usize {
        let taken: usize = self.shown().map(|margin| width(&margin.rest)).sum();
        self.columns.saturating_sub(taken).max(1)
    }

    fn write(&mut self, line: &str) {
        for part in wrap_styled(line, self.columns_left()) {
            let margin: String =
                self.shown().map(|margin| margin.first.take().unwrap_or_else(|| margin.rest.clone())).collect();
            let line = format!("{margin}{part}");
            self.lines.push(crate::layout::slice(&line, 0, self.columns));
        }
    }

    fn separate(&mut self) {
        self.flush();
        if std::mem::take(&mut self.is_apart) && !self.lines.is_empty() {
            // In a quote the bar continues; trailing blanks of a list are removed.
            let margin: String = self.shown().map(|margin| margin.rest.as_str()).collect();
            self.lines.push(margin.trim_end().to_owned());
        }
    }

    fn finish(mut self) -> Vec<String> {
        // An incomplete code block is shown as far as it has arrived.
        if self.code.is_some() {
            self.end_code();
        }
        self.flush();
        self.lines
    }
}

#[cfg(test)]
mod tests;
