use super::*;

/// Wraps as kopia does; only for these tests.
fn wrap(correction: &Correction, plain: &[u8]) -> Vec<u8> {
    let length = plain.len() + LENGTH;
    let few_input = 2 * CRC * (correction.data + correction.parity);
    let (data, parity, shard, blocks, padded) = if length <= few_input {
        (SMALL.0, SMALL.1, length.div_ceil(SMALL.0), 1, true)
    } else if length <= correction.data * correction.shard {
        (correction.data, correction.parity, length.div_ceil(correction.data), 1, true)
    } else {
        let blocks = length.div_ceil(correction.data * correction.shard);
        (correction.data, correction.parity, correction.shard, blocks, false)
    };
    let mut input = u32::try_from(plain.len()).unwrap().to_be_bytes().to_vec();
    input.extend_from_slice(plain);
    input.resize(data * shard * blocks, 0);
    let code = field::code(data, data + parity).unwrap();
    let mut out = Vec::new();
    for block in input.chunks(data * shard) {
        for row in &code[data..] {
            let mut sum = vec![0; shard];
            for (factor, from) in row.iter().zip(block.chunks(shard)) {
                let single: Vec<Option<Vec<u8>>> = vec![Some(from.to_vec())];
                for (to, from) in sum.iter_mut().zip(single[0].as_ref().unwrap()) {
                    *to ^= field_multiply(*from, *factor);
                }
            }
            out.extend(crc32fast::hash(&sum).to_be_bytes());
            out.extend(sum);
        }
    }
    let stored = if padded { input.len() } else { length };
    for (number, part) in input.chunks(shard).enumerate() {
        let left = stored.saturating_sub(number * shard).min(shard);
        if left == 0 {
            break;
        }
        out.extend(crc32fast::hash(part).to_be_bytes());
        out.extend(&part[..left]);
    }
    out
}

/// Slow, but independent of the tables.
fn field_multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = (a << 1) ^ if a & 0x80 == 0 { 0 } else { 0x1d };
        b >>= 1;
    }
    product
}

fn sample(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251).to_le_bytes()[0]).collect()
}

#[rstest::rstest]
fn what_is_wrapped_is_unwrapped(
    #[values(1, 2, 5, 10, 50, 100)] percent: u32,
    #[values(0, 1, 7, 28, 500, 4000, 20_000, 100_000)] length: usize,
) {
    let correction = Correction::new(ALGORITHM, percent).unwrap();
    let plain = sample(length);
    assert_eq!(correction.unwrap(&wrap(&correction, &plain)).unwrap(), plain);
}

#[test]
fn damage_is_repaired_or_reported() {
    let correction = Correction::new(ALGORITHM, 10).unwrap();
    for length in [100, 5000, 30_000] {
        let plain = sample(length);
        let wrapped = wrap(&correction, &plain);
        for at in (0..wrapped.len()).step_by(97) {
            let mut damaged = wrapped.clone();
            damaged[at] ^= 0x40;
            assert_eq!(correction.unwrap(&damaged).unwrap(), plain, "byte {at} of {length}");
        }
        let mut destroyed = wrapped;
        destroyed.iter_mut().step_by(20).for_each(|byte| *byte ^= 0x40);
        assert!(correction.unwrap(&destroyed).is_err());
    }
}

proptest::proptest! {
    #[test]
    fn random_bytes_are_an_error_or_short(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..3000),
        percent in 1_u32..=100,
    ) {
        let correction = Correction::new(ALGORITHM, percent).unwrap();
        if let Ok(plain) = correction.unwrap(&bytes) {
            proptest::prop_assert!(plain.len() <= bytes.len() + 128 * 128 * 8);
        }
    }
}

#[test]
fn other_algorithms_are_refused_by_name() {
    let error = Correction::new("FOUNTAIN", 5).unwrap_err().to_string();
    assert!(error.contains("'FOUNTAIN'"), "{error}");
    assert!(Correction::new(ALGORITHM, 101).is_err());
}
