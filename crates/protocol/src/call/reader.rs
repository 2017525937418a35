//! Reads typed parameters from the JSON of a hostcall.

use crate::HostcallError;
use crate::hostcall::bytes_index;
use serde_json::{Map, Value};
use std::ops::Deref;
use std::sync::Arc;

/// Parameters of one call; each is taken once.
#[derive(Debug)]
pub struct CallReader<'m> {
    method: &'m str,
    params: Map<String, Value>,
    attachments: Vec<Arc<Vec<u8>>>,
}

impl<'m> CallReader<'m> {
    /// Creates a reader over parameters and attachments.
    pub fn new(method: &'m str, params: Map<String, Value>, attachments: Vec<Vec<u8>>) -> Self {
        Self { method, params, attachments: attachments.into_iter().map(Arc::new).collect() }
    }

    /// Takes a parameter; `None` if it is absent.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.params.get_mut(key).map(Value::take)
    }

    /// Takes a parameter; `None` if it is absent or null.
    pub fn take_present(&mut self, key: &str) -> Option<Value> {
        self.take(key).filter(|value| !value.is_null())
    }

    /// Returns whether a parameter is present, even if it is null.
    pub fn has(&self, key: &str) -> bool {
        self.params.contains_key(key)
    }

    /// Takes the name of the op. If the op `may_be_absent`, its name is then empty.
    pub(super) fn op(&mut self, may_be_absent: bool) -> Result<String, HostcallError> {
        if may_be_absent && self.params.get("op").is_none_or(Value::is_null) {
            return Ok(String::new());
        }
        let op = String::read(self, "op")?;
        if op.is_empty() { Err(self.unknown_op(&op)) } else { Ok(op) }
    }

    /// Returns the error of a parameter that is not of the expected form, such as `a whole number`.
    pub fn wrong(&self, key: &str, expected: &str) -> HostcallError {
        self.invalid(&format!("`{key}` is not {expected}"))
    }

    /// Returns the error of a malformed call.
    pub fn invalid(&self, problem: &str) -> HostcallError {
        HostcallError::invalid("schema", format!("{}: {problem}", self.method))
    }

    pub(super) fn unknown_op(&self, op: &str) -> HostcallError {
        self.invalid(&format!("there is no operation {op:?}")).with("op", op)
    }

    /// Returns an attachment by its index.
    pub fn attachment(&self, index: usize) -> Option<Arc<Vec<u8>>> {
        self.attachments.get(index).cloned()
    }

    /// Returns the bytes of a value: an attachment, or text as UTF-8.
    pub fn data(&self, value: Value) -> Option<CallData> {
        match value {
            Value::String(text) => Some(CallData::Text(text)),
            value => self.attachment(bytes_index(&value)?).map(CallData::Attached),
        }
    }
}

/// The type of a parameter.
pub trait CallParam: Sized {
    /// Reads the parameter `key`.
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError>;

    /// Returns the parameter as a member of a TypeScript object type.
    fn declaration(key: &str) -> String;
}

/// Bytes of a call: an attachment, or text that is used as UTF-8. An attachment is cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallData {
    /// Text, used as UTF-8.
    Text(String),
    /// Attached bytes.
    Attached(Arc<Vec<u8>>),
}

impl Deref for CallData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Attached(bytes) => bytes,
        }
    }
}

impl CallData {
    /// Returns the bytes, without a copy if they are not shared.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Attached(bytes) => Arc::unwrap_or_clone(bytes),
        }
    }
}

/// Returns the kind of a JSON value with its article, for messages: `a string`, `an array`.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl CallParam for String {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        match reader.take(key) {
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(reader.invalid(&format!("`{key}` is {}, not a string", kind(&other)))),
            None => Err(reader.invalid(&format!("`{key}` is missing"))),
        }
    }

    fn declaration(key: &str) -> String {
        format!("{key}: string")
    }
}

impl CallParam for Option<String> {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        match reader.take_present(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(reader.wrong(key, "a string")),
        }
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: string | null | undefined")
    }
}

/// A flag; an absent flag is false.
impl CallParam for bool {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        Ok(Option::<bool>::read(reader, key)?.unwrap_or(false))
    }

    fn declaration(key: &str) -> String {
        Option::<Self>::declaration(key)
    }
}

impl CallParam for Option<bool> {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        match reader.take_present(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(reader.wrong(key, "a boolean")),
        }
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: boolean | null | undefined")
    }
}

/// An integer. JavaScript's numbers may arrive with a fraction of zero.
impl CallParam for Option<u64> {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        let Some(value) = reader.take_present(key) else { return Ok(None) };
        let float = || value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(f));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just above")]
        let whole = value.as_u64().or_else(|| float().map(|f| f as u64));
        whole.map(Some).ok_or_else(|| reader.wrong(key, "a whole number"))
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: number | null | undefined")
    }
}

impl CallParam for u64 {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        Option::<u64>::read(reader, key)?.ok_or_else(|| reader.wrong(key, "a whole number"))
    }

    fn declaration(key: &str) -> String {
        format!("{key}: number")
    }
}

impl CallParam for f64 {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        let number = reader.take(key).as_ref().and_then(Value::as_f64);
        number.ok_or_else(|| reader.wrong(key, "a number"))
    }

    fn declaration(key: &str) -> String {
        format!("{key}: number")
    }
}

impl CallParam for Option<CallData> {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        let Some(value) = reader.take_present(key) else { return Ok(None) };
        reader.data(value).map(Some).ok_or_else(|| reader.wrong(key, "text or attached bytes"))
    }

    fn declaration(key: &str) -> String {
        format!("{key}?: string | {{ $bytes: number }} | null | undefined")
    }
}

impl CallParam for CallData {
    fn read(reader: &mut CallReader<'_>, key: &str) -> Result<Self, HostcallError> {
        Option::<CallData>::read(reader, key)?.ok_or_else(|| reader.wrong(key, "text or attached bytes"))
    }

    fn declaration(key: &str) -> String {
        format!("{key}: string | {{ $bytes: number }}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reader(params: Value) -> CallReader<'static> {
        let Value::Object(params) = params else { panic!("parameters are an object") };
        CallReader::new("fs", params, vec![b"attached".to_vec()])
    }

    fn read<T: CallParam>(value: Value) -> Result<T, String> {
        T::read(&mut reader(json!({ "x": value })), "x").map_err(|error| error.message)
    }

    #[test]
    fn absent_and_null_parameters_are_those_that_may_be() {
        assert_eq!(read::<Option<u64>>(json!(null)), Ok(None));
        assert_eq!(read::<Option<String>>(json!(null)), Ok(None));
        assert_eq!(read::<bool>(json!(null)), Ok(false));
        assert_eq!(read::<String>(json!(null)), Err("fs: `x` is null, not a string".to_owned()));
        assert_eq!(read::<u64>(json!(null)), Err("fs: `x` is not a whole number".to_owned()));
        let missing = String::read(&mut reader(json!({})), "x").map_err(|error| error.message);
        assert_eq!(missing, Err("fs: `x` is missing".to_owned()));
    }

    #[test]
    fn an_empty_op_is_not_an_absent_one() {
        assert_eq!(reader(json!({})).op(true).map_err(|error| error.message), Ok(String::new()));
        assert_eq!(reader(json!({ "op": null })).op(true).map_err(|error| error.message), Ok(String::new()));
        let empty = reader(json!({ "op": "" })).op(true).map_err(|error| error.message);
        assert_eq!(empty, Err("fs: there is no operation \"\"".to_owned()));
    }

    #[test]
    fn numbers_of_javascript_are_whole_with_a_fraction_of_zero() {
        assert_eq!(read::<u64>(json!(3.0)), Ok(3));
        for wrong in [json!(3.5), json!(-1), json!(1e300), json!("3"), json!(true)] {
            assert_eq!(read::<u64>(wrong), Err("fs: `x` is not a whole number".to_owned()));
        }
    }

    #[test]
    fn data_is_text_or_an_attachment_that_exists() {
        assert_eq!(read::<CallData>(json!("text")).as_deref(), Ok(b"text".as_slice()));
        assert_eq!(read::<CallData>(json!({"$bytes": 0})).map(CallData::into_vec), Ok(b"attached".to_vec()));
        for wrong in [json!({"$bytes": 1}), json!({"$bytes": 0, "more": 1}), json!(["text"])] {
            assert_eq!(read::<CallData>(wrong), Err("fs: `x` is not text or attached bytes".to_owned()));
        }
    }
}
