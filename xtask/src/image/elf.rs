//! Whether a program depends on other files: takes the bytes of an ELF file and returns its loader and libraries.
//! `lifeboat.rs` refuses to put a program into an empty image in which it would not start.
use anyhow::{Context, Result, bail};

const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;

/// What a program needs from the file system to start.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The dynamic loader, by path.
    pub(super) interpreter: Option<String>,
    /// The number of shared libraries.
    pub(super) libraries: usize,
}

impl Needs {
    pub(super) fn nothing(&self) -> bool {
        *self == Needs::default()
    }
}

/// Reads the program headers of a 64-bit little-endian ELF file. A static-pie program has a dynamic section too (for
/// its own relocations), so its entries are counted.
pub(super) fn needs(file: &[u8]) -> Result<Needs> {
    if file.get(..6) != Some(b"\x7fELF\x02\x01".as_slice()) {
        bail!("not a 64-bit little-endian ELF program");
    }
    let table = offset(u64_at(file, 0x20)?)?;
    let entry_size = usize::from(u16_at(file, 0x36)?);
    let entries = usize::from(u16_at(file, 0x38)?);
    let mut needs = Needs::default();
    for index in 0..entries {
        let header = slice(file, table.saturating_add(index.saturating_mul(entry_size)), 56)?;
        let segment = || slice(file, offset(u64_at(header, 0x08)?)?, offset(u64_at(header, 0x20)?)?);
        match u32_at(header, 0)? {
            PT_INTERP => {
                let path = String::from_utf8_lossy(segment()?);
                needs.interpreter = Some(path.trim_end_matches('\0').to_owned());
            }
            PT_DYNAMIC => needs.libraries = count_libraries(segment()?)?,
            _ => {}
        }
    }
    Ok(needs)
}

fn count_libraries(dynamic: &[u8]) -> Result<usize> {
    let mut count = 0;
    for entry in dynamic.chunks_exact(16) {
        match u64_at(entry, 0)? {
            DT_NULL => break,
            DT_NEEDED => count += 1,
            _ => {}
        }
    }
    Ok(count)
}

fn slice(bytes: &[u8], start: usize, length: usize) -> Result<&[u8]> {
    let end = start.saturating_add(length);
    bytes.get(start..end).with_context(|| format!("the ELF file ends before byte {end}"))
}

fn offset(value: u64) -> Result<usize> {
    usize::try_from(value).context("an ELF offset does not fit this machine")
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(slice(bytes, at, 2)?.try_into()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(slice(bytes, at, 4)?.try_into()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(slice(bytes, at, 8)?.try_into()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_of_the_system_needs_a_loader_and_libraries() {
        let needs = needs(&std::fs::read("/bin/ls").unwrap()).unwrap();
        assert!(needs.interpreter.as_deref().unwrap().contains("ld-linux"), "{needs:?}");
        assert!(needs.libraries >= 1, "{needs:?}");
        assert!(!needs.nothing());
    }

    #[test]
    fn a_program_linked_statically_needs_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("main.rs");
        let program = directory.path().join("main");
        std::fs::write(&source, "fn main() {}").unwrap();
        let status = Command::new("rustc")
            .args(["-C", "target-feature=+crt-static", "-o"])
            .arg(&program)
            .arg(&source)
            .status()
            .unwrap();
        assert!(status.success());
        assert!(needs(&std::fs::read(&program).unwrap()).unwrap().nothing());
    }

    #[test]
    fn what_is_no_program_or_cut_short_is_an_error() {
        assert!(needs(b"#!/bin/sh\n").is_err());
        let ls = std::fs::read("/bin/ls").unwrap();
        assert!(needs(&ls[..100]).is_err());
    }
}
