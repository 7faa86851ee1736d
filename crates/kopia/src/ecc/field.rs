//! Arithmetic in the field of 256 elements, and the reconstruction of shards. The code's matrix is the Vandermonde
//! matrix, multiplied so that its upper part is the identity: data shards are stored as they are.

/// x^8 + x^4 + x^3 + x^2 + 1.
const POLYNOMIAL: u16 = 0x11d;

struct Tables {
    logarithm: [u8; 256],
    power: [u8; 512],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables { logarithm: [0; 256], power: [0; 512] };
    let mut value: u16 = 1;
    let mut exponent = 0;
    while exponent < 255 {
        tables.power[exponent] = value.to_le_bytes()[0];
        tables.power[exponent + 255] = value.to_le_bytes()[0];
        #[allow(clippy::cast_possible_truncation, reason = "less than 255")]
        let logarithm = exponent as u8;
        tables.logarithm[value as usize] = logarithm;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        exponent += 1;
    }
    tables
}

fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    TABLES.power[TABLES.logarithm[a as usize] as usize + TABLES.logarithm[b as usize] as usize]
}

fn inverse(a: u8) -> u8 {
    TABLES.power[255 - TABLES.logarithm[a as usize] as usize]
}

fn raise(a: u8, exponent: usize) -> u8 {
    match (a, exponent) {
        (_, 0) => 1,
        (0, _) => 0,
        _ => TABLES.power[TABLES.logarithm[a as usize] as usize * exponent % 255],
    }
}

type Matrix = Vec<Vec<u8>>;

/// The inverse by Gauss and Jordan; None if the matrix has none.
fn invert(mut matrix: Matrix) -> Option<Matrix> {
    let size = matrix.len();
    for (number, row) in matrix.iter_mut().enumerate() {
        row.resize(2 * size, 0);
        row[size + number] = 1;
    }
    for column in 0..size {
        let pivot = (column..size).find(|row| matrix[*row][column] != 0)?;
        matrix.swap(column, pivot);
        let factor = inverse(matrix[column][column]);
        matrix[column].iter_mut().for_each(|value| *value = multiply(*value, factor));
        let base = matrix[column].clone();
        for (number, row) in matrix.iter_mut().enumerate() {
            let factor = row[column];
            if number != column && factor != 0 {
                add_multiple(row, &base, factor);
            }
        }
    }
    Some(matrix.into_iter().map(|row| row[size..].to_vec()).collect())
}

/// Adds a multiple of `from` to `to`.
fn add_multiple(to: &mut [u8], from: &[u8], factor: u8) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= multiply(*from, factor);
    }
}

/// The matrix of the code: a row for each shard, a column for each data shard.
pub(super) fn code(data: usize, total: usize) -> Option<Matrix> {
    let number = |row: usize| u8::try_from(row).ok();
    let vandermonde: Matrix = (0..total)
        .map(|row| Some((0..data).map(|column| raise(number(row).unwrap_or(0), column)).collect()))
        .collect::<Option<_>>()?;
    let top = invert(vandermonde[..data].to_vec())?;
    let product = |row: &Vec<u8>| {
        let mut sum = vec![0; data];
        row.iter().zip(&top).for_each(|(factor, from)| add_multiple(&mut sum, from, *factor));
        sum
    };
    Some(vandermonde.iter().map(product).collect())
}

/// Fills in the missing data shards. None if too few are left.
pub(super) fn reconstruct(shards: &mut [Option<Vec<u8>>], data: usize) -> Option<()> {
    let left: Vec<usize> = (0..shards.len()).filter(|number| shards[*number].is_some()).take(data).collect();
    if left.len() < data {
        return None;
    }
    let code = code(data, shards.len())?;
    let decode = invert(left.iter().map(|row| code[*row].clone()).collect())?;
    for missing in (0..data).filter(|number| shards[*number].is_none()).collect::<Vec<_>>() {
        let mut shard = vec![0; shards[left[0]].as_ref()?.len()];
        for (factor, from) in decode[missing].iter().zip(&left) {
            add_multiple(&mut shard, shards[*from].as_ref()?, *factor);
        }
        shards[missing] = Some(shard);
    }
    Some(())
}
