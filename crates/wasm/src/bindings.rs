//! Types and traits of the world `pi:extension`, generated from `schema/wit/extension.wit`.

#![allow(
    clippy::error_impl_error,
    clippy::allow_attributes_without_reason,
    reason = "the macro writes this; the world has the documentation"
)]

wasmtime::component::bindgen!({ path: "../../schema/wit", world: "extension" });
