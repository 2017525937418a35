//! Values, numbers of what a store owns, and failures.

/// Defines a number of something that a store owns.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    };
}

id!(
    /// A compiled module.
    ModuleId
);
id!(
    /// A function, of a module or imported.
    FuncId
);
id!(
    /// A linear memory.
    MemoryId
);
id!(
    /// A table.
    TableId
);
id!(
    /// A global.
    GlobalId
);
id!(
    /// A function of the embedder; it chooses the number.
    ImportId
);
id!(
    /// A value of the embedder behind an `externref`; it chooses the number.
    ExternId
);

/// A value that goes into a function or comes out of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// 32-bit integer.
    I32(i32),
    /// 64-bit integer.
    I64(i64),
    /// Single precision.
    F32(f32),
    /// Double precision.
    F64(f64),
    /// Vector.
    V128(u128),
    /// Reference.
    Ref(Reference),
}

/// A reference, `None` for null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// `funcref`.
    Func(Option<FuncId>),
    /// `externref`.
    Extern(Option<ExternId>),
}

/// The type of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceType {
    /// `funcref`.
    Func,
    /// `externref`.
    Extern,
}

/// Why running code ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// The instruction `unreachable`.
    Unreachable,
    /// An address outside of the memory.
    MemoryOutOfBounds,
    /// An index outside of the table.
    TableOutOfBounds,
    /// An indirect call through null or to another type.
    WrongFunction,
    /// A division by zero.
    DivideByZero,
    /// A number that is no integer of the wanted size.
    Unrepresentable,
    /// Too many calls in one another.
    StackOverflow,
    /// No memory was left for what could not be refused otherwise.
    OutOfMemory,
}

impl Trap {
    /// Returns the message that Node gives.
    pub fn message(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::MemoryOutOfBounds => "memory access out of bounds",
            Self::TableOutOfBounds => "table index is out of bounds",
            Self::WrongFunction => "null function or function signature mismatch",
            Self::DivideByZero => "divide by zero",
            Self::Unrepresentable => "float unrepresentable in integer range",
            Self::StackOverflow => "Maximum call stack size exceeded",
            Self::OutOfMemory => "the memory limit of the realm is reached",
        }
    }
}

/// Why an operation did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The bytes are no module that can be run here.
    Compile(String),
    /// An import does not fit.
    Link(String),
    /// Running code ended.
    Trap(Trap),
    /// More was asked for than there may be.
    Limit(String),
    /// [`Embedder::call_import`](crate::Embedder::call_import) failed, or the budget of the turn is used up.
    Stopped,
}
