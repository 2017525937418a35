//! Values, ids of objects of a store, and failures.

/// Defines the id of an object that a store owns.
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
    /// A function of the embedder, which chooses the number.
    ImportId
);
id!(
    /// A value of the embedder that an `externref` refers to; the embedder chooses the number.
    ExternId
);

/// An argument or a result of a function.
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

/// A reference; `None` is null.
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

/// Reason why running code ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// The instruction `unreachable`.
    Unreachable,
    /// An address outside of the memory.
    MemoryOutOfBounds,
    /// An index outside of the table.
    TableOutOfBounds,
    /// An indirect call through null, or of a function of another type.
    WrongFunction,
    /// A division by zero.
    DivideByZero,
    /// A number that the target integer type cannot represent.
    Unrepresentable,
    /// Too many nested calls.
    StackOverflow,
    /// Not enough memory for an operation that cannot report the error in any other way.
    OutOfMemory,
}

impl Trap {
    /// Returns the message that Node shows.
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

/// Reason why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The module is invalid, or uses a feature that is not supported.
    Compile(String),
    /// An import does not match its declaration.
    Link(String),
    /// Running code trapped.
    Trap(Trap),
    /// A limit was exceeded.
    Limit(String),
    /// [`Embedder::call_import`](crate::Embedder::call_import) failed, or the budget of the turn is exhausted.
    Stopped,
}
