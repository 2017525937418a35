//! Maps positions in an artifact's modules to the author's files.
//!
//! The engine reports stack positions in the bundle. [`SourceMaps`] reads the maps of an artifact, each on first use, and
//! returns the file, line and column of the compiled source. Positions are 1-based on both sides, columns in UTF-16 units.

use oxc_sourcemap::{SourceMap, Token};
use pijs_artifact::{Artifact, PositionMap, Verified};
use pijs_protocol::message::Position;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use pijs_diagnostics::Place;

/// Maps positions of an artifact's modules.
///
/// ```no_run
/// # fn show(artifact: &pijs_artifact::Artifact) {
/// let maps = pijs_extc::SourceMaps::new(artifact);
/// if let Some(place) = maps.original("ext:/0/index.js", 120, 7) {
///     assert_eq!(place.file, "src/rules.ts");
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct SourceMaps {
    artifact: Arc<Verified>,
    tables: BTreeMap<String, OnceLock<Option<PositionTable>>>,
}

impl SourceMaps {
    /// Creates the table for the maps of an artifact; maps are parsed on first use.
    pub fn new(artifact: &Artifact) -> Self {
        Self::of(&Arc::new(Verified::compiled_here(artifact.clone())))
    }

    /// Creates the table for an artifact whose maps may be stored separately; maps are read on first use.
    pub fn of(artifact: &Arc<Verified>) -> Self {
        let modules = &artifact.artifact().modules;
        let tables = modules.iter().map(|module| (module.specifier.clone(), OnceLock::new())).collect();
        Self { artifact: Arc::clone(artifact), tables }
    }

    /// Returns the source position of a position in a module; `None` for generated code.
    pub fn original(&self, specifier: &str, line: u32, column: u32) -> Option<Place> {
        let table = self.tables.get(specifier)?;
        let parse = || PositionTable::parse(self.artifact.source_map(specifier)?);
        table.get_or_init(parse).as_ref()?.original(line, column)
    }
}

impl PositionMap for SourceMaps {
    fn source_position(&self, module: &str, line: u32, column: u32) -> Option<Position> {
        let Place { file, line, column } = self.original(module, line, column)?;
        Some(Position { file, line, column })
    }
}

/// One parsed source map.
#[derive(Debug)]
pub(crate) struct PositionTable {
    /// Tokens sorted by the bundle's lines and columns, so that each stack frame takes one binary search.
    tokens: Box<[Token]>,
    sources: Vec<String>,
}

impl PositionTable {
    pub(crate) fn parse(json: &str) -> Option<Self> {
        let parts = SourceMap::from_json_string(json).ok()?.into_parts();
        let mut tokens = parts.tokens;
        tokens.sort_by_key(|token| (token.get_dst_line(), token.get_dst_col()));
        Some(Self { tokens, sources: parts.sources.into_iter().map(Cow::into_owned).collect() })
    }

    pub(crate) fn original(&self, line: u32, column: u32) -> Option<Place> {
        let place = (line.checked_sub(1)?, column.checked_sub(1)?);
        let token = self.token(place)?;
        let file = self.sources.get(usize::try_from(token.get_source_id()?).ok()?)?.clone();
        Some(Place { file, line: token.get_src_line() + 1, column: token.get_src_col() + 1 })
    }

    /// Returns the first token at a position of the bundle, or else the last token before it in the same line.
    fn token(&self, place: (u32, u32)) -> Option<&Token> {
        fn of(token: &Token) -> (u32, u32) {
            (token.get_dst_line(), token.get_dst_col())
        }
        let after = self.tokens.partition_point(|token| of(token) < place);
        let exact = self.tokens.get(after).filter(|token| of(token) == place);
        // A token of an earlier line does not describe this position.
        exact.or_else(|| self.tokens.get(after.checked_sub(1)?).filter(|token| token.get_dst_line() == place.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_in_the_map() {
        let json = r#"{"version":3,"sources":["a.ts","b.ts"],"names":[],
            "mappings":"AAAA,GAAI,GAAI,EACR,IAAI;;CCCA,MAAM;AAAA"}"#;
        let map = SourceMap::from_json_string(json).unwrap();
        let (lookup, table) = (map.generate_lookup_table(), PositionTable::parse(json).unwrap());
        for line in 0..6 {
            for column in 0..24 {
                let expected = map.lookup_token(&lookup, line, column).map(|token| {
                    let file = map.get_source(token.get_source_id().unwrap()).unwrap().to_owned();
                    (file, token.get_src_line() + 1, token.get_src_col() + 1)
                });
                let found = table.original(line + 1, column + 1).map(|place| (place.file, place.line, place.column));
                assert_eq!(found, expected, "{line}:{column}");
            }
        }
        assert!(table.original(0, 1).is_none() && table.original(1, 0).is_none());
    }
}
