//! Message digests and HMACs, fed piece by piece.

use crate::natives::{self, Call};
use digest::{FixedOutput, KeyInit, Update};
use hmac::Hmac;
use rquickjs::{Exception, Result, TypedArray, Value};
use std::cell::RefCell;

/// Calls `$run` with the digest type that `$name` stands for; `None` for an unknown name.
macro_rules! with_digest {
    ($name:expr, $run:ident, ($($argument:expr),*)) => {
        match $name {
            "md5" => Some($run::<md5::Md5>($($argument),*)),
            "ripemd160" => Some($run::<ripemd::Ripemd160>($($argument),*)),
            "sha1" => Some($run::<sha1::Sha1>($($argument),*)),
            "sha224" => Some($run::<sha2::Sha224>($($argument),*)),
            "sha256" => Some($run::<sha2::Sha256>($($argument),*)),
            "sha384" => Some($run::<sha2::Sha384>($($argument),*)),
            "sha512" => Some($run::<sha2::Sha512>($($argument),*)),
            "sha512-224" => Some($run::<sha2::Sha512_224>($($argument),*)),
            "sha512-256" => Some($run::<sha2::Sha512_256>($($argument),*)),
            "sha3-224" => Some($run::<sha3::Sha3_224>($($argument),*)),
            "sha3-256" => Some($run::<sha3::Sha3_256>($($argument),*)),
            "sha3-384" => Some($run::<sha3::Sha3_384>($($argument),*)),
            "sha3-512" => Some($run::<sha3::Sha3_512>($($argument),*)),
            _ => None,
        }
    };
}
pub(crate) use with_digest;

/// What every digest of the table is.
pub(crate) trait Digester: digest::Digest + Update + FixedOutput + Default + Clone + 'static {}
impl<D: digest::Digest + Update + FixedOutput + Default + Clone + 'static> Digester for D {}

/// A digest or an HMAC in progress.
trait Running {
    fn update(&mut self, bytes: &[u8]);
    fn finish(self: Box<Self>) -> Vec<u8>;
    fn copy(&self) -> Box<dyn Running>;
}

impl<T: Update + FixedOutput + Clone + 'static> Running for T {
    fn update(&mut self, bytes: &[u8]) {
        Update::update(self, bytes);
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize_fixed().to_vec()
    }
    fn copy(&self) -> Box<dyn Running> {
        Box::new(self.clone())
    }
}

fn plain<D: Digester>() -> Box<dyn Running> {
    Box::new(D::default())
}

fn keyed(name: &str, key: &[u8]) -> Option<Box<dyn Running>> {
    macro_rules! hmac {
        ($($text:literal $digest:ty),*) => {
            match name {
                $($text => {
                    // A key of any length is accepted: longer ones are digested first.
                    let mac = <Hmac<$digest> as KeyInit>::new_from_slice(key).ok()?;
                    Some(Box::new(mac) as Box<dyn Running>)
                })*
                _ => None,
            }
        };
    }
    hmac!(
        "md5" md5::Md5, "ripemd160" ripemd::Ripemd160, "sha1" sha1::Sha1, "sha224" sha2::Sha224, "sha256" sha2::Sha256,
        "sha384" sha2::Sha384, "sha512" sha2::Sha512, "sha512-224" sha2::Sha512_224, "sha512-256" sha2::Sha512_256,
        "sha3-224" sha3::Sha3_224, "sha3-256" sha3::Sha3_256, "sha3-384" sha3::Sha3_384, "sha3-512" sha3::Sha3_512
    )
}

/// `digest(name, key?)`: `undefined` for an unknown name, else a function. With bytes it adds them, without
/// arguments it ends and gives the digest, with `true` it gives a function that goes on from the same state.
pub(crate) fn create<'js>(call: &Call<'_, 'js>) -> Result<Value<'js>> {
    let name = call.text(0)?;
    let running =
        if call.arg(1).is_undefined() { with_digest!(name.as_str(), plain, ()) } else { keyed(&name, &call.bytes(1)?) };
    match running {
        Some(running) => function(call, running),
        None => Ok(Value::new_undefined(call.ctx().clone())),
    }
}

fn function<'js>(call: &Call<'_, 'js>, running: Box<dyn Running>) -> Result<Value<'js>> {
    let state = RefCell::new(Some(running));
    natives::closure(call.ctx(), "digest", move |call| {
        let ctx = call.ctx();
        let mut state = state.borrow_mut();
        let Some(running) = state.as_mut() else {
            return Err(Exception::throw_type(ctx, "the digest has been taken"));
        };
        if call.flag(0) {
            return function(call, running.copy());
        }
        if call.len() > 0 {
            running.update(&call.bytes(0)?);
            return Ok(Value::new_undefined(ctx.clone()));
        }
        let digest = state.take().map(Running::finish).unwrap_or_default();
        Ok(TypedArray::<u8>::new_copy(ctx.clone(), digest)?.into_value())
    })
}
