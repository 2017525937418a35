//! Seeded randomness of a realm: numbers for `Math.random`, bytes for `crypto`.
//!
//! This is the only source of randomness in a realm. The driver picks the seed (from the operating system in production,
//! otherwise from a tape or a scenario), and the same seed gives the same draws.
//!
//! # How the seed is used
//!
//! Numbers and bytes are two independent streams, so drawing from one never shifts the other.
//!
//! - **Numbers** come from mulberry32, the generator the reference recordings use. A seed below 2^32 is the
//!   generator's initial state, so that a recording made with `random: 1` has the same numbers here. A larger seed is first
//!   passed through ChaCha20 (stream 1, its first four bytes, little-endian): the output of mulberry32 reveals its state, which
//!   must reveal nothing about the bytes.
//! - **Bytes** are ChaCha20's stream 0 under a key that consists of the seed (little-endian) and a label. They are as hard to
//!   guess as the seed. One `fill` gives the same bytes as two fills whose lengths add up to its length.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::fmt;

/// Distinguishes the key from other uses of a session's seed. Together with the seed it fills ChaCha's 32-byte key.
const KEY_LABEL: &[u8; 24] = b"pijs realm entropy, v1\0\0";

/// The random generator of a realm.
///
/// ```
/// use pijs_tick::Entropy;
///
/// let mut one = Entropy::seeded(1);
/// let mut two = Entropy::seeded(1);
/// assert_eq!(one.next_f64(), two.next_f64());
/// let (mut a, mut b) = ([0; 16], [0; 16]);
/// one.fill(&mut a);
/// two.fill(&mut b);
/// assert_eq!(a, b);
/// ```
pub struct Entropy {
    /// State of mulberry32.
    numbers: u32,
    bytes: ChaCha20Rng,
    /// Current block of the byte stream, of which `used` bytes are consumed.
    block: [u8; BLOCK],
    used: usize,
}

/// Size of a ChaCha block in bytes.
const BLOCK: usize = 64;

impl Entropy {
    /// Creates the generator of a seed.
    pub fn seeded(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..].copy_from_slice(KEY_LABEL);
        let numbers = u32::try_from(seed).unwrap_or_else(|_| {
            let mut hashed = ChaCha20Rng::from_seed(key);
            hashed.set_stream(1);
            hashed.next_u32()
        });
        Self { numbers, bytes: ChaCha20Rng::from_seed(key), block: [0; BLOCK], used: BLOCK }
    }

    /// Returns the next number for `Math.random`: at least 0, below 1, a multiple of 2^-32.
    pub fn next_f64(&mut self) -> f64 {
        self.numbers = self.numbers.wrapping_add(0x6d2b_79f5);
        let mut t = self.numbers;
        t = (t ^ (t >> 15)).wrapping_mul(t | 1);
        t ^= t.wrapping_add((t ^ (t >> 7)).wrapping_mul(t | 61));
        f64::from(t ^ (t >> 14)) / 4_294_967_296.0
    }

    /// Fills a buffer with the next bytes for `crypto`.
    pub fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if self.used == BLOCK {
                self.bytes.fill_bytes(&mut self.block);
                self.used = 0;
            }
            let taken = out.len().min(BLOCK - self.used);
            let (now, later) = out.split_at_mut(taken);
            now.copy_from_slice(&self.block[self.used..self.used + taken]);
            self.used += taken;
            out = later;
        }
    }
}

impl fmt::Debug for Entropy {
    /// Hides the state, so that a log does not reveal the next bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entropy").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of the generator of the reference recordings, in Node.
    #[test]
    fn numbers_of_a_small_seed_are_those_of_the_reference() {
        let mut small = Entropy::seeded(1);
        assert_eq!(
            [(); 3].map(|()| small.next_f64() * 4_294_967_296.0),
            [2_693_262_067.0, 11_749_833.0, 2_265_367_787.0]
        );
        let mut large = Entropy::seeded(0xdead_beef);
        assert_eq!(
            [(); 3].map(|()| large.next_f64() * 4_294_967_296.0),
            [4_043_151_706.0, 1_147_597_007.0, 3_315_858_022.0]
        );
    }

    #[test]
    fn bytes_do_not_depend_on_how_they_are_requested() {
        let mut whole = [0; 200];
        Entropy::seeded(7).fill(&mut whole);
        for step in [1, 3, 63, 64, 65] {
            let mut entropy = Entropy::seeded(7);
            let mut pieces = [0; 200];
            for piece in pieces.chunks_mut(step) {
                entropy.next_f64();
                entropy.fill(piece);
            }
            assert_eq!(pieces, whole, "in pieces of {step}");
        }
    }

    #[test]
    fn seeds_that_differ_in_any_half_differ_in_both_streams() {
        let draw = |seed| {
            let mut entropy = Entropy::seeded(seed);
            let mut bytes = [0; 32];
            entropy.fill(&mut bytes);
            (entropy.next_f64().to_bits(), bytes)
        };
        let seeds = [0, 1, 1 << 32, (1 << 32) + 1, u64::MAX];
        for (at, one) in seeds.iter().enumerate() {
            for other in &seeds[at + 1..] {
                let ((number, bytes), (other_number, other_bytes)) = (draw(*one), draw(*other));
                assert_ne!(number, other_number, "numbers of {one} and {other}");
                assert_ne!(bytes, other_bytes, "bytes of {one} and {other}");
            }
        }
    }

    /// The expected bytes come from `openssl enc -chacha20` with the same key. A change of the derivation would invalidate every
    /// existing tape.
    #[test]
    fn the_derivation_does_not_change() {
        let mut entropy = Entropy::seeded(0x0123_4567_89ab_cdef);
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes);
        assert_eq!((entropy.next_f64(), bytes), (0.07855853461660445, [47, 197, 224, 188, 217, 84, 246, 182]));
    }
}
