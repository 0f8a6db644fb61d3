//! A bounded bit reader with exponential-Golomb codes (H.264 §9.1, H.265 §9.2).

use crate::error::MediaError;

/// Reads bits, most significant first, from a byte slice. Every read is checked: past the end it
/// returns [`MediaError::OutOfBits`] and does not move.
#[derive(Debug, Clone)]
pub struct BitReader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Bits read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bits not read yet.
    pub fn remaining(&self) -> usize {
        self.data.len().saturating_mul(8).saturating_sub(self.at)
    }

    /// One bit.
    ///
    /// # Errors
    /// [`MediaError::OutOfBits`] at the end of the data.
    pub fn bit(&mut self) -> Result<bool, MediaError> {
        let byte = self.data.get(self.at / 8).ok_or(MediaError::OutOfBits {
            wanted: 1,
            at: self.at,
        })?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Ok(bit == 1)
    }

    /// An unsigned number of `count` bits, 0..=32.
    ///
    /// # Errors
    /// [`MediaError::OutOfBits`] when fewer are left, [`MediaError::Invalid`] for a count over 32.
    pub fn bits(&mut self, count: u32) -> Result<u32, MediaError> {
        if count > 32 {
            return Err(MediaError::Invalid {
                what: "bit count",
                value: u64::from(count),
            });
        }
        if self.remaining() < count as usize {
            return Err(MediaError::OutOfBits {
                wanted: count,
                at: self.at,
            });
        }
        let mut value = 0u64;
        for _ in 0..count {
            value = value << 1 | u64::from(self.bit()?);
        }
        Ok(value as u32)
    }

    /// An unsigned number of up to eight bits.
    ///
    /// # Errors
    /// As [`Self::bits`]; a count over 8 is [`MediaError::Invalid`].
    pub fn byte(&mut self, count: u32) -> Result<u8, MediaError> {
        if count > 8 {
            return Err(MediaError::Invalid {
                what: "bit count",
                value: u64::from(count),
            });
        }
        self.bits(count).map(|value| value as u8)
    }

    /// Leaves out `count` bits.
    ///
    /// # Errors
    /// [`MediaError::OutOfBits`] when fewer are left.
    pub fn skip(&mut self, count: usize) -> Result<(), MediaError> {
        if self.remaining() < count {
            let wanted = u32::try_from(count).unwrap_or(u32::MAX);
            return Err(MediaError::OutOfBits { wanted, at: self.at });
        }
        self.at += count;
        Ok(())
    }

    /// Moves to the next byte boundary, if not on one.
    pub fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }

    /// An unsigned exponential-Golomb code, `ue(v)`.
    ///
    /// # Errors
    /// [`MediaError::ExpGolombTooLong`] beyond 31 leading zeros, [`MediaError::OutOfBits`] at the end.
    pub fn ue(&mut self) -> Result<u32, MediaError> {
        let start = self.at;
        let mut zeros = 0u32;
        while !self.bit()? {
            zeros += 1;
            if zeros > 31 {
                return Err(MediaError::ExpGolombTooLong { at: start });
            }
        }
        let low = self.bits(zeros)?;
        Ok((1u32 << zeros) - 1 + low)
    }

    /// A signed exponential-Golomb code, `se(v)`.
    ///
    /// # Errors
    /// As [`Self::ue`].
    pub fn se(&mut self) -> Result<i32, MediaError> {
        let code = self.ue()?;
        let half = (code / 2) as i32;
        Ok(if code % 2 == 1 { half + 1 } else { -half })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_across_byte_borders() {
        let mut reader = BitReader::new(&[0b1010_0101, 0b1100_0011, 0xFF]);
        assert_eq!(reader.bits(3), Ok(0b101));
        assert_eq!(reader.bits(8), Ok(0b0010_1110));
        assert_eq!(reader.position(), 11);
        reader.align();
        assert_eq!(reader.byte(8), Ok(0xFF));
        assert_eq!(reader.bit(), Err(MediaError::OutOfBits { wanted: 1, at: 24 }));
        assert_eq!(reader.bits(0), Ok(0));
    }

    #[test]
    fn a_failed_read_does_not_move() {
        let mut reader = BitReader::new(&[0xAB]);
        assert!(reader.bits(9).is_err());
        assert!(reader.skip(9).is_err());
        assert_eq!(reader.bits(8), Ok(0xAB));
        assert!(reader.bits(33).is_err());
        assert!(reader.byte(9).is_err());
    }

    #[test]
    fn exp_golomb_codes_of_the_specification() {
        // 1 | 010 | 011 | 00100 | 00101 -> 0 1 2 3 4
        let mut reader = BitReader::new(&[0b1010_0110, 0b0100_0010, 0b1000_0000]);
        let values: Vec<_> = (0..5).map(|_| reader.ue().unwrap()).collect();
        assert_eq!(values, [0, 1, 2, 3, 4]);
        let mut reader = BitReader::new(&[0b1010_0110, 0b0100_0010, 0b1000_0000]);
        let values: Vec<_> = (0..5).map(|_| reader.se().unwrap()).collect();
        assert_eq!(values, [0, 1, -1, 2, -2]);
    }

    #[test]
    fn the_longest_code_fits_and_a_longer_one_is_refused() {
        let longest = [0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(BitReader::new(&longest).ue(), Ok(u32::MAX - 1));
        assert_eq!(BitReader::new(&longest).se(), Ok(-(i32::MAX)));
        assert_eq!(
            BitReader::new(&[0; 16]).ue(),
            Err(MediaError::ExpGolombTooLong { at: 0 })
        );
        assert!(matches!(
            BitReader::new(&[0; 2]).ue(),
            Err(MediaError::OutOfBits { .. })
        ));
    }

    proptest! {
        #[test]
        fn exp_golomb_round_trips(value in 0..u32::MAX - 1) {
            let code = u64::from(value) + 1;
            let width = 64 - code.leading_zeros();
            // `width - 1` zeros, then the code itself, left-aligned in 64 bits.
            let bytes = (code << (64 - (2 * width - 1))).to_be_bytes();
            prop_assert_eq!(BitReader::new(&bytes).ue(), Ok(value));
        }

        #[test]
        fn never_panics(data: Vec<u8>, reads: Vec<(u8, u32)>) {
            let mut reader = BitReader::new(&data);
            for (kind, count) in reads {
                match kind % 6 {
                    0 => drop(reader.bit()),
                    1 => drop(reader.bits(count)),
                    2 => drop(reader.skip(count as usize)),
                    3 => drop(reader.ue()),
                    4 => drop(reader.se()),
                    _ => reader.align(),
                }
            }
        }
    }
}
