use std::io::Write;

use super::*;

fn stored(id: u32, plain: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    let stream = match family(id).unwrap() {
        Family::Gzip => {
            // Two members.
            let member = |part: &[u8]| {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(part).unwrap();
                encoder.finish().unwrap()
            };
            let (first, second) = plain.split_at(plain.len() / 2);
            [member(first), member(second)].concat()
        }
        Family::Deflate => {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Family::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Family::Zstd => zstd::bulk::compress(plain, 1).unwrap(),
        Family::S2 => s2::tests::uncompressed(plain),
    };
    [id.to_be_bytes().to_vec(), stream].concat()
}

#[test]
fn every_compression_gives_back_exactly_its_bytes() {
    let plain: Vec<u8> = b"some text that is repeated; ".repeat(1000);
    for (id, name) in COMPRESSIONS {
        let stored = stored(id, &plain);
        assert_eq!(decompress(id, &stored, plain.len()).unwrap(), plain, "{name}");
        assert_eq!(decompress_any(&stored, plain.len()).unwrap(), plain, "{name}");
        for wrong in [plain.len() - 1, plain.len() + 1, 0] {
            assert!(decompress(id, &stored, wrong).is_err(), "{name} with {wrong} bytes");
        }
        assert!(decompress(id, &stored[..stored.len() / 2], plain.len()).is_err(), "{name} cut off");
        assert!(decompress(id ^ 1, &stored, plain.len()).is_err(), "{name} by another number");
    }
}

#[test]
fn a_bomb_does_not_explode() {
    let plain = vec![0; 64 << 20];
    for id in [0x1000, 0x1100, 0x1400, 0x1500] {
        let stored = stored(id, &plain);
        assert!(stored.len() < 1 << 20);
        assert!(decompress(id, &stored, 1000).is_err());
    }
}

#[test]
fn an_unknown_compression_is_named() {
    assert!(check(0x1204).unwrap_err().to_string().contains("0x1204"));
    assert!(matches!(decompress_any(&0x9999_u32.to_be_bytes(), 10), Err(Problem::Unknown(_))));
}

proptest::proptest! {
    #[test]
    fn random_streams_are_bounded(
        family in 0_usize..18,
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400),
    ) {
        let stored = [COMPRESSIONS[family].0.to_be_bytes().to_vec(), bytes].concat();
        if let Ok(plain) = decompress_any(&stored, 5000) {
            proptest::prop_assert!(plain.len() <= 5000);
        }
    }
}
