//! Lists the imports and exports of a module, and makes its start function callable.
//!
//! The interpreter runs a start function during instantiation, which cannot be resumed after it runs out of fuel. So the start
//! section is replaced by an export under an unused name:
//!
//! ```text
//! ... export: run=3 | start: 7 | element ...   ->   ... export: run=3, "\0"=7 | element ...
//! ```

use wasmi::{Mutability, RefType, ValType};

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Vector.
    V128,
    /// Function reference.
    FuncRef,
    /// Reference to a value of the embedder.
    ExternRef,
}

impl From<ValType> for ValueType {
    fn from(ty: ValType) -> Self {
        match ty {
            ValType::I32 => Self::I32,
            ValType::I64 => Self::I64,
            ValType::F32 => Self::F32,
            ValType::F64 => Self::F64,
            ValType::V128 => Self::V128,
            ValType::FuncRef => Self::FuncRef,
            ValType::ExternRef => Self::ExternRef,
        }
    }
}

impl From<ValueType> for ValType {
    fn from(ty: ValueType) -> Self {
        match ty {
            ValueType::I32 => Self::I32,
            ValueType::I64 => Self::I64,
            ValueType::F32 => Self::F32,
            ValueType::F64 => Self::F64,
            ValueType::V128 => Self::V128,
            ValueType::FuncRef => Self::FuncRef,
            ValueType::ExternRef => Self::ExternRef,
        }
    }
}

/// The type of a function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FuncType {
    /// Types of the parameters.
    pub params: Vec<ValueType>,
    /// Types of the results.
    pub results: Vec<ValueType>,
}

impl From<&wasmi::FuncType> for FuncType {
    fn from(ty: &wasmi::FuncType) -> Self {
        let list = |types: &[ValType]| types.iter().copied().map(ValueType::from).collect();
        Self { params: list(ty.params()), results: list(ty.results()) }
    }
}

/// The type of an import or export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternType {
    /// A function.
    Func(FuncType),
    /// A table.
    Table,
    /// A memory.
    Memory,
    /// A global variable.
    Global {
        /// Type of the value.
        content: ValueType,
        /// Whether the global is mutable.
        mutable: bool,
    },
}

impl ExternType {
    /// Returns the name that JavaScript uses for the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Func(_) => "function",
            Self::Table => "table",
            Self::Memory => "memory",
            Self::Global { .. } => "global",
        }
    }
}

impl From<&wasmi::ExternType> for ExternType {
    fn from(ty: &wasmi::ExternType) -> Self {
        match ty {
            wasmi::ExternType::Func(ty) => Self::Func(ty.into()),
            wasmi::ExternType::Table(_) => Self::Table,
            wasmi::ExternType::Memory(_) => Self::Memory,
            wasmi::ExternType::Global(ty) => {
                Self::Global { content: ty.content().into(), mutable: ty.mutability() == Mutability::Var }
            }
        }
    }
}

/// An import of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Name of the module that provides the import.
    pub module: String,
    /// Name of the import in that module.
    pub name: String,
    /// Type of the import.
    pub ty: ExternType,
}

/// An export of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Name of the export.
    pub name: String,
    /// Type of the export.
    pub ty: ExternType,
    /// Index of a function in the module, which Node uses as the function's name.
    pub index: u32,
}

/// A compiled module with its imports and exports.
pub(crate) struct Module {
    pub(crate) code: wasmi::Module,
    pub(crate) imports: Vec<Import>,
    /// The interpreter's index of each import. The interpreter sorts imports: functions first, then tables, memories and globals.
    pub(crate) import_places: Vec<usize>,
    pub(crate) exports: Vec<Export>,
    /// Name of the export that replaces the start section; `None` if there was none.
    pub(crate) start: Option<String>,
    /// Memory in bytes that one instance needs in addition to its memories and tables.
    pub(crate) instance_bytes: usize,
}

impl Module {
    /// Describes a compiled module. `bytes` is the binary from which `code` was compiled.
    pub(crate) fn new(code: wasmi::Module, bytes: &[u8], start: Option<String>, counts: Counts) -> Self {
        let given: Vec<_> = code.imports().collect();
        let import_places = import_places(&import_kinds(bytes).unwrap_or_default());
        let imports = import_places.iter().filter_map(|place| given.get(*place)).map(|import| Import {
            module: import.module().to_owned(),
            name: import.name().to_owned(),
            ty: import.ty().into(),
        });
        let imports = imports.collect();
        // The interpreter does not keep the order of imports.
        let exports = exported(bytes)
            .into_iter()
            .filter(|(name, _)| start.as_ref() != Some(name))
            .filter_map(|(name, index)| Some(Export { ty: (&code.get_export(&name)?).into(), name, index }))
            .collect();
        let instance_bytes = 256 + 128 * (counts.functions + counts.globals);
        drop(given);
        Self { imports, import_places, exports, start, instance_bytes, code }
    }
}

/// Numbers of definitions that need memory in each instance.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) functions: usize,
    pub(crate) globals: usize,
}

const PREAMBLE: usize = 8;
const IMPORT: u8 = 2;
const FUNCTION: u8 = 3;
const GLOBAL: u8 = 6;
const EXPORT: u8 = 7;
const START: u8 = 8;

const FUNCTION_KIND: u8 = 0;
const TABLE_KIND: u8 = 1;
const MEMORY_KIND: u8 = 2;

/// A section with its id and content.
struct Section<'a> {
    id: u8,
    content: &'a [u8],
}

/// Lists the sections; stops where the bytes are malformed, which the validator reports.
fn sections(bytes: &[u8]) -> Vec<Section<'_>> {
    let mut list = Vec::new();
    let mut rest = bytes.get(PREAMBLE..).unwrap_or_default();
    while let Some((&id, after)) = rest.split_first() {
        let Some((length, after)) = read_u32(after) else { break };
        let Some((content, after)) = after.split_at_checked(length as usize) else { break };
        list.push(Section { id, content });
        rest = after;
    }
    list
}

/// Counts definitions without validating them.
pub(crate) fn counts(bytes: &[u8]) -> Counts {
    let mut counts = Counts::default();
    for section in sections(bytes) {
        // Each definition takes at least one byte, so a wrong count is limited by the size of the section.
        let count = read_u32(section.content).map_or(0, |(count, _)| count as usize).min(section.content.len());
        match section.id {
            FUNCTION => counts.functions = count,
            GLOBAL => counts.globals = count,
            _ => {}
        }
    }
    counts
}

/// Lists the kinds of the imports of a valid module in their order.
fn import_kinds(bytes: &[u8]) -> Option<Vec<u8>> {
    let list = sections(bytes);
    let Some(section) = list.iter().find(|section| section.id == IMPORT) else { return Some(Vec::new()) };
    let (count, mut rest) = read_u32(section.content)?;
    let mut kinds = Vec::new();
    for _ in 0..count {
        for _ in ["module", "name"] {
            let (length, after) = read_u32(rest)?;
            rest = after.get(length as usize..)?;
        }
        let (&kind, after) = rest.split_first()?;
        rest = match kind {
            FUNCTION_KIND => skip_number(after)?,
            TABLE_KIND => skip_limits(skip_type(after)?)?,
            MEMORY_KIND => skip_limits(after)?,
            _ => skip_type(after)?.get(1..)?,
        };
        kinds.push(kind);
    }
    Some(kinds)
}

/// Returns the index of each import after all imports are sorted by kind.
fn import_places(kinds: &[u8]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..kinds.len()).collect();
    sorted.sort_by_key(|index| kinds[*index]);
    let mut places = vec![0; kinds.len()];
    for (place, index) in sorted.into_iter().enumerate() {
        places[index] = place;
    }
    places
}

fn skip_number(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0)?;
    bytes.get(end + 1..)
}

/// Skips a value type, including the heap type of a reference type.
fn skip_type(bytes: &[u8]) -> Option<&[u8]> {
    let (first, rest) = bytes.split_first()?;
    if matches!(first, 0x63 | 0x64) { skip_number(rest) } else { Some(rest) }
}

fn skip_limits(bytes: &[u8]) -> Option<&[u8]> {
    let (flags, rest) = bytes.split_first()?;
    let rest = skip_number(rest)?;
    if flags & 1 == 1 { skip_number(rest) } else { Some(rest) }
}

/// Lists the names of the exports of a valid module, with the index of each among its kind.
fn exported(bytes: &[u8]) -> Vec<(String, u32)> {
    fn entry(bytes: &[u8]) -> Option<((String, u32), &[u8])> {
        let (length, rest) = read_u32(bytes)?;
        let (name, rest) = rest.split_at_checked(length as usize)?;
        let (index, rest) = read_u32(rest.get(1..)?)?;
        Some(((String::from_utf8_lossy(name).into_owned(), index), rest))
    }
    let mut list = Vec::new();
    for section in sections(bytes).iter().filter(|section| section.id == EXPORT) {
        let Some((count, mut rest)) = read_u32(section.content) else { continue };
        for _ in 0..count {
            let Some((found, after)) = entry(rest) else { break };
            list.push(found);
            rest = after;
        }
    }
    list
}

/// Returns whether a module has a start section.
pub(crate) fn has_start(bytes: &[u8]) -> bool {
    sections(bytes).iter().any(|section| section.id == START)
}

/// Replaces the start section of a valid module by an export of the start function. Returns the new module and the name of the
/// export; `None` without a start section.
pub(crate) fn export_start(bytes: &[u8]) -> Option<(Vec<u8>, String)> {
    let list = sections(bytes);
    let start = list.iter().find(|section| section.id == START)?;
    let (function, _) = read_u32(start.content)?;
    let mut name = "\0".to_owned();
    while contains(bytes, name.as_bytes()) {
        name.push('\0');
    }
    let mut export = Vec::new();
    write_u32(&mut export, u32::try_from(name.len()).ok()?);
    export.extend_from_slice(name.as_bytes());
    export.push(0);
    write_u32(&mut export, function);

    let has_exports = list.iter().any(|section| section.id == EXPORT);
    let mut out = bytes.get(..PREAMBLE)?.to_vec();
    for section in &list {
        match section.id {
            EXPORT => {
                let (count, entries) = read_u32(section.content)?;
                let mut content = Vec::with_capacity(section.content.len() + export.len() + 1);
                write_u32(&mut content, count.checked_add(1)?);
                content.extend_from_slice(entries);
                content.extend_from_slice(&export);
                write_section(&mut out, EXPORT, &content)?;
            }
            // The export section comes right before the start section.
            START if !has_exports => {
                let mut content = vec![1];
                content.extend_from_slice(&export);
                write_section(&mut out, EXPORT, &content)?;
            }
            START => {}
            id => write_section(&mut out, id, section.content)?,
        }
    }
    Some((out, name))
}

/// Returns the custom sections of one name.
pub(crate) fn custom_sections<'a>(module: &'a wasmi::Module, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    module.custom_sections().filter(move |section| section.name() == name).map(|section| section.data())
}

/// Checks the magic number and version at the beginning of a module.
pub(crate) fn check_preamble(bytes: &[u8]) -> Result<(), String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    if bytes.is_empty() {
        return Err("BufferSource argument is empty".to_owned());
    }
    let (magic, version) = bytes.split_at(bytes.len().min(4));
    if magic.len() < 4 {
        return Err("expected 4 bytes, fell off end @+0".to_owned());
    }
    if magic != b"\0asm" {
        return Err(format!("expected magic word 00 61 73 6d, found {} @+0", hex(magic)));
    }
    let Some(version) = version.get(..4) else {
        return Err("expected 4 bytes, fell off end @+4".to_owned());
    };
    if version != [1, 0, 0, 0] {
        return Err(format!("expected version 01 00 00 00, found {} @+4", hex(version)));
    }
    Ok(())
}

/// Converts the type of a reference.
pub(crate) fn reference_type(ty: RefType) -> crate::ReferenceType {
    match ty {
        RefType::Func => crate::ReferenceType::Func,
        RefType::Extern => crate::ReferenceType::Extern,
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn write_section(out: &mut Vec<u8>, id: u8, content: &[u8]) -> Option<()> {
    out.push(id);
    write_u32(out, u32::try_from(content.len()).ok()?);
    out.extend_from_slice(content);
    Some(())
}

/// Reads a LEB128 number. Returns it with the rest of the bytes.
fn read_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0_u32;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

fn write_u32(out: &mut Vec<u8>, mut value: u32) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(byte);
        }
        out.push(byte | 0x80);
    }
}
