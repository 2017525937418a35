//! AES in the modes that Node programs use: CBC, CTR, ECB and GCM.
//!
//! Modes other than GCM are RustCrypto's. GCM is composed here of counter mode and GHASH (NIST SP 800-38D, section 7), because it
//! is fed in pieces.

use aes::{Aes128, Aes192, Aes256};
use cipher::consts::U16;
use cipher::generic_array::GenericArray;
use cipher::{
    BlockCipher, BlockDecrypt, BlockDecryptMut, BlockEncrypt, BlockEncryptMut, InnerIvInit, KeyInit, StreamCipher,
};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use std::fmt;

const BLOCK: usize = 16;

/// Transforms whole blocks (or, in a stream mode, any number of bytes) in place.
type Transform = Box<dyn FnMut(&mut [u8])>;

/// One direction of a cipher, in progress.
pub struct Cipher {
    transform: Transform,
    encrypt: bool,
    /// Bytes of an incomplete block; only used by block modes.
    held: Vec<u8>,
    block_mode: bool,
    padding: bool,
    auth: Option<GcmAuth>,
}

/// The authentication state of GCM.
struct GcmAuth {
    hash: GHash,
    /// Bytes of the current section (authenticated data or ciphertext) that do not fill a block yet.
    partial: Vec<u8>,
    aad_bytes: u64,
    text_bytes: u64,
    mask: [u8; BLOCK],
    tag: Option<Vec<u8>>,
}

impl GcmAuth {
    fn absorb(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let fixed_width = self.partial.len() / BLOCK * BLOCK;
        self.hash.update_padded(&self.partial[..fixed_width]);
        self.partial.drain(..fixed_width);
    }

    fn end_section(&mut self) {
        self.hash.update_padded(&self.partial);
        self.partial.clear();
    }

    fn finish(&mut self) -> Vec<u8> {
        self.end_section();
        let mut lengths = [0; BLOCK];
        lengths[..8].copy_from_slice(&(self.aad_bytes * 8).to_be_bytes());
        lengths[8..].copy_from_slice(&(self.text_bytes * 8).to_be_bytes());
        let mut hash = self.hash.clone();
        hash.update_padded(&lengths);
        hash.finalize().iter().zip(self.mask).map(|(left, right)| left ^ right).collect()
    }
}

/// The reason why the last step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CipherFailure {
    /// The input length is not a multiple of the block size.
    Length,
    /// The padding is wrong.
    Decrypt,
    /// The tag does not match, or is missing.
    Auth,
}

impl Cipher {
    /// Creates a cipher of the mode `cbc`, `ctr`, `ecb` or `gcm`; `None` for an unknown mode, or invalid lengths of key or
    /// initialisation vector.
    pub fn new(mode: &str, encrypt: bool, key: &[u8], iv: &[u8]) -> Option<Self> {
        match key.len() {
            16 => build::<Aes128>(mode, encrypt, key, iv),
            24 => build::<Aes192>(mode, encrypt, key, iv),
            32 => build::<Aes256>(mode, encrypt, key, iv),
            _ => None,
        }
    }

    /// Returns whether the mode authenticates, that is, has a tag and additional authenticated data.
    pub fn is_authenticated(&self) -> bool {
        self.auth.is_some()
    }

    /// Adds data that is authenticated but not encrypted. Must be called before any text is added. Has an effect only if
    /// [`Self::is_authenticated`].
    pub fn add_authenticated(&mut self, data: &[u8]) {
        if let Some(auth) = &mut self.auth {
            auth.aad_bytes += data.len() as u64;
            auth.absorb(data);
        }
    }

    /// Returns the tag that an encryption has computed, or the one passed to [`Self::expect_tag`].
    pub fn tag(&self) -> Option<&[u8]> {
        self.auth.as_ref()?.tag.as_deref()
    }

    /// Sets the tag that a decryption has to match.
    pub fn expect_tag(&mut self, tag: Vec<u8>) {
        if let Some(auth) = &mut self.auth {
            auth.tag = Some(tag);
        }
    }

    /// Disables the padding of a block mode.
    pub fn set_unpadded(&mut self) {
        self.padding = false;
    }

    /// Adds input and returns the available output.
    pub fn update(&mut self, mut data: Vec<u8>) -> Vec<u8> {
        if let Some(auth) = &mut self.auth {
            if auth.text_bytes == 0 && !data.is_empty() {
                auth.end_section();
            }
            auth.text_bytes += data.len() as u64;
            if !self.encrypt {
                auth.absorb(&data);
            }
        }
        if !self.block_mode {
            (self.transform)(&mut data);
            if let Some(auth) = self.auth.as_mut().filter(|_| self.encrypt) {
                auth.absorb(&data);
            }
            return data;
        }
        self.held.append(&mut data);
        // The last block contains the padding, and is known to be the last only at the end of the input.
        let keep_last = usize::from(!self.encrypt && self.padding && !self.held.is_empty());
        let fixed_width = (self.held.len() - keep_last) / BLOCK * BLOCK;
        let rest = self.held.split_off(fixed_width);
        let mut out = std::mem::replace(&mut self.held, rest);
        (self.transform)(&mut out);
        out
    }

    /// Returns the remaining output and ends the operation.
    ///
    /// # Errors
    ///
    /// Fails when the input length is not a multiple of the block size, or padding or tag are wrong.
    pub fn finish(&mut self) -> Result<Vec<u8>, CipherFailure> {
        if let Some(auth) = &mut self.auth {
            let tag = auth.finish();
            if self.encrypt {
                auth.tag = Some(tag);
                return Ok(Vec::new());
            }
            let expected = auth.tag.take().ok_or(CipherFailure::Auth)?;
            let differs = expected.iter().zip(&tag).fold(0, |all, (left, right)| all | (left ^ right));
            return if differs == 0 { Ok(Vec::new()) } else { Err(CipherFailure::Auth) };
        }
        let mut last = std::mem::take(&mut self.held);
        if !self.block_mode || (!self.padding && last.is_empty()) {
            return Ok(Vec::new());
        }
        if self.encrypt && self.padding {
            let missing = BLOCK - last.len();
            #[expect(clippy::cast_possible_truncation, reason = "1 to 16")]
            last.resize(BLOCK, missing as u8);
            (self.transform)(&mut last);
            return Ok(last);
        }
        if last.len() != BLOCK {
            return Err(CipherFailure::Length);
        }
        (self.transform)(&mut last);
        let pad = usize::from(last[BLOCK - 1]);
        if pad == 0 || pad > BLOCK || last[BLOCK - pad..].iter().any(|byte| usize::from(*byte) != pad) {
            return Err(CipherFailure::Decrypt);
        }
        last.truncate(BLOCK - pad);
        Ok(last)
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").finish_non_exhaustive()
    }
}

fn encrypting<C: BlockEncryptMut<BlockSize = U16> + 'static>(mut mode: C) -> Transform {
    Box::new(move |data| {
        for block in data.chunks_exact_mut(BLOCK) {
            mode.encrypt_block_mut(GenericArray::from_mut_slice(block));
        }
    })
}

fn decrypting<C: BlockDecryptMut<BlockSize = U16> + 'static>(mut mode: C) -> Transform {
    Box::new(move |data| {
        for block in data.chunks_exact_mut(BLOCK) {
            mode.decrypt_block_mut(GenericArray::from_mut_slice(block));
        }
    })
}

fn streaming<C: StreamCipher + 'static>(mut mode: C) -> Transform {
    Box::new(move |data| mode.apply_keystream(data))
}

/// Builds a cipher; `None` for an unknown mode, or invalid lengths of key or initialisation vector.
fn build<A>(mode: &str, encrypt: bool, key: &[u8], iv: &[u8]) -> Option<Cipher>
where
    A: BlockCipher
        + BlockEncrypt
        + BlockDecrypt
        + BlockEncryptMut
        + BlockDecryptMut
        + KeyInit
        + Clone
        + cipher::BlockSizeUser<BlockSize = U16>
        + 'static,
{
    let aes = A::new_from_slice(key).ok()?;
    let with =
        |transform, block_mode, auth| Cipher { transform, encrypt, held: Vec::new(), block_mode, padding: true, auth };
    Some(match (mode, encrypt) {
        ("cbc", true) => with(encrypting(cbc::Encryptor::inner_iv_slice_init(aes, iv).ok()?), true, None),
        ("cbc", false) => with(decrypting(cbc::Decryptor::inner_iv_slice_init(aes, iv).ok()?), true, None),
        ("ecb", true) if iv.is_empty() => with(encrypting(aes), true, None),
        ("ecb", false) if iv.is_empty() => with(decrypting(aes), true, None),
        ("ctr", _) => with(streaming(ctr_of::<A, ctr::flavors::Ctr128BE>(aes, iv)?), false, None),
        ("gcm", _) if !iv.is_empty() => {
            let mut zero = GenericArray::default();
            aes.encrypt_block(&mut zero);
            let hash = GHash::new(&zero);
            let first = first_counter(&hash, iv);
            let mut mask = GenericArray::from(first);
            aes.encrypt_block(&mut mask);
            let mut next = first;
            let counter = u32::from_be_bytes([first[12], first[13], first[14], first[15]]).wrapping_add(1);
            next[12..].copy_from_slice(&counter.to_be_bytes());
            let auth = GcmAuth { hash, partial: Vec::new(), aad_bytes: 0, text_bytes: 0, mask: mask.into(), tag: None };
            with(streaming(ctr_of::<A, ctr::flavors::Ctr32BE>(aes, &next)?), false, Some(auth))
        }
        _ => return None,
    })
}

fn ctr_of<A, F>(aes: A, iv: &[u8]) -> Option<cipher::StreamCipherCoreWrapper<ctr::CtrCore<A, F>>>
where
    A: BlockCipher + BlockEncryptMut + cipher::BlockSizeUser<BlockSize = U16>,
    F: ctr::CtrFlavor<U16>,
    ctr::CtrCore<A, F>:
        InnerIvInit<Inner = A> + cipher::StreamCipherCore<BlockSize = U16> + cipher::IvSizeUser<IvSize = U16>,
{
    let core = ctr::CtrCore::inner_iv_slice_init(aes, iv).ok()?;
    Some(cipher::StreamCipherCoreWrapper::from_core(core))
}

/// Returns J0 of SP 800-38D: an IV of 12 bytes with a counter of 1, otherwise the GHASH of the IV.
fn first_counter(hash: &GHash, iv: &[u8]) -> [u8; BLOCK] {
    let mut first = [0; BLOCK];
    if iv.len() == 12 {
        first[..12].copy_from_slice(iv);
        first[15] = 1;
        return first;
    }
    let mut hash = hash.clone();
    hash.update_padded(iv);
    let mut length = [0; BLOCK];
    length[8..].copy_from_slice(&(iv.len() as u64 * 8).to_be_bytes());
    hash.update_padded(&length);
    hash.finalize().into()
}
