//! Kubernetes quantities: `10Gi`, `1.5G`, `500m`, `1e3`. They are only compared, so a float is exact enough.

const SUFFIXES: [(&str, f64); 13] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("m", 0.001),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(crate) struct Quantity(f64);

impl Quantity {
    pub(super) const ZERO: Self = Self(0.0);

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let number = |digits: &str, factor: f64| {
            let plain = digits.chars().all(|letter| letter.is_ascii_digit() || ".eE+-".contains(letter));
            let value: f64 = digits.parse().ok().filter(|_| plain)?;
            value.is_finite().then_some(Self(value * factor))
        };
        // `E` alone is a suffix, `1E3` an exponent: parsing the whole text as a number is tried first.
        if let Some(whole) = number(text, 1.0) {
            return Some(whole);
        }
        SUFFIXES.iter().find_map(|(suffix, factor)| number(text.strip_suffix(suffix)?, *factor))
    }

    pub(crate) fn is_at_least(self, bytes: i64) -> bool {
        #[allow(clippy::cast_precision_loss)] // compared only
        let bytes = bytes as f64;
        self.0 >= bytes
    }
}
