//! Polynomials over GF(2), one coefficient per bit: the polynomial of a repository decides where its files are split.
//! Chosen at `init`, stored in the repository's config.

use std::str::FromStr;

use crate::error::Error;

/// The degree of every polynomial that restic generates: the largest prime below 64 - 8.
pub const DEGREE: u32 = 53;

/// A polynomial; written in hexadecimal digits, as in the repository's config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Polynomial(pub u64);

impl Polynomial {
    /// A random irreducible polynomial of degree 53.
    pub fn random(rng: &mut impl rand::Rng) -> Self {
        // One in 27 of the candidates is irreducible, so this ends soon.
        loop {
            let bits = rng.next_u64() & ((1 << (DEGREE + 1)) - 1);
            let candidate = Self(bits | (1 << DEGREE) | 1);
            if candidate.is_irreducible() {
                return candidate;
            }
        }
    }

    /// `None` for the zero polynomial, which has no degree.
    pub fn degree(self) -> Option<u32> {
        self.0.checked_ilog2()
    }

    /// Whether it is not a product of smaller polynomials: Ben-Or's test.
    pub fn is_irreducible(self) -> bool {
        let Some(degree @ 1..) = self.degree() else {
            return false;
        };
        let x = self.remainder(2);
        let mut power = x;
        (0..degree / 2).all(|_| {
            power = self.remainder(square(power));
            greatest_common_divisor(self.0, power ^ x) == 1
        })
    }

    /// The remainder of `dividend` by this polynomial; the dividend itself for the zero polynomial.
    pub(super) fn remainder(self, mut dividend: u128) -> u64 {
        if let Some(degree) = self.degree() {
            while let Some(excess) = dividend.checked_ilog2().and_then(|top| top.checked_sub(degree)) {
                dividend ^= u128::from(self.0) << excess;
            }
        }
        // A remainder is shorter than the divisor, which has at most 64 bits.
        u64::try_from(dividend).unwrap_or_default()
    }
}

impl std::fmt::Display for Polynomial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for Polynomial {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let only_digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = only_digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        bits.map(Self).ok_or_else(|| {
            Error::invalid(format!("the chunker polynomial '{text}'"), "not up to 16 hexadecimal digits")
        })
    }
}

/// Squaring spreads the bits apart: the mixed terms cancel.
fn square(value: u64) -> u128 {
    (0..64).filter(|bit| value >> bit & 1 == 1).fold(0, |sum, bit| sum | 1 << (2 * bit))
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, Polynomial(b).remainder(a.into()));
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rstest::rstest]
    #[case(0, false, "zero")]
    #[case(1, false, "a unit")]
    #[case(2, true, "x")]
    #[case(3, true, "x+1")]
    #[case(5, false, "(x+1)^2")]
    #[case(7, true, "x^2+x+1")]
    #[case(0x3D_A335_8B4D_C173, true, "one that restic's tests use")]
    #[case(0x38_1fc0_1194_9e1f, true, "one that restic derived")]
    #[case(0x38_1fc0_1194_9e1d, false, "its neighbour")]
    #[case(0x20_0000_0000_0001, false, "x^53+1 is divided by x+1")]
    fn irreducible_polynomials_are_recognised(
        #[case] bits: u64,
        #[case] irreducible: bool,
        #[case] reason: &str,
    ) {
        assert_eq!(Polynomial(bits).is_irreducible(), irreducible, "{reason}");
    }

    #[rstest::rstest]
    #[case("")]
    #[case("+1")]
    #[case("0x3da3358b4dc173")]
    #[case("11112222333344445")]
    fn what_is_no_hexadecimal_number_is_refused(#[case] text: &str) {
        assert!(text.parse::<Polynomial>().is_err());
    }

    #[test]
    fn a_polynomial_is_written_as_in_the_configuration() {
        assert_eq!(Polynomial(0x3D_A335_8B4D_C173).to_string(), "3da3358b4dc173");
        assert_eq!("3DA3358b4dc173".parse::<Polynomial>().unwrap(), Polynomial(0x3D_A335_8B4D_C173));
    }

    proptest! {
        #[test]
        fn a_product_is_reducible(a in 2_u64..1 << 26, b in 2_u64..1 << 26) {
            let product = (0..26).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ (a << bit));
            prop_assert!(!Polynomial(product).is_irreducible());
        }

        #[test]
        fn a_random_polynomial_is_irreducible_and_of_degree_53(seed: u64) {
            let mut rng = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(seed);
            let polynomial = Polynomial::random(&mut rng);
            prop_assert_eq!(polynomial.degree(), Some(DEGREE));
            prop_assert!(polynomial.is_irreducible());
        }
    }
}
