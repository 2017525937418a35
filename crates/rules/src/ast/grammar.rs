//! The grammars of the languages, and the encoding of ast-grep's patterns in them.

use super::AstLanguage;
use super::document::Document;
use ast_grep_core::Language;
use ast_grep_core::matcher::{Pattern, PatternBuilder, PatternError};
use std::borrow::Cow;

/// Replaces `$` where a grammar does not allow `$` at the start of a name.
///
/// It is a letter in every language, and ast-grep uses the same one for these three.
const EXPANDO: char = 'µ';

impl AstLanguage {
    /// Returns the grammar.
    pub(super) fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
            Self::JavaScript => tree_sitter_javascript::LANGUAGE,
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::Python => tree_sitter_python::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
        }
        .into()
    }
}

impl Language for AstLanguage {
    fn expando_char(&self) -> char {
        match self {
            Self::TypeScript | Self::Tsx | Self::JavaScript => self.meta_var_char(),
            Self::Rust | Self::Python | Self::Go => EXPANDO,
        }
    }

    fn pre_process_pattern<'q>(&self, query: &'q str) -> Cow<'q, str> {
        match self.expando_char() {
            '$' => Cow::Borrowed(query),
            expando => Cow::Owned(replace_sigils(query, expando)),
        }
    }

    fn kind_to_id(&self, kind: &str) -> u16 {
        self.grammar().id_for_node_kind(kind, true)
    }

    fn field_to_id(&self, field: &str) -> Option<u16> {
        self.grammar().field_id_for_name(field).map(|id| id.get())
    }

    fn build_pattern(&self, builder: &PatternBuilder<'_>) -> Result<Pattern, PatternError> {
        builder.build(|source| Document::parse_pattern(source, *self))
    }
}

/// Replaces each `$` that begins a metavariable (`$A`, `$_`, `$$A`, `$$$A`, `$$$`). Other `$` stay.
fn replace_sigils(pattern: &str, expando: char) -> String {
    let mut replaced = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(at) = rest.find('$') {
        replaced.push_str(&rest[..at]);
        rest = &rest[at..];
        let count = rest.len() - rest.trim_start_matches('$').len();
        let named = rest[count..].starts_with(|next: char| next.is_ascii_uppercase() || next == '_');
        let sigil = if named || count == 3 { expando } else { '$' };
        replaced.extend(std::iter::repeat_n(sigil, count));
        rest = &rest[count..];
    }
    replaced.push_str(rest);
    replaced
}
