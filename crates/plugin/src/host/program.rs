//! Why an existing file cannot be started: reads the head of a program and reports what it needs that is missing. If a
//! program's loader is missing, the kernel only reports "No such file or directory", which does not help a user.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Enough for the ELF header and all program headers of any linker's output.
const HEAD: u64 = 16 * 1024;

/// What is wrong with a program, if its head shows it.
pub(super) fn missing(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    diagnosis(&head, std::env::consts::ARCH, &|loader| Path::new(loader).exists())
}

fn diagnosis(head: &[u8], our_machine: &str, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    if head.is_empty() {
        return Some("the file is empty".to_owned());
    }
    if let Some(script) = head.strip_prefix(b"#!") {
        let line = script.split(|byte| *byte == b'\n').next()?;
        let interpreter = String::from_utf8_lossy(line).split_whitespace().next()?.to_owned();
        return (!exists(&interpreter))
            .then(|| format!("it is a script for '{interpreter}', which this image does not have"));
    }
    if !head.starts_with(b"\x7fELF") {
        return Some("it is neither a Linux program nor a script".to_owned());
    }
    let machine = machine(head)?;
    if machine != our_machine {
        return Some(format!("it is built for {machine} and this is {our_machine}"));
    }
    let loader = loader(head)?;
    (!exists(&loader)).then(|| {
        format!(
            "it needs the dynamic loader '{loader}', which this image does not have; use a static build of the plugin \
             (Go: CGO_ENABLED=0, Rust: target-feature=+crt-static)"
        )
    })
}

/// The architecture in Rust's spelling.
fn machine(head: &[u8]) -> Option<&'static str> {
    match u16::from_le_bytes(head.get(18..20)?.try_into().ok()?) {
        0x3e => Some("x86_64"),
        0xb7 => Some("aarch64"),
        0xf3 => Some("riscv64"),
        0x28 => Some("arm"),
        0x03 => Some("x86"),
        _ => Some("another machine"),
    }
}

/// The dynamic loader of a 64-bit little-endian program; None for a static one.
fn loader(head: &[u8]) -> Option<String> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let slice = head.get(at..at.checked_add(bytes)?)?;
        slice.iter().rev().try_fold(0_usize, |sum, byte| Some(sum.checked_mul(256)? + usize::from(*byte)))
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..count {
        let entry = table.checked_add(index.checked_mul(size)?)?;
        // PT_INTERP
        if number(entry, 4)? == 3 {
            let (offset, length) = (number(entry.checked_add(8)?, 8)?, number(entry.checked_add(32)?, 8)?);
            let text = head.get(offset..offset.checked_add(length)?)?;
            return Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The smallest ELF head of a program with a loader.
    pub(crate) fn elf(machine: u8, loader: &str) -> Vec<u8> {
        let mut head = vec![0_u8; 64 + 56];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[5] = 1;
        head[6] = 1;
        head[16] = 2;
        head[18] = machine;
        head[20] = 1;
        head[32] = 64;
        head[52] = 64;
        head[54] = 56;
        head[56] = 1;
        head[64] = 3;
        head[72] = 120;
        head[96] = u8::try_from(loader.len() + 1).unwrap();
        head.extend_from_slice(loader.as_bytes());
        head.push(0);
        head
    }

    fn diagnose(head: &[u8], there: bool) -> Option<String> {
        diagnosis(head, "x86_64", &|_| there)
    }

    #[test]
    fn a_missing_loader_is_named() {
        let head = elf(0x3e, "/lib64/ld-linux-x86-64.so.2");
        let text = diagnose(&head, false).unwrap();
        assert!(text.contains("'/lib64/ld-linux-x86-64.so.2'") && text.contains("CGO_ENABLED=0"), "{text}");
        assert_eq!(diagnose(&head, true), None);
    }

    #[test]
    fn another_machine_and_a_missing_interpreter_are_named() {
        assert_eq!(diagnose(&elf(0xb7, "/l"), true).unwrap(), "it is built for aarch64 and this is x86_64");
        assert!(diagnose(b"#!/bin/python -u\n", false).unwrap().contains("'/bin/python'"));
        assert_eq!(diagnose(b"#!/bin/sh\n", true), None);
        assert!(diagnose(b"PK\x03\x04", true).unwrap().contains("neither"));
        assert!(diagnose(b"", true).unwrap().contains("empty"));
    }

    #[test]
    fn a_cut_or_hostile_head_is_no_panic() {
        let head = elf(0x3e, "/lib");
        for end in 0..head.len() {
            let _ = diagnose(&head[..end], false);
        }
        let mut wild = head;
        wild[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(diagnose(&wild, false), None);
    }
}
