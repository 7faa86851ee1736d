//! Compares the fast search with a plain one, and both with the chunks of restic's own chunker.

use proptest::prelude::*;

use super::*;

const POLYNOMIAL: Polynomial = Polynomial(0x3D_A335_8B4D_C173);

/// xorshift64: a few lines in any language, so that restic's chunker could be given the same bytes.
struct Xorshift(u64);

impl rand::TryRng for Xorshift {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(u32::try_from(self.try_next_u64()? >> 32).unwrap())
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Ok(self.0)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.try_next_u64()?.to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rand::Rng::fill_bytes(&mut Xorshift(seed), &mut bytes);
    bytes
}

/// All chunks of `data`, read repeatedly in pieces of the given sizes.
fn cuts(tables: &Tables, data: &[u8], reads: &[usize]) -> Vec<usize> {
    let mut lengths = Vec::new();
    let (mut start, mut end, mut searched) = (0, 0, 0);
    let mut reads = reads.iter().cycle();
    while start < data.len() {
        match tables.find_cut(&data[start..end], searched) {
            Some(length) => {
                lengths.push(length);
                (start, searched) = (start + length, 0);
            }
            None if end == data.len() => {
                lengths.push(end - start);
                start = end;
            }
            None => {
                searched = end - start;
                end = data.len().min(end + reads.next().unwrap());
            }
        }
    }
    lengths
}

/// All chunks by the definition: byte by byte, as restic's documentation describes it.
fn plain_cut(polynomial: Polynomial, chunk: &[u8]) -> Option<usize> {
    let append = |digest: u64, byte: u8| polynomial.remainder((u128::from(digest) << 8) | u128::from(byte));
    let leave: Vec<u64> =
        (0..=255).map(|byte| (0..WINDOW - 1).fold(append(0, byte), |digest, _| append(digest, 0))).collect();
    let mut digest = 0;
    for (at, byte) in chunk.iter().enumerate() {
        if at >= WINDOW {
            digest ^= leave[usize::from(chunk[at - WINDOW])];
        }
        digest = append(digest, *byte);
        let length = at + 1;
        if length >= MIN_SIZE && (digest.trailing_zeros() >= 20 || length == MAX_SIZE) {
            return Some(length);
        }
    }
    None
}

#[test]
fn the_cuts_are_those_of_restic() {
    let data = random_bytes(1, 32 << 20);
    let hash = crate::id::Id::of(&data).to_string();
    assert_eq!(hash, "af4827fe4b693d3b40a9f80657435495de3e80184d056edc6ce42324638d01cb");
    let expected = [
        856_758, 925_606, 3_202_690, 2_320_089, 1_213_232, 3_934_002, 1_548_952, 1_311_995, 2_666_597,
        755_906, 6_212_272, 818_856, 719_335, 1_792_502, 1_956_026, 611_997, 2_220_593, 487_024,
    ];
    let tables = Tables::new(POLYNOMIAL).unwrap();
    assert_eq!(cuts(&tables, &data, &[32 << 20]), expected);
    assert_eq!(cuts(&tables, &data, &[512 * 1024]), expected);
    assert_eq!(cuts(&tables, &data, &[100_003, 7, 60_000]), expected);
    let other = Tables::new(Polynomial(0x38_1fc0_1194_9e1f)).unwrap();
    let expected = [533_280, 877_696, 715_538, 2_365_305, 1_599_731, 760_194, 773_475, 2_273_369];
    assert_eq!(cuts(&other, &data, &[1 << 20])[..expected.len()], expected);
}

#[test]
fn polynomials_are_derived_from_random_numbers_as_restic_does() {
    let mut rng = Xorshift(7);
    let derived: Vec<_> = (0..3).map(|_| Polynomial::random(&mut rng).to_string()).collect();
    assert_eq!(derived, ["381fc011949e1f", "24fd4836198687", "259f79c8c32fad"]);
}

#[rstest::rstest]
#[case(0, 3 * 1024 * 1024 + 5, &[524_288, 524_288, 524_288, 524_288, 524_288, 524_288, 5], "every place is a cut")]
#[case(1, 20 * 1024 * 1024, &[8_388_608, 8_388_608, 4_194_304], "no place is a cut")]
#[case(1, 8 * 1024 * 1024, &[8_388_608], "exactly the longest chunk")]
#[case(0, 512 * 1024 - 1, &[524_287], "shorter than the shortest chunk")]
#[case(0, 0, &[], "an empty file has no chunk")]
fn one_byte_over_and_over(
    #[case] byte: u8,
    #[case] length: usize,
    #[case] expected: &[usize],
    #[case] reason: &str,
) {
    let tables = Tables::new(POLYNOMIAL).unwrap();
    assert_eq!(cuts(&tables, &vec![byte; length], &[1 << 20]), expected, "{reason}");
}

#[test]
fn a_polynomial_of_another_degree_is_refused() {
    for bits in [0, 7, 1 << 52, 1 << 54, u64::MAX] {
        assert!(Tables::new(Polynomial(bits)).is_err());
    }
}

/// Data that splits often, never, and everywhere in turn: few different bytes, zeros, repetitions.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (1_u64.., 1_usize..400_000).prop_map(|(seed, length)| random_bytes(seed, length)),
        (1_u64.., 1_usize..400_000).prop_map(|(seed, length)| {
            random_bytes(seed, length).into_iter().map(|byte| byte & 1).collect()
        }),
        (any::<u8>(), 1_usize..100_000).prop_map(|(byte, length)| vec![byte; length]),
        (1_u64.., 1_usize..200, 1_usize..1000)
            .prop_map(|(seed, length, times)| random_bytes(seed, length).repeat(times)),
    ];
    (1_u64.., proptest::collection::vec(piece, 1..12)).prop_map(|(seed, pieces)| {
        let mut data = random_bytes(seed, MIN_SIZE - 100);
        data.extend(pieces.concat());
        data
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_fast_search_finds_what_the_plain_one_finds(
        data in pieces(),
        reads in proptest::collection::vec(1_usize..300_000, 1..20),
    ) {
        let tables = Tables::new(POLYNOMIAL).unwrap();
        let found = cuts(&tables, &data, &reads);
        let mut start = 0;
        for length in found {
            let expected = plain_cut(POLYNOMIAL, &data[start..]).unwrap_or(data.len() - start);
            prop_assert_eq!(length, expected);
            start += length;
        }
        prop_assert_eq!(start, data.len());
    }
}

#[rstest::rstest]
#[case(ZEROS, MIN_SIZE)]
#[case(LONG_ZEROS, MAX_SIZE)]
fn the_blobs_of_zeros_are_the_hashes_of_as_many_zeros(#[case] blob: BlobId, #[case] length: usize) {
    assert_eq!(Id::of(&vec![0; length]), blob.0);
    assert_eq!(length_of_zeros(&blob), Some(length as u64));
}
