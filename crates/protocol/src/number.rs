//! Deserializes fractions inside tagged and flattened types.
//!
//! serde buffers such a type before it knows the variant. When any crate of the program enables `serde_json/arbitrary_precision`
//! (the linker in `extc` does), a fraction in that buffer is not an `f64`, and a plain field refuses it. Deserializing the
//! fraction as a [`serde_json::Number`] works either way.

use serde::{Deserialize, Deserializer, de::Error};

/// Deserializes a fraction; for `#[serde(deserialize_with = "...")]`.
pub fn fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    number.as_f64().ok_or_else(|| D::Error::custom(format_args!("{number} is not a JavaScript number")))
}
