//! Keys of two parts: RSA, elliptic curves, Ed25519 and X25519.
//!
//! `readKey`, `buildKey` and `generateKey` give a function whose state is a [`Key`]; its first argument names the
//! operation. What a form looks like on the outside (PEM, JWK, Node's names and errors) is TypeScript's: here keys
//! come and go as DER and as numbers. Nothing here rolls dice. Where an operation needs randomness the caller hands
//! in a seed that it drew from the driver, so that a replayed session signs and generates the same bytes.

mod curves;
mod edwards;
mod forms;
mod rsa;

use crate::natives::{self, Call};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use rquickjs::{Array, Exception, Result, TypedArray, Value};
use std::rc::Rc;

/// Modulus bits of RSA keys that are generated here. One of 4096 bits takes a second or two, in which the realm does
/// nothing else; each doubling takes some twenty times longer.
const MAX_GENERATED_BITS: u64 = 4096;

/// The forms that a key is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Pkcs1,
    Pkcs8,
    Sec1,
    Spki,
}

impl Form {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "pkcs1" => Self::Pkcs1,
            "pkcs8" => Self::Pkcs8,
            "sec1" => Self::Sec1,
            "spki" => Self::Spki,
            _ => return None,
        })
    }
}

/// How a signature or a cipher text is made.
struct Scheme {
    /// `pkcs1`, `pss`, `oaep`, or `bare` for PKCS #1 of a text that no digest was made of. Of a curve: `numbers` or `der`
    /// for the form of the signature.
    padding: String,
    digest: String,
    /// Of PSS; `None` takes any when a signature is checked.
    salt_length: Option<usize>,
    /// Of OAEP.
    label: Vec<u8>,
}

/// The private or the public part of a key.
trait Key {
    /// `rsa`, the name of a curve, `ed25519` or `x25519`.
    fn kind(&self) -> &'static str;
    fn is_private(&self) -> bool;
    /// The public part, of the public part itself, too.
    fn public(&self) -> Rc<dyn Key>;
    /// `None`: this key has no such form.
    fn der(&self, form: Form) -> Option<Vec<u8>>;
    /// The numbers of a JWK in its order, the public ones first, without those that can be told from others.
    fn numbers(&self) -> Vec<Vec<u8>>;
    /// Signs a digest, or with a key of Edwards' curve the text itself.
    fn sign(&self, _scheme: &Scheme, _digest: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        None
    }
    fn verify(&self, _scheme: &Scheme, _digest: &[u8], _signature: &[u8]) -> bool {
        false
    }
    /// The text of a `bare` signature.
    fn recover(&self, _signature: &[u8]) -> Option<Vec<u8>> {
        None
    }
    fn encrypt(&self, _scheme: &Scheme, _text: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        None
    }
    fn decrypt(&self, _scheme: &Scheme, _text: &[u8], _random: &mut ChaCha20Rng) -> Option<Vec<u8>> {
        None
    }
    /// The secret that this private key and a public one have in common.
    fn agree(&self, _public: &dyn Key) -> Option<Vec<u8>> {
        None
    }
    /// A point of a curve, also pressed into its shorter form.
    fn point(&self, _short: bool) -> Option<Vec<u8>> {
        None
    }
}

/// `readKey(form, der, passphrase?)`: `form` as in [`Form`], `encrypted` for PKCS #8 under a passphrase, or
/// `certificate` for the key of one. `undefined` when it is no such key.
pub(crate) fn read<'js>(call: &Call<'_, 'js>) -> Result<Value<'js>> {
    let (form, der) = (call.text(0)?, call.bytes(1)?);
    let key = match form.as_str() {
        "certificate" => forms::public_key_of_certificate(&der).and_then(|key| forms::read_public(&key)),
        "encrypted" => match forms::decrypt(&der, &call.bytes(2)?) {
            Ok(key) => key.and_then(|key| forms::read_private(&key)),
            Err(forms::TooCostly) => {
                return Err(Exception::throw_range(
                    call.ctx(),
                    "deriving the key from this passphrase would hold up the session",
                ));
            }
        },
        "pkcs1" => rsa::from_pkcs1(&der),
        "pkcs8" => forms::read_private(&der),
        "sec1" => forms::read_sec1(&der),
        _ => forms::read_public(&der),
    };
    answer(call, key)
}

/// `buildKey(kind, numbers)`: a key from the numbers of a JWK, a private one when there is more than its public part
/// needs. A point of a curve is one number, whatever its form.
pub(crate) fn build<'js>(call: &Call<'_, 'js>) -> Result<Value<'js>> {
    let kind = call.text(0)?;
    let numbers = (1..call.len()).map(|index| call.bytes(index)).collect::<Result<Vec<_>>>()?;
    let key = match kind.as_str() {
        "rsa" => rsa::from_numbers(&numbers),
        "ed25519" | "x25519" => edwards::from_numbers(&kind, &numbers),
        _ => curves::from_numbers(&kind, &numbers),
    };
    answer(call, key)
}

/// `generateKey(kind, seed, bits, exponent)`: a new private key.
pub(crate) fn generate<'js>(call: &Call<'_, 'js>) -> Result<Value<'js>> {
    let kind = call.text(0)?;
    let mut random = random(call, 1)?;
    let key = match kind.as_str() {
        "rsa" => {
            let bits = call.whole(2)?;
            if bits > MAX_GENERATED_BITS {
                return Err(Exception::throw_range(
                    call.ctx(),
                    "generating an RSA key of more than 4096 bits would hold up the session",
                ));
            }
            rsa::generate(usize::try_from(bits).unwrap_or_default(), call.whole(3)?, &mut random)
        }
        "ed25519" | "x25519" => edwards::generate(&kind, &mut random),
        _ => curves::generate(&kind, &mut random),
    };
    answer(call, key)
}

/// The generator that a seed of 32 bytes starts.
fn random(call: &Call<'_, '_>, index: usize) -> Result<ChaCha20Rng> {
    let seed: [u8; 32] =
        call.bytes(index)?.try_into().map_err(|_| Exception::throw_type(call.ctx(), "expected a seed of 32 bytes"))?;
    Ok(ChaCha20Rng::from_seed(seed))
}

fn answer<'js>(call: &Call<'_, 'js>, key: Option<Rc<dyn Key>>) -> Result<Value<'js>> {
    match key {
        Some(key) => natives::closure(call.ctx(), "key", move |call| step(call, &key)),
        None => Ok(Value::new_undefined(call.ctx().clone())),
    }
}

fn step<'js>(call: &Call<'_, 'js>, key: &Rc<dyn Key>) -> Result<Value<'js>> {
    let ctx = call.ctx();
    let bytes = |bytes: Option<Vec<u8>>| match bytes {
        Some(bytes) => Ok(TypedArray::<u8>::new_copy(ctx.clone(), bytes)?.into_value()),
        None => Ok(Value::new_undefined(ctx.clone())),
    };
    match call.text(0)?.as_str() {
        "kind" => crate::values::string_to_js(ctx, key.kind()),
        "private" => Ok(Value::new_bool(ctx.clone(), key.is_private())),
        "public" => answer(call, Some(key.public())),
        "der" => bytes(Form::from_name(&call.text(1)?).and_then(|form| key.der(form))),
        "encrypted" => {
            let der = key.der(Form::Pkcs8);
            bytes(match der {
                Some(der) => forms::encrypt(&der, &call.text(1)?, &call.bytes(2)?, &mut random(call, 3)?),
                None => None,
            })
        }
        "numbers" => {
            let numbers = Array::new(ctx.clone())?;
            for (index, number) in key.numbers().into_iter().enumerate() {
                numbers.set(index, TypedArray::<u8>::new_copy(ctx.clone(), number)?)?;
            }
            Ok(numbers.into_value())
        }
        "point" => bytes(key.point(call.flag(1))),
        "sign" => bytes(key.sign(&scheme(call)?, &call.bytes(1)?, &mut random(call, 6)?)),
        "verify" => Ok(Value::new_bool(ctx.clone(), key.verify(&scheme(call)?, &call.bytes(1)?, &call.bytes(6)?))),
        "recover" => bytes(key.recover(&call.bytes(1)?)),
        "encrypt" => bytes(key.encrypt(&scheme(call)?, &call.bytes(1)?, &mut random(call, 6)?)),
        "decrypt" => bytes(key.decrypt(&scheme(call)?, &call.bytes(1)?, &mut random(call, 6)?)),
        "agree" => {
            let public = forms::read_public(&call.bytes(1)?);
            bytes(public.and_then(|public| key.agree(public.as_ref())))
        }
        other => Err(Exception::throw_type(ctx, &format!("key: there is no operation {other}"))),
    }
}

/// The arguments 2 to 5 of an operation: padding, digest, length of the salt (negative: any), label.
fn scheme(call: &Call<'_, '_>) -> Result<Scheme> {
    let salt = call.arg(4).as_number().unwrap_or(-1.0);
    Ok(Scheme {
        padding: call.text(2)?,
        digest: call.text(3)?,
        salt_length: if salt < 0.0 { None } else { Some(usize::try_from(call.whole(4)?).unwrap_or(usize::MAX)) },
        label: if call.arg(5).is_undefined() { Vec::new() } else { call.bytes(5)? },
    })
}
