//! Binds `pijs_compute` to `pi:engine`: digests, ciphers, compression and keys.
//!
//! Each constructor here (`digest`, `cipher`, `compressor`, `readKey`, ...) returns a function whose state is a Rust value, freed
//! with the function. A failure that depends on the data is returned, not thrown: TypeScript code creates the errors with Node's
//! names and members.

use crate::native_call::{self, NativeCall};
use crate::values;
use pijs_compute::Refused;
use pijs_compute::cipher::{Cipher, CipherFailure};
use pijs_compute::derive::{ScryptCost, hkdf, pbkdf2, scrypt};
use pijs_compute::digest::Hasher;
use pijs_compute::keys::{self, ChaCha20Rng, Form, Key, Scheme};
use pijs_compute::zlib::{self, Codec, Step};
use rquickjs::{Array, Ctx, Exception, Object, Result, TypedArray, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// Maximum output of one step of a codec, in bytes.
const MAX_STEP: u64 = 1 << 20;

fn undefined<'js>(ctx: &Ctx<'js>) -> Value<'js> {
    Value::new_undefined(ctx.clone())
}

/// Returns bytes as a `Uint8Array`, or `undefined` for `None`.
fn bytes_or_undefined<'js>(ctx: &Ctx<'js>, bytes: Option<impl AsRef<[u8]>>) -> Result<Value<'js>> {
    match bytes {
        Some(bytes) => Ok(TypedArray::<u8>::new_copy(ctx.clone(), bytes)?.into_value()),
        None => Ok(undefined(ctx)),
    }
}

/// Throws a `RangeError` for parameters that `pijs_compute` refuses.
fn or_range_error<T>(ctx: &Ctx<'_>, computed: std::result::Result<T, Refused>) -> Result<T> {
    computed.map_err(|Refused(why)| Exception::throw_range(ctx, why))
}

/// `digest(name, key?)`: returns a function, or `undefined` for an unknown name. Called with bytes, the function adds them;
/// without arguments, it finishes and returns the digest; with `true`, it returns a copy of itself with the current state.
pub(crate) fn digest<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let name = call.text(0)?;
    let hasher = if call.arg(1).is_undefined() { Hasher::new(&name) } else { Hasher::keyed(&name, &call.bytes(1)?) };
    match hasher {
        Some(hasher) => digest_function(call, hasher),
        None => Ok(undefined(call.ctx())),
    }
}

fn digest_function<'js>(call: &NativeCall<'_, 'js>, hasher: Hasher) -> Result<Value<'js>> {
    let state = RefCell::new(Some(hasher));
    native_call::closure(call.ctx(), "digest", move |call| {
        let ctx = call.ctx();
        let mut state = state.borrow_mut();
        let Some(hasher) = state.as_mut() else {
            return Err(Exception::throw_type(ctx, "digest: already finished"));
        };
        if call.flag(0) {
            return digest_function(call, hasher.clone());
        }
        if call.len() > 0 {
            hasher.update(&call.bytes(0)?);
            return Ok(undefined(ctx));
        }
        bytes_or_undefined(ctx, Some(state.take().map(Hasher::finish).unwrap_or_default()))
    })
}

/// `deriveKey(kind, digest, password, salt, info, a, b, c, length)`: for `pbkdf2` *a* is the number of rounds, for `scrypt` *a*,
/// *b*, *c* are cost, block size and parallelism. Returns `undefined` for an unknown digest.
pub(crate) fn derive_key<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (kind, digest) = (call.text(0)?, call.text(1)?);
    let (password, salt, info) = (call.bytes(2)?, call.bytes(3)?, call.bytes(4)?);
    let length = usize::try_from(call.integer(8)?).unwrap_or(usize::MAX);
    let key = match kind.as_str() {
        "pbkdf2" => pbkdf2(&digest, &password, &salt, call.integer(5)?, length),
        "scrypt" => {
            let cost = ScryptCost { cost: call.integer(5)?, block: call.integer(6)?, parallel: call.integer(7)? };
            scrypt(&password, &salt, cost, length).map(Some)
        }
        _ => hkdf(&digest, &password, &salt, &info, length),
    };
    bytes_or_undefined(call.ctx(), or_range_error(call.ctx(), key)?)
}

/// `cipher(mode, encrypt, key, iv)`: returns a function of an operation and bytes, or `undefined` if mode, key and iv do not fit
/// together. Operations are `update`, `final`, `aad`, `tag` (get), `expect` (set the tag), `unpadded`. `final` returns bytes or
/// the name of the failure: `length`, `decrypt`, `auth`.
pub(crate) fn cipher<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (mode, encrypt) = (call.text(0)?, call.flag(1));
    let Some(cipher) = Cipher::new(&mode, encrypt, &call.bytes(2)?, &call.bytes(3)?) else {
        return Ok(undefined(call.ctx()));
    };
    let state = RefCell::new(cipher);
    native_call::closure(call.ctx(), "cipher", move |call| cipher_step(call, &mut state.borrow_mut()))
}

fn cipher_step<'js>(call: &NativeCall<'_, 'js>, cipher: &mut Cipher) -> Result<Value<'js>> {
    let ctx = call.ctx();
    match (call.text(0)?.as_str(), cipher.is_authenticated()) {
        ("update", _) => return bytes_or_undefined(ctx, Some(cipher.update(call.bytes(1)?))),
        ("final", _) => {
            let failure = match cipher.finish() {
                Ok(last) => return bytes_or_undefined(ctx, Some(last)),
                Err(CipherFailure::Length) => "length",
                Err(CipherFailure::Decrypt) => "decrypt",
                Err(CipherFailure::Auth) => "auth",
            };
            return values::string_to_js(ctx, failure);
        }
        ("aad", true) => cipher.add_authenticated(&call.bytes(1)?),
        ("tag", true) => return bytes_or_undefined(ctx, cipher.tag()),
        ("expect", true) => cipher.expect_tag(call.bytes(1)?),
        ("unpadded", _) => cipher.set_unpadded(),
        (other, _) => return Err(Exception::throw_type(ctx, &format!("cipher: {other} does not fit this mode"))),
    }
    Ok(undefined(ctx))
}

/// `compressor(kind, level, windowBits, dictionary?)`: returns a function `(input, flush, room)` that returns `{output, read,
/// end, failure?, code?, number?}`. [`Codec::new`] lists the kinds.
pub(crate) fn compressor<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let kind = call.text(0)?;
    let dictionary = if call.arg(3).is_undefined() { None } else { Some(call.bytes(3)?) };
    let Some(codec) = Codec::new(&kind, call.integer(1)?, call.integer(2)?, dictionary) else {
        return Err(Exception::throw_type(ctx, &format!("unknown codec {kind}")));
    };
    let state = RefCell::new(codec);
    native_call::closure(ctx, "compressor", move |call| {
        let input = call.bytes(0)?;
        let room = usize::try_from(call.integer(2)?.clamp(1, MAX_STEP)).unwrap_or(1);
        codec_report(call.ctx(), state.borrow_mut().step(&input, call.integer(1)?, room))
    })
}

fn codec_report<'js>(ctx: &Ctx<'js>, step: Step) -> Result<Value<'js>> {
    let answer = Object::new(ctx.clone())?;
    values::put(&answer, "output", TypedArray::<u8>::new_copy(ctx.clone(), step.output)?)?;
    values::put(&answer, "read", step.read)?;
    values::put(&answer, "end", step.end)?;
    if let Some(failure) = step.failure {
        values::put(&answer, "failure", failure.words)?;
        if let Some((code, number)) = failure.code {
            values::put(&answer, "code", code)?;
            values::put(&answer, "number", number)?;
        }
    }
    Ok(answer.into_value())
}

/// `crc32(bytes, start)`: returns the checksum, continued from `start`.
pub(crate) fn crc32<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let start = u32::try_from(call.integer(1)? & u64::from(u32::MAX)).unwrap_or_default();
    Ok(Value::new_float(call.ctx().clone(), f64::from(zlib::crc32(&call.bytes(0)?, start))))
}

/// `readKey(form, der, passphrase?)`: [`keys::read`] lists the forms. Returns `undefined` if the bytes are not a key in this
/// form.
pub(crate) fn read_key<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (form, der) = (call.text(0)?, call.bytes(1)?);
    let passphrase = if form == "encrypted" { call.bytes(2)? } else { Vec::new() };
    key_function(call, or_range_error(call.ctx(), keys::read(&form, &der, &passphrase))?)
}

/// `buildKey(kind, ...numbers)`: builds a key from the numbers of a JWK.
pub(crate) fn build_key<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let kind = call.text(0)?;
    let numbers = (1..call.len()).map(|index| call.bytes(index)).collect::<Result<Vec<_>>>()?;
    key_function(call, keys::build(&kind, &numbers))
}

/// `generateKey(kind, seed, bits, exponent)`: generates a private key.
pub(crate) fn generate_key<'js>(call: &NativeCall<'_, 'js>) -> Result<Value<'js>> {
    let (kind, mut random) = (call.text(0)?, random(call, 1)?);
    let key = keys::generate(&kind, call.integer(2)?, call.integer(3)?, &mut random);
    key_function(call, or_range_error(call.ctx(), key)?)
}

/// Returns a random number generator with a seed of 32 bytes.
fn random(call: &NativeCall<'_, '_>, index: usize) -> Result<ChaCha20Rng> {
    let seed: [u8; 32] =
        call.bytes(index)?.try_into().map_err(|_| Exception::throw_type(call.ctx(), "expected a seed of 32 bytes"))?;
    Ok(keys::rng(seed))
}

/// Returns a function whose first argument names the operation; returns `undefined` if there is no key.
fn key_function<'js>(call: &NativeCall<'_, 'js>, key: Option<Rc<dyn Key>>) -> Result<Value<'js>> {
    match key {
        Some(key) => native_call::closure(call.ctx(), "key", move |call| key_step(call, &key)),
        None => Ok(undefined(call.ctx())),
    }
}

fn key_step<'js>(call: &NativeCall<'_, 'js>, key: &Rc<dyn Key>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let bytes = match call.text(0)?.as_str() {
        "kind" => return values::string_to_js(ctx, key.kind()),
        "private" => return Ok(Value::new_bool(ctx.clone(), key.is_private())),
        "public" => return key_function(call, Some(key.public())),
        "numbers" => {
            let numbers = Array::new(ctx.clone())?;
            for (index, number) in key.numbers().into_iter().enumerate() {
                numbers.set(index, TypedArray::<u8>::new_copy(ctx.clone(), number)?)?;
            }
            return Ok(numbers.into_value());
        }
        "verify" => {
            let is_right = key.verify(&scheme(call)?, &call.bytes(1)?, &call.bytes(6)?);
            return Ok(Value::new_bool(ctx.clone(), is_right));
        }
        "der" => Form::from_name(&call.text(1)?).and_then(|form| key.der(form)),
        "encrypted" => match key.der(Form::Pkcs8) {
            Some(der) => keys::encrypt(&der, &call.text(1)?, &call.bytes(2)?, &mut random(call, 3)?),
            None => None,
        },
        "point" => key.point(call.flag(1)),
        "sign" => key.sign(&scheme(call)?, &call.bytes(1)?, &mut random(call, 6)?),
        "recover" => key.recover(&call.bytes(1)?),
        "encrypt" => key.encrypt(&scheme(call)?, &call.bytes(1)?, &mut random(call, 6)?),
        "decrypt" => key.decrypt(&scheme(call)?, &call.bytes(1)?, &mut random(call, 6)?),
        "agree" => keys::agree(key.as_ref(), &call.bytes(1)?),
        other => return Err(Exception::throw_type(ctx, &format!("key: unknown operation {other}"))),
    };
    bytes_or_undefined(ctx, bytes)
}

/// Reads the arguments 2 to 5 of an operation: padding, digest, length of the salt (any length if negative), label.
fn scheme(call: &NativeCall<'_, '_>) -> Result<Scheme> {
    let salt = call.arg(4).as_number().unwrap_or(-1.0);
    Ok(Scheme {
        padding: call.text(2)?,
        digest: call.text(3)?,
        salt_length: if salt < 0.0 { None } else { Some(usize::try_from(call.integer(4)?).unwrap_or(usize::MAX)) },
        label: if call.arg(5).is_undefined() { Vec::new() } else { call.bytes(5)? },
    })
}
