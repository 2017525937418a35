//! From a position in an artifact's module to the author's file.
//!
//! The engine reports stack positions in the bundle; nobody wrote that text. [`SourceMaps`] reads
//! the maps of an artifact, each on its first use, and answers with the file, line and column of
//! the source that was compiled. Positions are 1-based on both sides, columns in UTF-16 units.

use oxc_sourcemap::SourceMap;
use pijs_artifact::Artifact;
use pijs_protocol::message::Position;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::diagnostics::Place;

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
    tables: BTreeMap<String, Lazy>,
}

#[derive(Debug)]
struct Lazy {
    json: String,
    table: OnceLock<Option<PositionTable>>,
}

impl SourceMaps {
    /// Takes the maps of an artifact; parses none of them yet.
    pub fn new(artifact: &Artifact) -> Self {
        let tables = artifact
            .modules
            .iter()
            .filter_map(|module| {
                let json = module.source_map.clone()?;
                Some((module.specifier.clone(), Lazy { json, table: OnceLock::new() }))
            })
            .collect();
        Self { tables }
    }

    /// The source position of a module's position; `None` for glue that nobody wrote.
    pub fn original(&self, specifier: &str, line: u32, column: u32) -> Option<Place> {
        let lazy = self.tables.get(specifier)?;
        lazy.table.get_or_init(|| PositionTable::parse(&lazy.json)).as_ref()?.original(line, column)
    }
}

impl pijs_host::PositionMap for SourceMaps {
    fn source_position(&self, module: &str, line: u32, column: u32) -> Option<Position> {
        let Place { file, line, column } = self.original(module, line, column)?;
        Some(Position { file, line, column })
    }
}

/// One parsed source map.
#[derive(Debug)]
pub(crate) struct PositionTable {
    map: SourceMap<'static>,
}

impl PositionTable {
    pub(crate) fn parse(json: &str) -> Option<Self> {
        SourceMap::from_json_string(json).ok().map(|map| Self { map: map.into_owned() })
    }

    pub(crate) fn original(&self, line: u32, column: u32) -> Option<Place> {
        let lookup = self.map.generate_lookup_table();
        let token = self.map.lookup_token(&lookup, line.checked_sub(1)?, column.checked_sub(1)?)?;
        // A token of an earlier line says nothing about this one.
        if token.get_dst_line() + 1 != line {
            return None;
        }
        let file = self.map.get_source(token.get_source_id()?)?.to_owned();
        Some(Place { file, line: token.get_src_line() + 1, column: token.get_src_col() + 1 })
    }
}
