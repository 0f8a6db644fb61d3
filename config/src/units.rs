//! Values with units: durations and sizes that refuse a bare number.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// The longest duration a key accepts, one year: keeps every later sum of durations far from overflow.
pub const MAX_PERIOD_MS: u64 = 365 * 24 * 3_600 * 1_000;

const PERIOD_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

const RATE_UNITS: [(&str, u64); 4] = [
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
];

const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// A text that is no duration or size; the message says why and shows one that is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// A number without the unit that gives it a meaning.
    #[error("{text:?} has no unit: write it as for example {example:?}")]
    NoUnit {
        /// What was given.
        text: String,
        /// A value that would be accepted.
        example: String,
    },
    /// A unit that is not one of those accepted.
    #[error("{unit:?} is not a unit here: use one of {units}")]
    UnknownUnit {
        /// The unit given.
        unit: String,
        /// The units accepted, separated by commas.
        units: String,
    },
    /// No number where one is needed.
    #[error("{text:?} is not {expected}")]
    NotANumber {
        /// What was given.
        text: String,
        /// What was expected, with examples.
        expected: &'static str,
    },
    /// A value finer than the smallest step.
    #[error("{text:?} is finer than {step}, the smallest step")]
    TooFine {
        /// What was given.
        text: String,
        /// The smallest step.
        step: &'static str,
    },
    /// A value past the largest one that is held.
    #[error("{text:?} is too large")]
    TooLarge {
        /// What was given.
        text: String,
    },
}

/// A duration in whole milliseconds, written with its unit: `"300ms"`, `"2s"`, `"1.5s"`, `"1m30s"`, `"2h"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Period(u64);

impl Period {
    const EXPECTED: &'static str = "a duration with its unit, such as \"300ms\", \"2s\" or \"1m30s\"";

    /// A period of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A period of `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000)
    }

    /// As the standard library's duration.
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// In whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// True for a period of zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.get()
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1_000) {
            write!(f, "{}s", self.0 / 1_000)
        } else {
            write!(f, "{}ms", self.0)
        }
    }
}

impl FromStr for Period {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(UnitError::NotANumber {
                text: text.into(),
                expected: Self::EXPECTED,
            });
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (number, unit, tail) = split_quantity(rest);
            let millis = scale(text, number, unit, &PERIOD_UNITS, Self::EXPECTED, "s", "1ms")?;
            total = total.saturating_add(millis);
            rest = tail;
        }
        if total > MAX_PERIOD_MS {
            return Err(UnitError::TooLarge { text: text.into() });
        }
        Ok(Self(total))
    }
}

/// A size in bytes, written with its unit: `"64KiB"`, `"16MiB"`, `"1.5GiB"`, `"500kB"`, `"1316B"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(u64);

impl ByteSize {
    const EXPECTED: &'static str = "a size with its unit, such as \"64KiB\" or \"16MiB\"";

    /// A size of `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size of `mebibytes` times 1,048,576 bytes.
    pub const fn from_mib(mebibytes: u64) -> Self {
        Self(mebibytes << 20)
    }

    /// In bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// In bytes as an index of memory, clamped to what the machine can address.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit, tail) = split_quantity(text.trim());
        if !tail.is_empty() {
            return Err(UnitError::NotANumber {
                text: text.into(),
                expected: Self::EXPECTED,
            });
        }
        scale(text, number, unit, &SIZE_UNITS, Self::EXPECTED, "MiB", "1B").map(Self)
    }
}

/// A bit rate, written with its unit: `"6Mbit/s"`, `"500kbit/s"`, `"1.5Gbit/s"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BitRate(u64);

impl BitRate {
    const EXPECTED: &'static str = "a bit rate with its unit, such as \"500kbit/s\" or \"50Mbit/s\"";

    /// A rate of `bits` bits a second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// In bits a second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in RATE_UNITS.iter().rev() {
            if self.0 >= *factor && self.0.is_multiple_of(*factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}bit/s", self.0)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit, tail) = split_quantity(text.trim());
        if !tail.is_empty() {
            return Err(UnitError::NotANumber {
                text: text.into(),
                expected: Self::EXPECTED,
            });
        }
        scale(
            text,
            number,
            unit,
            &RATE_UNITS,
            Self::EXPECTED,
            "Mbit/s",
            "1bit/s",
        )
        .map(Self)
    }
}

/// Splits the first number and its unit off `text`: `"1m30s"` gives `("1", "m", "30s")`.
fn split_quantity(text: &str) -> (&str, &str, &str) {
    let number_len = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+')))
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(number_len);
    let unit_len = rest
        .find(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'))
        .unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(unit_len);
    (number, unit.trim(), tail)
}

/// `number` times the factor of `unit`, exactly; `example_unit` completes a number without one in the message.
fn scale(
    text: &str,
    number: &str,
    unit: &str,
    units: &[(&str, u64)],
    expected: &'static str,
    example_unit: &str,
    step: &'static str,
) -> Result<u64, UnitError> {
    let digits: String = number.chars().filter(|c| *c != '_').collect();
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || digits.ends_with('.') {
        return Err(UnitError::NotANumber {
            text: text.into(),
            expected,
        });
    }
    if unit.is_empty() {
        return Err(UnitError::NoUnit {
            text: text.into(),
            example: format!("{digits}{example_unit}"),
        });
    }
    let factor = units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or_else(|| {
            let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            UnitError::UnknownUnit {
                unit: unit.into(),
                units: names.join(", "),
            }
        })?;
    let too_large = || UnitError::TooLarge { text: text.into() };
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let whole = whole.checked_mul(factor).ok_or_else(too_large)?;
    whole
        .checked_add(scale_fraction(text, fraction, factor, step)?)
        .ok_or_else(too_large)
}

/// The decimals `fraction` of one unit of `factor` steps, refused unless they come out as whole steps.
fn scale_fraction(text: &str, fraction: &str, factor: u64, step: &'static str) -> Result<u64, UnitError> {
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Ok(0);
    }
    let too_fine = || UnitError::TooFine {
        text: text.into(),
        step,
    };
    // Nine decimals of the largest factor (1 GiB) stay inside 64 bits.
    let numerator: u64 = if fraction.len() <= 9 {
        fraction.parse().ok()
    } else {
        None
    }
    .ok_or_else(too_fine)?;
    let denominator = 10_u64.pow(fraction.len().try_into().map_err(|_| too_fine())?);
    let product = numerator.checked_mul(factor).ok_or_else(too_fine)?;
    if product.is_multiple_of(denominator) {
        Ok(product / denominator)
    } else {
        Err(too_fine())
    }
}

/// Reads a string through `FromStr`; a number gets the answer that it lacks a unit.
struct UnitVisitor<T> {
    expected: &'static str,
    example_unit: &'static str,
    made: std::marker::PhantomData<T>,
}

impl<T> UnitVisitor<T> {
    fn no_unit<E: de::Error>(&self, number: impl fmt::Display) -> E {
        E::custom(format!(
            "the number {number} has no unit: write it as \"{number}{}\"",
            self.example_unit
        ))
    }
}

impl<T: FromStr<Err = UnitError>> Visitor<'_> for UnitVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Err(self.no_unit(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Err(self.no_unit(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        Err(self.no_unit(number))
    }
}

macro_rules! unit_serde {
    ($name:ident, $example_unit:literal, $pattern:literal, $examples:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(UnitVisitor {
                    expected: Self::EXPECTED,
                    example_unit: $example_unit,
                    made: std::marker::PhantomData,
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "examples": $examples })
            }
        }
    };
}

unit_serde!(
    Period,
    "s",
    r"^\s*([0-9_]+(\.[0-9_]+)?\s*(ms|s|m|h|d))+\s*$",
    ["300ms", "2s", "1m30s"]
);
unit_serde!(
    ByteSize,
    "MiB",
    r"^\s*[0-9_]+(\.[0-9_]+)?\s*(B|kB|KiB|MB|MiB|GB|GiB)\s*$",
    ["64KiB", "16MiB"]
);
unit_serde!(
    BitRate,
    "Mbit/s",
    r"^\s*[0-9_]+(\.[0-9_]+)?\s*(bit/s|kbit/s|Mbit/s|Gbit/s)\s*$",
    ["500kbit/s", "50Mbit/s"]
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn period(text: &str) -> Result<u64, UnitError> {
        text.parse::<Period>().map(Period::as_millis)
    }

    fn size(text: &str) -> Result<u64, UnitError> {
        text.parse::<ByteSize>().map(ByteSize::get)
    }

    #[test]
    fn periods_are_read_with_every_unit() {
        let cases = [
            ("300ms", 300),
            ("2s", 2_000),
            ("1.5s", 1_500),
            ("0.25s", 250),
            ("5m", 300_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            (" 10 s ", 10_000),
            ("1_000ms", 1_000),
            ("0ms", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(period(text), Ok(millis), "{text}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_an_example() {
        assert_eq!(
            period("15").unwrap_err().to_string(),
            r#""15" has no unit: write it as for example "15s""#
        );
        assert_eq!(
            size("16").unwrap_err().to_string(),
            r#""16" has no unit: write it as for example "16MiB""#
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", "s", "-1s", "+1s", "1.s", ".5s", "1..5s", "2 weeks", "2S", "1m 30", "soon", "1e3s", "0.5ms",
            "9999d",
        ] {
            assert!(period(text).is_err(), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1MiB",
            "1MiB2KiB",
            "1mib",
            "16M",
            "0.3B",
            "99999999999GiB",
            "1.0000000001GiB",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_every_unit() {
        let cases = [
            ("16MiB", 16 << 20),
            ("64KiB", 65_536),
            ("1.5GiB", 3 << 29),
            ("500kB", 500_000),
            ("3MB", 3_000_000),
            ("2GB", 2_000_000_000),
            ("1316B", 1_316),
        ];
        for (text, bytes) in cases {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn bit_rates_are_read_and_shown_with_their_unit() {
        let rate = |text: &str| text.parse::<BitRate>().map(BitRate::bits_per_second);
        for (text, bits) in [
            ("0bit/s", 0),
            ("500kbit/s", 500_000),
            ("1.5Mbit/s", 1_500_000),
            ("2 Gbit/s", 2_000_000_000),
        ] {
            assert_eq!(rate(text), Ok(bits), "{text}");
            assert_eq!(rate(&BitRate::from_bits_per_second(bits).to_string()), Ok(bits));
        }
        assert_eq!(
            rate("50").unwrap_err().to_string(),
            r#""50" has no unit: write it as for example "50Mbit/s""#
        );
        for text in ["", "Mbit/s", "50Mbps", "0.5bit/s", "-1bit/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn they_are_shown_in_the_largest_exact_unit() {
        assert_eq!(Period::from_millis(300).to_string(), "300ms");
        assert_eq!(Period::from_secs(90).to_string(), "90s");
        assert_eq!(Period::default().to_string(), "0s");
        assert_eq!(ByteSize::from_mib(16).to_string(), "16MiB");
        assert_eq!(ByteSize::from_bytes(16_777_215).to_string(), "16777215B");
        assert_eq!(ByteSize::from_bytes(0).to_string(), "0B");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(millis in 0..=MAX_PERIOD_MS, bytes: u64) {
            prop_assert_eq!(period(&Period::from_millis(millis).to_string()), Ok(millis));
            prop_assert_eq!(size(&ByteSize::from_bytes(bytes).to_string()), Ok(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = period(&text);
            let _ = size(&text);
        }
    }
}
